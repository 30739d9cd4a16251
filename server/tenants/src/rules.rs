//! Lists of limits as they are stored. What no list may say stands in `domain::plan`.

use domain::plan::{LimitRule, PlanError, check_quota, check_rules};
use serde_json::Value;

use crate::TenantsError;

/// Reads a stored list.
pub(crate) fn read(
    table: &'static str,
    id: i64,
    rules: Value,
) -> Result<Vec<LimitRule>, TenantsError> {
    serde_json::from_value(rules).map_err(|e| TenantsError::unreadable(table, id, e.to_string()))
}

/// Reads one stored limit.
pub(crate) fn read_one(
    table: &'static str,
    id: i64,
    rule: Value,
) -> Result<LimitRule, TenantsError> {
    serde_json::from_value(rule).map_err(|e| TenantsError::unreadable(table, id, e.to_string()))
}

/// Writes a list of a plan, a team or a key, unless it says what cannot be kept.
pub(crate) fn write(rules: &[LimitRule]) -> Result<Value, TenantsError> {
    written(rules, check_rules(rules))
}

/// Writes the operator's own quota at a provider, unless it says what cannot be kept.
pub(crate) fn write_quota(rules: &[LimitRule]) -> Result<Value, TenantsError> {
    written(rules, check_quota(rules))
}

fn written(rules: &[LimitRule], checked: Result<(), PlanError>) -> Result<Value, TenantsError> {
    checked.map_err(|wrong| TenantsError::invalid("limits", wrong.to_string()))?;
    serde_json::to_value(rules).map_err(|e| TenantsError::invalid("limits", e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::plan::Metric;
    use domain::window::RollingWindow;

    #[test]
    fn what_cannot_be_kept_is_not_written() {
        let window =
            |limit| LimitRule::Window { metric: Metric::Cost, window: RollingWindow::Day, limit };
        for rules in [vec![window(-1)], vec![window(1), window(2)]] {
            let refused = write(&rules);
            assert!(matches!(refused, Err(TenantsError::Invalid { what: "limits", .. })));
        }
        assert!(write_quota(&[LimitRule::Balance]).is_err());
        assert!(write(&[LimitRule::Balance]).is_ok());
    }

    #[test]
    fn what_is_written_reads_back() {
        let bucket =
            LimitRule::Bucket { metric: Metric::Tokens, rate_milli_per_s: 1_000, capacity: 60_000 };
        let rules = vec![bucket, LimitRule::Balance];
        assert_eq!(read("plans", 1, write(&rules).unwrap()).unwrap(), rules);
        let strange = serde_json::json!([{ "rule": "barter" }]);
        assert!(matches!(read("plans", 7, strange), Err(TenantsError::Unreadable { id: 7, .. })));
    }
}

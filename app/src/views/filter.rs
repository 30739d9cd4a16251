//! What a URL may ask for. Every parser takes the text of one query parameter and answers `None`
//! for what it does not know; the page then uses the default and says so.

use std::fmt;

/// A billing month, `2026-11`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    year: i16,
    month: i8,
}

impl Month {
    /// Reads `2026-11`. Years 2000 to 2999: nothing was metered before, and a typing mistake
    /// should not ask the books for the year 20266.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (year, month) = text.split_once('-')?;
        if year.len() != 4 || month.len() != 2 || !text.is_ascii() {
            return None;
        }
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(year) || !digits(month) {
            return None;
        }
        Self::new(year.parse().ok()?, month.parse().ok()?)
    }

    /// The month of a year, when both are sensible.
    #[must_use]
    pub fn new(year: i16, month: i8) -> Option<Self> {
        ((2000..=2999).contains(&year) && (1..=12).contains(&month)).then_some(Self { year, month })
    }

    /// The year.
    #[must_use]
    pub const fn year(self) -> i16 {
        self.year
    }

    /// The month, 1 to 12.
    #[must_use]
    pub const fn month(self) -> i8 {
        self.month
    }

    /// The month before.
    #[must_use]
    pub const fn previous(self) -> Self {
        if self.month > 1 {
            Self { year: self.year, month: self.month - 1 }
        } else {
            Self { year: self.year - 1, month: 12 }
        }
    }

    /// How many days the month has.
    #[must_use]
    pub const fn days(self) -> u8 {
        match self.month {
            4 | 6 | 9 | 11 => 30,
            2 if self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0) => 29,
            2 => 28,
            _ => 31,
        }
    }
}

impl fmt::Display for Month {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04}-{:02}", self.year, self.month)
    }
}

/// The traffic window: the last so many hours up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficRange {
    /// `1h`
    Hour1,
    /// `6h`
    Hours6,
    /// `24h`, the default.
    #[default]
    Hours24,
    /// `7d`
    Days7,
    /// `30d`
    Days30,
    /// `90d`
    Days90,
}

impl TrafficRange {
    /// Every range, shortest first.
    pub const ALL: [Self; 6] =
        [Self::Hour1, Self::Hours6, Self::Hours24, Self::Days7, Self::Days30, Self::Days90];

    /// The range as it stands in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour1 => "1h",
            Self::Hours6 => "6h",
            Self::Hours24 => "24h",
            Self::Days7 => "7d",
            Self::Days30 => "30d",
            Self::Days90 => "90d",
        }
    }

    /// The range in words, to be put after "the last".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Hour1 => "hour",
            Self::Hours6 => "6 hours",
            Self::Hours24 => "24 hours",
            Self::Days7 => "7 days",
            Self::Days30 => "30 days",
            Self::Days90 => "90 days",
        }
    }

    /// How long it is, in hours.
    #[must_use]
    pub const fn hours(self) -> i64 {
        match self {
            Self::Hour1 => 1,
            Self::Hours6 => 6,
            Self::Hours24 => 24,
            Self::Days7 => 7 * 24,
            Self::Days30 => 30 * 24,
            Self::Days90 => 90 * 24,
        }
    }

    /// Reads the URL's form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.as_str() == text)
    }
}

/// What the model mix counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MixMetric {
    /// Tokens by class.
    #[default]
    Tokens,
    /// What tenants are charged.
    Cost,
    /// Calls.
    Requests,
}

impl MixMetric {
    /// Every metric, in the order of the switch.
    pub const ALL: [Self; 3] = [Self::Tokens, Self::Cost, Self::Requests];

    /// The metric as it stands in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Requests => "requests",
        }
    }

    /// Reads the URL's form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.as_str() == text)
    }
}

/// How spend by tenant is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpendOrder {
    /// Settled plus held, largest first.
    #[default]
    Spend,
    /// Settled plus held as a part of the cap, largest first; tenants without a cap come last.
    Cap,
}

impl SpendOrder {
    /// Both orders.
    pub const ALL: [Self; 2] = [Self::Spend, Self::Cap];

    /// The order as it stands in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spend => "spend",
            Self::Cap => "cap",
        }
    }

    /// Reads the URL's form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.as_str() == text)
    }
}

/// Which tenants are listed, in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantFilter {
    /// Text found in name or slug (case ignored), or the last four characters of a key.
    /// Empty: all.
    pub q: String,
    /// The plan's name. Empty: all.
    pub plan: String,
    /// The status. `None`: all but archived.
    pub status: Option<super::TenantStatus>,
    /// Column and direction.
    pub sort: TenantSort,
    /// Page from 1; a page past the end answers no rows.
    pub page: i64,
}

impl TenantFilter {
    /// Rows on one page.
    pub const PAGE_ROWS: i64 = 50;
}

impl Default for TenantFilter {
    fn default() -> Self {
        Self {
            q: String::new(),
            plan: String::new(),
            status: None,
            sort: TenantSort::default(),
            page: 1,
        }
    }
}

/// Column and direction of the list of tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantSort {
    /// The column.
    pub column: TenantColumn,
    /// Largest first.
    pub descending: bool,
}

impl Default for TenantSort {
    fn default() -> Self {
        Self { column: TenantColumn::Spend, descending: true }
    }
}

impl TenantSort {
    /// Reads `-spend`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix('-').unwrap_or(text);
        let column = TenantColumn::ALL.into_iter().find(|column| column.as_str() == name)?;
        Some(Self { column, descending: text.starts_with('-') })
    }
}

impl fmt::Display for TenantSort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.descending { "-" } else { "" };
        write!(formatter, "{sign}{}", self.column.as_str())
    }
}

/// A column that the list of tenants can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantColumn {
    /// The tenant's name.
    Name,
    /// Settled plus held this month.
    Spend,
    /// Spend as a part of the cap.
    Cap,
    /// Requests in the last 24 hours.
    Requests,
    /// When the last call came.
    LastRequest,
    /// When the tenant was created.
    Created,
}

impl TenantColumn {
    /// Every column.
    pub const ALL: [Self; 6] =
        [Self::Name, Self::Spend, Self::Cap, Self::Requests, Self::LastRequest, Self::Created];

    /// The column as it stands in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Spend => "spend",
            Self::Cap => "cap",
            Self::Requests => "requests",
            Self::LastRequest => "last_request",
            Self::Created => "created",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sensible_month_is_read() {
        let november = Month::parse("2026-11").unwrap();
        assert_eq!((november.year(), november.month()), (2026, 11));
        assert_eq!(november.to_string(), "2026-11");
        for text in ["2026-13", "2026-00", "2026-1", "1999-01", "20266-1", "+026-11", "2026-+1", ""]
        {
            assert_eq!(Month::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn months_know_their_days_and_the_one_before() {
        let days = |text: &str| Month::parse(text).unwrap().days();
        assert_eq!(
            [days("2024-02"), days("2026-02"), days("2100-02"), days("2026-11"), days("2026-12")],
            [29, 28, 28, 30, 31]
        );
        assert_eq!(Month::parse("2026-01").unwrap().previous().to_string(), "2025-12");
    }

    #[test]
    fn what_the_url_says_survives_the_round_trip() {
        for range in TrafficRange::ALL {
            assert_eq!(TrafficRange::parse(range.as_str()), Some(range));
        }
        for text in ["name", "-spend", "cap", "-last_request"] {
            assert_eq!(TenantSort::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(TenantSort::parse("--spend"), None);
        assert_eq!(MixMetric::parse("money"), None);
    }
}

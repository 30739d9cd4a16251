//! What can go wrong, by what the caller can do about it.

use sqlx::error::{DatabaseError, ErrorKind};

/// A change or a question failed.
#[derive(Debug, thiserror::Error)]
pub enum TenantsError {
    /// Too much at once: the same again in a moment may pass.
    #[error("busy: try again in a moment")]
    Busy,
    /// The database cannot be reached.
    #[error("the database cannot be reached")]
    Unavailable(#[source] sqlx::Error),
    /// Something of that name is there already, or is in a state that does not allow it.
    #[error("conflict: {what}")]
    Conflict {
        /// What stands in the way.
        what: &'static str,
    },
    /// There is no such thing, or not for this tenant.
    #[error("no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
    /// The caller's value cannot be used.
    #[error("{what}: {why}")]
    Invalid {
        /// Which value.
        what: &'static str,
        /// What is wrong with it, in words for the person who typed it.
        why: String,
    },
    /// A sealed value does not open: another key-encryption key, another row, or damage.
    #[error("sealed value does not open: wrong key-encryption key, moved row, or damage")]
    Sealed,
    /// A row holds what this version of Weir cannot read.
    #[error("{table} {id} cannot be read: {why}")]
    Unreadable {
        /// The table.
        table: &'static str,
        /// The row.
        id: i64,
        /// What is wrong with it.
        why: String,
    },
    /// The database said something that nobody expected.
    #[error("unexpected answer of the database")]
    Database(#[source] sqlx::Error),
}

impl TenantsError {
    pub(crate) fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { what, why: why.into() }
    }

    pub(crate) fn unreadable(table: &'static str, id: i64, why: impl Into<String>) -> Self {
        Self::Unreadable { table, id, why: why.into() }
    }
}

impl From<sqlx::Error> for TenantsError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match &error {
            E::PoolTimedOut => Self::Busy,
            E::RowNotFound => Self::NotFound { what: "row" },
            E::Io(_) | E::Tls(_) | E::PoolClosed | E::WorkerCrashed | E::Protocol(_) => {
                Self::Unavailable(error)
            }
            E::Database(refused) => refusal(refused.as_ref()).unwrap_or_else(|| database(error)),
            _ => Self::Database(error),
        }
    }
}

/// A constraint that said no.
fn refusal(refused: &dyn DatabaseError) -> Option<TenantsError> {
    let what = thing(refused.constraint().unwrap_or_default());
    match refused.kind() {
        ErrorKind::UniqueViolation => Some(TenantsError::Conflict { what }),
        ErrorKind::ForeignKeyViolation => Some(TenantsError::NotFound { what }),
        ErrorKind::CheckViolation => Some(TenantsError::invalid(what, "out of range")),
        _ => None,
    }
}

/// Trouble of the server itself, told by its class of codes.
fn database(error: sqlx::Error) -> TenantsError {
    let code = error.as_database_error().and_then(|e| e.code()).map(|code| code.into_owned());
    match code.as_deref() {
        // Serialisation failure, deadlock, lock not available, too many connections.
        Some("40001" | "40P01" | "55P03" | "53300") => TenantsError::Busy,
        // 08: connection; 57P: the server stops or starts.
        Some(code) if code.starts_with("08") || code.starts_with("57P") => {
            TenantsError::Unavailable(error)
        }
        _ => TenantsError::Database(error),
    }
}

/// The thing that a constraint is about, in our words.
fn thing(constraint: &str) -> &'static str {
    match constraint {
        "tenants_slug_key" | "tenants_slug_check" => "tenant slug",
        "tenants_name_check" => "tenant name",
        "tenants_plan_fkey" => "plan",
        "plans_name_version_key" => "plan version",
        "plans_markup_check" => "markup",
        "plans_output_check" => "output bound",
        "plans_fee_check" => "request fee",
        "teams_name_key" => "team name",
        "api_keys_team_fkey" => "team",
        "api_keys_name_check" => "key name",
        "api_keys_secret_hash_key" | "api_keys_old_secret_hash_key" => "key",
        "users_email_key" | "users_email_check" => "e-mail address",
        "users_role_check" => "role",
        "teams_tenant_fkey"
        | "api_keys_tenant_fkey"
        | "users_tenant_fkey"
        | "limit_overrides_tenant_fkey" => "tenant",
        "limit_overrides_end_check" => "until",
        "limit_overrides_reason_check" => "reason",
        "plans_wait_check" => "max_wait_ms",
        "plans_weight_check" => "weight",
        "plans_request_maximum_check" => "request maximum",
        "providers_name_key" => "provider name",
        "providers_times_check" => "time-out",
        "models_name_key" => "model name",
        "model_routes_position_key" => "position of a route",
        "model_routes_weight_check" => "weight of a route",
        "model_routes_provider_fkey" => "provider",
        "model_routes_model_fkey" | "prices_model_fkey" => "model",
        "prices_from_key" => "price from that instant",
        _ => "row",
    }
}

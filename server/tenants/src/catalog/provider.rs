//! Providers: where they are, how long they may take, and what they are called with.

use domain::id::ProviderId;
use domain::plan::LimitRule;
use domain::usage::Dialect;
use secrecy::{ExposeSecret, SecretString};
use sqlx::{Connection, PgConnection, PgExecutor};

use super::MAX_LISTED;
use crate::provider_key::{Purpose, Sealer};
use crate::{TenantsError, rules};

/// So many of the last characters of a credential are shown to people, and only of one that is
/// at least four times as long.
const HINT_CHARS: usize = 4;
/// The longest time-out that can be set: a day.
const MAX_TIMEOUT_MS: i32 = 24 * 60 * 60 * 1_000;

/// What happens upstream when the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// Read on for a while, so that the provider's own count is known.
    Drain,
    /// Close at once.
    Abort,
}

impl OnDisconnect {
    /// The word used in rows and answers.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Abort => "abort",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        [Self::Drain, Self::Abort].into_iter().find(|o| o.code() == code)
    }
}

/// How long a provider may take, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until it is connected.
    pub connect_ms: i32,
    /// Until the first byte of its answer.
    pub first_byte_ms: i32,
    /// Between two bytes of its answer.
    pub idle_ms: i32,
    /// For the whole call.
    pub total_ms: i32,
    /// How long an answer is read on when its client has left.
    pub drain_ms: i32,
}

impl Default for Timeouts {
    /// Connected in 5 s, first byte after 2 min, never silent for 1 min, done in 15 min, read on for 1 min.
    fn default() -> Self {
        Self {
            connect_ms: 5_000,
            first_byte_ms: 120_000,
            idle_ms: 60_000,
            total_ms: 900_000,
            drain_ms: 60_000,
        }
    }
}

impl Timeouts {
    fn check(&self) -> Result<(), TenantsError> {
        let all = [self.connect_ms, self.first_byte_ms, self.idle_ms, self.total_ms, self.drain_ms];
        if all.into_iter().all(|ms| ms <= MAX_TIMEOUT_MS) {
            Ok(())
        } else {
            Err(TenantsError::invalid("time-out", "longer than a day"))
        }
    }
}

/// A provider, without its credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The row.
    pub id: ProviderId,
    /// Its name for people.
    pub name: String,
    /// The wire it speaks.
    pub dialect: Dialect,
    /// Where it is: what a request's path is put behind.
    pub base_url: String,
    /// Whether it has a credential.
    pub has_credential: bool,
    /// The last characters of the credential, for people.
    pub credential_hint: String,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// What happens when the client leaves.
    pub on_disconnect: OnDisconnect,
    /// Whether calls may go there.
    pub enabled: bool,
    /// The operator's own quota there, which all tenants share.
    pub quota: Vec<LimitRule>,
}

/// A provider to be made, or what of it is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProvider {
    /// Its name for people.
    pub name: String,
    /// The wire it speaks.
    pub dialect: Dialect,
    /// Where it is: `https://host` and perhaps a path.
    pub base_url: String,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// What happens when the client leaves.
    pub on_disconnect: OnDisconnect,
}

/// An address that a path can be put behind: without user, query, fragment or a slash at its end.
fn checked_base_url(url: &str) -> Result<&str, TenantsError> {
    let invalid = |why| TenantsError::invalid("base URL", why);
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| invalid("it begins with https:// or http://"))?;
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') {
        return Err(invalid("it has no host"));
    }
    let strange = |c: char| c.is_whitespace() || c.is_control() || "@?#\\".contains(c);
    if rest.contains(strange) {
        return Err(invalid("no user, query, fragment or space in it"));
    }
    Ok(url.trim_end_matches('/'))
}

fn hint(credential: &SecretString) -> String {
    let chars: Vec<char> = credential.expose_secret().chars().collect();
    if chars.len() < 4 * HINT_CHARS {
        return String::new();
    }
    chars[chars.len() - HINT_CHARS..].iter().collect()
}

/// Makes a provider; its credential, if it needs one, is sealed for its row.
///
/// # Errors
/// When the name is taken, or a value cannot be used.
pub async fn insert_provider(
    db: &mut PgConnection,
    sealer: &Sealer,
    new: &NewProvider,
    credential: Option<&SecretString>,
) -> Result<ProviderId, TenantsError> {
    new.timeouts.check()?;
    let mut change = db.begin().await?;
    let id = sqlx::query_scalar!(
        "insert into providers (name, dialect, base_url, connect_ms, first_byte_ms, idle_ms, total_ms,
                                on_disconnect, drain_ms)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id",
        new.name,
        new.dialect.code(),
        checked_base_url(&new.base_url)?,
        new.timeouts.connect_ms,
        new.timeouts.first_byte_ms,
        new.timeouts.idle_ms,
        new.timeouts.total_ms,
        new.on_disconnect.code(),
        new.timeouts.drain_ms,
    )
    .fetch_one(&mut *change)
    .await?;
    let provider = ProviderId(id);
    if credential.is_some() {
        set_credential(&mut *change, sealer, provider, credential).await?;
    }
    change.commit().await?;
    Ok(provider)
}

/// Changes all of a provider but its credential.
///
/// # Errors
/// When there is no such provider, the name is taken, or a value cannot be used.
pub async fn edit_provider(
    db: impl PgExecutor<'_>,
    provider: ProviderId,
    new: &NewProvider,
) -> Result<(), TenantsError> {
    new.timeouts.check()?;
    let done = sqlx::query!(
        "update providers
         set name = $2, dialect = $3, base_url = $4, connect_ms = $5, first_byte_ms = $6, idle_ms = $7,
             total_ms = $8, on_disconnect = $9, drain_ms = $10
         where id = $1",
        provider.0,
        new.name,
        new.dialect.code(),
        checked_base_url(&new.base_url)?,
        new.timeouts.connect_ms,
        new.timeouts.first_byte_ms,
        new.timeouts.idle_ms,
        new.timeouts.total_ms,
        new.on_disconnect.code(),
        new.timeouts.drain_ms,
    )
    .execute(db)
    .await?;
    found(done.rows_affected())
}

/// Gives a provider another credential, or none.
///
/// # Errors
/// When there is no such provider.
pub async fn set_credential(
    db: impl PgExecutor<'_>,
    sealer: &Sealer,
    provider: ProviderId,
    credential: Option<&SecretString>,
) -> Result<(), TenantsError> {
    let purpose = Purpose::provider_credential(provider);
    let sealed = credential.map(|secret| sealer.seal(purpose, secret)).transpose()?;
    let done = sqlx::query!(
        "update providers set credential_sealed = $2, credential_hint = $3 where id = $1",
        provider.0,
        sealed,
        credential.map(hint).unwrap_or_default(),
    )
    .execute(db)
    .await?;
    found(done.rows_affected())
}

/// Sets the operator's own quota at a provider. All calls of all tenants that go there count against it.
///
/// # Errors
/// When there is no such provider, or a limit cannot be kept or is none of a provider's.
pub async fn set_quota(
    db: impl PgExecutor<'_>,
    provider: ProviderId,
    quota: &[LimitRule],
) -> Result<(), TenantsError> {
    let done = sqlx::query!(
        "update providers set rules = $2 where id = $1",
        provider.0,
        rules::write_quota(quota)?,
    )
    .execute(db)
    .await?;
    found(done.rows_affected())
}

/// Lets calls go to a provider, or no more.
///
/// # Errors
/// When there is no such provider.
pub async fn set_enabled(
    db: impl PgExecutor<'_>,
    provider: ProviderId,
    enabled: bool,
) -> Result<(), TenantsError> {
    let done = sqlx::query!("update providers set enabled = $2 where id = $1", provider.0, enabled)
        .execute(db)
        .await?;
    found(done.rows_affected())
}

/// Puts all credentials under the current key-encryption key. Says how many were under another.
/// It can be broken off and begun again.
///
/// # Errors
/// When one does not open with any key that is known; those before it are done.
pub async fn rewrap_credentials(
    db: &mut PgConnection,
    sealer: &Sealer,
) -> Result<u64, TenantsError> {
    let rows = sqlx::query!(
        r#"select id, credential_sealed as "sealed!" from providers
           where credential_sealed is not null order by id"#
    )
    .fetch_all(&mut *db)
    .await?;
    let mut rewrapped = 0;
    for row in rows {
        let purpose = Purpose::provider_credential(ProviderId(row.id));
        if let Some(sealed) = sealer.rewrap(purpose, &row.sealed)? {
            // Unless somebody gave the provider another credential in between.
            let done = sqlx::query!(
                "update providers set credential_sealed = $2 where id = $1 and credential_sealed = $3",
                row.id,
                sealed,
                row.sealed,
            )
            .execute(&mut *db)
            .await?;
            rewrapped += done.rows_affected();
        }
    }
    Ok(rewrapped)
}

/// All providers, by name.
///
/// # Errors
/// When the database fails.
pub async fn list_providers(db: impl PgExecutor<'_>) -> Result<Vec<Provider>, TenantsError> {
    let rows = sqlx::query!(
        r#"select id, name, dialect, base_url, credential_sealed is not null as "has_credential!",
                  credential_hint, connect_ms, first_byte_ms, idle_ms, total_ms, on_disconnect, drain_ms,
                  enabled, rules
           from providers order by name limit $1"#,
        MAX_LISTED,
    )
    .fetch_all(db)
    .await?;
    let read = rows.into_iter().map(|row| {
        let unreadable = |why| TenantsError::unreadable("providers", row.id, why);
        Ok(Provider {
            id: ProviderId(row.id),
            dialect: Dialect::parse(&row.dialect).ok_or_else(|| unreadable("unknown dialect"))?,
            on_disconnect: OnDisconnect::parse(&row.on_disconnect)
                .ok_or_else(|| unreadable("unknown on_disconnect"))?,
            name: row.name,
            base_url: row.base_url,
            has_credential: row.has_credential,
            credential_hint: row.credential_hint,
            timeouts: Timeouts {
                connect_ms: row.connect_ms,
                first_byte_ms: row.first_byte_ms,
                idle_ms: row.idle_ms,
                total_ms: row.total_ms,
                drain_ms: row.drain_ms,
            },
            enabled: row.enabled,
            quota: rules::read("providers", row.id, row.rules)?,
        })
    });
    read.collect()
}

fn found(rows: u64) -> Result<(), TenantsError> {
    if rows == 1 { Ok(()) } else { Err(TenantsError::NotFound { what: "provider" }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_an_address_that_a_path_can_be_put_behind() {
        assert_eq!(checked_base_url("https://api.x.com/v1/").unwrap(), "https://api.x.com/v1");
        assert_eq!(checked_base_url("http://127.0.0.1:9").unwrap(), "http://127.0.0.1:9");
        for bad in [
            "",
            "api.x.com",
            "ftp://x",
            "https://",
            "https:///v1",
            "http://u:p@x",
            "https://x?a=1",
            "https://x#y",
            "https://x y",
            "https://:80",
        ] {
            assert!(checked_base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_short_credential_gives_no_hint() {
        assert_eq!(hint(&"sk-0123456789abcdef".into()), "cdef");
        assert_eq!(hint(&"short-secret".into()), "");
    }
}

//! A demonstration: twelve made-up tenants with ninety days of history, the same for the same seed and day.
//!
//! The books are filled as the gateway would have filled them: every call was put before the law of admission, and
//! events, rollups, slices and postings are sums of the same rows, in one transaction.

mod ask;
mod assemble;
mod books;
pub(crate) mod cast;
mod demand;
pub(crate) mod dice;
mod fate;
mod history;
pub(crate) mod price_list;
mod record;
mod secrets;
mod sizing;
mod stage;

use std::time::{Duration, Instant};

use domain::id::KeyId;
use domain::window::{CalendarError, UnixMs, month_period};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use tenants::api_key::{self, KeyRow, KeyStatus};
use tenants::audit::{self, NewEntry};
use tenants::password::Passwords;
use tenants::provider_key::Sealer;
use tenants::{TenantsError, catalog, instance, member, tenant};
use tokio::sync::mpsc;

use self::books::{Books, Payment};
use self::cast::CAST;
use self::demand::{DAY_MS, HISTORY_DAYS};
pub use self::history::HistoryError;
use self::history::{Day, History};
pub use self::price_list::PriceListError;
pub use self::secrets::{DemoSecrets, SecretsError};
use self::stage::Stage;

/// Who signs in as the operator.
pub const OPERATOR_EMAIL: &str = "operator@weir.example";
/// Who signs in as the owner of [`SHOWN_TENANT`].
pub const TENANT_EMAIL: &str = "maya@lumen-clinics.example";
/// The tenant that is shown: all models, and money left.
pub const SHOWN_TENANT: &str = "lumen-clinics";
/// The key of [`SHOWN_TENANT`] that is shown.
pub const SHOWN_KEY: &str = "claims";

/// What the history is drawn from.
const SEED: u64 = 20_261_130;
/// Under this lock a database is seeded: of two at once, the second finds it done.
const LOCK: i64 = 0x7765_6972_0002;
/// So many events are written at once: enough that a statement's price is shared, few enough for a moving counter.
const CHUNK_EVENTS: usize = 4_000;
/// So many chunks wait to be written while the next is thought up.
const CHUNKS_AHEAD: usize = 2;
/// Bills are paid so many days after the month.
const PAID_AFTER_DAYS: i64 = 4;
/// The name of the installation.
const INSTANCE_NAME: &str = "Weir demo";

/// A database cannot be made a demonstration.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// Somebody else's data are in it.
    #[error("the database holds tenants already: a demonstration needs one of its own")]
    NotEmpty,
    /// It is a demonstration of another version of Weir, or parts of it were removed.
    #[error("the demonstration in this database is not complete: start over")]
    Incomplete,
    /// A row could not be made.
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    /// The books could not be filled.
    #[error("the books cannot be filled")]
    Database(#[from] sqlx::Error),
    /// The history cannot be told.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The price list cannot be read.
    #[error(transparent)]
    PriceList(#[from] PriceListError),
    /// An instant is outside the calendar.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
    /// The cast, the stage and the secrets do not belong together.
    #[error("the cast of the demonstration does not fit its stage")]
    Stage,
    /// A sum does not fit.
    #[error("a sum of the demonstration does not fit into 64 bits")]
    TooLarge,
    /// The thread that thinks the history up has ended.
    #[error("the history broke off")]
    BrokeOff,
}

/// How far the seeding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Days of history that are written, and how many there are.
    pub days: (i64, i64),
    /// Events that are written.
    pub events: usize,
    /// Since the beginning.
    pub elapsed: Duration,
}

/// A demonstration that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoFacts {
    /// What was written now; nothing when it was there already.
    pub seeded: Option<Seeded>,
    /// The tenants, in the order of the cast.
    pub tenants: Vec<DemoTenant>,
}

/// What seeding wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeded {
    /// Metered calls.
    pub events: usize,
    /// Refused calls.
    pub refusals: usize,
    /// How long it took.
    pub elapsed: Duration,
}

/// A tenant of the demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemoTenant {
    /// Its name in addresses.
    pub slug: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// The name of its plan.
    pub plan: &'static str,
}

/// Makes the database a demonstration, or readies one that it is already: the providers are at `provider_base_url`,
/// and the passwords and keys are those of `secrets`.
///
/// # Errors
/// When the database is somebody else's, or fails: then nothing was written.
pub async fn demo(
    pool: &PgPool,
    sealer: &Sealer,
    secrets: &DemoSecrets,
    now: UnixMs,
    provider_base_url: &str,
    progress: impl FnMut(Progress),
) -> Result<DemoFacts, SeedError> {
    let passwords = Passwords::new();
    let mut change = pool.begin().await?;
    let db = &mut *change;
    lock(db).await?;
    let seeded = if instance::find(&mut *db).await?.demo {
        renew(db, sealer, &passwords, secrets, provider_base_url).await?;
        renew_keys(db, secrets, now).await?;
        None
    } else {
        let start = Instant::now();
        let stage = begin(db, sealer, &passwords, secrets, now, provider_base_url).await?;
        let books = fill(db, stage, now, start, progress).await?;
        Some(Seeded { events: books.0, refusals: books.1, elapsed: start.elapsed() })
    };
    change.commit().await?;
    if seeded.is_some() {
        learn(pool).await?;
    }
    let of = |t: &cast::CastTenant| DemoTenant { slug: t.slug, name: t.name, plan: t.plan };
    Ok(DemoFacts { seeded, tenants: CAST.iter().map(of).collect() })
}

/// One at a time, and without the limits that keep a page from waiting.
async fn lock(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(
        "set local statement_timeout = 0; set local lock_timeout = 0; \
         set local idle_in_transaction_session_timeout = 0",
    )
    .execute(&mut *db)
    .await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(db).await?;
    Ok(())
}

/// Makes the rows that the history refers to.
async fn begin(
    db: &mut PgConnection,
    sealer: &Sealer,
    passwords: &Passwords,
    secrets: &DemoSecrets,
    now: UnixMs,
    provider_base_url: &str,
) -> Result<Stage, SeedError> {
    let taken = sqlx::query_scalar!(
        r#"select exists (select from tenants) or exists (select from usage_events)
                  or exists (select from providers) as "taken!""#
    )
    .fetch_one(&mut *db)
    .await?;
    if taken {
        return Err(SeedError::NotEmpty);
    }
    let first = history::first_day(now);
    let stage = assemble::stage(db, sealer, secrets, first, provider_base_url).await?;
    assemble::people(db, &stage, passwords, secrets).await?;
    instance::rename(&mut *db, INSTANCE_NAME).await?;
    instance::mark_demo(&mut *db).await?;
    let entry = NewEntry {
        at: now,
        actor: "weir".to_owned(),
        action: "demo.seed".to_owned(),
        target: "instance".to_owned(),
        tenant: None,
        detail: json!({ "tenants": stage.tenants.len(), "days": HISTORY_DAYS }),
        request_id: None,
    };
    audit::append(&mut *db, &entry).await?;
    backdate(db, first).await?;
    Ok(stage)
}

/// What the history refers to was there before it.
async fn backdate(db: &mut PgConnection, first: UnixMs) -> Result<(), SeedError> {
    let created = books::to_time(first.plus_ms(-DAY_MS))?;
    for table in [
        sqlx::query!("update plans set created_at = $1", created),
        sqlx::query!("update tenants set created_at = $1", created),
        sqlx::query!("update teams set created_at = $1", created),
        sqlx::query!("update api_keys set created_at = $1", created),
        sqlx::query!("update providers set created_at = $1", created),
        sqlx::query!("update models set created_at = $1", created),
    ] {
        table.execute(&mut *db).await?;
    }
    let months = (HISTORY_DAYS / 28) + 1;
    for month in 0..=months {
        let day = books::to_time(first.plus_ms(month * 28 * DAY_MS))?.date();
        sqlx::query!("select make_usage_partition($1)", day).fetch_one(&mut *db).await?;
    }
    Ok(())
}

/// Thinks the history up on a thread of its own, and writes it meanwhile. Says how many events and refusals.
async fn fill(
    db: &mut PgConnection,
    stage: Stage,
    now: UnixMs,
    start: Instant,
    mut progress: impl FnMut(Progress),
) -> Result<(usize, usize), SeedError> {
    let zones: Vec<_> = stage.tenants.iter().map(|t| (t.id, t.zone.clone())).collect();
    let (sender, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
    let thinking = tokio::task::spawn_blocking(move || tell(&stage, now, &sender));
    let mut books = Books::open(now);
    let mut last_used = std::collections::BTreeMap::new();
    let mut days = 0;
    while let Some(chunk) = chunks.recv().await {
        days += i64::try_from(chunk.len()).unwrap_or(0);
        last_used.extend(chunk.iter().flat_map(uses));
        books.write(db, chunk).await?;
        let days = (days, HISTORY_DAYS + 1);
        progress(Progress { days, events: books.events, elapsed: start.elapsed() });
    }
    thinking.await.map_err(|_| SeedError::BrokeOff)??;
    let seen: Vec<(KeyId, UnixMs)> = last_used.into_iter().collect();
    api_key::touch(&mut *db, &seen).await?;
    let mut payments = Vec::new();
    for (tenant_id, month, amount) in books.months() {
        let zone = zones.iter().find(|(id, _)| *id == tenant_id).map(|(_, zone)| zone);
        let end = month_period(month, zone.ok_or(SeedError::Stage)?, 1)?.end;
        let at = end.plus_ms(PAID_AFTER_DAYS * DAY_MS);
        if at <= now && amount > 0 {
            payments.push(Payment { tenant_id, amount, at });
        }
    }
    payments.sort_by_key(|payment| (payment.at, payment.tenant_id));
    let written = (books.events, books.refusals);
    books.close(db, &payments).await?;
    Ok(written)
}

/// When each key was used on a day, in order of time.
fn uses(day: &Day) -> Vec<(KeyId, UnixMs)> {
    let mut uses: Vec<(KeyId, UnixMs)> = day
        .events
        .iter()
        .map(|event| (event.key_id, event.admitted_at))
        .chain(day.refusals.iter().map(|refusal| (refusal.key_id, refusal.at)))
        .collect();
    uses.sort_by_key(|(_, at)| *at);
    uses
}

/// Tells the history day by day, in chunks. It ends early when nobody listens any more.
fn tell(stage: &Stage, now: UnixMs, chunks: &mpsc::Sender<Vec<Day>>) -> Result<(), HistoryError> {
    let mut history = History::new(stage, SEED, now)?;
    let mut chunk = Vec::new();
    let mut events = 0;
    while let Some(day) = history.next_day()? {
        events += day.events.len();
        chunk.push(day);
        if events >= CHUNK_EVENTS {
            events = 0;
            if chunks.blocking_send(std::mem::take(&mut chunk)).is_err() {
                return Ok(());
            }
        }
    }
    // Nobody listens when writing failed, and that is told there.
    let _ = chunks.blocking_send(chunk);
    Ok(())
}

/// Lets the planner know what is there now, before the first page asks. A small sample tells enough, and takes a
/// tenth of the time.
async fn learn(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(
        "begin; set local default_statistics_target = 10; set local statement_timeout = 0; \
         analyze usage_events; analyze usage_rollups; analyze meter_slices; analyze balance_ledger; \
         analyze refusals; analyze attempts; commit",
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Readies a demonstration for another start: another simulator, perhaps other secrets.
async fn renew(
    db: &mut PgConnection,
    sealer: &Sealer,
    passwords: &Passwords,
    secrets: &DemoSecrets,
    provider_base_url: &str,
) -> Result<(), SeedError> {
    let providers = catalog::list_providers(&mut *db).await?;
    for (dialect, name) in assemble::PROVIDERS {
        let found = providers.iter().find(|p| p.name == name && p.dialect == dialect);
        let id = found.ok_or(SeedError::Incomplete)?.id;
        let new = assemble::provider(name, dialect, provider_base_url);
        catalog::edit_provider(&mut *db, id, &new).await?;
        // It was sealed with the key of this data folder, or it opens no more.
        catalog::set_credential(&mut *db, sealer, id, Some(&assemble::credential())).await?;
    }
    for (email, password) in
        [(OPERATOR_EMAIL, &secrets.operator_password), (TENANT_EMAIL, &secrets.tenant_password)]
    {
        let found = member::find_by_email(&mut *db, email).await?;
        let id = found.ok_or(SeedError::Incomplete)?.id;
        let fits = member::verify_password(&mut *db, passwords, email, password.clone()).await?;
        if fits.is_none() {
            member::set_password(&mut *db, passwords, id, password.clone()).await?;
        }
    }
    Ok(())
}

/// Gives each key its secret back, where it has another: the file with the secrets was made anew.
async fn renew_keys(
    db: &mut PgConnection,
    secrets: &DemoSecrets,
    now: UnixMs,
) -> Result<(), SeedError> {
    for cast in &CAST {
        let tenant = tenant::find_by_slug(&mut *db, cast.slug).await?.id;
        let rows = api_key::list(&mut *db, Some(tenant), None, tenants::MAX_PAGE).await?;
        for key in cast.keys {
            let secret = secrets.key(cast.slug, key.name).ok_or(SeedError::Stage)?;
            if api_key::find_by_hash(&mut *db, secret.hash()).await?.is_some() {
                continue;
            }
            // A key that was renamed or revoked is somebody's decision: it stays as it is.
            let usable = |row: &&KeyRow| row.name == key.name && row.status != KeyStatus::Revoked;
            if let Some(row) = rows.iter().find(usable) {
                api_key::rotate(&mut *db, tenant, row.id, secret, now).await?;
            }
        }
    }
    Ok(())
}

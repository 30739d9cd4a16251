//! Partitions of the events, made ahead.

use domain::window::UnixMs;
use sqlx::PgPool;

use crate::drift::{self, Found};
use crate::error::LedgerError;
use crate::instant::to_time;
use crate::reconcile::HOUSE;
use crate::usage_event::DriftNote;

/// How many months ahead partitions are made: a job that fails for weeks still loses nothing.
const MONTHS_AHEAD: i32 = 2;
/// Two replicas made the same partition at the same time, as a table and as a type: it is there.
const MADE_BY_ANOTHER: [&str; 2] = ["42P07", "23505"];

/// Makes the partitions of the running month and the two after it, where they are missing.
///
/// # Errors
/// When the database cannot be reached, or rows in the default partition are in the way.
pub async fn ensure_partitions(pool: &PgPool, now: UnixMs) -> Result<(), LedgerError> {
    let outside = || LedgerError::Rejected("the instant is outside the calendar".to_owned());
    let today = to_time(now).ok_or_else(outside)?.date();
    for ahead in 0..=MONTHS_AHEAD {
        let made = sqlx::query!(
            "select make_usage_partition(($1::date + make_interval(months => $2))::date)",
            today.replace_day(1).map_err(|_| outside())?,
            ahead,
        )
        .fetch_one(pool)
        .await;
        match made {
            Err(sqlx::Error::Database(e))
                if e.code().is_some_and(|code| MADE_BY_ANOTHER.contains(&code.as_ref())) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// Puts events that no month's partition took into partitions of their months, and says how many they were. That they
/// had none is written down first, with the count: it is a fault of the job that makes partitions ahead.
///
/// Calls that write wait for it: it copies those events, and makes their months' partitions.
///
/// # Errors
/// When the database cannot be reached, or the writers do not let go of the table in time: then they stay.
pub async fn adopt_strays(pool: &PgPool) -> Result<i64, LedgerError> {
    let found = strays(pool).await?;
    if found == 0 {
        return Ok(0);
    }
    let note = DriftNote {
        kind: drift::PARTITION_MISSING.to_owned(),
        meter: None,
        expected: 0,
        found,
        cause: "events came before the partitions of their months were made".to_owned(),
    };
    let mut connection = pool.acquire().await?;
    let alarm = [Found { tenant_id: HOUSE, request_id: None, note: &note }];
    drift::record(&mut connection, &alarm).await?;
    let adopted = sqlx::query_scalar!(r#"select adopt_stray_events() as "adopted!""#)
        .fetch_one(&mut *connection)
        .await?;
    Ok(adopted)
}

/// How many events no month's partition took: more than none is a fault of the job that makes them.
///
/// # Errors
/// When the database cannot be reached.
pub async fn strays(pool: &PgPool) -> Result<i64, LedgerError> {
    let count = sqlx::query_scalar!(r#"select count(*) as "count!" from usage_events_default"#)
        .fetch_one(pool)
        .await?;
    Ok(count)
}

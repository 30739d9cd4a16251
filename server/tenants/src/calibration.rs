//! How many bytes of text a model makes into one token, as the processes learned it. For estimates, never for money.

use domain::id::ModelId;
use sqlx::PgExecutor;

use crate::TenantsError;

/// From so many calls on, what a process learned takes the place of what is stored; fewer weigh in proportion.
const FULL_WEIGHT_CALLS: i64 = 64;

/// What was learned about one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// Which.
    pub model: ModelId,
    /// Thousandths of a byte per token, 1,000 to 12,000.
    pub milli_bytes_per_token: i64,
    /// From how many calls it was learned.
    pub calls: i64,
}

/// What is stored, of every model.
///
/// # Errors
/// When the database fails.
pub async fn load(db: impl PgExecutor<'_>) -> Result<Vec<Learned>, TenantsError> {
    let rows = sqlx::query!(
        "select model_id, milli_bytes_per_token, calls from model_calibrations order by model_id"
    )
    .fetch_all(db)
    .await?;
    let read = rows.into_iter().map(|row| Learned {
        model: ModelId(row.model_id),
        milli_bytes_per_token: row.milli_bytes_per_token,
        calls: row.calls,
    });
    Ok(read.collect())
}

/// Adds what a process learned since it last did so, and says what is stored then: what other processes wrote in
/// between is not lost, it is met half-way. Models that are gone are left out.
///
/// # Errors
/// When the database fails, or a figure is out of range.
pub async fn merge(
    db: impl PgExecutor<'_>,
    learned: &[Learned],
) -> Result<Vec<Learned>, TenantsError> {
    let models: Vec<i64> = learned.iter().map(|one| one.model.0).collect();
    let figures: Vec<i64> = learned.iter().map(|one| one.milli_bytes_per_token).collect();
    let calls: Vec<i64> = learned.iter().map(|one| one.calls).collect();
    // Rows are taken in the order of their models, so that two processes never wait for each other.
    let rows = sqlx::query!(
        "insert into model_calibrations as c (model_id, milli_bytes_per_token, calls)
         select l.model_id, l.figure, l.calls
         from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as l (model_id, figure, calls)
         join models m on m.id = l.model_id
         order by l.model_id
         on conflict (model_id) do update set
             milli_bytes_per_token = c.milli_bytes_per_token
                 + (excluded.milli_bytes_per_token - c.milli_bytes_per_token)
                   * least(excluded.calls, $4) / $4,
             calls = c.calls + excluded.calls,
             updated_at = clock_timestamp()
         returning model_id, milli_bytes_per_token, calls",
        &models,
        &figures,
        &calls,
        FULL_WEIGHT_CALLS,
    )
    .fetch_all(db)
    .await?;
    let read = rows.into_iter().map(|row| Learned {
        model: ModelId(row.model_id),
        milli_bytes_per_token: row.milli_bytes_per_token,
        calls: row.calls,
    });
    Ok(read.collect())
}

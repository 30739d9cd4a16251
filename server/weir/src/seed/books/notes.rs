//! What is noted beside the books: refused calls, marks that were passed, figures that did not add up.

use domain::admission::Refusal;
use ledger::RefusedCall;
use sqlx::PgConnection;

use super::events::Row;
use super::to_time;
use crate::seed::SeedError;
use crate::seed::history::Crossing;

pub(super) async fn insert_refusals(
    db: &mut PgConnection,
    calls: &[RefusedCall],
) -> Result<(), SeedError> {
    let at = calls.iter().map(|call| to_time(call.at)).collect::<Result<Vec<_>, _>>()?;
    let limit = |pick: fn(&Refusal) -> i64| {
        calls.iter().map(|call| call.limit.as_ref().map(pick)).collect::<Vec<Option<i64>>>()
    };
    let meter = |call: &RefusedCall| call.limit.as_ref().map(|limit| limit.meter.clone());
    let scope = |call: &RefusedCall| call.limit.as_ref().map(|limit| limit.scope.code());
    sqlx::query!(
        r#"insert into refusals (request_id, tenant_id, key_id, at, route, model, status, code, scope, meter,
               limit_amount, used_amount, held_amount, wanted_amount)
           select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[], $6::text[],
               $7::int[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[],
               $14::bigint[])"#,
        &calls.iter().map(|c| c.request_id.to_string()).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| c.tenant_id.0).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| c.key_id.0).collect::<Vec<_>>()[..],
        &at[..],
        &calls.iter().map(|c| c.route.as_str()).collect::<Vec<_>>()[..] as &[&str],
        &calls.iter().map(|c| c.model.as_deref()).collect::<Vec<_>>()[..] as &[Option<&str>],
        &calls.iter().map(|c| i32::from(c.status)).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| c.code.as_str()).collect::<Vec<_>>()[..] as &[&str],
        &calls.iter().map(scope).collect::<Vec<_>>()[..] as &[Option<&str>],
        &calls.iter().map(meter).collect::<Vec<_>>()[..] as &[Option<String>],
        &limit(|l| l.limit)[..] as &[Option<i64>],
        &limit(|l| l.used)[..] as &[Option<i64>],
        &limit(|l| l.held)[..] as &[Option<i64>],
        &limit(|l| l.wanted)[..] as &[Option<i64>],
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The marks, in order of time: the newest has the highest number.
pub(super) async fn insert_alerts(
    db: &mut PgConnection,
    crossings: &[Crossing],
) -> Result<(), SeedError> {
    let at = crossings.iter().map(|c| to_time(c.at)).collect::<Result<Vec<_>, _>>()?;
    sqlx::query!(
        r#"insert into alerts (tenant_id, scope, scope_id, meter, period_start_ms, threshold_percent,
               limit_amount, used_amount, request_id, fired_at)
           select c.tenant_id, c.scope, c.scope_id, c.meter, c.period_start_ms, c.percent, c.limit_amount,
                  c.used_amount, c.request_id, c.fired_at
           from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[],
                       $7::bigint[], $8::bigint[], $9::text[], $10::timestamptz[]) with ordinality
                as c (tenant_id, scope, scope_id, meter, period_start_ms, percent, limit_amount, used_amount,
                      request_id, fired_at, place)
           order by c.place"#,
        &crossings.iter().map(|c| c.tenant_id.0).collect::<Vec<_>>()[..],
        &crossings.iter().map(|c| c.scope.code()).collect::<Vec<_>>()[..] as &[&str],
        &crossings.iter().map(|c| c.scope_id).collect::<Vec<_>>()[..],
        &crossings.iter().map(|c| c.meter.as_str()).collect::<Vec<_>>()[..] as &[&str],
        &crossings.iter().map(|c| c.period_start.0).collect::<Vec<_>>()[..],
        &crossings.iter().map(|c| c.percent).collect::<Vec<_>>()[..],
        &crossings.iter().map(|c| c.limit).collect::<Vec<_>>()[..],
        &crossings.iter().map(|c| c.used).collect::<Vec<_>>()[..],
        &crossings.iter().map(|c| c.request_id.to_string()).collect::<Vec<_>>()[..],
        &at[..],
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn insert_drift(db: &mut PgConnection, rows: &[Row<'_>]) -> Result<(), SeedError> {
    for (event, _) in rows {
        for note in &event.drift {
            sqlx::query!(
                "insert into drift (kind, tenant_id, request_id, meter, expected, found, cause, seen_at)
                 values ($1, $2, $3, $4, $5, $6, $7, $8)",
                note.kind,
                event.tenant_id.0,
                event.request_id.to_string(),
                note.meter,
                note.expected,
                note.found,
                note.cause,
                to_time(event.ended_at)?,
            )
            .execute(&mut *db)
            .await?;
        }
    }
    Ok(())
}

//! `weir reconcile`: the jobs that compare the books, now.

use std::io::{Write, stderr};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use domain::id::TenantId;
use ledger::books;
use ledger::reconcile::{self, Audit, Extent, HOUSE, Outcome};
use serde_json::json;
use tokio::time::Instant;

use super::desk::with_desk;
use super::{say, say_json};
use crate::config::{Config, Flags};
use crate::deeds::Desk;
use crate::failure::Failure;

/// How long a portion takes, and how often long work says how far it is.
const PORTION: Duration = Duration::from_secs(2);
/// How many tenants are asked for at once.
const PAGE: i64 = 500;

/// What `reconcile` takes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir reconcile          tenants with traffic since the last run\n  \
                        weir reconcile --deep   everything of everybody; it reads every event\n\n\
                        Slices and rollups are set right, after a line of drift; what a person \
                        must look at is only reported, and the exit code is 1 then."
)]
pub(crate) struct ReconcileArgs {
    /// Compare all tenants and the house, and all of their books.
    #[arg(long)]
    deep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// Compares, writes down, repairs.
pub(crate) async fn run(config: Config, args: ReconcileArgs) -> Result<(), Failure> {
    let deep = args.deep;
    let outcome = with_desk(&config, |desk| async move {
        Ok(if deep { whole(&desk).await? } else { recent(&desk).await? })
    });
    let outcome = outcome.await?;
    let Outcome { tenants, found, repaired, reported, unproven, .. } = outcome;
    if args.json {
        say_json(&json!({
            "compared": tenants, "differences": found, "repaired": repaired, "reported": reported,
            "unproven_slices": unproven,
        }))?;
    } else {
        say(&format!(
            "{tenants} compared: {found} differences, {repaired} repaired, {reported} to be looked at by a \
             person, {unproven} slices with calls that do not tell what they booked."
        ))?;
    }
    if repaired == found {
        return Ok(());
    }
    Err(Failure::Failed(anyhow!("not all of the books agree: see `weir books verify`")))
}

async fn recent(desk: &Desk) -> anyhow::Result<Outcome> {
    let mut all = Outcome::default();
    loop {
        let now = desk.clock.now();
        let (outcome, over) = reconcile::portion(&desk.pool, Audit::Recent, PORTION, now).await?;
        all.add(outcome);
        if over {
            return Ok(all);
        }
        tell(&all);
    }
}

async fn whole(desk: &Desk) -> anyhow::Result<Outcome> {
    let pool = &desk.pool;
    let now = || desk.clock.now();
    let mut all = reconcile::tenant(pool, HOUSE, Extent::Whole, now()).await?;
    let (mut last, mut tell_at) = (TenantId(0), Instant::now() + PORTION);
    loop {
        let page = books::tenants(pool, last, PAGE).await?;
        let Some(end) = page.last().copied() else { return Ok(all) };
        last = end;
        for tenant_id in page {
            all.add(reconcile::tenant(pool, tenant_id, Extent::Whole, now()).await?);
            if Instant::now() >= tell_at {
                tell(&all);
                tell_at = Instant::now() + PORTION;
            }
        }
    }
}

fn tell(so_far: &Outcome) {
    // Progress nobody can see is no reason to stop.
    let _ = writeln!(stderr(), "{} compared, {} differences", so_far.tenants, so_far.found);
}

//! `weir books verify`: the equation, tenant by tenant.

mod counter;
mod table;

use std::collections::HashMap;
use std::io::{Write, stderr};
use std::time::Duration;

use anyhow::{Context, anyhow};
use app::views::Month;
use clap::Args;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::plan::Plan;
use domain::window::Zone;
use ledger::books::{self, BookLine, HouseLine};
use limiter::Observer;
use serde_json::json;
use tenants::tenant::{self, Tenant};
use tenants::{TenantsError, plan};
use tokio::time::Instant;

use self::counter::Counter;
use super::desk::with_desk;
use super::{say, say_json};
use crate::config::{Config, Flags};
use crate::console::months::{self, TenantMonth, anchor_day};
use crate::deeds::Desk;
use crate::failure::Failure;
use crate::limits;

/// How many tenants are asked for at once.
const PAGE: i64 = 500;
/// Work that takes longer than this says how far it is, this often.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// What `books verify` takes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir books verify\n  weir books verify --tenant acme --month \
                        2026-11\n  weir books verify --json | jq '.tenants[] | \
                        select(.differences != {})'\n\nExit code 0 when all places agree, 1 when \
                        two differ."
)]
pub(crate) struct VerifyArgs {
    /// One tenant, by its slug or its id; all when nothing is said.
    #[arg(long)]
    tenant: Option<String>,
    /// One billing month, such as 2026-11, each tenant's own; all time when nothing is said.
    #[arg(long, value_parser = month)]
    month: Option<Month>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

fn month(text: &str) -> Result<Month, String> {
    Month::parse(text).ok_or_else(|| "a month is written like 2026-11".to_owned())
}

/// One tenant's line.
#[derive(Debug)]
struct Line {
    tenant_id: TenantId,
    /// The slug; the id of a tenant that is no more.
    name: String,
    book: BookLine,
    /// The counter of the running month; nothing for another month, or a plan without a month budget.
    counter: Counter,
    /// What live calls hold now; nothing when the engine does not answer.
    held: Option<Nanos>,
    /// What each place says more than the truth does.
    differences: Vec<(&'static str, i64)>,
}

/// All that was verified.
#[derive(Debug)]
struct Verified {
    lines: Vec<Line>,
    /// Nothing when one tenant was asked for.
    house: Option<HouseLine>,
}

impl Verified {
    fn agrees(&self) -> bool {
        self.lines.iter().all(|line| line.differences.is_empty())
            && self.house.is_none_or(|house| house.agrees())
    }
}

/// Prints the equation of each tenant, and fails when it does not hold.
pub(crate) async fn verify(config: Config, args: VerifyArgs) -> Result<(), Failure> {
    let VerifyArgs { tenant, month, json, .. } = args;
    let verified = with_desk(&config, async |desk| {
        let observer = limits::observer(&config, &desk.pool, &desk.tasks)?;
        let verified = verify_on(&desk, &observer, tenant.as_deref(), month).await;
        observer.close().await;
        Ok(verified?)
    });
    let verified = verified.await?;
    if json {
        say_json(&told(&verified))?;
    } else {
        say(&table::table(&verified))?;
    }
    if verified.agrees() {
        return Ok(());
    }
    Err(Failure::Failed(anyhow!("the books do not agree")))
}

async fn verify_on(
    desk: &Desk,
    observer: &Observer,
    tenant: Option<&str>,
    month: Option<Month>,
) -> anyhow::Result<Verified> {
    let one = match tenant {
        Some(text) => Some(find(desk, text).await?),
        None => None,
    };
    let ids = match &one {
        Some(tenant) => vec![tenant.id],
        None => all_ids(desk).await?,
    };
    let held = match observer.held_by_tenant().await {
        Ok(held) => Some(held.into_iter().collect()),
        Err(error) => {
            tracing::warn!(%error, "the counters cannot be read: the rest is verified without them");
            None
        }
    };
    let lines = Clerk { desk, observer, held, month }.lines(&ids).await?;
    let house = match one {
        Some(_) => None,
        None => Some(books::verify_house(&desk.pool).await?),
    };
    Ok(Verified { lines, house })
}

/// A tenant by its slug, or by its id where no slug is so.
async fn find(desk: &Desk, text: &str) -> anyhow::Result<Tenant> {
    match (tenant::find_by_slug(&desk.pool, text).await, text.parse()) {
        (Err(TenantsError::NotFound { .. }), Ok(id)) => {
            tenant::find(&desk.pool, TenantId(id)).await.with_context(|| format!("tenant {id}"))
        }
        (found, _) => found.with_context(|| format!("tenant {text}")),
    }
}

async fn all_ids(desk: &Desk) -> anyhow::Result<Vec<TenantId>> {
    let mut ids: Vec<TenantId> = Vec::new();
    loop {
        let after = ids.last().copied().unwrap_or(TenantId(0));
        let page = books::tenants(&desk.pool, after, PAGE).await?;
        if page.is_empty() {
            return Ok(ids);
        }
        ids.extend(page);
    }
}

/// Who goes through the books.
struct Clerk<'a> {
    desk: &'a Desk,
    observer: &'a Observer,
    /// Nothing when the engine does not answer.
    held: Option<HashMap<TenantId, Nanos>>,
    month: Option<Month>,
}

impl Clerk<'_> {
    async fn lines(&self, ids: &[TenantId]) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::with_capacity(ids.len());
        let mut tell_at = Instant::now() + TOLD_EVERY;
        for id in ids {
            lines.extend(self.line(*id).await?);
            if Instant::now() >= tell_at {
                // Progress nobody can see is no reason to stop.
                let _ = writeln!(stderr(), "{} of {} tenants", lines.len(), ids.len());
                tell_at = Instant::now() + TOLD_EVERY;
            }
        }
        Ok(lines)
    }

    /// A tenant's line; nothing when it has no books.
    async fn line(&self, tenant_id: TenantId) -> anyhow::Result<Option<Line>> {
        let pool = &self.desk.pool;
        let known = match tenant::find(pool, tenant_id).await {
            Ok(tenant) => Some(tenant),
            // Its books stay.
            Err(TenantsError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (zone, plan) = self.calendar(known.as_ref()).await?;
        let now = self.desk.clock.now();
        let month = months::month(self.month, &zone, anchor_day(plan.as_ref()), now)?;
        let book = match self.month {
            Some(_) => Some(books::verify_month(pool, tenant_id, month.period).await?),
            None => books::verify(pool, Some(tenant_id)).await?.pop(),
        };
        let Some(book) = book else { return Ok(None) };
        let counter = self.counter(tenant_id, &zone, plan.as_ref(), month).await?;
        let mut differences = book.differences();
        if let Counter::Read { used, slice } = counter
            && used != slice
        {
            differences.push(("counter", used.saturating_sub(slice)));
        }
        let name = known.map_or_else(|| tenant_id.to_string(), |tenant| tenant.slug);
        let of_tenant = |held: &HashMap<_, _>| held.get(&tenant_id).copied().unwrap_or_default();
        let held = self.held.as_ref().map(of_tenant);
        Ok(Some(Line { tenant_id, name, book, counter, held, differences }))
    }

    async fn calendar(&self, known: Option<&Tenant>) -> anyhow::Result<(Zone, Option<Plan>)> {
        let Some(tenant) = known else { return Ok((Zone::utc(), None)) };
        let plan = plan::find(&self.desk.pool, tenant.plan).await?;
        Ok((Zone::named(&tenant.time_zone)?, Some(plan)))
    }

    async fn counter(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        plan: Option<&Plan>,
        month: TenantMonth,
    ) -> anyhow::Result<Counter> {
        let Some(plan) = plan.filter(|_| month.running) else { return Ok(Counter::None) };
        if self.held.is_none() {
            return Ok(Counter::Unread);
        }
        let pool = &self.desk.pool;
        counter::read(pool, self.observer, tenant_id, zone, plan, month.period).await
    }
}

/// The same for scripts.
fn told(verified: &Verified) -> serde_json::Value {
    let line = |line: &Line| {
        let differences: serde_json::Map<String, serde_json::Value> = line
            .differences
            .iter()
            .map(|(place, more)| ((*place).to_owned(), json!(more)))
            .collect();
        let counter = match line.counter {
            Counter::Read { used, .. } => Some(used),
            Counter::None | Counter::Unread | Counter::Moving => None,
        };
        json!({
            "tenant_id": line.tenant_id.0, "tenant": line.name, "events": line.book.events,
            "events_charge_nanos": line.book.events_charge, "events_cost_nanos": line.book.events_cost,
            "ledger_usage_nanos": line.book.ledger_usage, "slices_nanos": line.book.month_slices,
            "slices_expected_nanos": line.book.month_expected,
            "rollups_charge_nanos": line.book.rollups_charge, "counter_nanos": counter,
            "held_nanos": line.held.map(|held| held.0), "balance_nanos": line.book.balance,
            "ledger_balance_nanos": line.book.ledger_balance, "differences": differences,
        })
    };
    let house = verified.house.map(|house| {
        json!({
            "events_cost_nanos": house.events_cost, "ledger_cost_nanos": house.ledger_cost,
            "ledger_payable_nanos": house.ledger_payable, "agrees": house.agrees(),
        })
    });
    let lines: Vec<_> = verified.lines.iter().map(line).collect();
    json!({ "tenants": lines, "house": house, "agrees": verified.agrees() })
}

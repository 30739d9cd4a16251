//! A console over made-up data: the same every time.

use crate::made_up::{MODELS, TENANTS, Tenant};
use app::console::{Console, ConsoleError, Viewer};
use app::rights::Right;
use app::views::{
    Budget, CallOutcome, CallRow, CallsPanel, DaySpend, DaysPanel, EngineMode, Instance, KeyPage,
    KeyRow, KeyStatus, KeysPanel, MixPanel, MixRow, Month, NewKey, SampleModels, SpendOrder,
    SpendPanel, SpendRow, StatusCounts, TenantFilter, TenantPage, TenantRow, TenantStatus,
    TenantsPage, TrafficRange,
};
use async_trait::async_trait;
use std::sync::Mutex;

/// 2026-11-28 14:03:12 UTC.
pub(crate) const NOW_MS: i64 = 1_795_874_592_000;
pub(crate) const SECRET: &str = "weir_sk_3fK9aLmQ0pZx7TuVbN2cRdYh5gJwEsAx7Qa12";
pub(crate) const SETUP_TOKEN: &str = "open-sesame";
const USD: i64 = 1_000_000_000;
const CENT: i64 = USD / 100;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// What the fake answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Twelve tenants with traffic.
    Rich,
    /// Nothing has happened yet.
    Empty,
    /// The model mix and the keys cannot be read; spend by day is too slow.
    Broken,
    /// Names that try to break out of the page.
    Hostile,
}

pub(crate) struct Fake {
    pub(crate) scene: Scene,
    new_key: Mutex<Option<i64>>,
}

impl Fake {
    pub(crate) fn new(scene: Scene) -> Self {
        Self { scene, new_key: Mutex::new(Some(3)) }
    }

    fn name(&self, name: &str) -> String {
        if self.scene == Scene::Hostile {
            format!("</td><script>alert(1)</script>\"'<img src=x onerror=alert(2)> {name}")
        } else {
            name.to_owned()
        }
    }

    fn broken(&self) -> Result<(), ConsoleError> {
        if self.scene == Scene::Broken {
            return Err(ConsoleError::Unavailable { request_id: "01KBROKEN0PANEL".to_owned() });
        }
        Ok(())
    }

    fn tenants(&self) -> Vec<TenantRow> {
        if self.scene == Scene::Empty {
            return Vec::new();
        }
        TENANTS.iter().map(|tenant| self.tenant_row(tenant)).collect()
    }

    fn tenant_row(&self, &(slug, name, plan, cap, settled, held, calls): &Tenant) -> TenantRow {
        let (settled_nanos, held_nanos) = (settled * CENT, held * CENT);
        let cap_nanos = cap.map(|cap| cap * USD);
        let share = cap_nanos.map_or(0, |cap| (settled_nanos + held_nanos) * 100 / cap);
        let status = match (slug, share) {
            ("wonka", _) => TenantStatus::Suspended,
            (_, 100..) => TenantStatus::Refused,
            (_, 80..) => TenantStatus::Over80,
            _ => TenantStatus::Active,
        };
        TenantRow {
            slug: slug.to_owned(),
            name: self.name(name),
            plan: plan.to_owned(),
            status,
            settled_nanos,
            held_nanos,
            cap_nanos,
            requests_24h: calls,
            failed_24h: calls / 400,
            last_request_ms: (calls > 0).then_some(NOW_MS - 90_000 - settled * 1_000),
            created_ms: NOW_MS - 91 * DAY_MS,
        }
    }

    fn budget(&self, row: &TenantRow, month: Option<Month>) -> Budget {
        Budget {
            month: month.unwrap_or_else(november),
            settled_nanos: row.settled_nanos,
            held_nanos: row.held_nanos,
            cap_nanos: row.cap_nanos,
            hard_stop_nanos: row.cap_nanos.map(|cap| cap / 100 * 105),
            elapsed_permille: if month.is_some() { 1_000 } else { 919 },
            resets_ms: NOW_MS + 57 * HOUR_MS,
        }
    }

    fn find(&self, slug: &str) -> Result<TenantRow, ConsoleError> {
        let found = TENANTS.iter().find(|tenant| tenant.0 == slug);
        found.map(|tenant| self.tenant_row(tenant)).ok_or(ConsoleError::NotFound)
    }

    fn key_rows(&self) -> Vec<KeyRow> {
        let key = |id, name: &str, status, used: Option<i64>, expires: Option<i64>, spend| KeyRow {
            id,
            name: self.name(name),
            masked: format!("weir_sk_{id}fK9…x7Q{id}"),
            created_ms: NOW_MS - 40 * DAY_MS + id * DAY_MS,
            last_used_ms: used.map(|minutes| NOW_MS - minutes * 60_000),
            expires_ms: expires.map(|days| NOW_MS + days * DAY_MS),
            status,
            spend_month_nanos: spend,
        };
        if self.scene == Scene::Empty {
            return Vec::new();
        }
        vec![
            key(3, "ci-runner", KeyStatus::Active, None, Some(91), 0),
            key(2, "production", KeyStatus::Active, Some(1), None, 131 * USD + 20 * CENT),
            key(1, "search backend", KeyStatus::Expiring, Some(190), Some(4), 10 * USD + 9_000),
            key(0, "old laptop", KeyStatus::Revoked, Some(60 * 24 * 21), None, 42 * CENT),
        ]
    }
}

fn november() -> Month {
    Month::parse("2026-11").expect("a month")
}

fn zone() -> String {
    "UTC".to_owned()
}

#[async_trait]
impl Console for Fake {
    async fn instance(&self) -> Result<Instance, ConsoleError> {
        Ok(Instance {
            name: self.name("Acme production"),
            demo: self.scene == Scene::Rich,
            engine: match self.scene {
                Scene::Broken => EngineMode::PostgresFallback,
                _ => EngineMode::Redis,
            },
            setup_needed: self.scene == Scene::Empty,
            gateway_url: "https://gw.example".to_owned(),
            version: "0.1.0".to_owned(),
            now_ms: NOW_MS,
        })
    }

    async fn setup_open(&self, token: &str) -> Result<bool, ConsoleError> {
        Ok(token == SETUP_TOKEN)
    }

    async fn spend(
        &self,
        viewer: &Viewer,
        month: Option<Month>,
        order: SpendOrder,
    ) -> Result<SpendPanel, ConsoleError> {
        viewer.must(Right::SeeOverview)?;
        let mut tenants = self.tenants();
        let total = |value: fn(&TenantRow) -> i64| tenants.iter().map(value).sum::<i64>();
        let at = |status| i64::try_from(tenants.iter().filter(|row| row.status == status).count());
        let mut panel = SpendPanel {
            month: month.unwrap_or_else(november),
            zone: zone(),
            as_of_ms: NOW_MS,
            rows: Vec::new(),
            total_settled_nanos: total(|row| row.settled_nanos),
            total_held_nanos: total(|row| row.held_nanos),
            tenants: i64::try_from(tenants.len()).expect("twelve"),
            tenants_at_cap: at(TenantStatus::Refused).expect("few"),
            tenants_over_80: at(TenantStatus::Over80).expect("few"),
        };
        if order == SpendOrder::Cap {
            tenants.sort_by_key(|row| {
                -row.cap_nanos.map_or(-1, |cap| (row.settled_nanos + row.held_nanos) * 1_000 / cap)
            });
        }
        panel.rows = tenants
            .into_iter()
            .take(10)
            .map(|row| SpendRow {
                hard_stop_nanos: row.cap_nanos.map(|cap| cap / 100 * 105),
                tenant_slug: row.slug,
                tenant_name: row.name,
                plan: row.plan,
                settled_nanos: row.settled_nanos,
                held_nanos: row.held_nanos,
                cap_nanos: row.cap_nanos,
                elapsed_permille: 919,
            })
            .collect();
        Ok(panel)
    }

    async fn model_mix(
        &self,
        viewer: &Viewer,
        range: TrafficRange,
    ) -> Result<MixPanel, ConsoleError> {
        viewer.must(Right::SeeOverview)?;
        self.broken()?;
        let rows = MODELS.iter().map(|(model, size)| MixRow {
            model: self.name(model),
            input_tokens: size * 130_411,
            cached_input_tokens: size * 38_020,
            output_tokens: size * 21_733,
            reasoning_tokens: if model.contains("lite") { 0 } else { size * 40_190 },
            requests: size * 141,
            charge_nanos: size * 41 * CENT / 10,
        });
        let rows = if self.scene == Scene::Empty { Vec::new() } else { rows.collect() };
        let from_ms = NOW_MS - range.hours() * HOUR_MS;
        Ok(MixPanel { from_ms, to_ms: NOW_MS, zone: zone(), as_of_ms: NOW_MS, rows })
    }

    async fn spend_by_day(
        &self,
        viewer: &Viewer,
        slug: Option<&str>,
        month: Option<Month>,
    ) -> Result<DaysPanel, ConsoleError> {
        let _ = viewer;
        if self.scene == Scene::Broken {
            return Err(ConsoleError::TooSlow { request_id: "01KSLOW0PANEL".to_owned() });
        }
        let size = if slug.is_some() { 9 } else { 118 };
        let today = month.is_none().then_some(28_u8);
        let days = 1..=today.unwrap_or(30);
        let rows = days.flat_map(|day| {
            MODELS.iter().enumerate().map(move |(number, (model, weight))| {
                let number = i64::try_from(number).expect("eight");
                let wave = 60 + (i64::from(day) * 37 + number * 61) % 53;
                let weekend = if day % 7 < 2 { 40 } else { 100 };
                (day, *model, weight * wave * weekend * size * CENT / 100_000)
            })
        });
        let rows = rows.map(|(day, model, charge_nanos)| DaySpend {
            day,
            model: self.name(model),
            charge_nanos,
        });
        let rows = if self.scene == Scene::Empty { Vec::new() } else { rows.collect() };
        let month = month.unwrap_or_else(november);
        Ok(DaysPanel { month, zone: zone(), as_of_ms: NOW_MS, today, rows })
    }

    async fn tenants(
        &self,
        viewer: &Viewer,
        filter: &TenantFilter,
    ) -> Result<TenantsPage, ConsoleError> {
        viewer.must(Right::SeeTenants)?;
        let all = self.tenants();
        let count = |status| {
            i64::try_from(all.iter().filter(|row| row.status == status).count()).expect("few")
        };
        let counts = StatusCounts {
            active: i64::try_from(all.len()).expect("few") - count(TenantStatus::Suspended),
            over_80: count(TenantStatus::Over80),
            refused: count(TenantStatus::Refused),
            suspended: count(TenantStatus::Suspended),
            archived: 0,
        };
        let wanted = |row: &TenantRow| {
            (filter.q.is_empty() || row.slug.contains(&filter.q))
                && (filter.plan.is_empty() || row.plan == filter.plan)
                && filter.status.is_none_or(|status| {
                    row.status == status
                        || (status == TenantStatus::Active && row.status != TenantStatus::Suspended)
                })
        };
        let rows: Vec<TenantRow> = all.into_iter().filter(wanted).collect();
        Ok(TenantsPage {
            month: november(),
            zone: zone(),
            as_of_ms: NOW_MS,
            matching: i64::try_from(rows.len()).expect("few"),
            rows,
            counts,
            plans: ["free", "starter", "pro", "enterprise"].map(str::to_owned).to_vec(),
        })
    }

    async fn tenant(
        &self,
        viewer: &Viewer,
        slug: &str,
        month: Option<Month>,
    ) -> Result<TenantPage, ConsoleError> {
        let _ = viewer;
        let row = self.find(slug)?;
        Ok(TenantPage {
            budget: self.budget(&row, month),
            slug: row.slug,
            name: row.name,
            plan: row.plan,
            status: row.status,
            zone: zone(),
            created_ms: row.created_ms,
            last_request_ms: row.last_request_ms,
            as_of_ms: NOW_MS,
        })
    }

    async fn keys(&self, viewer: &Viewer, slug: &str) -> Result<KeysPanel, ConsoleError> {
        let _ = (viewer, self.find(slug)?);
        self.broken()?;
        Ok(KeysPanel { zone: zone(), as_of_ms: NOW_MS, rows: self.key_rows() })
    }

    async fn recent_calls(&self, viewer: &Viewer, slug: &str) -> Result<CallsPanel, ConsoleError> {
        if viewer.role.is_operator() {
            viewer.must(Right::SeeRequests)?;
        }
        self.find(slug)?;
        let outcomes = [
            CallOutcome::Completed,
            CallOutcome::Completed,
            CallOutcome::ClientGone,
            CallOutcome::Completed,
            CallOutcome::ProviderFailed,
        ];
        let row = |number: i64| {
            let index = usize::try_from(number).expect("few");
            let outcome = outcomes[index % outcomes.len()];
            CallRow {
                request_id: format!("01KB8Y{:02}QZ7M3V9D4X0R2T5W8A", number),
                at_ms: NOW_MS - number * 47_000,
                key_name: self.name("production"),
                model: MODELS[index % MODELS.len()].0.to_owned(),
                outcome,
                input_tokens: 1_000 + number * 311,
                output_tokens: 200 + number * 17,
                reasoning_tokens: number % 3 * 900,
                charge_nanos: 1_380_000 + number * 77_000_000,
                latency_ms: 410 + number * 620,
                estimated: outcome == CallOutcome::ClientGone,
            }
        };
        let rows = if self.scene == Scene::Empty { Vec::new() } else { (0..12).map(row).collect() };
        Ok(CallsPanel { zone: zone(), as_of_ms: NOW_MS, rows })
    }

    async fn key(&self, viewer: &Viewer, slug: &str, key_id: i64) -> Result<KeyPage, ConsoleError> {
        viewer.must(Right::SeeTenants)?;
        let tenant = self.find(slug)?;
        let key = self.key_rows().into_iter().find(|key| key.id == key_id);
        Ok(KeyPage {
            tenant_slug: tenant.slug,
            tenant_name: tenant.name,
            zone: zone(),
            as_of_ms: NOW_MS,
            key: key.ok_or(ConsoleError::NotFound)?,
            requests_24h: 4_210,
        })
    }

    async fn take_new_key(
        &self,
        viewer: &Viewer,
        slug: &str,
        key_id: i64,
    ) -> Result<Option<NewKey>, ConsoleError> {
        viewer.must(Right::CreateKeys)?;
        self.find(slug)?;
        let mut waiting = self.new_key.lock().expect("no test panics while it holds this");
        if *waiting != Some(key_id) {
            return Ok(None);
        }
        *waiting = None;
        Ok(Some(NewKey {
            secret: SECRET.into(),
            models: SampleModels {
                openai: Some("gpt-5-mini".to_owned()),
                anthropic: Some("claude-haiku-4-5".to_owned()),
                gemini: Some("gemini-2.5-flash".to_owned()),
            },
        }))
    }
}

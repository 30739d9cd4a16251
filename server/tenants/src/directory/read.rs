//! Rows of the database as rows of a snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use domain::id::{KeyId, ModelId, ProviderId, TeamId, TenantId};
use domain::rate_card::RateCard;
use domain::usage::Dialect;
use domain::window::UnixMs;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::snapshot::{ApiKey, Catalog, Credential, Model, OldSecret, Row, Table, Upstream};
use crate::api_key::{KeyHash, KeyStatus};
use crate::catalog::{OnDisconnect, Route, Timeouts};
use crate::instant::from_time;
use crate::limit_override::{self, Overrides};
use crate::provider_key::{Purpose, Sealer};
use crate::{TenantsError, plan, price, rules, team, tenant};

/// So many rows are read under one lock: a few milliseconds, which is how long a revocation may have to wait.
pub(crate) const PAGE: usize = 2_000;

/// A row, or only its id where this version of Weir cannot read it.
pub(crate) type Read = (i64, Option<Row>);

/// The rows of a table after `after`, by id, at most [`PAGE`].
pub(crate) async fn page(
    pool: &PgPool,
    table: Table,
    after: i64,
) -> Result<Vec<Read>, TenantsError> {
    let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
    Ok(match table {
        Table::Plans => {
            let found = sqlx::query_as!(
                plan::Record,
                "select id, name, version, rules, models, markup_bps, default_max_output_tokens,
                        max_output_tokens, deny_mode, request_fee_nanos, max_request_charge_nanos,
                        max_request_tokens, max_wait_ms, weight
                 from plans where id > $1 order by id limit $2",
                after,
                limit,
            );
            plans(found.fetch_all(pool).await?)
        }
        Table::Tenants => {
            let found = sqlx::query_as!(
                tenant::Record,
                "select id, slug, name, plan_id, time_zone, status, created_at
                 from tenants where id > $1 order by id limit $2",
                after,
                limit,
            );
            tenants(found.fetch_all(pool).await?)
        }
        Table::Teams => {
            let found = sqlx::query_as!(
                team::Record,
                "select id, tenant_id, name, rules from teams where id > $1 order by id limit $2",
                after,
                limit,
            );
            teams(found.fetch_all(pool).await?)
        }
        Table::Overrides => overrides(limit_override::page(pool, after, limit).await?),
        Table::Keys => {
            let found = sqlx::query_as!(
                KeyRecord,
                "select id, tenant_id, team_id, name, secret_hash, old_secret_hash, old_secret_until,
                        rules, status, expires_at
                 from api_keys where id > $1 order by id limit $2",
                after,
                limit,
            );
            keys(found.fetch_all(pool).await?)
        }
    })
}

/// These rows of a table, as far as they are there.
pub(crate) async fn these(
    pool: &PgPool,
    table: Table,
    ids: &[i64],
) -> Result<Vec<Read>, TenantsError> {
    Ok(match table {
        Table::Plans => {
            let found = sqlx::query_as!(
                plan::Record,
                "select id, name, version, rules, models, markup_bps, default_max_output_tokens,
                        max_output_tokens, deny_mode, request_fee_nanos, max_request_charge_nanos,
                        max_request_tokens, max_wait_ms, weight
                 from plans where id = any($1)",
                ids,
            );
            plans(found.fetch_all(pool).await?)
        }
        Table::Tenants => {
            let found = sqlx::query_as!(
                tenant::Record,
                "select id, slug, name, plan_id, time_zone, status, created_at
                 from tenants where id = any($1)",
                ids,
            );
            tenants(found.fetch_all(pool).await?)
        }
        Table::Teams => {
            let found = sqlx::query_as!(
                team::Record,
                "select id, tenant_id, name, rules from teams where id = any($1)",
                ids,
            );
            teams(found.fetch_all(pool).await?)
        }
        Table::Overrides => overrides(limit_override::these(pool, ids).await?),
        Table::Keys => {
            let found = sqlx::query_as!(
                KeyRecord,
                "select id, tenant_id, team_id, name, secret_hash, old_secret_hash, old_secret_until,
                        rules, status, expires_at
                 from api_keys where id = any($1)",
                ids,
            );
            keys(found.fetch_all(pool).await?)
        }
    })
}

fn plans(records: Vec<plan::Record>) -> Vec<Read> {
    let read = |record: plan::Record| (record.id, readable(record.read()).map(Arc::new));
    records.into_iter().map(read).map(|(id, plan)| (id, plan.map(Row::Plan))).collect()
}

fn tenants(records: Vec<tenant::Record>) -> Vec<Read> {
    let read = |record: tenant::Record| (record.id, readable(record.read()).map(Arc::new));
    records.into_iter().map(read).map(|(id, tenant)| (id, tenant.map(Row::Tenant))).collect()
}

fn teams(records: Vec<team::Record>) -> Vec<Read> {
    let read = |record: team::Record| (record.id, readable(record.read()).map(Arc::new));
    records.into_iter().map(read).map(|(id, team)| (id, team.map(Row::Team))).collect()
}

fn keys(records: Vec<KeyRecord>) -> Vec<Read> {
    let read = |record: KeyRecord| (record.id, readable(record.read()).map(Arc::new));
    records.into_iter().map(read).map(|(id, key)| (id, key.map(Row::Key))).collect()
}

/// A tenant without any needs no row.
fn overrides(all: Vec<Overrides>) -> Vec<Read> {
    let read = |overrides: Overrides| {
        let is_empty = overrides.list.as_ref().is_some_and(Vec::is_empty);
        (overrides.tenant.0, (!is_empty).then(|| Row::Overrides(Arc::new(overrides))))
    };
    all.into_iter().map(read).collect()
}

/// A row that cannot be read is left out, so that its calls are refused and all others go on.
fn readable<T>(read: Result<T, TenantsError>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "a row is left out of the directory")).ok()
}

struct KeyRecord {
    id: i64,
    tenant_id: i64,
    team_id: Option<i64>,
    name: String,
    secret_hash: Vec<u8>,
    old_secret_hash: Option<Vec<u8>>,
    old_secret_until: Option<OffsetDateTime>,
    rules: Value,
    status: String,
    expires_at: Option<OffsetDateTime>,
}

impl KeyRecord {
    fn read(self) -> Result<ApiKey, TenantsError> {
        let unreadable = |why: &str| TenantsError::unreadable("api_keys", self.id, why);
        let hash = |bytes: Vec<u8>| {
            bytes.try_into().map(KeyHash).map_err(|_| unreadable("hash of another length"))
        };
        let old = match (self.old_secret_hash, self.old_secret_until) {
            (Some(bytes), Some(until)) => {
                Some(Box::new(OldSecret { hash: hash(bytes)?, until: from_time(until) }))
            }
            _ => None,
        };
        Ok(ApiKey {
            id: KeyId(self.id),
            tenant: TenantId(self.tenant_id),
            team: self.team_id.map(TeamId),
            hash: hash(self.secret_hash)?,
            old,
            status: KeyStatus::parse(&self.status).ok_or_else(|| unreadable("unknown status"))?,
            name: self.name.into_boxed_str(),
            rules: rules::read("api_keys", self.id, self.rules)?.into_boxed_slice(),
            expires_at: self.expires_at.map(from_time),
        })
    }
}

/// All of the catalog, as it was at one instant, with the credentials opened.
pub(crate) async fn catalog(pool: &PgPool, sealer: &Sealer) -> Result<Catalog, TenantsError> {
    let mut then = pool.begin_with("begin isolation level repeatable read read only").await?;
    let providers = upstreams(&mut then, sealer).await?;
    let mut routes = routes(&mut then).await?;
    let mut prices = prices(&mut then).await?;
    let rows =
        sqlx::query!("select id, name, class, context_tokens, max_output_tokens from models")
            .fetch_all(&mut *then)
            .await?;
    then.commit().await?;
    let mut catalog = Catalog { providers, ..Catalog::default() };
    for row in rows {
        let model = Arc::new(Model {
            id: ModelId(row.id),
            name: row.name,
            class: row.class,
            context_tokens: row.context_tokens,
            max_output_tokens: row.max_output_tokens,
            routes: routes.remove(&row.id).unwrap_or_default(),
            rate_cards: rate_cards(prices.remove(&row.id).unwrap_or_default()),
        });
        catalog.by_name.insert(model.name.clone(), Arc::clone(&model));
        catalog.models.insert(model.id, model);
    }
    Ok(catalog)
}

/// One price that cannot be read leaves the model without any: the one before it would be the wrong one.
fn rate_cards(records: Vec<price::Record>) -> Vec<(UnixMs, RateCard)> {
    let read: Result<Vec<_>, _> = records
        .into_iter()
        .map(|record| record.read().map(|row| (row.effective_from, row.card)))
        .collect();
    readable(read).unwrap_or_default()
}

async fn upstreams(
    then: &mut PgConnection,
    sealer: &Sealer,
) -> Result<HashMap<ProviderId, Arc<Upstream>>, TenantsError> {
    let rows = sqlx::query!(
        "select id, name, dialect, base_url, credential_sealed, connect_ms, first_byte_ms, idle_ms,
                total_ms, on_disconnect, drain_ms, enabled, rules
         from providers"
    )
    .fetch_all(then)
    .await?;
    let mut upstreams = HashMap::with_capacity(rows.len());
    for row in rows {
        let unreadable = |why| TenantsError::unreadable("providers", row.id, why);
        let dialect = Dialect::parse(&row.dialect).ok_or_else(|| unreadable("unknown dialect"));
        let on_disconnect = OnDisconnect::parse(&row.on_disconnect)
            .ok_or_else(|| unreadable("unknown on_disconnect"));
        let quota = rules::read("providers", row.id, row.rules);
        let (Some(dialect), Some(on_disconnect), Some(quota)) =
            (readable(dialect), readable(on_disconnect), readable(quota))
        else {
            continue;
        };
        let id = ProviderId(row.id);
        let upstream = Upstream {
            id,
            name: row.name,
            dialect,
            base_url: row.base_url,
            credential: opened(sealer, id, row.credential_sealed.as_deref()),
            timeouts: Timeouts {
                connect_ms: row.connect_ms,
                first_byte_ms: row.first_byte_ms,
                idle_ms: row.idle_ms,
                total_ms: row.total_ms,
                drain_ms: row.drain_ms,
            },
            on_disconnect,
            enabled: row.enabled,
            quota: quota.into_boxed_slice(),
        };
        upstreams.insert(id, Arc::new(upstream));
    }
    Ok(upstreams)
}

fn opened(sealer: &Sealer, provider: ProviderId, sealed: Option<&[u8]>) -> Credential {
    let Some(sealed) = sealed else { return Credential::None };
    match sealer.open(Purpose::provider_credential(provider), sealed) {
        Ok(secret) => Credential::Open(Arc::new(secret)),
        Err(error) => {
            tracing::error!(%error, provider_id = provider.0, "a credential stays shut");
            Credential::Shut
        }
    }
}

async fn routes(then: &mut PgConnection) -> Result<HashMap<i64, Vec<Route>>, TenantsError> {
    let rows = sqlx::query!(
        "select model_id, provider_id, upstream_model, weight from model_routes order by model_id, position"
    )
    .fetch_all(then)
    .await?;
    let mut routes = HashMap::<i64, Vec<Route>>::new();
    for row in rows {
        routes.entry(row.model_id).or_default().push(Route {
            provider: ProviderId(row.provider_id),
            upstream_model: row.upstream_model,
            weight: row.weight,
        });
    }
    Ok(routes)
}

async fn prices(then: &mut PgConnection) -> Result<HashMap<i64, Vec<price::Record>>, TenantsError> {
    let rows = sqlx::query!(
        "select id, model_id, effective_from, prices, long_context, source from prices
         order by model_id, effective_from"
    )
    .fetch_all(then)
    .await?;
    let mut prices = HashMap::<i64, Vec<price::Record>>::new();
    for row in rows {
        prices.entry(row.model_id).or_default().push(price::Record {
            id: row.id,
            effective_from: row.effective_from,
            prices: row.prices,
            long_context: row.long_context,
            source: row.source,
        });
    }
    Ok(prices)
}

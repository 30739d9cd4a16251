//! Rows to begin a test with. They are written with plain SQL: the packages under test are not used.

use domain::id::{KeyId, ModelId, PlanId, PriceId, ProviderId, TeamId, TenantId};
use domain::plan::LimitRule;
use domain::usage::Dialect;
use sqlx::PgPool;
use sqlx::types::Json;

/// The plans that Weir brings, as its product code has them.
const DEFAULT_PLANS: &str = include_str!("../../tenants/default_plans.json");

/// The rows of the four plans that Weir brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plans {
    /// 0.50 USD a month.
    pub free: PlanId,
    /// 20 USD a month.
    pub starter: PlanId,
    /// 200 USD a month.
    pub pro: PlanId,
    /// 2,000 USD a month, no rolling windows.
    pub enterprise: PlanId,
}

/// Inserts the plans that Weir brings, as version 1.
///
/// # Panics
/// When they are there already.
pub async fn plans(pool: &PgPool) -> Plans {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "insert into plans (name, rules, models, markup_bps, default_max_output_tokens,
                            max_output_tokens, deny_mode, request_fee_nanos)
         select name, rules, models, markup_bps, default_max_output_tokens,
                max_output_tokens, deny_mode, request_fee_nanos
         from jsonb_to_recordset($1::text::jsonb) as p
             (name text, rules jsonb, models jsonb, markup_bps bigint, default_max_output_tokens bigint,
              max_output_tokens bigint, deny_mode text, request_fee_nanos bigint)
         returning name, id",
    )
    .bind(DEFAULT_PLANS)
    .fetch_all(pool)
    .await
    .unwrap_or_else(|e| panic!("cannot insert the default plans: {e}"));
    let of = |name: &str| {
        let row = rows.iter().find(|(n, _)| n == name);
        row.map_or_else(|| panic!("no default plan {name}"), |(_, id)| PlanId(*id))
    };
    Plans { free: of("free"), starter: of("starter"), pro: of("pro"), enterprise: of("enterprise") }
}

/// Inserts a plan with these rules and every model; output is bounded to 1,024 tokens by default
/// and 8,192 at most.
///
/// # Panics
/// When a plan of that name is there already.
pub async fn plan(pool: &PgPool, name: &str, rules: &[LimitRule]) -> PlanId {
    let id = sqlx::query_scalar(
        r#"insert into plans (name, rules, models, default_max_output_tokens, max_output_tokens)
           values ($1, $2, '"all"', 1024, 8192) returning id"#,
    )
    .bind(name)
    .bind(Json(rules))
    .fetch_one(pool)
    .await;
    PlanId(id.unwrap_or_else(|e| panic!("cannot insert plan {name}: {e}")))
}

/// Inserts an active tenant in UTC; its name is its slug.
///
/// # Panics
/// When the slug is taken or not one.
pub async fn tenant(pool: &PgPool, slug: &str, plan: PlanId) -> TenantId {
    let id = sqlx::query_scalar(
        "insert into tenants (slug, name, plan_id) values ($1, $1, $2) returning id",
    )
    .bind(slug)
    .bind(plan.0)
    .fetch_one(pool)
    .await;
    TenantId(id.unwrap_or_else(|e| panic!("cannot insert tenant {slug}: {e}")))
}

/// Inserts a team with limits of its own.
///
/// # Panics
/// When the tenant is not there or has a team of that name.
pub async fn team(pool: &PgPool, tenant: TenantId, name: &str, rules: &[LimitRule]) -> TeamId {
    let id = sqlx::query_scalar(
        "insert into teams (tenant_id, name, rules) values ($1, $2, $3) returning id",
    )
    .bind(tenant.0)
    .bind(name)
    .bind(Json(rules))
    .fetch_one(pool)
    .await;
    TeamId(id.unwrap_or_else(|e| panic!("cannot insert team {name}: {e}")))
}

/// Inserts an active key that nobody can present: its secret is random and not kept.
///
/// # Panics
/// When the tenant or the team is not there.
pub async fn key(pool: &PgPool, tenant: TenantId, team: Option<TeamId>) -> KeyId {
    let id = sqlx::query_scalar(
        "insert into api_keys (tenant_id, team_id, name, secret_hash, masked)
         values ($1, $2, 'fixture', sha256(gen_random_uuid()::text::bytea), 'weir_sk_0000…0000')
         returning id",
    )
    .bind(tenant.0)
    .bind(team.map(|team| team.0))
    .fetch_one(pool)
    .await;
    KeyId(id.unwrap_or_else(|e| panic!("cannot insert a key of tenant {tenant}: {e}")))
}

/// A provider, the one model it serves, and that model's price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The wire it speaks.
    pub dialect: Dialect,
    /// The provider's row.
    pub provider: ProviderId,
    /// The model's row.
    pub model: ModelId,
    /// The name that clients use for the model.
    pub model_name: String,
    /// The row of its price.
    pub price: PriceId,
}

/// One offer for each dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// `sim-openai`, model `openai-flash`.
    pub openai: Offer,
    /// `sim-anthropic`, model `anthropic-flash`.
    pub anthropic: Offer,
    /// `sim-gemini`, model `gemini-flash`.
    pub gemini: Offer,
}

/// Inserts a provider without a credential for each dialect, all at `base_url`, each with one model of
/// class `flash` (context 1,000,000, output 65,536 tokens) that costs 0.10 USD per million tokens of
/// input and 0.40 USD of output, ever since 2020.
///
/// # Panics
/// When they are there already.
pub async fn catalog(pool: &PgPool, base_url: &str) -> Catalog {
    Catalog {
        openai: offer(pool, Dialect::Openai, base_url).await,
        anthropic: offer(pool, Dialect::Anthropic, base_url).await,
        gemini: offer(pool, Dialect::Gemini, base_url).await,
    }
}

async fn offer(pool: &PgPool, dialect: Dialect, base_url: &str) -> Offer {
    let row: Result<(i64, i64, String, i64), sqlx::Error> = sqlx::query_as(
        r#"with provider as (
               insert into providers (name, dialect, base_url) values ('sim-' || $1, $1, $2) returning id
           ), model as (
               insert into models (name, class, context_tokens, max_output_tokens)
               values ($1 || '-flash', 'flash', 1000000, 65536) returning id, name
           ), route as (
               insert into model_routes (model_id, position, provider_id, upstream_model)
               select model.id, 1, provider.id, model.name from model, provider
           ), price as (
               insert into prices (model_id, effective_from, prices, source)
               select id, '2020-01-01T00:00:00Z', '{"input": 100000, "output": 400000}', 'fixture'
               from model returning id
           )
           select provider.id, model.id, model.name, price.id from provider, model, price"#,
    )
    .bind(dialect.code())
    .bind(base_url)
    .fetch_one(pool)
    .await;
    let (provider, model, model_name, price) =
        row.unwrap_or_else(|e| panic!("cannot insert the {} offer: {e}", dialect.code()));
    Offer {
        dialect,
        provider: ProviderId(provider),
        model: ModelId(model),
        model_name,
        price: PriceId(price),
    }
}

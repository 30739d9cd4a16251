//! Makes the rows that the history refers to, with the same functions that the console and the admin API use.

use domain::admission::{Meter, Scope};
use domain::id::{ProviderId, TeamId, TenantId};
use domain::plan::{LimitRule, Plan};
use domain::rate_card::RateCard;
use domain::usage::Dialect;
use domain::window::{UnixMs, Zone};
use secrecy::SecretString;
use sqlx::PgConnection;
use tenants::api_key::{self, NewKey};
use tenants::catalog::{self, NewModel, NewProvider, OnDisconnect, Route, Timeouts};
use tenants::member::{self, NewMember, Role};
use tenants::password::Passwords;
use tenants::plan;
use tenants::price::{self, NewPrice};
use tenants::provider_key::Sealer;
use tenants::team;
use tenants::tenant::{self, NewTenant};

use super::cast::{CAST, CastTenant, scale_plan};
use super::price_list::{self, ListedModel};
use super::secrets::DemoSecrets;
use super::stage::{Offer, Stage, StagedKey, StagedTenant};
use super::{OPERATOR_EMAIL, SHOWN_TENANT, SeedError, TENANT_EMAIL};

/// What is sealed as the providers' credential. The simulator takes any; this one says what it is.
const CREDENTIAL: &str = "sk-simulated-credential-of-the-demo";
/// The providers, one for each dialect.
pub(super) const PROVIDERS: [(Dialect, &str); 3] =
    [(Dialect::Openai, "openai"), (Dialect::Anthropic, "anthropic"), (Dialect::Gemini, "google")];

/// Makes them all.
pub(super) async fn stage(
    db: &mut PgConnection,
    sealer: &Sealer,
    secrets: &DemoSecrets,
    history_start: UnixMs,
    provider_base_url: &str,
) -> Result<Stage, SeedError> {
    let mut providers = Vec::with_capacity(PROVIDERS.len());
    for (dialect, name) in PROVIDERS {
        let new = provider(name, dialect, provider_base_url);
        let id = catalog::insert_provider(db, sealer, &new, Some(&credential())).await?;
        providers.push((dialect, id));
    }
    let mut offers = Vec::new();
    for model in price_list::models(history_start)? {
        let provider = providers.iter().find(|(dialect, _)| *dialect == model.dialect);
        let (_, provider) = *provider.ok_or(SeedError::Stage)?;
        offers.push(offer(db, provider, model).await?);
    }
    plan::insert_defaults(&mut *db).await?;
    plan::insert_version(&mut *db, &scale_plan()).await?;
    let mut tenants = Vec::with_capacity(CAST.len());
    for (number, cast) in (0_u64..).zip(&CAST) {
        tenants.push(staged(db, number, cast, secrets).await?);
    }
    Ok(Stage { offers, tenants })
}

/// A provider that is the simulator.
pub(super) fn provider(name: &str, dialect: Dialect, base_url: &str) -> NewProvider {
    NewProvider {
        name: name.to_owned(),
        dialect,
        base_url: base_url.to_owned(),
        timeouts: Timeouts::default(),
        on_disconnect: OnDisconnect::Drain,
    }
}

/// What the simulator is shown.
pub(super) fn credential() -> SecretString {
    SecretString::from(CREDENTIAL)
}

async fn offer(
    db: &mut PgConnection,
    provider: ProviderId,
    model: ListedModel,
) -> Result<Offer, SeedError> {
    let new = NewModel {
        name: model.name.clone(),
        class: model.class.clone(),
        context_tokens: Some(model.context_tokens),
        max_output_tokens: Some(model.max_output_tokens),
    };
    let id = catalog::insert_model(&mut *db, &new).await?;
    let route = Route { provider, upstream_model: model.name.clone(), weight: 1 };
    catalog::set_routes(db, id, &[route]).await?;
    let mut cards = Vec::with_capacity(model.prices.len());
    for listed in &model.prices {
        let (prices, long_context) = (listed.prices.clone(), listed.long_context.clone());
        let new = NewPrice {
            model: id,
            effective_from: listed.effective_from,
            prices: prices.clone(),
            long_context: long_context.clone(),
            source: listed.source.clone(),
        };
        let price_id = price::insert(&mut *db, &new).await?;
        cards.push((listed.effective_from, RateCard { price_id, prices, long_context }));
    }
    Ok(Offer { provider, model, cards })
}

async fn staged(
    db: &mut PgConnection,
    number: u64,
    cast: &'static CastTenant,
    secrets: &DemoSecrets,
) -> Result<StagedTenant, SeedError> {
    let plan = plan::find_newest(&mut *db, cast.plan).await?;
    let new = NewTenant {
        slug: cast.slug.to_owned(),
        name: cast.name.to_owned(),
        plan: plan.id,
        time_zone: cast.zone.to_owned(),
    };
    let id = tenant::create(&mut *db, &new).await?;
    let mut teams = Vec::with_capacity(cast.teams.len());
    for team in cast.teams {
        teams.push(team::create(&mut *db, id, team.name, &team.rules()).await?);
    }
    let mut keys = Vec::with_capacity(cast.keys.len());
    for key in cast.keys {
        let team = key.team.and_then(|at| teams.get(at).copied().zip(cast.teams.get(at)));
        let secret = secrets.key(cast.slug, key.name).ok_or(SeedError::Stage)?;
        let new = NewKey {
            tenant: id,
            team: team.map(|(id, _)| id),
            name: key.name.to_owned(),
            rules: key.rules(),
            expires_at: None,
        };
        let key_id = api_key::create(&mut *db, &new, secret).await?;
        let team_rules = team.map(|(id, team)| (id, team.rules()));
        let meters = meters((key_id.0, key.rules()), team_rules, (id, &plan));
        keys.push(StagedKey { id: key_id, team: new.team, meters });
    }
    let zone = Zone::named(cast.zone).map_err(|_| SeedError::Stage)?;
    Ok(StagedTenant { id, number, cast, plan, zone, keys })
}

/// The limits that a key's calls are under, in the order in which the gateway puts them.
fn meters(
    key: (i64, Vec<LimitRule>),
    team: Option<(TeamId, Vec<LimitRule>)>,
    tenant: (TenantId, &Plan),
) -> Vec<Meter> {
    let team = team.map_or((0, Vec::new()), |(id, rules)| (id.0, rules));
    let lists = [
        (Scope::Key, key.0, key.1),
        (Scope::Team, team.0, team.1),
        (Scope::Tenant, tenant.0.0, tenant.1.rules.clone()),
    ];
    let of = |(scope, scope_id, rules): (Scope, i64, Vec<LimitRule>)| {
        rules.into_iter().map(move |rule| Meter { scope, scope_id, rule })
    };
    lists.into_iter().flat_map(of).collect()
}

/// Lets the operator and the owner of one tenant in.
pub(super) async fn people(
    db: &mut PgConnection,
    stage: &Stage,
    passwords: &Passwords,
    secrets: &DemoSecrets,
) -> Result<(), SeedError> {
    let shown = stage.tenants.iter().find(|tenant| tenant.cast.slug == SHOWN_TENANT);
    let tenant = shown.ok_or(SeedError::Stage)?.id;
    let people = [
        (OPERATOR_EMAIL, &secrets.operator_password, Role::Owner, None),
        (TENANT_EMAIL, &secrets.tenant_password, Role::TenantOwner, Some(tenant)),
    ];
    for (email, password, role, tenant) in people {
        let new = NewMember { email: email.to_owned(), password: password.clone(), role, tenant };
        member::create(&mut *db, passwords, new).await?;
    }
    Ok(())
}

//! Where calls go, with what, and at which price.

use domain::id::ProviderId;
use domain::money::PicoPerToken;
use domain::rate_card::Prices;
use domain::usage::Dialect;
use secrecy::{ExposeSecret, SecretString};
use tenants::TenantsError;
use tenants::catalog::{self, NewModel, NewProvider, OnDisconnect, Route, Timeouts};
use tenants::directory::{Changed, Credential, Directory};
use tenants::price::{self, NewPrice};
use testkit::fixtures;

use crate::world::{World, sealer, until};

fn provider(name: &str) -> NewProvider {
    NewProvider {
        name: name.to_owned(),
        dialect: Dialect::Anthropic,
        base_url: "https://api.example.com/".to_owned(),
        timeouts: Timeouts::default(),
        on_disconnect: OnDisconnect::Drain,
    }
}

async fn with_credential(world: &World, name: &str, secret: &str) -> ProviderId {
    let mut connection = world.pool.acquire().await.unwrap();
    let secret = SecretString::from(secret);
    catalog::insert_provider(&mut connection, &sealer(1), &provider(name), Some(&secret))
        .await
        .unwrap()
}

fn opened(directory: &Directory, id: ProviderId) -> Option<String> {
    match &directory.snapshot().upstream(id).unwrap().credential {
        Credential::Open(secret) => Some(secret.expose_secret().to_owned()),
        Credential::None | Credential::Shut => None,
    }
}

#[tokio::test]
async fn a_credential_is_sealed_at_rest_and_open_in_memory() {
    let world = World::new().await;
    let id = with_credential(&world, "one", "sk-ant-canary-0123456789").await;
    let directory = world.load().await;
    assert_eq!(opened(&directory, id).as_deref(), Some("sk-ant-canary-0123456789"));
    let listed = catalog::list_providers(&world.pool).await.unwrap().remove(0);
    assert_eq!((listed.credential_hint.as_str(), listed.has_credential), ("6789", true));
    assert_eq!(listed.base_url, "https://api.example.com");
    let kept: Vec<u8> = sqlx::query_scalar("select credential_sealed from providers")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert!(!kept.windows(6).any(|w| w == b"canary"));
    let shown = format!("{:?}", directory.snapshot());
    assert!(!shown.contains("canary") && shown.contains("[redacted]"), "{shown}");
}

#[tokio::test]
async fn a_credential_moved_to_another_row_stays_shut() {
    let world = World::new().await;
    let rich = with_credential(&world, "rich", "sk-of-the-rich-provider").await;
    let poor = with_credential(&world, "poor", "sk-of-the-poor-provider").await;
    sqlx::query(
        "update providers set credential_sealed = (select credential_sealed from providers where id = $1)
         where id = $2",
    )
    .bind(rich.0)
    .bind(poor.0)
    .execute(&world.pool)
    .await
    .unwrap();
    let directory = world.load().await;
    assert_eq!(opened(&directory, rich).as_deref(), Some("sk-of-the-rich-provider"));
    let snapshot = directory.snapshot();
    assert!(matches!(snapshot.upstream(poor).unwrap().credential, Credential::Shut));
}

#[tokio::test]
async fn another_instances_key_opens_nothing_and_stops_nothing() {
    let world = World::new().await;
    let id = with_credential(&world, "one", "sk-0123456789abcdef").await;
    let (_, secret) = world.key().await;
    let directory = Directory::load(&world.pool, sealer(2)).await.unwrap();
    let snapshot = directory.snapshot();
    assert!(matches!(snapshot.upstream(id).unwrap().credential, Credential::Shut));
    assert!(world.identify(&directory, &secret).is_ok());
}

#[tokio::test]
async fn credentials_are_put_under_a_new_key_once() {
    use tenants::provider_key::Sealer;
    let kek = |byte: u8| secrecy::SecretBox::new(Box::new([byte; 32]));
    let world = World::new().await;
    let id = with_credential(&world, "one", "sk-0123456789abcdef").await;
    let both = Sealer::from_key(kek(2)).with_previous(kek(1));
    let mut connection = world.pool.acquire().await.unwrap();
    assert_eq!(catalog::rewrap_credentials(&mut connection, &both).await.unwrap(), 1);
    assert_eq!(catalog::rewrap_credentials(&mut connection, &both).await.unwrap(), 0);
    let directory = Directory::load(&world.pool, sealer(2)).await.unwrap();
    assert_eq!(opened(&directory, id).as_deref(), Some("sk-0123456789abcdef"));
}

fn flat(input: i64) -> Prices {
    Prices::flat(PicoPerToken(input), PicoPerToken(input * 4))
}

#[tokio::test]
async fn the_price_in_force_is_found_by_the_instant() {
    let world = World::new().await;
    let offer = fixtures::catalog(&world.pool, "http://127.0.0.1:9").await.gemini;
    let (model, start) = (offer.model, world.now());
    let set = async |from, input| {
        let (prices, source) = (flat(input), "test".to_owned());
        let new = NewPrice { model, effective_from: from, prices, long_context: None, source };
        price::insert(&world.pool, &new).await
    };
    // The later one first: the order of the rows is not the order of the instants.
    let later = set(start.plus_ms(1_000), 300).await.unwrap();
    let now = set(start, 200).await.unwrap();
    let directory = world.load().await;
    let snapshot = directory.snapshot();
    let at = |ms: i64| snapshot.rate_card(model, start.plus_ms(ms)).map(|card| card.price_id);
    assert_eq!(at(-1), Some(offer.price));
    assert_eq!((at(0), at(999)), (Some(now), Some(now)));
    assert_eq!((at(1_000), at(1_000_000)), (Some(later), Some(later)));
    assert!(snapshot.rate_card(model, domain::window::UnixMs(0)).is_none());

    let again = set(start, 1).await;
    assert!(matches!(again, Err(TenantsError::Conflict { .. })), "{again:?}");
    let negative = set(start.plus_ms(5), -1).await;
    assert!(matches!(negative, Err(TenantsError::Invalid { .. })), "{negative:?}");
    let listed = price::list(&world.pool, model).await.unwrap();
    assert_eq!(
        listed.iter().map(|row| row.card.price_id).collect::<Vec<_>>(),
        [later, now, offer.price]
    );
}

#[tokio::test]
async fn a_price_nobody_can_read_leaves_the_model_without_any() {
    let world = World::new().await;
    let offer = fixtures::catalog(&world.pool, "http://127.0.0.1:9").await.openai;
    sqlx::query(
        r#"insert into prices (model_id, effective_from, prices, source)
           values ($1, '2021-01-01', '{"input": "dear"}', 'test')"#,
    )
    .bind(offer.model.0)
    .execute(&world.pool)
    .await
    .unwrap();
    let directory = world.load().await;
    assert!(directory.snapshot().rate_card(offer.model, world.now()).is_none());
}

#[tokio::test]
async fn a_new_model_with_its_routes_and_price_is_seen() {
    let mut world = World::new().await;
    let id = with_credential(&world, "one", "sk-0123456789abcdef").await;
    let fallback = with_credential(&world, "two", "sk-fedcba9876543210").await;
    let directory = world.process().await;
    let new = NewModel {
        name: "claude-x".to_owned(),
        class: "pro".to_owned(),
        context_tokens: Some(200_000),
        max_output_tokens: None,
    };
    let model = catalog::insert_model(&world.pool, &new).await.unwrap();
    let route = |provider, weight| Route { provider, upstream_model: "x-1".to_owned(), weight };
    let routes = [route(fallback, 900), route(id, 100)];
    let mut connection = world.pool.acquire().await.unwrap();
    catalog::set_routes(&mut connection, model, &routes[1..]).await.unwrap();
    catalog::set_routes(&mut connection, model, &routes).await.unwrap();
    until("model and routes", || {
        directory.snapshot().model("claude-x").is_some_and(|found| found.routes == routes)
    })
    .await;
    assert_eq!(catalog::list_routes(&world.pool, model).await.unwrap(), routes);
    let nowhere = [route(ProviderId(999), 1)];
    let refused = catalog::set_routes(&mut connection, model, &nowhere).await;
    assert!(matches!(refused, Err(TenantsError::NotFound { what: "provider" })), "{refused:?}");
    assert_eq!(catalog::list_routes(&world.pool, model).await.unwrap(), routes);

    catalog::set_enabled(&world.pool, id, false).await.unwrap();
    until("the provider is off", || !directory.snapshot().upstream(id).unwrap().enabled).await;
    directory.refresh(&world.pool, &[Changed::Catalog]).await.unwrap();
    assert_eq!(catalog::list_models(&world.pool).await.unwrap(), [(model, new)]);
}

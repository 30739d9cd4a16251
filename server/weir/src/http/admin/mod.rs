//! The admin API: what scripts ask and change. Behind the admin token, in JSON.
//!
//! Amounts are integers whose names end in `_nanos` (1e-9 USD), prices decimal texts in USD per
//! million tokens, instants RFC 3339 in UTC.

mod ask;
pub(super) mod events;
pub(super) mod keys;
pub(super) mod ledger;
pub(super) mod limits;
pub(super) mod models;
pub(super) mod overrides;
pub(super) mod plans;
mod prices;
pub(super) mod providers;
pub(super) mod tenants;

use std::sync::LazyLock;

use axum::Json;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Weir admin API",
        description = "Amounts are integers in nano-USD (names end in `_nanos`), prices decimal \
                       texts in USD per million tokens, instants RFC 3339 in UTC. Errors are \
                       `application/problem+json` with `code` and `request_id`."
    ),
    paths(
        providers::list,
        providers::create,
        providers::credential,
        providers::quota,
        models::list,
        models::create,
        models::set_routes,
        models::list_prices,
        models::add_price,
        plans::list,
        plans::create,
        tenants::list,
        tenants::create,
        tenants::one,
        tenants::change,
        keys::list,
        keys::create,
        keys::revoke,
        ledger::list,
        ledger::create,
        limits::list,
        overrides::list,
        overrides::set,
        overrides::end,
        events::list,
        events::one,
        events::refusal,
    ),
    modifiers(&Token),
    security(("admin_token" = []))
)]
struct Api;

/// Says how the token is sent.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut Document) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("admin_token", SecurityScheme::Http(bearer));
    }
}

/// The document of this API.
#[must_use]
pub fn openapi() -> Document {
    Api::openapi()
}

/// Answers with the document. It is made once: nothing in it changes while the process runs.
pub(super) async fn document() -> Json<&'static Document> {
    static DOCUMENT: LazyLock<Document> = LazyLock::new(openapi);
    Json(&DOCUMENT)
}

//! The models a key may use, in the words of its dialect.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use domain::usage::Dialect;
use domain::window::UnixMs;
use gateway::ListedModel;
use serde_json::Value;
use tenants::context::TenantContext;
use tenants::directory::Model;

use super::json_answer;
use crate::http::caller::Caller;
use crate::http::error::{Code, Denial, Shape, refusal};
use crate::weir::Weir;

/// `GET /v1/models`, which clients of all dialects share, and `GET /v1beta/models`.
pub(in crate::http) async fn list_models(State(weir): State<Weir>, caller: Caller) -> Response {
    let dialect = dialect_of(caller.shape);
    let models = usable(&weir, &caller.tenant, dialect);
    let value = match dialect {
        Dialect::Openai => gateway::openai_list(&models),
        Dialect::Anthropic => gateway::anthropic_list(&models),
        Dialect::Gemini => gateway::gemini_list(&models),
    };
    json_answer(caller.shape, caller.request_id, &value)
}

/// `GET /v1/models/{model}` and the same under `/v1beta`.
pub(in crate::http) async fn one_model(
    State(weir): State<Weir>,
    caller: Caller,
    Path(name): Path<String>,
) -> Response {
    let dialect = dialect_of(caller.shape);
    match usable(&weir, &caller.tenant, dialect).into_iter().find(|model| model.name == name) {
        Some(model) => json_answer(caller.shape, caller.request_id, &shown(dialect, &model)),
        None => {
            let message = "no such model, or the plan does not include it";
            refusal(caller.shape, caller.request_id, &Denial::new(Code::ModelNotFound, message))
        }
    }
}

fn shown(dialect: Dialect, model: &ListedModel) -> Value {
    match dialect {
        Dialect::Openai => gateway::openai_one(model),
        Dialect::Anthropic => gateway::anthropic_one(model),
        Dialect::Gemini => gateway::gemini_one(model),
    }
}

/// The routes of calls always have a dialect; OpenAI's words are the most widely understood.
const fn dialect_of(shape: Shape) -> Dialect {
    match shape {
        Shape::Dialect(dialect) => dialect,
        Shape::Problem => Dialect::Openai,
    }
}

/// The models that this tenant could call now in this dialect, by name.
fn usable(weir: &Weir, tenant: &TenantContext, dialect: Dialect) -> Vec<ListedModel> {
    let snapshot = weir.directory.snapshot();
    let now = weir.clock.now();
    let speaks = |model: &Model| {
        let first = model.routes.first().and_then(|route| snapshot.upstream(route.provider));
        first.is_some_and(|provider| provider.enabled && provider.dialect == dialect)
    };
    let mut models: Vec<ListedModel> = snapshot
        .models()
        .map(Arc::as_ref)
        .filter(|model| tenant.plan.models.allows(&model.name, &model.class))
        .filter(|model| speaks(model) && model.rate_card(now).is_some())
        .map(|model| ListedModel {
            name: model.name.clone(),
            created_s: since(model).0.div_euclid(1_000),
            created: jiff::Timestamp::from_millisecond(since(model).0)
                .map_or_else(|_| String::new(), |at| at.to_string()),
            context_tokens: model.context_tokens,
            max_output_tokens: model.max_output_tokens,
        })
        .collect();
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models
}

/// Since when the model can be called: its first price.
fn since(model: &Model) -> UnixMs {
    model.rate_cards.first().map_or(UnixMs(0), |(from, _)| *from)
}

//! One metered call. Nothing else in Weir spends a tenant's money.

use std::sync::Arc;

use bytes::Bytes;
use domain::admission::Estimate;
use domain::id::RequestId;
use domain::rate_card::RateCard;
use domain::window::UnixMs;
use http::HeaderMap;
use limiter::{Ask, Hold, Verdict};
use tenants::context::TenantContext;
use tenants::directory::{Model, Upstream as Provider};
use tokio::sync::oneshot;

use crate::Gateway;
use crate::dialect::{self, Asked, Route, invalid};
use crate::error::CallError;
use crate::estimate::{self, PromptSize};
use crate::finish::Finish;
use crate::reply::Reply;

/// A request as it came in, with its key already known.
#[derive(Debug, Clone)]
pub struct Request {
    /// Made at the edge.
    pub id: RequestId,
    /// Which call.
    pub route: Route,
    /// The client's headers.
    pub headers: HeaderMap,
    /// The client's body, whole and not compressed.
    pub body: Bytes,
    /// The client's own name of the request.
    pub client_request_id: Option<String>,
}

/// Serves one metered call: read, price, admit, forward; [`Finish`] records and settles.
///
/// From here on the call belongs to a task of its own, which runs to its end even if the client hangs up.
///
/// # Errors
/// When the call is not forwarded, or the provider failed before its answer began.
pub async fn call(
    gateway: &Gateway,
    tenant: &TenantContext,
    request: Request,
) -> Result<Reply, CallError> {
    let offer = Offer::make(gateway, tenant, request)?;
    let (answer, reply) = oneshot::channel();
    gateway.tasks.spawn(serve(gateway.clone(), offer, answer));
    reply.await.unwrap_or(Err(CallError::Draining))
}

/// Where the first word to the client goes.
pub(crate) type Answer = oneshot::Sender<Result<Reply, CallError>>;

async fn serve(gateway: Gateway, offer: Offer, mut answer: Answer) {
    let hold = match admit(&gateway, &offer).await {
        Ok(hold) => hold,
        Err(error) => {
            // A client that has left needs no answer, and nothing is held.
            let _ = answer.send(Err(error));
            return;
        }
    };
    let finish = Finish::new(gateway, offer, hold);
    match finish.forward(&mut answer).await {
        Some(Ok(response)) if response.status().is_success() => {
            finish.relay(response, answer).await;
        }
        Some(Ok(response)) => finish.rejected(response, answer).await,
        Some(Err(failure)) => finish.failed(failure, answer).await,
        None => finish.abandoned().await,
    }
}

async fn admit(gateway: &Gateway, offer: &Offer) -> Result<Hold, CallError> {
    let ask = Ask {
        request_id: offer.request.id,
        tenant_id: offer.tenant.tenant.id,
        zone: offer.tenant.tenant.zone.clone(),
        meters: offer.tenant.meters(),
        estimate: offer.estimate,
        now: gateway.clock.for_engine(),
    };
    match gateway.limiter.admit(&ask).await {
        Ok(Verdict::Admit(hold)) => Ok(hold),
        Ok(Verdict::Refuse(refusal)) => Err(CallError::Refused(Box::new(refusal))),
        Err(error) => {
            tracing::error!(request_id = %offer.request.id, %error, "no verdict");
            Err(CallError::AdmissionUnavailable)
        }
    }
}

/// A call that may be made if the limits allow it: read, found in the catalogue, priced.
pub(crate) struct Offer {
    pub(crate) request: Request,
    pub(crate) tenant: TenantContext,
    pub(crate) asked: Asked,
    pub(crate) size: PromptSize,
    pub(crate) model: Arc<Model>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) upstream_model: String,
    pub(crate) card: RateCard,
    /// The request as the provider gets it.
    pub(crate) body: Bytes,
    /// The most output of all answers together, in tokens.
    pub(crate) output_bound: i64,
    pub(crate) estimate: Estimate,
}

impl Offer {
    fn make(
        gateway: &Gateway,
        tenant: &TenantContext,
        request: Request,
    ) -> Result<Self, CallError> {
        if gateway.cut.is_cancelled() {
            return Err(CallError::Draining);
        }
        let size = PromptSize::measure(&request.body)?;
        let asked = dialect::read(&request.route, &request.body)?;
        let now = gateway.clock.now();
        let (model, provider, upstream_model, card) =
            look_up(gateway, tenant, &request.route, &asked, now)?;
        let cap = output_cap(tenant, &asked, model.max_output_tokens)?;
        let body = dialect::prepare(&request.route, &request.body, &asked, &upstream_model, cap)?;
        let too_much = || invalid("the output bounds multiply beyond what can be priced", None);
        let output_bound = cap.checked_mul(asked.answers).ok_or_else(too_much)?;
        let markup_bps = tenant.plan.markup_bps;
        let estimate =
            estimate::worst_case(&size, model.context_tokens, output_bound, &card, markup_bps)
                .map_err(|_| too_much())?;
        Ok(Self {
            request,
            tenant: tenant.clone(),
            asked,
            size,
            model,
            provider,
            upstream_model,
            card,
            body,
            output_bound,
            estimate,
        })
    }
}

type Found = (Arc<Model>, Arc<Provider>, String, RateCard);

/// Finds the model, whether the plan has it, who serves it, and what it costs now.
fn look_up(
    gateway: &Gateway,
    tenant: &TenantContext,
    route: &Route,
    asked: &Asked,
    now: UnixMs,
) -> Result<Found, CallError> {
    let snapshot = gateway.directory.snapshot();
    let name = &asked.model;
    let not_found = || CallError::ModelNotFound { model: name.clone() };
    let model = snapshot.model(name).ok_or_else(not_found)?;
    if !tenant.plan.models.allows(&model.name, &model.class) {
        return Err(CallError::ModelNotAllowed { model: name.clone() });
    }
    let card = model.rate_card(now).ok_or_else(not_found)?.clone();
    let route_to = model.routes.first().ok_or(CallError::ProviderDown)?;
    let provider = snapshot.upstream(route_to.provider).ok_or(CallError::ProviderDown)?;
    if provider.dialect != route.dialect() {
        let speaks = provider.dialect.code();
        return Err(CallError::WrongDialect { model: name.clone(), speaks });
    }
    if !provider.enabled {
        return Err(CallError::ProviderDown);
    }
    Ok((Arc::clone(model), Arc::clone(provider), route_to.upstream_model.clone(), card))
}

/// The output bound of one answer: the request's own, or the plan's where it names none. Never cut silently.
fn output_cap(
    tenant: &TenantContext,
    asked: &Asked,
    model_max: Option<i64>,
) -> Result<i64, CallError> {
    let plan = &tenant.plan;
    match asked.output_cap {
        Some(cap) if cap > plan.max_output_tokens => Err(invalid(
            format!("the output bound is {cap} tokens; the plan allows {}", plan.max_output_tokens),
            Some("max_tokens"),
        )),
        Some(cap) => Ok(cap),
        None => Ok(plan.default_max_output_tokens.min(model_max.unwrap_or(i64::MAX))),
    }
}

//! One metered call. Nothing else in Weir spends a tenant's money.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::admission::{Estimate, Reason, Refusal, Scope};
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
use crate::estimate::{self, PromptSize, Yardstick};
use crate::fail_point::FailPoint;
use crate::finish::Finish;
use crate::queue::{Caller, Outcome};
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
    let finish = match enter(gateway, offer, &mut answer).await {
        Ok(finish) => finish,
        Err(error) => {
            // A client that has left needs no answer, and nothing is held.
            let _ = answer.send(Err(error));
            return;
        }
    };
    match finish.forward(&mut answer).await {
        Some(Ok(response)) if response.status().is_success() => {
            finish.relay(response, answer).await;
        }
        Some(Ok(response)) => finish.rejected(response, answer).await,
        Some(Err(failure)) => finish.failed(failure, answer).await,
        None => finish.abandoned(answer).await,
    }
}

/// Admits the call and puts it on record.
async fn enter(gateway: Gateway, offer: Offer, answer: &mut Answer) -> Result<Finish, CallError> {
    // Asked before anything is held; opened again it is by a call that could be put on record.
    if let Err(error) = gateway.spool.ready(Instant::now()) {
        return Err(gateway.shut(&error));
    }
    let hold = admit(&gateway, &offer, answer).await?;
    gateway.fail_points.reached(FailPoint::AfterAdmit);
    let finish = Finish::open(gateway, offer, hold)?;
    finish.reached(FailPoint::AfterOpen);
    Ok(finish)
}

/// Asks for admission. A call that is refused may wait its turn, until its client leaves or the process ends.
async fn admit(gateway: &Gateway, offer: &Offer, answer: &mut Answer) -> Result<Hold, CallError> {
    let gone = async {
        tokio::select! {
            () = answer.closed() => {}
            () = gateway.cut.cancelled() => {}
        }
    };
    match gateway.queue.admit(&offer.caller(), || decide(gateway, offer), gone).await? {
        Outcome::Admitted(hold) => Ok(hold),
        Outcome::Refused(refusal) => Err(CallError::Refused(Box::new(refusal))),
        Outcome::Gone => Err(CallError::Draining),
    }
}

/// How long a call waits for those of its tenant that are over and not settled, before it is refused because of them.
const SETTLING_WAIT: Duration = Duration::from_secs(1);

/// A call whose client has its answer holds nothing in the client's eyes, though its event may still be on its way.
/// So a refusal in which holds have a part is asked for again when those calls are settled.
async fn decide(gateway: &Gateway, offer: &Offer) -> Result<Verdict, CallError> {
    let tenant_id = offer.tenant.tenant.id;
    let unsettled = gateway.settling.newest(tenant_id);
    let mut verdict = ask(gateway, offer).await?;
    if let Verdict::Refuse(refusal) = &verdict
        && has_holds(refusal)
        && let Some(newest) = unsettled
    {
        let settled = gateway.settling.settled_up_to(tenant_id, newest);
        if tokio::time::timeout(SETTLING_WAIT, settled).await.is_ok() {
            verdict = ask(gateway, offer).await?;
        }
    }
    Ok(verdict)
}

/// Whether calls that are not settled have a part in a refusal.
fn has_holds(refusal: &Refusal) -> bool {
    refusal.held > 0 || refusal.reason == Reason::ConcurrencyExhausted
}

async fn ask(gateway: &Gateway, offer: &Offer) -> Result<Verdict, CallError> {
    let ask = Ask {
        request_id: offer.request.id,
        tenant_id: offer.tenant.tenant.id,
        zone: offer.tenant.tenant.zone.clone(),
        meters: offer.tenant.meters().into_iter().chain(offer.provider.meters()).collect(),
        estimate: offer.estimate,
        now: gateway.clock.for_engine(),
    };
    gateway.limiter.admit(&ask).await.map_err(|error| {
        tracing::error!(request_id = %offer.request.id, %error, "no verdict");
        CallError::AdmissionUnavailable
    })
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
        let yardstick = Yardstick {
            context_tokens: model.context_tokens,
            card: &card,
            markup_bps: tenant.plan.markup_bps,
            milli_bytes_per_token: gateway.calibration.milli_bytes_per_token(model.id),
        };
        let estimate =
            estimate::worst_case(&size, output_bound, &yardstick).map_err(|_| too_much())?;
        if let Some(refusal) =
            estimate::above_maximum(tenant.tenant.id, &tenant.plan.terms, &estimate)
        {
            return Err(CallError::Refused(Box::new(refusal)));
        }
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

impl Offer {
    /// The call as it stands in line.
    fn caller(&self) -> Caller {
        let (tenant, plan) = (&self.tenant, &self.tenant.plan);
        let own = (Scope::Tenant, tenant.tenant.id.0);
        Caller {
            tenant: tenant.tenant.id,
            owners: [
                (Scope::Key, tenant.key.id.0),
                tenant.team.as_ref().map_or(own, |team| (Scope::Team, team.id.0)),
                own,
                (Scope::Provider, self.provider.id.0),
            ],
            estimate: self.estimate,
            weight: plan.terms.weight,
            own_patience: Caller::patience_of(plan),
            bytes: self.body.len(),
        }
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

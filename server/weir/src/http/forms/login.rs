//! Signing in and out.

use app::console::Viewer;
use app::routes::{self, done, error, field, query};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use domain::id::RequestId;
use http::Response;
use serde_json::json;
use tenants::audit;
use tenants::member::{self, Member};

use super::{fault, refuse};
use crate::deeds::Actor;
use crate::http::answer;
use crate::http::edge::Peer;
use crate::http::posted::Posted;
use crate::http::session::{Sessions, sign_in, sign_out};
use crate::weir::Weir;

/// Signs a person in. An unknown address, a wrong password and a person who was kept out get the
/// same answer after the same time.
pub(in crate::http) async fn enter(
    State(weir): State<Weir>,
    Extension(sessions): Extension<Sessions>,
    Extension(request_id): Extension<RequestId>,
    Extension(Peer(peer)): Extension<Peer>,
    posted: Posted,
) -> Response<Body> {
    let fields = match posted.genuine(routes::LOGIN) {
        Ok(fields) => fields,
        Err(expired) => return *expired,
    };
    let email = fields.text(field::EMAIL);
    let next = fields.own_path(field::NEXT).unwrap_or_default();
    let kept = [(field::EMAIL, email), (field::NEXT, next)];
    let now = weir.clock.now();
    if let Some(wait_s) = weir.throttle.wait_s(peer.ip(), email, now) {
        let wait_s = wait_s.to_string();
        let told = [kept[0], kept[1], (query::WAIT_S, wait_s.as_str())];
        return refuse(routes::LOGIN, error::TOO_MANY_TRIES, &told);
    }
    weir.throttle.failed(peer.ip(), email, now);
    let password = fields.secret(field::PASSWORD);
    let found = member::verify_password(&weir.pool, &weir.passwords, email, password).await;
    let person = match found {
        Ok(Some(person)) => person,
        Ok(None) => {
            metrics::counter!("weir_sign_in_failures_total").increment(1);
            tracing::info!(address = %peer.ip(), "a sign-in failed");
            return refuse(routes::LOGIN, error::CREDENTIALS, &kept);
        }
        Err(failed) => {
            // It was no failure of the person's.
            weir.throttle.succeeded(peer.ip(), email);
            return fault(routes::LOGIN, &failed, request_id);
        }
    };
    weir.throttle.succeeded(peer.ip(), email);
    match sign_in(&weir, &sessions, &person).await {
        Ok(Some(viewer)) => {
            note(&weir, "session.begin", person, request_id).await;
            answer::see(&destination(&viewer, next))
        }
        // The tenant of this person is not there: as good as nobody.
        Ok(None) => refuse(routes::LOGIN, error::CREDENTIALS, &kept),
        Err(failed) => fault(routes::LOGIN, &failed, request_id),
    }
}

/// Where a person goes after signing in: where they meant to go, if it is on their side.
fn destination(viewer: &Viewer, next: &str) -> String {
    let home = viewer.home();
    let on_their_side = match next.split(['?', '#']).next() {
        Some(path) => path == home || path.starts_with(&format!("{home}/")),
        None => false,
    };
    if on_their_side { next.to_owned() } else { home }
}

/// Ends both sessions of the browser.
pub(in crate::http) async fn leave(
    State(weir): State<Weir>,
    Extension(sessions): Extension<Sessions>,
    Extension(request_id): Extension<RequestId>,
    viewer: Option<Extension<Viewer>>,
    posted: Posted,
) -> Response<Body> {
    if let Err(expired) = posted.genuine(routes::LOGIN) {
        return *expired;
    }
    if let Err(failed) = sign_out(&sessions).await {
        return fault(routes::LOGIN, &failed, request_id);
    }
    if let Some(Extension(viewer)) = viewer {
        tracing::info!(user_id = viewer.user_id, "signed out");
    }
    let _ = &weir;
    answer::see(&routes::with_query(routes::LOGIN, &[(query::DONE, done::SIGNED_OUT)]))
}

/// A line in the audit log. The sign-in stands whether or not it could be written.
async fn note(weir: &Weir, action: &str, person: Member, request_id: RequestId) {
    let actor = Actor { name: person.email, request_id: Some(request_id.to_string()) };
    let target = format!("user/{}", person.id);
    let entry = weir.desk.entry(actor, action, target, person.tenant, json!({}));
    if let Err(error) = audit::append(&weir.pool, &entry).await {
        tracing::error!(%error, "a sign-in is missing from the audit log");
    }
}

#[cfg(test)]
mod tests {
    use app::console::Role;
    use app::rights::TenantRole;

    use super::*;

    fn viewer(role: Role) -> Viewer {
        Viewer { user_id: 1, email: "a@b.example".into(), role }
    }

    #[test]
    fn after_signing_in_everybody_lands_on_their_own_side() {
        let operator = viewer(Role::Owner);
        assert_eq!(destination(&operator, "/admin/tenants?q=a"), "/admin/tenants?q=a");
        assert_eq!(destination(&operator, "/admin?month=2026-11"), "/admin?month=2026-11");
        for next in ["", "/", "/t/acme", "/administrator", "/logout"] {
            assert_eq!(destination(&operator, next), "/admin", "{next}");
        }
        let role = TenantRole::Dev;
        let member = viewer(Role::TenantMember { slug: "acme".into(), name: "Acme".into(), role });
        assert_eq!(destination(&member, "/t/acme?month=2026-11"), "/t/acme?month=2026-11");
        assert_eq!(destination(&member, "/admin"), "/t/acme");
        assert_eq!(destination(&member, "/t/acme-two"), "/t/acme");
    }
}

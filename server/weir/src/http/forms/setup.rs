//! The first owner.

use app::routes::{self, error, field};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use domain::id::RequestId;
use http::{Response, StatusCode};
use secrecy::ExposeSecret;
use tenants::TenantsError;

use super::{fault, refuse};
use crate::http::answer;
use crate::http::posted::{Fields, Posted};
use crate::http::session::{Sessions, sign_in};
use crate::setup::{self, FirstOwner};
use crate::weir::Weir;

/// Makes the first owner and signs them in. Without an open token there is no such form.
pub(in crate::http) async fn create(
    State(weir): State<Weir>,
    Extension(sessions): Extension<Sessions>,
    Extension(request_id): Extension<RequestId>,
    posted: Posted,
) -> Response<Body> {
    let fields = match posted.genuine(routes::SETUP) {
        Ok(fields) => fields,
        Err(expired) => return *expired,
    };
    let token = fields.text(field::TOKEN).to_owned();
    match setup::is_open(&weir, &token).await {
        Ok(true) => {}
        Ok(false) => return answer::sentence(StatusCode::NOT_FOUND, "There is nothing here."),
        Err(failed) => return fault(routes::SETUP, &failed, request_id),
    }
    let kept = [
        (field::TOKEN, token.as_str()),
        (field::EMAIL, fields.text(field::EMAIL)),
        (field::INSTANCE_NAME, fields.text(field::INSTANCE_NAME)),
    ];
    if let Some(code) = wrong(&fields) {
        return refuse(routes::SETUP, code, &kept);
    }
    let first = FirstOwner {
        token: token.clone(),
        email: fields.text(field::EMAIL).to_owned(),
        password: fields.secret(field::PASSWORD),
        instance_name: fields.text(field::INSTANCE_NAME).trim().to_owned(),
        request_id: request_id.to_string(),
    };
    let owner = match setup::create_owner(&weir, first).await {
        Ok(Some(owner)) => owner,
        Ok(None) => return answer::sentence(StatusCode::NOT_FOUND, "There is nothing here."),
        Err(TenantsError::Invalid { .. } | TenantsError::Conflict { .. }) => {
            return refuse(routes::SETUP, error::EMAIL_INVALID, &kept);
        }
        Err(failed) => return fault(routes::SETUP, &failed, request_id),
    };
    tracing::info!("the first owner was made");
    match sign_in(&weir, &sessions, &owner).await {
        Ok(_) => answer::see(routes::ADMIN),
        Err(failed) => fault(routes::LOGIN, &failed, request_id),
    }
}

/// The first thing that is wrong with the form.
fn wrong(fields: &Fields) -> Option<&'static str> {
    let name = fields.text(field::INSTANCE_NAME).trim();
    let (local, host) = fields.text(field::EMAIL).trim().split_once('@').unwrap_or_default();
    let password = fields.secret(field::PASSWORD);
    let password = password.expose_secret();
    if local.is_empty() || host.is_empty() {
        Some(error::EMAIL_INVALID)
    } else if password.chars().count() < routes::PASSWORD_MIN_CHARS {
        Some(error::PASSWORD_TOO_SHORT)
    } else if password.len() > routes::PASSWORD_MAX_BYTES {
        Some(error::PASSWORD_TOO_LONG)
    } else if name.is_empty() || name.chars().count() > routes::NAME_MAX_CHARS {
        Some(error::INSTANCE_NAME_INVALID)
    } else {
        None
    }
}

//! A tenant's keys: made, and ended.

use app::console::Viewer;
use app::routes::{self, done, error, field, query, with_query};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use domain::id::{KeyId, RequestId, UserId};
use http::{Response, StatusCode};
use tenants::TenantsError;
use tenants::api_key::{self, KeyStatus, NewKey};
use tenants::tenant::{self, Tenant};

use super::{fault, refuse};
use crate::deeds::{self, Actor};
use crate::http::answer;
use crate::http::posted::Posted;
use crate::once;
use crate::weir::Weir;

/// Makes a key; the next page shows its text, once.
pub(in crate::http) async fn create(
    State(weir): State<Weir>,
    Path(slug): Path<String>,
    Extension(viewer): Extension<Viewer>,
    Extension(request_id): Extension<RequestId>,
    posted: Posted,
) -> Response<Body> {
    let page = routes::tenant(&slug);
    let fields = match posted.genuine(&page) {
        Ok(fields) => fields,
        Err(expired) => return *expired,
    };
    let name = fields.text(field::NAME).trim();
    if name.is_empty() || name.chars().count() > routes::NAME_MAX_CHARS {
        return refuse(&page, error::NAME_INVALID, &[(field::NAME, name)]);
    }
    let tenant = match find(&weir, &slug, &page, request_id).await {
        Ok(tenant) => tenant,
        Err(response) => return *response,
    };
    let new = NewKey {
        tenant: tenant.id,
        team: None,
        name: name.to_owned(),
        rules: Vec::new(),
        expires_at: None,
    };
    let made = deeds::create_key(&weir.desk, actor(&viewer, request_id), new).await;
    let (id, secret) = match made {
        Ok(made) => made,
        Err(TenantsError::Conflict { .. }) => {
            return refuse(&page, error::NAME_TAKEN, &[(field::NAME, name)]);
        }
        Err(failed) => return fault(&page, &failed, request_id),
    };
    let text = secret.expose().into();
    match once::keep(&weir, UserId(viewer.user_id), id, &text).await {
        Ok(()) => answer::see(&routes::key_created(&slug, id.0)),
        Err(failed) => fault(&page, &failed, request_id),
    }
}

/// Ends a key for good, once its name was typed.
pub(in crate::http) async fn revoke(
    State(weir): State<Weir>,
    Path((slug, id)): Path<(String, i64)>,
    Extension(viewer): Extension<Viewer>,
    Extension(request_id): Extension<RequestId>,
    posted: Posted,
) -> Response<Body> {
    let form = routes::key_revoke(&slug, id);
    let fields = match posted.genuine(&form) {
        Ok(fields) => fields,
        Err(expired) => return *expired,
    };
    let tenant = match find(&weir, &slug, &form, request_id).await {
        Ok(tenant) => tenant,
        Err(response) => return *response,
    };
    let key = match api_key::find(&weir.pool, tenant.id, KeyId(id)).await {
        Ok(key) => key,
        Err(TenantsError::NotFound { .. }) => return nothing(),
        Err(failed) => return fault(&form, &failed, request_id),
    };
    if key.status == KeyStatus::Revoked {
        return refuse(&form, error::ALREADY_REVOKED, &[]);
    }
    let typed = fields.text(field::CONFIRM).trim();
    if typed != key.name {
        return refuse(&form, error::CONFIRM_MISMATCH, &[(field::CONFIRM, typed)]);
    }
    let actor = actor(&viewer, request_id);
    match deeds::revoke_key(&weir.desk, actor, tenant.id, key.id).await {
        Ok(()) => {
            let told = [(query::DONE, done::KEY_REVOKED), (query::KEY, key.name.as_str())];
            answer::see(&with_query(&routes::tenant(&slug), &told))
        }
        Err(failed) => fault(&form, &failed, request_id),
    }
}

fn actor(viewer: &Viewer, request_id: RequestId) -> Actor {
    Actor { name: viewer.email.clone(), request_id: Some(request_id.to_string()) }
}

async fn find(
    weir: &Weir,
    slug: &str,
    form: &str,
    request_id: RequestId,
) -> Result<Tenant, Box<Response<Body>>> {
    tenant::find_by_slug(&weir.pool, slug).await.map_err(|error| {
        Box::new(match error {
            TenantsError::NotFound { .. } => nothing(),
            failed => fault(form, &failed, request_id),
        })
    })
}

fn nothing() -> Response<Body> {
    answer::sentence(StatusCode::NOT_FOUND, "There is no such tenant or key.")
}

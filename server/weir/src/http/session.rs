//! Who is signed in: sessions in the database, one cookie for operators and another for tenants'
//! people.

use std::collections::HashMap;

use app::console::{Csrf, Role as ConsoleRole, Viewer};
use app::rights::TenantRole;
use async_trait::async_trait;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::id::UserId;
use domain::window::UnixMs;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::PgPool;
use tenants::member::{self, Member, Role};
use tenants::{TenantsError, session};
use tower_sessions::cookie::SameSite;
use tower_sessions::session::{Id, Record};
use tower_sessions::session_store::{self, SessionStore};
use tower_sessions::{Expiry, Session, SessionManagerLayer};

use super::answer;
use super::door::request_id;
use super::form_cookie;
use crate::clock::Clock;
use crate::weir::Weir;

/// A session ends when nobody used it for so long.
pub(super) const IDLE_MS: i64 = 12 * 60 * 60 * 1_000;
/// And at the latest so long after the sign-in.
pub(super) const ABSOLUTE_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// How often the use of a session is written down: not for each page.
const TOUCH_EVERY_MS: i64 = 10 * 60 * 1_000;
/// Under this name the signed-in person stands in a session.
const SIGNED_IN: &str = "signed_in";
/// How many fresh ids are tried before the store is taken to be broken: 128 random bits never
/// collide.
const ID_TRIES: usize = 3;

/// Whose pages: each side has its own cookie, so that neither shows that the other exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Operators,
    Tenants,
}

impl Side {
    /// The sides that a path belongs to: sign-in, sign-out and the like belong to both.
    fn of_path(path: &str) -> &'static [Self] {
        let below = |root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if below("/t") {
            &[Self::Tenants]
        } else if below("/admin") {
            &[Self::Operators]
        } else {
            &[Self::Operators, Self::Tenants]
        }
    }

    pub(super) const fn of_role(role: Role) -> Self {
        if role.is_operator() { Self::Operators } else { Self::Tenants }
    }

    const fn cookie(self, https: bool) -> &'static str {
        match (self, https) {
            (Self::Operators, true) => "__Host-weir_operator",
            (Self::Operators, false) => "weir_operator",
            (Self::Tenants, true) => "__Host-weir_tenant",
            (Self::Tenants, false) => "weir_tenant",
        }
    }
}

/// The layer that reads and writes one side's cookie.
pub(super) fn layer(weir: &Weir, side: Side) -> SessionManagerLayer<Store> {
    let https = weir.public_url.is_https();
    let store = Store { pool: weir.pool.clone(), clock: weir.clock.clone() };
    SessionManagerLayer::new(store)
        .with_name(side.cookie(https))
        .with_secure(https)
        .with_same_site(SameSite::Lax)
        .with_http_only(true)
        .with_path("/")
        .with_expiry(Expiry::OnInactivity(time::Duration::milliseconds(IDLE_MS)))
}

/// Both sessions of a request.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    operators: Session,
    tenants: Session,
}

impl Sessions {
    const fn of(&self, side: Side) -> &Session {
        match side {
            Side::Operators => &self.operators,
            Side::Tenants => &self.tenants,
        }
    }
}

/// The outer session, put aside before the inner one takes its place.
#[derive(Debug, Clone)]
struct Outer(Session);

/// Puts the outer layer's session aside.
pub(super) async fn put_aside(mut request: Request, next: Next) -> Response<Body> {
    if let Some(session) = request.extensions().get::<Session>().cloned() {
        request.extensions_mut().insert(Outer(session));
    }
    next.run(request).await
}

/// The tokens that a form of this browser may carry: of each side that is signed in, or of the
/// browser itself while nobody is.
#[derive(Clone)]
pub(super) struct FormTokens(pub(super) Vec<String>);

/// What a session says about its person.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SignedIn {
    user_id: i64,
    since_ms: i64,
    seen_ms: i64,
    csrf: String,
}

/// Finds out who asks, and puts the [`Viewer`] and the form token where pages and forms find them.
pub(super) async fn who_asks(
    State(weir): State<Weir>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let outer = request.extensions().get::<Outer>().cloned();
    let inner = request.extensions().get::<Session>().cloned();
    let (Some(Outer(operators)), Some(tenants)) = (outer, inner) else {
        tracing::error!("the session layers are not in place");
        return answer::sentence(StatusCode::INTERNAL_SERVER_ERROR, "Something is broken here.");
    };
    let sessions = Sessions { operators, tenants };
    let mut known = Vec::with_capacity(2);
    for side in Side::of_path(request.uri().path()) {
        match read(&weir, sessions.of(*side), *side).await {
            Ok(person) => known.extend(person),
            Err(error) => {
                tracing::error!(%error, "sessions cannot be read");
                return unreadable(&request);
            }
        }
    }
    let mut tokens: Vec<String> = known.iter().map(|(_, csrf)| csrf.0.clone()).collect();
    let mut fresh = None;
    let csrf = if let Some((viewer, csrf)) = known.into_iter().next() {
        request.extensions_mut().insert(viewer);
        csrf
    } else {
        let (csrf, cookie) = form_cookie::of(&request, weir.public_url.is_https());
        fresh = cookie;
        tokens.push(csrf.0.clone());
        csrf
    };
    let extensions = request.extensions_mut();
    extensions.insert(csrf);
    extensions.insert(FormTokens(tokens));
    extensions.insert(sessions);
    let mut response = next.run(request).await;
    if let Some(cookie) = fresh {
        response.headers_mut().append(http::header::SET_COOKIE, cookie);
    }
    response
}

fn unreadable(request: &Request) -> Response<Body> {
    let text = format!(
        "The session cannot be read right now. Try again in a moment.\nRequest id {}",
        request_id(request)
    );
    answer::sentence(StatusCode::SERVICE_UNAVAILABLE, &text)
}

async fn read(
    weir: &Weir,
    session: &Session,
    side: Side,
) -> Result<Option<(Viewer, Csrf)>, TenantsError> {
    let Some(mut signed_in) = get(session).await? else { return Ok(None) };
    let now = weir.clock.now();
    let over = now.since_ms(UnixMs(signed_in.since_ms)) >= ABSOLUTE_MS
        || now.since_ms(UnixMs(signed_in.seen_ms)) >= IDLE_MS;
    let person = match member::find(&weir.pool, UserId(signed_in.user_id)).await {
        Ok(person) if person.disabled_at.is_none() => Some(person),
        Ok(_) | Err(TenantsError::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    let person = person.filter(|person| !over && Side::of_role(person.role) == side);
    let Some(viewer) = person.as_ref().and_then(|person| viewer(weir, person)) else {
        end(session).await?;
        return Ok(None);
    };
    if now.since_ms(UnixMs(signed_in.seen_ms)) >= TOUCH_EVERY_MS {
        signed_in.seen_ms = now.0;
        put(session, &signed_in).await?;
        member::touch(&weir.pool, UserId(signed_in.user_id), now).await?;
    }
    Ok(Some((viewer, Csrf(signed_in.csrf))))
}

/// A person as the pages see them; nothing for a member of a tenant that is not there.
fn viewer(weir: &Weir, person: &Member) -> Option<Viewer> {
    let of_tenant = |role| {
        let snapshot = weir.directory.snapshot();
        let tenant = snapshot.tenant(person.tenant?)?;
        let (slug, name) = (tenant.slug.clone(), tenant.name.clone());
        Some(ConsoleRole::TenantMember { slug, name, role })
    };
    let role = match person.role {
        Role::Owner => ConsoleRole::Owner,
        Role::Admin => ConsoleRole::Admin,
        Role::Finance => ConsoleRole::Finance,
        Role::Support => ConsoleRole::Support,
        Role::Viewer => ConsoleRole::Viewer,
        Role::TenantOwner => of_tenant(TenantRole::Owner)?,
        Role::TenantAdmin => of_tenant(TenantRole::Admin)?,
        Role::TenantBilling => of_tenant(TenantRole::Billing)?,
        Role::TenantDev => of_tenant(TenantRole::Dev)?,
        Role::TenantViewer => of_tenant(TenantRole::Viewer)?,
    };
    Some(Viewer { user_id: person.id.0, email: person.email.clone(), role })
}

/// Signs a person in under a new session id, and says who they are to the pages.
pub(super) async fn sign_in(
    weir: &Weir,
    sessions: &Sessions,
    person: &Member,
) -> Result<Option<Viewer>, TenantsError> {
    let Some(viewer) = viewer(weir, person) else { return Ok(None) };
    let session = sessions.of(Side::of_role(person.role));
    // Whatever the session was before, somebody else may know its id.
    session.clear().await;
    session.cycle_id().await.map_err(broken)?;
    let now = weir.clock.now();
    let mut csrf = [0_u8; 32];
    rand::Rng::fill_bytes(&mut rand::rng(), &mut csrf);
    let csrf = URL_SAFE_NO_PAD.encode(csrf);
    let signed_in = SignedIn { user_id: person.id.0, since_ms: now.0, seen_ms: now.0, csrf };
    put(session, &signed_in).await?;
    member::touch(&weir.pool, person.id, now).await?;
    Ok(Some(viewer))
}

/// Ends both sessions of a browser.
pub(super) async fn sign_out(sessions: &Sessions) -> Result<(), TenantsError> {
    end(&sessions.operators).await?;
    end(&sessions.tenants).await
}

async fn end(session: &Session) -> Result<(), TenantsError> {
    if session.id().is_none() {
        return Ok(());
    }
    session.flush().await.map_err(broken)
}

async fn get(session: &Session) -> Result<Option<SignedIn>, TenantsError> {
    if session.id().is_none() {
        return Ok(None);
    }
    match session.get::<SignedIn>(SIGNED_IN).await {
        // Written by another version: the person signs in again.
        Err(tower_sessions::session::Error::SerdeJson(_)) => Ok(None),
        other => other.map_err(broken),
    }
}

async fn put(session: &Session, signed_in: &SignedIn) -> Result<(), TenantsError> {
    session.insert(SIGNED_IN, signed_in).await.map_err(broken)
}

/// The layer hides the store's own error; the log has it.
fn broken(error: tower_sessions::session::Error) -> TenantsError {
    tracing::error!(%error, "the store of sessions fails");
    TenantsError::Busy
}

/// Sessions as rows. How long they live is counted by the process's clock, not by the layer's.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pool: PgPool,
    clock: Clock,
}

impl Store {
    fn expires_at(&self) -> UnixMs {
        self.clock.now().plus_ms(IDLE_MS)
    }

    fn data(record: &Record) -> session_store::Result<Value> {
        serde_json::to_value(&record.data)
            .map_err(|error| session_store::Error::Encode(error.to_string()))
    }
}

#[async_trait]
impl SessionStore for Store {
    async fn create(&self, record: &mut Record) -> session_store::Result<()> {
        let data = Self::data(record)?;
        for _ in 0..ID_TRIES {
            let name = record.id.to_string();
            match session::create(&self.pool, &name, &data, self.expires_at()).await {
                Err(TenantsError::Conflict { .. }) => record.id = Id::default(),
                done => return done.map_err(backend),
            }
        }
        Err(session_store::Error::Backend("no free session id".to_owned()))
    }

    async fn save(&self, record: &Record) -> session_store::Result<()> {
        let data = Self::data(record)?;
        let name = record.id.to_string();
        session::save(&self.pool, &name, &data, self.expires_at()).await.map_err(backend)
    }

    async fn load(&self, id: &Id) -> session_store::Result<Option<Record>> {
        let now = self.clock.now();
        let found = session::load(&self.pool, &id.to_string(), now).await.map_err(backend)?;
        let Some(data) = found else { return Ok(None) };
        let data: HashMap<String, Value> = serde_json::from_value(data)
            .map_err(|error| session_store::Error::Decode(error.to_string()))?;
        // Only sessions without an expiry of their own look at this date; ours have one.
        Ok(Some(Record { id: *id, data, expiry_date: time::OffsetDateTime::UNIX_EPOCH }))
    }

    async fn delete(&self, id: &Id) -> session_store::Result<()> {
        session::delete(&self.pool, &id.to_string()).await.map_err(backend)
    }
}

fn backend(error: TenantsError) -> session_store::Error {
    session_store::Error::Backend(error.to_string())
}

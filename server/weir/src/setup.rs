//! The first owner: a token that is told once, at the start, while no owner exists.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::Rng;
use secrecy::SecretString;
use serde_json::json;
use sqlx::PgConnection;
use tenants::member::{self, NewMember, Role};
use tenants::password::Passwords;
use tenants::{TenantsError, audit, instance, session};

use crate::commands::say;
use crate::deeds::{Actor, Desk};
use crate::failure::Failure;
use crate::weir::Weir;

/// How long a token opens the set-up page; each start tells a new one.
const TOKEN_MS: i64 = 24 * 60 * 60 * 1_000;
/// 256 random bits.
const TOKEN_BYTES: usize = 32;
/// Tokens stand among the sessions, stored by their hash alone, under names no session can have.
const NAME_PREFIX: &str = "setup:";
/// Under this lock an owner is made, so that a token used twice at once makes one.
const LOCK: i64 = 0x7765_6972_0001;

fn name(token: &str) -> String {
    format!("{NAME_PREFIX}{token}")
}

/// Prints the link that makes the first owner, when there is none.
///
/// # Errors
/// [`Failure::Missing`] when the database fails.
pub(crate) async fn announce(weir: &Weir) -> Result<(), Failure> {
    let Some(link) =
        link(weir).await.context("cannot prepare the set-up").map_err(Failure::Missing)?
    else {
        return Ok(());
    };
    say(&format!("No owner exists yet. Make one here, within 24 hours:\n  {link}"))
}

/// A link that makes the first owner; nothing when there is one.
///
/// # Errors
/// When the database fails.
pub async fn link(weir: &Weir) -> Result<Option<String>, TenantsError> {
    if member::owner_exists(&weir.pool).await? {
        return Ok(None);
    }
    let mut random = [0; TOKEN_BYTES];
    rand::rng().fill_bytes(&mut random);
    let token = URL_SAFE_NO_PAD.encode(random);
    let until = weir.clock.now().plus_ms(TOKEN_MS);
    session::create(&weir.pool, &name(&token), &json!({ "opens": "setup" }), until).await?;
    let path = app::routes::with_query(app::routes::SETUP, &[(app::routes::field::TOKEN, &token)]);
    Ok(Some(format!("{}{path}", weir.public_url)))
}

/// Whether `token` opens the set-up page.
///
/// # Errors
/// When the database fails.
pub async fn is_open(weir: &Weir, token: &str) -> Result<bool, TenantsError> {
    // Found by its hash: nothing is compared byte by byte.
    let known = session::load(&weir.pool, &name(token), weir.clock.now()).await?.is_some();
    Ok(known && !member::owner_exists(&weir.pool).await?)
}

/// What the set-up form says.
#[derive(Debug)]
pub struct FirstOwner {
    /// The token that opened the form.
    pub token: String,
    /// Where mail reaches the owner.
    pub email: String,
    /// What the owner will sign in with.
    pub password: SecretString,
    /// What this installation is called.
    pub instance_name: String,
    /// The request that asks for it.
    pub request_id: String,
}

/// Makes the first owner and ends the token. Nothing when the token does not open.
///
/// # Errors
/// When the address or the password does not do, or the database fails.
pub async fn create_owner(
    weir: &Weir,
    first: FirstOwner,
) -> Result<Option<member::Member>, TenantsError> {
    if !is_open(weir, &first.token).await? {
        return Ok(None);
    }
    let (desk, passwords) = (weir.desk.clone(), weir.passwords.clone());
    weir.desk.run(create_under_lock(desk, passwords, first)).await
}

async fn create_under_lock(
    desk: Desk,
    passwords: Passwords,
    first: FirstOwner,
) -> Result<Option<member::Member>, TenantsError> {
    let mut change = desk.pool.begin().await?;
    lock(&mut change).await?;
    if member::owner_exists(&mut *change).await? {
        return Ok(None);
    }
    let new =
        NewMember { email: first.email, password: first.password, role: Role::Owner, tenant: None };
    let id = member::create(&mut *change, &passwords, new).await?;
    instance::rename(&mut *change, &first.instance_name).await?;
    session::delete(&mut *change, &name(&first.token)).await?;
    let owner = member::find(&mut *change, id).await?;
    let actor = Actor { name: owner.email.clone(), request_id: Some(first.request_id) };
    let detail = json!({ "instance_name": first.instance_name });
    let entry = desk.entry(actor, "setup.owner", format!("user/{id}"), None, detail);
    audit::append(&mut *change, &entry).await?;
    change.commit().await?;
    Ok(Some(owner))
}

async fn lock(change: &mut PgConnection) -> Result<(), TenantsError> {
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(change).await?;
    Ok(())
}

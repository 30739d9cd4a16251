//! `weir key create`.

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tenants::api_key::NewKey;
use tenants::tenant;

use super::desk::with_desk;
use super::{say, say_json};
use crate::config::{Config, Flags};
use crate::deeds::{self, Actor};
use crate::failure::Failure;

/// What `key create` takes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir key create --tenant acme --name ci-runner\n  export \
                        ACME_KEY=$(weir key create --tenant acme --name ci --json | jq -r .secret)")]
pub(crate) struct CreateArgs {
    /// The tenant's slug.
    #[arg(long)]
    tenant: String,
    /// What people call the key.
    #[arg(long)]
    name: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// Makes a key and prints it.
pub(crate) async fn create(config: Config, args: CreateArgs) -> Result<(), Failure> {
    let CreateArgs { tenant: slug, name, json, .. } = args;
    let made = with_desk(&config, |desk| async move {
        let tenant = tenant::find_by_slug(&desk.pool, &slug)
            .await
            .with_context(|| format!("tenant {slug}"))?
            .id;
        let new = NewKey { tenant, team: None, name, rules: Vec::new(), expires_at: None };
        let made = deeds::create_key(&desk, Actor::command_line(), new).await;
        Ok(made.context("the key was not made")?)
    });
    let (id, secret) = made.await?;
    if json {
        return say_json(&json!({ "id": id.0, "secret": secret.expose() }));
    }
    // The text alone on its line, so that a script can take it.
    say(secret.expose())
}

//! `weir tenant create`.

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tenants::plan;
use tenants::tenant::NewTenant;

use super::desk::with_desk;
use super::{say, say_json};
use crate::config::{Config, Flags};
use crate::deeds::{self, Actor};
use crate::failure::Failure;

/// What `tenant create` takes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir tenant create --slug acme --name \"Acme Inc.\" --plan pro\n  \
                        weir tenant create --slug nord --plan starter --time-zone Europe/Oslo"
)]
pub(crate) struct CreateArgs {
    /// Its name in addresses: lower-case letters, digits and hyphens.
    #[arg(long)]
    slug: String,
    /// Its name for people; the slug when nothing is said.
    #[arg(long)]
    name: Option<String>,
    /// The plan, in its newest version.
    #[arg(long, default_value = "free")]
    plan: String,
    /// Where its days and months begin.
    #[arg(long, default_value = "UTC")]
    time_zone: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// Makes a tenant.
pub(crate) async fn create(config: Config, args: CreateArgs) -> Result<(), Failure> {
    let CreateArgs { slug, name, plan: plan_name, time_zone, json, .. } = args;
    let shown = slug.clone();
    let made = with_desk(&config, |desk| async move {
        // On a database that no Weir has served yet, the plans are not there.
        plan::insert_defaults(&desk.pool).await.context("the plans")?;
        let plan = plan::find_newest(&desk.pool, &plan_name)
            .await
            .with_context(|| format!("plan {plan_name}"))?
            .id;
        let name = name.unwrap_or_else(|| slug.clone());
        let new = NewTenant { slug, name, plan, time_zone };
        let made = deeds::create_tenant(&desk, Actor::command_line(), new).await;
        Ok(made.context("the tenant was not made")?)
    });
    let id = made.await?;
    if json {
        return say_json(&json!({ "id": id.0, "slug": shown }));
    }
    say(&format!("The tenant {shown} was made (id {id})."))
}

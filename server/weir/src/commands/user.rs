//! `weir user create`.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use anyhow::{Context, anyhow};
use clap::Args;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use serde_json::json;
use tenants::member::{NewMember, Role};
use tenants::password::Passwords;
use tenants::tenant;

use super::desk::with_desk;
use super::{say, say_json};
use crate::config::{Config, Flags};
use crate::deeds::{self, Actor};
use crate::failure::Failure;

/// What `user create` takes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir user create --email ana@acme.example\n  echo \"$PASSWORD\" \
                        | weir user create --email bo@acme.example --role t-admin --tenant acme"
)]
pub(crate) struct CreateArgs {
    /// Where mail reaches the person.
    #[arg(long)]
    email: String,
    /// owner, admin, finance, support, viewer; or t-owner, t-admin, t-billing, t-dev, t-viewer.
    #[arg(long, default_value = "owner", value_parser = role)]
    role: Role,
    /// The slug of the tenant, for the roles that begin with `t-`.
    #[arg(long)]
    tenant: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

fn role(code: &str) -> Result<Role, String> {
    Role::parse(code).ok_or_else(|| {
        let codes = Role::ALL.map(Role::code).join(", ");
        format!("the roles are {codes}")
    })
}

/// Makes a user.
pub(crate) async fn create(config: Config, args: CreateArgs) -> Result<(), Failure> {
    let password = password().context("cannot read the password")?;
    let (email, role, slug) = (args.email, args.role, args.tenant);
    let made = with_desk(&config, |desk| async move {
        let tenant = match &slug {
            Some(slug) => Some(
                tenant::find_by_slug(&desk.pool, slug)
                    .await
                    .with_context(|| format!("tenant {slug}"))?
                    .id,
            ),
            None => None,
        };
        let new = NewMember { email, password, role, tenant };
        let made = deeds::create_member(&desk, Actor::command_line(), &Passwords::new(), new).await;
        Ok(made.context("the user was not made")?)
    });
    let made = made.await?;
    if args.json {
        return say_json(
            &json!({ "id": made.id.0, "email": made.email, "role": made.role.code() }),
        );
    }
    say(&format!("{} is {} now.", made.email, made.role.code()))
}

/// One line from the standard input; from a terminal without showing it.
fn password() -> anyhow::Result<SecretString> {
    let input = stdin();
    let hidden = if input.is_terminal() {
        write!(stderr(), "Password (at least 12 characters): ")?;
        let shown = tcgetattr(&input)?;
        let mut silent = shown.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&input, SetArg::TCSANOW, &silent)?;
        Some(shown)
    } else {
        None
    };
    let mut line = Zeroizing::new(String::new());
    let read = input.lock().read_line(&mut line);
    if let Some(shown) = hidden {
        tcsetattr(&input, SetArg::TCSANOW, &shown)?;
        writeln!(stderr())?;
    }
    read?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(anyhow!("send it on the standard input, on one line"));
    }
    Ok(password.into())
}

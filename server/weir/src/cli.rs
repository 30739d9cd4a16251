//! The command line.

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::config::{Config, Environment, Flags};
use crate::database;
use crate::demo;
use crate::failure::Failure;
use crate::logging;

/// The version, with the commit where the build was told it, and the schema it needs.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    let commit = option_env!("WEIR_CI_COMMIT").unwrap_or("unknown commit");
    format!("{version} ({commit}, schema {})", database::newest())
});

/// The version, with the commit where the build was told it, and the schema it needs.
#[must_use]
pub fn version() -> &'static str {
    VERSION.as_str()
}

const EXAMPLES: &str = "\
Examples:
  weir demo                                   try it: own database, simulated providers, data
  weir serve                                  serve, with a database of its own
  DATABASE_URL=postgres://… weir serve        serve, with your database
  weir user create --email ana@acme.example   make an owner without a browser
  weir config print                           what is set, and where

Exit codes: 0 done, 1 failed, 2 wrong command line, 3 wrong settings, 4 something is missing
(PostgreSQL, an address), 5 the schema needs a migration.";

/// Metering gateway and console for software that resells LLM calls.
#[derive(Debug, Parser)]
#[command(name = "weir", version = version(), after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve calls and the console until SIGTERM or Ctrl-C.
    Serve(ServeArgs),
    /// Serve with a private database and simulated providers, to look around.
    Demo(demo::Args),
    /// Bring the database schema up to date, or only say whether it is.
    Migrate(MigrateArgs),
    /// Run only the provider simulator.
    Sim(commands::sim::SimArgs),
    /// People who sign in.
    #[command(subcommand)]
    User(UserCommand),
    /// Tenants: who pays.
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// API keys of tenants.
    #[command(subcommand)]
    Key(KeyCommand),
    /// The books.
    #[command(subcommand)]
    Books(BooksCommand),
    /// Compare the books with themselves, and set wrong sums right.
    Reconcile(commands::reconcile::ReconcileArgs),
    /// Settings.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the OpenAPI document of the admin API.
    Openapi,
    /// Ask a running Weir whether it is ready; for containers.
    Healthcheck(commands::healthcheck::HealthcheckArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir serve\n  weir serve --bind 0.0.0.0:8080 --public-url \
                        https://gw.example\n  weir serve --config /etc/weir/weir.toml")]
struct ServeArgs {
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir migrate\n  weir migrate --check   (exit code 5 when the \
                        schema is another one)"
)]
struct MigrateArgs {
    /// Change nothing: say whether the schema is this program's.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Make a user. The password is read from the terminal or the standard input.
    Create(commands::user::CreateArgs),
}

#[derive(Debug, Subcommand)]
enum TenantCommand {
    /// Make a tenant on a plan.
    Create(commands::tenant::CreateArgs),
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make an API key and print it, once.
    Create(commands::key::CreateArgs),
}

#[derive(Debug, Subcommand)]
enum BooksCommand {
    /// Print the equation of each tenant: events, ledger, slices, rollups, counter, balance.
    Verify(commands::books::VerifyArgs),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print each setting, its value and where it comes from; secrets are masked.
    Print(commands::config::PrintArgs),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Where even the error output is closed, the exit code still tells.
            let _ = writeln!(stderr(), "weir: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let environment = Environment::of_this_process();
    match command {
        Command::Openapi => commands::openapi::run(),
        Command::Config(ConfigCommand::Print(args)) => commands::config::print(&args, &environment),
        Command::Healthcheck(args) => wait_for(commands::healthcheck::run(args, &environment)),
        Command::Sim(args) => wait_for(commands::sim::run(args)),
        Command::Demo(args) => wait_for(demo::run(args, &environment)),
        Command::Serve(args) => {
            let config = load(&args.flags, &environment)?;
            wait_for(commands::serve::run(config))
        }
        Command::Migrate(args) => {
            let config = load(&args.flags, &environment)?;
            wait_for(commands::migrate::run(config, args.check))
        }
        Command::User(UserCommand::Create(args)) => {
            let config = load(&args.flags, &environment)?;
            wait_for(commands::user::create(config, args))
        }
        Command::Tenant(TenantCommand::Create(args)) => {
            let config = load(&args.flags, &environment)?;
            wait_for(commands::tenant::create(config, args))
        }
        Command::Key(KeyCommand::Create(args)) => {
            let config = load(&args.flags, &environment)?;
            wait_for(commands::key::create(config, args))
        }
        Command::Books(BooksCommand::Verify(args)) => {
            let config = load(&args.flags, &environment)?;
            wait_for(commands::books::verify(config, args))
        }
        Command::Reconcile(args) => {
            let config = load(&args.flags, &environment)?;
            wait_for(commands::reconcile::run(config, args))
        }
    }
}

fn load(flags: &Flags, environment: &Environment) -> Result<Config, Failure> {
    let config = Config::load(flags, environment)?;
    logging::start(&config);
    Ok(config)
}

/// Runs a command's work to its end.
fn wait_for(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    // Only one provider is compiled in; a second call finds the first one's.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(anyhow::Error::new(error)))?;
    runtime.block_on(work)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_setting_can_be_said_as_a_flag_of_serve() {
        let cli = Cli::try_parse_from(["weir", "serve", "--bind", "127.0.0.1:9", "--drain-s", "3"]);
        let Command::Serve(args) = cli.unwrap().command else { panic!("not serve") };
        let environment = Environment::of(&[("HOME", "/h")]);
        let config = Config::load(&args.flags, &environment).unwrap();
        assert_eq!((config.bind.port(), config.drain.as_secs()), (9, 3));
    }

    #[test]
    fn a_secret_is_no_flag_but_its_file_is() {
        for (flag, known) in [("--admin-token", false), ("--admin-token-file", true)] {
            let parsed = Cli::try_parse_from(["weir", "serve", flag, "x"]);
            assert_eq!(parsed.is_ok(), known, "{flag}");
        }
    }
}

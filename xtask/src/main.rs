#![doc = include_str!("../README.md")]
#![expect(clippy::print_stdout, reason = "a tool of the terminal: what it prints is its answer")]

mod command;
mod demo;
mod faults;
mod queries;
mod redis;
mod scratch;
mod services;
mod setup;
mod signals;
mod site;
mod steps;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::signals::Signals;
use crate::workspace::Workspace;

/// Builds, runs and tests Weir.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Set up what is missing, build everything, and run a Weir with seeded tenants and live traffic.
    Demo(DemoArgs),
    /// Run all checks and tests on servers of its own; the last line is `N passed, N failed`.
    Test(TestArgs),
    /// Let processes, Redis and PostgreSQL fail under load, compare all accounts, and write `FAULTS.md`.
    Faults(faults::FaultArgs),
    /// Build the pages' wasm, script and style into `target/site`.
    Site,
    /// Write what the database says about each query to `.sqlx`.
    Sqlx(SqlxArgs),
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// Throw the demo's old data away and start over.
    #[arg(long)]
    fresh: bool,
    /// Run the optimised program that carries the site in itself.
    #[arg(long)]
    release: bool,
    /// Passed on to `weir demo`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(Debug, Args)]
struct TestArgs {
    /// Run the tests of this package alone, without the other checks.
    #[arg(short, long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// Passed on to the test programs, such as a part of a test's name.
    #[arg(last = true)]
    filter: Vec<String>,
}

#[derive(Debug, Args)]
struct SqlxArgs {
    /// Change nothing, fail when `.sqlx` is not what the database says.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    match run(task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<ExitCode> {
    // Before anything else: threads and servers started later share what is set up here.
    let signals = Signals::watch()?;
    let workspace = Workspace::find(&signals)?;
    match task {
        Task::Demo(args) => demo::run(&workspace, args.fresh, args.release, &args.rest),
        Task::Test(args) if args.packages.is_empty() => Ok(test::all(&workspace, &args.filter)),
        Task::Test(args) => Ok(test::some(&workspace, &args.packages, &args.filter)),
        Task::Faults(args) => faults::run(&workspace, &args),
        Task::Site => site::build(&workspace).map(|_| ExitCode::SUCCESS),
        Task::Sqlx(args) if args.check => queries::check_alone(&workspace),
        Task::Sqlx(_) => queries::rewrite(&workspace),
    }
}

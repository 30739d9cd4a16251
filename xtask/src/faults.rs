//! All faults on the real program, and the table of what came of them.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::scratch::Scratch;
use crate::setup;
use crate::steps::timed;
use crate::workspace::Workspace;

/// The table, at the root of the repository.
const TABLE: &str = "FAULTS.md";
/// The package, and its program that does it.
const PACKAGE: &str = "end2end";
const PROGRAM: &str = "faults";

/// What of it.
#[derive(Debug, clap::Args)]
pub(crate) struct FaultArgs {
    /// Do all of it so often, each time with the next seed.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Do this fault alone, such as F-10; `figures` is the noisy neighbour and what a call costs Redis. May be said
    /// several times. The table is then left alone.
    #[arg(long, value_name = "F-xx")]
    only: Vec<String>,
    /// Draw from this seed, to repeat a run.
    #[arg(long)]
    seed: Option<u64>,
}

/// Builds Weir and the harness, and runs it. It brings its own PostgreSQL and Redis: it ends them in the middle of a
/// load, and nobody else may stand on them.
pub(crate) fn run(workspace: &Workspace, args: &FaultArgs) -> Result<ExitCode> {
    let binaries = setup::postgres(workspace)?;
    let redis = setup::redis(workspace)?;
    let scratch = Scratch::new()?;

    let mut build = workspace.cargo("build");
    build.args(["--locked", "-p", "weir", "--bin", "weir"]);
    timed("build weir", || match workspace.signals.run(&mut build)?.success() {
        true => Ok(()),
        false => bail!("weir does not build; after a change of a query run `cargo xtask sqlx`"),
    })?;

    let mut faults = workspace.cargo("test");
    faults.args(["--locked", "-p", PACKAGE, "--test", PROGRAM, "--"]);
    faults.args(["--runs", &args.runs.to_string()]);
    for only in &args.only {
        faults.args(["--only", only]);
    }
    if let Some(seed) = args.seed {
        faults.args(["--seed", &seed.to_string()]);
    }
    if args.only.is_empty() {
        faults.arg("--table").arg(workspace.root.join(TABLE));
    }
    faults.env("WEIR_PG_BIN", binaries.bin()).env("WEIR_TEST_REDIS_SERVER", redis);
    faults.env("TMPDIR", scratch.for_tests());
    let status = timed("faults", || workspace.signals.run(&mut faults))?;
    if status.success() {
        return Ok(ExitCode::SUCCESS);
    }
    let kept = workspace.target.join("xtask/failed");
    if scratch.keep(&kept)? {
        println!("what the faults left is kept in {}", kept.display());
    }
    Ok(ExitCode::FAILURE)
}

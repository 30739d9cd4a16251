//! One command from a fresh clone to a Weir that runs.

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::steps::timed;
use crate::workspace::Workspace;
use crate::{setup, site};

/// Sets up, builds, and runs `weir demo` until it ends or Ctrl-C ends it.
pub(crate) fn run(
    workspace: &Workspace,
    fresh: bool,
    release: bool,
    rest: &[String],
) -> Result<ExitCode> {
    // With a database of the caller's own, the machine needs none.
    let own_database = env::var_os("DATABASE_URL").is_some_and(|url| !url.is_empty());
    let binaries = if own_database { None } else { Some(setup::postgres(workspace)?) };
    let site = site::build(workspace)?;

    let mut build = workspace.cargo("build");
    build.args(["--locked", "-p", "weir", "--bin", "weir"]);
    if release {
        build.args(["--release", "--features", "embed"]);
    }
    build.env("WEIR_SITE_DIR", &site);
    timed("build weir", || match workspace.signals.run(&mut build)?.success() {
        true => Ok(()),
        false => bail!("weir does not build; after a change of a query run `cargo xtask sqlx`"),
    })?;

    let profile = if release { "release" } else { "debug" };
    let mut weir = Command::new(workspace.target.join(profile).join("weir"));
    weir.arg("demo").args(rest);
    if fresh {
        weir.arg("--fresh");
    }
    if !release {
        weir.env("WEIR_SITE_DIR", &site);
    }
    if let Some(binaries) = binaries {
        weir.env("WEIR_PG_BIN", binaries.bin());
    }
    println!("--- weir demo (Ctrl-C stops it)");
    match workspace.signals.run(&mut weir) {
        Ok(status) if status.success() => Ok(ExitCode::SUCCESS),
        Ok(status) => bail!("weir demo ended with {status}"),
        // Ctrl-C, and weir has stopped what it had started.
        Err(_) if workspace.signals.check().is_err() => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
    }
}

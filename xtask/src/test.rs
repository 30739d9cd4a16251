//! All checks and tests, or the tests of some packages, on servers of their own.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use secrecy::{ExposeSecret, SecretString};

use crate::queries::{self, Warnings};
use crate::services::Services;
use crate::steps::{Steps, timed};
use crate::workspace::{Package, Workspace};
use crate::{setup, site};

/// Crates that need a C tool chain or a second library for TLS; a default feature brings them in.
const BANNED: [&str; 3] = ["aws-lc-rs", "native-tls", "openssl-sys"];
/// What tells that a package's tests need a server or a browser.
const POSTGRES_USERS: [&str; 3] = ["sqlx", "testkit", "embedded"];
const REDIS_USERS: [&str; 2] = ["redis", "testkit"];
const BROWSER_USERS: [&str; 1] = ["fantoccini"];
/// Packages whose tests read the site.
const SITE_USERS: [&str; 3] = ["app", "weir", "end2end"];
/// Packages whose tests run the program itself, which cargo does not build for them.
const PROGRAM_USERS: [&str; 1] = ["end2end"];

/// What the tests of a run need.
#[derive(Debug, Clone, Copy)]
struct Needs {
    postgres: bool,
    redis: bool,
    browser: bool,
    site: bool,
    program: bool,
}

/// What a build takes a query's types from: `.sqlx`, or the migrated database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queries {
    Cached,
    Live,
}

/// Servers that run, and what the tests must know of them.
struct Stage {
    services: Services,
    database: Option<SecretString>,
    variables: Vec<(&'static str, OsString)>,
}

/// `cargo xtask test`: everything.
pub(crate) fn all(workspace: &Workspace, filter: &[String]) -> ExitCode {
    let mut steps = Steps::new(&workspace.signals);
    steps.step("format", || cargo(workspace, "fmt", &["--all", "--check"], "run `cargo fmt`"));
    steps.step("banned crates", || banned(&workspace.root.join("Cargo.lock")));
    // The program is built with the tests of its own package.
    let needs = Needs { postgres: true, redis: true, browser: true, site: true, program: false };
    let stage = steps.step("servers", || Stage::set(workspace, needs));
    if let Some(stage) = stage {
        steps.step("site size", || site::check_size(&workspace.site()));
        let cached = lints(&mut steps, workspace, stage.database.as_ref());
        let packages = ["--workspace", "--exclude", "xtask"].map(ToOwned::to_owned);
        // Queries that `.sqlx` lacks have been counted as a failure; the tests can still be run.
        let queries = if cached { Queries::Cached } else { Queries::Live };
        let test = stage.test(workspace, &packages, queries);
        tests(&mut steps, "tests", workspace, test, filter);
        let xtask = ["-p", "xtask"].map(ToOwned::to_owned);
        let test = stage.test(workspace, &xtask, Queries::Cached);
        tests(&mut steps, "tests of xtask", workspace, test, filter);
        stage.end(&mut steps, workspace);
    }
    exit(steps)
}

/// `cargo xtask test -p NAME`: the tests of some packages, with the servers that these need.
pub(crate) fn some(workspace: &Workspace, names: &[String], filter: &[String]) -> ExitCode {
    let mut steps = Steps::new(&workspace.signals);
    let packages = steps.step("packages", || {
        names.iter().map(|name| workspace.package(name)).collect::<Result<Vec<_>>>()
    });
    let stage = packages
        .and_then(|packages| steps.step("servers", || Stage::set(workspace, Needs::of(&packages))));
    if let Some(stage) = stage {
        let chosen: Vec<String> =
            names.iter().flat_map(|name| ["-p".to_owned(), name.clone()]).collect();
        // A query that is being written is checked at once; `.sqlx` need not have it yet.
        let test = stage.test(workspace, &chosen, Queries::Live);
        tests(&mut steps, "tests", workspace, test, filter);
        stage.end(&mut steps, workspace);
    }
    exit(steps)
}

fn exit(steps: Steps) -> ExitCode {
    if steps.close() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Needs {
    fn of(packages: &[&Package]) -> Self {
        let any = |names: &[&str]| packages.iter().any(|package| package.needs(names));
        let one_of = |names: &[&str]| packages.iter().any(|one| names.contains(&one.name.as_str()));
        Self {
            postgres: any(&POSTGRES_USERS),
            redis: any(&REDIS_USERS),
            browser: any(&BROWSER_USERS),
            site: one_of(&SITE_USERS),
            program: one_of(&PROGRAM_USERS),
        }
    }
}

impl Stage {
    /// Brings what is missing on this machine, builds the site and starts the servers.
    fn set(workspace: &Workspace, needs: Needs) -> Result<Self> {
        let mut services = Services::default();
        let mut database = None;
        if needs.browser {
            setup::browser(workspace)?;
            setup::python(workspace)?;
        }
        let redis = if needs.redis { Some(setup::redis(workspace)?) } else { None };
        if needs.postgres {
            services.start_postgres(setup::postgres(workspace)?)?;
            database = Some(services.migrated(workspace)?);
        }
        if let Some(redis) = redis {
            services.start_redis(&redis)?;
        }
        let mut variables = services.variables()?;
        if needs.site {
            variables.push(("WEIR_SITE_DIR", site::build(workspace)?.into()));
        }
        if needs.program {
            let mut build = workspace.cargo("build");
            build.args(["--locked", "-p", "weir", "--bin", "weir"]).env("SQLX_OFFLINE", "false");
            build.envs(database.as_ref().map(|url| ("DATABASE_URL", url.expose_secret())));
            timed("build weir", || match workspace.signals.run(&mut build)?.success() {
                true => Ok(()),
                false => bail!("weir does not build"),
            })?;
        }
        Ok(Self { services, database, variables })
    }

    /// Stops the servers and removes their folder; what failed tests left in it is kept.
    fn end(self, steps: &mut Steps, workspace: &Workspace) {
        let folder = workspace.target.join("xtask/failed");
        if steps.failed > 0 {
            match self.services.keep_files(&folder) {
                Ok(true) => println!("what the tests left is kept in {}", folder.display()),
                Ok(false) => {}
                Err(error) => steps.fail("keep the files of failed tests", error),
            }
        }
        drop(self.services);
    }

    fn test(&self, workspace: &Workspace, packages: &[String], queries: Queries) -> Command {
        let mut cargo = workspace.cargo("test");
        cargo.args(["--locked", "--no-fail-fast"]).args(packages);
        cargo.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if queries == Queries::Live && self.database.is_some() {
            cargo.env("SQLX_OFFLINE", "false");
        }
        cargo
    }
}

/// Whether `.sqlx` holds what the database says.
fn lints(steps: &mut Steps, workspace: &Workspace, database: Option<&SecretString>) -> bool {
    let answers = steps.step("lints and queries", || {
        let database = database.context("no database to ask")?;
        queries::ask(workspace, database, Warnings::Denied)
    });
    let cached = answers
        .and_then(|answers| steps.step(".sqlx", || queries::compare(workspace, &answers)))
        .is_some();
    let denied = ["--", "-D", "warnings"];
    steps.step("lints of the wasm", || {
        let wasm = ["--locked", "-p", "app", "--lib", "--features", "hydrate"];
        let target = ["--target", "wasm32-unknown-unknown"];
        let arguments = [&wasm[..], &target, &denied].concat();
        cargo(workspace, "clippy", &arguments, "the islands do not pass the lints")
    });
    steps.step("lints of xtask", || {
        let arguments = [&["--locked", "-p", "xtask", "--all-targets"][..], &denied].concat();
        cargo(workspace, "clippy", &arguments, "xtask does not pass the lints")
    });
    // The program of all faults is no test of its package, so that nothing else looks at it.
    steps.step("lints of the faults", || {
        let target = ["--locked", "-p", "end2end", "--test", "faults"];
        cargo(
            workspace,
            "clippy",
            &[&target[..], &denied].concat(),
            "the faults do not pass the lints",
        )
    });
    cached
}

/// Runs the test programs, lets all that they say through, and counts.
fn tests(
    steps: &mut Steps,
    name: &str,
    workspace: &Workspace,
    mut test: Command,
    filter: &[String],
) {
    if workspace.signals.check().is_err() {
        return;
    }
    test.arg("--").args(filter);
    let (mut passed, mut failed) = (0, 0);
    let ended = timed(name, || {
        let status = workspace.signals.lines(&mut test, |line| {
            println!("{line}");
            if let Some((ok, not)) = counted(line) {
                passed += ok;
                failed += not;
            }
        })?;
        if status.success() { Ok(()) } else { bail!("a test program did not build, or broke off") }
    });
    steps.passed += passed;
    steps.failed += failed;
    if let (Err(error), 0) = (ended, failed) {
        steps.fail(name, format!("{error:#}"));
    }
}

/// The counts in `test result: ok. 7 passed; 0 failed; …`.
fn counted(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut parts = counts.split("; ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

fn cargo(
    workspace: &Workspace,
    subcommand: &str,
    arguments: &[&str],
    else_say: &str,
) -> Result<()> {
    let status = workspace.signals.run(workspace.cargo(subcommand).args(arguments))?;
    if status.success() { Ok(()) } else { bail!("{else_say}") }
}

fn banned(lock: &std::path::Path) -> Result<()> {
    let text = fs::read_to_string(lock).context("no Cargo.lock")?;
    let found: Vec<_> = BANNED.into_iter().filter(|name| locks(&text, name)).collect();
    if found.is_empty() { Ok(()) } else { bail!("Cargo.lock holds {}", found.join(", ")) }
}

fn locks(lock: &str, name: &str) -> bool {
    lock.lines().any(|line| line == format!("name = \"{name}\""))
}

#[cfg(test)]
mod tests_of_this {
    use super::*;

    #[test]
    fn closing_lines_are_counted_and_other_lines_are_not() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(counted(line), Some((12, 3)));
        assert_eq!(counted("test result: ok. 0 passed; 0 failed; 1 ignored"), Some((0, 0)));
        assert_eq!(counted("test usage::test_result ... ok"), None);
        assert_eq!(counted("running 3 tests"), None);
    }

    #[test]
    fn a_banned_crate_is_seen_and_one_with_a_longer_name_is_not() {
        let lock = "[[package]]\nname = \"native-tls\"\nversion = \"1\"\n";
        assert!(locks(lock, "native-tls"));
        assert!(!locks("name = \"native-tls-like\"\n", "native-tls"));
    }

    #[test]
    fn a_package_gets_the_servers_that_its_manifest_tells() {
        let package = |name: &str, dependencies: &[&str]| Package {
            name: name.to_owned(),
            folder: "/".into(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        };
        let domain = Needs::of(&[&package("domain", &["serde"])]);
        assert!(!domain.postgres && !domain.redis && !domain.browser && !domain.site);
        let ledger = Needs::of(&[&package("ledger", &["sqlx", "domain"])]);
        assert!(ledger.postgres && !ledger.redis);
        let weir = Needs::of(&[&package("weir", &["testkit", "fantoccini"])]);
        assert!(weir.postgres && weir.redis && weir.browser && weir.site && !weir.program);
        let end2end = Needs::of(&[&package("end2end", &["testkit", "fantoccini"])]);
        assert!(end2end.site && end2end.program);
    }
}

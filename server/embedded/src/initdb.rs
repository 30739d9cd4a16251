//! Making a new, empty cluster.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::account::Account;
use crate::folder::Folder;
use crate::run::{Ended, run};
use crate::{Binaries, Durability, EmbeddedError};

/// The name of the superuser, whose password Weir makes up.
pub const SUPERUSER: &str = "weir";
/// The empty database that a new cluster holds.
pub const DATABASE: &str = "weir";

/// `initdb` takes two seconds on a good disk; a slow network disk may take a minute to flush.
const INITDB_WAIT: Duration = Duration::from_secs(180);

/// Text is ordered by its bytes, so the order is the same on every machine and stays what it is
/// when the C library changes its rules. Lower case is Unicode's where the machine knows `C.UTF-8`.
const CHARACTER_RULES: [&str; 2] = ["C.UTF-8", "C"];

/// Makes a cluster under a name that nobody looks at, and gives it its name when it is complete: a
/// process killed half-way leaves nothing that looks like a database.
pub(crate) fn create(
    folder: &Folder,
    binaries: &Binaries,
    account: &Account,
    durability: Durability,
) -> Result<(), EmbeddedError> {
    tracing::info!(folder = %folder.root().display(), major = binaries.major(), "making a database");
    let made = folder.unfinished();
    let finished = fill(&made, folder, binaries, account, durability).and_then(|()| {
        let name = folder.cluster();
        fs::rename(&made, &name).map_err(|error| EmbeddedError::io("name", &name, error))?;
        sync(folder.root())
    });
    if finished.is_err() {
        // What this leaves, the next start sweeps away.
        let _ = fs::remove_dir_all(&made);
    }
    finished
}

fn fill(
    made: &Path,
    folder: &Folder,
    binaries: &Binaries,
    account: &Account,
    durability: Durability,
) -> Result<(), EmbeddedError> {
    let data = made.join("data");
    for new in [made, &data] {
        let done = DirBuilder::new().mode(0o700).create(new);
        done.map_err(|error| EmbeddedError::io("make", new, error))?;
        account.own(new)?;
    }
    let password = made.join("password");
    write_password(&password)?;
    account.own(&password)?;

    let mut ended = Ended { status: None, said: String::new() };
    for rules in CHARACTER_RULES {
        let mut command = binaries.command("initdb", account);
        command.arg("-D").arg(&data).arg("--pwfile").arg(&password);
        command.args(["-U", SUPERUSER, "-E", "UTF8", "--data-checksums"]);
        command.args(["--lc-collate=C", "--lc-messages=C", "--lc-ctype", rules]);
        match durability {
            Durability::Kept => command.args(["-A", "scram-sha-256"]),
            // Hashing the password a thousand times per connection is for the server to do here:
            // the tests' unoptimised client takes many times as long.
            Durability::Throwaway => command.args(["-A", "password", "--no-sync"]),
        };
        ended = program(command, b"", "initdb", folder)?;
        if !ended.said.contains("invalid locale name") {
            break;
        }
    }
    succeeded(&ended, "initdb", folder)?;

    let mut command = binaries.command("postgres", account);
    command.args(["--single", "-D"]).arg(&data).arg("postgres");
    let statement = format!("create database {DATABASE}\n");
    let ended = program(command, statement.as_bytes(), "postgres", folder)?;
    succeeded(&ended, "postgres", folder)?;
    if ended.said.contains("ERROR:") {
        return Err(EmbeddedError::said("postgres", folder.root(), &ended.said));
    }
    sync(made)
}

fn program(
    command: Command,
    input: &[u8],
    name: &'static str,
    folder: &Folder,
) -> Result<Ended, EmbeddedError> {
    run(command, input, INITDB_WAIT).map_err(|source| EmbeddedError::Io {
        doing: "run PostgreSQL's programs for",
        path: folder.root().join(name),
        source,
    })
}

fn succeeded(ended: &Ended, program: &'static str, folder: &Folder) -> Result<(), EmbeddedError> {
    match ended.status {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(EmbeddedError::said(program, folder.root(), &ended.said)),
        None => Err(EmbeddedError::TooSlow {
            what: "finish making the database",
            seconds: INITDB_WAIT.as_secs(),
            said: ended.said.lines().last().unwrap_or("none").to_owned(),
            log: folder.log(),
        }),
    }
}

/// Writes 256 random bits in hexadecimal, readable by the owner alone.
fn write_password(path: &Path) -> Result<(), EmbeddedError> {
    let failed = |error| EmbeddedError::io("write", path, error);
    let password: String = rand::random::<[u8; 32]>().map(|byte| format!("{byte:02x}")).concat();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(password.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// Puts the names in `folder` on the disk.
fn sync(folder: &Path) -> Result<(), EmbeddedError> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|error| EmbeddedError::io("flush", folder, error))
}

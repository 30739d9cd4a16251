//! `.sqlx`: what the database says about each query, so that Weir builds without a database.
//!
//! The lints' own pass over the packages asks the database and writes the answers down: no package
//! is compiled a second time for it. That pass has to look at a package again when its queries or
//! the tables change, which cargo would not do by itself; so its name for the state of both is one
//! of the arguments of the lints, to which cargo does pay heed, and of the folder of the answers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use secrecy::{ExposeSecret, SecretString};

use crate::services::{Services, files_in};
use crate::setup;
use crate::steps::timed;
use crate::workspace::Workspace;

/// Start of the names of the folders of answers, in `target/xtask`.
const ANSWERS: &str = "queries-";

/// Whether a lint's warning ends the pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warnings {
    Denied,
    Shown,
}

/// What the database said about every query.
#[derive(Debug)]
pub(crate) struct Answers {
    folder: PathBuf,
    // Another run may have another state of the queries, and would remove the folder.
    _locked: File,
}

/// `cargo xtask sqlx`: writes `.sqlx` anew.
pub(crate) fn rewrite(workspace: &Workspace) -> Result<ExitCode> {
    let answers = asked_alone(workspace)?;
    let cache = workspace.root.join(".sqlx");
    let (wanted, found) = (read(&answers.folder)?, read(&cache)?);
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        fs::remove_file(cache.join(name))?;
    }
    for (name, text) in &wanted {
        if found.get(name) != Some(text) {
            fs::write(cache.join(name), text)?;
        }
    }
    let differences = differences(&wanted, &found).len();
    println!(".sqlx: {} queries, {differences} of them new, changed or gone", wanted.len());
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask sqlx --check`.
pub(crate) fn check_alone(workspace: &Workspace) -> Result<ExitCode> {
    let answers = asked_alone(workspace)?;
    compare(workspace, &answers)?;
    println!(".sqlx is what the database says");
    Ok(ExitCode::SUCCESS)
}

fn asked_alone(workspace: &Workspace) -> Result<Answers> {
    let mut services = Services::default();
    services.start_postgres(setup::postgres(workspace)?)?;
    let database = services.migrated(workspace)?;
    timed("ask the database about each query", || ask(workspace, &database, Warnings::Shown))
}

/// Lints all packages but this one, with each query asked of `database`; gives the folder with the
/// database's answers, which is whole as long as the answers are held.
pub(crate) fn ask(
    workspace: &Workspace,
    database: &SecretString,
    warnings: Warnings,
) -> Result<Answers> {
    let (own, locked) = workspace.own_folder()?;
    let answers = folder(workspace, &own)?;
    let mut cargo = workspace.cargo("clippy");
    cargo.args(["--locked", "--workspace", "--exclude", "xtask", "--all-targets"]);
    // The tests are built without the carried site, so its code is looked at here.
    let site = workspace.site();
    fs::create_dir_all(&site)?;
    cargo.args(["--features", "weir/embed"]).env("WEIR_SITE_DIR", &site);
    cargo.env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &answers);
    cargo.env("DATABASE_URL", database.expose_secret());
    let state = answers.file_name().unwrap_or_default().to_string_lossy().into_owned();
    cargo.args(["--", "--cfg", &format!("weir_queries=\"{state}\"")]);
    if warnings == Warnings::Denied {
        cargo.args(["-D", "warnings"]);
    }
    if !workspace.signals.run(&mut cargo)?.success() {
        bail!("the packages do not pass the lints, or a query does not fit the tables");
    }
    Ok(Answers { folder: answers, _locked: locked })
}

/// Fails when `.sqlx` is not what `answers` holds.
pub(crate) fn compare(workspace: &Workspace, answers: &Answers) -> Result<()> {
    let differences = differences(&read(&answers.folder)?, &read(&workspace.root.join(".sqlx"))?);
    if differences.is_empty() {
        return Ok(());
    }
    bail!(".sqlx is not what the database says, run `cargo xtask sqlx`: {}", differences.join("; "))
}

/// The folder for the answers about the present state of queries and tables. It is kept, like
/// cargo's knowledge of which packages were looked at; those of other states are removed.
fn folder(workspace: &Workspace, parent: &Path) -> Result<PathBuf> {
    let name = format!("{ANSWERS}{:016x}-", state(workspace)?);
    let mut kept = None;
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let found = entry.file_name().to_string_lossy().into_owned();
        if found.starts_with(&name) {
            kept = Some(entry.path());
        } else if found.starts_with(ANSWERS) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    if let Some(kept) = kept {
        return Ok(kept);
    }
    // Never the name of a folder that was removed: cargo may think its packages looked at.
    let new = parent.join(format!("{name}{:08x}", rand::random::<u32>()));
    fs::create_dir(&new)?;
    Ok(new)
}

/// A number for all that the answers depend on.
fn state(workspace: &Workspace) -> Result<u64> {
    let mut files = files_in(&workspace.root.join("migrations"), "sql")?;
    files.push(workspace.root.join("Cargo.lock"));
    for package in workspace.packages.iter().filter(|package| package.needs(&["sqlx"])) {
        sources(&package.folder, &mut files)?;
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        let text = fs::read(&file).with_context(|| format!("no {}", file.display()))?;
        (file, text).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            sources(&entry.path(), files)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn read(folder: &Path) -> Result<BTreeMap<OsString, Vec<u8>>> {
    let files = files_in(folder, "json")?;
    let entry = |file: PathBuf| {
        let name = file.file_name().unwrap_or_default().to_owned();
        Ok((name, fs::read(&file)?))
    };
    files.into_iter().map(entry).collect()
}

fn differences(
    wanted: &BTreeMap<OsString, Vec<u8>>,
    found: &BTreeMap<OsString, Vec<u8>>,
) -> Vec<String> {
    let lacking = wanted.iter().filter_map(|(name, text)| match found.get(name) {
        None => Some(format!("{} is missing", name.display())),
        Some(old) if old != text => Some(format!("{} is old", name.display())),
        Some(_) => None,
    });
    let unused = found.keys().filter(|name| !wanted.contains_key(*name));
    lacking.chain(unused.map(|name| format!("{} is of no query", name.display()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_old_and_unused_answers_are_each_named() {
        let folder = |pairs: &[(&str, &str)]| -> BTreeMap<OsString, Vec<u8>> {
            pairs.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()
        };
        let wanted = folder(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let found = folder(&[("a", "1"), ("b", "0"), ("d", "1")]);
        let said = differences(&wanted, &found);
        assert_eq!(said, ["b is old", "c is missing", "d is of no query"]);
        assert!(differences(&wanted, &wanted).is_empty());
    }
}

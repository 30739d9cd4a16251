//! What cannot start says why in one sentence.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use embedded::{Binaries, Durability, EmbeddedError, Options};

use crate::fixture::{Scratch, binaries, is_root, options, refusal, sql, start};

/// Programs that behave as `postgres` and `initdb` say, in shell.
fn fake_programs(scratch: &Scratch, version: &str, initdb: &str) -> PathBuf {
    let bin = scratch.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let postgres = format!("echo 'postgres (PostgreSQL) {version}'");
    for (name, script) in [("postgres", postgres.as_str()), ("initdb", initdb)] {
        let program = bin.join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    bin
}

#[test]
fn data_of_another_major_version_are_not_touched() {
    let scratch = Scratch::with_database("major");
    let file = scratch.data().join("cluster/data/PG_VERSION");
    let version = fs::read_to_string(&file).unwrap();
    fs::write(&file, "9\n").unwrap();
    let sentence = refusal(options(&scratch.data(), Durability::Kept));
    let major = binaries().major();
    assert!(sentence.contains("written by PostgreSQL 9"), "{sentence}");
    assert!(sentence.contains(&format!("are version {major}")), "{sentence}");

    fs::write(&file, version).unwrap();
    assert_eq!(sql(&start(&scratch.data()), "select 1"), "1");
}

#[test]
fn a_damaged_folder_is_not_replaced_by_an_empty_database() {
    let scratch = Scratch::with_database("damaged");
    for part in ["cluster/data/PG_VERSION", "cluster/password"] {
        let file = scratch.data().join(part);
        let text = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let sentence = refusal(options(&scratch.data(), Durability::Kept));
        assert!(sentence.contains("is damaged"), "{sentence}");
        fs::write(&file, text).unwrap();
    }
}

#[test]
fn a_closed_folder_is_named() {
    let scratch = Scratch::new("closed");
    let closed = scratch.path().join("closed");
    fs::create_dir(&closed).unwrap();
    // Root may write everywhere, but its server is another user, who has to get in.
    let mode = if is_root() { 0o700 } else { 0o500 };
    fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    let sentence = refusal(options(&closed.join("data"), Durability::Kept));
    let problem = if is_root() { "cannot enter" } else { "Weir has no right to make" };
    assert!(sentence.contains(problem), "{sentence}");
    assert!(sentence.contains(closed.to_str().unwrap()), "{sentence}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(sql(&start(&closed.join("data")), "select 1"), "1");
}

#[test]
fn a_file_in_place_of_the_folder_is_named() {
    let scratch = Scratch::new("file");
    fs::write(scratch.data(), "").unwrap();
    for path in [scratch.data(), scratch.data().join("deeper")] {
        let sentence = refusal(options(&path, Durability::Kept));
        assert!(sentence.contains("is not a folder"), "{sentence}");
    }
}

#[test]
fn a_full_disk_is_said_and_nothing_half_made_is_left() {
    let scratch = Scratch::new("full");
    let words = "initdb: error: could not write file \"x\": No space left on device";
    let bin = fake_programs(&scratch, "16.1", &format!("echo '{words}' >&2; exit 1"));
    let binaries = Binaries::find(Some(&bin)).unwrap();
    let data_dir = scratch.data();
    let full = Options { data_dir: data_dir.clone(), binaries, durability: Durability::Kept };
    let sentence = refusal(full);
    assert!(sentence.starts_with("the disk that holds"), "{sentence}");
    assert_eq!(fs::read_dir(&data_dir).unwrap().count(), 1, "the lock file alone");

    assert_eq!(sql(&start(&data_dir), "select 1"), "1");
}

#[test]
fn programs_that_are_missing_broken_or_too_old_are_said() {
    let scratch = Scratch::new("programs");
    let find = |bin: &Path| Binaries::find(Some(bin)).unwrap_err();
    let missing = find(&scratch.path().join("nowhere"));
    assert!(matches!(missing, EmbeddedError::BadBinaries { .. }), "{missing}");
    assert!(missing.to_string().contains("WEIR_PG_BIN"), "{missing}");

    let bin = fake_programs(&scratch, "13.4", "exit 0");
    let old = find(&bin);
    assert!(old.to_string().contains("PostgreSQL 13"), "{old}");
    fs::remove_file(bin.join("initdb")).unwrap();
    let broken = find(&bin);
    assert!(broken.to_string().contains("no `initdb` there"), "{broken}");
}

#[test]
fn a_program_that_fails_is_quoted() {
    let scratch = Scratch::new("fails");
    let bin = fake_programs(&scratch, "16.1", "echo 'initdb: error: no luck today' >&2; exit 1");
    let binaries = Binaries::find(Some(&bin)).unwrap();
    let data_dir = scratch.data();
    let sentence = refusal(Options { data_dir, binaries, durability: Durability::Kept });
    assert!(sentence.contains("`initdb` failed"), "{sentence}");
    assert!(sentence.contains("no luck today"), "{sentence}");
}

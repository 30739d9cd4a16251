//! A cluster in ordinary use.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use embedded::{Cluster, DATABASE, Durability, EmbeddedError, SUPERUSER};
use nix::unistd::Uid;
use secrecy::ExposeSecret;

use crate::fixture::{Scratch, gone, is_root, options, sql, sql_at, start};

#[test]
fn what_was_written_is_there_after_a_stop_and_a_start() {
    let scratch = Scratch::with_database("restart");
    let cluster = start(&scratch.data());
    sql(&cluster, "create table kept (n int); insert into kept values (41)");
    let pid = cluster.pid().unwrap();
    cluster.stop().unwrap();
    assert!(gone(pid));
    assert!(!scratch.data().join("cluster/data/postmaster.pid").exists(), "a clean stop");

    let again = start(&scratch.data());
    assert_eq!(sql(&again, "select n from kept"), "41");
    let url = again.url(DATABASE);
    drop(again);
    sql_at(url.expose_secret(), "select 1").unwrap_err();
}

#[test]
fn kept_data_are_checksummed_and_flushed_and_text_is_ordered_by_bytes() {
    let scratch = Scratch::with_database("settings");
    let cluster = start(&scratch.data());
    let show = |name: &str| sql(&cluster, &format!("show {name}"));
    for setting in ["data_checksums", "fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(show(setting), "on", "{setting}");
    }
    assert_eq!(show("server_encoding"), "UTF8");
    assert_eq!(show("listen_addresses"), "127.0.0.1");
    assert_eq!(show("unix_socket_directories"), "");
    assert_eq!(sql(&cluster, "select 'a' < 'B'"), "f");
    assert_eq!(sql(&cluster, "select current_user"), SUPERUSER);
}

#[test]
fn a_stranger_without_the_password_is_turned_away_and_the_password_is_not_printed() {
    let scratch = Scratch::with_database("password");
    let cluster = start(&scratch.data());
    let url = cluster.url("postgres");
    let file = scratch.data().join("cluster/password");
    let password = fs::read_to_string(&file).unwrap();
    assert_eq!(password.len(), 64);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!format!("{cluster:?} {url:?}").contains(&password));

    let guess = url.expose_secret().replace(&password, &"0".repeat(64));
    let word = sql_at(&guess, "select 1").unwrap_err();
    assert!(word.contains("password authentication failed"), "{word}");
    assert_eq!(sql_at(url.expose_secret(), "select 2").unwrap(), "2");
}

#[test]
fn the_server_is_never_root() {
    let scratch = Scratch::with_database("uid");
    let cluster = start(&scratch.data());
    let user = fs::metadata(scratch.data().join("cluster/data")).unwrap().uid();
    let proc = fs::metadata(format!("/proc/{}", cluster.pid().unwrap()));
    if let Ok(proc) = proc {
        assert_eq!(proc.uid(), user);
    }
    assert_ne!(user, 0);
    assert_eq!(is_root(), user != Uid::effective().as_raw());
}

#[test]
fn a_second_start_on_the_same_folder_is_refused_and_names_the_owner() {
    let scratch = Scratch::with_database("twice");
    let cluster = start(&scratch.data());
    let error = Cluster::start(options(&scratch.data(), Durability::Kept)).unwrap_err();
    let EmbeddedError::InUse { owner, .. } = &error else { panic!("{error}") };
    assert_eq!(*owner, format!("process {}", std::process::id()));
    assert_eq!(sql(&cluster, "select 1"), "1", "the first one is not disturbed");
    drop(cluster);
    start(&scratch.data());
}

#[test]
fn the_log_is_in_the_data_folder_and_closed_to_others() {
    let scratch = Scratch::with_database("log");
    let cluster = start(&scratch.data());
    sql_at(cluster.url(DATABASE).expose_secret(), "select no_such_column").unwrap_err();
    cluster.stop().unwrap();
    let log = scratch.data().join("postgres.log");
    assert!(fs::read_to_string(&log).unwrap().contains("no_such_column"));
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
}

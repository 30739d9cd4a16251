//! What `kill -9` leaves behind, and the next start.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use embedded::{Cluster, Durability};
use nix::sys::signal::Signal;

use crate::fixture::{Scratch, gone, options, send, sql, start};

/// Set for a copy of this program that plays the owner of the folder named in it.
const OWNER_OF: &str = "WEIR_IT_OWNER_OF";

/// Runs `test` of this program in another process, which becomes the owner of `data`; comes back
/// with it and the server's number when the server is ready.
pub(crate) fn another_owner(test: &str, data: &Path) -> (Child, u32) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(OWNER_OF, data);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ready = lines.map_while(Result::ok).filter_map(|line| {
        line.split_once("server is process ").and_then(|(_, pid)| pid.parse().ok())
    });
    let pid = ready.next().expect("the other owner starts its server");
    (child, pid)
}

/// In the process that plays the owner: starts the server, says so, and waits to be killed.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
pub(crate) fn play_owner(durability: Durability) {
    let Some(data) = std::env::var_os(OWNER_OF) else { return };
    let cluster = Cluster::start(options(data.as_ref(), durability)).unwrap();
    sql(&cluster, "create table kept (n int); insert into kept values (42)");
    println!("server is process {}", cluster.pid().unwrap());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_server_left_by_a_killed_owner_is_stopped_and_its_data_are_there() {
    play_owner(Durability::Kept);
    let scratch = Scratch::with_database("owner");
    let this = "killed::a_server_left_by_a_killed_owner_is_stopped_and_its_data_are_there";
    let (mut owner, server) = another_owner(this, &scratch.data());
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(Path::new(&format!("/proc/{server}")).exists(), "the server outlives its owner");

    let next = start(&scratch.data());
    assert!(gone(server));
    assert_eq!(sql(&next, "select n from kept"), "42");
}

#[test]
fn a_killed_server_is_started_again_and_committed_data_are_there() {
    let scratch = Scratch::with_database("postmaster");
    let mut cluster = start(&scratch.data());
    sql(&cluster, "create table kept (n int); insert into kept values (43)");
    assert!(cluster.exited().is_none());
    send(cluster.pid().unwrap(), Signal::SIGKILL);
    assert!(crate::fixture::eventually(|| cluster.exited().is_some()));
    drop(cluster);
    assert!(scratch.data().join("cluster/data/postmaster.pid").exists(), "it left its pid file");

    assert_eq!(sql(&start(&scratch.data()), "select n from kept"), "43");
}

#[test]
fn a_pid_file_that_names_a_strangers_process_does_not_stop_the_start_nor_the_stranger() {
    let scratch = Scratch::with_database("stranger");
    let data = scratch.data().join("cluster/data");
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let text =
        format!("{}\n{}\n1764460000\n5432\n\n127.0.0.1\n\nready\n", stranger.id(), data.display());
    fs::write(data.join("postmaster.pid"), text).unwrap();

    let cluster = start(&scratch.data());
    assert_eq!(sql(&cluster, "select 1"), "1");
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_database_half_made_when_its_owner_was_killed_is_made_anew() {
    let scratch = Scratch::new("half");
    let half = scratch.data().join("new-0123456789abcdef/data");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("PG_VERSION"), "15\n").unwrap();

    let cluster = start(&scratch.data());
    assert_eq!(sql(&cluster, "select 1"), "1");
    let names = fs::read_dir(scratch.data()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["cluster", "owner.lock", "postgres.log"].map(OsStr::new));
}

#[test]
fn an_owner_killed_while_the_database_is_being_made_leaves_nothing_in_the_way() {
    if std::env::var_os(OWNER_OF).is_some() {
        return play_owner(Durability::Kept);
    }
    let scratch = Scratch::new("making");
    let this = "killed::an_owner_killed_while_the_database_is_being_made_leaves_nothing_in_the_way";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", this]).env(OWNER_OF, scratch.data()).stdout(Stdio::null());
    let mut owner = command.spawn().unwrap();
    let making = || {
        let Ok(mut entries) = fs::read_dir(scratch.data()) else { return false };
        entries.any(|entry| entry.unwrap().path().join("data/PG_VERSION").exists())
    };
    assert!(crate::fixture::eventually(making));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(!scratch.data().join("cluster").exists(), "it was still being made");

    assert_eq!(sql(&start(&scratch.data()), "select 1"), "1");
}

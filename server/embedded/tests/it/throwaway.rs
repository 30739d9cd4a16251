//! A cluster for tests.

use std::path::Path;

use embedded::{Cluster, Durability};

use crate::fixture::{Scratch, gone, options, sql};
use crate::killed::{another_owner, play_owner};

#[test]
fn a_throwaway_server_does_not_flush_and_stops_at_once() {
    let scratch = Scratch::new("throwaway");
    let cluster = Cluster::start(options(&scratch.data(), Durability::Throwaway)).unwrap();
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(sql(&cluster, &format!("show {setting}")), "off", "{setting}");
    }
    let pid = cluster.pid().unwrap();
    cluster.stop().unwrap();
    assert!(gone(pid));
}

#[test]
fn a_throwaway_server_ends_with_its_killed_owner() {
    play_owner(Durability::Throwaway);
    let scratch = Scratch::new("parent");
    let this = "throwaway::a_throwaway_server_ends_with_its_killed_owner";
    let (mut owner, server) = another_owner(this, &scratch.data());
    assert!(Path::new(&format!("/proc/{server}")).exists());
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(gone(server));
}

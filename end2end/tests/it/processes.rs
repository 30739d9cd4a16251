//! Processes that were started by what a test started.

use std::fs;
use std::path::Path;

use nix::unistd::Pid;

/// The processes whose command line names `folder`, which is one test's own.
pub(crate) fn naming(folder: &Path) -> Vec<Pid> {
    let ours = folder.display().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_us = processes.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(&ours).then_some(Pid::from_raw(pid))
    });
    of_us.collect()
}

/// The user that a process runs as; nothing when it has ended.
pub(crate) fn user_of(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

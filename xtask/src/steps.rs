//! The steps of a run: each is named, timed, and may fail without ending the run.

use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::signals::Signals;

/// What has been counted so far.
#[derive(Debug)]
pub(crate) struct Steps {
    signals: Signals,
    started: Instant,
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests and steps that failed.
    pub(crate) failed: u64,
    failures: Vec<String>,
}

impl Steps {
    pub(crate) fn new(signals: &Signals) -> Self {
        let signals = signals.clone();
        Self { signals, started: Instant::now(), passed: 0, failed: 0, failures: Vec::new() }
    }

    /// Does one step; a failure is said and counted. `None` then, and when a signal has come.
    pub(crate) fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        if self.signals.check().is_err() {
            return None;
        }
        let result = timed(name, work);
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(name, format!("{error:#}"));
                None
            }
        }
    }

    /// Counts a failure of the step `name`, unless a signal ended it: that is said once, at the end.
    pub(crate) fn fail(&mut self, name: &str, why: impl Display) {
        if self.signals.check().is_err() {
            return;
        }
        self.count(name, why);
    }

    fn count(&mut self, name: &str, why: impl Display) {
        self.failed = self.failed.saturating_add(1);
        self.failures.push(format!("{name}: {why}"));
    }

    /// Says what failed; the last line is the count. Whether all went well.
    pub(crate) fn close(mut self) -> bool {
        if let Err(signal) = self.signals.check() {
            self.count("this run", signal);
        }
        println!("\nall steps: {}", seconds(self.started.elapsed()));
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}

/// Does `work` between a line with its name and a line with its time.
pub(crate) fn timed<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("--- {name}");
    let started = Instant::now();
    let result = work();
    let end = if result.is_ok() { "done" } else { "FAILED" };
    println!("--- {name}: {end} in {}", seconds(started.elapsed()));
    result
}

fn seconds(time: Duration) -> String {
    format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100)
}

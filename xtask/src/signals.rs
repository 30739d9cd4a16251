//! Ctrl-C and SIGTERM: the program that runs is ended, and then what was started is stopped.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Heard;

/// No program runs.
const NOBODY: i32 = 0;

/// The only place that hears signals. Every program runs in a process group of its own, so that a
/// signal ends it with all that it started and nothing else: the servers of the tests must outlive it.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    caught: AtomicBool,
    group: AtomicI32,
}

impl Signals {
    /// Takes the signals over. To be called before anything is started.
    pub(crate) fn watch() -> Result<Self> {
        // A handler and not a mask: programs that are started would inherit a mask.
        let mut heard = Heard::new([SIGINT, SIGTERM, SIGHUP]).context("cannot hear signals")?;
        let state = State { caught: AtomicBool::new(false), group: AtomicI32::new(NOBODY) };
        let signals = Self { state: Arc::new(state) };
        let hearer = signals.clone();
        std::thread::spawn(move || heard.forever().for_each(|_| hearer.hear()));
        Ok(signals)
    }

    fn hear(&self) {
        let again = self.state.caught.swap(true, Ordering::SeqCst);
        // Not the signal itself: a shell may have told a program to take no notice of Ctrl-C.
        self.end_group(if again { Signal::SIGKILL } else { Signal::SIGTERM });
    }

    fn end_group(&self, signal: Signal) {
        let group = self.state.group.load(Ordering::SeqCst);
        if group != NOBODY {
            // It may just have ended.
            let _ = killpg(Pid::from_raw(group), signal);
        }
    }

    /// Fails when a signal has come: to be asked between two steps.
    pub(crate) fn check(&self) -> Result<()> {
        if self.state.caught.load(Ordering::SeqCst) {
            bail!("stopped by a signal");
        }
        Ok(())
    }

    /// Runs `command` to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        self.watched(command, |_| Ok(()))
    }

    /// Runs `command` to its end and hands on each line of its standard output.
    pub(crate) fn lines(
        &self,
        command: &mut Command,
        mut on_line: impl FnMut(&str),
    ) -> Result<ExitStatus> {
        command.stdout(Stdio::piped());
        self.watched(command, |child| {
            let Some(output) = child.stdout.take() else { return Ok(()) };
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line)? > 0 {
                on_line(String::from_utf8_lossy(&line).trim_end_matches('\n'));
                line.clear();
            }
            Ok(())
        })
    }

    /// Runs `command` to its end and gives its standard output; fails when it does.
    pub(crate) fn output(&self, command: &mut Command) -> Result<String> {
        let mut output = String::new();
        let status = self.lines(command, |line| {
            output.push_str(line);
            output.push('\n');
        })?;
        if !status.success() {
            bail!("{} failed", command.get_program().display());
        }
        Ok(output)
    }

    fn watched(
        &self,
        command: &mut Command,
        attend: impl FnOnce(&mut Child) -> std::io::Result<()>,
    ) -> Result<ExitStatus> {
        self.check()?;
        let name = command.get_program().to_string_lossy().into_owned();
        let spawned = command.stdin(Stdio::null()).process_group(0).spawn();
        let mut child = spawned.with_context(|| format!("cannot run {name}"))?;
        self.state.group.store(i32::try_from(child.id()).unwrap_or(NOBODY), Ordering::SeqCst);
        if self.check().is_err() {
            // The signal came before its group was known.
            self.end_group(Signal::SIGTERM);
        }
        let attended = attend(&mut child);
        let ended = child.wait();
        self.state.group.store(NOBODY, Ordering::SeqCst);
        attended.with_context(|| format!("cannot read what {name} says"))?;
        let status = ended.with_context(|| format!("cannot wait for {name}"))?;
        self.check()?;
        Ok(status)
    }
}

//! Running one of PostgreSQL's programs, for a bounded time and without Weir's secrets.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::log::Words;

/// How often a waiting loop looks again: far below what a person notices, far above busy waiting.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// What a program needs from the environment; all else, secrets and `PG*` settings, stays here.
const KEPT_VARIABLES: [&str; 5] =
    ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT"];

/// A command with a clean environment, in a folder that everybody may enter.
pub(crate) fn scrubbed(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").current_dir("/");
    for name in KEPT_VARIABLES {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// How a program ended, and its last words.
pub(crate) struct Ended {
    /// `None` when it had to be ended at the time limit.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) said: String,
}

/// Runs `command` with `input` and ends it after `limit`.
pub(crate) fn run(mut command: Command, input: &[u8], limit: Duration) -> io::Result<Ended> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let words = child.stderr.take().map(|pipe| Words::listen(pipe, None));
    if let Some(mut stdin) = child.stdin.take() {
        // A program that gives up before it reads says why in its last words.
        let _ = stdin.write_all(input);
    }
    let status = wait(&mut child, limit)?;
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(Ended { status, said: words.map(Words::finish).unwrap_or_default() })
}

/// Waits until `child` has ended, at most for `limit`; `None` when it still runs then.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut status = None;
    until(limit, || {
        status = child.try_wait()?;
        Ok::<_, io::Error>(status.is_some())
    })?;
    Ok(status)
}

/// Asks `done` again and again, at most for `limit`; says whether it came true.
pub(crate) fn until<E>(
    limit: Duration,
    mut done: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    let started = Instant::now();
    loop {
        if done()? {
            return Ok(true);
        }
        if started.elapsed() >= limit {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
}

//! A Redis server of the fleet's own: killed, frozen, emptied and started again.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::environment;
use crate::folder::Folder;
use crate::wait::until;

/// Redis starts in a twentieth of a second; this is for a busy machine.
const START: Duration = Duration::from_secs(20);
/// How long one of its answers may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How many ports are tried until one is free.
const TRIES: usize = 100;
/// The most that is read of an answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// A server that keeps nothing. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Redis {
    child: Option<Child>,
    port: u16,
    folder: Folder,
}

impl Redis {
    pub(crate) async fn start() -> Self {
        let port = free_port();
        let mut redis = Self { child: None, port, folder: Folder::new() };
        redis.start_again().await;
        redis
    }

    /// Starts it empty, on the port that it had.
    pub(crate) async fn start_again(&mut self) {
        let mut command = Command::new(environment::redis_server());
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|e| panic!("Redis does not start: {e}"));
        self.child = Some(child);
        until("Redis answers", START, async || {
            self.command(&["PING"]).map(drop).map_err(|e| e.to_string())
        })
        .await;
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops it where it is: it takes connections, by the system, and answers none.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    }

    /// Forgets all, as a server does that lost its memory.
    pub(crate) fn flush(&self) {
        self.command(&["FLUSHALL"]).unwrap();
    }

    /// Deletes a key that it draws; none where there is none.
    pub(crate) fn delete_one(&self) {
        let drawn = self.command(&["RANDOMKEY"]).unwrap();
        if let Some(key) = drawn.lines().nth(1) {
            self.command(&["DEL", key]).unwrap();
        }
    }

    /// `INFO commandstats` of one command: how often it was called, and how many microseconds that took.
    pub(crate) fn calls(&self, command: &str) -> (u64, u64) {
        let info = self.command(&["INFO", "commandstats"]).unwrap();
        let start = format!("cmdstat_{command}:");
        let Some(line) = info.lines().find_map(|line| line.strip_prefix(start.as_str())) else {
            return (0, 0);
        };
        let figure = |name: &str| {
            let told = line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            told.and_then(|figure| figure.parse().ok()).unwrap_or(0)
        };
        (figure("calls"), figure("usec"))
    }

    /// Its answer, as it comes.
    pub(crate) fn command(&self, words: &[&str]) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(ANSWER))?;
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(text.as_bytes())?;
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while !is_whole(&answer) && answer.len() < ANSWER_BYTES_MAX {
            match stream.read(&mut piece)? {
                0 => break,
                read => answer.extend_from_slice(&piece[..read]),
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.starts_with('-') || answer.is_empty() {
            return Err(io::Error::other(format!("Redis says {answer:?} to {words:?}")));
        }
        Ok(answer)
    }
}

/// A line, or a text of the length that its first line tells.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(2).position(|bytes| bytes == b"\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]);
    match head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => answer.len() >= end + 2 + length + 2,
        None => true,
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may be frozen, and is going to end either way.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that nobody listens on now, and that the system gives to nobody by itself: it is to be taken again after a
/// restart.
pub(crate) fn free_port() -> u16 {
    const NOT_GIVEN: std::ops::Range<u16> = 20_000..32_000;
    let drawn = std::iter::repeat_with(|| rand::random_range(NOT_GIVEN)).take(TRIES);
    let mut free = drawn.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("a free port")
}

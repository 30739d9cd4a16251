//! The program, as a process: started, found, asked, stopped.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::environment;
use crate::folder::Folder;
use crate::wait::until;

/// How long the program may take until it serves, on a busy machine and with a database to make.
const START: Duration = Duration::from_secs(120);
/// How long it may take to end: its own drain time and room.
const STOP: Duration = Duration::from_secs(60);
/// How long a command may take that does one thing.
const RUN: Duration = Duration::from_secs(60);
/// How much of the log a failure shows.
const SHOWN_LINES: usize = 60;

/// The token of the admin API in every test.
pub(crate) const ADMIN_TOKEN: &str = "weir_admin_end2end0end2end0end2end0end2end0";

/// The program with these arguments, in an environment of these variables alone.
pub(crate) fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let program = environment::weir();
    assert!(
        program.is_file(),
        "there is no {}: build the program first, with `cargo build -p weir`",
        program.display()
    );
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment::of_the_machine());
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// What a command that ended has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program to its end.
pub(crate) async fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut weir = Weir::launch(arguments, variables);
    let code = weir.ended(RUN).await.code();
    Said { code, out: weir.read("out"), err: weir.read("err") }
}

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Weir {
    child: Child,
    ended: Option<ExitStatus>,
    /// `http://address`, once it listens.
    base: String,
    logs: Folder,
}

impl Weir {
    /// Starts `weir serve` on a free port and waits until it is ready.
    pub(crate) async fn serve(variables: &[(&str, &str)]) -> Self {
        let mut weir = Self::launch_serve(variables);
        weir.wait_ready().await;
        weir
    }

    /// Starts `weir serve` on a free port, and does not wait.
    pub(crate) fn launch_serve(variables: &[(&str, &str)]) -> Self {
        let site = environment::site().map(|site| site.display().to_string());
        let mut all = vec![
            ("WEIR_BIND", "127.0.0.1:0"),
            ("WEIR_METRICS_BIND", "off"),
            ("WEIR_ADMIN_TOKEN", ADMIN_TOKEN),
        ];
        all.extend(site.as_deref().map(|site| ("WEIR_SITE_DIR", site)));
        all.extend(variables);
        Self::launch(&["serve"], &all)
    }

    /// Starts `weir sim` on a free port and waits until it says where it listens.
    pub(crate) async fn sim(arguments: &[&str]) -> Self {
        let all = [&["sim", "--bind", "127.0.0.1:0"], arguments].concat();
        let mut sim = Self::launch(&all, &[]);
        let weir = &mut sim;
        until("the simulator listens", START, async || {
            if let Some(status) = weir.look() {
                panic!("the simulator ended at its start: {status}");
            }
            weir.base = listening(&weir.log()).ok_or("it does not say where it listens")?;
            Ok(())
        })
        .await;
        sim
    }

    fn launch(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let logs = Folder::new();
        let file = |name: &str| {
            File::create(logs.join(name)).unwrap_or_else(|e| panic!("cannot write a log: {e}"))
        };
        let mut command = command(arguments, variables);
        command.stdout(file("out")).stderr(file("err"));
        let child = command.spawn().unwrap_or_else(|e| panic!("the program does not start: {e}"));
        Self { child, ended: None, base: String::new(), logs }
    }

    /// Waits until it says where it listens, and answers that it is ready.
    pub(crate) async fn wait_ready(&mut self) {
        let client = crate::http::client();
        let weir = &mut *self;
        until("the program is ready", START, async || {
            if let Some(status) = weir.look() {
                panic!("the program ended at its start: {status}");
            }
            if weir.base.is_empty() {
                weir.base = listening(&weir.log()).ok_or("it does not say where it listens")?;
            }
            let answer = client.get(weir.url("/readyz")).send().await;
            let status = answer.map_err(|error| error.to_string())?.status();
            if status.is_success() { Ok(()) } else { Err(format!("/readyz answers {status}")) }
        })
        .await;
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// `127.0.0.1:port`.
    pub(crate) fn authority(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// All that it has printed, output first.
    pub(crate) fn log(&self) -> String {
        format!("{}{}", self.read("out"), self.read("err"))
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.log_file(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.logs.join(name)
    }

    /// Asks it to end, as a supervisor does, and waits for that.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended(STOP).await
    }

    /// Ends it as a power cut would.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.ended(STOP).await;
    }

    fn signal(&mut self, signal: Signal) {
        if self.look().is_none() {
            kill(self.pid(), signal).unwrap_or_else(|e| panic!("cannot signal the program: {e}"));
        }
    }

    /// Waits for its end, at most `limit`.
    pub(crate) async fn ended(&mut self, limit: Duration) -> ExitStatus {
        until("the program ends", limit, async || self.look().ok_or_else(|| "it runs".to_owned()))
            .await
    }

    /// How it ended, if it did.
    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended =
                self.child.try_wait().unwrap_or_else(|e| panic!("cannot see the program: {e}"));
        }
        self.ended
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        if self.look().is_none() {
            // Nothing can be done about a process that does not let itself be killed.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(SHOWN_LINES);
            eprintln!("the program's last lines:\n{}", lines[from..].join("\n"));
        }
    }
}

/// `http://127.0.0.1:port`, where it stands for the first time.
fn listening(log: &str) -> Option<String> {
    const ORIGIN: &str = "http://127.0.0.1:";
    let after = &log[log.find(ORIGIN)? + ORIGIN.len()..];
    let end = after.find(|c: char| !c.is_ascii_digit())?;
    (end > 0).then(|| format!("{ORIGIN}{}", &after[..end]))
}

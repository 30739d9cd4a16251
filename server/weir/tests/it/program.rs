//! The built program: its exit codes, and how it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than a start or a stop takes, on a machine that builds at the same time.
const PATIENCE: Duration = Duration::from_secs(60);

fn weir(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env_clear().env("HOME", std::env::temp_dir());
    command.envs(variables.iter().copied());
    command
}

pub(crate) fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    weir(arguments, variables).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn wrong_settings_end_with_three_and_a_wrong_command_line_with_two() {
    let output = run(&["config", "print"], &[("WEIR_BNID", "x")]);
    assert_eq!(output.status.code(), Some(3));
    assert!(said(&output).contains("did you mean `WEIR_BIND`?"), "{}", said(&output));
    assert_eq!(run(&["serve", "--nonsense"], &[]).status.code(), Some(2));
    let output = run(&["serve"], &[("DATABASE_URL", "postgres://u@127.0.0.1:1/none")]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
}

#[test]
fn what_is_set_is_printed_with_its_source_and_without_secrets() {
    let variables = [("DATABASE_URL", "postgres://u:s3cret@h/d"), ("WEIR_DRAIN_S", "7")];
    let output = run(&["config", "print", "--json"], &variables);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("s3cret"));
    let lines: serde_json::Value = serde_json::from_str(&text).unwrap();
    let line = |key: &str| lines.as_array().unwrap().iter().find(|l| l["key"] == key).unwrap();
    assert_eq!(line("drain_s")["value"], "7");
    assert_eq!(line("drain_s")["source"], "environment WEIR_DRAIN_S");
    assert_eq!(line("database_url")["value"], "[set]");
}

#[test]
fn the_openapi_document_is_printed_without_a_database() {
    let output = run(&["openapi"], &[]);
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["paths"]["/admin/api/v1/tenants"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_lacks_a_migration_ends_the_check_with_five() {
    let database = testkit::database().await;
    let variables = [("DATABASE_URL", database.url.as_str())];
    let check = || run(&["migrate", "--check"], &variables).status.code();
    assert_eq!(check(), Some(0));
    sqlx::query("delete from _sqlx_migrations where version = $1")
        .bind(weir::database::newest())
        .execute(&database.pool)
        .await
        .unwrap();
    assert_eq!(check(), Some(5));
}

/// A program that is ended whatever happens to the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    fn start(url: &str) -> (Self, String) {
        let variables = [
            ("DATABASE_URL", url),
            ("WEIR_BIND", "127.0.0.1:0"),
            ("WEIR_METRICS_BIND", "127.0.0.1:0"),
            ("WEIR_DRAIN_S", "1"),
            ("WEIR_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ];
        let mut command = weir(&["serve"], &variables);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let serving = Self(child);
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            let rest = line.strip_prefix("Weir serves http://")?;
            Some(rest.split(' ').next().unwrap().to_owned())
        });
        (serving, address.expect("it ended before it served"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    /// The exit code, once it has ended.
    fn ended(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_in_good_order_and_with_zero() {
    let database = testkit::database().await;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (mut serving, address) = Serving::start(&database.url);
        let bind = [("WEIR_BIND", address.as_str())];
        assert_eq!(run(&["healthcheck"], &bind).status.code(), Some(0));
        serving.signal(signal);
        assert_eq!(serving.ended(), Some(0), "{signal}");
        assert_eq!(run(&["healthcheck"], &bind).status.code(), Some(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let database = testkit::database().await;
    let (mut serving, address) = Serving::start(&database.url);
    // A request that is still being sent keeps the stop waiting.
    let mut open = std::net::TcpStream::connect(&address).unwrap();
    std::io::Write::write_all(
        &mut open,
        b"POST /login HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n\
          content-length: 100\r\n\r\ncsrf",
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    serving.signal(Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(200));
    assert!(serving.0.try_wait().unwrap().is_none(), "it did not wait for the request");
    serving.signal(Signal::SIGTERM);
    assert_eq!(serving.ended(), Some(130));
    let mut rest = Vec::new();
    let _ = open.read_to_end(&mut rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_tenants_and_keys_are_made_on_the_command_line() {
    use std::io::Write;

    let database = testkit::database().await;
    let variables = [("DATABASE_URL", database.url.as_str())];
    let output = run(&["tenant", "create", "--slug", "acme", "--plan", "pro"], &variables);
    assert!(output.status.success(), "{}", said(&output));
    let arguments = ["user", "create", "--email", "Dev@acme.example", "--role", "t-dev"];
    let mut command = weir(&arguments, &variables);
    command.args(["--tenant", "acme", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse battery\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (made["email"].as_str(), made["role"].as_str()),
        (Some("dev@acme.example"), Some("t-dev"))
    );

    let output = run(&["key", "create", "--tenant", "acme", "--name", "ci"], &variables);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(tenants::api_key::ApiKeySecret::parse(text.trim()).is_ok(), "{text}");
    let again = run(&["key", "create", "--tenant", "acme", "--name", "ci"], &variables);
    assert_eq!(again.status.code(), Some(1), "the name is taken");
    let none = run(&["key", "create", "--tenant", "nobody", "--name", "ci"], &variables);
    assert!(said(&none).contains("no such tenant"), "{}", said(&none));
}

//! The program by itself: its own database, its end, its sentences.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use sqlx::{Connection, Executor, PgConnection};

use crate::admin::Admin;
use crate::folder::Folder;
use crate::processes;
use crate::wait::until;
use crate::weir_process::{Said, Weir, run};

/// How long a program that cannot start may take to say so.
const GIVES_UP: Duration = Duration::from_secs(60);
/// How long processes may take to be gone after the one that started them.
const GONE: Duration = Duration::from_secs(30);
/// What exit codes mean, as `weir --help` says.
const WRONG_SETTINGS: i32 = 3;
const MISSING: i32 = 4;
const MIGRATION: i32 = 5;

/// A data folder. What was left running on it ends with it.
#[derive(Debug)]
struct DataDir(Folder);

impl DataDir {
    fn new() -> Self {
        Self(Folder::new())
    }

    fn path(&self) -> String {
        self.0.join("data").display().to_string()
    }

    async fn serve(&self) -> Weir {
        Weir::serve(&[("WEIR_DATA_DIR", &self.path())]).await
    }

    /// The processes of the database in it.
    fn database(&self) -> Vec<Pid> {
        processes::naming(self.0.path())
    }

    async fn is_left_alone(&self) {
        until("no database process is left", GONE, async || {
            let left = self.database();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        for pid in self.database() {
            // Its children end with it.
            let _ = kill(pid, Signal::SIGQUIT);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_database_it_brings_its_own_and_keeps_the_data_over_a_restart() {
    let data = DataDir::new();
    let mut weir = data.serve().await;
    let database = data.database();
    assert!(!database.is_empty(), "a database runs in the data folder");
    for pid in &database {
        let user = processes::user_of(*pid);
        assert!(user.is_some_and(|user| user != 0), "the database runs as root: {pid}");
        let own = Uid::current().as_raw();
        assert!(own == 0 || user == Some(own), "{pid} runs as {user:?}, not as {own}");
    }
    let admin = Admin::of(&weir);
    let plan = admin.plan("kept", &[], 0).await;
    admin.tenant("kept", plan).await;
    assert_eq!(weir.stop().await.code(), Some(0), "SIGTERM ends it well");
    data.is_left_alone().await;

    let mut again = data.serve().await;
    assert!(Admin::of(&again).tenants().await.contains(&"kept".to_owned()), "the data are kept");
    assert_eq!(again.stop().await.code(), Some(0));
    data.is_left_alone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_without_warning_it_starts_again_on_the_same_data() {
    let data = DataDir::new();
    let mut weir = data.serve().await;
    let admin = Admin::of(&weir);
    let plan = admin.plan("kept", &[], 0).await;
    admin.tenant("kept", plan).await;
    weir.kill().await;

    let mut again = data.serve().await;
    assert!(Admin::of(&again).tenants().await.contains(&"kept".to_owned()), "the data are kept");
    assert_eq!(again.stop().await.code(), Some(0));
    data.is_left_alone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_the_same_data_says_so_in_one_sentence_and_harms_nothing() {
    let data = DataDir::new();
    let mut weir = data.serve().await;
    let mut second = Weir::launch_serve(&[("WEIR_DATA_DIR", &data.path())]);
    let code = second.ended(GIVES_UP).await.code();
    let sentence = last_line(&second.log());
    assert_eq!(code, Some(MISSING), "{sentence}");
    assert!(sentence.starts_with("weir: ") && sentence.contains(&data.path()), "{sentence}");

    Admin::of(&weir).plan("still-there", &[], 0).await;
    assert_eq!(weir.stop().await.code(), Some(0));
    data.is_left_alone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_taken_is_named_and_nothing_is_left_running() {
    let data = DataDir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut weir = Weir::launch_serve(&[("WEIR_DATA_DIR", &data.path()), ("WEIR_BIND", &address)]);
    let code = weir.ended(GIVES_UP).await.code();
    let sentence = last_line(&weir.log());
    assert_eq!(code, Some(MISSING), "{sentence}");
    assert!(sentence.starts_with("weir: ") && sentence.contains(&address), "{sentence}");
    data.is_left_alone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_it_starts_it_takes_its_database_with_it() {
    let data = DataDir::new();
    let mut weir = Weir::launch_serve(&[("WEIR_DATA_DIR", &data.path())]);
    until("the database begins to start", GIVES_UP, async || {
        if data.database().is_empty() { Err("no process yet".to_owned()) } else { Ok(()) }
    })
    .await;
    let status = weir.stop().await;
    assert_eq!(status.code(), Some(0), "{status}");
    data.is_left_alone().await;
    let mut again = data.serve().await;
    assert_eq!(again.stop().await.code(), Some(0), "what was begun can be gone on with");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrate_check_tells_an_empty_database_from_a_ready_one() {
    let db = testkit::database().await;
    let data = Folder::new();
    let folder = data.path().display().to_string();
    let variables = [("DATABASE_URL", db.url.as_str()), ("WEIR_DATA_DIR", folder.as_str())];
    let check = async || run(&["migrate", "--check"], &variables).await;
    let ready = check().await;
    assert_eq!(ready.code, Some(0), "{ready:?}");

    // On a connection of its own: the pool's would remember what is gone.
    let mut connection = PgConnection::connect(&db.url).await.unwrap();
    connection.execute("drop schema public cascade; create schema public").await.unwrap();
    connection.close().await.unwrap();
    let empty = check().await;
    assert_eq!(empty.code, Some(MIGRATION), "{empty:?}");
    assert!(last_line(&empty.err).contains("weir migrate"), "it says what to do: {empty:?}");

    let migrated = run(&["migrate"], &variables).await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    assert_eq!(check().await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_names_program_and_schema() {
    let Said { code, out, .. } = run(&["--version"], &[]).await;
    assert_eq!(code, Some(0));
    assert!(out.starts_with("weir ") && out.contains("schema "), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slip_in_a_setting_s_name_is_refused_with_the_right_one() {
    let data = Folder::new();
    let file = data.join("weir.toml");
    std::fs::write(&file, "bnid = \"127.0.0.1:0\"\n").unwrap();
    let file = file.display().to_string();
    for (variable, value, meant) in [
        ("WEIR_BNID", "127.0.0.1:0", "did you mean `WEIR_BIND`?"),
        ("WEIR_DATABASE_URL", "postgres://nowhere", "did you mean `DATABASE_URL`?"),
        ("WEIR_CONFIG", file.as_str(), "did you mean `bind`?"),
    ] {
        let said = run(&["serve"], &[(variable, value), ("HOME", "/nonexistent")]).await;
        assert_eq!(said.code, Some(WRONG_SETTINGS), "{said:?}");
        assert!(said.err.contains(meant), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_masked_where_settings_are_printed() {
    const SECRET: &str = "hunter2-hunter2-hunter2-hunter2-hunter2";
    let url = format!("postgres://weir:{SECRET}@127.0.0.1/weir");
    let token = format!("weir_admin_{SECRET}");
    let variables =
        [("DATABASE_URL", url.as_str()), ("WEIR_ADMIN_TOKEN", token.as_str()), ("HOME", "/root")];
    for arguments in [&["config", "print"][..], &["config", "print", "--json"]] {
        let said = run(arguments, &variables).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("environment DATABASE_URL"), "{said:?}");
        assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET), "a secret is printed");
    }
}

/// The line that a command ends with.
fn last_line(log: &str) -> String {
    log.lines().last().unwrap_or_default().to_owned()
}

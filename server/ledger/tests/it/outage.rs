//! The database fails in the middle of its work.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ledger::{Appended, Ledger, LedgerError, WriterConfig};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::fixture::{agreed, books, event};

/// Stands between the writer and the server. Once armed, it lets the next COMMIT through and cuts the
/// connection before the answer comes back.
async fn cutter(tasks: &TaskTracker, server: (String, u16)) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let armed = Arc::new(AtomicBool::new(false));
    let (relays, trigger) = (tasks.clone(), armed.clone());
    tasks.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect((&*server.0, server.1)).await.unwrap();
            relays.spawn(relay(client, server, trigger.clone()));
        }
    });
    (port, armed)
}

async fn relay(mut client: TcpStream, mut server: TcpStream, armed: Arc<AtomicBool>) {
    let (mut up, mut down) = ([0_u8; 65_536], [0_u8; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(size @ 1..) = read else { return };
                let is_commit = up[..size].windows(6).any(|word| word == b"COMMIT");
                if server.write_all(&up[..size]).await.is_err() {
                    return;
                }
                if is_commit && armed.swap(false, Ordering::SeqCst) {
                    // The answer is read, so the commit is done, and is never passed on.
                    let _ = server.read(&mut down).await;
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(size @ 1..) = read else { return };
                if client.write_all(&down[..size]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_commit_was_not_confirmed_counts_once() {
    let books = books().await;
    let options = PgConnectOptions::from_str(&books.db.url).unwrap();
    let server = (options.get_host().to_owned(), options.get_port());
    let (port, armed) = cutter(&TaskTracker::new(), server).await;
    let pool = PgPoolOptions::new()
        .max_connections(2)
        .connect_lazy_with(options.host("127.0.0.1").port(port));
    let ledger = Ledger::start(pool, &books.tasks, WriterConfig::default());
    ledger.append(event(1, 10)).await.unwrap();
    for _ in 0..5 {
        armed.store(true, Ordering::SeqCst);
        // The retry finds it written: by this very append, whose answer was lost.
        assert_eq!(ledger.append(event(1, 10)).await.unwrap(), Appended::Duplicate);
        assert!(!armed.load(Ordering::SeqCst));
    }
    let line = &agreed(books.pool()).await[0];
    assert_eq!((line.events, line.events_charge), (6, 60));
}

/// Ends every connection of the database but its own.
const KILL_ALL: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                        where datname = current_database() and pid <> pg_backend_pid()";
/// How often: each time leaves the writer enough time to connect and to commit a batch.
const KILLS: u32 = 12;
const BETWEEN_KILLS: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_that_are_killed_under_load_lose_and_double_nothing() {
    let books = books().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut appends = JoinSet::new();
    for number in 0..40 {
        let (ledger, is_over) = (books.ledger.clone(), is_over.clone());
        appends.spawn(async move {
            let mut appended = 0_i64;
            while !is_over.load(Ordering::SeqCst) {
                ledger.append(event(1 + number % 3, 10)).await.unwrap();
                appended += 1;
            }
            appended
        });
    }
    let mut killed = 0;
    for _ in 0..KILLS {
        tokio::time::sleep(BETWEEN_KILLS).await;
        killed += sqlx::query_scalar::<_, i64>(KILL_ALL).fetch_one(books.pool()).await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    let appended: i64 = appends.join_all().await.into_iter().sum();
    assert!(killed >= i64::from(KILLS), "only {killed} connections were killed");
    let lines = agreed(books.pool()).await;
    assert_eq!(lines.iter().map(|line| line.events).sum::<i64>(), appended);
}

#[tokio::test]
async fn a_database_that_stays_away_gives_the_events_back_after_a_while() {
    let tasks = TaskTracker::new();
    let nowhere = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(30))
        .connect_lazy("postgres://nobody@127.0.0.1:1/none")
        .unwrap();
    let config = WriterConfig { patience: Duration::from_millis(200), ..WriterConfig::default() };
    let ledger = Ledger::start(nowhere, &tasks, config);
    let answer = ledger.append(event(1, 10)).await;
    assert!(matches!(answer, Err(LedgerError::Unavailable(_))), "{answer:?}");
    drop(ledger);
    tasks.close();
    tasks.wait().await;
}

//! Engines that go away and come back while calls are made: a cap is a cap all the same.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use limiter::{
    Actual, Admission, Ask, Hold, Limiter, Mode, Parts, PostgresEngine, RedisConfig, RedisEngine,
    Verdict,
};
use sqlx::PgPool;
use testkit::TestDatabase;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fixture::{again, ask, event, month};
use domain::money::Nanos;

/// Longer than any change of hands may take: a lease, and some beats.
const PATIENCE: Duration = Duration::from_secs(20);
/// The deadline of a script: wider than in production, on a machine that runs all tests at once.
const DEADLINE: Duration = Duration::from_millis(250);

/// A Redis server of the test's own, which it may stop, freeze and start again.
struct Server {
    port: u16,
    child: Option<Child>,
}

impl Server {
    fn absent() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { port, child: None }
    }

    fn running() -> Self {
        let mut server = Self::absent();
        server.start();
        server
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests have no configuration but their environment"
    )]
    fn start(&mut self) {
        let program =
            std::env::var("WEIR_TEST_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let port = self.port.to_string();
        let child = Command::new(program)
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let until = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < until, "the Redis server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn command(&self, words: &[&str]) {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.exec(&mut connection).unwrap();
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may be frozen, and is going to end either way.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Processes that share a database and, as far as they reach it, a Redis.
struct Fleet {
    db: TestDatabase,
    tasks: TaskTracker,
    limiters: Vec<Limiter>,
    cancel: CancellationToken,
}

impl Fleet {
    async fn of(urls: &[String]) -> Self {
        let db = testkit::database().await;
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let limiters: Vec<_> =
            urls.iter().enumerate().map(|(at, url)| limiter(&db.pool, url, at, &tasks)).collect();
        for limiter in &limiters {
            let (limiter, cancel) = (limiter.clone(), cancel.clone());
            tasks.spawn(async move { limiter.run(cancel).await });
        }
        Self { db, tasks, limiters, cancel }
    }

    /// Waits until every process says that this engine admits.
    async fn settle_on(&self, mode: Mode) {
        let until = Instant::now() + PATIENCE;
        loop {
            let all = self.limiters.iter().map(Limiter::standing);
            if all.flatten().filter(|s| s.mode == mode && s.ready).count() == self.limiters.len() {
                return;
            }
            let standing: Vec<_> = self.limiters.iter().map(Limiter::standing).collect();
            assert!(Instant::now() < until, "not {mode:?} within {PATIENCE:?}: {standing:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Puts calls to all processes at the same time; gives back the holds. Calls without a verdict are not admitted.
    async fn put(&self, call: &Ask, calls: usize) -> Vec<Hold> {
        let mut asked = JoinSet::new();
        for number in 0..calls {
            let limiter = self.limiters[number % self.limiters.len()].clone();
            let ask = again(call);
            asked.spawn(async move { limiter.admit(&ask).await });
        }
        let verdicts = asked.join_all().await.into_iter();
        verdicts
            .filter_map(|verdict| match verdict {
                Ok(Verdict::Admit(hold)) => Some(hold),
                Ok(Verdict::Refuse(_)) | Err(_) => None,
            })
            .collect()
    }

    async fn held(&self, call: &Ask) -> (i64, i64) {
        let limiter = &self.limiters[0];
        let readings =
            limiter.readings(call.tenant_id, &call.zone, &call.meters, None).await.unwrap();
        (readings[0].used, readings[0].held)
    }

    /// Ends the calls, each with 90 of the 100 it holds, and says what the meter then says.
    async fn finish(&self, call: &Ask, holds: &[Hold]) -> (i64, i64) {
        let ledger = ledger::Ledger::start(self.db.another_pool(), &self.tasks, Default::default());
        for hold in holds {
            ledger.append(event(hold, 1, 90)).await.unwrap();
            let actual = Actual { tokens: 1, charge: Nanos(90) };
            self.limiters[0].settle(hold, &actual, None).await.unwrap();
        }
        self.held(call).await
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn limiter(pool: &PgPool, url: &str, at: usize, tasks: &TaskTracker) -> Limiter {
    let config = RedisConfig { url: url.to_owned(), prefix: "weir".to_owned(), deadline: DEADLINE };
    Limiter::new(Parts {
        pool: pool.clone(),
        postgres: PostgresEngine::new(pool.clone(), tasks.clone()),
        redis: Some(RedisEngine::new(&config, pool, tasks.clone()).unwrap()),
        replica_id: format!("replica-{at}"),
        without_books: Duration::from_secs(30),
        tasks: tasks.clone(),
    })
}

/// A call of which ten fit, by the store's own clock.
fn call() -> Ask {
    Ask { now: None, ..ask(1, &[month(1_000, 0)], 1, 100) }
}

async fn three_on(server: &Server) -> Fleet {
    Fleet::of(&[server.url(), server.url(), server.url()]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_pass_over_three_processes_and_all_comes_back() {
    let server = Server::running();
    let fleet = three_on(&server).await;
    fleet.settle_on(Mode::Redis).await;
    let holds = fleet.put(&call(), 300).await;
    assert_eq!(holds.len(), 10);
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    assert_eq!(fleet.put(&call(), 30).await.len(), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_redis_postgres_admits_and_redis_takes_over_when_it_comes() {
    let mut server = Server::absent();
    let fleet = three_on(&server).await;
    fleet.settle_on(Mode::Postgres).await;
    assert!(fleet.limiters[0].standing().unwrap().degraded);
    let mut holds = fleet.put(&call(), 4).await;
    server.start();
    // Calls go on while it changes hands.
    while fleet.limiters[0].standing().unwrap().mode == Mode::Postgres {
        holds.extend(fleet.put(&call(), 3).await);
    }
    fleet.settle_on(Mode::Redis).await;
    holds.extend(fleet.put(&call(), 100).await);
    assert_eq!(holds.len(), 10);
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_dies_takes_no_hold_with_it_and_is_used_again() {
    let mut server = Server::running();
    let fleet = three_on(&server).await;
    fleet.settle_on(Mode::Redis).await;
    let mut holds = fleet.put(&call(), 4).await;
    server.kill();
    holds.extend(fleet.put(&call(), 3).await);
    assert_eq!(holds.len(), 7, "calls wait for the change and pass");
    fleet.settle_on(Mode::Postgres).await;
    holds.extend(fleet.put(&call(), 60).await);
    assert_eq!(holds.len(), 10);
    assert_eq!(fleet.held(&call()).await, (0, 1_000));
    server.start();
    fleet.settle_on(Mode::Redis).await;
    assert_eq!(fleet.put(&call(), 60).await.len(), 0);
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_forgets_everything_admits_nobody_twice() {
    let server = Server::running();
    let fleet = three_on(&server).await;
    fleet.settle_on(Mode::Redis).await;
    let mut holds = fleet.put(&call(), 6).await;
    for _ in 0..5 {
        server.command(&["FLUSHALL"]);
        holds.extend(fleet.put(&call(), 30).await);
        assert_eq!(holds.len(), 10);
    }
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_that_is_lost_or_spoilt_is_unknown_and_not_empty() {
    let server = Server::running();
    let fleet = three_on(&server).await;
    fleet.settle_on(Mode::Redis).await;
    let mut holds = fleet.put(&call(), 6).await;
    let spoil: [&[&str]; 4] = [
        &["DEL", "weir:1:{1}:counters"],
        &["DEL", "weir:1:{1}:holds"],
        &["DEL", "weir:1:{1}:expiry"],
        &["SET", "weir:1:{1}:counters", "spoilt"],
    ];
    for words in spoil {
        server.command(words);
        holds.extend(fleet.put(&call(), 30).await);
        assert_eq!(holds.len(), 10, "after {words:?}");
    }
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_hangs_is_left_and_what_it_did_late_counts_for_nothing() {
    let server = Server::running();
    let fleet = three_on(&server).await;
    fleet.settle_on(Mode::Redis).await;
    let mut holds = fleet.put(&call(), 4).await;
    server.signal("-STOP");
    holds.extend(fleet.put(&call(), 60).await);
    assert_eq!(holds.len(), 10);
    server.signal("-CONT");
    fleet.settle_on(Mode::Redis).await;
    assert_eq!(fleet.put(&call(), 60).await.len(), 0);
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_process_that_cannot_reach_redis_takes_all_to_postgres() {
    let (server, nothing) = (Server::running(), Server::absent());
    let fleet = Fleet::of(&[server.url(), server.url(), nothing.url()]).await;
    let holds = fleet.put(&call(), 300).await;
    assert_eq!(holds.len(), 10);
    fleet.settle_on(Mode::Postgres).await;
    assert_eq!(fleet.held(&call()).await, (0, 1_000));
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_that_are_cut_cost_no_verdict() {
    let server = Server::running();
    let fleet = three_on(&server).await;
    fleet.settle_on(Mode::Redis).await;
    let mut holds = Vec::new();
    for _ in 0..10 {
        server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        holds.extend(fleet.put(&call(), 1).await);
    }
    assert_eq!(holds.len(), 10);
    assert_eq!(fleet.put(&call(), 10).await.len(), 0);
    assert_eq!(fleet.finish(&call(), &holds).await, (900, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_may_throw_keys_away_is_no_engine() {
    let server = Server::running();
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let fleet = three_on(&server).await;
    assert_eq!(fleet.put(&call(), 30).await.len(), 10);
    fleet.settle_on(Mode::Postgres).await;
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    fleet.settle_on(Mode::Redis).await;
    assert_eq!(fleet.put(&call(), 30).await.len(), 0);
    fleet.stop().await;
}

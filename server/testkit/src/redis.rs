//! A part of the shared Redis server for one test.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::environment::server_url;

/// How many keys are asked for at once when a test's keys are removed.
const SCAN_BATCH: usize = 500;

static NAMESPACES: AtomicU32 = AtomicU32::new(0);

/// A key prefix of its own on the shared Redis server. When the test passes, its keys are removed.
#[derive(Debug)]
pub struct TestRedis {
    /// Where the server is.
    pub url: String,
    /// What every key of this test begins with.
    pub prefix: String,
}

/// Gives the test a key prefix that no other test has, now or later.
///
/// # Panics
/// When neither `WEIR_TEST_REDIS_URL` nor `REDIS_URL` says where Redis is, or when it does not answer.
#[must_use]
pub fn redis() -> TestRedis {
    let url = server_url("Redis", ["WEIR_TEST_REDIS_URL", "REDIS_URL"]);
    // The server's clock and counter: unique among processes without a clock of our own.
    let mut connection = connect(&url);
    let (seconds, micros): (u64, u64) = ::redis::cmd("TIME")
        .query(&mut connection)
        .unwrap_or_else(|e| panic!("the Redis server for the tests does not tell its time: {e}"));
    let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    TestRedis { url, prefix: format!("t{seconds}-{micros}-{process}-{number}:") }
}

impl TestRedis {
    /// A client of the server.
    ///
    /// # Panics
    /// When the URL is not one of a Redis server.
    #[must_use]
    pub fn client(&self) -> ::redis::Client {
        client(&self.url)
    }

    fn remove_keys(&self) -> ::redis::RedisResult<()> {
        let mut connection = self.client().get_connection()?;
        let pattern = format!("{}*", self.prefix);
        let mut cursor: u64 = 0;
        loop {
            let (next, keys): (u64, Vec<String>) = ::redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(&pattern)
                .arg("COUNT")
                .arg(SCAN_BATCH)
                .query(&mut connection)?;
            if !keys.is_empty() {
                ::redis::cmd("DEL").arg(keys).exec(&mut connection)?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

fn client(url: &str) -> ::redis::Client {
    ::redis::Client::open(url)
        .unwrap_or_else(|e| panic!("the URL of the Redis server for the tests is none: {e}"))
}

fn connect(url: &str) -> ::redis::Connection {
    client(url)
        .get_connection()
        .unwrap_or_else(|e| panic!("the Redis server for the tests does not answer: {e}"))
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the test failed: its Redis keys are kept under {}*", self.prefix);
        } else if let Err(error) = self.remove_keys() {
            eprintln!("the Redis keys {}* are left behind: {error}", self.prefix);
        }
    }
}

//! A part of the shared Redis server for one test.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::environment::server_url;

/// How many keys are asked for at once when a test's keys are removed.
const SCAN_BATCH: usize = 500;

static NAMESPACES: AtomicU32 = AtomicU32::new(0);

/// How the address of a cluster begins; its nodes follow, with commas between them.
const CLUSTER: &str = "redis-cluster://";

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
    namespace(server_url("Redis", ["WEIR_TEST_REDIS_URL", "REDIS_URL"]))
}

/// The same on the shared Redis Cluster of three nodes.
///
/// # Panics
/// When `WEIR_TEST_REDIS_CLUSTER_URL` does not say where it is, or when it does not answer.
#[must_use]
pub fn redis_cluster() -> TestRedis {
    let name = "WEIR_TEST_REDIS_CLUSTER_URL";
    namespace(server_url("Redis Cluster", [name, name]))
}

fn namespace(url: String) -> TestRedis {
    // The server's clock and counter: unique among processes without a clock of our own.
    let node = nodes(&url).remove(0);
    let mut connection = connect(&node);
    let (seconds, micros): (u64, u64) = ::redis::cmd("TIME")
        .query(&mut connection)
        .unwrap_or_else(|e| panic!("the Redis server for the tests does not tell its time: {e}"));
    let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    TestRedis { url, prefix: format!("t{seconds}-{micros}-{process}-{number}:") }
}

/// The address of each node.
fn nodes(url: &str) -> Vec<String> {
    match url.strip_prefix(CLUSTER) {
        Some(nodes) => nodes.split(',').map(|node| format!("redis://{node}")).collect(),
        None => vec![url.to_owned()],
    }
}

impl TestRedis {
    /// Everything that the test's keys hold, in an order of its own.
    ///
    /// # Panics
    /// When the server does not answer.
    #[must_use]
    pub fn dump(&self) -> Vec<String> {
        let mut all = Vec::new();
        for node in nodes(&self.url) {
            let mut connection = connect(&node);
            self.each_batch(&mut connection, |connection, keys| {
                for key in keys {
                    let kind: String = ::redis::cmd("TYPE").arg(&key).query(connection)?;
                    let (read, all_of_it): (&str, &[&str]) = match kind.as_str() {
                        "hash" => ("HGETALL", &[]),
                        "zset" => ("ZRANGE", &["0", "-1", "WITHSCORES"]),
                        _ => ("GET", &[]),
                    };
                    let value: ::redis::Value =
                        ::redis::cmd(read).arg(&key).arg(all_of_it).query(connection)?;
                    let mut parts = vec![format!("{value:?}")];
                    if let ::redis::Value::Array(values) = &value {
                        parts = values.chunks(2).map(|pair| format!("{pair:?}")).collect();
                    }
                    all.extend(parts.into_iter().map(|part| format!("{key} {part}")));
                }
                Ok(())
            })
            .unwrap_or_else(|e| panic!("the Redis keys of the test cannot be read: {e}"));
        }
        all.sort();
        all
    }

    /// Deletes everything that the test's keys hold, as a server does that lost its memory.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn forget(&self) {
        self.remove_keys().unwrap_or_else(|e| panic!("the Redis keys cannot be removed: {e}"));
    }

    /// A client of the server; of a cluster, of its first node.
    ///
    /// # Panics
    /// When the URL is not one of a Redis server.
    #[must_use]
    pub fn client(&self) -> ::redis::Client {
        client(&nodes(&self.url).remove(0))
    }

    fn remove_keys(&self) -> ::redis::RedisResult<()> {
        for node in nodes(&self.url) {
            let mut connection = client(&node).get_connection()?;
            self.each_batch(&mut connection, |connection, keys| {
                // One by one: a node of a cluster takes no command on keys of several slots.
                keys.iter().try_for_each(|key| ::redis::cmd("DEL").arg(key).exec(connection))
            })?;
        }
        Ok(())
    }

    fn each_batch(
        &self,
        connection: &mut ::redis::Connection,
        mut take: impl FnMut(&mut ::redis::Connection, Vec<String>) -> ::redis::RedisResult<()>,
    ) -> ::redis::RedisResult<()> {
        let pattern = format!("{}*", self.prefix);
        let mut cursor: u64 = 0;
        loop {
            let (next, keys): (u64, Vec<String>) = ::redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(&pattern)
                .arg("COUNT")
                .arg(SCAN_BATCH)
                .query(connection)?;
            take(connection, keys)?;
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

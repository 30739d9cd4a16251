//! The way to Redis: one server or a cluster, with a deadline on everything.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::{Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use domain::window::UnixMs;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::reply::Reply;
use super::scripts::Script;
use super::shard::Shard;
use crate::admission::LimiterError;

/// How long a connection may take to be made. Making one is not on the way of a call that has a deadline.
const CONNECT: Duration = Duration::from_secs(1);
/// How often the driver tries to connect for one command: once, since the next command tries again.
const CONNECT_RETRIES: usize = 1;
/// How many commands may be on their way on the one connection, which all calls of a process share.
const PIPELINE: usize = 1_024;
/// How long the probe may take: it is on nobody's way, and a slow answer is still an answer.
const PROBE: Duration = Duration::from_secs(1);
/// The version of what the keys hold. Another version has other keys, so that two of them can run side by side.
const SCHEMA: u32 = 1;

/// Where Redis is, and how long it may take.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://`, `rediss://`, or `redis-cluster://` with commas between the nodes. May hold a password.
    pub url: String,
    /// What every key begins with.
    pub prefix: String,
    /// How long one script may take before there is no verdict.
    pub deadline: Duration,
}

impl std::fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConfig").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// The address is none of a Redis server. The address itself is not told: it may hold a password.
#[derive(Debug, thiserror::Error)]
#[error("the address of Redis cannot be used: {0}")]
pub struct RedisUrlError(String);

#[derive(Clone)]
enum Way {
    Single(ConnectionManager),
    Cluster { client: Box<ClusterClient>, connection: Arc<Mutex<Option<ClusterConnection>>> },
}

/// Redis, as the engine uses it. Clones share the connection.
#[derive(Clone)]
pub(super) struct Store {
    way: Way,
    prefix: Arc<str>,
    deadline: Duration,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn new(config: &RedisConfig) -> Result<Self, RedisUrlError> {
        let refused = |error: RedisError| RedisUrlError(error.category().to_owned());
        let way = if let Some((scheme, nodes)) = cluster_nodes(&config.url) {
            let urls = nodes.iter().map(|node| format!("{scheme}://{node}"));
            let client = ClusterClientBuilder::new(urls)
                .connection_timeout(CONNECT)
                .response_timeout(config.deadline)
                .retries(2)
                .build()
                .map_err(refused)?;
            Way::Cluster { client: Box::new(client), connection: Arc::default() }
        } else {
            let client = Client::open(config.url.as_str()).map_err(refused)?;
            let settings = ConnectionManagerConfig::new()
                .set_connection_timeout(Some(CONNECT))
                .set_response_timeout(Some(config.deadline))
                .set_number_of_retries(CONNECT_RETRIES)
                .set_pipeline_buffer_size(PIPELINE);
            Way::Single(ConnectionManager::new_lazy_with_config(client, settings).map_err(refused)?)
        };
        Ok(Self { way, prefix: config.prefix.as_str().into(), deadline: config.deadline })
    }

    /// Runs a script on the keys of a shard. Running it again is safe, so a connection that broke is tried once more.
    pub(super) async fn eval(
        &self,
        script: &Script,
        shard: &Shard,
        arguments: &[Vec<u8>],
    ) -> Result<Reply, LimiterError> {
        let command = self.script(&["EVALSHA", &script.sha], shard, arguments);
        let answer = match self.send(&command).await {
            Err(error) if is_missing_script(&error) => {
                // The server has forgotten it, as after a restart: the source teaches it again.
                self.send(&self.script(&["EVAL", &script.source], shard, arguments)).await
            }
            Err(error) if error.is_connection_dropped() => self.send(&command).await,
            other => other,
        };
        match answer {
            Ok(value) => Reply::new(value),
            // Keys of another type, or a hold that cannot be unpacked: what was there is lost.
            Err(error) if is_spoilt(&error) => Ok(Reply::cold()),
            Err(error) => Err(LimiterError::Unavailable(Box::new(error))),
        }
    }

    fn script(&self, verb: &[&str; 2], shard: &Shard, arguments: &[Vec<u8>]) -> Cmd {
        let mut command = Cmd::new();
        command.arg(verb[0]).arg(verb[1]).arg(3);
        for part in ["counters", "holds", "expiry"] {
            command.arg(self.key(shard, part));
        }
        for argument in arguments {
            command.arg(argument.as_slice());
        }
        command
    }

    /// The key of a part of a shard. What is in braces decides where a cluster keeps it: all parts together.
    fn key(&self, shard: &Shard, part: &str) -> String {
        format!("{}:{SCHEMA}:{{{}}}:{part}", self.prefix, shard.tag())
    }

    /// What live calls of a shard hold, under this epoch.
    pub(super) async fn charge_held(&self, shard: &Shard, epoch: i64) -> Result<i64, LimiterError> {
        let mut command = ::redis::cmd("HMGET");
        command.arg(self.key(shard, "counters")).arg(&["epoch", "charge"][..]);
        let value = self.send(&command).await.map_err(unavailable)?;
        let (its, charge): (Option<i64>, Option<i64>) =
            ::redis::from_redis_value(value).map_err(|error| unavailable(error.into()))?;
        Ok(if its == Some(epoch) { charge.unwrap_or(0) } else { 0 })
    }

    /// The store's clock.
    pub(super) async fn time(&self) -> Result<UnixMs, LimiterError> {
        let value = self.send(&::redis::cmd("TIME")).await.map_err(unavailable)?;
        let (seconds, micros): (i64, i64) =
            ::redis::from_redis_value(value).map_err(|error| unavailable(error.into()))?;
        Ok(UnixMs(seconds.saturating_mul(1_000).saturating_add(micros / 1_000)))
    }

    /// Whether the server answers and keeps what it is given.
    pub(super) async fn probe(&self) -> Result<(), LimiterError> {
        let mut command = ::redis::cmd("INFO");
        command.arg("memory");
        let asked = timeout(PROBE, self.send(&command)).await;
        let value =
            asked.map_err(|_| LimiterError::unavailable("no answer"))?.map_err(unavailable)?;
        match policy(&value) {
            Some(policy) if policy == "noeviction" => {}
            Some(policy) => {
                let said = format!("maxmemory-policy is {policy}: only noeviction keeps counters");
                return Err(LimiterError::unavailable(said));
            }
            None => {
                return Err(LimiterError::unavailable(
                    "the server does not tell its maxmemory-policy",
                ));
            }
        }
        // A real script on a shard that nobody has: a server that answers INFO may still refuse scripts.
        let command = super::wire::nothing_expired(-1);
        self.eval(&super::scripts::EXPIRED, &Shard::Probe, &command).await.map(drop)
    }

    /// Sends a command, to an answer or the deadline.
    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match &self.way {
            Way::Single(manager) => {
                let mut manager = manager.clone();
                self.in_time(manager.req_packed_command(command)).await
            }
            Way::Cluster { client, connection } => {
                // The lock is kept while a connection is made: all others wait for that one.
                let mut place = connection.lock().await;
                let mut known = match &*place {
                    Some(known) => known.clone(),
                    None => {
                        let made = timeout(CONNECT, client.get_async_connection()).await;
                        place.insert(made.map_err(|_| late())??).clone()
                    }
                };
                drop(place);
                let answer = self.in_time(known.req_packed_command(command)).await;
                if answer
                    .as_ref()
                    .is_err_and(|error| error.is_io_error() || error.is_cluster_error())
                {
                    // The nodes may have moved: the next command looks for them anew.
                    *connection.lock().await = None;
                }
                answer
            }
        }
    }

    /// The driver's own time-out does not cover the wait for a connection.
    async fn in_time(
        &self,
        answer: impl Future<Output = RedisResult<Value>>,
    ) -> RedisResult<Value> {
        let answer = timeout(self.deadline, answer).await.unwrap_or_else(|_| Err(late()));
        // An error of the server comes as a value.
        answer.and_then(Value::extract_error)
    }
}

fn late() -> RedisError {
    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
}

fn unavailable(error: RedisError) -> LimiterError {
    LimiterError::Unavailable(Box::new(error))
}

fn is_missing_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether a script stumbled over what the keys hold. Its own complaints are the caller's fault or the clock's.
fn is_spoilt(error: &RedisError) -> bool {
    let text = error.to_string();
    error.code() == Some("WRONGTYPE")
        || (text.contains("user_script") && !text.contains("WEIR_") && !text.contains("OOM "))
        || text.contains("WRONGTYPE")
}

/// The scheme for each node, and the nodes, of a cluster's address.
fn cluster_nodes(url: &str) -> Option<(&'static str, Vec<&str>)> {
    let (scheme, rest) = if let Some(rest) = url.strip_prefix("redis-cluster://") {
        ("redis", rest)
    } else {
        ("rediss", url.strip_prefix("rediss-cluster://")?)
    };
    // Name and password stand once, in front of the first node.
    Some((scheme, rest.split(',').collect()))
}

/// The policy, from the text of INFO; of a cluster, from each node's: one that throws keys away is enough.
fn policy(value: &Value) -> Option<String> {
    let read = |text: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix("maxmemory_policy:").map(|p| p.trim().to_owned()))
    };
    match value {
        Value::BulkString(bytes) => read(std::str::from_utf8(bytes).ok()?),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => read(text),
        Value::Map(nodes) => {
            let policies: Option<Vec<String>> =
                nodes.iter().map(|(_, text)| policy(text)).collect();
            policies?.into_iter().max_by_key(|policy| policy != "noeviction")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clusters_address_names_its_nodes() {
        let (scheme, nodes) = cluster_nodes("redis-cluster://u:p@a:1,b:2").unwrap();
        assert_eq!((scheme, nodes), ("redis", vec!["u:p@a:1", "b:2"]));
        assert!(cluster_nodes("redis://a:1").is_none());
        assert_eq!(cluster_nodes("rediss-cluster://a:1").unwrap().0, "rediss");
    }

    #[test]
    fn one_node_that_throws_keys_away_is_enough() {
        let info = |policy: &str| {
            Value::BulkString(format!("a:1\r\nmaxmemory_policy:{policy}\r\n").into())
        };
        assert_eq!(policy(&info("noeviction")).as_deref(), Some("noeviction"));
        let nodes = ["noeviction", "allkeys-lru", "noeviction"];
        let nodes = nodes.map(|p| (Value::SimpleString("node".to_owned()), info(p)));
        assert_eq!(policy(&Value::Map(nodes.to_vec())).as_deref(), Some("allkeys-lru"));
        assert_eq!(policy(&Value::Nil), None);
    }

    #[test]
    fn the_address_is_in_no_debug_output_and_in_no_error() {
        let url = "redis://user:secret@host:port".to_owned();
        let config =
            RedisConfig { url, prefix: "weir".to_owned(), deadline: Duration::from_millis(50) };
        assert!(!format!("{config:?}").contains("secret"));
        let refused = Store::new(&config).unwrap_err();
        assert!(!format!("{refused:?} {refused}").contains("secret"));
    }
}

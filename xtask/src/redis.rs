//! Redis for one run of the tests: a server, and a cluster of three.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command::on_path;

/// Redis is ready in a twentieth of a second, a cluster in two; this is for a machine that swaps.
const WAIT: Duration = Duration::from_secs(30);
/// How often a waiting loop looks again.
const POLL: Duration = Duration::from_millis(20);
/// How many nodes a cluster has at least.
const NODES: usize = 3;
/// How many slots the keys of a cluster are spread over.
const SLOTS: usize = 16_384;
/// The nodes of a cluster talk to each other on their port and this.
const BUS: u16 = 10_000;
/// How often a port is looked for whose bus port is free as well.
const PORT_TRIES: usize = 200;
/// The most that is read of one answer: they are all short.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A server that keeps nothing. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Redis {
    child: Child,
    pub(crate) program: PathBuf,
    pub(crate) port: u16,
}

impl Redis {
    /// Starts a server.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Self::on(program, folder, port, &[])
    }

    fn on(program: &Path, folder: &Path, port: u16, more: &[&str]) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let log = folder.join("redis.log");
        let file = File::create(&log)?;
        let mut command = match on_path("setpriv") {
            // Ended by the system even when this process is killed.
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(folder);
        command.args(["--save", "", "--appendonly", "no"]).args(more);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        let mut redis = Self { child, program: program.to_owned(), port };
        let started = Instant::now();
        while !redis.says(&["PING"]).is_ok_and(|answer| answer.contains("PONG")) {
            if redis.child.try_wait()?.is_some() || started.elapsed() > WAIT {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!("Redis did not start: {}", said.lines().last().unwrap_or("it said nothing"));
            }
            thread::sleep(POLL);
        }
        Ok(redis)
    }

    /// The answer to a command, as it comes.
    fn says(&self, words: &[&str]) -> io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
        stream.set_read_timeout(Some(WAIT))?;
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(command.as_bytes())?;
        let mut answer = vec![0; ANSWER_BYTES_MAX];
        let mut read = 0;
        while !answer[..read].ends_with(b"\r\n") && read < answer.len() {
            match stream.read(&mut answer[read..])? {
                0 => break,
                some => read += some,
            }
        }
        Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
    }

    fn must(&self, words: &[&str]) -> Result<()> {
        let answer = self.says(words)?;
        if answer.starts_with('-') {
            bail!("Redis refused {}: {}", words[..2].join(" "), answer.trim());
        }
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It keeps nothing, so there is nothing to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three servers that share the keys.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts the nodes, gives each its third of the slots, and waits until they agree.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self> {
        let mut nodes = Vec::with_capacity(NODES);
        for number in 0..NODES {
            let folder = folder.join(number.to_string());
            nodes.push(Redis::on(
                program,
                &folder,
                port_with_bus()?,
                &["--cluster-enabled", "yes"],
            )?);
        }
        for (number, node) in nodes.iter().enumerate() {
            let slots = number * SLOTS / NODES..(number + 1) * SLOTS / NODES;
            let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
            node.must(&words.collect::<Vec<_>>())?;
            node.must(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            nodes[0].must(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()])?;
        }
        let started = Instant::now();
        let all = format!("cluster_known_nodes:{NODES}");
        let agree = |node: &Redis| {
            let info = node.says(&["CLUSTER", "INFO"]).unwrap_or_default();
            info.contains("cluster_state:ok") && info.contains(&all)
        };
        while !nodes.iter().all(agree) {
            if started.elapsed() > WAIT {
                bail!("the nodes of the Redis Cluster do not find each other");
            }
            thread::sleep(POLL);
        }
        Ok(Self { nodes })
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        let nodes: Vec<_> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis-cluster://{}", nodes.join(","))
    }
}

/// A free port whose bus port is free as well.
fn port_with_bus() -> Result<u16> {
    for _ in 0..PORT_TRIES {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        // Half of the system's ports have no port that far above them: then one below stands in.
        let port = port.checked_sub(BUS * 2).filter(|port| *port > 1_024).unwrap_or(port);
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if port.checked_add(BUS).is_some_and(is_free) && is_free(port) {
            return Ok(port);
        }
    }
    bail!("no free port for a node of the Redis Cluster")
}

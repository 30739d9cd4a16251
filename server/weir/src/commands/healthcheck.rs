//! `weir healthcheck`: the exit code for a container's health.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::{Config, Environment, Flags};
use crate::failure::Failure;

/// A process that takes longer to say that it is ready is not.
const WAIT: Duration = Duration::from_secs(3);
/// The status line is in the first bytes; no more is read.
const ANSWER_BYTES_MAX: u64 = 64;

/// What `healthcheck` takes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir healthcheck   (exit code 0 when ready, 1 when not)")]
pub(crate) struct HealthcheckArgs {
    #[command(flatten)]
    flags: Flags,
}

/// Asks `/readyz` of the process that has these settings.
pub(crate) async fn run(args: HealthcheckArgs, environment: &Environment) -> Result<(), Failure> {
    let mut address = Config::load(&args.flags, environment)?.bind;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let asked = tokio::time::timeout(WAIT, ask(address)).await;
    asked.context("no answer in time").and_then(|answer| answer).map_err(Failure::Failed)
}

async fn ask(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("nothing listens on {address}"))?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        let line = String::from_utf8_lossy(&answer);
        bail!("not ready: {}", line.lines().next().unwrap_or_default());
    }
    Ok(())
}

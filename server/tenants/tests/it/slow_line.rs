//! A line to the database on which answers can be held back.

use std::str::FromStr;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// One connection through a relay of our own.
pub(crate) struct SlowLine {
    pub(crate) pool: PgPool,
    hold: watch::Sender<bool>,
    held: watch::Receiver<bool>,
    _tasks: TaskTracker,
}

impl SlowLine {
    pub(crate) async fn to(url: &str) -> Self {
        let direct = PgConnectOptions::from_str(url).unwrap();
        let server = (direct.get_host().to_owned(), direct.get_port());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (hold, holding) = watch::channel(false);
        let (tell, held) = watch::channel(false);
        let tasks = TaskTracker::new();
        tasks.spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(server).await.unwrap();
            relay(client, server, holding, tell).await;
        });
        // Nothing but the query itself may go over the line while it is held.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .connect_with(direct.host("127.0.0.1").port(port))
            .await
            .unwrap();
        Self { pool, hold, held, _tasks: tasks }
    }

    /// From now on answers stay on the line.
    pub(crate) fn hold_back(&self) {
        self.hold.send_replace(true);
    }

    /// Waits until an answer is being held back: the database has read what it says.
    pub(crate) async fn answered(&mut self) {
        self.held.wait_for(|held| *held).await.unwrap();
    }

    /// Lets the answers go on.
    pub(crate) fn let_go(&self) {
        self.hold.send_replace(false);
    }
}

async fn relay(
    client: TcpStream,
    server: TcpStream,
    mut holding: watch::Receiver<bool>,
    tell: watch::Sender<bool>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let questions = async { copy(&mut from_client, &mut to_server).await.map(drop) };
    let answers = async {
        let mut bytes = vec![0; 16 * 1_024];
        loop {
            let length = from_server.read(&mut bytes).await?;
            if length == 0 {
                return Ok::<(), std::io::Error>(());
            }
            if *holding.borrow() {
                tell.send_replace(true);
            }
            if holding.wait_for(|hold| !*hold).await.is_err() {
                return Ok(());
            }
            to_client.write_all(&bytes[..length]).await?;
        }
    };
    // Whichever side hangs up first ends the line.
    tokio::select! { _ = questions => {}, _ = answers => {} }
}

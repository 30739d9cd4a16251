//! A line between two programs on loopback, that can go dead and can lose an answer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How much is carried at once.
const PIECE_BYTES: usize = 16 * 1024;
/// How PostgreSQL tells a client that its transaction is committed.
const COMMITTED: &[u8] = b"COMMIT\0";

/// How the line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All passes.
    Open,
    /// Connections stay and nothing passes, as where a cable is pulled.
    Silent,
    /// Connections are closed, and new ones too.
    Cut,
}

/// A listener that carries what it gets to another port. Dropping it closes all.
#[derive(Debug)]
pub(crate) struct Line {
    address: SocketAddr,
    ends: Arc<Ends>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Ends {
    /// The port on the far side.
    port: AtomicU16,
    way: watch::Sender<Way>,
    /// Of so many answers to a commit one is lost; none when it is 0.
    lose_one_in: AtomicU64,
    commits: AtomicU64,
    lost: AtomicU64,
}

impl Line {
    /// A line to `port`.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(Ends {
            port: AtomicU16::new(port),
            way: watch::Sender::new(Way::Open),
            lose_one_in: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, Arc::clone(&ends)));
        Self { address, ends, _tasks: tasks }
    }

    /// Where programs find it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads elsewhere from now on.
    pub(crate) fn lead_to(&self, port: u16) {
        self.ends.port.store(port, Ordering::SeqCst);
    }

    pub(crate) fn set(&self, way: Way) {
        self.ends.way.send_replace(way);
    }

    /// Loses the answer to one in so many commits, and the connection with it. 0 ends that.
    pub(crate) fn lose_commits(&self, one_in: u64) {
        self.ends.lose_one_in.store(one_in, Ordering::SeqCst);
    }

    /// How many answers to commits were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.ends.lost.load(Ordering::SeqCst)
    }
}

async fn listen(listener: TcpListener, ends: Arc<Ends>) {
    let mut carried = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        carried.spawn(carry(near, Arc::clone(&ends)));
        while carried.try_join_next().is_some() {}
    }
}

async fn carry(near: TcpStream, ends: Arc<Ends>) {
    let mut way = ends.way.subscribe();
    if *way.borrow_and_update() == Way::Cut {
        return;
    }
    let port = ends.port.load(Ordering::SeqCst);
    // Where nobody listens the connection is closed, as it would be without a line between.
    let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    tokio::select! {
        // An end or an error on one side is an end on both.
        _ = pass(near_in, far_out, &ends, false) => {}
        _ = pass(far_in, near_out, &ends, true) => {}
        _ = way.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    ends: &Ends,
    is_answer: bool,
) -> io::Result<()> {
    let mut way = ends.way.subscribe();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 || (is_answer && ends.loses(&piece[..read])) {
            return Ok(());
        }
        // What was sent into a dead cable comes through once it is whole again.
        if way.wait_for(|way| *way != Way::Silent).await.is_err() {
            return Ok(());
        }
        to.write_all(&piece[..read]).await?;
    }
}

impl Ends {
    fn loses(&self, answer: &[u8]) -> bool {
        let one_in = self.lose_one_in.load(Ordering::SeqCst);
        if one_in == 0 || !answer.windows(COMMITTED.len()).any(|bytes| bytes == COMMITTED) {
            return false;
        }
        let loses = self.commits.fetch_add(1, Ordering::SeqCst) % one_in == one_in - 1;
        self.lost.fetch_add(u64::from(loses), Ordering::SeqCst);
        loses
    }
}

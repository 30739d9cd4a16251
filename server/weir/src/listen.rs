//! The accept loop: every connection is bounded in time, number and size.
//!
//! Not `axum::serve`: that one has no timer, so a half-sent header would hold its connection for
//! ever, and it leaves Nagle's algorithm on, which delays the small frames of streams.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many connections are open at once. Ten thousand streams and as many again that wait; one
/// costs some 10 kB.
pub const CONNECTIONS_MAX: usize = 20_000;
/// How many open files are left for all else: the database, the log, connections to providers that
/// idle.
const FILES_RESERVED: u64 = 500;
/// How long a new connection may take to send its first header: a slow phone needs two seconds.
pub const FIRST_HEAD: Duration = Duration::from_secs(10);
/// How large a header may be, and how much of a body is read ahead of the handler.
const BUFFER_BYTES: usize = 64 * 1024;
/// How large all headers of a request may be in HTTP/2, decompressed.
const HTTP2_HEADER_BYTES: u32 = 32 * 1024;
/// How many requests one HTTP/2 connection may have open: twice the burst of a busy SDK's pool.
const HTTP2_STREAMS: u32 = 200;
/// How many reset streams may wait to be accepted: "rapid reset" ends the connection.
const HTTP2_RESETS_PENDING: usize = 20;
/// How often a silent HTTP/2 peer is asked whether it is there, and how long it may take to say so.
const HTTP2_PING: Duration = Duration::from_secs(20);
/// The pause after a failed accept: usually out of file handles, which only time gives back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long the first header may take.
    pub first_head: Duration,
    /// How long a connection may be silent between two requests, and how long each later header
    /// may take.
    pub keep_alive: Duration,
    /// How many connections in all.
    pub connections: usize,
    /// How many from one address.
    pub per_address: usize,
}

impl Limits {
    /// The limits of a public listener, in a process that may have so many files open.
    ///
    /// One address gets half of the connections: no single one can take all, and a reverse proxy
    /// in front still gets through.
    #[must_use]
    pub fn public(keep_alive: Duration, open_files: u64) -> Self {
        // A call needs a second one, to its provider.
        let affordable = open_files.saturating_sub(FILES_RESERVED) / 2;
        let affordable = usize::try_from(affordable).unwrap_or(usize::MAX);
        let connections = affordable.clamp(1, CONNECTIONS_MAX);
        let per_address = connections.div_ceil(2);
        Self { first_head: FIRST_HEAD, keep_alive, connections, per_address }
    }
}

/// Raises the number of files that this process may open to the most it may raise it to, and says
/// how many that is.
#[must_use]
pub fn raise_open_files() -> u64 {
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1_024 };
    match setrlimit(Resource::RLIMIT_NOFILE, most, most) {
        Ok(()) => most,
        Err(_) => now,
    }
}

/// What answers the requests of all connections.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Answers one request of `peer`.
    fn handle(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// How a listener is ended: first softly, then hard.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// No new connections, no further requests on the old ones.
    pub soft: CancellationToken,
    /// Whatever is still open is closed.
    pub hard: CancellationToken,
}

/// Accepts connections until `stop.soft`, and returns when all of them have ended: by themselves,
/// or at `stop.hard`.
pub async fn serve(listener: TcpListener, handler: impl Handler, limits: Limits, stop: Stop) {
    let connections = TaskTracker::new();
    let seats = Arc::new(Semaphore::new(limits.connections));
    let addresses = Arc::new(Addresses::default());
    let builder = Arc::new(builder(limits));
    while let Some((stream, peer, seat)) = next(&listener, &seats, &stop.soft).await {
        let Some(place) = addresses.enter(peer.ip(), limits.per_address) else {
            metrics::counter!("weir_connections_refused_total").increment(1);
            continue;
        };
        if let Err(error) = prepare(&stream) {
            tracing::debug!(%error, "a connection broke before it was used");
            continue;
        }
        let (builder, handler, stop) = (Arc::clone(&builder), handler.clone(), stop.clone());
        connections.spawn(async move {
            connection(&builder, stream, peer, handler, limits, stop).await;
            drop((place, seat));
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection, and its seat; nothing when the listener is to stop. Without a free seat
/// nothing is accepted, and the system's own queue holds who comes.
async fn next(
    listener: &TcpListener,
    seats: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let accept = async {
        // The semaphore is never closed.
        let seat = Arc::clone(seats).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return Some((stream, peer, seat)),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => None,
        accepted = accept => accepted,
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// Readies an accepted socket: frames leave when they are written.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}

fn builder(limits: Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // At most 100 headers: hyper's own bound, which it keeps on the stack only when it is not set.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.keep_alive)
        .max_buf_size(BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_pending_accept_reset_streams(HTTP2_RESETS_PENDING)
        .max_header_list_size(HTTP2_HEADER_BYTES)
        .keep_alive_interval(HTTP2_PING)
        .keep_alive_timeout(HTTP2_PING);
    builder
}

async fn connection(
    builder: &Builder<TokioExecutor>,
    stream: TcpStream,
    peer: SocketAddr,
    handler: impl Handler,
    limits: Limits,
    stop: Stop,
) {
    let began = Arc::new(AtomicBool::new(false));
    let service = Service { handler, peer, began: Arc::clone(&began) };
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // hyper's own timer covers later headers; it does not run before the first bytes have told
    // which HTTP it is.
    let first_head = tokio::time::sleep(limits.first_head);
    tokio::pin!(first_head);
    let (mut waiting, mut stopping) = (true, false);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error, %peer, "a connection ended with an error");
                }
                return;
            }
            () = stop.hard.cancelled() => return,
            () = stop.soft.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut first_head, if waiting => {
                waiting = false;
                if !began.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }
}

struct Service<H> {
    handler: H,
    peer: SocketAddr,
    began: Arc<AtomicBool>,
}

impl<H: Handler> hyper::service::Service<Request<Incoming>> for Service<H> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.began.store(true, Ordering::Relaxed);
        let (handler, peer) = (self.handler.clone(), self.peer);
        Box::pin(async move { Ok(handler.handle(peer, request).await) })
    }
}

/// How many connections each address has. Bounded by the number of connections.
#[derive(Debug, Default)]
struct Addresses(Mutex<HashMap<IpAddr, usize>>);

impl Addresses {
    fn enter(self: &Arc<Self>, address: IpAddr, most: usize) -> Option<Place> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { addresses: Arc::clone(self), address })
    }
}

/// One connection's place in the count of its address.
struct Place {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

//! The door: our own accept loop, so that sockets have `TCP_NODELAY` and headers a time-out.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::answer;
use crate::reply::Abort;
use crate::simulator::State;

/// Connections the system keeps while we accept: a load test opens thousands at once.
const BACKLOG: u32 = 4_096;
/// Connections at once: three times the 10,000 streams that must fit.
const MAX_CONNECTIONS: usize = 32_768;
/// Time for a request's head, and for an idle connection; longer than a client's pool keeps one
/// (90 s), so that the client closes first and no request meets a closing socket.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes buffered per connection for reading and for writing: small, for there are many.
const BUFFER_BYTES: usize = 16 * 1024;
/// Streams within one HTTP/2 connection.
const MAX_H2_STREAMS: u32 = 1_024;
/// Pause after an accept that failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Listens on `addr`.
pub(crate) fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until stopped, each served by one task.
pub(crate) async fn accept(listener: TcpListener, state: Arc<State>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut builder = Builder::new(Tracked(state.tasks.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER_BYTES);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_H2_STREAMS);
    let builder = Arc::new(builder);
    let accepting = async {
        loop {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let serving = serve(stream, Arc::clone(&builder), Arc::clone(&state));
                    state.tasks.spawn(async move {
                        serving.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    state.stop.run_until_cancelled(accepting).await;
}

async fn serve(stream: TcpStream, builder: Arc<Builder<Tracked>>, state: Arc<State>) {
    let abort = Abort::default();
    let wire = match Wire::new(stream, abort.clone()) {
        Ok(wire) => TokioIo::new(wire),
        Err(error) => {
            tracing::debug!(%error, "the peer left before it was served");
            return;
        }
    };
    state.gauges.open_connections.fetch_add(1, Ordering::Relaxed);
    let service = service_fn(|request: Request<Incoming>| {
        // Boxed: the connection would otherwise keep room for the largest moment of an answer.
        let answering = Box::pin(answer::answer(Arc::clone(&state), abort.clone(), request));
        async move { Ok::<_, Infallible>(answering.await) }
    });
    {
        let mut connection = pin!(builder.serve_connection(wire, service));
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                // The connection comes first: it flushes what it has before a reset.
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended early");
                    }
                    break;
                }
                () = abort.asked() => break,
                () = state.stop_hard.cancelled() => break,
                () = state.stop.cancelled(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
    state.gauges.open_connections.fetch_sub(1, Ordering::Relaxed);
}

/// Spawns HTTP/2 streams where a stop waits for them.
#[derive(Clone, Debug)]
struct Tracked(TaskTracker);

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// A TCP stream that is reset, not closed, when a script asks for it.
struct Wire {
    stream: TcpStream,
    abort: Abort,
}

impl Wire {
    /// Takes a fresh connection. Frames are small and must not wait for one another, which they
    /// would for 40 ms a piece where Nagle's algorithm meets a delayed acknowledgement.
    fn new(stream: TcpStream, abort: Abort) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, abort })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.abort.is_asked()
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "the connection could not be reset, it is closed");
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_connections_do_not_wait_to_fill_packets() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(!stream.nodelay().unwrap(), "the system's default");
        let wire = Wire::new(stream, Abort::default()).unwrap();
        assert!(wire.stream.nodelay().unwrap());
    }
}

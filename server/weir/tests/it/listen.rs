//! The listener: what a connection may take, and how it ends.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use weir::listen::{CONNECTIONS_MAX, Handler, Limits, Stop, prepare, serve};

/// Longer than anything here takes; shorter than the limits that must not be the reason.
const SOON: Duration = Duration::from_secs(5);

/// Answers `ok`, and on `/slow` only when it is told to.
#[derive(Clone, Default)]
struct Echo {
    go: std::sync::Arc<tokio::sync::Notify>,
}

impl Handler for Echo {
    async fn handle(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() == "/slow" {
            self.go.notified().await;
        }
        Response::new(Body::from(Bytes::from_static(b"ok")))
    }
}

struct Running {
    address: SocketAddr,
    stop: Stop,
    echo: Echo,
    ended: JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, echo) = (Stop::default(), Echo::default());
    let serving = serve(listener, echo.clone(), limits, stop.clone());
    #[expect(clippy::disallowed_methods, reason = "a test awaits the handle")]
    let ended = tokio::spawn(serving);
    Running { address, stop, echo, ended }
}

fn limits() -> Limits {
    Limits {
        first_head: Duration::from_millis(200),
        keep_alive: Duration::from_millis(400),
        connections: 8,
        per_address: 8,
    }
}

/// Everything until the connection ends; fails when it does not.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset ends a connection as well as a close.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut all)).await.expect("still open");
    all
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(SOON, stream.read(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

async fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn an_accepted_socket_sends_small_frames_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    assert!(!stream.nodelay().unwrap(), "the system's default would make this test vain");
    prepare(&stream).unwrap();
    assert!(stream.nodelay().unwrap());
}

#[tokio::test]
async fn a_half_sent_header_is_closed() {
    let running = start(limits()).await;
    for beginning in ["", "G", "PRI * HT", "GET / HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let began = Instant::now();
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        until_closed(&mut stream).await;
        assert!(began.elapsed() >= limits().first_head, "{beginning:?} was closed too early");
    }
}

#[test]
fn the_public_limits_are_those_that_were_decided() {
    let keep_alive = Duration::from_secs(75);
    let public = Limits::public(keep_alive, 1_000_000);
    assert_eq!((public.first_head, public.keep_alive), (Duration::from_secs(10), keep_alive));
    assert_eq!((public.connections, public.per_address), (CONNECTIONS_MAX, CONNECTIONS_MAX / 2));
    let poor = Limits::public(keep_alive, 1_024);
    assert_eq!((poor.connections, poor.per_address), (262, 131), "files for providers are kept");
    assert!(Limits::public(keep_alive, 0).connections > 0);
}

#[tokio::test]
async fn a_later_header_that_stops_half_way_is_closed_too() {
    let running = start(limits()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    ask(&mut stream, "/").await;
    assert!(answer(&mut stream).await.ends_with("ok"));
    stream.write_all(b"GET / HTTP/1.1\r\nx-slow: ").await.unwrap();
    until_closed(&mut stream).await;
}

#[tokio::test]
async fn a_connection_serves_several_requests_and_an_idle_one_is_closed() {
    let running = start(limits()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    for _ in 0..3 {
        ask(&mut stream, "/").await;
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    }
    let idle = Instant::now();
    until_closed(&mut stream).await;
    assert!(idle.elapsed() >= limits().keep_alive / 2);
}

#[tokio::test]
async fn a_slow_answer_is_not_cut_by_the_header_timer() {
    let running = start(limits()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    ask(&mut stream, "/slow").await;
    // Longer than both limits, which are about headers.
    tokio::time::sleep(limits().first_head + limits().keep_alive).await;
    running.echo.go.notify_waiters();
    assert!(answer(&mut stream).await.ends_with("ok"));
}

#[tokio::test]
async fn too_many_and_too_large_headers_are_refused() {
    let running = start(limits()).await;
    let many = "a: b\r\n".repeat(101);
    let large = format!("a: {}\r\n", "b".repeat(80 * 1024));
    for headers in [many, large] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        // The server may answer and close before it has read all.
        let _ = stream.write_all(request.as_bytes()).await;
        let answer = String::from_utf8_lossy(&until_closed(&mut stream).await).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
        assert!(!answer.contains("200 OK"));
    }
}

#[tokio::test]
async fn one_address_cannot_take_more_than_its_places() {
    let running = start(Limits { per_address: 2, ..limits() }).await;
    let mut first = TcpStream::connect(running.address).await.unwrap();
    ask(&mut first, "/slow").await;
    let mut second = TcpStream::connect(running.address).await.unwrap();
    ask(&mut second, "/").await;
    assert!(answer(&mut second).await.ends_with("ok"));
    let mut third = TcpStream::connect(running.address).await.unwrap();
    assert!(until_closed(&mut third).await.is_empty(), "the third place is refused");
    drop(second);
    // A place that was given back is there for the next.
    let began = Instant::now();
    loop {
        let mut next = TcpStream::connect(running.address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let sent = next.write_all(request).await.is_ok();
        if sent && until_closed(&mut next).await.ends_with(b"ok") {
            break;
        }
        assert!(began.elapsed() < SOON, "the place was never given back");
    }
}

#[tokio::test]
async fn without_a_free_seat_a_connection_waits_for_one() {
    let running = start(Limits { connections: 1, ..limits() }).await;
    let mut first = TcpStream::connect(running.address).await.unwrap();
    ask(&mut first, "/slow").await;
    let mut second = TcpStream::connect(running.address).await.unwrap();
    ask(&mut second, "/").await;
    let none = tokio::time::timeout(Duration::from_millis(100), second.read_u8()).await;
    assert!(none.is_err(), "answered without a seat");
    running.echo.go.notify_waiters();
    drop(first);
    assert!(answer(&mut second).await.ends_with("ok"));
}

#[tokio::test]
async fn a_soft_stop_ends_idle_connections_and_lets_answers_end() {
    let running = start(Limits { keep_alive: SOON * 2, ..limits() }).await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    ask(&mut idle, "/").await;
    answer(&mut idle).await;
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    ask(&mut busy, "/slow").await;
    // The idle one has been answered, so the busy one's request is the only thing on the way.
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.stop.soft.cancel();
    assert!(until_closed(&mut idle).await.is_empty());
    running.echo.go.notify_waiters();
    assert!(until_closed(&mut busy).await.ends_with(b"ok"));
    tokio::time::timeout(SOON, running.ended).await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err(), "nothing is accepted any more");
}

#[tokio::test]
async fn a_hard_stop_ends_what_is_still_open() {
    let running = start(limits()).await;
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    ask(&mut busy, "/slow").await;
    running.stop.soft.cancel();
    running.stop.hard.cancel();
    until_closed(&mut busy).await;
    tokio::time::timeout(SOON, running.ended).await.unwrap().unwrap();
}

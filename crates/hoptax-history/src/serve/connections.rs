//! Accepts connections. Limits their number, their lifetime, and the time that shutdown takes.

use super::silent::{Connection, ResponseBody, Silent, Stream};
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::net::TcpListener;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Maximum number of open connections, enough for about 20 browsers. Further connections wait, unless another
/// connection can be closed for them: see [`Silent`](super::silent::Silent).
const MOST: usize = 128;
/// Time limit for receiving a request's head. It also limits how long a connection can be idle if the server
/// is not full.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request's head, in bytes.
const HEAD_BYTES: usize = 32 << 10;
/// Maximum lifetime of a connection. It is long enough for a page that polls every second. The limit also
/// disconnects clients that never read their responses.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long shutdown waits for requests in progress.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);
/// Pause after the server could not accept a connection, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Passes the requests of one connection on to the router.
struct Requests {
    router: TowerToHyperService<Router>,
    connection: Connection,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.connection.requested();
        let (response, connection) = (self.router.call(request), self.connection.clone());
        Box::pin(async move { Ok(response.await?.map(|body| ResponseBody::new(body, connection))) })
    }
}

/// Serves until `stopped` changes or its sender is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, mut stopped: watch::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (slots, ending) = (Arc::new(Semaphore::new(MOST)), GracefulShutdown::new());
    let silent = Arc::new(Silent::default());
    let mut number = 0;
    while let Some(accepted) = or_stop(&mut stopped, listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            if or_stop(&mut stopped, tokio::time::sleep(ACCEPT_PAUSE)).await.is_none() {
                break;
            }
            continue;
        };
        // Only one accepted connection waits here. The others wait in the kernel's queue, where they need no
        // descriptor.
        let Some(Some(slot)) = or_stop(&mut stopped, free_slot(&slots, &silent)).await else { break };
        number += 1;
        let watched = silent.add(number, Instant::now());
        let requests =
            Requests { router: TowerToHyperService::new(router.clone()), connection: watched.clone() };
        let connection = ending.watch(connection(stream, requests));
        let silent = Arc::clone(&silent);
        tokio::spawn(async move {
            let _slot = slot;
            let work = tokio::time::timeout(LIFETIME, connection);
            // `work` is polled before `closed`. If a request has arrived, the connection is not silent any
            // more. Ignore errors, because an error on a connection affects only the client of that
            // connection.
            let _ = first(work, watched.closed()).await;
            silent.remove(number);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(SHUTDOWN_WAIT, ending.shutdown()).await;
}

/// Waits for a slot. If all are taken, closes silent connections.
async fn free_slot(slots: &Arc<Semaphore>, silent: &Silent) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    loop {
        let wait = silent.make_room(Instant::now());
        if let Ok(slot) = tokio::time::timeout(wait, Arc::clone(slots).acquire_owned()).await {
            return slot.ok();
        }
    }
}

fn connection(
    stream: TcpStream,
    requests: Requests,
) -> http1::Connection<Stream<TokioIo<TcpStream>>, Requests> {
    let _ = stream.set_nodelay(true);
    let stream = Stream::new(TokioIo::new(stream), requests.connection.clone());
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(stream, requests)
}

/// The result of `work`, or `None` if the server stops first.
async fn or_stop<T>(stopped: &mut watch::Receiver<()>, work: impl Future<Output = T>) -> Option<T> {
    first(stopped.changed(), work).await.err()
}

/// The result of the future that is ready first. If both are ready, it is the result of `one`, as `Ok`.
async fn first<T, E>(one: impl Future<Output = T>, other: impl Future<Output = E>) -> Result<T, E> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    std::future::poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Ok(result)),
        Poll::Pending => other.as_mut().poll(context).map(Err),
    })
    .await
}

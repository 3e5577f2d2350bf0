//! Accepts connections. Limits their number, their lifetime, and the time that shutdown takes.

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, watch};

/// Maximum number of open connections, enough for about 20 browsers. Further connections wait, unless another connection
/// can be closed for them: see [`Silent`].
const MOST: usize = 128;
/// Time limit for receiving a request's head. It also limits how long a connection can be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request's head, in bytes.
const HEAD_BYTES: usize = 32 << 10;
/// Maximum lifetime of a connection. It is long enough for a page that polls every second. The limit also disconnects
/// clients that never read their responses.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long shutdown waits for requests in progress.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);
/// Pause after the server could not accept a connection, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that have not sent the head of a request yet, by their number. If all slots are taken, the oldest of them
/// is closed for a new connection. So clients that send nothing keep no other client waiting.
#[derive(Default)]
struct Silent(Mutex<BTreeMap<u64, Arc<Notify>>>);

impl Silent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. It must close when the result is notified.
    fn add(&self, number: u64) -> Arc<Notify> {
        Arc::clone(self.lock().entry(number).or_default())
    }

    fn close_oldest(&self) {
        if let Some((_, close)) = self.lock().pop_first() {
            close.notify_one();
        }
    }
}

/// Passes the requests of one connection on to the router. With its first request, the connection is not silent any more.
struct Requests {
    router: TowerToHyperService<Router>,
    silent: Arc<Silent>,
    number: u64,
}

impl Service<Request<Incoming>> for Requests {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.silent.lock().remove(&self.number);
        self.router.call(request)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.silent.lock().remove(&self.number);
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
        if slots.available_permits() == 0 {
            silent.close_oldest();
        }
        // Only one accepted connection waits here. The others wait in the kernel's queue, where they need no descriptor.
        let Some(slot) = or_stop(&mut stopped, Arc::clone(&slots).acquire_owned()).await else { break };
        number += 1;
        let close = silent.add(number);
        let router = TowerToHyperService::new(router.clone());
        let requests = Requests { router, silent: Arc::clone(&silent), number };
        let connection = ending.watch(connection(stream, requests));
        tokio::spawn(async move {
            let _slot = slot;
            let work = tokio::time::timeout(LIFETIME, connection);
            // Ignore errors, because an error on a connection affects only the client of that connection.
            let _ = unless(close.notified(), work).await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(SHUTDOWN_WAIT, ending.shutdown()).await;
}

fn connection(stream: TcpStream, requests: Requests) -> http1::Connection<TokioIo<TcpStream>, Requests> {
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), requests)
}

/// The result of `work`, or `None` if the server stops first.
async fn or_stop<T>(stopped: &mut watch::Receiver<()>, work: impl Future<Output = T>) -> Option<T> {
    unless(stopped.changed(), work).await
}

/// The result of `work`, or `None` if `end` is ready first.
async fn unless<T, E>(end: impl Future<Output = E>, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut end) = (pin!(work), pin!(end));
    std::future::poll_fn(|context| match end.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

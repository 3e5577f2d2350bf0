//! Accepts connections. Limits their number, their lifetime, and the time that shutdown takes.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

/// Maximum number of open connections, enough for about 20 browsers. Further connections wait in the kernel's queue.
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

/// Serves until `stopped` changes or its sender is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, mut stopped: watch::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (slots, ending) = (Arc::new(Semaphore::new(MOST)), GracefulShutdown::new());
    let accepted = async || {
        // Wait for a slot before accepting a connection, because a connection without a slot would use a file
        // descriptor.
        let slot = Arc::clone(&slots).acquire_owned().await;
        (listener.accept().await, slot)
    };
    while let Some((accepted, slot)) = or_stop(&mut stopped, accepted()).await {
        let Ok((stream, _)) = accepted else {
            if or_stop(&mut stopped, tokio::time::sleep(ACCEPT_PAUSE)).await.is_none() {
                break;
            }
            continue;
        };
        let connection = ending.watch(connection(stream, router.clone()));
        tokio::spawn(async move {
            let _slot = slot;
            // Ignore errors, because an error on a connection affects only the client of that connection.
            let _ = tokio::time::timeout(LIFETIME, connection).await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(SHUTDOWN_WAIT, ending.shutdown()).await;
}

fn connection(
    stream: TcpStream,
    router: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}

/// The result of `work`, or `None` if the server stops first.
async fn or_stop<T>(stopped: &mut watch::Receiver<()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut end) = (pin!(work), pin!(stopped.changed()));
    std::future::poll_fn(|context| match end.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

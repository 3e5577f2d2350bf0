//! Accepting connections: so many at once, none for ever, and an end in bounded time.

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

/// Connections at once: some twenty browsers. Those beyond wait in the kernel's queue.
const MOST: usize = 128;
/// How long a request's head may take, and how long a connection may idle.
const HEAD: Duration = Duration::from_secs(10);
/// How large a request's head may be, bytes.
const HEAD_BYTES: usize = 32 << 10;
/// How long a connection lives: long for a page that asks each second, and an end for one that reads nothing.
const LIFE: Duration = Duration::from_secs(600);
/// How long requests under way are waited for at the end.
const PARTING: Duration = Duration::from_secs(1);
/// Pause where no connection can be accepted, as with too many open files.
const BREATH: Duration = Duration::from_millis(50);

/// Serves until `stopped` changes or its sender goes.
pub(super) async fn serve(listener: TcpListener, router: Router, mut stopped: watch::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (slots, ending) = (Arc::new(Semaphore::new(MOST)), GracefulShutdown::new());
    let accepted = async || {
        // The slot first: who has none waits before it costs a descriptor.
        let slot = Arc::clone(&slots).acquire_owned().await;
        (listener.accept().await, slot)
    };
    while let Some((accepted, slot)) = unless(&mut stopped, accepted()).await {
        let Ok((stream, _)) = accepted else {
            if unless(&mut stopped, tokio::time::sleep(BREATH)).await.is_none() {
                break;
            }
            continue;
        };
        let connection = ending.watch(connection(stream, router.clone()));
        tokio::spawn(async move {
            let _slot = slot;
            // What goes wrong on a connection is its client's affair.
            let _ = tokio::time::timeout(LIFE, connection).await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(PARTING, ending.shutdown()).await;
}

fn connection(
    stream: TcpStream,
    router: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}

/// What comes of `work`, unless the end comes first.
async fn unless<T>(stopped: &mut watch::Receiver<()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut end) = (pin!(work), pin!(stopped.changed()));
    std::future::poll_fn(|context| match end.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

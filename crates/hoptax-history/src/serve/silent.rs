//! Finds out which connections are silent, so that a full server can close one of them for a new client.
//!
//! A connection is silent while the server waits for the head of a request, or for the rest of a head: before
//! the first request, and again when a whole response has been sent.

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A connection can be closed for another one after it was silent for this long. A client that has connected
/// sends its request within a few milliseconds. Such a client must not be closed for the next one.
pub(super) const GRACE: Duration = Duration::from_millis(250);

/// All silent connections, by their number.
#[derive(Default)]
pub(super) struct Silent(Mutex<BTreeMap<u64, Entry>>);

struct Entry {
    since: Instant,
    is_closing: bool,
    close: Arc<Notify>,
}

impl Silent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a new connection, which is silent.
    pub(super) fn add(self: &Arc<Self>, number: u64, now: Instant) -> Connection {
        let silent = Arc::clone(self);
        let connection = Connection { silent, number, close: Arc::default(), is_answered: Arc::default() };
        connection.becomes_silent(now);
        connection
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Closes the connection that was silent for the longest time, if that was at least [`GRACE`]. Returns
    /// how long to wait for a free slot before the next call.
    pub(super) fn make_room(&self, now: Instant) -> Duration {
        let mut entries = self.lock();
        let oldest = entries.values_mut().filter(|entry| !entry.is_closing).min_by_key(|entry| entry.since);
        let Some(oldest) = oldest else { return GRACE };
        let left = GRACE.saturating_sub(now.saturating_duration_since(oldest.since));
        if !left.is_zero() {
            return left;
        }
        oldest.is_closing = true;
        oldest.close.notify_one();
        GRACE
    }
}

/// The part of one connection that knows whether it is silent.
#[derive(Clone)]
pub(super) struct Connection {
    silent: Arc<Silent>,
    number: u64,
    close: Arc<Notify>,
    /// True if the last frame of the response was passed on, but perhaps not sent yet.
    is_answered: Arc<AtomicBool>,
}

impl Connection {
    /// A request has arrived. If the connection was to be closed, it remains open.
    pub(super) fn requested(&self) {
        self.is_answered.store(false, Ordering::Relaxed);
        self.silent.remove(self.number);
    }

    /// Returns when the connection must close.
    pub(super) async fn closed(&self) {
        loop {
            self.close.notified().await;
            if self.silent.lock().get(&self.number).is_some_and(|entry| entry.is_closing) {
                return;
            }
        }
    }

    fn becomes_silent(&self, now: Instant) {
        let entry = Entry { since: now, is_closing: false, close: Arc::clone(&self.close) };
        self.silent.lock().insert(self.number, entry);
    }

    fn flushed(&self) {
        if self.is_answered.swap(false, Ordering::Relaxed) {
            self.becomes_silent(Instant::now());
        }
    }
}

/// The body of a response. hyper drops it when it has taken the last frame.
pub(super) struct ResponseBody {
    body: Body,
    connection: Connection,
}

impl ResponseBody {
    pub(super) fn new(body: Body, connection: Connection) -> Self {
        Self { body, connection }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.connection.is_answered.store(true, Ordering::Relaxed);
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream of a connection. hyper flushes it each time when everything was written. A client that is still
/// reading its response is therefore not silent.
pub(super) struct Stream<S> {
    stream: S,
    connection: Connection,
}

impl<S> Stream<S> {
    pub(super) fn new(stream: S, connection: Connection) -> Self {
        Self { stream, connection }
    }
}

impl<S: Read + Unpin> Read for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if let Poll::Ready(Ok(())) = flushed {
            self.connection.flushed();
        }
        flushed
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
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closing(silent: &Silent) -> Vec<u64> {
        silent.lock().iter().filter(|(_, entry)| entry.is_closing).map(|(number, _)| *number).collect()
    }

    #[test]
    fn the_oldest_silent_connection_is_closed_after_the_grace() {
        let (silent, start) = (Arc::new(Silent::default()), Instant::now());
        assert_eq!(silent.make_room(start), GRACE);
        let ms = Duration::from_millis;
        let busy = silent.add(1, start);
        busy.requested();
        let _old = silent.add(2, start + ms(10));
        let _new = silent.add(3, start + ms(20));
        assert_eq!(silent.make_room(start + ms(30)), GRACE - ms(20));
        assert!(closing(&silent).is_empty());
        silent.make_room(start + ms(10) + GRACE);
        assert_eq!(closing(&silent), [2]);
        assert_eq!(silent.make_room(start + ms(10) + GRACE), ms(10));
        assert_eq!(closing(&silent), [2]);
    }

    #[test]
    fn a_request_keeps_a_connection_that_was_to_be_closed() {
        let (silent, start) = (Arc::new(Silent::default()), Instant::now());
        let late = silent.add(1, start);
        silent.make_room(start + GRACE);
        late.requested();
        assert!(closing(&silent).is_empty());
    }

    #[test]
    fn a_connection_is_silent_again_when_its_response_was_flushed() {
        let silent = Arc::new(Silent::default());
        let connection = silent.add(1, Instant::now());
        connection.requested();
        connection.flushed();
        let body = ResponseBody::new(Body::empty(), connection.clone());
        connection.flushed();
        assert!(silent.lock().is_empty());
        drop(body);
        assert!(silent.lock().is_empty());
        connection.flushed();
        assert_eq!(silent.lock().len(), 1);
        // The next request may arrive before the response to this one was flushed.
        connection.requested();
        drop(ResponseBody::new(Body::empty(), connection.clone()));
        connection.requested();
        connection.flushed();
        assert!(silent.lock().is_empty());
    }
}

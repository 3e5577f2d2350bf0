//! The counts of one listener. The listener's thread writes them, and the control thread reads them.

use super::stream::{EventStream, Sent};
use crate::ledger::{InstanceCounts, WebSocketCounts};
use hoptax_plan::LlmFailureKind;
use hoptax_record::{Deadlines, LlmCounts};
use hoptax_wire::http1::Version;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A counter that only one thread changes. A change therefore needs only a load and a store. If several
/// threads changed the counter, each change would need a locked instruction.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn take_back(&self, less: u64) {
        self.0.store(self.get().wrapping_sub(less), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts since the instance started. They have their own cache line, because instances run on different
/// CPUs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counts {
    pub(super) http10: Count,
    pub(super) http11: Count,
    pub(super) http2: Count,
    pub(super) connections: Count,
    pub(super) open: Count,
    /// Requests after which the client closes the connection.
    pub(super) closing: Count,
    pub(super) bytes_in: Count,
    pub(super) bytes_out: Count,
    /// Token reviews, also counted as requests.
    pub(super) reviews: Count,
    /// Delayed responses to verification paths, and those among them whose client went away before.
    pub(super) delayed: Count,
    pub(super) abandoned: Count,
    pub(super) streams: StreamCounts,
    /// Streams that clients reset before they had the whole response.
    pub(super) cancels: Count,
    pub(super) deadlines: DeadlineCounts,
    /// Server-sent events that were sent, and event streams that clients left before the end.
    pub(super) events: Count,
    pub(super) left: Count,
    pub(super) llm: ModelCounts,
    /// WebSockets that were accepted, and those that clients left without a close frame.
    pub(super) websockets: Count,
    pub(super) cut: Count,
    /// Messages of WebSockets: received, sent, and left out because a connection read too slowly.
    pub(super) messages_in: Count,
    pub(super) messages_out: Count,
    pub(super) left_out: Count,
}

/// Requests to the language model: see [`LlmCounts`].
#[derive(Debug, Default)]
pub(super) struct ModelCounts {
    pub(super) requests: Count,
    pub(super) refused: Count,
    pub(super) with_key: Count,
    pub(super) streams: Count,
    ended: Count,
    tokens: Count,
    left: Count,
    left_tokens: Count,
    failures: [Count; FAILURES.len()],
    /// Requests with each field. Only the ledger's reader can hold the lock at the same time.
    fields: Mutex<BTreeMap<String, u64>>,
}

const FAILURES: [(LlmFailureKind, &str); 6] = [
    (LlmFailureKind::RateLimit, "rate-limit"),
    (LlmFailureKind::ServerError, "server-error"),
    (LlmFailureKind::Overloaded, "overloaded"),
    (LlmFailureKind::ErrorEvent, "error-event"),
    (LlmFailureKind::Cut, "cut"),
    (LlmFailureKind::Silence, "silence"),
];
/// Maximum number of fields that are counted, and of bytes of their names.
const MOST_FIELDS: usize = 64;
const LONGEST_FIELD: usize = 64;

impl ModelCounts {
    pub(super) fn failed(&self, kind: LlmFailureKind) {
        let place = FAILURES.iter().position(|(own, _)| *own == kind);
        if let Some(count) = place.and_then(|place| self.failures.get(place)) {
            count.add(1);
        }
    }

    /// Counts the fields of a request.
    pub(super) fn add_fields(&self, names: &[Cow<'_, str>]) {
        let mut fields = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if let Some(count) = fields.get_mut(&**name) {
                *count += 1;
            } else if fields.len() < MOST_FIELDS && name.len() <= LONGEST_FIELD {
                fields.insert(name.to_string(), 1);
            }
        }
    }

    fn add_to(&self, sum: &mut LlmCounts) {
        sum.requests += self.requests.get();
        sum.refused += self.refused.get();
        sum.with_key += self.with_key.get();
        sum.streams += self.streams.get();
        sum.ended += self.ended.get();
        sum.tokens += self.tokens.get();
        sum.left += self.left.get();
        sum.left_tokens += self.left_tokens.get();
        for ((_, name), count) in FAILURES.iter().zip(&self.failures).filter(|(_, count)| count.get() > 0) {
            *sum.failures.entry((*name).to_owned()).or_default() += count.get();
        }
        for (name, count) in &*self.fields.lock().unwrap_or_else(PoisonError::into_inner) {
            *sum.fields.entry(name.clone()).or_default() += count;
        }
    }
}

/// Maximum number of streams that a client may open at a time on one connection.
pub(super) const MOST_STREAMS: u32 = 1024;

/// Counts of streams by the number of streams open on their connection, including themselves. A single
/// maximum would not do: the counts of a trial are the difference of two readings, and the difference of two
/// maxima is not the maximum in between.
#[derive(Debug)]
pub(super) struct StreamCounts([Count; MOST_STREAMS as usize + 1]);

impl Default for StreamCounts {
    fn default() -> Self {
        Self([const { Count(AtomicU64::new(0)) }; MOST_STREAMS as usize + 1])
    }
}

impl StreamCounts {
    /// Counts a stream. `open` is the number of open streams of its connection.
    pub(super) fn opened(&self, open: usize) {
        self.0[open.min(MOST_STREAMS as usize)].add(1);
    }
}

/// Counts of calls with a deadline, in buckets of similar time limits. As with [`StreamCounts`], the
/// difference of two readings shows the time limits in between. It is exact if all time limits in a bucket
/// are equal. The buckets are allocated at the first deadline.
#[derive(Debug, Default)]
pub(super) struct DeadlineCounts(OnceLock<Vec<Bucket>>);

/// Time limits that differ by 0.8 % at most. Zero if there are none.
#[derive(Debug, Default)]
struct Bucket {
    calls: Count,
    least: Count,
    most: Count,
}

/// Each power of two is divided into 128 buckets.
const BITS: u32 = 7;
/// The powers of two that have buckets, nanoseconds: from 16 µs to 19 h. The first and the last bucket also
/// count shorter and longer time limits.
const POWERS: std::ops::Range<u32> = 14..46;
const BUCKETS: usize = ((POWERS.end - POWERS.start) << BITS) as usize;

impl DeadlineCounts {
    /// Counts a call with this time limit, nanoseconds.
    pub(super) fn add(&self, limit: u64) {
        let buckets = self.0.get_or_init(|| std::iter::repeat_with(Bucket::default).take(BUCKETS).collect());
        let limit = limit.max(1);
        let bucket = &buckets[bucket(limit)];
        let least = bucket.least.get();
        if least == 0 || limit < least {
            bucket.least.set(limit);
        }
        if limit > bucket.most.get() {
            bucket.most.set(limit);
        }
        bucket.calls.add(1);
    }

    /// The calls in each bucket that is not empty, with the bucket's index.
    fn read(&self) -> impl Iterator<Item = (u32, Deadlines)> {
        (0..).zip(self.0.get().into_iter().flatten()).filter_map(|(place, bucket)| {
            let Bucket { calls, least, most } = bucket;
            let found = Deadlines { calls: calls.get(), least_ns: least.get(), most_ns: most.get() };
            (found.calls > 0).then_some((place, found))
        })
    }
}

/// Index of the bucket of a time limit.
fn bucket(limit: u64) -> usize {
    let limit = limit.clamp(1 << POWERS.start, (1 << POWERS.end) - 1);
    let shift = limit.ilog2() - BITS;
    let power = shift + BITS - POWERS.start;
    (power << BITS) as usize + (limit >> shift) as usize - (1 << BITS)
}

impl Counts {
    pub(super) fn requests(&self, version: Version) -> &Count {
        match version {
            Version::Http10 => &self.http10,
            Version::Http11 => &self.http11,
        }
    }

    /// Counts what a stream of events has sent.
    pub(super) fn sent(&self, sent: Sent) {
        self.events.add(sent.events);
        if sent.tokens > 0 || sent.is_whole {
            self.llm.tokens.add(sent.tokens);
            self.llm.ended.add(sent.is_whole.into());
        }
    }

    /// Counts a stream of events that its client leaves before the end.
    pub(super) fn left_by_client(&self, stream: &EventStream) {
        self.left.add(1);
        if let Some(of) = stream.completion {
            self.llm.left.add(1);
            self.llm.left_tokens.add(of.sent.into());
        }
    }

    /// The sum over all listeners of one instance, for the ledger.
    pub(super) fn read(listeners: &[Arc<Self>]) -> InstanceCounts {
        let sum = |count: fn(&Self) -> &Count| listeners.iter().map(|one| count(one).get()).sum::<u64>();
        let (http10, http11) = (sum(|one| &one.http10), sum(|one| &one.http11));
        let http2 = sum(|one| &one.http2);
        let versions = [("1.0", http10), ("1.1", http11), ("2", http2)];
        let mut by_open = BTreeMap::new();
        for one in listeners {
            for (open, count) in (0..).zip(&one.streams.0).filter(|(_, count)| count.get() > 0) {
                *by_open.entry(open).or_default() += count.get();
            }
        }
        let mut deadlines: BTreeMap<u32, Deadlines> = BTreeMap::new();
        for one in listeners {
            for (place, found) in one.deadlines.read() {
                deadlines.entry(place).and_modify(|sum| sum.add(found)).or_insert(found);
            }
        }
        let mut llm = LlmCounts::default();
        listeners.iter().for_each(|one| one.llm.add_to(&mut llm));
        InstanceCounts {
            requests: http10 + http11 + http2,
            connections: sum(|one| &one.connections),
            open: sum(|one| &one.open),
            closing: Some(sum(|one| &one.closing)),
            bytes_in: sum(|one| &one.bytes_in),
            bytes_out: sum(|one| &one.bytes_out),
            http_version: versions
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(version, count)| (version.to_owned(), count))
                .collect(),
            streams: Some(by_open.values().sum()),
            most_streams: Some(by_open.keys().last().map_or(0, |open| u64::from(*open))),
            streams_by_open: Some(by_open),
            cancels: Some(sum(|one| &one.cancels)),
            deadlines: Some(deadlines),
            events: Some(sum(|one| &one.events)).filter(|events| *events > 0),
            event_streams_left: Some(sum(|one| &one.left)).filter(|left| *left > 0),
            llm: Some(llm).filter(|llm| llm.requests > 0),
            websockets: Some(WebSocketCounts {
                opened: sum(|one| &one.websockets),
                cut: sum(|one| &one.cut),
                received: sum(|one| &one.messages_in),
                sent: sum(|one| &one.messages_out),
                left_out: sum(|one| &one.left_out),
            })
            .filter(|websockets| websockets.opened > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_similar_time_limits() {
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
        let mut limit = 1_u64 << POWERS.start;
        while bucket(limit) < BUCKETS - 1 {
            let next = limit + limit.div_ceil(128);
            assert!(bucket(next) > bucket(limit), "{limit} and {next}");
            assert!(bucket(limit + limit / 1000) - bucket(limit) <= 1, "{limit}");
            limit = next;
        }
    }

    #[test]
    fn deadlines_have_their_extremes() {
        let listeners = [Arc::<Counts>::default(), Arc::default()];
        for (listener, limit) in [(0, 1_000_000_000), (1, 1_000_000_001), (0, 999_999_999), (1, 5)] {
            listeners[listener].deadlines.add(limit);
        }
        let deadlines = Counts::read(&listeners).deadlines.expect("counted");
        let found: Vec<Deadlines> = deadlines.into_values().collect();
        let deadlines = |calls, least_ns, most_ns| Deadlines { calls, least_ns, most_ns };
        assert_eq!(found, [deadlines(1, 5, 5), deadlines(3, 999_999_999, 1_000_000_001)]);
    }
}

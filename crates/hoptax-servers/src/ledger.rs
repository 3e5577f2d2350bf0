//! The upstream's ledger: counts that the upstream keeps itself. They are read from its control socket (`GET
//! /ledger`, JSON).

use crate::http_client::HttpClient;
use anyhow::Context as _;
use hoptax_format::stamp::ClockId;
use hoptax_record::{Deadlines, LedgerDelta, LlmCounts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Counts since the upstream started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Counts of each instance, in the order of the instances' ports.
    pub instances: Vec<InstanceCounts>,
    /// Clock of the upstream's stamps. Absent if the upstream's kernel does not report it, or the upstream is
    /// an older version.
    #[serde(default)]
    pub clock: Option<ClockId>,
    /// True if only requests are counted. This is the case for an upstream that is not built in.
    #[serde(default)]
    pub requests_only: bool,
}

/// Counts of one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceCounts {
    /// Requests answered.
    pub requests: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Requests after which the client closes the connection. Absent from ledgers that do not count them.
    #[serde(default)]
    pub closing: Option<u64>,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Requests by HTTP version: `1.0`, `1.1`, `2`.
    pub http_version: BTreeMap<String, u64>,
    /// HTTP/2 streams that clients opened. Absent from ledgers that do not count them, like the next three.
    #[serde(default)]
    pub streams: Option<u64>,
    /// Largest number of streams that were open on one connection.
    #[serde(default)]
    pub most_streams: Option<u64>,
    /// Number of streams by the number of streams that were open on their connection when they were opened,
    /// themselves included. The difference of two ledgers shows the largest number in between.
    #[serde(default)]
    pub streams_by_open: Option<BTreeMap<u32, u64>>,
    /// Streams that clients reset before they had the whole response.
    #[serde(default)]
    pub cancels: Option<u64>,
    /// gRPC calls with a deadline, by buckets of similar time limits. Absent from ledgers that do not count
    /// them.
    #[serde(default)]
    pub deadlines: Option<BTreeMap<u32, Deadlines>>,
    /// Server-sent events that were sent. Absent if there are none, like the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Streams of events that clients left before their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_streams_left: Option<u64>,
    /// Requests to the language model. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmCounts>,
    /// WebSockets. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websockets: Option<WebSocketCounts>,
}

/// Counts of WebSockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSocketCounts {
    /// WebSockets accepted.
    pub opened: u64,
    /// WebSockets that clients left without a close frame.
    pub cut: u64,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages to all connections of a path that were not sent to a connection, because it read too slowly.
    pub left_out: u64,
}

impl InstanceCounts {
    /// Largest number of streams that were open on one connection since `earlier`.
    fn most_streams_since(&self, earlier: &Self) -> Option<u64> {
        let before = earlier.streams_by_open.as_ref();
        let opened = |open: &u32| before.and_then(|before| before.get(open)).copied().unwrap_or(0);
        let mut now = self.streams_by_open.as_ref()?.iter().rev();
        let most = now.find(|(open, count)| **count > opened(open));
        Some(most.map_or(0, |(open, _)| u64::from(*open)))
    }

    /// Calls with a deadline since `earlier`.
    fn deadlines_since(&self, earlier: &Self) -> impl Iterator<Item = Deadlines> {
        let before = earlier.deadlines.as_ref();
        let grown = move |(bucket, now): (&u32, &Deadlines)| {
            let earlier = before.and_then(|before| before.get(bucket)).map_or(0, |found| found.calls);
            let calls = now.calls.saturating_sub(earlier);
            (calls > 0).then_some(Deadlines { calls, ..*now })
        };
        self.deadlines.iter().flatten().filter_map(grown)
    }
}

/// Adds the growth of counts that have names.
fn add_growth_by_name(
    sum: &mut BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
) {
    for (name, count) in now {
        let count = count.saturating_sub(before.get(name).copied().unwrap_or(0));
        if count > 0 {
            *sum.entry(name.clone()).or_default() += count;
        }
    }
}

/// Adds the growth of the counts of the language model.
fn add_llm_growth(sum: &mut LlmCounts, now: &LlmCounts, before: &LlmCounts) {
    let LlmCounts { requests, refused, with_key, streams, ended, tokens, left, left_tokens, .. } = before;
    for (sum, now, before) in [
        (&mut sum.requests, now.requests, requests),
        (&mut sum.refused, now.refused, refused),
        (&mut sum.with_key, now.with_key, with_key),
        (&mut sum.streams, now.streams, streams),
        (&mut sum.ended, now.ended, ended),
        (&mut sum.tokens, now.tokens, tokens),
        (&mut sum.left, now.left, left),
        (&mut sum.left_tokens, now.left_tokens, left_tokens),
    ] {
        *sum += now.saturating_sub(*before);
    }
    add_growth_by_name(&mut sum.failures, &now.failures, &before.failures);
    add_growth_by_name(&mut sum.fields, &now.fields, &before.fields);
}

/// Adds the growth of a count that older ledgers do not have.
fn add_growth(sum: &mut Option<u64>, now: Option<u64>, before: Option<u64>) {
    if let Some(now) = now {
        *sum.get_or_insert(0) += now.saturating_sub(before.unwrap_or(0));
    }
}

impl Ledger {
    /// Differences between this ledger and `earlier`. If a count is smaller than before, its instance has
    /// restarted, and the difference is zero.
    pub fn since(&self, earlier: &Self) -> LedgerDelta {
        let mut delta = LedgerDelta { requests_only: self.requests_only, ..LedgerDelta::default() };
        for (index, now) in self.instances.iter().enumerate() {
            let before = earlier.instances.get(index).cloned().unwrap_or_default();
            let requests = now.requests.saturating_sub(before.requests);
            delta.requests += requests;
            delta.by_instance.push(requests);
            delta.connections += now.connections.saturating_sub(before.connections);
            add_growth(&mut delta.closing, now.closing, before.closing);
            add_growth(&mut delta.streams, now.streams, before.streams);
            add_growth(&mut delta.cancels, now.cancels, before.cancels);
            add_growth(&mut delta.events, now.events, before.events);
            add_growth(&mut delta.event_streams_left, now.event_streams_left, before.event_streams_left);
            delta.most_streams = delta.most_streams.max(now.most_streams_since(&before));
            for found in now.deadlines_since(&before) {
                delta.deadlines.get_or_insert(Deadlines { calls: 0, ..found }).add(found);
            }
            delta.bytes_in += now.bytes_in.saturating_sub(before.bytes_in);
            delta.bytes_out += now.bytes_out.saturating_sub(before.bytes_out);
            add_growth_by_name(&mut delta.http_version, &now.http_version, &before.http_version);
            if let Some(now) = &now.llm {
                let before = before.llm.unwrap_or_default();
                add_llm_growth(delta.llm.get_or_insert_default(), now, &before);
            }
        }
        delta
    }
}

/// Time limit for the response. The upstream is local and idle, so only a busy machine comes near this limit.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a ledger, in bytes. It is enough for thousands of instances.
const MOST: usize = 4 << 20;

/// Reads an upstream's ledger.
///
/// # Errors
/// If the control socket does not answer in time, or the answer is not a ledger.
pub fn fetch(control: SocketAddr) -> anyhow::Result<Ledger> {
    let body = HttpClient::plain(control, TIMEOUT).get("/ledger", MOST);
    let ledger = body.and_then(|body| Ok(serde_json::from_slice(&body)?));
    ledger.with_context(|| format!("cannot read the upstream's ledger at http://{control}/ledger"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_address() {
        let nobody = hoptax_testing::unused_address();
        let error = format!("{:#}", fetch(nobody).expect_err("nobody listens"));
        assert!(error.contains(&format!("http://{nobody}/ledger")), "{error}");
    }

    #[test]
    fn subtracts_instance_by_instance() {
        let counts = |requests| InstanceCounts {
            requests,
            closing: Some(requests / 5),
            http_version: [("1.1".to_owned(), requests)].into(),
            ..InstanceCounts::default()
        };
        let ledger = |instances| Ledger { instances, clock: None, requests_only: false };
        let earlier = ledger(vec![counts(5), counts(7)]);
        let later = ledger(vec![counts(15), counts(7)]);
        let delta = later.since(&earlier);
        assert_eq!((delta.requests, delta.by_instance), (10, vec![10, 0]));
        assert_eq!(delta.http_version, [("1.1".to_owned(), 10)].into());
        assert_eq!(delta.closing, Some(2));
        assert_eq!(earlier.since(&later).requests, 0);
        assert_eq!((delta.streams, delta.most_streams, delta.cancels), (None, None, None), "not counted");
    }

    #[test]
    fn the_most_streams_are_those_between_two_readings() {
        let ledger = |by_open: &[(u32, u64)], cancels| Ledger {
            instances: vec![InstanceCounts {
                streams: Some(by_open.iter().map(|(_, count)| count).sum()),
                streams_by_open: Some(by_open.iter().copied().collect()),
                cancels: Some(cancels),
                events: Some(100 * cancels),
                ..InstanceCounts::default()
            }],
            ..Ledger::default()
        };
        let first = ledger(&[(1, 10), (2, 5), (100, 1)], 1);
        let second = ledger(&[(1, 11), (2, 5), (7, 2), (100, 1)], 4);
        let counts = |delta: LedgerDelta| (delta.streams, delta.most_streams, delta.cancels);
        assert_eq!(counts(first.since(&Ledger::default())), (Some(16), Some(100), Some(1)));
        assert_eq!(counts(second.since(&first)), (Some(3), Some(7), Some(3)));
        assert_eq!(counts(second.since(&second)), (Some(0), Some(0), Some(0)));
        let delta = second.since(&first);
        assert_eq!((delta.events, delta.event_streams_left), (Some(300), None));
    }

    #[test]
    fn counts_of_the_language_model_grow() {
        let counts = |requests: u64, kind: &str| LlmCounts {
            requests,
            left_tokens: 7 * requests,
            failures: [(kind.to_owned(), requests)].into(),
            ..LlmCounts::default()
        };
        let ledger = |llm| Ledger {
            instances: vec![InstanceCounts { llm, ..InstanceCounts::default() }; 2],
            ..Ledger::default()
        };
        let (first, second) = (ledger(Some(counts(2, "cut"))), ledger(Some(counts(5, "cut"))));
        assert_eq!(first.since(&ledger(None)).llm, Some(counts(4, "cut")));
        assert_eq!(second.since(&first).llm, Some(counts(6, "cut")));
        let other = ledger(Some(counts(2, "silence")));
        assert_eq!(other.since(&first).llm.map(|llm| llm.failures), Some([("silence".into(), 4)].into()));
        assert_eq!(ledger(None).since(&first).llm, None);
    }

    #[test]
    fn deadlines_are_those_between_two_readings() {
        let deadlines = |calls, least_ns, most_ns| Deadlines { calls, least_ns, most_ns };
        let ledger = |buckets: &[(u32, Deadlines)]| Ledger {
            instances: vec![InstanceCounts {
                deadlines: Some(buckets.iter().copied().collect()),
                ..InstanceCounts::default()
            }],
            ..Ledger::default()
        };
        let first = ledger(&[(3, deadlines(7, 30, 31)), (5, deadlines(2, 50, 50))]);
        let later = [(3, deadlines(7, 30, 31)), (5, deadlines(4, 50, 50)), (8, deadlines(1, 80, 80))];
        let second = ledger(&later);
        assert_eq!(first.since(&Ledger::default()).deadlines, Some(deadlines(9, 30, 50)));
        assert_eq!(second.since(&first).deadlines, Some(deadlines(3, 50, 80)));
        assert_eq!(second.since(&second).deadlines, None);
    }
}

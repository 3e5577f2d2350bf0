//! Chrome's trace format: <https://perfetto.dev/docs/getting-started/other-formats#chrome-json-format>. Each
//! request is a process that begins at 0. Its threads are its causes, the roles' threads, and the CPUs.

use super::words::piece_in_words;
use hoptax_record::report::SlowFigures;
use hoptax_record::tail::{Doing, SlowRequest, TailCause};
use serde_json::{Value, json};

pub(super) fn encode(one: &SlowFigures) -> String {
    let mut events = Vec::new();
    for (rank, (request, causes)) in one.slowest.iter().enumerate() {
        add(&mut events, rank + 1, request, causes);
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string()
}

/// Nanoseconds in the format's microseconds.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn add(events: &mut Vec<Value>, rank: usize, request: &SlowRequest, causes: &[TailCause]) {
    let named = |kind: &str, thread: usize, name: String| json!({ "ph": "M", "name": kind, "pid": rank, "tid": thread, "args": { "name": name } });
    let span = |thread: usize, (from, to): (u64, u64), name: &str| json!({ "ph": "X", "pid": rank, "tid": thread, "ts": us(from), "dur": us(to - from), "name": name });
    let length = us(request.moment.response_time());
    events.push(named("process_name", 0, format!("request {rank}: {length} µs")));
    events.push(named("thread_name", 1, "cause".to_owned()));
    for (from, to, name) in pieces(request, causes) {
        events.push(span(1, (from, to), &name));
    }
    let mut thread = 2;
    for lane in &request.lanes {
        events.push(named("thread_name", thread, format!("{} {}", lane.role.name(), lane.thread)));
        for (from, to, doing) in lane.spans.iter().filter(|(.., doing)| *doing != Doing::Asleep) {
            let name = if *doing == Doing::Running { "running" } else { "ready" };
            events.push(span(thread, (*from, *to), name));
        }
        thread += 1;
    }
    for lane in &request.cpus {
        events.push(named("thread_name", thread, format!("CPU {}", lane.cpu)));
        for (from, to, name) in &lane.spans {
            events.push(span(thread, (*from, *to), name));
        }
        thread += 1;
    }
}

/// The causes of a request with their begin and end after it was due, ns.
pub(super) fn pieces(request: &SlowRequest, causes: &[TailCause]) -> Vec<(u64, u64, String)> {
    let mut at = 0;
    let piece = |&(cause, ns): &(u32, u64)| {
        let from = at;
        at += ns;
        Some((from, at, piece_in_words(causes.get(cause as usize)?)))
    };
    request.pieces.iter().filter_map(piece).collect()
}

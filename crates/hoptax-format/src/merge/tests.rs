use super::*;
use crate::random::Random;
use crate::record::{Bytes, Cause, Connections, Counts, Lifetime};
use crate::stamp::ClockId;
use std::collections::BTreeMap;

const WINDOWS: usize = 4;

/// A record whose windows have these response times. The histogram of the trial contains all of them, with
/// three digits.
fn record(times: &[Vec<u64>; WINDOWS], started_ns: u64) -> LoadRecord {
    let encoded = |times: &[u64], digits| {
        let mut histogram = empty(digits);
        times.iter().for_each(|time| histogram.saturating_record(*time));
        Encoded::new(&histogram)
    };
    let all = times.concat();
    let count = all.len() as u64;
    let window = |times: &Vec<u64>| Window {
        sent: times.len() as u64 + 1,
        completed: times.len() as u64,
        ok: times.len() as u64,
        errors: 1,
        causes: BTreeMap::from([(Cause::ConnectRefused, 1)]),
        response_time: (!times.is_empty()).then(|| encoded(times, WINDOW_DIGITS)),
        ..Window::default()
    };
    let times_of_all = encoded(&all, TRIAL_DIGITS);
    LoadRecord {
        schema: RECORD_SCHEMA,
        event_loop: "epoll".into(),
        workers: 2,
        started_unix_ns: started_ns + 7,
        started_ns,
        measured_ns: 400,
        counts: Counts {
            scheduled: count + 4,
            sent: count + 4,
            completed: count,
            ok: count,
            status: BTreeMap::from([(200, count)]),
            grpc: BTreeMap::from([("OK".into(), count.saturating_sub(1)), ("UNKNOWN".into(), 1)]),
            trailers_lost: 1,
            connect_errors: 4,
            causes: BTreeMap::from([(Cause::ConnectRefused, 4)]),
            errors: BTreeMap::from([("refused".into(), 4)]),
            ..Counts::default()
        },
        completed_in_time: count,
        lifetime: Lifetime { sent: count, completed: count, opened: 3 },
        connections: Connections { asked: 3, established: 3, ..Connections::default() },
        bytes: Bytes { sent: 10 * count, received: 20 * count, body: 5 * count },
        histograms: Histograms {
            response_time: times_of_all.clone(),
            service_time: times_of_all.clone(),
            send_lag: times_of_all.clone(),
            first_byte: times_of_all.clone(),
            connect: times_of_all.clone(),
            ..Histograms::default()
        },
        targets: vec![TargetRecord {
            name: "one".into(),
            scheduled: count,
            completed: count,
            ok: count,
            failed: 0,
            response_time: times_of_all.clone(),
            service_time: times_of_all,
        }],
        cpu: GeneratorCpu { used_ns: count, busiest_worker_ns: count },
        rss_bytes_max: 100,
        windows: times.iter().map(window).collect(),
        ..LoadRecord::default()
    }
}

fn merged(parts: &[LoadRecord]) -> LoadRecord {
    merge(parts).expect("readable").expect("there are parts")
}

/// Splits random response times between three generators. Their sum must equal the record of all times.
#[test]
fn counts_and_histograms_add_up_exactly() {
    let mut random = Random::new(3);
    let mut all: [Vec<u64>; WINDOWS] = Default::default();
    let mut split: [[Vec<u64>; WINDOWS]; 3] = Default::default();
    for _ in 0..5000 {
        let (window, part) = (random.below(WINDOWS as u64) as usize, random.below(3) as usize);
        let time = (20_000.0 + 50_000.0 * random.exponential()) as u64;
        all[window].push(time);
        split[part][window].push(time);
    }
    let parts = split.map(|times| record(&times, 1_000));
    let (sum, whole) = (merged(&parts), record(&all, 1_000));
    assert_eq!(sum.histograms, whole.histograms);
    assert_eq!((sum.completed_in_time, sum.bytes), (5000, whole.bytes));
    assert_eq!((sum.counts.scheduled, sum.counts.completed, sum.counts.connect_errors), (5012, 5000, 12));
    assert_eq!(sum.counts.errors, BTreeMap::from([("refused".into(), 12)]));
    assert_eq!(sum.counts.causes, BTreeMap::from([(Cause::ConnectRefused, 12)]));
    assert_eq!(sum.counts.grpc, BTreeMap::from([("OK".into(), 4997), ("UNKNOWN".into(), 3)]));
    assert_eq!(sum.counts.trailers_lost, 3);
    assert_eq!((sum.workers, sum.connections.asked, sum.lifetime.opened), (6, 9, 9));
    assert_eq!((sum.cpu.used_ns, sum.rss_bytes_max), (5000, 300));
    assert!(parts.iter().any(|part| part.cpu.busiest_worker_ns == sum.cpu.busiest_worker_ns));
    assert_eq!(
        (sum.targets[0].completed, &sum.targets[0].response_time),
        (5000, &whole.targets[0].response_time)
    );
    assert_eq!(sum.windows.len(), WINDOWS);
    for (index, (sum, whole)) in sum.windows.iter().zip(&whole.windows).enumerate() {
        assert_eq!(sum.response_time, whole.response_time, "window {index}");
        assert_eq!((sum.completed, sum.sent, sum.errors), (whole.completed, whole.completed + 3, 3));
        assert_eq!(sum.causes, BTreeMap::from([(Cause::ConnectRefused, 3)]));
    }
}

#[test]
fn the_measured_time_covers_all_parts() {
    let times = [vec![5_000], vec![], vec![], vec![7_000]];
    let (first, mut last) = (record(&times, 1_000), record(&times, 1_010));
    (last.measured_ns, last.interrupted) = (600, true);
    last.windows.truncate(1);
    let sum = merged(&[first, last]);
    assert_eq!((sum.started_ns, sum.measured_ns, sum.started_unix_ns), (1_000, 610, 1_007));
    assert!(sum.interrupted);
    let completed: Vec<u64> = sum.windows.iter().map(|window| window.completed).collect();
    assert_eq!(completed, [2, 0, 0, 1], "the last part ended early");
}

#[test]
fn a_clock_is_kept_only_if_all_parts_have_it() {
    let stamped = |boot: &str| {
        let clock = Some(ClockId { boot_id: boot.into(), offset_ns: 0 });
        let stamps = Some(StampTally { used: 3, missing: 1, impossible: 2, clock });
        LoadRecord { stamps, ..record(&Default::default(), 0) }
    };
    let of = |boots: [&str; 3]| merged(&boots.map(stamped)).stamps.expect("stamped");
    let same = of(["a", "a", "a"]);
    assert_eq!((same.used, same.missing, same.impossible), (9, 3, 6));
    assert!(same.clock.is_some_and(|clock| clock.boot_id == "a"));
    for boots in [["a", "a", "b"], ["a", "b", "a"], ["a", "b", "b"]] {
        assert_eq!(of(boots).clock, None, "{boots:?}");
    }
}

#[test]
fn http2_counts_are_added_and_limits_are_the_smallest() {
    let times = |time: u64| [vec![time], vec![], vec![], vec![]];
    let part = |stream_limit, most_streams, wait: u64| {
        let http2 = Http2Tally {
            stream_limit,
            most_streams,
            goaways: 1,
            calmed: 2,
            resets: 3,
            refused: 4,
            unprocessed: 5,
            window_stalled_ns: 6,
            stream_ns: 7,
            overtaken: 8,
        };
        let mut part = record(&times(1_000), 1_000);
        let waits = record(&times(wait), 1_000).histograms.send_lag;
        let histograms = &mut part.histograms;
        (histograms.connection_wait, histograms.stream_wait) = (Some(waits.clone()), Some(waits.clone()));
        histograms.window_wait = Some(waits);
        LoadRecord { http2: Some(http2), ..part }
    };
    let sum = merged(&[part(None, 8, 10_000), part(Some(100), 3, 20_000), part(Some(10), 9, 30_000)]);
    let expected = Http2Tally {
        stream_limit: Some(10),
        most_streams: 9,
        goaways: 3,
        calmed: 6,
        resets: 9,
        refused: 12,
        unprocessed: 15,
        window_stalled_ns: 18,
        stream_ns: 21,
        overtaken: 24,
    };
    assert_eq!(sum.http2, Some(expected));
    let waits = [sum.histograms.connection_wait, sum.histograms.stream_wait, sum.histograms.window_wait];
    for waits in waits {
        let waits = waits.expect("all parts have it").decode().expect("readable");
        assert_eq!((waits.len(), waits.max() / 1_000), (3, 30));
    }
    let plain = merged(&[record(&times(1_000), 1_000), record(&times(1_000), 1_000)]);
    assert_eq!((plain.http2, plain.histograms.stream_wait), (None, None), "HTTP/1 has none");
}

#[test]
fn tokens_are_added_if_there_are_any() {
    let times = |time: u64| record(&[vec![time], vec![], vec![], vec![]], 0).histograms.connect;
    let none = MessagesRecord::default();
    let some = |ended, time| {
        let [first_event, first_age, per_token] = [time, 2 * time, 3 * time].map(times);
        let good = Some(ended);
        let counts = TokenCounts { ended, usage: 1, usage_tokens: 20, good, ..TokenCounts::default() };
        let histograms = TokenHistograms { first_event, first_age, per_token };
        MessagesRecord { tokens: Some(TokensRecord { counts, histograms }), ..none.clone() }
    };
    assert_eq!(tokens(&[&none, &none]).expect("readable"), None);
    let sum = tokens(&[&some(2, 1_000), &none, &some(3, 2_000)]);
    let found = sum.expect("readable").expect("two parts have tokens");
    let good = Some(5);
    let expected = TokenCounts { ended: 5, usage: 2, usage_tokens: 40, good, ..TokenCounts::default() };
    assert_eq!(found.counts, expected);
    let TokenHistograms { first_event, first_age, per_token } = found.histograms;
    let [event, age, token] = [first_event, first_age, per_token].map(|times| {
        let times = times.decode().expect("readable");
        (times.len(), times.max() / 1_000)
    });
    assert_eq!((event, age, token), ((2, 2), (2, 4), (2, 6)));
}

#[test]
fn an_unreadable_histogram_is_an_error() {
    assert_eq!(merge(&[]).expect("nothing to read"), None);
    let good = record(&Default::default(), 0);
    let mut bad = good.clone();
    bad.histograms.connect = Encoded("no".into());
    assert!(merge(&[good, bad]).is_err());
}

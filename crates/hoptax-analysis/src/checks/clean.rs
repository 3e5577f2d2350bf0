//! Tests that a run without mistakes raises no findings. The runs are generated with every kind of load and
//! with the noise of real machines.
//!
//! The generated figures are consistent, like those of the load generator. In a closed loop, throughput ×
//! mean response time equals the number of connections. The windows add up to the throughput. Each answer has
//! a response time.

use crate::fixture::{MadeTrial, Run, closed_point, open_point, staged_point, via};
use hoptax_format::clock::SECOND;
use hoptax_format::histogram::{Encoded, TRIAL_DIGITS, WINDOW_DIGITS, empty};
use hoptax_format::random::Random;
use hoptax_format::record::{Connections, Http2Tally, Lifetime, LoadRecord, Window};
use hoptax_format::spec::{Arrivals, HttpVersion, Rate, Shape};
use hoptax_plan::{LoadPoint, Target};
use std::collections::BTreeMap;

const SECONDS: u64 = 5;
const WINDOWS: u64 = SECONDS * 10;
const ROUNDS: u32 = 4;
/// Direct's response time, µs.
const BASE: f64 = 120.0;
const GATEWAYS: [(&str, f64); 2] = [("nginx", 40.0), ("haproxy", 60.0)];

fn loads() -> Vec<LoadPoint> {
    let closed = |connections| closed_point(connections, SECONDS);
    let open = |arrivals| LoadPoint {
        shape: Shape::Open { rate: Rate::Fixed(1000.0), arrivals },
        ..open_point(1000.0, 64, SECONDS)
    };
    vec![
        closed(1),
        closed(32),
        LoadPoint { requests_per_connection: Some(1), ..closed(16) },
        LoadPoint { requests_per_connection: Some(100), ..closed(16) },
        LoadPoint { http: HttpVersion::Http10, ..closed(8) },
        open(Arrivals::Constant),
        open(Arrivals::Jitter(0.1)),
        open(Arrivals::Poisson),
        staged_point("500/s for 2s, ramp to 3000/s over 3s", 32),
        LoadPoint { http: HttpVersion::Http2, streams: 8, ..closed(8) },
    ]
}

/// A nearly normal random value: the sum of twelve uniform values, minus six.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// The machine's speed in each window of a trial. The speed varies at random, and sometimes the machine
/// stalls for a few windows.
fn speeds(random: &mut Random) -> Vec<f64> {
    let mut stalled = 0u32;
    let mut window = || {
        if random.unit() < 0.02 {
            stalled = 1 + random.below(3) as u32;
        }
        let slow = if stalled > 0 { 0.6 } else { 1.0 };
        stalled = stalled.saturating_sub(1);
        slow * (1.0 + 0.04 * normal(random))
    };
    (0..WINDOWS).map(|_| window().max(0.1)).collect()
}

/// For each window, the number of requests, and their response time in µs.
fn windows(load: &LoadPoint, typical_us: f64, random: &mut Random) -> Vec<(u64, f64)> {
    let speeds = speeds(random);
    let of = |(index, speed): (usize, &f64)| {
        let took = typical_us / speed;
        let due = match &load.shape {
            Shape::Closed => load.concurrency() as f64 * 1e5 / took,
            Shape::Open { rate: Rate::Fixed(rate), .. } => rate / 10.0,
            Shape::Open { rate, .. } => rate.highest() * (index + 1) as f64 / WINDOWS as f64 / 10.0,
        };
        (due as u64, took)
    };
    speeds.iter().enumerate().map(of).collect()
}

/// A histogram of the response times in all windows. The response times of a window have ten values around
/// its typical response time, with a longer tail above it.
fn times(windows: &[(u64, f64)], digits: u8) -> Encoded {
    let mut histogram = empty(digits);
    let shape = [0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.15, 1.2, 1.4];
    for (requests, took) in windows {
        let each = requests / shape.len() as u64;
        for (index, part) in shape.iter().enumerate() {
            let rest = if index == 0 { requests % shape.len() as u64 } else { 0 };
            histogram.record_n((took * part * 1e3) as u64, each + rest).expect("in range");
        }
    }
    Encoded::new(&histogram)
}

fn trial(
    run: &Run,
    contender: &str,
    round: u32,
    load: u32,
    typical_us: f64,
    random: &mut Random,
) -> MadeTrial {
    let point = &run.record.load[load as usize];
    let windows = windows(point, typical_us, random);
    let completed: u64 = windows.iter().map(|(requests, _)| requests).sum();
    let mut made = via(contender, round).at_load(load);
    let opened = point.requests_per_connection.map_or(0, |limit| completed / u64::from(limit));
    fill(made.0.load_record.as_mut().expect("made with one"), point, &windows, completed, opened);
    let ledger = made.0.ledger.as_mut().expect("made with one");
    ledger.requests = completed;
    ledger.by_instance = vec![completed / 2 + completed % 2, completed / 2];
    let version = match (contender, point.http) {
        ("direct", HttpVersion::Http10) => "1.0",
        ("direct", HttpVersion::Http2) => "2",
        _ => "1.1",
    };
    ledger.http_version = BTreeMap::from([(version.into(), completed)]);
    ledger.connections = if contender == "direct" { u64::from(point.connections) + opened } else { 8 };
    made.0.upstream.as_mut().expect("made with one").cpu_ns = SECOND;
    if point.http == HttpVersion::Http2 {
        let stream_ns = u64::from(point.streams) * SECONDS * SECOND;
        let tally =
            Http2Tally { stream_limit: Some(100), most_streams: 8, stream_ns, ..Http2Tally::default() };
        made = made.http2(tally).waits_us(0, 0, 0);
    }
    if let Some(gateway) = &mut made.0.gateway {
        let mut bytes = 12 << 20;
        let mut grow = |window: u64| {
            // Buffers fill in the first second. After that, memory only changes by single pages.
            bytes += if window < 10 { 40 << 10 } else { 0 };
            bytes + random.below(3) * 4096
        };
        gateway.rss_bytes_by_window = (0..WINDOWS).map(&mut grow).collect();
        gateway.rss_bytes_max = bytes + (2 << 12);
    }
    made
}

fn fill(record: &mut LoadRecord, point: &LoadPoint, windows: &[(u64, f64)], completed: u64, opened: u64) {
    record.measured_ns = SECONDS * SECOND;
    record.counts.scheduled = completed;
    record.counts.sent = completed;
    record.counts.completed = completed;
    record.counts.ok = completed;
    record.counts.status = BTreeMap::from([(200, completed)]);
    record.completed_in_time = completed;
    record.lifetime = Lifetime { sent: completed, completed, opened: u64::from(point.connections) + opened };
    let connections = u64::from(point.connections);
    record.connections = Connections {
        asked: connections,
        established: connections,
        opened,
        reused: completed - opened,
        ..Connections::default()
    };
    record.bytes.body = completed * 1024;
    record.bytes.received = completed * 1100;
    record.cpu.busiest_worker_ns = SECONDS * SECOND / 2;
    record.histograms.response_time = times(windows, TRIAL_DIGITS);
    record.histograms.service_time = record.histograms.response_time.clone();
    let seen = |window: &(u64, f64)| Window {
        sent: window.0,
        completed: window.0,
        ok: window.0,
        response_time: Some(times(&[*window], WINDOW_DIGITS)),
        ..Window::default()
    };
    record.windows = windows.iter().map(seen).collect();
}

/// A run with rounds of every load. The machine's speed drifts by a few per cent.
fn run(seed: u64, targets: u32) -> Run {
    let mut random = Random::new(seed);
    let mut run = Run::with_load(loads());
    run.record.plan.targets = (0..targets).map(|index| Target::get(&format!("/{index}"))).collect();
    let mut machine = 1.0;
    for round in 0..ROUNDS {
        for load in 0..run.record.load.len() as u32 {
            machine = f64::clamp(machine * (1.0 + 0.01 * normal(&mut random)), 0.95, 1.05);
            let first = trial(&run, "direct", round, load, BASE * machine, &mut random).first();
            run.push(first);
            for (gateway, added) in GATEWAYS {
                let typical = (BASE + added) * machine * (1.0 + 0.01 * normal(&mut random));
                let made = trial(&run, gateway, round, load, typical, &mut random);
                run.push(made);
            }
            let last = trial(&run, "direct", round, load, BASE * machine, &mut random).last();
            run.push(last);
        }
    }
    run
}

#[test]
fn clean_runs_raise_nothing() {
    for seed in 0..2 {
        let findings = run(seed, 1 + seed as u32).analyse().findings;
        let doubts: Vec<_> = findings
            .iter()
            // A tax on the p99 may be too small to distinguish from noise. This finding is then correct, and
            // not a false alarm.
            .filter(|finding| finding.code != "not-distinguishable")
            .map(|finding| (finding.code, finding.case.as_deref(), &finding.message))
            .collect();
        assert!(doubts.is_empty(), "seed {seed}: {doubts:#?}");
    }
}

/// Adds one mistake at a time to two loads of the same run. Each mistake must raise its own finding and no
/// other finding.
#[test]
fn one_mistake_raises_its_own_finding_and_no_other() {
    type Plant = (&'static str, fn(&mut LoadRecord));
    let plants: [Plant; 4] = [
        ("unasked", |load| load.connections.unasked = 3),
        ("impossible", |load| load.counts.in_flight += 1),
        ("keepalive-lost", |load| {
            load.connections.opened = load.counts.sent;
            load.lifetime.opened = load.counts.sent;
        }),
        ("different-work", |load| load.bytes.body -= load.bytes.body / 20),
    ];
    let mut clean = run(9, 1);
    clean.record.load.truncate(2);
    clean.trials.retain(|trial| trial.load < 2);
    for (code, plant) in plants {
        let trials = clean.trials.clone();
        let mut run = Run { record: clean.record.clone(), trials, starts: Vec::new(), tails: Vec::new() };
        for trial in run.trials.iter_mut().filter(|trial| trial.contender == "haproxy" && trial.load == 1) {
            plant(trial.load_record.as_mut().expect("loaded"));
        }
        let findings = run.analyse().findings;
        let codes: Vec<(&str, Option<&str>)> = findings
            .iter()
            .filter(|finding| finding.code != "not-distinguishable")
            .map(|finding| (finding.code, finding.case.as_deref()))
            .collect();
        assert_eq!(codes, [(code, Some("haproxy, closed loop, 32 connections"))]);
    }
}

//! Tests the upstream's timestamps. The server in these tests also adds up the time that it takes itself.

use super::*;
use crate::clock;
use hoptax_format::stamp::{BLANK, HEADER, LENGTH, Stamp};

/// Adds timestamps to its responses, except to one of every `every` responses. Also adds up the server's own
/// time.
fn stamping(every: u64) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    let head = format!("HTTP/1.1 200 OK\r\n{HEADER}: {BLANK}\r\ncontent-length: 5\r\n\r\nhello").into_bytes();
    move |mut connection, own_time| {
        let mut answer = head.clone();
        let at = answer.windows(LENGTH).position(|part| part == BLANK.as_bytes()).expect("room");
        let mut answered = 0;
        while request(&mut connection) {
            answered += 1;
            let received = clock::now();
            thread::sleep(Duration::from_micros(300));
            let replied = clock::now();
            own_time.fetch_add(replied - received, Ordering::Relaxed);
            let stamp = Stamp { received, replied };
            stamp.write((&mut answer[at..at + LENGTH]).try_into().expect("as long as a stamp"));
            let bytes: &[u8] = if answered % every == 0 { OK } else { &answer };
            if connection.write_all(bytes).is_err() {
                return;
            }
        }
    }
}

fn total(encoded: &Encoded) -> f64 {
    let histogram = encoded.decode().expect("our own");
    histogram.mean() * histogram.len() as f64
}

#[test]
fn both_paths_and_the_servers_own_time_add_up_to_the_service_time() {
    for workers in [1, 2] {
        let server = Server::new(stamping(u64::MAX));
        let spec = LoadSpec { stamps: true, workers, ..spec(&[server.address]) };
        let record = load(&until_done(400, spec));
        let stamps = record.stamps.expect("requested");
        assert_eq!((stamps.used, stamps.missing, stamps.impossible), (400, 0, 0));
        assert_eq!(stamps.clock, hoptax_format::stamp::ClockId::here());
        let histograms = &record.histograms;
        let there = histograms.request_path.as_ref().expect("requested");
        let back = histograms.response_path.as_ref().expect("requested");
        let own = server.requests.load(Ordering::Relaxed) as f64;
        let (parts, whole) = (total(there) + own + total(back), total(&histograms.service_time));
        // Each histogram can be wrong by up to 0.1 %, and does not distinguish values below 100 ns from zero.
        let error = 0.002 * whole + 400.0 * 200.0;
        assert!((parts - whole).abs() <= error, "{parts} of {whole}, {workers} workers");
    }
}

#[test]
fn responses_without_timestamps_are_counted_and_recorded_in_no_path() {
    let server = Server::new(stamping(4));
    let spec = LoadSpec { stamps: true, connections: 1, ..spec(&[server.address]) };
    let record = load(&until_done(40, spec));
    let stamps = record.stamps.expect("requested");
    assert_eq!((stamps.used, stamps.missing, stamps.impossible), (30, 10, 0));
    let length =
        |encoded: &Option<Encoded>| encoded.as_ref().expect("requested").decode().expect("our own").len();
    assert_eq!((length(&record.histograms.request_path), length(&record.histograms.response_path)), (30, 30));
}

#[test]
fn timestamps_that_were_not_requested_are_ignored() {
    let server = Server::new(stamping(u64::MAX));
    let record = load(&until_done(20, spec(&[server.address])));
    assert_eq!((record.counts.ok, record.stamps), (20, None));
    assert_eq!((record.histograms.request_path, record.histograms.response_path), (None, None));
}

#[test]
fn a_late_response_to_an_earlier_request_contradicts_the_clock() {
    let stale = |mut connection: TcpStream, _: &AtomicU64| {
        let stale = Stamp { received: 1, replied: clock::now() };
        let mut value = *b"0000000000000000000 0000000000000000000";
        stale.write(&mut value);
        let value = String::from_utf8_lossy(&value).into_owned();
        let answer = format!("HTTP/1.1 200 OK\r\n{HEADER}: {value}\r\ncontent-length: 0\r\n\r\n");
        while request(&mut connection) && connection.write_all(answer.as_bytes()).is_ok() {}
    };
    let server = Server::new(stale);
    let record = load(&until_done(20, LoadSpec { stamps: true, ..spec(&[server.address]) }));
    let stamps = record.stamps.expect("requested");
    assert_eq!((stamps.used, stamps.missing, stamps.impossible), (0, 0, 20));
}

#[test]
fn moments_are_kept_up_to_their_number_and_agree_with_the_histograms() {
    for workers in [1, 2] {
        let server = Server::new(stamping(u64::MAX));
        let spec = LoadSpec { stamps: true, moments: Some(100), workers, ..spec(&[server.address]) };
        let record = load(&until_done(400, spec));
        let moments = record.moments.expect("requested");
        assert_eq!((moments.requests.len(), moments.left_out), (100, 300), "{workers} workers");
        assert_eq!(moments.process, std::process::id());
        let in_order = |one: &hoptax_format::moments::Moment| {
            [one.scheduled, one.sent, one.received, one.replied, one.completed].is_sorted()
        };
        assert!(moments.requests.iter().all(in_order) && moments.requests.is_sorted());
        let mut threads: Vec<u32> = moments.requests.iter().map(|one| one.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        assert_eq!(threads.len(), workers as usize);
    }
    let server = Server::new(stamping(u64::MAX));
    let spec = LoadSpec { stamps: true, moments: Some(1_000), ..spec(&[server.address]) };
    let record = load(&until_done(200, spec.clone()));
    let moments = record.moments.expect("requested");
    assert_eq!((moments.requests.len(), moments.left_out), (200, 0));
    let sum: f64 = moments.requests.iter().map(|one| one.response_time() as f64).sum();
    let recorded = total(&record.histograms.response_time);
    assert!((sum - recorded).abs() <= 0.002 * recorded + 200.0 * 200.0, "{sum} and {recorded}");
    let record = load(&until_done(20, LoadSpec { stamps: true, moments: None, ..spec }));
    assert_eq!(record.moments, None);
}

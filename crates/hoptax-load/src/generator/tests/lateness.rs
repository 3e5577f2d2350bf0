//! What a stall of the server costs: nothing of it is hidden, and what never left is counted.

use super::*;
use std::sync::Mutex;

const RATE: u64 = 1000;

/// A server that answers at once, but for one stall, and knows when it did what.
#[derive(Default)]
struct Staller {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// When each request was answered, in order.
    answered: Vec<u64>,
    /// From when to when nothing was.
    stall: Option<(u64, u64)>,
}

impl Staller {
    /// A server that stalls for `stall` before it answers the request `at`.
    fn serve(at: usize, stall: Duration) -> (Server, Arc<Self>) {
        let staller = Arc::new(Self::default());
        let shared = Arc::clone(&staller);
        let server = Server::new(move |mut connection: TcpStream, _: &AtomicU64| {
            while request(&mut connection) {
                // All connections answer one after the other, so that all of them stall.
                let mut books = shared.books.lock().expect("nobody panics with it");
                if books.answered.len() == at && books.stall.is_none() {
                    let began = clock::now();
                    thread::sleep(stall);
                    books.stall = Some((began, clock::now()));
                }
                books.answered.push(clock::now());
                if connection.write_all(OK).is_err() {
                    return;
                }
            }
        });
        (server, staller)
    }
}

fn stalled(choice: Choice, at: usize, stall: Duration, duration_ns: u64) -> (LoadRecord, Books) {
    let (server, staller) = Staller::serve(at, stall);
    let spec = LoadSpec {
        shape: open(RATE as f64, Arrivals::Constant),
        connections: 16,
        duration_ns,
        event_loop: choice,
        ..spec(&[server.address])
    };
    let record = load(&spec);
    let books = std::mem::take(&mut *staller.books.lock().expect("nobody panics with it"));
    assert_eq!(books.answered.len() as u64, record.counts.completed);
    assert_eq!(record.counts.completed + record.counts.unsent, record.counts.scheduled);
    (record, books)
}

/// Moments of the requests, from the beginning of the measured time.
fn due(record: &LoadRecord, index: u64) -> u64 {
    record.started_ns + index * SECOND / RATE
}

fn within(found: u64, expected: u64, share: f64) -> bool {
    found.abs_diff(expected) as f64 <= expected as f64 * share
}

#[test]
fn a_stall_makes_everything_late_that_was_due_in_it() {
    for choice in [Choice::Epoll, Choice::IoUring] {
        if choice.choose().is_err() {
            eprintln!("{choice:?} left out, as it cannot be had");
            continue;
        }
        let (record, books) = stalled(choice, 20, Duration::from_secs(1), 1300 * MILLISECOND);
        let (began, ended) = books.stall.expect("it stalled");
        let histogram = record.histograms.response_time.decode().expect("our own");

        // What the server says of itself: requests are answered in the order in which they were due.
        let mut waited: Vec<u64> =
            (0..).zip(&books.answered).map(|(index, answered)| answered - due(&record, index)).collect();
        waited.sort_unstable();
        for quantile in [0.5, 0.9, 0.99] {
            let expected = waited[(quantile * waited.len() as f64).ceil() as usize - 1];
            let found = histogram.value_at_quantile(quantile);
            assert!(within(found, expected, 0.02), "p{quantile}: {found} ns, not {expected}");
        }

        // What follows from the stall's length alone: the slowest hundredth were due in its first moments.
        let slowest = record.counts.completed - (0.99 * record.counts.completed as f64).ceil() as u64;
        let expected = ended - began - slowest * SECOND / RATE;
        let found = histogram.value_at_quantile(0.99);
        assert!(within(found, expected, 0.02), "p99: {found} ns, not {expected}");

        // Everything due in it, but for its last 50 ms, is late by more than that.
        let late = histogram.count_between(50 * MILLISECOND, u64::MAX);
        let surely = (ended - began).saturating_sub(50 * MILLISECOND) * RATE / SECOND;
        let at_least = surely.min(record.counts.completed - 21);
        assert!(late + 1 >= at_least, "{late} late, at least {at_least} must be");
        assert!(at_least >= 940, "a stall of a second");
        let at_most = waited.iter().filter(|waited| **waited >= 40 * MILLISECOND).count() as f64 * 1.02;
        assert!(late as f64 <= at_most, "{late} late, at most {at_most} can be");
    }
}

#[test]
fn the_wait_in_line_is_send_lag_and_response_time_but_not_service_time() {
    let (record, books) = stalled(Choice::Auto, 20, Duration::from_millis(400), 600 * MILLISECOND);
    let (began, ended) = books.stall.expect("it stalled");
    let over = |encoded: &Encoded, milliseconds: u64| {
        let histogram = encoded.decode().expect("our own");
        histogram.count_between(milliseconds * MILLISECOND, u64::MAX)
    };
    let Histograms { response_time, send_lag, service_time, .. } = &record.histograms;
    let late = over(response_time, 50);
    assert!(late * SECOND / RATE + 55 * MILLISECOND >= ended - began, "{late} late");
    // Only what each connection had under way was with the server; a response time is the one and the other.
    let with_server = over(service_time, 25);
    assert!(with_server >= 16 && with_server < late / 4, "{with_server} of {late}");
    assert!(over(send_lag, 24) + with_server >= late);
}

#[test]
fn what_never_left_is_unsent() {
    // The stall outlasts the measured time: what the connections carry is waited for, and no more.
    let (record, books) = stalled(Choice::Auto, 100, Duration::from_millis(600), 400 * MILLISECOND);
    let (began, ended) = books.stall.expect("it stalled");
    assert!(ended > record.started_ns + record.measured_ns);
    assert_eq!(record.counts.scheduled, 400);
    assert_eq!(record.counts.completed, 116, "what came before, and one for each connection");
    assert_eq!(record.counts.unsent, 284);
    // The drain does not go on with the line: nothing is answered that was not under way.
    assert!(record.histograms.response_time.decode().expect("our own").max() >= ended - began);
}

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

/// The record of a load in which the server stalled, unless the machine stood still so long that it never came to that.
fn stalled(at: usize, stall: Duration, duration_ns: u64) -> Result<(LoadRecord, Books), String> {
    let (server, staller) = Staller::serve(at, stall);
    let spec = LoadSpec {
        shape: open(RATE as f64, Arrivals::Constant),
        connections: 16,
        duration_ns,
        ..spec(&[server.address])
    };
    let record = load(&spec);
    let books = std::mem::take(&mut *staller.books.lock().expect("nobody panics with it"));
    assert_eq!(books.answered.len() as u64, record.counts.completed);
    assert_eq!(record.counts.completed + record.counts.unsent, record.counts.scheduled);
    seen(books.stall.is_some(), || format!("no stall: {:?}", record.counts))?;
    Ok((record, books))
}

/// Moments of the requests, from the beginning of the measured time.
fn due(record: &LoadRecord, index: u64) -> u64 {
    record.started_ns + index * SECOND / RATE
}

fn within(found: u64, expected: u64, share: f64) -> bool {
    found.abs_diff(expected) as f64 <= expected as f64 * share
}

/// What must hold of every stall of a second, however busy the machine: nothing of it is hidden.
fn hides_nothing(record: &LoadRecord, books: &Books) {
    let (began, ended) = books.stall.expect("it stalled");
    let histogram = record.histograms.response_time.decode().expect("our own");
    let (found, expected) = (histogram.value_at_quantile(0.99), p99_of_stall(record, books));
    assert!(found as f64 >= expected as f64 * 0.98, "p99: {found} ns, not {expected}");
    // Everything due in it, but for its last 50 ms, is late by more than that. A stall that the machine made longer may go
    // on when nothing is due any more.
    let late = histogram.count_between(50 * MILLISECOND, u64::MAX);
    let last = (ended - 50 * MILLISECOND).min(record.started_ns + record.measured_ns);
    let surely = last.saturating_sub(began) * RATE / SECOND;
    let unsent = record.counts.unsent;
    assert!(late + 1 + unsent >= surely, "{late} late and {unsent} unsent, at least {surely} must be");
    assert!(ended - began >= SECOND, "a stall of a second");
}

/// What follows from the stall's length alone: the slowest hundredth were due in its first moments.
fn p99_of_stall(record: &LoadRecord, books: &Books) -> u64 {
    let (began, ended) = books.stall.expect("it stalled");
    let slowest = record.counts.completed - (0.99 * record.counts.completed as f64).ceil() as u64;
    ended - began - slowest * SECOND / RATE
}

/// What holds where nothing else held up generator or server: quantiles to within 2 % of the arithmetic, and as many late
/// responses.
fn is_right(record: &LoadRecord, books: &Books) -> Result<(), String> {
    let histogram = record.histograms.response_time.decode().expect("our own");
    // What the server says of itself: requests are answered in the order in which they were due.
    let mut waited: Vec<u64> =
        (0..).zip(&books.answered).map(|(index, answered)| answered - due(record, index)).collect();
    waited.sort_unstable();
    let of_server = |quantile: f64| waited[(quantile * waited.len() as f64).ceil() as usize - 1];
    let expected = [0.5, 0.9, 0.99].map(|quantile| (quantile, of_server(quantile)));
    for (quantile, expected) in expected.into_iter().chain([(0.99, p99_of_stall(record, books))]) {
        let found = histogram.value_at_quantile(quantile);
        if !within(found, expected, 0.02) {
            return Err(format!("p{quantile}: {found} ns, not {expected}"));
        }
    }
    let late = histogram.count_between(50 * MILLISECOND, u64::MAX);
    let at_most = waited.iter().filter(|waited| **waited >= 40 * MILLISECOND).count() as f64 * 1.02;
    if late as f64 > at_most { Err(format!("{late} late, at most {at_most} can be")) } else { Ok(()) }
}

#[test]
fn a_stall_makes_everything_late_that_was_due_in_it() {
    // A machine that does much else adds to a stall now and then.
    retry_if_disturbed(|| {
        let (record, books) = stalled(20, Duration::from_secs(1), 1300 * MILLISECOND)?;
        hides_nothing(&record, &books);
        is_right(&record, &books)
    });
}

#[test]
fn the_wait_in_line_is_send_lag_and_response_time_but_not_service_time() {
    let over = |encoded: &Encoded, milliseconds: u64| {
        let histogram = encoded.decode().expect("our own");
        histogram.count_between(milliseconds * MILLISECOND, u64::MAX)
    };
    retry_if_disturbed(|| {
        let (record, books) = stalled(20, Duration::from_millis(400), 600 * MILLISECOND)?;
        let (began, ended) = books.stall.expect("it stalled");
        let Histograms { response_time, send_lag, service_time, .. } = &record.histograms;
        let late = over(response_time, 50);
        seen(late * SECOND / RATE + 55 * MILLISECOND >= ended - began, || format!("{late} late"))?;
        // Only what each connection had under way was with the server; a response time is the one and the other.
        let with_server = over(service_time, 25);
        assert!(over(send_lag, 24) + with_server >= late);
        seen(with_server >= 16 && with_server < late / 4, || format!("{with_server} of {late}"))
    });
}

#[test]
fn what_never_left_is_unsent() {
    // The stall outlasts the measured time: what the connections carry is waited for, and no more.
    retry_if_disturbed(|| {
        let (record, books) = stalled(100, Duration::from_millis(600), 400 * MILLISECOND)?;
        let (began, ended) = books.stall.expect("it stalled");
        assert!(ended > record.started_ns + record.measured_ns);
        assert_eq!(record.counts.scheduled, 400);
        // The drain does not go on with the line: nothing is answered that was not under way.
        assert!(record.histograms.response_time.decode().expect("our own").max() >= ended - began);
        assert!(record.counts.completed <= 116, "what came before, and one for each connection");
        // Fewer where the stall began when time was nearly up.
        let found = (record.counts.completed, record.counts.unsent);
        seen(found == (116, 284), || format!("{found:?}"))
    });
}

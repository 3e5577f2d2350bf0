//! Effects of a stalled server. The whole delay must be visible, and requests that could not be sent must be
//! counted as unsent.

use super::*;
use crate::clock;
use hoptax_wire::http2::Config;
use std::sync::Mutex;

const RATE: u64 = 1000;

/// A server that stalls once, and answers all other requests at once. It logs its own times.
#[derive(Default)]
struct Staller {
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    answered: Vec<u64>,
    stall: Option<(u64, u64)>,
}

impl Staller {
    /// Each connection calls this before it answers a request. All use one lock, so that all of them stall.
    fn answering(&self, at: usize, stall: Duration) {
        let mut log = self.log.lock().expect("not poisoned");
        if log.answered.len() == at && log.stall.is_none() {
            let began = clock::now();
            thread::sleep(stall);
            log.stall = Some((began, clock::now()));
        }
        log.answered.push(clock::now());
    }

    fn serve(http: HttpVersion, at: usize, stall: Duration) -> (Server, Arc<Self>) {
        let staller = Arc::new(Self::default());
        let shared = Arc::clone(&staller);
        let server = match http {
            HttpVersion::Http2 => http2::server(Config::default(), move |peer, stream| {
                shared.answering(at, stall);
                peer.answer(stream);
                true
            }),
            _ => Server::new(move |mut connection: TcpStream, _: &AtomicU64| {
                while request(&mut connection) {
                    shared.answering(at, stall);
                    if connection.write_all(OK).is_err() {
                        return;
                    }
                }
            }),
        };
        (server, staller)
    }
}

/// Runs a load during which the server stalls, with 16 requests in flight. Returns its record, or an error if
/// the machine was so slow that the server never stalled.
fn stalled(
    http: HttpVersion,
    at: usize,
    stall: Duration,
    duration_ns: u64,
) -> Result<(LoadRecord, Log), String> {
    let (server, staller) = Staller::serve(http, at, stall);
    let streams = if http == HttpVersion::Http2 { 4 } else { 1 };
    let spec = LoadSpec {
        http,
        shape: open(RATE as f64, Arrivals::Constant),
        connections: 16 / streams,
        streams,
        duration_ns,
        ..spec(&[server.address])
    };
    let record = load(&spec);
    let log = std::mem::take(&mut *staller.log.lock().expect("not poisoned"));
    assert_eq!(log.answered.len() as u64, record.counts.completed);
    assert_eq!(record.counts.completed + record.counts.unsent, record.counts.scheduled);
    seen(log.stall.is_some(), || format!("no stall: {:?}", record.counts))?;
    Ok((record, log))
}

fn due(record: &LoadRecord, index: u64) -> u64 {
    record.started_ns + index * SECOND / RATE
}

fn within(found: u64, expected: u64, share: f64) -> bool {
    found.abs_diff(expected) as f64 <= expected as f64 * share
}

/// Checks that the whole delay is visible. This must be true for any stall of one second, even on a busy
/// machine.
fn hides_nothing(record: &LoadRecord, log: &Log) {
    let (began, ended) = log.stall.expect("it stalled");
    let histogram = record.histograms.response_time.decode().expect("our own");
    let (found, expected) = (histogram.value_at_quantile(0.99), p99_of_stall(record, log));
    assert!(found as f64 >= expected as f64 * 0.98, "p99: {found} ns, not {expected}");
    // A request that was due during the stall, but not in its last 50 ms, is more than 50 ms late. If the
    // machine prolonged the stall, it can end after the last request was due.
    let late = histogram.count_between(50 * MILLISECOND, u64::MAX);
    let last = (ended - 50 * MILLISECOND).min(record.started_ns + record.measured_ns);
    let surely = last.saturating_sub(began) * RATE / SECOND;
    let unsent = record.counts.unsent;
    assert!(late + 1 + unsent >= surely, "{late} late and {unsent} unsent, at least {surely} must be");
    assert!(ended - began >= SECOND, "a stall of a second");
}

/// Calculates the p99 from the length of the stall. The first requests that were due after the stall began
/// are the slowest 1 % of all requests.
fn p99_of_stall(record: &LoadRecord, log: &Log) -> u64 {
    let (began, ended) = log.stall.expect("it stalled");
    let slowest = record.counts.completed - (0.99 * record.counts.completed as f64).ceil() as u64;
    ended - began - slowest * SECOND / RATE
}

/// Checks the record, assuming that the stall was the only delay. The quantiles must be within 2 % of the
/// calculated quantiles. The number of late responses may be at most 2 % above the number in the server's
/// log.
fn is_right(record: &LoadRecord, log: &Log) -> Result<(), String> {
    let histogram = record.histograms.response_time.decode().expect("our own");
    // Calculate the delays from the server's log. The server answers requests in the order in which they were
    // due.
    let mut waited: Vec<u64> =
        (0..).zip(&log.answered).map(|(index, answered)| answered - due(record, index)).collect();
    waited.sort_unstable();
    let of_server = |quantile: f64| waited[(quantile * waited.len() as f64).ceil() as usize - 1];
    let expected = [0.5, 0.9, 0.99].map(|quantile| (quantile, of_server(quantile)));
    for (quantile, expected) in expected.into_iter().chain([(0.99, p99_of_stall(record, log))]) {
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
fn a_stall_delays_all_requests_due_during_it() {
    for http in [HttpVersion::Http11, HttpVersion::Http2] {
        // A busy machine can make the stall longer.
        retry_if_disturbed(|| {
            let (record, log) = stalled(http, 20, Duration::from_secs(1), 1300 * MILLISECOND)?;
            hides_nothing(&record, &log);
            is_right(&record, &log)
        });
    }
}

#[test]
fn queueing_counts_as_send_lag_and_response_time_but_not_as_service_time() {
    let over = |encoded: &Encoded, milliseconds: u64| {
        let histogram = encoded.decode().expect("our own");
        histogram.count_between(milliseconds * MILLISECOND, u64::MAX)
    };
    retry_if_disturbed(|| {
        let (record, log) = stalled(HttpVersion::Http11, 20, Duration::from_millis(400), 600 * MILLISECOND)?;
        let (began, ended) = log.stall.expect("it stalled");
        let Histograms { response_time, send_lag, service_time, .. } = &record.histograms;
        let late = over(response_time, 50);
        seen(late * SECOND / RATE + 55 * MILLISECOND >= ended - began, || format!("{late} late"))?;
        // During the stall, the server had at most one request per connection. A response time is the sum of
        // queueing time and service time.
        let with_server = over(service_time, 25);
        assert!(over(send_lag, 24) + with_server >= late);
        seen(with_server >= 16 && with_server < late / 4, || format!("{with_server} of {late}"))
    });
}

#[test]
fn requests_that_were_not_sent_are_unsent() {
    // The stall is longer than the rest of the measured time. After the measured time, the generator only
    // waits for requests that are already on a connection.
    retry_if_disturbed(|| {
        let (record, log) = stalled(HttpVersion::Http11, 100, Duration::from_millis(600), 400 * MILLISECOND)?;
        let (began, ended) = log.stall.expect("it stalled");
        assert!(ended > record.started_ns + record.measured_ns);
        assert_eq!(record.counts.scheduled, 400);
        // Queued requests are not sent during the drain, so there are responses only to requests that were
        // sent before it.
        assert!(record.histograms.response_time.decode().expect("our own").max() >= ended - began);
        assert!(record.counts.completed <= 116, "requests before the stall, and one per connection");
        // Both counts are lower if the stall began near the end of the measured time.
        let found = (record.counts.completed, record.counts.unsent);
        seen(found == (116, 284), || format!("{found:?}"))
    });
}

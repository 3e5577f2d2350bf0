//! Servers that misbehave, each in its own way. They are tested with the whole engine, in a closed loop and
//! in an open loop.
//!
//! In every case, the engine must end within its own timeouts and must not panic. It must count each request
//! once, must not count a failure as a success, and must report the cause of each failure. Its memory must
//! remain bounded.

mod bodies;
mod endings;
mod floods;
mod heads;
mod memory;
mod oddities;
mod server;

use hoptax_format::record::{Cause, LoadRecord};
use hoptax_format::spec::{Arrivals, Chunked, LoadSpec, Rate, Shape, TargetSpec, Timeouts};
use hoptax_load::{LoadError, Watch, run};
use hoptax_testing::{note_retry, unless_it_hangs};
use server::{Behaviour, Peer, Server};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Number of requests of each load. If a load's requests are expected to time out, each connection gets one
/// request instead.
const REQUESTS: u64 = 4;
const CONNECTIONS: u32 = 2;
const MILLISECOND: u64 = 1_000_000;
/// Timeout for requests that must not time out, even on a slow machine.
const PATIENT: u64 = 20_000 * MILLISECOND;
/// Timeout for requests that are expected to time out. It is usually long enough for a server to start its
/// response.
const IMPATIENT: u64 = 1000 * MILLISECOND;
/// Maximum number of retries if the server could not start its response in time. Each retry multiplies the
/// timeout by [`MORE`].
const AGAIN: u32 = 2;
const MORE: u64 = 4;
const HANGS: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Fails(Cause),
    /// Every request fails with one of these causes. The cause depends on a race between the client and the
    /// server.
    FailsBy(&'static [Cause]),
    Answered(u16),
}

struct Case {
    name: &'static str,
    behaviour: Behaviour,
    outcome: Outcome,
    method: &'static str,
    body: usize,
    chunked: Option<Chunked>,
    timeout: u64,
}

fn case(name: &'static str, outcome: Outcome, behaviour: impl Fn(&mut Peer) + Send + Sync + 'static) -> Case {
    let timeout = match outcome {
        Outcome::Fails(Cause::ResponseTimeout | Cause::ReadTimeout | Cause::ConnectTimeout) => IMPATIENT,
        _ => PATIENT,
    };
    Case { name, behaviour: Arc::new(behaviour), outcome, method: "GET", body: 0, chunked: None, timeout }
}

/// A server that sends these bytes for each request. It closes the connection when the client sends no
/// further request.
fn answers(name: &'static str, outcome: Outcome, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Case {
    case(name, outcome, move |peer| while peer.request() && peer.write(&bytes) {})
}

/// A server that sends these bytes for one request and then closes the connection.
fn answers_once(
    name: &'static str,
    outcome: Outcome,
    bytes: impl AsRef<[u8]> + Send + Sync + 'static,
) -> Case {
    case(name, outcome, move |peer| {
        if peer.request() {
            peer.write(&bytes);
        }
    })
}

impl Case {
    fn requesting(self, method: &'static str, body: usize) -> Self {
        Self { method, body, ..self }
    }

    fn spec(&self, address: SocketAddr, shape: Shape) -> LoadSpec {
        let headers = vec![("host".to_owned(), "test".to_owned())];
        let target = TargetSpec::only(self.method, "/", headers, vec![b'x'; self.body]);
        LoadSpec {
            shape,
            connections: CONNECTIONS,
            duration_ns: 3_600_000 * MILLISECOND,
            requests: Some(self.requests()),
            timeouts: Timeouts::all(self.timeout),
            ..LoadSpec::closed(vec![address.into()], vec![TargetSpec { chunked: self.chunked, ..target }])
        }
    }

    fn requests(&self) -> u64 {
        if self.timeout < PATIENT { u64::from(CONNECTIONS) } else { REQUESTS }
    }

    /// True if the server did not start its response in time, because the machine was too slow.
    fn came_too_late(&self, record: &LoadRecord) -> bool {
        self.outcome == Outcome::Fails(Cause::ReadTimeout)
            && record.counts.causes.contains_key(&Cause::ResponseTimeout)
    }

    fn check(&self, record: &LoadRecord) {
        adds_up(record);
        let (counts, requests) = (&record.counts, self.requests());
        assert_eq!(counts.scheduled, requests, "{counts:?}");
        match self.outcome {
            Outcome::Fails(cause) => {
                assert_eq!(counts.causes, BTreeMap::from([(cause, requests)]), "{counts:?}");
            }
            Outcome::FailsBy(causes) => {
                assert!(counts.causes.keys().all(|cause| causes.contains(cause)), "{counts:?}");
                assert_eq!(counts.causes.values().sum::<u64>(), requests, "{counts:?}");
            }
            Outcome::Answered(status) => {
                assert_eq!(counts.status, BTreeMap::from([(status, requests)]), "{counts:?}");
                let ok = if (200..400).contains(&status) { requests } else { 0 };
                assert_eq!(counts.ok, ok, "{counts:?}");
            }
        }
    }
}

fn shapes() -> [Shape; 2] {
    [Shape::Closed, Shape::Open { rate: Rate::Fixed(200.0), arrivals: Arrivals::Constant }]
}

/// Number of cases that are tested at the same time. Most of them only wait for a timeout.
const AT_ONCE: usize = 4;

/// Runs each case in all shapes and checks the records. The loads of a case run at the same time, and each
/// load has its own server.
fn meet(cases: &[Case]) {
    for cases in cases.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for (case, shape) in cases.iter().flat_map(|case| shapes().map(|shape| (case, shape))) {
                scope.spawn(move || {
                    let server = Server::start(&case.behaviour);
                    let mut spec = case.spec(server.address, shape);
                    let name = format!("{}, {:?}", case.name, spec.shape);
                    println!("{name}");
                    let load_once = |spec: &LoadSpec| {
                        load(spec.clone()).unwrap_or_else(|error| panic!("{name}: {error}"))
                    };
                    let mut record = load_once(&spec);
                    for _ in 0..AGAIN {
                        if case.came_too_late(&record) {
                            note_retry(&format!("{name}: the server had no time to begin its response"));
                            spec.timeouts = Timeouts::all(spec.timeouts.total_ns * MORE);
                            record = load_once(&spec);
                        }
                    }
                    println!("{name}: {:?}", record.counts.errors);
                    case.check(&record);
                });
            }
        });
    }
}

/// Runs `spec`. Panics if this takes too long.
fn load(spec: LoadSpec) -> Result<LoadRecord, LoadError> {
    unless_it_hangs(HANGS, move || run(&spec, &AtomicBool::new(false), Watch::Phases, |_| {}))
}

/// Checks the properties that every record must have.
fn adds_up(record: &LoadRecord) {
    let counts = &record.counts;
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
    assert_eq!(counts.scheduled, counts.completed + failed + counts.unsent + counts.in_flight, "{counts:?}");
    assert_eq!(counts.status.values().sum::<u64>(), counts.completed, "{counts:?}");
    assert_eq!(counts.causes.values().sum::<u64>(), failed, "{counts:?}");
    assert_eq!(counts.errors.values().sum::<u64>(), failed, "{counts:?}");
    assert!(counts.ok <= counts.completed, "{counts:?}");
    assert!(!record.interrupted);
}

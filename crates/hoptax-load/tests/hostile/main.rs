//! Servers that do what servers must not, one behaviour each, against the whole engine as its users call it: in a closed and in
//! an open loop.
//!
//! Whatever a server does, the engine ends within its own timeouts, does not panic, counts each request once, takes nothing
//! for a success that is none, names the cause of each failure, and keeps its memory bounded.

#[path = "../support/awake.rs"]
mod awake;
mod bodies;
mod endings;
mod floods;
mod heads;
mod memory;
mod oddities;
mod server;

use awake::{note_retry, unless_it_hangs};
use hoptax_load::record::{Cause, LoadRecord};
use hoptax_load::spec::{
    Arrivals, EventLoopName, HttpVersion, LoadSpec, Rate, SPEC_SCHEMA, Shape, TargetSpec, Timeouts,
};
use hoptax_load::{LoadError, Watch, run};
use server::{Behaviour, Peer, Server};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Requests of each load; of one in which all time out, one for each connection.
const REQUESTS: u64 = 4;
const CONNECTIONS: u32 = 2;
const MILLISECOND: u64 = 1_000_000;
/// Given to whatever is expected to end by itself, on however busy a machine.
const PATIENT: u64 = 20_000 * MILLISECOND;
/// Given to whatever is expected not to: mostly enough for a server on a busy machine to have begun its answer…
const IMPATIENT: u64 = 1000 * MILLISECOND;
/// …and how often more is given where it was not, each time [`MORE`] times as much.
const AGAIN: u32 = 2;
const MORE: u64 = 4;
/// Beyond this the engine hangs.
const HANGS: Duration = Duration::from_secs(120);

/// What becomes of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It fails, each time for this cause.
    Fails(Cause),
    /// It fails, each time for one of these causes: which, is a race between two processes.
    FailsBy(&'static [Cause]),
    /// It is answered by this status.
    Answered(u16),
}

/// One behaviour, and what the engine must make of it.
struct Case {
    name: &'static str,
    behaviour: Behaviour,
    outcome: Outcome,
    method: &'static str,
    body: usize,
    timeout: u64,
}

/// A server that behaves like this to each connection.
fn case(name: &'static str, outcome: Outcome, behaviour: impl Fn(&mut Peer) + Send + Sync + 'static) -> Case {
    let timeout = match outcome {
        Outcome::Fails(Cause::ResponseTimeout | Cause::ReadTimeout | Cause::ConnectTimeout) => IMPATIENT,
        _ => PATIENT,
    };
    Case { name, behaviour: Arc::new(behaviour), outcome, method: "GET", body: 0, timeout }
}

/// A server that answers each request with these bytes, and closes when there are no more requests.
fn answers(name: &'static str, outcome: Outcome, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Case {
    case(name, outcome, move |peer| while peer.request() && peer.write(&bytes) {})
}

/// A server that answers one request with these bytes, and closes.
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
    fn asked(self, method: &'static str, body: usize) -> Self {
        Self { method, body, ..self }
    }

    fn spec(&self, address: SocketAddr, shape: Shape) -> LoadSpec {
        let headers = vec![("host".to_owned(), "test".to_owned())];
        LoadSpec {
            schema: SPEC_SCHEMA,
            addresses: vec![address.into()],
            sources: Vec::new(),
            tls: None,
            http: HttpVersion::Http11,
            requests_per_connection: None,
            targets: vec![TargetSpec::only(self.method, "/", headers, vec![b'x'; self.body])],
            files: BTreeMap::new(),
            shape,
            connections: CONNECTIONS,
            warmup_ns: 0,
            duration_ns: 3_600_000 * MILLISECOND,
            requests: Some(self.requests()),
            timeouts: Timeouts::all(self.timeout),
            workers: 1,
            cpus: Vec::new(),
            seed: 1,
            windows: true,
            stamps: false,
            event_loop: EventLoopName::Epoll,
        }
    }

    fn requests(&self) -> u64 {
        if self.timeout < PATIENT { u64::from(CONNECTIONS) } else { REQUESTS }
    }

    /// Whether the server had no time to begin its answer, though it was to: a machine that stands still takes it.
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

/// The shapes under which each behaviour is met.
fn shapes() -> [Shape; 2] {
    [Shape::Closed, Shape::Open { rate: Rate::Fixed(200.0), arrivals: Arrivals::Constant }]
}

/// Meets each server in each shape, both at once, and checks what the record says.
fn meet(cases: &[Case]) {
    for case in cases {
        thread::scope(|scope| {
            for shape in shapes() {
                scope.spawn(move || {
                    let server = Server::start(&case.behaviour);
                    let mut spec = case.spec(server.address, shape);
                    let told = format!("{}, {:?}", case.name, spec.shape);
                    println!("{told}");
                    let carry_out = |spec: &LoadSpec| {
                        load(spec.clone()).unwrap_or_else(|error| panic!("{told}: {error}"))
                    };
                    let mut record = carry_out(&spec);
                    for _ in 0..AGAIN {
                        if case.came_too_late(&record) {
                            note_retry(&format!("{told}: the server had no time to begin its answer"));
                            spec.timeouts = Timeouts::all(spec.timeouts.total_ns * MORE);
                            record = carry_out(&spec);
                        }
                    }
                    println!("{told}: {:?}", record.counts.errors);
                    case.check(&record);
                });
            }
        });
    }
}

/// Carries out `spec`, and panics if it hangs.
fn load(spec: LoadSpec) -> Result<LoadRecord, LoadError> {
    unless_it_hangs(HANGS, move || run(&spec, &AtomicBool::new(false), Watch::Phases, |_| {}))
}

/// What holds of every record.
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

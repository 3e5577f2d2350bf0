//! Tests a worker on a scripted event loop, so that the order of events is fixed.

use super::*;
use crate::clock;
use crate::event_loop::{Handler, Token};
use crate::target::Protocol;
use crate::worker::connects::CONNECTS_IN_A_ROW;
use hoptax_format::clock::SECOND;
use hoptax_format::spec::TargetSpec;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

mod chance;
mod streams;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const TIMEOUT: u64 = SECOND;

/// An event loop in which each connect succeeds at the next turn. If `answers` is true, every request gets a
/// response.
#[derive(Default)]
struct Script {
    /// Time that each connect blocks the caller.
    connect_takes: u64,
    connecting: Vec<Token>,
    most_connecting: usize,
    asked: Vec<Token>,
    answers: bool,
}

impl EventLoop for Script {
    fn connect(&mut self, token: Token, _: &Address, _: Option<IpAddr>) -> io::Result<()> {
        let until = clock::now() + self.connect_takes;
        while clock::now() < until {}
        self.connecting.push(token);
        self.most_connecting = self.most_connecting.max(self.connecting.len());
        Ok(())
    }

    fn listen(&mut self, _: Token, _: impl Into<crate::event_loop::ListeningSocket>) -> io::Result<()> {
        unreachable!("a worker does not listen")
    }

    fn send(&mut self, token: Token, _: &[u8]) -> io::Result<()> {
        self.asked.push(token);
        Ok(())
    }

    fn unsent(&self, _: Token) -> usize {
        0
    }

    fn is_connected(&self, token: Token) -> bool {
        !self.connecting.contains(&token)
    }

    fn pause(&mut self, _: Token) {}

    fn resume(&mut self, _: Token) {}

    fn finish(&mut self, _: Token) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self, token: Token) {
        self.asked.retain(|&asked| asked != token);
    }

    fn turn(&mut self, handler: &mut impl Handler<Self>, _: Option<u64>) -> io::Result<()> {
        for token in std::mem::take(&mut self.connecting) {
            handler.connected(self, token, Ok(()));
        }
        if self.answers {
            for token in std::mem::take(&mut self.asked) {
                handler.received(self, token, OK);
            }
        }
        Ok(())
    }
}

fn targets() -> [TargetSpec; 1] {
    [TargetSpec::only("GET", "/", vec![("host".into(), "test".into())], Vec::new())]
}

fn setup<'a>(addresses: &'a [Address], mix: &'a Mix<'a>) -> Setup<'a> {
    Setup {
        streams: 1,
        tls: None,
        proxy_protocol: None,
        tunnel: None,
        addresses,
        sources: &[],
        mix,
        most_leaving: 0,
        timeouts: spec::Timeouts::all(TIMEOUT),
        retry: spec::Retry::Off,
        spin: Spin::Never,
        stamps: false,
    }
}

fn opened<'a>(setup: &'a Setup<'a>, io: &mut Script, connections: u32) -> Worker<'a> {
    let mut worker = Worker::new(setup, (0, 1), connections, Recorder::new(false, 1));
    worker.open_all();
    while !worker.is_settled(0) {
        worker.turn(io, clock::now(), u64::MAX).expect("the script does not break");
    }
    assert_eq!(worker.established_count(), u64::from(connections));
    worker
}

/// Runs a trial on a simulated network for each seed. If a trial fails, prints its seed.
fn trials(seeds: std::ops::Range<u64>, trial: impl Fn(u64)) {
    // If the clock is stopped, timeouts depend only on the random events and not on the machine.
    clock::stop();
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trial(seed)));
        if let Err(panic) = outcome {
            eprintln!("failed with seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn a_response_that_arrived_in_time_is_no_timeout_however_late_it_is_read() {
    clock::stop();
    let (targets, files, addresses) =
        (targets(), BTreeMap::new(), [Address::from(SocketAddr::from(([127, 0, 0, 1], 1)))]);
    let mix = Mix::new(&targets, &files, 0, Protocol::default()).expect("valid");
    let setup = setup(&addresses, &mix);
    for (answers, completed, timeouts) in [(true, 3, 0), (false, 0, 3)] {
        let mut io = Script::default();
        let mut worker = opened(&setup, &mut io, 3);
        let start = clock::now();
        worker.recorder.measure(start, u64::MAX);
        worker.set_source(Source::Closed { start, end: u64::MAX, limit: 3 });
        worker.turn(&mut io, start, start).expect("the script does not break");
        assert_eq!(io.asked.len(), 3);
        io.answers = answers;
        // Advance the time far, as if this thread had stalled.
        let late = start + 10 * TIMEOUT;
        worker.turn(&mut io, late, late).expect("the script does not break");
        let counts = worker.finish(late).counts;
        assert_eq!((counts.completed, counts.timeouts), (completed, timeouts), "answers: {answers}");
    }
}

#[test]
fn connect_time_covers_one_connect_and_not_all_of_them() {
    clock::stop();
    let (targets, files, addresses) =
        (targets(), BTreeMap::new(), [Address::from(SocketAddr::from(([127, 0, 0, 1], 1)))]);
    let mix = Mix::new(&targets, &files, 0, Protocol::default()).expect("valid");
    let setup = setup(&addresses, &mix);
    let mut io = Script { connect_takes: MILLISECOND, ..Script::default() };
    let worker = opened(&setup, &mut io, 40);
    assert_eq!(io.most_connecting, CONNECTS_IN_A_ROW);
    let connect = worker.finish(clock::now()).histograms.connect;
    assert_eq!(connect.len(), 40);
    // In each batch, the result of the first connect is checked after all other connects have started. The
    // result of the last connect is checked at once.
    let spread = connect.max() - connect.min();
    assert!(spread >= (CONNECTS_IN_A_ROW as u64 - 2) * MILLISECOND, "{spread} ns");
}

#[test]
fn a_worker_spins_before_a_request_is_due_as_its_cpu_allows() {
    clock::stop();
    let (targets, files, addresses) =
        (targets(), BTreeMap::new(), [Address::from(SocketAddr::from(([127, 0, 0, 1], 1)))]);
    let mix = Mix::new(&targets, &files, 0, Protocol::default()).expect("valid");
    let interval = SECOND / 1000;
    for (spin, unloaded, loaded) in
        [(Spin::Never, 0, 0), (Spin::Unloaded, SPIN, 0), (Spin::Always, SPIN, SPIN)]
    {
        let setup = Setup { spin, ..setup(&addresses, &mix) };
        let mut io = Script::default();
        let mut worker = opened(&setup, &mut io, 2);
        let start = clock::now();
        worker.recorder.measure(start, u64::MAX);
        let pacer = |from, to| {
            let share = crate::pacer::Share { worker: 0, workers: 1 };
            let rate = &spec::Rate::Fixed(1000.0);
            Box::new(Pacer::new((rate, spec::Arrivals::Constant), share, 0, (from, to), None))
        };
        let first = start + interval;
        worker
            .set_source(Source::Open { warmup: pacer(start, start), measured: pacer(first, start + SECOND) });
        worker.turn(&mut io, start, u64::MAX).expect("the script does not break");
        let due = worker.deadline(start, u64::MAX) + unloaded;
        assert!((first..first + interval).contains(&due), "{spin:?}");
        worker.turn(&mut io, due, u64::MAX).expect("the script does not break");
        assert_eq!(io.asked.len(), 1, "{spin:?}");
        assert_eq!(worker.deadline(due, u64::MAX) + loaded, due + interval, "{spin:?}");
    }
}

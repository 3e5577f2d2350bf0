//! Several generators send the parts of one load.

use super::*;
use crate::clock;
use hoptax_format::merge::merge;

/// Runs the parts of a load. They begin to send `lead_ns` after all of them are connected.
fn run_parts(specs: &[LoadSpec], lead_ns: u64) -> Vec<Result<LoadRecord, LoadError>> {
    let (connected, all_connected) = mpsc::channel();
    thread::scope(|scope| {
        let run = |spec: &LoadSpec| {
            let (spec, connected) = (spec.clone(), connected.clone());
            let (order, start) = mpsc::channel();
            let observe = move |progress| {
                if phase(progress).phase == Phase::Connected {
                    connected.send(()).expect("the test waits");
                }
            };
            let load =
                scope.spawn(move || run_part(&spec, &AtomicBool::new(false), Watch::Phases, &start, observe));
            (order, load)
        };
        let running: Vec<_> = specs.iter().map(run).collect();
        for _ in specs {
            all_connected.recv_timeout(HANGS).expect("connected");
        }
        let start = clock::now().saturating_add_signed(lead_ns.cast_signed());
        running.iter().for_each(|(order, _)| order.send(start).expect("it waits"));
        running.into_iter().map(|(_, load)| load.join().expect("no panic")).collect()
    })
}

fn parts(whole: &LoadSpec, of: u32) -> Vec<LoadSpec> {
    (0..of).map(|index| LoadSpec { part: Some(LoadPart { index, of }), ..whole.clone() }).collect()
}

#[test]
fn parts_together_have_the_workers_and_connections_of_the_whole() {
    let whole =
        LoadSpec { workers: 2, connections: 100, ..spec(&["127.0.0.1:1".parse().expect("an address")]) };
    for of in [1, 3, 7] {
        let parts = parts(&whole, of);
        let mut places: Vec<u32> =
            parts.iter().flat_map(|part| [0, 1].map(|worker| part.place(worker))).collect();
        places.sort_unstable();
        assert_eq!(places, (0..2 * of).collect::<Vec<_>>());
        let connections: Vec<u32> = parts.iter().map(LoadSpec::own_connections).collect();
        assert_eq!(connections.iter().sum::<u32>(), 100);
        assert!(connections.iter().all(|own| own.abs_diff(100 / of) <= 2), "{connections:?}");
    }
    assert_eq!((whole.own_connections(), whole.own_workers()), (100, 2));
}

#[test]
fn parts_send_the_load_together() {
    let server = Server::new(answer(OK, Duration::ZERO));
    let check = |arrivals, seed| {
        let whole = LoadSpec {
            shape: open(1000.0, arrivals),
            connections: 10,
            seed,
            warmup_ns: 20 * MILLISECOND,
            ..spec(&[server.address])
        };
        // One generator with three workers has the same schedule.
        let expected = load(&LoadSpec { workers: 3, ..whole.clone() }).counts.scheduled;
        let records: Vec<LoadRecord> = run_parts(&parts(&whole, 3), 500 * MILLISECOND)
            .into_iter()
            .map(|record| record.expect("it ran"))
            .collect();
        records.iter().for_each(adds_up);
        let asked: Vec<u64> = records.iter().map(|record| record.connections.asked).collect();
        assert_eq!(asked, [4, 3, 3]);
        let started: Vec<u64> = records.iter().map(|record| record.started_ns).collect();
        assert_eq!(started[0], started[1].max(started[2]), "one moment: {started:?}");
        let sum = merge(&records).expect("readable").expect("three");
        assert_eq!(sum.counts.scheduled, expected, "{arrivals:?}");
        // On a busy machine, a request can be in flight at the end.
        let completed: u64 = records.iter().map(|record| record.counts.completed).sum();
        assert_eq!((sum.counts.completed, sum.measured_ns), (completed, whole.duration_ns));
        adds_up(&sum);
    };
    thread::scope(|scope| {
        for (arrivals, seed) in [(Arrivals::Constant, 1), (Arrivals::Jitter(0.3), 5), (Arrivals::Poisson, 9)]
        {
            scope.spawn(move || check(arrivals, seed));
        }
    });
}

#[test]
fn a_part_that_learns_the_moment_too_late_fails() {
    let server = Server::new(answer(OK, Duration::ZERO));
    let late = run_parts(&parts(&spec(&[server.address]), 2), 0u64.wrapping_sub(3 * MILLISECOND));
    for part in late {
        let error = part.expect_err("too late");
        assert!(matches!(error, LoadError::Late { late_ns } if late_ns >= 3 * MILLISECOND), "{error}");
    }
    insta::assert_snapshot!(LoadError::Late { late_ns: 3 * MILLISECOND });
}

#[test]
fn a_part_that_nobody_starts_ends() {
    let server = Server::new(answer(OK, Duration::ZERO));
    let part = parts(&spec(&[server.address]), 2).remove(1);
    let (order, start) = mpsc::channel();
    drop(order);
    let alone = run_part(&part, &AtomicBool::new(false), Watch::Phases, &start, |_| {});
    assert!(matches!(alone, Err(LoadError::Alone)), "{alone:?}");
    // A signal also ends the wait for the start time.
    let (_order, start) = mpsc::channel();
    let interrupted =
        run_part(&part, &AtomicBool::new(true), Watch::Phases, &start, |_| {}).expect("a record");
    assert!(interrupted.interrupted);
    assert_eq!(interrupted.counts.scheduled, 0);
}

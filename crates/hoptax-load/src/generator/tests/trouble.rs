//! Failing servers. Each failure must have the right cause, a failing server must not be flooded, and the
//! load must continue when a server returns.

use super::*;
use crate::clock;
use rustix::net::sockopt;
use std::time::Instant;

fn reset(connection: TcpStream) {
    sockopt::set_socket_linger(&connection, Some(Duration::ZERO)).expect("set");
    drop(connection);
}

#[test]
fn failed_connects_have_their_causes() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = unused_address();
    let server = Server::new(answer(OK, Duration::ZERO));
    let gone = Address::Unix(directory.path().join("gone"));
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("written");
    for (address, cause, words) in [
        (Address::from(refused), Cause::ConnectRefused, "refused"),
        (gone, Cause::ConnectRefused, "No such file"),
        (Address::Unix(file), Cause::ConnectRefused, "refused"),
    ] {
        let spec = LoadSpec { addresses: vec![server.address.into(), address.clone()], ..spec(&[]) };
        let counts = load(&until_done(60, spec)).counts;
        assert!(counts.completed > 10);
        assert_eq!(counts.causes.keys().collect::<Vec<_>>(), [&cause], "{address}");
        assert!(counts.errors.keys().all(|text| text.contains(words)), "{:?}", counts.errors);
    }
}

/// Maximum number of connects while connections fail: one per millisecond and worker, plus the connects that
/// were in progress when the failures began.
fn bound(workers: u32, elapsed: Duration) -> u64 {
    u64::from(workers) * (elapsed.as_millis() as u64 + 1 + 128)
}

#[test]
fn a_failing_server_is_not_flooded() {
    // Number of slots. If each slot only waited on its own, all slots together would connect far more often
    // than the limit allows.
    const MANY: u32 = 400;
    let closing = Server::new(|connection: TcpStream, connections: &AtomicU64| {
        connections.fetch_add(1, Ordering::Relaxed);
        drop(connection);
    });
    let resetting = Server::new(|mut connection: TcpStream, connections: &AtomicU64| {
        connections.fetch_add(1, Ordering::Relaxed);
        if request(&mut connection) {
            reset(connection);
        }
    });
    let check = |server: &Server| {
        for (shape, workers) in [(Shape::Closed, 1), (open(20_000.0, Arrivals::Constant), 2)] {
            let before = server.requests.load(Ordering::Relaxed);
            let spec = LoadSpec { shape, workers, connections: MANY, ..spec(&[server.address]) };
            let started = Instant::now();
            match run(&spec, &AtomicBool::new(false), Watch::Phases, |_| {}) {
                Ok(record) => {
                    adds_up(&record);
                    assert_eq!(record.counts.completed, 0);
                }
                // It depends on a race whether a connection is still open when traffic begins.
                Err(error) => assert!(matches!(error, LoadError::NoConnection { .. }), "{error}"),
            }
            let connects = server.requests.load(Ordering::Relaxed) - before;
            // The first connections are opened at full speed, because no connection has failed yet.
            assert!(connects <= u64::from(MANY) + bound(workers, started.elapsed()), "{connects}");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| check(&closing));
        scope.spawn(|| check(&resetting));
    });
}

#[test]
fn a_server_that_is_gone_is_not_flooded_and_is_found_when_it_returns() {
    retry_if_disturbed(gone_and_back);
}

/// Runs a load while its server stops and starts again. Returns an error if a step took too long, which a
/// slow machine can cause.
fn gone_and_back() -> Result<(), String> {
    const MANY: u32 = 300;
    let listener = own_listener();
    let address = listener.local_addr().expect("bound");
    let (measuring, begun) = mpsc::channel();
    let (send, returned) = mpsc::channel();
    let (leave, gone) = mpsc::channel();
    let server = thread::spawn(move || {
        let first: Vec<TcpStream> = listener.incoming().flatten().take(MANY as usize).collect();
        begun.recv().expect("it begins");
        leave.send(clock::now()).expect("the receiver waits");
        // The server stops: nothing listens, and open connections are reset. After a while, the server starts
        // again.
        drop(listener);
        first.into_iter().for_each(reset);
        thread::sleep(Duration::from_millis(400));
        let listener = TcpListener::bind(address).expect("the port is free again");
        send.send(clock::now()).expect("the receiver waits");
        Server::on(listener, answer(OK, Duration::from_millis(100)))
    });
    let spec = LoadSpec { connections: MANY, duration_ns: 4000 * MILLISECOND, ..spec(&[address]) };
    let record = run(&spec, &AtomicBool::new(false), Watch::Phases, |progress| {
        if phase(progress).phase == Phase::Measuring {
            measuring.send(()).expect("the receiver waits");
        }
    });
    let record = record.expect("connections were established");
    adds_up(&record);
    drop(server.join().expect("it returned"));
    // A slot waits at most 1 s. Because the rate of connects is limited, the last slot connects up to a
    // second later.
    let opened = record.lifetime.opened;
    assert!(opened <= 2 * u64::from(MANY), "{opened} for {MANY} that were lost once");
    seen(opened == 2 * u64::from(MANY), || format!("only {opened} have connected"))?;
    let (gone, returned) = (gone.recv().expect("sent"), returned.recv().expect("sent"));
    let refused = record.counts.causes[&Cause::ConnectRefused];
    let longest = Duration::from_nanos(returned - gone) + Duration::from_millis(1600);
    assert!(refused <= bound(1, longest), "{longest:?}: {:?}", record.counts);
    // The first response must arrive within the maximum wait of a slot.
    let window =
        record.windows.iter().position(|window| window.completed > 0).ok_or("none completed")? as u64;
    let first = record.started_ns + window * hoptax_format::record::WINDOW_NS;
    seen(first < returned + 1500 * MILLISECOND, || {
        format!("found after {} ms", (first - returned) / MILLISECOND)
    })
}

#[test]
fn an_address_without_listener_fails_at_once() {
    let address = unused_address();
    let spec = LoadSpec { connections: 5000, workers: 2, ..spec(&[address]) };
    retry_if_disturbed(|| {
        let started = Instant::now();
        let error = refusal(&spec);
        assert!(matches!(error, LoadError::NoConnection { asked: 5000, .. }), "{error}");
        assert!(error.to_string().contains("refused") && error.to_string().contains(&address.to_string()));
        // With five attempts for each of the 5,000 connections, at one attempt per millisecond and worker,
        // the load would take longer than 5 s.
        let took = started.elapsed();
        seen(took < Duration::from_secs(5), || format!("{took:?}"))
    });
}

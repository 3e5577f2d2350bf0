//! Servers in trouble: every failure has its cause, nobody is stormed, and what comes back is found again.

use super::*;
use rustix::net::sockopt;
use std::time::Instant;

/// Closes so that the other side is told by a reset.
fn reset(connection: TcpStream) {
    sockopt::set_socket_linger(&connection, Some(Duration::ZERO)).expect("set");
    drop(connection);
}

/// Reads a request, answers with `part`, and ends by a reset or in the usual way.
fn breaks_off(
    part: &'static [u8],
    by_reset: bool,
) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    move |mut connection, connections| {
        connections.fetch_add(1, Ordering::Relaxed);
        if request(&mut connection) {
            // A client that left has its own count of that.
            let _ = connection.write_all(part);
            if by_reset {
                reset(connection);
            }
        }
    }
}

#[test]
fn every_failure_has_its_cause() {
    const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf";
    for (part, by_reset, cause) in [
        (&b""[..], false, Cause::ClosedBeforeResponse),
        (b"", true, Cause::ResetBeforeResponse),
        (b"HTTP/1.1 2", false, Cause::ClosedInResponse),
        (HALF, false, Cause::ClosedInResponse),
        (HALF, true, Cause::ResetInResponse),
        (b"HTTP/1.1 20O OK\r\n\r\n", false, Cause::MalformedResponse),
    ] {
        let server = Server::new(breaks_off(part, by_reset));
        for shape in [Shape::Closed, open(200.0, Arrivals::Constant)] {
            let counts = load(&until_done(12, LoadSpec { shape, ..spec(&[server.address]) })).counts;
            assert_eq!(counts.causes, [(cause, 12)].into(), "{counts:?}");
            assert_eq!(counts.errors.len(), 1, "{counts:?}");
        }
    }
}

#[test]
fn connects_that_fail_have_theirs() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
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

/// A bound on connects while nothing comes of them: one per millisecond and worker, and what was under way before that
/// was known.
fn bound(workers: u32, elapsed: Duration) -> u64 {
    u64::from(workers) * (elapsed.as_millis() as u64 + 1 + 128)
}

#[test]
fn a_server_in_trouble_is_not_stormed() {
    // Many more connections than would keep the bound if each only rested for itself.
    const MANY: u32 = 400;
    let closing = Server::new(|connection: TcpStream, connections: &AtomicU64| {
        connections.fetch_add(1, Ordering::Relaxed);
        drop(connection);
    });
    let resetting = Server::new(breaks_off(b"", true));
    for server in [&closing, &resetting] {
        for (shape, workers) in [(Shape::Closed, 1), (open(20_000.0, Arrivals::Constant), 2)] {
            let before = server.requests.load(Ordering::Relaxed);
            let spec = LoadSpec { shape, workers, connections: MANY, ..spec(&[server.address]) };
            let started = Instant::now();
            match run(&spec, &AtomicBool::new(false), Watch::Phases, |_| {}) {
                Ok(record) => {
                    adds_up(&record);
                    assert_eq!(record.counts.completed, 0);
                }
                // Whether one still stands when traffic begins is a race.
                Err(error) => assert!(matches!(error, LoadError::NoConnection { .. }), "{error}"),
            }
            let connects = server.requests.load(Ordering::Relaxed) - before;
            // The first connections are opened as fast as they can be: nobody knows yet.
            assert!(connects <= u64::from(MANY) + bound(workers, started.elapsed()), "{connects}");
        }
    }
}

#[test]
fn a_server_that_is_gone_is_looked_for_in_moderation_and_found_again() {
    retry_if_disturbed(gone_and_back);
}

/// One server that goes and comes back. What takes too long may have been held up by the machine.
fn gone_and_back() -> Result<(), String> {
    const MANY: u32 = 300;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (measuring, begun) = mpsc::channel();
    let (send, returned) = mpsc::channel();
    let (leave, gone) = mpsc::channel();
    let server = thread::spawn(move || {
        let first: Vec<TcpStream> = listener.incoming().flatten().take(MANY as usize).collect();
        begun.recv().expect("it begins");
        leave.send(clock::now()).expect("waited for");
        // Gone: nobody listens, and what stood is reset. It comes back when it has been missed for a while.
        drop(listener);
        first.into_iter().for_each(reset);
        thread::sleep(Duration::from_millis(400));
        let listener = TcpListener::bind(address).expect("the port is free again");
        send.send(clock::now()).expect("waited for");
        Server::on(listener, answer(OK, Duration::ZERO))
    });
    let spec = LoadSpec { connections: MANY, duration_ns: 5000 * MILLISECOND, ..spec(&[address]) };
    let record = run(&spec, &AtomicBool::new(false), Watch::Phases, |told| {
        if phase(told).phase == Phase::Measuring {
            measuring.send(()).expect("waited for");
        }
    });
    let record = record.expect("connections stood");
    adds_up(&record);
    drop(server.join().expect("it came back"));
    // The longest rest is 1 s, and so is the pace for the last one until the first response.
    let opened = record.lifetime.opened;
    assert!(opened <= 2 * u64::from(MANY), "{opened} for {MANY} that were lost once");
    seen(opened == 2 * u64::from(MANY), || format!("only {opened} have connected"))?;
    let (gone, returned) = (gone.recv().expect("told"), returned.recv().expect("told"));
    let refused = record.counts.causes[&Cause::ConnectRefused];
    let longest = Duration::from_nanos(returned - gone) + Duration::from_millis(1600);
    assert!(refused <= bound(1, longest), "{longest:?}: {:?}", record.counts);
    // The first within the longest rest.
    let window =
        record.windows.iter().position(|window| window.completed > 0).ok_or("none completed")? as u64;
    let first = record.started_ns + window * crate::record::WINDOW_NS;
    seen(first < returned + 1500 * MILLISECOND, || {
        format!("found after {} ms", (first - returned) / MILLISECOND)
    })
}

#[test]
fn nobody_there_is_told_at_once_for_many_connections_too() {
    let address =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let spec = LoadSpec { connections: 5000, workers: 2, ..spec(&[address]) };
    retry_if_disturbed(|| {
        let started = Instant::now();
        let error = run(&spec, &AtomicBool::new(false), Watch::Phases, |_| {}).expect_err("nobody listens");
        assert!(matches!(error, LoadError::NoConnection { asked: 5000, .. }), "{error}");
        // 5,000 connections, one per millisecond and worker, five times each, would take longer.
        let took = started.elapsed();
        seen(took < Duration::from_secs(5), || format!("{took:?}"))
    });
}

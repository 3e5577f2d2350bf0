//! HTTP/2: many requests in flight on a connection, against servers that behave correctly or incorrectly.

use super::*;
use hoptax_wire::http2::{self, Block, Code, Config, PREFACE, Sections, Step, response_fields};

/// The server's end of a connection.
pub(super) struct Peer {
    pub(super) socket: TcpStream,
    pub(super) wire: http2::Connection,
    pub(super) sections: Sections,
    pub(super) out: Vec<u8>,
    block: Block,
    /// Number of requests on this connection.
    pub(super) asked: u32,
}

impl Peer {
    pub(super) fn new(socket: TcpStream, config: Config) -> Self {
        let mut out = Vec::new();
        let wire = http2::Connection::server(config, &mut out);
        let block = Block::plain(&response_fields(200, [], Some(5)).expect("valid"));
        Self { socket, wire, sections: Sections::new(), out, block, asked: 0 }
    }

    /// Reads until the connection ends, or `handle` returns false. `handle` gets each event, and the input to
    /// which the ranges of the event refer. The output is sent when all input has been read.
    pub(super) fn run(mut self, mut handle: impl FnMut(&mut Self, Step, &[u8]) -> bool) {
        let (mut input, mut buffer) = (Vec::new(), vec![0; 65_536]);
        loop {
            let mut at = 0;
            let continues = loop {
                let found = self.wire.advance(&input[at..], &mut self.sections, &mut self.out);
                let Ok((consumed, step)) = found else { break false };
                let before = at;
                at += consumed;
                if step == Step::NeedMore {
                    break true;
                }
                if !handle(&mut self, step, &input[before..]) {
                    break false;
                }
            };
            input.drain(..at);
            if self.socket.write_all(&self.out).is_err() || !continues {
                return;
            }
            self.out.clear();
            match self.socket.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => input.extend_from_slice(&buffer[..count]),
            }
        }
    }

    pub(super) fn answer(&mut self, stream: u32) {
        self.wire.send_head(stream, &self.block, &[], false, &mut self.out);
        self.wire.send_data(stream, b"hello", true, &mut self.out);
    }
}

/// Serves connections with these settings. `asked` handles each complete request: its peer and its stream. It
/// returns false to close the connection.
pub(super) fn server(
    config: Config,
    asked: impl Fn(&mut Peer, u32) -> bool + Clone + Send + 'static,
) -> Server {
    Server::new(move |socket, requests| serve(socket, requests, config, &asked))
}

fn serve(socket: TcpStream, requests: &AtomicU64, config: Config, asked: &impl Fn(&mut Peer, u32) -> bool) {
    Peer::new(socket, config).run(|peer, step, _| {
        let (Step::Head { stream, end: true } | Step::Body { stream, end: true, .. }) = step else {
            return true;
        };
        peer.asked += 1;
        requests.fetch_add(1, Ordering::Relaxed);
        asked(peer, stream.id)
    });
}

fn well() -> impl Fn(&mut Peer, u32) -> bool + Clone + Send + 'static {
    |peer, stream| {
        peer.answer(stream);
        true
    }
}

pub(super) fn multiplexed(server: &Server, connections: u32, streams: u32) -> LoadSpec {
    LoadSpec { http: HttpVersion::Http2, connections, streams, ..spec(&[server.address]) }
}

fn tally(record: &LoadRecord) -> hoptax_format::record::Http2Tally {
    record.http2.expect("a load of HTTP/2 records it")
}

/// Number of values in a histogram.
fn length(encoded: Option<&Encoded>) -> u64 {
    encoded.expect("a load of HTTP/2 records it").decode().expect("our own").len()
}

#[test]
fn each_connection_carries_as_many_requests_as_it_has_streams() {
    let server = server(Config::default(), well());
    for shape in [Shape::Closed, open(4000.0, Arrivals::Poisson)] {
        let load_spec = LoadSpec { shape, workers: 2, ..multiplexed(&server, 3, 10) };
        let record = load(&until_done(2_000, load_spec));
        let (counts, http2) = (&record.counts, tally(&record));
        assert_eq!((counts.ok, record.lifetime.opened), (2_000, 3), "{counts:?}");
        assert!((1..=10).contains(&http2.most_streams), "{http2:?}");
        assert_eq!((http2.stream_limit, http2.goaways, http2.resets), (Some(100), 0, 0));
        let histograms = &record.histograms;
        assert_eq!(length(histograms.connection_wait.as_ref()), 2_000);
        assert!(quantile(histograms.stream_wait.as_ref().expect("recorded"), 1.0) < 100, "no request waits");
        assert_eq!(length(histograms.window_wait.as_ref()), 0, "no request has a body");
        assert_eq!(record.bytes.body, 5 * record.completed_in_time);
    }
    let record = load(&until_done(2_000, multiplexed(&server, 1, 10)));
    assert_eq!(tally(&record).most_streams, 10, "a closed loop keeps all streams busy");
    assert_eq!(tally(&record).overtaken, 0, "the server answers in order");
}

#[test]
fn responses_in_another_order_belong_to_their_requests() {
    // The server keeps the requests of four streams, and answers the last one first.
    let server = server(Config::default(), |peer, stream| {
        if peer.asked.is_multiple_of(4) {
            (0..4).for_each(|back| peer.answer(stream - 2 * back));
        }
        true
    });
    let target = |name: &str, path: &str| TargetSpec {
        name: name.into(),
        path: path.into(),
        ..spec(&[]).targets.remove(0)
    };
    let targets = vec![target("one", "/one"), target("two", "/{{uuid}}")];
    let record = load(&until_done(400, LoadSpec { targets, ..multiplexed(&server, 1, 4) }));
    assert_eq!(record.counts.ok, 400, "{:?}", record.counts);
    assert_eq!(record.targets.iter().map(|target| target.completed).sum::<u64>(), 400);
    assert_eq!(tally(&record).overtaken, 300, "three of four");
}

#[test]
fn the_limit_of_the_server_is_kept_and_the_wait_is_recorded() {
    let server = server(Config { streams: 3, ..Config::default() }, well());
    let record = load(&until_done(600, multiplexed(&server, 2, 10)));
    let http2 = tally(&record);
    assert_eq!((record.counts.ok, http2.resets), (600, 0), "{:?}", record.counts);
    assert_eq!((http2.stream_limit, http2.most_streams), (Some(3), 3));
    assert!(quantile(record.histograms.stream_wait.as_ref().expect("recorded"), 0.5) > 0);
}

#[test]
fn refused_streams_are_sent_again_once() {
    // The server refuses each seventh stream, so the second attempt is accepted.
    let seventh = server(Config::default(), |peer, stream| {
        match peer.asked.is_multiple_of(7) {
            true => _ = peer.wire.reset(stream, Code::REFUSED_STREAM, &mut peer.out),
            false => peer.answer(stream),
        }
        true
    });
    let record = load(&until_done(700, multiplexed(&seventh, 1, 5)));
    let (counts, http2) = (&record.counts, tally(&record));
    assert_eq!(counts.ok, 700, "{counts:?}");
    assert!((100..150).contains(&counts.retried), "{counts:?}");
    assert_eq!((http2.refused, http2.unprocessed), (counts.retried, counts.retried), "{http2:?}");

    let always = server(Config::default(), |peer, stream| {
        peer.wire.reset(stream, Code::REFUSED_STREAM, &mut peer.out);
        true
    });
    let record = load(&until_done(50, multiplexed(&always, 1, 5)));
    assert_eq!(record.counts.causes, [(Cause::StreamRefused, 50)].into(), "{:?}", record.counts);
    assert_eq!(record.counts.retried, 50);
}

#[test]
fn a_connection_that_goes_away_costs_no_request() {
    // As nginx does, but the last streams are left unprocessed too.
    let server = server(Config::default(), |peer, stream| {
        if peer.asked == 50 {
            peer.wire.go_away(Code::NO_ERROR, &mut peer.out);
        }
        peer.answer(stream);
        true
    });
    for shape in [Shape::Closed, open(5000.0, Arrivals::Constant)] {
        let record = load(&until_done(2_000, LoadSpec { shape, ..multiplexed(&server, 2, 8) }));
        let (counts, http2) = (&record.counts, tally(&record));
        assert_eq!(counts.ok, 2_000, "{counts:?}");
        assert!((30..=45).contains(&http2.goaways), "{http2:?}");
        assert!(record.lifetime.opened >= http2.goaways, "{:?}", record.lifetime);
        assert_eq!(counts.retried, http2.unprocessed);
        assert!(record.connections.closed_by_peer <= http2.goaways);
    }
}

/// A new connection is ready after 30 ms, so each request that is sent again takes longer.
#[test]
fn a_request_that_is_sent_again_counts_from_its_first_sending() {
    const READY_NS: u64 = 30 * MILLISECOND;
    let answer = |peer: &mut Peer, stream: u32| {
        if peer.asked == 50 {
            peer.wire.go_away(Code::NO_ERROR, &mut peer.out);
        }
        peer.answer(stream);
        true
    };
    let server = Server::new(move |socket, requests| {
        thread::sleep(Duration::from_nanos(READY_NS));
        serve(socket, requests, Config::default(), &answer);
    });
    let record = load(&until_done(1_000, multiplexed(&server, 1, 8)));
    let (counts, http2) = (&record.counts, tally(&record));
    assert_eq!((counts.ok, counts.retried), (1_000, http2.unprocessed), "{counts:?}");
    assert!((1..200).contains(&http2.unprocessed), "{http2:?}");
    let times = record.histograms.response_time.decode().expect("our own");
    let slow = times.count_between(READY_NS, u64::MAX);
    assert!(slow >= http2.unprocessed, "{slow} of {http2:?}");
    assert!(times.value_at_quantile(0.5) < READY_NS, "the others are faster");
}

/// The server processes no request. It must not be flooded with connections.
#[test]
fn a_server_that_goes_away_at_once_gets_few_connections() {
    // The last stream is 0, and the code is ENHANCE_YOUR_CALM (RFC 9113, section 6.8).
    const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
    let server = server(Config::default(), |peer, _| {
        peer.out.extend_from_slice(&GO_AWAY);
        true
    });
    let record = load(&LoadSpec { duration_ns: 300 * MILLISECOND, ..multiplexed(&server, 1, 4) });
    let counts = &record.counts;
    assert!(counts.causes.contains_key(&Cause::GoawayUnprocessed) && counts.completed == 0, "{counts:?}");
    assert!((2..=8).contains(&record.lifetime.opened), "{:?}", record.lifetime);
    assert!(tally(&record).calmed >= 2, "{:?}", record.http2);
}

#[test]
fn a_load_with_a_limit_of_requests_replaces_its_connections() {
    let server = server(Config::default(), well());
    let limited = LoadSpec { requests_per_connection: Some(20), ..multiplexed(&server, 2, 5) };
    let record = load(&until_done(1_000, limited));
    assert_eq!(record.counts.ok, 1_000, "{:?}", record.counts);
    assert!((48..=60).contains(&record.lifetime.opened), "{:?}", record.lifetime);
    assert_eq!((record.connections.closed_by_peer, tally(&record).goaways), (0, 0));
}

#[test]
fn a_connection_that_breaks_costs_only_its_own_requests() {
    let server = server(Config::default(), |peer, stream| {
        peer.answer(stream);
        peer.asked < 100
    });
    let record = load(&until_done(1_000, multiplexed(&server, 2, 4)));
    let counts = &record.counts;
    assert!(counts.completed >= 900 && counts.resets > 0, "{counts:?}");
    let retrying = LoadSpec { retry: Retry::IdleClose, ..multiplexed(&server, 2, 4) };
    let record = load(&until_done(1_000, retrying));
    assert!(record.counts.retried > 0, "{:?}", record.counts);
}

#[test]
fn a_stream_without_a_response_times_out_alone() {
    let server = server(Config::default(), |peer, stream| {
        if !peer.asked.is_multiple_of(20) {
            peer.answer(stream);
        }
        true
    });
    let timeouts = Timeouts::all(100 * MILLISECOND);
    let record = load(&until_done(100, LoadSpec { timeouts, ..multiplexed(&server, 1, 4) }));
    let counts = &record.counts;
    assert_eq!((counts.timeouts, counts.ok), (5, 95), "{counts:?}");
    assert_eq!(counts.causes, [(Cause::ResponseTimeout, 5)].into());
    assert_eq!(record.lifetime.opened, 1, "the connection continues");
}

#[test]
fn a_request_that_gets_no_stream_times_out() {
    let server = server(Config { streams: 1, ..Config::default() }, |_, _| true);
    let timeouts = Timeouts { connect_ns: 5_000 * MILLISECOND, ..Timeouts::all(100 * MILLISECOND) };
    let record = load(&LoadSpec { timeouts, ..multiplexed(&server, 1, 3) });
    let causes = &record.counts.causes;
    assert!(causes.contains_key(&Cause::NoStream), "{causes:?}");
    assert!(causes.contains_key(&Cause::ResponseTimeout), "{causes:?}");
}

#[test]
fn large_bodies_wait_for_windows() {
    const LENGTH: usize = 300_000;
    let config = Config { window: 65_535, connection_window: 65_535, ..Config::default() };
    let server = server(config, well());
    let mut upload = multiplexed(&server, 1, 4);
    upload.targets[0].method = "POST".into();
    upload.targets[0].body = vec![b'x'; LENGTH];
    let record = load(&until_done(40, upload.clone()));
    assert_eq!(record.counts.ok, 40, "{:?}", record.counts);
    assert!(record.bytes.sent >= 40 * LENGTH as u64, "{:?}", record.bytes);
    assert!(tally(&record).window_stalled_ns > 0);
    assert_eq!(length(record.histograms.window_wait.as_ref()), 40);
    // With templates, each body is kept until it is sent.
    upload.targets[0].body = "n{{seq}}".repeat(50_000).into();
    upload.targets[0].body_is_template = true;
    let record = load(&until_done(12, upload));
    assert_eq!(record.counts.ok, 12, "{:?}", record.counts);
}

#[test]
fn a_server_that_never_opens_its_window_is_a_timeout() {
    let config = Config { release: http2::Release::ByCaller, window: 1_000, ..Config::default() };
    let server = server(config, well());
    let timeouts = Timeouts { connect_ns: 5_000 * MILLISECOND, ..Timeouts::all(100 * MILLISECOND) };
    let mut upload = LoadSpec { timeouts, ..multiplexed(&server, 1, 2) };
    upload.targets[0].body = vec![b'x'; 100_000];
    let record = load(&until_done(6, upload));
    assert_eq!(record.counts.causes, [(Cause::ResponseTimeout, 6)].into(), "{:?}", record.counts);
    assert!(tally(&record).window_stalled_ns >= 6 * 90 * MILLISECOND, "the wait until the timeout counts");
    assert_eq!(length(record.histograms.window_wait.as_ref()), 6);
}

#[test]
fn a_server_without_http2_is_named() {
    let http1 = Server::new(|mut connection, _| {
        let mut buffer = [0; 1024];
        if connection.read(&mut buffer).is_ok() {
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    is_refused(&multiplexed(&http1, 1, 1), "does not speak HTTP/2");
    let closing = Server::new(|mut connection, _| {
        let _ = connection.read(&mut [0; 1024]);
    });
    is_refused(&multiplexed(&closing, 1, 1), "closed the connection");
    let mute = Server::new(silent);
    let timeouts = Timeouts::all(100 * MILLISECOND);
    is_refused(&LoadSpec { timeouts, ..multiplexed(&mute, 1, 1) }, "HTTP/2 settings");
}

#[test]
fn floods_and_nonsense_end_the_connection() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    const EMPTY_DATA: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0, 1];
    let check = |flood: Vec<u8>, expected: &str| {
        let server = Server::new(move |mut socket, _| {
            let mut seen = vec![0; PREFACE.len()];
            if socket.read_exact(&mut seen).is_ok() && socket.write_all(&SETTINGS).is_ok() {
                // Waits for the first request, which follows the acknowledgement of the settings.
                thread::sleep(Duration::from_millis(50));
                let _ = socket.write_all(&flood);
                let mut rest = Vec::new();
                let _ = socket.read_to_end(&mut rest);
            }
        });
        let timeouts = Timeouts::all(2_000 * MILLISECOND);
        let record = load(&until_done(4, LoadSpec { timeouts, ..multiplexed(&server, 1, 2) }));
        let counts = &record.counts;
        assert!(counts.bad_responses > 0, "{expected}: {counts:?}");
        assert!(counts.errors.keys().any(|error| error.contains(expected)), "{expected}: {counts:?}");
    };
    thread::scope(|scope| {
        for (flood, expected) in [
            (SETTINGS.repeat(12_000), "flood of SETTINGS frames"),
            (PING.repeat(12_000), "flood of PING frames"),
            (EMPTY_DATA.repeat(10), "the body precedes the head"),
            (b"nonsense that is no frame at all".to_vec(), "a frame is longer than"),
        ] {
            scope.spawn(move || check(flood, expected));
        }
    });
}

#[test]
fn impossible_specs_are_refused() {
    let server = server(Config::default(), well());
    let good = multiplexed(&server, 2, 3);
    let told = [
        LoadSpec { http: HttpVersion::Http11, ..good.clone() },
        LoadSpec { streams: 0, ..good.clone() },
        LoadSpec { requests_per_connection: Some(2), ..good.clone() },
        LoadSpec { streams: 1_000_000, ..good.clone() },
    ]
    .map(|spec| format!("{}\n", refusal(&spec)))
    .concat();
    insta::assert_snapshot!(told);
}

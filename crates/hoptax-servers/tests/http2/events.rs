//! Server-sent events of the built-in upstream, over HTTP/1 and HTTP/2.

use super::*;
use hoptax_format::messages::{ENDLESS, Stamp, TextStamps};
use hoptax_plan::UpstreamEvents;
use hoptax_testing::wait_until;

const ACCEPT: (&str, &str) = ("accept", "text/event-stream");
const GET: &[u8] = b"GET /events HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n\r\n";
const OTHER: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\naccept: text/html\r\n\r\n";
const GAP: u64 = 20 * clock::MILLISECOND;
const USUAL: UpstreamEvents = UpstreamEvents {
    count: 4,
    gap: Duration::from_nanos(GAP),
    bytes: 64,
    first: Duration::ZERO,
    per_write: 1,
    split: 1,
    heartbeat: None,
};

fn upstream(events: UpstreamEvents) -> RunningUpstream {
    start(&BuiltInUpstream { events: Some(events), ..settings() }, &Placement::default())
}

pub(crate) fn stamps(text: &[u8]) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    TextStamps::default().read(text, |stamp| stamps.push(stamp));
    stamps
}

fn numbers(text: &[u8]) -> Vec<u64> {
    stamps(text).iter().map(|stamp| stamp.number).collect()
}

/// The stamps of a stream of [`USUAL`] whose first event is due at `first`.
fn expected(first: u64, count: u64) -> Vec<Stamp> {
    (0..count).map(|number| Stamp { number, due: first + number * GAP }).collect()
}

/// A client of HTTP/1.
pub(crate) struct Http1 {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Http1 {
    pub(crate) fn sending(upstream: &RunningUpstream, request: &[u8]) -> Self {
        let Address::Tcp(address) = address(upstream) else { panic!("a port") };
        let socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let mut client = Self { socket, input: Vec::new() };
        client.send(request);
        client
    }

    pub(crate) fn send(&mut self, request: &[u8]) {
        self.socket.write_all(request).expect("sent");
    }

    /// The next bytes.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        while self.input.len() < length {
            self.receive();
        }
        self.input.drain(..length).collect()
    }

    /// The next bytes up to `end`, and with it.
    fn take_until(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.input.windows(end.len()).position(|part| part == end) {
                return String::from_utf8(self.take(at + end.len())).expect("text");
            }
            self.receive();
        }
    }

    fn receive(&mut self) {
        let mut bytes = [0; 65_536];
        let count = self.socket.read(&mut bytes).expect("data");
        assert!(count > 0, "the connection has ended");
        self.input.extend_from_slice(&bytes[..count]);
    }

    pub(crate) fn head(&mut self) -> String {
        self.take_until(b"\r\n\r\n")
    }

    /// The next chunk. `None` if it is the last.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.take_until(b"\r\n");
        let size = usize::from_str_radix(line.trim_end(), 16).expect("the size of a chunk");
        let mut chunk = self.take(size + 2);
        assert_eq!(chunk.split_off(size), b"\r\n");
        (size > 0).then_some(chunk)
    }

    pub(crate) fn chunks(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.chunk()).collect()
    }
}

/// The chunks of a response.
fn chunks(upstream: &RunningUpstream) -> Vec<Vec<u8>> {
    let mut client = Http1::sending(upstream, GET);
    client.head();
    client.chunks()
}

#[test]
fn events_are_chunks_that_are_sent_when_they_are_due() {
    let configured = BuiltInUpstream {
        headers: vec![("x-a".into(), "b".into())],
        delay: Delay::Fixed(Duration::from_millis(30)),
        events: Some(UpstreamEvents { first: Duration::from_millis(10), ..USUAL }),
        ..settings()
    };
    let upstream = start(&configured, &Placement { stamps: true, ..Placement::default() });
    let before = clock::now();
    let mut client = Http1::sending(&upstream, GET);
    let head = client.head();
    for line in [
        "HTTP/1.1 200 OK",
        "content-type: text/event-stream",
        "cache-control: no-cache",
        "x-a: b",
        "transfer-encoding: chunked",
    ] {
        assert!(head.split("\r\n").any(|own| own == line), "{line}: {head}");
    }
    assert!(head.contains(stamp::HEADER) && !head.contains("content-length"), "{head}");
    let mut found = Vec::new();
    for number in 0..4 {
        let chunk = client.chunk().expect("an event");
        let now = clock::now();
        assert!(chunk.starts_with(format!("id: {number}\ndata: ~hx").as_bytes()), "{chunk:?}");
        assert!(chunk.ends_with(b"\n\n") && chunk.len() == "id: 0\ndata: \n\n".len() + 64);
        found.extend(stamps(&chunk));
        assert!(found[number].due <= now, "no event arrives before it is due");
    }
    assert_eq!(found, expected(found[0].due, 4));
    assert!(found[0].due >= before + 40 * clock::MILLISECOND, "the delay, and the time until the first");
    assert_eq!(client.chunk(), None);
    // The connection is kept, and other requests get the usual answer.
    client.send(OTHER);
    assert!(client.head().contains("content-length: 1024\r\n"));
    assert_eq!(client.take(1024), pattern(1024));
    let seen = counts(&upstream).instances.remove(0);
    assert_eq!((seen.requests, seen.events, seen.event_streams_left), (2, Some(4), None));
}

#[test]
fn later_responses_wait_for_events() {
    let upstream = upstream(USUAL);
    let mut client = Http1::sending(&upstream, &[OTHER, GET, OTHER, GET, OTHER].concat());
    let mut end = 0;
    for has_events in [false, true, false, true, false] {
        let head = client.head();
        assert_eq!(head.contains("text/event-stream"), has_events, "{head}");
        if !has_events {
            assert_eq!(client.take(1024), pattern(1024));
            continue;
        }
        let found = stamps(&client.chunks().concat());
        assert_eq!(found, expected(found[0].due, 4));
        assert!(found[0].due >= end, "the second stream begins after the first");
        end = found[3].due;
    }
    assert_eq!(counts(&upstream).instances[0].requests, 5);
}

#[test]
fn a_chunk_has_several_events_or_a_part_of_one() {
    let several = chunks(&upstream(UpstreamEvents { count: 5, per_write: 2, ..USUAL }));
    let found: Vec<Vec<u64>> = several.iter().map(|chunk| numbers(chunk)).collect();
    assert_eq!(found, [vec![0, 1], vec![2, 3], vec![4]]);
    let found = stamps(&several.concat());
    let dues: Vec<u64> = found.iter().map(|stamp| stamp.due - found[0].due).collect();
    assert_eq!(dues, [0, 0, GAP, GAP, 2 * GAP]);

    let parts = chunks(&upstream(UpstreamEvents { split: 3, ..USUAL }));
    assert_eq!(parts.len(), 4 * 3);
    let found = stamps(&parts.concat());
    assert_eq!(found, expected(found[0].due, 4));
}

#[test]
fn old_clients_get_no_chunks_and_head_gets_no_body() {
    let upstream = upstream(USUAL);
    for keep_alive in ["", "connection: keep-alive\r\n"] {
        let request = format!("GET / HTTP/1.0\r\naccept: text/event-stream\r\n{keep_alive}\r\n");
        let answer = String::from_utf8(raw(&upstream, request.as_bytes())).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("connection: close") && !head.contains("transfer-encoding"), "{head}");
        assert!(body.starts_with("id: 0\n") && body.ends_with("\n\n"), "{body}");
        assert_eq!(numbers(body.as_bytes()), [0, 1, 2, 3]);
    }
    let to_head = GET.strip_prefix(b"GET").expect("a method");
    let mut client = Http1::sending(&upstream, &[&b"HEAD"[..], to_head, OTHER].concat());
    assert!(client.head().contains("text/event-stream"));
    assert!(client.head().contains("content-length: 1024"), "it follows at once");

    let failing = BuiltInUpstream { failures: 1.0, events: Some(USUAL), ..settings() };
    let failing = start(&failing, &Placement::default());
    assert!(Http1::sending(&failing, GET).head().starts_with("HTTP/1.1 500 "));
}

#[test]
fn a_slow_reader_holds_back_its_stream() {
    let events = UpstreamEvents { count: 1000, gap: Duration::ZERO, bytes: 65_536, ..USUAL };
    let upstream = upstream(events);
    let mut slow = Http1::sending(&upstream, GET);
    slow.head();
    // Meanwhile, another client receives everything.
    assert_eq!(chunks(&upstream).len(), 1000);
    let sent = counts(&upstream).instances[0].events.expect("counted");
    assert!(sent < 1500, "{} events for a client that reads none", sent - 1000);
    let found: Vec<Stamp> = slow.chunks().iter().flat_map(|chunk| stamps(chunk)).collect();
    assert!(found.iter().map(|stamp| stamp.number).eq(0..1000));
    assert!(found.iter().all(|stamp| stamp.due == found[0].due));
}

#[test]
fn clients_that_leave_end_their_streams() {
    let gap = Duration::from_millis(5);
    let upstream = upstream(UpstreamEvents { count: ENDLESS, gap, ..USUAL });
    let have_left = |expected: u64| {
        let seen = || counts(&upstream).instances[0].event_streams_left;
        wait_until("a stream ends", Duration::from_secs(60), || seen() == Some(expected));
    };
    let mut client = Http1::sending(&upstream, GET);
    client.head();
    for number in 0..3 {
        assert_eq!(numbers(&client.chunk().expect("an event")), [number]);
    }
    drop(client);
    have_left(1);
    let mut client = connect(&upstream);
    let streams = [1, 2].map(|tag| client.begin(&accepting(tag, &[ACCEPT])));
    for stream in streams {
        client.receive_until(stream, |answer| numbers(&answer.body).len() > 2);
    }
    client.connection.reset(streams[0], Code::CANCEL, &mut client.output);
    client.flush();
    have_left(2);
    drop(client);
    have_left(3);
    let open = || counts(&upstream).instances[0].open;
    wait_until("all connections end", Duration::from_secs(60), || open() == 0);
}

fn accepting<'a>(tag: u32, headers: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { headers, ..Request::get(tag, "/events") }
}

#[test]
fn events_over_http2_respect_windows() {
    for (per_write, split) in [(1, 1), (4, 1), (1, 7)] {
        let (count, gap, bytes) = (102, Duration::ZERO, 1000);
        let upstream = upstream(UpstreamEvents { count, gap, bytes, per_write, split, ..USUAL });
        for window in [100, 10_000, 1 << 20] {
            let mut client = Client::connect(address(&upstream), Config { window, ..Config::default() });
            let requests: Vec<Request<'_>> = (0..3).map(|tag| accepting(tag, &[ACCEPT])).collect();
            for answer in client.exchange(&requests) {
                let found = stamps(&answer.body);
                assert!(found.iter().map(|stamp| stamp.number).eq(0..102), "a window of {window}");
                assert!(found.iter().all(|stamp| stamp.due == found[0].due));
                assert_eq!((answer.trailers.len(), answer.reset), (0, None));
            }
        }
    }
}

#[test]
fn events_over_http2_have_the_same_heads_and_schedules() {
    let configured = BuiltInUpstream { events: Some(USUAL), ..settings() };
    let upstream = start(&configured, &Placement { stamps: true, ..Placement::default() });
    let mut client = connect(&upstream);
    let requests: Vec<Request<'_>> = (0..50).map(|tag| accepting(tag, &[ACCEPT])).collect();
    for answer in client.exchange(&requests) {
        let found = stamps(&answer.body);
        assert_eq!(found, expected(found[0].due, 4));
        let headers = ["content-type", "cache-control", "content-length"].map(|name| answer.header(name));
        assert_eq!(headers, [Some("text/event-stream"), Some("no-cache"), None]);
        assert!(answer.header(stamp::HEADER).is_some());
    }
    let seen = counts(&upstream).instances.remove(0);
    assert_eq!((seen.requests, seen.events, seen.event_streams_left), (50, Some(200), None));

    let head = client.exchange(&[Request { method: "HEAD", ..accepting(1, &[ACCEPT]) }]).remove(0);
    assert_eq!((head.header("content-type"), head.body.len()), (Some("text/event-stream"), 0));
    for (last, expected) in [("1", 2..4), ("3", 4..4)] {
        let headers = [ACCEPT, ("last-event-id", last)];
        let answer = client.exchange(&[accepting(2, &headers)]).remove(0);
        assert_eq!(answer.status, 200);
        assert!(numbers(&answer.body).into_iter().eq(expected), "{last}");
    }
    assert_eq!(client.get("/").body, pattern(1024));
}

//! Server-sent events over HTTP/1.1 and HTTP/2, against servers that send them correctly or incorrectly.

use super::grpc::{CALLS, Fields, Reply, replying};
use super::grpc_web::{answering, chunked};
use super::http2::{Peer, multiplexed, server};
use super::*;
use hoptax_format::clock;
use hoptax_format::messages::{
    Carrier, ENDLESS, MessageCounts, MessagesRecord, Stamp, StreamKind, StreamSpec, UNKNOWN,
};
use hoptax_wire::http2::{self, Block, Code, Config, Sections, Step, response_fields};

const MESSAGES: u64 = 10;
pub(super) const HEAD: Fields = &[("content-type", "text/event-stream")];
/// The head of a response over HTTP/1.1 whose body is in chunks.
pub(super) const CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
/// The head of such a response whose body is compressed.
const ENCODED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: \
                         gzip\r\ntransfer-encoding: chunked\r\n\r\n";
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

pub(super) fn stamp(number: u64, due: u64) -> String {
    let mut text = [0; Stamp::TEXT_LENGTH];
    Stamp { number, due }.write_text(&mut text);
    String::from_utf8(text.to_vec()).expect("ASCII")
}

fn event(number: u64) -> String {
    format!("id: {number}\ndata: {} text\n\n", stamp(number, number))
}

fn events(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(event).collect()
}

/// A chunk with an event that is due now.
fn chunk(number: u64) -> Vec<u8> {
    let event = format!("data: {}\n\n", stamp(number, clock::now()));
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

fn target(messages: u32) -> TargetSpec {
    let headers =
        vec![("host".to_owned(), "test".to_owned()), ("accept".to_owned(), "text/event-stream".to_owned())];
    let stream = StreamSpec::grpc(StreamKind::ServerStream, messages, 0);
    let stream = Some(StreamSpec { carrier: Carrier::Events, ..stream });
    TargetSpec { stream, ..TargetSpec::only("GET", "/events", headers, Vec::new()) }
}

/// As [`target`], with the clock of the server.
fn timed(messages: u32) -> TargetSpec {
    let target = target(messages);
    let stream = target.stream.map(|stream| StreamSpec { same_clock: true, ..stream });
    TargetSpec { stream, ..target }
}

/// Loads of both HTTP versions, each with a server that sends this reply. The requests have a body.
fn loads(reply: &Reply, messages: u32) -> [(Server, LoadSpec); 2] {
    let (http1, http2) = (answering(chunked(reply), true), replying(reply.clone()));
    let target = TargetSpec { method: "POST".into(), body: b"hello".to_vec(), ..target(messages) };
    let targets = vec![target];
    let over_http1 = LoadSpec { targets: targets.clone(), connections: 2, ..spec(&[http1.address]) };
    let over_http2 = LoadSpec { targets, ..multiplexed(&http2, 2, 4) };
    [(http1, until_done(CALLS, over_http1)), (http2, until_done(CALLS, over_http2))]
}

fn over_http1(server: &Server, target: TargetSpec) -> LoadSpec {
    LoadSpec { targets: vec![target], connections: 3, ..spec(&[server.address]) }
}

pub(super) fn messages(record: &LoadRecord) -> &MessagesRecord {
    record.messages.as_ref().expect("a load with streams records them")
}

pub(super) fn length(encoded: &Encoded) -> u64 {
    encoded.decode().expect("our own").len()
}

/// A server of HTTP/1.1 that runs `send` for each request until it returns false.
pub(super) fn sending(send: impl Fn(&mut TcpStream) -> bool + Clone + Send + 'static) -> Server {
    Server::new(move |mut socket, requests| {
        while request(&mut socket) {
            requests.fetch_add(1, Ordering::Relaxed);
            if !send(&mut socket) {
                return;
            }
        }
    })
}

/// Sends an event every `pause` until the client closes the connection.
fn endless(socket: &mut TcpStream, pause: Duration) -> bool {
    let mut sent = socket.write_all(CHUNKED);
    for number in 0.. {
        if sent.is_err() {
            break;
        }
        sent = socket.write_all(&chunk(number));
        thread::sleep(pause);
    }
    false
}

/// As [`endless`], on all streams of HTTP/2.
fn endless_streams(mut socket: TcpStream) {
    let mut out = Vec::new();
    let mut wire = http2::Connection::server(Config::default(), &mut out);
    let fields = response_fields(200, HEAD.iter().copied(), None).expect("valid");
    let (head, mut open) = (Block::plain(&fields), BTreeMap::new());
    let (mut sections, mut input, mut buffer) = (Sections::new(), Vec::new(), vec![0; 65_536]);
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a socket");
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
        let mut at = 0;
        loop {
            let Ok((consumed, step)) = wire.advance(&input[at..], &mut sections, &mut out) else { return };
            at += consumed;
            match step {
                Step::NeedMore => break,
                Step::Head { stream, end: true } => {
                    wire.send_head(stream.id, &head, &[], false, &mut out);
                    open.insert(stream.id, 0);
                }
                Step::Reset { stream, .. } => {
                    open.remove(&stream.id);
                }
                _ => {}
            }
        }
        input.drain(..at);
        for (stream, number) in &mut open {
            let event = format!("data: {}\n\n", stamp(*number, clock::now()));
            wire.send_data(*stream, event.as_bytes(), false, &mut out);
            *number += 1;
        }
        if socket.write_all(&out).is_err() {
            return;
        }
        out.clear();
    }
}

#[test]
fn events_are_counted() {
    let whole = events(0..MESSAGES);
    let (head, tail) = (events(0..MESSAGES - 2), [stamp(8, 8), stamp(9, 9)].join(" "));
    let most = MessageCounts { received: MESSAGES - 1, ..MessageCounts::default() };
    let all = MessageCounts { received: MESSAGES, ..most };
    let with_comments: String = (0..MESSAGES).map(|number| event(number) + ": hi\n\n").collect();
    for (name, body, expected) in [
        ("events", whole.clone(), all),
        ("CRLF", whole.replace('\n', "\r\n"), all),
        ("CR", whole.replace('\n', "\r"), all),
        ("comments", with_comments, MessageCounts { comments: MESSAGES, ..all }),
        ("two events in one", format!("{head}data: {tail}\n\n"), MessageCounts { merged_into_one: 1, ..all }),
        ("without one event", events([0, 1, 2, 4, 5, 6, 7, 8, 9]), MessageCounts { lost: 1, ..most }),
        (
            "one event twice",
            events([0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9]),
            MessageCounts { received: MESSAGES + 1, repeated: 1, ..all },
        ),
        (
            "two events exchanged",
            events([0, 1, 2, 4, 3, 5, 6, 7, 8, 9]),
            MessageCounts { reordered: 1, ..all },
        ),
        ("without the last empty line", whole.trim_end().to_owned(), MessageCounts { lost: 1, ..most }),
        ("events of another server", "data: x\n\n".repeat(MESSAGES as usize), all),
        (
            "one without its number",
            format!("{}data: x\n\n", events(0..MESSAGES - 1)),
            MessageCounts { unnumbered: 1, ..all },
        ),
        ("no events", "hello".to_owned(), MessageCounts { lost: MESSAGES, ..MessageCounts::default() }),
    ] {
        let split: Vec<&[u8]> = body.as_bytes().chunks(7).collect();
        for data in [&[body.as_bytes()][..], &split] {
            for (_server, spec) in loads(&Reply::new(200, HEAD, data, &[]), MESSAGES as u32) {
                let record = load(&spec);
                let name = format!("{name}, {:?}, {} pieces", spec.http, data.len());
                assert_eq!((record.counts.ok, record.lifetime.opened), (CALLS, 2), "{name}");
                let MessagesRecord { counts, histograms, .. } = messages(&record);
                let mut each = *counts;
                for count in [
                    &mut each.sent,
                    &mut each.received,
                    &mut each.lost,
                    &mut each.repeated,
                    &mut each.reordered,
                    &mut each.unnumbered,
                    &mut each.merged_into_one,
                    &mut each.comments,
                ] {
                    assert_eq!(*count % CALLS, 0, "{name}: {counts:?}");
                    *count /= CALLS;
                }
                // How many events come in one read depends on the network.
                each.merged_in_read = 0;
                assert_eq!(each, MessageCounts { sent: 1, ..expected }, "{name}");
                assert_eq!(histograms.headers.as_ref().map(length), Some(CALLS), "{name}");
                let first = if expected.received > 0 { CALLS } else { 0 };
                assert_eq!(length(&histograms.first_message), first, "{name}");
                assert_eq!(length(&histograms.gap), counts.received - first, "{name}");
            }
        }
    }
}

#[test]
fn events_of_another_server_are_never_merged() {
    let body = "data: x\n\n".repeat(MESSAGES as usize);
    for (_server, spec) in loads(&Reply::new(200, HEAD, &[body.as_bytes()], &[]), UNKNOWN) {
        let counts = messages(&load(&spec)).counts;
        let expected = MessageCounts { sent: CALLS, received: CALLS * MESSAGES, ..MessageCounts::default() };
        assert_eq!(counts, expected);
    }
}

#[test]
fn without_a_known_number_only_gaps_are_losses() {
    for (numbers, lost) in [(vec![0, 1, 2], 0), (vec![5, 6, 9], 2), (vec![], 0)] {
        let body = events(numbers) + ": end\n\n";
        for (_server, spec) in loads(&Reply::new(200, HEAD, &[body.as_bytes()], &[]), UNKNOWN) {
            let counts = messages(&load(&spec)).counts;
            assert_eq!((counts.lost, counts.unnumbered), (lost * CALLS, 0), "{body}");
        }
    }
}

#[test]
fn responses_whose_events_cannot_be_read_lose_none() {
    let encoded: Fields = &[("content-type", "text/event-stream"), ("content-encoding", "gzip")];
    let body = events(0..MESSAGES);
    for (reply, ok) in [
        (Reply::new(200, encoded, &[body.as_bytes()], &[]), CALLS),
        (Reply::new(503, &[], &[b"busy"], &[]), 0),
    ] {
        for (_server, spec) in loads(&reply, MESSAGES as u32) {
            let record = load(&spec);
            let counts = messages(&record).counts;
            assert_eq!((record.counts.completed, record.counts.ok), (CALLS, ok));
            assert_eq!((counts.received, counts.lost, counts.unnumbered), (0, 0, 0), "{counts:?}");
        }
    }
}

#[test]
fn a_response_that_is_cut_loses_no_events() {
    const FEW: u64 = 4;
    let cut = sending(|socket| {
        let sent = socket.write_all(&[CHUNKED, &chunk(0), &chunk(1)].concat());
        let half = chunk(2);
        let _ = sent.and_then(|()| socket.write_all(&half[..half.len() / 2]));
        false
    });
    let reset = server(Config::default(), |peer, stream| {
        let Peer { wire, out, .. } = peer;
        let fields = response_fields(200, HEAD.iter().copied(), None).expect("valid");
        wire.send_head(stream, &Block::plain(&fields), &[], false, out);
        wire.send_data(stream, events([0, 1]).as_bytes(), false, out);
        wire.reset(stream, Code::INTERNAL_ERROR, out);
        true
    });
    let over_http2 = LoadSpec { targets: vec![target(3)], ..multiplexed(&reset, 1, 2) };
    for spec in [over_http1(&cut, target(3)), over_http2] {
        let record = load(&until_done(FEW, spec));
        assert_eq!((record.counts.resets, record.counts.ok), (FEW, 0), "{:?}", record.counts);
        let counts = messages(&record).counts;
        assert_eq!((counts.received, counts.lost), (2 * FEW, 0), "{counts:?}");
    }
}

#[test]
fn the_end_of_a_connection_can_end_the_events() {
    let server = sending(|socket| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let _ = socket.write_all((head.to_owned() + &events(0..MESSAGES)).as_bytes());
        false
    });
    let record = load(&until_done(4, over_http1(&server, target(MESSAGES as u32))));
    let counts = messages(&record).counts;
    assert_eq!((record.counts.ok, counts.received, counts.lost), (4, 4 * MESSAGES, 0), "{counts:?}");
}

#[test]
fn events_have_ages_and_the_head_comes_before_them() {
    const PAUSE: Duration = Duration::from_millis(20);
    let server = sending(|socket| {
        let mut sent = socket.write_all(CHUNKED);
        for number in 0..3 {
            thread::sleep(PAUSE);
            sent = sent.and_then(|()| socket.write_all(&chunk(number)));
        }
        sent.and_then(|()| socket.write_all(LAST_CHUNK)).is_ok()
    });
    let spec = until_done(6, over_http1(&server, timed(3)));
    retry_if_disturbed(|| {
        let record = load(&spec);
        let MessagesRecord { counts, histograms, .. } = messages(&record);
        assert_eq!((record.counts.ok, counts.received, counts.lost), (6, 18, 0), "{counts:?}");
        assert_eq!((length(&histograms.age), length(&histograms.response_time)), (18, 0));
        let pause = PAUSE.as_nanos() as u64;
        let headers = histograms.headers.as_ref().expect("recorded");
        let (head, first) = (quantile(headers, 0.5), quantile(&histograms.first_message, 0.5));
        let (gap, age) = (quantile(&histograms.gap, 0.5), quantile(&histograms.age, 0.5));
        seen(head < pause / 2 && first >= pause * 9 / 10, || format!("head {head}, first {first}"))?;
        seen(gap >= pause * 9 / 10 && age < pause / 2, || format!("gap {gap}, age {age}"))
    });
}

#[test]
fn endless_streams_end_with_the_measured_time() {
    let http1 = sending(|socket| endless(socket, Duration::from_millis(5)));
    let http2 = Server::new(|socket, _| endless_streams(socket));
    let of = |connections, streams| LoadSpec {
        targets: vec![timed(ENDLESS)],
        ..multiplexed(&http2, connections, streams)
    };
    // Of the 60 streams of the last connection, 50 are reset. Then the connection is closed.
    let cases: [(LoadSpec, u64); 3] =
        [(over_http1(&http1, timed(ENDLESS)), 3), (of(2, 4), 8), (of(1, 60), 60)];
    for warmup_ns in [0, 50 * MILLISECOND] {
        retry_together(&cases, |(spec, count)| {
            let (spec, count) = (LoadSpec { warmup_ns, ..spec.clone() }, *count);
            let record = load(&spec);
            let LoadRecord { counts, occupancy, .. } = &record;
            seen(counts.ok == count, || format!("{counts:?}"))?;
            assert_eq!((counts.scheduled, counts.sent), (count, count), "{counts:?}");
            assert_eq!(counts.ended_by_client, count, "{counts:?}");
            assert_eq!((record.measured_ns, record.completed_in_time), (spec.duration_ns, count));
            let MessagesRecord { counts, histograms, .. } = messages(&record);
            assert_eq!((counts.lost, counts.repeated, counts.unnumbered), (0, 0, 0), "{counts:?}");
            assert_eq!(length(&histograms.age), counts.received);
            let sent = if warmup_ns == 0 { count } else { 0 };
            seen(counts.sent == sent, || format!("{counts:?}"))?;
            let silence = occupancy.as_ref().expect("recorded").silence.for_ns;
            // About one event every 5 ms, in 300 ms.
            let received = 20 * count..=80 * count;
            seen(received.contains(&counts.received) && silence < 100 * MILLISECOND, || {
                format!("{counts:?}, silent for {silence}")
            })
        });
    }
}

#[test]
fn an_endless_stream_that_never_answers_has_no_outcome() {
    let server = Server::new(silent);
    let counts = load(&over_http1(&server, target(ENDLESS))).counts;
    assert_eq!((counts.scheduled, counts.in_flight, counts.ended_by_client), (3, 3, 0), "{counts:?}");
}

#[test]
fn the_time_limits_of_a_stream_end_with_it() {
    // The load waits for the plain responses for longer than a stream may take to begin.
    let server = Server::new(|mut socket: TcpStream, _| {
        let mut seen = [0; 11];
        while let Ok(11) = socket.peek(&mut seen) {
            if !request(&mut socket) {
                return;
            }
            if seen != *b"GET /events" {
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
                thread::sleep(Duration::from_millis(500));
                let _ = socket.write_all(b"ok");
            }
        }
    });
    let plain = TargetSpec {
        name: "plain".to_owned(),
        ..TargetSpec::only("GET", "/plain", vec![("host".to_owned(), "test".to_owned())], Vec::new())
    };
    let mut spec = LoadSpec { connections: 8, ..over_http1(&server, target(ENDLESS)) };
    spec.targets.push(plain);
    spec.duration_ns = 100 * MILLISECOND;
    spec.timeouts.first_byte_ns = 250 * MILLISECOND;
    let counts = load(&spec).counts;
    assert!(counts.ok > 0 && counts.in_flight > 0, "{counts:?}");
}

#[test]
fn a_stream_that_the_server_ends_is_followed_by_another_one() {
    let server = sending(|socket| {
        thread::sleep(Duration::from_millis(10));
        socket.write_all(&[CHUNKED, &chunk(0), LAST_CHUNK].concat()).is_ok()
    });
    let LoadRecord { counts, .. } = load(&over_http1(&server, target(ENDLESS)));
    assert_eq!(counts.ok + counts.in_flight, counts.scheduled, "{counts:?}");
    assert!(counts.ok > 3 && counts.in_flight <= 3, "{counts:?}");
}

#[test]
fn a_gateway_that_cuts_endless_streams_does_not_end_the_load() {
    let server = sending(|socket| {
        let _ = socket.write_all(&[CHUNKED, &chunk(0)].concat());
        thread::sleep(Duration::from_millis(1));
        false
    });
    let spec = LoadSpec { gives_up: true, ..over_http1(&server, target(ENDLESS)) };
    retry_if_disturbed(|| {
        let LoadRecord { gave_up, counts, .. } = load(&spec);
        assert!(!gave_up);
        seen(counts.resets > 15, || format!("{counts:?}"))
    });
}

#[test]
fn the_time_limit_begins_again_with_each_event_and_comment() {
    let timeouts = Timeouts::all(100 * MILLISECOND);
    let slowly = |head: &'static [u8], piece: fn(u64) -> Vec<u8>| {
        sending(move |socket| {
            let mut sent = socket.write_all(head);
            for number in 0..12 {
                thread::sleep(Duration::from_millis(20));
                sent = sent.and_then(|()| socket.write_all(&piece(number)));
            }
            sent.and_then(|()| socket.write_all(LAST_CHUNK)).is_ok()
        })
    };
    for (server, kept) in [
        (slowly(CHUNKED, chunk), true),
        (slowly(CHUNKED, comment), true),
        (slowly(CHUNKED, part), false),
        // There can be events in it.
        (slowly(ENCODED, part), true),
    ] {
        let spec = LoadSpec { timeouts, ..until_done(3, over_http1(&server, target(UNKNOWN))) };
        retry_if_disturbed(|| {
            let counts = load(&spec).counts;
            seen((counts.ok, counts.timeouts) == if kept { (3, 0) } else { (0, 3) }, || format!("{counts:?}"))
        });
    }
}

fn comment(_: u64) -> Vec<u8> {
    b"4\r\n: \n\n\r\n".to_vec()
}

/// A chunk with a line that ends no event.
fn part(_: u64) -> Vec<u8> {
    b"8\r\ndata: x\n\r\n".to_vec()
}

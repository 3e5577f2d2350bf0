//! Calls with streams of messages, against servers that pass them on correctly or incorrectly.

use super::events::{length, messages};
use super::http2::{Peer, multiplexed};
use super::*;
use hoptax_format::clock;
use hoptax_format::grpc;
use hoptax_format::messages::{MessagesRecord, Stamp, StreamKind, StreamSpec, with_room};
use hoptax_wire::http2::{Block, Code, Config, OutField, Step, response_fields};
use std::collections::BTreeSet;

/// What a server does with a message of the client: it gets the number of the message and its bytes with the
/// prefix, and returns the bytes to send.
type Answer = fn(u64, &[u8]) -> Vec<u8>;

/// Calls `answer` for each whole message, and ends a call when the client has ended it. `greeting` is sent
/// when the client has ended its side, before the trailers. A response begins with its first message.
fn talking(answer: Answer, greeting: fn() -> Vec<Vec<u8>>) -> Server {
    Server::new(move |socket, _| talk(socket, (Config::default(), None), answer, greeting))
}

/// As for [`talking`]. Sends GOAWAY when `last` messages have arrived on the connection.
fn talk(
    socket: TcpStream,
    (config, last): (Config, Option<u64>),
    answer: Answer,
    greeting: fn() -> Vec<Vec<u8>>,
) {
    let mut all = 0;
    let fields = response_fields(200, [("content-type", "application/grpc")], None).expect("valid");
    let head = Block::plain(&fields);
    let trailers = Block::plain(&[OutField { name: "grpc-status".into(), value: "0".into() }]);
    let mut bodies: BTreeMap<u32, (u64, Vec<u8>)> = BTreeMap::new();
    let mut begun = BTreeSet::new();
    Peer::new(socket, config).run(|peer, step, input| {
        let (stream, data, end) = match step {
            Step::Head { stream, end } => (stream.id, 0..0, end),
            Step::Body { stream, data, end } => (stream.id, data, end),
            _ => return true,
        };
        let Peer { socket, wire, out, .. } = peer;
        let (number, body) = bodies.entry(stream).or_default();
        body.extend_from_slice(&input[data]);
        while let Some(length) = whole(body) {
            let message: Vec<u8> = body.drain(..length).collect();
            let bytes = answer(*number, &message);
            *number += 1;
            all += 1;
            if last == Some(all) {
                wire.go_away(Code::NO_ERROR, out);
            }
            if bytes.is_empty() {
                continue;
            }
            if begun.insert(stream) {
                wire.send_head(stream, &head, &[], false, out);
            }
            wire.send_data(stream, &bytes, false, out);
        }
        if end {
            if begun.insert(stream) {
                wire.send_head(stream, &head, &[], false, out);
            }
            for message in greeting() {
                wire.send_data(stream, &message, false, out);
                let _ = socket.write_all(out);
                out.clear();
            }
            wire.send_head(stream, &trailers, &[], true, out);
            bodies.remove(&stream);
        }
        true
    });
}

/// The length of the message at the front, if it is whole.
fn whole(body: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(body.get(1..5)?.try_into().ok()?) as usize + 5;
    (body.len() >= length).then_some(length)
}

fn stream(server: &Server, kind: StreamKind, every_ns: u64) -> LoadSpec {
    let mut headers = vec![("host".to_owned(), "test".to_owned())];
    grpc::add_headers(&mut headers, None);
    let body = with_room(b"hello".to_vec(), false);
    let target = TargetSpec {
        grpc: true,
        stream: Some(StreamSpec { same_clock: true, ..StreamSpec::grpc(kind, MESSAGES as u32, every_ns) }),
        ..TargetSpec::only(grpc::METHOD, "/echo.Echo/Chat", headers, body)
    };
    until_done(CALLS, LoadSpec { targets: vec![target], ..multiplexed(server, 2, 4) })
}

const CALLS: u64 = 40;
const MESSAGES: u64 = 10;
const ALL: u64 = CALLS * MESSAGES;

fn nothing() -> Vec<Vec<u8>> {
    Vec::new()
}

#[test]
fn every_echo_is_accounted_for_at_any_pace() {
    let server = talking(|_, message| message.to_vec(), nothing);
    for (every_ns, shape) in [
        (0, Shape::Closed),
        (MILLISECOND, Shape::Closed),
        (MILLISECOND, open(400.0, Arrivals::Poisson)),
        (0, open(400.0, Arrivals::Constant)),
    ] {
        let record = load(&LoadSpec { shape, ..stream(&server, StreamKind::BothWays, every_ns) });
        assert_eq!((record.counts.ok, record.counts.trailers_lost), (CALLS, 0), "{:?}", record.counts);
        let MessagesRecord { counts, histograms, .. } = messages(&record);
        assert_eq!((counts.sent, counts.received), (ALL, ALL), "{counts:?}");
        assert_eq!((counts.lost, counts.repeated, counts.reordered, counts.unnumbered), (0, 0, 0, 0));
        assert_eq!(length(&histograms.response_time), ALL);
        assert_eq!(length(&histograms.first_message), CALLS);
        assert_eq!((length(&histograms.gap), length(&histograms.age)), (ALL - CALLS, 0));
        if every_ns > 0 {
            let gap = quantile(&histograms.gap, 0.5);
            assert!((MILLISECOND / 2..=5 * MILLISECOND).contains(&gap), "{gap}");
            let took = quantile(&record.histograms.response_time, 0.0);
            assert!(took >= (MESSAGES - 1) * MILLISECOND * 99 / 100, "the schedule is kept: {took}");
        }
    }
}

#[test]
fn a_mix_with_other_calls_says_so() {
    let server = talking(|_, message| message.to_vec(), nothing);
    let mut spec = stream(&server, StreamKind::BothWays, 0);
    assert!(!messages(&load(&spec)).mixed);
    let body = grpc::body(b"hello").expect("short");
    let unary = TargetSpec { name: "unary".to_owned(), stream: None, body, ..spec.targets[0].clone() };
    spec.targets.push(unary);
    let record = load(&spec);
    assert!(messages(&record).mixed && record.counts.ok == CALLS, "{:?}", record.counts);
}

#[test]
fn what_happens_to_single_messages_is_counted() {
    let of = |answer: Answer| {
        let server = talking(answer, nothing);
        let record = load(&stream(&server, StreamKind::BothWays, MILLISECOND));
        assert_eq!(record.counts.ok, CALLS, "{:?}", record.counts);
        messages(&record).counts
    };
    let lost = of(|number, message| if number == 3 { Vec::new() } else { message.to_vec() });
    assert_eq!((lost.lost, lost.received), (CALLS, ALL - CALLS), "{lost:?}");
    let twice = of(|number, message| message.repeat(if number == 3 { 2 } else { 1 }));
    assert_eq!((twice.repeated, twice.lost, twice.received), (CALLS, 0, ALL + CALLS), "{twice:?}");
    let swapped = of(|number, message| {
        let mut changed = message.to_vec();
        let other = match number {
            3 => 4,
            4 => 3,
            same => same,
        };
        changed[8..16].copy_from_slice(&u64::to_be_bytes(other));
        changed
    });
    assert_eq!((swapped.reordered, swapped.lost, swapped.repeated), (CALLS, 0, 0), "{swapped:?}");
    let foreign = of(|_, _| grpc::body(b"something else").expect("short"));
    assert_eq!((foreign.unnumbered, foreign.lost, foreign.received), (ALL, 0, ALL), "{foreign:?}");
}

#[test]
fn a_stream_of_the_server_has_ages_and_gaps() {
    let paced = || {
        let message = |number| {
            thread::sleep(Duration::from_millis(2));
            let mut message = grpc::body(&with_room(vec![b'x'; 50], true)).expect("short");
            let room = &mut message[5..5 + Stamp::LENGTH];
            let stamp = Stamp { number, due: clock::now() - MILLISECOND };
            stamp.write(room.try_into().expect("as long"));
            message
        };
        (0..MESSAGES).map(message).collect::<Vec<_>>()
    };
    let server = talking(|_, _| Vec::new(), paced);
    let record = load(&stream(&server, StreamKind::ServerStream, 2 * MILLISECOND));
    assert_eq!(record.counts.ok, CALLS, "{:?}", record.counts);
    let MessagesRecord { counts, histograms, .. } = messages(&record);
    assert_eq!((counts.sent, counts.received, counts.lost), (CALLS, ALL, 0), "{counts:?}");
    // All messages of a call are collected and sent together, so they arrive together.
    assert!(counts.merged_in_read > ALL / 2, "{counts:?}");
    assert_eq!((length(&histograms.age), length(&histograms.response_time)), (ALL, 0));
    // The messages of a call are at least 19, 17, 15, …, 1 ms old when they are sent. Six of ten are at least
    // 9 ms old, and only five are certain to be older.
    let age = quantile(&histograms.age, 0.5);
    assert!(age >= (MESSAGES - 1) * MILLISECOND, "{age}");
}

#[test]
fn a_stream_of_the_client_needs_one_answer() {
    let one = || vec![grpc::body(b"thanks").expect("short")];
    let server = talking(|_, _| Vec::new(), one);
    for every_ns in [0, MILLISECOND] {
        let record = load(&stream(&server, StreamKind::ClientStream, every_ns));
        assert_eq!(record.counts.ok, CALLS, "{:?}", record.counts);
        let counts = messages(&record).counts;
        assert_eq!((counts.sent, counts.received), (ALL, CALLS), "{counts:?}");
        assert_eq!((counts.lost, counts.unnumbered), (0, 0), "{counts:?}");
    }
    let silent = talking(|_, _| Vec::new(), nothing);
    let record = load(&stream(&silent, StreamKind::ClientStream, 0));
    assert_eq!(record.counts.grpc, [("INTERNAL".to_owned(), CALLS)].into(), "{:?}", record.counts);
    assert_eq!(messages(&record).counts.lost, 0, "a call that failed loses no messages");
}

#[test]
fn messages_wait_for_a_window_and_none_is_lost() {
    let config = Config { window: 100, connection_window: 65_535, ..Config::default() };
    let server = Server::new(move |socket, _| {
        talk(socket, (config, None), |_, message| message.to_vec(), nothing);
    });
    let mut spec = stream(&server, StreamKind::BothWays, MILLISECOND);
    spec.targets[0].body = with_room(vec![b'x'; 250], true);
    let record = load(&spec);
    let counts = messages(&record).counts;
    assert_eq!((record.counts.ok, counts.sent, counts.received), (CALLS, ALL, ALL), "{counts:?}");
}

#[test]
fn streams_continue_on_a_connection_that_gets_no_further_ones() {
    let server = Server::new(|socket, _| {
        talk(socket, (Config::default(), Some(15)), |_, message| message.to_vec(), nothing);
    });
    for every_ns in [0, MILLISECOND] {
        let record = load(&stream(&server, StreamKind::BothWays, every_ns));
        let counts = messages(&record).counts;
        assert_eq!((record.counts.ok, counts.received), (CALLS, ALL), "{counts:?}");
        assert_eq!((counts.lost, counts.repeated, counts.reordered), (0, 0, 0), "{counts:?}");
        // The messages of a call that GOAWAY excluded are sent again.
        assert!(counts.sent >= ALL, "{counts:?}");
        // At its GOAWAY, a connection has four open streams at most. One call can have ended before.
        assert!(record.lifetime.opened >= CALLS / 5, "{}", record.lifetime.opened);
    }
}

#[test]
fn a_long_call_is_not_cut_while_messages_arrive() {
    let server = talking(|_, message| message.to_vec(), nothing);
    let timeouts = Timeouts::all(100 * MILLISECOND);
    let paced = LoadSpec { timeouts, ..stream(&server, StreamKind::BothWays, 20 * MILLISECOND) };
    retry_if_disturbed(|| {
        let counts = load(&LoadSpec { requests: Some(8), ..paced.clone() }).counts;
        seen(counts.ok == 8, || format!("{counts:?}"))
    });
    // The time limit for the first byte begins after the client's last message.
    let one = || vec![grpc::body(b"thanks").expect("short")];
    let server = talking(|_, _| Vec::new(), one);
    let timeouts = Timeouts { total_ns: 5 * SECOND, ..timeouts };
    let upload = LoadSpec { timeouts, ..stream(&server, StreamKind::ClientStream, 20 * MILLISECOND) };
    retry_if_disturbed(|| {
        let counts = load(&LoadSpec { requests: Some(8), ..upload.clone() }).counts;
        seen(counts.ok == 8, || format!("{counts:?}"))
    });
    let mute = talking(|_, _| Vec::new(), nothing);
    let timeouts = Timeouts::all(100 * MILLISECOND);
    let closed = LoadSpec { timeouts, requests: Some(8), ..stream(&mute, StreamKind::BothWays, 0) };
    assert_eq!(load(&closed).counts.timeouts, 8);
    // Messages that nobody answers do not extend the time limit. The last is sent after 180 ms.
    let paced = stream(&mute, StreamKind::BothWays, 20 * MILLISECOND);
    let paced = LoadSpec { timeouts, requests: Some(8), ..paced };
    retry_if_disturbed(|| {
        let LoadRecord { counts, histograms, .. } = load(&paced);
        let took = quantile(&histograms.response_time, 1.0);
        seen(counts.timeouts == 8 && took < 180 * MILLISECOND, || format!("{took}: {counts:?}"))
    });
}

#[test]
fn the_end_waits_for_calls_that_are_longer_than_the_timeout() {
    let server = talking(|_, message| message.to_vec(), nothing);
    let timeouts = Timeouts::all(200 * MILLISECOND);
    let long = stream(&server, StreamKind::BothWays, 100 * MILLISECOND);
    let short_load = LoadSpec { timeouts, requests: None, duration_ns: 50 * MILLISECOND, ..long };
    retry_if_disturbed(|| {
        let counts = load(&short_load).counts;
        seen(counts.scheduled > 0 && counts.ok == counts.scheduled, || format!("{counts:?}"))
    });
}

#[test]
fn streams_have_no_length_in_the_head() {
    let server = talking(|_, message| message.to_vec(), nothing);
    let mut spec = stream(&server, StreamKind::BothWays, 0);
    let length = spec.targets[0].body.len().to_string();
    spec.targets[0].headers.push(("content-length".into(), length));
    is_refused(&spec, "their own lengths");
}

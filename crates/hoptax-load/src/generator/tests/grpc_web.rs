//! gRPC-Web calls over HTTP/1.1 and HTTP/2, against servers that answer correctly or incorrectly.

use super::grpc::{CALLS, Fields, ONE, Reply, replying};
use super::http2::multiplexed;
use super::*;
use crate::target::first_request;
use hoptax_format::grpc::{self, Status};
use hoptax_format::messages::{Stamp, StreamKind, StreamSpec, with_room};
use hoptax_wire::grpc::write_trailers;

const WEB: Fields = &[("content-type", "application/grpc-web+proto")];
const MESSAGES: u64 = 10;

/// The bytes of a response over HTTP/1.1, in a chunk for each piece of data.
pub(super) fn chunked(reply: &Reply) -> Vec<u8> {
    let push = |bytes: &mut Vec<u8>, fields: Fields| {
        for (name, value) in fields {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
    };
    let mut bytes = format!("HTTP/1.1 {} Text\r\n", reply.status).into_bytes();
    push(&mut bytes, reply.head);
    if reply.data.is_empty() && reply.trailers.is_empty() {
        bytes.extend_from_slice(b"content-length: 0\r\n\r\n");
        return bytes;
    }
    bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
    for piece in &reply.data {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n");
    push(&mut bytes, reply.trailers);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Sends these bytes after each request over HTTP/1.1 whose body ends with `hello`. Closes the connection
/// after the first answer, unless `keeps` is true.
pub(super) fn answering(response: Vec<u8>, keeps: bool) -> Server {
    Server::new(move |mut socket, requests| {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match socket.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => seen.extend_from_slice(&buffer[..count]),
            }
            // The message is the end of each request.
            if !seen.ends_with(b"hello") {
                continue;
            }
            seen.clear();
            requests.fetch_add(1, Ordering::Relaxed);
            if socket.write_all(&response).is_err() || !keeps {
                return;
            }
        }
    })
}

fn call() -> TargetSpec {
    let mut headers = vec![("host".to_owned(), "test".to_owned())];
    grpc::add_headers(&mut headers, None);
    grpc::web_headers(&mut headers);
    let body = grpc::body(b"hello").expect("short");
    let target = TargetSpec::only(grpc::METHOD, "/echo.Echo/Say", headers, body);
    TargetSpec { grpc: true, grpc_web: true, ..target }
}

fn stream() -> TargetSpec {
    let stream = StreamSpec::grpc(StreamKind::ServerStream, MESSAGES as u32, 0);
    TargetSpec { stream: Some(stream), body: with_room(b"hello".to_vec(), false), ..call() }
}

/// Loads of both HTTP versions, each with a server that sends this reply.
fn loads(reply: &Reply, target: &TargetSpec) -> [(Server, LoadSpec); 2] {
    let (http1, http2) = (answering(chunked(reply), true), replying(reply.clone()));
    let targets = vec![target.clone()];
    let over_http1 = LoadSpec { targets: targets.clone(), connections: 2, ..spec(&[http1.address]) };
    let over_http2 = LoadSpec { targets, ..multiplexed(&http2, 2, 4) };
    [(http1, until_done(CALLS, over_http1)), (http2, until_done(CALLS, over_http2))]
}

/// A frame with trailers.
fn end(fields: &[(&'static str, &'static str)]) -> Vec<u8> {
    let mut frame = Vec::new();
    write_trailers(&mut frame, fields.iter().copied());
    frame
}

#[test]
fn the_outcome_of_a_call_is_the_status_at_the_end_of_its_body() {
    let ok = &end(&[("grpc-status", "0")])[..];
    let not_found = &end(&[("x", "y"), ("grpc-status", "5")])[..];
    let no_status = &end(&[("x", "y")])[..];
    let whole = [ONE, ok].concat();
    let split: Vec<&[u8]> = whole.chunks(1).collect();
    let mut compressed = ok.to_vec();
    compressed[0] |= 1;
    let of_head: Fields = &[("content-type", "application/grpc-web+proto"), ("grpc-status", "14")];
    let ok_in_head: Fields = &[("content-type", "application/grpc-web+proto"), ("grpc-status", "0")];
    let of_http: Fields = &[("grpc-status", "0")];
    for (name, reply, status, is_lost) in [
        ("a message and trailers", Reply::new(200, WEB, &[ONE, ok], &[]), Status::Ok, false),
        ("both in one frame", Reply::new(200, WEB, &[&whole], &[]), Status::Ok, false),
        ("many frames", Reply::new(200, WEB, &split, &[]), Status::Ok, false),
        ("an error", Reply::new(200, WEB, &[not_found], &[]), Status::NotFound, false),
        ("an error after a message", Reply::new(200, WEB, &[ONE, not_found], &[]), Status::NotFound, false),
        ("trailers only", Reply::new(200, of_head, &[], &[]), Status::Unavailable, false),
        ("compressed trailers", Reply::new(200, WEB, &[ONE, &compressed], &[]), Status::Unknown, false),
        ("503 without a status", Reply::new(503, &[], &[b"busy"], &[]), Status::Unavailable, false),
        ("404 without a body", Reply::new(404, &[], &[], &[]), Status::Unimplemented, false),
        ("lost trailers", Reply::new(200, WEB, &[ONE], &[]), Status::Unknown, true),
        ("trailers of HTTP", Reply::new(200, WEB, &[ONE], of_http), Status::Unknown, true),
        ("trailers without a status", Reply::new(200, WEB, &[ONE, no_status], &[]), Status::Unknown, true),
        ("half of the trailers", Reply::new(200, WEB, &[ONE, &ok[..9]], &[]), Status::Unknown, true),
        ("half a message", Reply::new(200, WEB, &[&ONE[..7]], &[]), Status::Unknown, true),
        ("a head alone", Reply::new(200, WEB, &[], &[]), Status::Unknown, true),
        ("a status in a head with a body", Reply::new(200, of_head, &[ONE], &[]), Status::Unknown, true),
        ("no frame", Reply::new(200, WEB, &[b"nonsense"], &[]), Status::Unknown, true),
        ("no message", Reply::new(200, WEB, &[ok], &[]), Status::Internal, false),
        ("no message, trailers only", Reply::new(200, ok_in_head, &[], &[]), Status::Internal, false),
        ("two messages", Reply::new(200, WEB, &[ONE, ONE, ok], &[]), Status::Internal, false),
        ("a message after the trailers", Reply::new(200, WEB, &[ONE, ok, ONE], &[]), Status::Internal, false),
    ] {
        for (_server, spec) in loads(&reply, &call()) {
            let (version, counts) = (spec.http, load(&spec).counts);
            let name = format!("{name}, {version:?}");
            assert_eq!(counts.grpc, [(status.name().to_owned(), CALLS)].into(), "{name}: {counts:?}");
            assert_eq!(counts.trailers_lost, if is_lost { CALLS } else { 0 }, "{name}");
            let ok = if status == Status::Ok { CALLS } else { 0 };
            assert_eq!((counts.completed, counts.ok), (CALLS, ok), "{name}");
        }
    }
}

#[test]
fn the_end_of_a_connection_can_end_a_call() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/grpc-web+proto\r\n\r\n";
    let whole = [&head[..], ONE, &end(&[("grpc-status", "0")])].concat();
    let few = |response: &[u8]| {
        let server = answering(response.to_vec(), false);
        let spec = LoadSpec { targets: vec![call()], connections: 2, ..spec(&[server.address]) };
        load(&until_done(4, spec)).counts
    };
    let counts = few(&whole);
    assert_eq!((counts.ok, counts.trailers_lost), (4, 0), "{counts:?}");
    let counts = few(&whole[..whole.len() - 3]);
    assert_eq!((counts.completed, counts.ok, counts.trailers_lost), (4, 0, 4), "{counts:?}");
    let in_chunks = chunked(&Reply::new(200, WEB, &[ONE], &[]));
    let counts = few(&in_chunks[..in_chunks.len() - 8]);
    assert_eq!((counts.completed, counts.resets, counts.trailers_lost), (0, 4, 0), "{counts:?}");
}

#[test]
fn streams_of_the_server_are_counted() {
    let message = |number| {
        let mut message = grpc::body(&with_room(vec![b'x'; 50], true)).expect("short");
        let room = &mut message[5..5 + Stamp::LENGTH];
        Stamp { number, due: 1 }.write(room.try_into().expect("as long"));
        message
    };
    let mut all: Vec<Vec<u8>> = (0..MESSAGES).map(message).collect();
    let ok = end(&[("grpc-status", "0")]);
    let whole = [&all.concat()[..], &ok].concat();
    let split: Vec<Vec<u8>> = whole.chunks(7).map(<[u8]>::to_vec).collect();
    let cut = all.clone();
    all.push(ok);
    let mut gap = all.clone();
    gap.remove(3);
    for (name, data, status, lost) in [
        ("one piece", vec![whole], Status::Ok, 0),
        ("pieces", split, Status::Ok, 0),
        ("messages", all, Status::Ok, 0),
        ("without one message", gap, Status::Ok, CALLS),
        ("without trailers", cut, Status::Unknown, 0),
    ] {
        let reply = Reply { data, ..Reply::new(200, WEB, &[], &[]) };
        for (_server, spec) in loads(&reply, &stream()) {
            let record = load(&spec);
            let counts = record.messages.as_ref().expect("a load with streams records them").counts;
            let name = format!("{name}, {:?}: {counts:?} of {:?}", spec.http, record.counts);
            assert_eq!(record.counts.grpc, [(status.name().to_owned(), CALLS)].into(), "{name}");
            assert_eq!((counts.sent, counts.received + lost), (CALLS, CALLS * MESSAGES), "{name}");
            assert_eq!((counts.lost, counts.repeated, counts.unnumbered), (lost, 0, 0), "{name}");
        }
    }
}

#[test]
fn requests_over_http1_have_the_headers_of_browsers() {
    let first = |target: &TargetSpec| {
        let bytes = first_request(target, &BTreeMap::new(), 1, HttpVersion::Http11).expect("valid");
        String::from_utf8(bytes).expect("ASCII")
    };
    let headers = "POST /echo.Echo/Say HTTP/1.1\r\nhost: test\r\ncontent-type: \
                   application/grpc-web+proto\r\nx-grpc-web: 1\r\n";
    assert_eq!(first(&call()), format!("{headers}content-length: 10\r\n\r\n\0\0\0\0\x05hello"));
    let message = 5 + Stamp::LENGTH;
    let of_stream = first(&stream());
    assert!(of_stream.starts_with(&format!("{headers}content-length: {}\r\n\r\n", 5 + message)));
    assert_eq!(&of_stream.as_bytes()[of_stream.len() - message - 5..][..5], [0, 0, 0, 0, message as u8]);
}

#[test]
fn calls_that_cannot_be_sent_are_refused() {
    let [(_server, good), _] = loads(&Reply::new(200, WEB, &[ONE], &[]), &stream());
    let with = |change: fn(&mut TargetSpec)| {
        let mut spec = good.clone();
        change(&mut spec.targets[0]);
        spec
    };
    let told = [
        LoadSpec { http: HttpVersion::Http10, ..good.clone() },
        with(|target| target.grpc = false),
        with(|target| target.grpc_web = false),
        with(|target| target.body_is_template = true),
        with(|target| target.stream.as_mut().expect("set").kind = StreamKind::ClientStream),
        with(|target| target.stream.as_mut().expect("set").kind = StreamKind::BothWays),
    ]
    .map(|spec| format!("{}\n", refusal(&spec)))
    .concat();
    insta::assert_snapshot!(told);
}

//! gRPC calls, against servers that answer correctly or incorrectly.

use super::http2::{Peer, multiplexed, server};
use super::*;
use hoptax_format::grpc::{self, Status};
use hoptax_format::spec::Check;
use hoptax_wire::http2::{Block, Config, OutField, response_fields};

pub(super) type Fields = &'static [(&'static str, &'static str)];

/// A response. The end of the stream is in its last part.
#[derive(Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: Fields,
    /// One frame each.
    pub(super) data: Vec<Vec<u8>>,
    pub(super) trailers: Fields,
}

impl Reply {
    pub(super) fn new(status: u16, head: Fields, data: &[&[u8]], trailers: Fields) -> Self {
        Self { status, head, data: data.iter().map(|piece| piece.to_vec()).collect(), trailers }
    }

    fn send(&self, peer: &mut Peer, stream: u32) {
        let Peer { wire, out, .. } = peer;
        let head = response_fields(self.status, self.head.iter().copied(), None).expect("valid");
        let is_alone = self.data.is_empty() && self.trailers.is_empty();
        wire.send_head(stream, &Block::plain(&head), &[], is_alone, out);
        for (index, piece) in self.data.iter().enumerate() {
            let is_last = self.trailers.is_empty() && index + 1 == self.data.len();
            wire.send_data(stream, piece, is_last, out);
        }
        if !self.trailers.is_empty() {
            let fields = self.trailers.iter();
            let field = |&(name, value): &(&str, &str)| OutField { name: name.into(), value: value.into() };
            let trailers: Vec<OutField> = fields.map(field).collect();
            wire.send_head(stream, &Block::plain(&trailers), &[], true, out);
        }
    }
}

pub(super) fn replying(reply: Reply) -> Server {
    server(Config::default(), move |peer, stream| {
        reply.send(peer, stream);
        true
    })
}

fn call(checks: Vec<Check>) -> TargetSpec {
    let mut headers = vec![("host".to_owned(), "test".to_owned())];
    grpc::add_headers(&mut headers, None);
    let body = grpc::body(b"hello").expect("short");
    TargetSpec { grpc: true, checks, ..TargetSpec::only(grpc::METHOD, "/echo.Echo/Say", headers, body) }
}

fn calling(server: &Server, checks: Vec<Check>) -> LoadSpec {
    until_done(CALLS, LoadSpec { targets: vec![call(checks)], ..multiplexed(server, 2, 4) })
}

pub(super) const CALLS: u64 = 40;
pub(super) const ONE: &[u8] = b"\0\0\0\0\x05hello";
const GRPC: Fields = &[("content-type", "application/grpc")];
const OK: Fields = &[("grpc-status", "0")];

#[test]
fn the_outcome_of_a_call_is_its_status() {
    let split: Vec<&[u8]> = ONE.chunks(1).collect();
    let of_head: Fields = &[("content-type", "application/grpc"), ("grpc-status", "14")];
    let ok_in_head: Fields = &[("content-type", "application/grpc"), ("grpc-status", "0")];
    let with_text: Fields = &[("grpc-message", "no%20such"), ("grpc-status", "5")];
    let (undefined, other): (Fields, Fields) = (&[("grpc-status", "99")], &[("x", "y")]);
    for (name, reply, status, is_lost) in [
        ("a message and trailers", Reply::new(200, GRPC, &[ONE], OK), Status::Ok, false),
        ("a message in many frames", Reply::new(200, GRPC, &split, OK), Status::Ok, false),
        ("an error in trailers", Reply::new(200, GRPC, &[], with_text), Status::NotFound, false),
        ("an error after a message", Reply::new(200, GRPC, &[ONE], with_text), Status::NotFound, false),
        ("trailers only", Reply::new(200, of_head, &[], &[]), Status::Unavailable, false),
        ("503 without a status", Reply::new(503, &[], &[b"busy"], &[]), Status::Unavailable, false),
        ("404 without a body", Reply::new(404, &[], &[], &[]), Status::Unimplemented, false),
        ("500 with other trailers", Reply::new(500, &[], &[], other), Status::Unknown, false),
        ("lost trailers", Reply::new(200, GRPC, &[ONE], &[]), Status::Unknown, true),
        ("trailers without a status", Reply::new(200, GRPC, &[ONE], other), Status::Unknown, true),
        ("a head alone", Reply::new(200, GRPC, &[], &[]), Status::Unknown, true),
        ("a status in a head with a body", Reply::new(200, of_head, &[ONE], &[]), Status::Unknown, true),
        ("an undefined status", Reply::new(200, GRPC, &[ONE], undefined), Status::Unknown, false),
        ("no message", Reply::new(200, GRPC, &[], OK), Status::Internal, false),
        ("no message, trailers only", Reply::new(200, ok_in_head, &[], &[]), Status::Internal, false),
        ("two messages", Reply::new(200, GRPC, &[ONE, ONE], OK), Status::Internal, false),
        ("half a message", Reply::new(200, GRPC, &[&ONE[..7]], OK), Status::Internal, false),
        ("no frame of gRPC", Reply::new(200, GRPC, &[b"nonsense"], OK), Status::Internal, false),
    ] {
        let server = replying(reply);
        let counts = load(&calling(&server, Vec::new())).counts;
        assert_eq!(counts.grpc, [(status.name().to_owned(), CALLS)].into(), "{name}: {counts:?}");
        assert_eq!(counts.trailers_lost, if is_lost { CALLS } else { 0 }, "{name}");
        let ok = status == Status::Ok;
        assert_eq!((counts.completed, counts.ok), (CALLS, if ok { CALLS } else { 0 }), "{name}");
        let text = format!("gRPC status {} is not OK", status.name());
        let failed = if ok { BTreeMap::new() } else { [(text, CALLS)].into() };
        assert_eq!(counts.failed_checks, failed, "{name}");
    }
}

#[test]
fn another_status_can_be_expected() {
    let server = replying(Reply::new(200, GRPC, &[], &[("grpc-status", "5")]));
    let expected = |status| load(&calling(&server, vec![Check::Grpc(vec![Status::Ok, status])])).counts.ok;
    assert_eq!(expected(Status::NotFound), CALLS);
    assert_eq!(expected(Status::Aborted), 0);
}

#[test]
fn statuses_are_counted_apart() {
    // Every fifth call of the connection fails.
    let replies = [Reply::new(200, GRPC, &[ONE], OK), Reply::new(200, GRPC, &[], &[("grpc-status", "8")])];
    let server = server(Config::default(), move |peer, stream| {
        replies[usize::from(peer.asked.is_multiple_of(5))].send(peer, stream);
        true
    });
    let counts = load(&LoadSpec { connections: 1, ..calling(&server, Vec::new()) }).counts;
    let (ok, exhausted) = (("OK".to_owned(), 32), ("RESOURCE_EXHAUSTED".to_owned(), 8));
    assert_eq!(counts.grpc, [ok, exhausted].into(), "{counts:?}");
    assert_eq!((counts.ok, counts.status[&200]), (32, CALLS));
}

#[test]
fn calls_that_cannot_be_sent_are_refused() {
    let server = replying(Reply::new(200, GRPC, &[ONE], OK));
    let good = calling(&server, Vec::new());
    let with = |target| LoadSpec { targets: vec![target], ..good.clone() };
    let checked = TargetSpec { grpc: false, ..call(vec![Check::Grpc(vec![Status::Ok])]) };
    let told = [
        LoadSpec { http: HttpVersion::Http11, streams: 1, ..good.clone() },
        with(TargetSpec { body_is_template: true, ..call(Vec::new()) }),
        with(checked),
    ]
    .map(|spec| format!("{}\n", refusal(&spec)))
    .concat();
    insta::assert_snapshot!(told);
}

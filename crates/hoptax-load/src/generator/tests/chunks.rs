//! Request bodies in chunks, without and with pauses between the chunks.

use super::mix::{Asked, keeping};
use super::*;
use hoptax_format::spec::Chunked;

const BODY: &str = "0123456789";
const PAUSE: u64 = 3 * MILLISECOND;

fn chunked(text: &str, chunk_bytes: u64, pause_ns: u64) -> TargetSpec {
    let headers = vec![("host".to_owned(), "test".to_owned())];
    TargetSpec {
        chunked: Some(Chunked { chunk_bytes, pause_ns }),
        body_is_template: text.contains("{{"),
        ..TargetSpec::only("POST", "/", headers, text.into())
    }
}

fn ok(_: &Asked) -> Vec<u8> {
    OK.to_vec()
}

#[test]
fn bodies_in_chunks_arrive_whole_and_their_bytes_are_counted() {
    for (text, pause_ns) in
        [(BODY, 0), (BODY, PAUSE), ("{{random 10 99}}345678\\{{", 0), ("{{random 10 99}}345678\\{{", PAUSE)]
    {
        for shape in [Shape::Closed, open(500.0, Arrivals::Constant)] {
            let (server, kept) = keeping(ok);
            let targets = vec![chunked(text, 3, pause_ns)];
            let spec = until_done(20, LoadSpec { targets, shape, connections: 3, ..spec(&[server.address]) });
            let record = load(&spec);
            assert_eq!((record.counts.ok, record.lifetime.opened), (20, 3), "{:?}", record.counts);
            let request = crate::target::first_request(&spec.targets[0], &spec.files, 0, spec.http);
            let whole = request.expect("valid").len() as u64;
            assert_eq!(record.bytes.sent, 20 * whole, "the framing of the chunks counts");
            let kept = kept.lock().expect("not poisoned");
            assert!(kept.iter().all(|(head, _)| head.ends_with("\r\ntransfer-encoding: chunked\r\n\r\n")));
            assert!(kept.iter().all(|(_, body)| body.len() == 10), "{kept:?}");
            assert!(text != BODY || kept.iter().all(|(_, body)| body == BODY.as_bytes()));
            // Ten bytes are four chunks with three pauses between them.
            let fastest = quantile(&record.histograms.service_time, 0.0);
            assert!(fastest >= 3 * pause_ns / 1000 * 999, "{fastest} ns");
        }
    }
}

#[test]
fn an_empty_body_has_only_its_end() {
    let (server, kept) = keeping(ok);
    let targets = vec![chunked("", 3, PAUSE)];
    let record = load(&until_done(5, LoadSpec { targets, ..spec(&[server.address]) }));
    assert_eq!(record.counts.ok, 5);
    assert!(kept.lock().expect("not poisoned").iter().all(|(_, body)| body.is_empty()));
}

/// Reads the head of each request, and answers it without waiting for the body.
fn early(mut connection: TcpStream, _: &AtomicU64) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = connection.read(&mut buffer) {
        let head = buffer[..count].windows(4).any(|bytes| bytes == b"\r\n\r\n");
        let answer = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
        if head && connection.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn an_early_answer_ends_the_upload_and_its_connection() {
    let server = Server::new(early);
    let targets = vec![chunked(BODY, 1, 20_000 * MILLISECOND)];
    let spec = LoadSpec { targets, connections: 2, ..spec(&[server.address]) };
    let timeouts = Timeouts::all(300_000 * MILLISECOND);
    let record = load(&until_done(10, LoadSpec { timeouts, ..spec }));
    assert_eq!(record.counts.status, BTreeMap::from([(413, 10)]));
    assert_eq!(record.lifetime.opened, 10, "no connection is used twice");
    let slowest = quantile(&record.histograms.response_time, 1.0);
    assert!(slowest < 20_000 * MILLISECOND, "{slowest} ns");
    let first = "POST / HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n1\r\n0\r\n".len() as u64;
    assert_eq!(record.bytes.sent, 10 * first, "the head and the first chunk");
}

#[test]
fn a_pause_longer_than_the_timeout_is_a_timeout() {
    let server = Server::new(silent);
    let targets = vec![chunked(BODY, 1, 5000 * MILLISECOND)];
    let timeouts = Timeouts { total_ns: 100 * MILLISECOND, ..Timeouts::all(5000 * MILLISECOND) };
    let record = load(&until_done(4, LoadSpec { targets, timeouts, ..spec(&[server.address]) }));
    assert_eq!(record.counts.timeouts, 4, "{:?}", record.counts);
}

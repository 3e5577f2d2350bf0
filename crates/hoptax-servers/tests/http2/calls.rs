//! gRPC calls to the built-in upstream, also through `hop-h2`.

use super::*;
use hoptax_format::messages::{StreamKind, StreamSpec};
use hoptax_plan::PathStream;

const HEADERS: [(&str, &str); 2] = [("te", "trailers"), ("content-type", "application/grpc+proto")];

fn call(tag: u32, path: &str) -> Request<'_> {
    Request { method: "POST", headers: &HEADERS, body: b"\0\0\0\0\x02hi", ..Request::get(tag, path) }
}

fn status(answer: &Answer) -> Option<&str> {
    let trailers = answer.trailers.iter().find(|(name, _)| name == "grpc-status");
    trailers.map(|(_, value)| value.as_str()).or(answer.header("grpc-status"))
}

#[test]
fn any_method_of_any_service_gets_a_message_and_a_status() {
    let rule = parse_answer("{ path: /other.Service/Get, body: 5B }").expect("an answer");
    let configured = BuiltInUpstream { body: Body::Size(100_000), answers: vec![rule], ..settings() };
    let upstream = start(&configured, &Placement::default());
    let mut client = connect(&upstream);
    let (say, get) = ("/echo.Echo/Say", "/other.Service/Get");
    for (path, length) in [(say, 100_000), (get, 5), (say, 100_000)] {
        let answer = client.exchange(&[call(3, path)]).remove(0);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/grpc")), "{path}");
        assert_eq!((status(&answer), answer.header("grpc-status")), (Some("0"), None), "{path}");
        let prefix = [&[0][..], &u32::try_from(length).expect("short").to_be_bytes()].concat();
        assert_eq!(answer.body, [prefix, pattern(length)].concat(), "{path}");
        assert_eq!(answer.header("content-length"), None);
    }
    // Requests that are no calls get the usual answers.
    let post = Request { body: b"{}", method: "POST", ..Request::get(4, "/echo.Echo/Say") };
    let answer = client.exchange(&[post]).remove(0);
    assert_eq!((answer.body.len(), status(&answer)), (100_000, None));
    assert_eq!(counts(&upstream).instances[0].http_version["2"], 4);
}

#[test]
fn calls_that_fail_have_no_message() {
    let failing = BuiltInUpstream { failures: 1.0, ..settings() };
    let not_found = BuiltInUpstream { status: 404, ..settings() };
    for (configured, expected) in [(failing, "14"), (not_found, "12")] {
        let upstream = start(&configured, &Placement::default());
        let mut client = connect(&upstream);
        let answer = client.exchange(&[call(1, "/echo.Echo/Say")]).remove(0);
        assert_eq!((answer.status, status(&answer)), (200, Some(expected)));
        assert_eq!((answer.body.len(), answer.trailers.len()), (0, 0), "the head is the whole answer");
        let health = client.exchange(&[call(2, "/grpc.health.v1.Health/Check")]).remove(0);
        assert_eq!((health.body.as_slice(), status(&health)), (&b"\0\0\0\0\x02\x08\x01"[..], Some("0")));
    }
}

const END: &[u8] = b"\x80\0\0\0\x10grpc-status: 0\r\n";

#[test]
fn calls_of_grpc_web_have_their_status_in_the_body() {
    let headers = [("content-type", "application/grpc-web+proto"), ("x-grpc-web", "1")];
    let web = |tag, path| Request { headers: &headers, ..call(tag, path) };
    let stream = StreamSpec::grpc(StreamKind::ServerStream, 3, 0);
    let streams = vec![PathStream { path: "/echo.Echo/Watch".into(), stream }];
    let configured = BuiltInUpstream { body: Body::Size(100_000), streams, ..settings() };
    let upstream = start(&configured, &Placement::default());
    let mut client = connect(&upstream);
    for tag in 0..3 {
        let answer = client.exchange(&[web(tag, "/echo.Echo/Say")]).remove(0);
        let content_type = answer.header("content-type");
        assert_eq!((answer.status, content_type), (200, Some("application/grpc-web+proto")));
        assert_eq!((answer.header("grpc-status"), answer.trailers.len()), (None, 0));
        assert_eq!(answer.body, [&b"\0\0\x01\x86\xa0"[..], &pattern(100_000)[..], END].concat());
    }
    let answer = client.exchange(&[web(4, "/echo.Echo/Watch")]).remove(0);
    assert_eq!((answer.body.len(), answer.trailers.len()), (3 * 100_005 + END.len(), 0));
    assert!(answer.body.ends_with(END));
    let health = client.exchange(&[web(5, "/grpc.health.v1.Health/Check")]).remove(0);
    assert_eq!(health.body, [&b"\0\0\0\0\x02\x08\x01"[..], END].concat());
    let failing = BuiltInUpstream { failures: 1.0, ..settings() };
    let upstream = start(&failing, &Placement::default());
    let answer = connect(&upstream).exchange(&[web(5, "/echo.Echo/Say")]).remove(0);
    assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("14")));
    assert_eq!((answer.body.len(), answer.trailers.len()), (0, 0));
}

#[test]
fn calls_of_grpc_web_can_use_http1() {
    let rule = parse_answer("{ path: /other.Service/Get, body: 5B }").expect("an answer");
    let configured = BuiltInUpstream { answers: vec![rule], ..settings() };
    let request = |path: &str, connection: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nconnection: {connection}\r\n");
        let type_of_web = "content-type: application/grpc-web+proto\r\ngrpc-timeout: 1S\r\n";
        format!("{head}{type_of_web}content-length: 7\r\n\r\n\0\0\0\0\x02hi")
    };
    let requests = request("/echo.Echo/Say", "keep-alive") + &request("/other.Service/Get", "close");
    for stamps in [false, true] {
        let upstream = start(&configured, &Placement { stamps, ..Placement::default() });
        let answers = raw(&upstream, requests.as_bytes());
        let first = [&b"\0\0\0\x04\0"[..], &pattern(1024)[..], END].concat();
        let second = [&b"\0\0\0\0\x05"[..], &pattern(5)[..], END].concat();
        let text = String::from_utf8_lossy(&answers);
        assert_eq!(text.matches("content-type: application/grpc-web+proto\r\n").count(), 2, "{text}");
        assert_eq!(text.matches(stamp::HEADER).count(), if stamps { 2 } else { 0 }, "{text}");
        assert_eq!(text.matches("hoptax-stamp: 0000000000000000000 ").count(), 0, "{text}");
        assert!(text.contains(&format!("\r\ncontent-length: {}\r\n", second.len())), "{text}");
        let head_of_second = answers.len() - second.len();
        assert!(answers.ends_with(&second) && answers[..head_of_second].ends_with(b"\r\n\r\n"), "{text}");
        assert!(answers.windows(first.len()).any(|window| window == first), "{text}");
        assert_eq!(counts(&upstream).instances[0].http_version["1.1"], 2);
    }
    let failing = BuiltInUpstream { failures: 1.0, ..settings() };
    let upstream = start(&failing, &Placement::default());
    let answer = raw(&upstream, request("/echo.Echo/Say", "close").as_bytes());
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("\r\ngrpc-status: 14\r\n"), "{text}");
    assert!(text.ends_with("\r\ncontent-length: 0\r\n\r\n"), "{text}");
}

#[test]
fn many_calls_at_a_time_are_delayed_and_stamped() {
    let configured = BuiltInUpstream { delay: Delay::Fixed(Duration::from_millis(20)), ..settings() };
    let upstream = start(&configured, &Placement { stamps: true, ..Placement::default() });
    let calls: Vec<Request<'_>> = (0..50).map(|tag| call(tag, "/echo.Echo/Say")).collect();
    for answer in connect(&upstream).exchange(&calls) {
        assert_eq!((status(&answer), answer.body.len()), (Some("0"), 1029));
        let stamp = answer.header(stamp::HEADER).and_then(|value| Stamp::read(value.as_bytes()));
        let stamp = stamp.expect("a stamp");
        assert!(stamp.replied >= stamp.received + 20_000_000, "{stamp:?}");
    }
}

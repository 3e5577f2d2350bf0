//! gRPC calls to the built-in upstream, also through `hop-h2`.

use super::*;

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

//! Tests how targets are prepared: which bytes are sent, and which targets are refused. Random texts must
//! never break the syntax of a request.

use super::*;
use hoptax_format::random::Random;
use hoptax_format::spec::{Check, HttpVersion};
use hoptax_format::template::Place;
use hoptax_wire::http1::{Framing, RequestDecoder, RequestStep, fields};
use std::collections::BTreeMap;

fn get(path: &str, headers: &[(&str, &str)]) -> TargetSpec {
    let headers = [("host", "x")].iter().chain(headers);
    let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TargetSpec::only("GET", path, headers, Vec::new())
}

fn post(path: &str, headers: &[(&str, &str)], body: &str) -> TargetSpec {
    TargetSpec { method: "POST".into(), body: body.into(), body_is_template: true, ..get(path, headers) }
}

fn files() -> BTreeMap<String, String> {
    [("tokens", "t-0\nt-1\nt-2\n"), ("holes", "a\n\nccc\n")]
        .map(|(name, content)| (name.to_owned(), content.to_owned()))
        .into()
}

/// Returns the first `count` requests of a load with these targets and one worker.
fn requests(targets: &[TargetSpec], count: usize) -> Vec<String> {
    let files = files();
    let mix = Mix::new(targets, &files, 3, Protocol::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut requests = Requests::new(&mix, (0, 1));
    let mut next = || {
        let target = requests.choose();
        String::from_utf8(requests.next(target, 1).to_vec()).expect("text")
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_target_without_templates_is_encoded_once() {
    let target =
        TargetSpec { body_is_template: false, ..post("/a?b=c", &[("Connection", "close")], "he{{o") };
    let expected = "POST /a?b=c HTTP/1.1\r\nhost: x\r\nConnection: close\r\ncontent-length: 5\r\n\r\nhe{{o";
    assert_eq!(requests(std::slice::from_ref(&target), 2), [expected, expected]);
    for target in [target, get("/\\{{seq}}", &[("x", "\\{{")]), post("/", &[], "\\{{seq}}"), get("/", &[])] {
        let ready = Target::new(0, &target, &Files::default(), Protocol::default()).expect("valid");
        assert!(matches!(ready.encoded.request, Request::Fixed(_)), "{target:?}");
        assert_eq!(ready.encoded.closes, target.headers.len() == 2 && target.headers[1].0 == "Connection");
    }
    let head = TargetSpec { method: "HEAD".into(), ..get("/", &[]) };
    assert!(Target::new(0, &head, &Files::default(), Protocol::default()).expect("valid").is_head);
}

#[test]
fn adds_a_connection_header_if_the_default_of_the_version_differs() {
    use HttpVersion::{Http10, Http11};
    for (version, per_connection, own, head, closes) in [
        (Http11, None, None, "HTTP/1.1\r\nhost: x\r\n\r\n", false),
        (Http11, Some(1), None, "HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", true),
        (Http10, None, None, "HTTP/1.0\r\nhost: x\r\nconnection: keep-alive\r\n\r\n", false),
        (Http10, Some(1), None, "HTTP/1.0\r\nhost: x\r\n\r\n", true),
        (Http11, Some(1), Some("te"), "HTTP/1.1\r\nhost: x\r\nConnection: te\r\n\r\n", true),
        (Http10, None, Some("te"), "HTTP/1.0\r\nhost: x\r\nConnection: te\r\n\r\n", true),
        (Http10, None, Some("Keep-Alive"), "HTTP/1.0\r\nhost: x\r\nConnection: Keep-Alive\r\n\r\n", false),
    ] {
        let own: Vec<_> = own.map(|value| ("Connection", value)).into_iter().collect();
        let (targets, files) = ([get("/{{seq}}", &own)], BTreeMap::new());
        let protocol = Protocol { version, per_connection, ..Protocol::default() };
        let mix = Mix::new(&targets, &files, 0, protocol).expect("valid");
        let mut requests = Requests::new(&mix, (0, 1));
        assert_eq!(String::from_utf8_lossy(requests.next(0, 1)), format!("GET /0 {head}"));
        assert_eq!(mix.closes(0, 1), closes, "{head}");
    }
}

#[test]
fn the_last_request_of_a_connection_says_so() {
    let (targets, files) = ([get("/{{seq}}", &[])], BTreeMap::new());
    let protocol = Protocol { per_connection: Some(3), ..Protocol::default() };
    let mix = Mix::new(&targets, &files, 0, protocol).expect("valid");
    let mut requests = Requests::new(&mix, (0, 1));
    for (seq, carried) in [1, 2, 3, 1, 2, 3].into_iter().enumerate() {
        let last = carried == 3;
        let head = if last { "host: x\r\nconnection: close\r\n\r\n" } else { "host: x\r\n\r\n" };
        let expected = format!("GET /{seq} HTTP/1.1\r\n{head}");
        assert_eq!(String::from_utf8_lossy(requests.next(0, carried)), expected);
        assert_eq!(mix.closes(0, carried), last);
    }
}

#[test]
fn a_content_length_of_the_users_own_must_be_that_of_the_body() {
    let of = |length: &str, body: &str| {
        let target = post("/", &[("Content-Length", length)], body);
        first_request(&target, &BTreeMap::new(), 0, HttpVersion::Http11)
    };
    let request = of("5", "hello").expect("equal");
    let expected = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(String::from_utf8_lossy(&request), expected);
    let mut told = String::new();
    for (length, body) in [("4", "hello"), ("x", "hello"), ("1", "{{seq}}")] {
        let error = of(length, body).expect_err("it differs");
        assert_eq!(error.part, TargetPart::Header(1, "Content-Length".into()));
        told += &format!("{error}\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn templates_are_expanded_in_path_headers_and_body() {
    let auth = ("authorization", "Basic {{base64 u{{seq}}:{{line tokens}}}}");
    let target = post("/items/{{seq}}?token={{line tokens}}", &[auth], "{\"n\":{{seq}},\"x\":\"\\{{y}}\"}");
    let expected = |seq: &str, token: &str, auth: &str| {
        format!(
            "POST /items/{seq}?token={token} HTTP/1.1\r\nhost: x\r\nauthorization: Basic {auth}\r\n\
             content-length: 19\r\n\r\n{{\"n\":{seq},\"x\":\"{{{{y}}}}\"}}"
        )
    };
    assert_eq!(
        requests(&[target], 4),
        [
            expected("0", "t-0", "dTA6dC0w"),
            expected("1", "t-1", "dTE6dC0x"),
            expected("2", "t-2", "dTI6dC0y"),
            expected("3", "t-0", "dTM6dC0w"),
        ]
    );
}

#[test]
fn the_content_length_is_that_of_each_body() {
    let bodies: Vec<String> = requests(&[post("/", &[], "{{line holes}}")], 3)
        .iter()
        .map(|request| request.split("content-length: ").nth(1).expect("a length").to_owned())
        .collect();
    assert_eq!(bodies, ["1\r\n\r\na", "0\r\n\r\n", "3\r\n\r\nccc"]);
    let fixed = TargetSpec { body_is_template: false, ..post("/{{seq}}", &[], "{{seq}}") };
    let expected = "POST /0 HTTP/1.1\r\nhost: x\r\ncontent-length: 7\r\n\r\n{{seq}}";
    assert_eq!(requests(&[fixed], 1), [expected]);
}

#[test]
fn a_websocket_sends_its_handshake_without_a_message() {
    use hoptax_format::messages::{Stamp, StreamSpec};
    let mut target = TargetSpec { body: vec![b'x'; Stamp::LENGTH], ..get("/chat", &[]) };
    hoptax_format::websocket::add_headers(&mut target.headers, false);
    let stream = StreamSpec::grpc(StreamKind::BothWays, 1, 0);
    target.stream = Some(StreamSpec { carrier: Carrier::WebSocket, ..stream });
    let expected = "GET /chat HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                    sec-websocket-version: 13\r\nsec-websocket-key: aG9wdGF4LXdlYnNvY2tldA==\r\n\r\n";
    assert_eq!(requests(std::slice::from_ref(&target), 1), [expected]);
    let protocol = Protocol { version: HttpVersion::Http10, ..Protocol::default() };
    let error = Target::new(0, &target, &Files::default(), protocol).expect_err("too old");
    assert!(error.to_string().contains("HTTP/1.0"), "{error}");
}

#[test]
fn first_request_equals_the_first_request_of_a_load() {
    let target = get("/{{uuid}}/{{random 1 1000000}}/{{line tokens}}", &[]);
    let first = |version| {
        let bytes = first_request(&target, &files(), 3, version).expect("valid");
        String::from_utf8(bytes).expect("text")
    };
    assert_eq!(first(HttpVersion::Http11), requests(std::slice::from_ref(&target), 1)[0]);
    let old = first(HttpVersion::Http10);
    assert!(old.contains(" HTTP/1.0\r\n") && old.contains("\r\nconnection: keep-alive\r\n"), "{old}");
}

fn weighted(name: &str, weight: u32) -> TargetSpec {
    TargetSpec { name: name.into(), weight, ..get(&format!("/{name}/{{{{seq}}}}"), &[]) }
}

#[test]
fn each_target_is_chosen_as_often_as_its_weight_says_and_numbers_are_shared() {
    let targets = [weighted("a", 1), weighted("b", 2), weighted("c", 7)];
    let sent = requests(&targets, 20_000);
    for (seq, request) in sent.iter().enumerate() {
        assert!(request[6..].starts_with(&format!("/{seq} ")), "{request}");
    }
    for (name, share) in [("a", 0.1), ("b", 0.2), ("c", 0.7)] {
        let count = sent.iter().filter(|request| request[5..].starts_with(name)).count();
        // Allow six standard deviations of a binomial count.
        let spread = 6.0 * (20_000.0f64 * share * (1.0 - share)).sqrt();
        assert!((count as f64 - 20_000.0 * share).abs() < spread, "{name}: {count}");
    }
    assert_eq!(sent, requests(&targets, 20_000), "the seed decides");
}

#[test]
fn workers_choose_differently_and_templates_do_not_affect_the_choice() {
    let files = BTreeMap::new();
    let choices = |targets: &[TargetSpec], worker| {
        let mix = Mix::new(targets, &files, 5, Protocol::default()).expect("valid");
        let mut requests = Requests::new(&mix, (worker, 2));
        let mut next = || {
            let target = requests.choose();
            requests.next(target, 1);
            target
        };
        (0..100).map(|_| next()).collect::<Vec<_>>()
    };
    let plain = [weighted("a", 1), weighted("b", 1)];
    let mut random = plain.clone();
    random[0].path = "/{{uuid}}{{random 1 5}}".into();
    assert_eq!(choices(&plain, 0), choices(&random, 0));
    assert_ne!(choices(&plain, 0), choices(&plain, 1));
    assert!(choices(&plain[..1], 0).iter().all(|&target| target == 0));
}

#[test]
fn a_single_target_draws_no_random_number() {
    let (targets, files) = ([weighted("a", 1)], BTreeMap::new());
    let mix = Mix::new(&targets, &files, 5, Protocol::default()).expect("valid");
    let mut requests = Requests::new(&mix, (0, 1));
    let before = requests.choice.clone().next_u64();
    requests.choose();
    assert_eq!(requests.choice.clone().next_u64(), before);
}

#[test]
fn errors_name_their_target_part_and_offset() {
    let named = |name: &str| TargetSpec { name: name.into(), ..get("/", &[]) };
    let checked = |check| TargetSpec { checks: vec![Check::BodyEquals("".into()), check], ..get("/", &[]) };
    let of_head = |check| TargetSpec { method: "HEAD".into(), ..checked(check) };
    let many: Vec<TargetSpec> = (0..257).map(|index| named(&index.to_string())).collect();
    let binary = TargetSpec { body: vec![b'a', 0xff], ..post("/", &[], "") };
    let mut told = String::new();
    for (targets, part, at) in [
        (vec![named("")], TargetPart::Name, None),
        (vec![named("a"), named("a")], TargetPart::Name, None),
        (many, TargetPart::Name, None),
        (vec![TargetSpec { weight: 0, ..named("a") }], TargetPart::Weight, None),
        (vec![TargetSpec { method: "G T".into(), ..named("a") }], TargetPart::Method, None),
        (vec![get("/a b", &[])], TargetPart::Path, Some(2)),
        (vec![get("/{{sqe}}", &[])], TargetPart::Path, Some(3)),
        (vec![get("/", &[("a:", "b")])], TargetPart::Header(1, "a:".into()), None),
        (vec![get("/", &[("a{{seq}}", "b")])], TargetPart::Header(1, "a{{seq}}".into()), None),
        (vec![get("/", &[("a", "b\r\nc: d")])], TargetPart::Header(1, "a".into()), Some(1)),
        (vec![get("/", &[("a", " b")])], TargetPart::Header(1, "a".into()), Some(0)),
        (vec![get("/", &[("Content-Length", "7")])], TargetPart::Header(1, "Content-Length".into()), None),
        (vec![get("/", &[("Host", "y")])], TargetPart::Header(1, "Host".into()), None),
        (
            vec![get("/", &[("transfer-encoding", "x")])],
            TargetPart::Header(1, "transfer-encoding".into()),
            None,
        ),
        (
            vec![get("/", &[("connection", "{{line tokens}}")])],
            TargetPart::Header(1, "connection".into()),
            None,
        ),
        (vec![post("/", &[], "{{line other}}")], TargetPart::Body, Some(0)),
        (vec![binary], TargetPart::Body, Some(1)),
        (vec![checked(Check::Status(vec![(42, 42)]))], TargetPart::Check(1), None),
        (vec![of_head(Check::BodyContains("x".into()))], TargetPart::Check(1), None),
    ] {
        let error = check(&targets, &files()).expect_err("refused");
        assert_eq!((&error.part, error.at), (&part, at), "{error}");
        told += &format!("{error}\n");
    }
    insta::assert_snapshot!(told);
}

/// The parts from which random texts are built: templates, pieces of templates, and characters that have a
/// special meaning in requests.
const ALPHABET: [&str; 24] = [
    "{{",
    "}}",
    "{",
    "}",
    "\\",
    "{{seq}}",
    "{{uuid}}",
    "{{random -5 99}}",
    "{{line tokens}}",
    "{{line holes}}",
    "{{base64 ",
    "base64",
    "line",
    " ",
    "/",
    "a",
    "ü",
    ":",
    "\r",
    "\n",
    "\t",
    "\0",
    "HTTP/1.1",
    "\r\nx: y",
];

fn text(random: &mut Random, most: u64) -> String {
    (0..random.below(most)).map(|_| ALPHABET[random.below(ALPHABET.len() as u64) as usize]).collect()
}

#[test]
fn the_parser_survives_random_texts() {
    let (mut random, files, mut good) = (Random::new(1), files(), 0);
    for _ in 0..100_000 {
        let text = text(&mut random, 12);
        for place in [Place::Path, Place::Header, Place::Body] {
            match hoptax_format::template::check(&text, place, &files) {
                Ok(()) => good += 1,
                Err(error) => assert!(text.is_char_boundary(error.at), "{text:?}: {error:?}"),
            }
        }
    }
    assert!(good > 10_000, "{good}: some texts must be valid");
}

/// A request as the server parses it.
#[derive(Debug, PartialEq)]
struct Seen {
    target: String,
    headers: Vec<String>,
    body: usize,
}

fn read(bytes: &[u8]) -> Seen {
    let mut decoder = RequestDecoder::new();
    let Ok(RequestStep::Head { consumed, head }) = decoder.advance(bytes) else {
        panic!("no head in {}", bytes.escape_ascii());
    };
    let mut headers = Vec::new();
    fields(&bytes[..consumed], |field| headers.push(field.name.to_owned())).expect("a head");
    let mut at = consumed;
    loop {
        match decoder.advance(&bytes[at..]).expect("a request") {
            RequestStep::Body { consumed, .. } => at += consumed,
            RequestStep::End { consumed, .. } => {
                at += consumed;
                break;
            }
            step => panic!("{step:?} in {}", bytes.escape_ascii()),
        }
    }
    assert_eq!(at, bytes.len(), "nothing follows in {}", bytes.escape_ascii());
    assert!(matches!(head.framing, Framing::Length(_) | Framing::None));
    let target = String::from_utf8_lossy(&bytes[head.target]).into_owned();
    Seen { target, headers, body: bytes.len() - consumed }
}

#[test]
fn every_accepted_target_produces_exactly_one_request() {
    let (mut random, files, mut good) = (Random::new(2), files(), 0);
    for _ in 0..30_000 {
        let path = format!("/{}", text(&mut random, 5));
        let (value, body) = (text(&mut random, 5), text(&mut random, 8));
        let target = post(&path, &[("x", &value)], &body);
        let Ok(mix) = Mix::new(std::slice::from_ref(&target), &files, 9, Protocol::default()) else {
            continue;
        };
        good += 1;
        let mut requests = Requests::new(&mix, (1, 2));
        let room = (requests.made.capacity(), requests.body.capacity());
        for _ in 0..4 {
            let seen = read(requests.next(0, 1));
            let expected: &[&str] = match seen.headers.len() {
                2 => &["host", "x"],
                _ => &["host", "x", "content-length"],
            };
            assert_eq!(seen.headers, expected, "{target:?}");
            assert!(seen.target.starts_with('/'), "{target:?}");
            assert!(seen.body == 0 || expected.len() == 3);
        }
        assert_eq!((requests.made.capacity(), requests.body.capacity()), room, "buffers did not grow");
    }
    assert!(good > 1_000, "{good}: some texts must be valid");
}

use super::*;
use hoptax_format::spec::Check;
use hoptax_testing::own_listener;
use std::io::{Read as _, Write as _};

fn get() -> TargetSpec {
    TargetSpec::only("GET", "/", vec![("host".into(), "echo.com".into())], vec![])
}

fn requests(targets: Vec<TargetSpec>) -> Requests {
    Requests { targets, ..Requests::from(get()) }
}

/// Serves connections one at a time. Sends the next of `answers` on each connection and closes it. After the
/// last answer, starts again with the first.
fn serve(answers: &[&str]) -> SocketAddr {
    let listener = own_listener();
    let address = listener.local_addr().expect("known");
    let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
    std::thread::spawn(move || {
        for (stream, answer) in listener.incoming().zip(answers.iter().cycle()) {
            let mut stream = stream.expect("accepted");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// Like [`serve`], with one answer.
fn serve_bytes(answer: &[u8]) -> SocketAddr {
    let listener = own_listener();
    let address = listener.local_addr().expect("known");
    let answer = answer.to_vec();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(&answer);
        }
    });
    address
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-own: 1\r\ncontent-encoding: \
                    gzip\r\nconnection: close\r\nvary: accept-encoding\r\n\r\n";

/// Direct's answer with another body, compressed.
fn gzipped(body: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(HEAD.as_bytes().to_vec(), flate2::Compression::new(6));
    encoder.write_all(body.as_bytes()).expect("written");
    encoder.finish().expect("compressed")
}

const TIMEOUT: Duration = Duration::from_secs(20);
const DIRECT: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-own: 1\r\ncontent-length: 5\r\n\r\nhello";

fn against_direct(answer: &str) -> Result<(), Failure> {
    verify(serve(&[DIRECT]), serve(&[answer]), &requests(vec![get()]), &Change::default(), TIMEOUT)
}

#[test]
fn what_a_hop_may_change_is_not_a_difference() {
    let chunked = "HTTP/1.1 200 OK\r\nServer: gateway\r\nVia: 1.1 gateway\r\nDate: today\r\nContent-Type: \
                   text/plain\r\nX-Own: 1\r\nx-added: yes\r\nTransfer-Encoding: \
                   chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    assert_eq!(against_direct(chunked), Ok(()));
    let stamped = |text: &str| DIRECT.replace("x-own", &format!("hoptax-stamp: {text}\r\nx-own"));
    let (direct, via) = (serve(&[&stamped("1 2")]), serve(&[&stamped("3 4"), DIRECT]));
    for said in ["other stamps", "none"] {
        assert_eq!(
            verify(direct, via, &requests(vec![get()]), &Change::default(), TIMEOUT),
            Ok(()),
            "{said}"
        );
    }
    let until_close = "HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\nx-own: 1\r\n\r\nhello";
    assert_eq!(against_direct(until_close), Ok(()));
}

#[test]
fn each_difference_is_reported_with_both_answers() {
    let table = [
        (DIRECT.replace("200 OK", "404 Not Found"), "status 404 instead of 200"),
        (
            DIRECT.replace("text/plain", "text/html"),
            "header `content-type` is `text/html` instead of `text/plain`",
        ),
        (DIRECT.replace("x-own: 1\r\n", ""), "header `x-own` is nothing instead of `1`"),
        (
            DIRECT.replace("x-own: 1", "x-own: 1\r\ncontent-encoding: gzip"),
            "header `content-encoding` is `gzip` instead of nothing",
        ),
        (
            DIRECT.replace("5\r\n\r\nhello", "4\r\n\r\nhelp"),
            "the body has 4 bytes instead of 5, and differs from byte 3 on",
        ),
    ];
    for (answer, difference) in table {
        let failure = against_direct(&answer).expect_err("they differ");
        assert_eq!(failure.stage, Stage::Verify);
        let begins = format!("its answer differs from the answer of direct: {difference}");
        let ways_out = failure.message.strip_prefix(&begins).unwrap_or_else(|| panic!("{failure:?}"));
        let header = difference.strip_prefix("header `").and_then(|rest| rest.split('`').next());
        let way_out = match (header, difference.starts_with("the body")) {
            (Some(name), _) => format!("expect: {{ ignore_headers: [{name}] }}"),
            (None, true) => "expect: { varies: true }".to_owned(),
            (None, false) => String::new(),
        };
        assert!(ways_out.contains(&way_out) && ways_out.is_empty() == way_out.is_empty(), "{failure:?}");
        let (direct, gateway) = failure.detail.split_once("gateway:\n").expect("both");
        assert!(direct.starts_with("direct:\n  200\n  content-length: 5\n"), "{}", failure.detail);
        assert!(gateway.contains("  | hel"), "{}", failure.detail);
    }
}

#[test]
fn headers_that_the_plan_or_the_pack_names_may_differ_and_are_noted() {
    let other = DIRECT.replace("x-own: 1", "x-own: 2").replace("text/plain", "text/html");
    let other = other.replace("content-length", "x-added: 3\r\ncontent-length");
    let noted = |by_plan: &[&str], by_pack: &[&str]| {
        let names = by_plan.iter().map(|name| (*name).to_owned()).collect();
        let requests = Requests { ignored_headers: vec![names], ..requests(vec![get()]) };
        let reason = |name: &&str| ((*name).to_owned(), "it adds its own".to_owned());
        let change = Change { ignored_headers: by_pack.iter().map(reason).collect(), ..Change::default() };
        verify_and_note(serve(&[DIRECT]), serve(&[&other]), &requests, &change, TIMEOUT)
    };
    assert!(noted(&["content-type"], &[]).is_err(), "the other header differs too");
    let both =
        noted(&["content-type", "x-added", "date"], &["x-own"]).expect("all may differ").ignored_headers;
    let one = |name: &str, direct: &str, gateway: &str, reason: Option<&str>| IgnoredHeader {
        name: name.into(),
        direct: Some(direct.into()),
        gateway: Some(gateway.into()),
        reason: reason.map(Into::into),
    };
    let expected = [
        one("content-type", "text/plain", "text/html", None),
        one("x-own", "1", "2", Some("it adds its own")),
    ];
    assert_eq!(both, expected);
    let (direct, via) = (serve(&[DIRECT]), serve(&[DIRECT]));
    let requests = Requests { ignored_headers: vec![vec!["x-own".into()]], ..requests(vec![get()]) };
    let same = verify_and_note(direct, via, &requests, &Change::default(), TIMEOUT);
    assert_eq!(same, Ok(Verified::default()), "nothing differed");
}

#[test]
fn compressed_bodies_are_compared_decoded_if_the_request_accepts_them() {
    let asks = |encoding: &str| {
        let mut target = get();
        target.headers.push(("Accept-Encoding".into(), encoding.into()));
        requests(vec![target])
    };
    let gateway = serve_bytes(&gzipped("hello"));
    let seen = verify_and_note(serve(&[DIRECT]), gateway, &asks("gzip, br"), &Change::default(), TIMEOUT);
    let bodies = seen.expect("equal when decoded").bodies;
    let lengths = BodyLengths {
        target: "GET /".into(),
        direct: 5,
        gateway: gzipped("hello").len() as u64 - HEAD.len() as u64,
        direct_encoding: None,
        gateway_encoding: Some("gzip".into()),
    };
    assert_eq!(bodies, [lengths]);
    let other = serve_bytes(&gzipped("hallo"));
    let failure = verify(serve(&[DIRECT]), other, &asks("gzip"), &Change::default(), TIMEOUT);
    assert!(failure.expect_err("differs").message.contains(" byte 1 "));
    for unasked in [requests(vec![get()]), asks("identity")] {
        let gateway = serve_bytes(&gzipped("hello"));
        let failure = verify(serve(&[DIRECT]), gateway, &unasked, &Change::default(), TIMEOUT);
        assert!(failure.expect_err("unasked").message.contains("header `content-encoding`"));
    }
}

#[test]
fn an_answer_cannot_drive_the_terminal() {
    let driving = DIRECT.replace("x-own: 1", "x-own: \u{9b}2J").replace("hello", "\0\u{8}\u{1f}\u{1b}c");
    let failure = against_direct(&driving).expect_err("it differs");
    let texts = failure.message.clone() + &failure.detail;
    assert!(texts.chars().all(|letter| letter == '\n' || !letter.is_control()), "{texts:?}");
    insta::assert_snapshot!(failure.message);
    assert!(failure.detail.contains("  | \\u{0}\\u{8}\\u{1f}\\u{1b}c\n"), "{failure:?}");
}

#[test]
fn a_missing_or_incomplete_answer_is_a_failure() {
    let missing = against_direct("").expect_err("it closes");
    assert!(missing.detail.ends_with("gateway:\nno answer\n"), "{}", missing.detail);
    let incomplete = against_direct(&DIRECT.replace("hello", "he")).expect_err("cut short");
    insta::assert_snapshot!([missing, incomplete].map(|failure| failure.message).join("\n"));
}

#[test]
fn waiting_for_an_answer_is_limited() {
    let listener = own_listener();
    let silent = listener.local_addr().expect("known");
    let error = ask(silent, &get(), Duration::from_millis(50)).expect_err("nothing comes");
    assert!(error.to_string().contains("50ms"), "{error}");
}

#[test]
fn an_upstream_that_sometimes_fails_is_asked_again() {
    let failing = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(
        verify(
            serve(&[DIRECT]),
            serve(&[failing, DIRECT]),
            &requests(vec![get()]),
            &Change::default(),
            TIMEOUT
        ),
        Ok(())
    );
}

#[test]
fn both_answers_are_compared_with_what_the_target_expects() {
    let expecting = |checks: Vec<Check>| requests(vec![TargetSpec { checks, ..get() }]);
    let against = |answer: &str, checks| {
        verify(serve(&[DIRECT]), serve(&[answer]), &expecting(checks), &Change::default(), TIMEOUT)
    };
    let length = Check::BodyLength { least: 5, most: 5 };
    assert_eq!(against(DIRECT, vec![Check::Status(vec![(200, 200)]), length]), Ok(()));
    let failure = against(DIRECT, vec![Check::BodyContains("bye".into())]).expect_err("not even direct");
    insta::assert_snapshot!(failure.message);
    // Verification does not compare the header `server` with direct's header, because hops may change it. But
    // this target expects a certain value of the header.
    let named = |name: &str| DIRECT.replace("x-own", &format!("server: {name}\r\nx-own"));
    let check = Check::Header { name: "Server".into(), value: Some("origin".into()) };
    let failure = verify(
        serve(&[&named("origin")]),
        serve(&[&named("proxy")]),
        &expecting(vec![check]),
        &Change::default(),
        TIMEOUT,
    );
    insta::assert_snapshot!(failure.expect_err("another server").message);
}

#[test]
fn an_upstream_that_often_refuses_requests_is_asked_again() {
    let refused = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
    let often = [refused, refused, refused, refused, DIRECT];
    let expecting = requests(vec![TargetSpec { checks: vec![Check::Status(vec![(200, 399)])], ..get() }]);
    let against =
        |direct: &[&str]| verify(serve(direct), serve(&[DIRECT]), &expecting, &Change::default(), TIMEOUT);
    assert_eq!(against(&often), Ok(()));
    let failure = against(&[refused]).expect_err("always refused");
    assert!(failure.message.contains("status 429"));
}

#[test]
fn every_target_of_a_mix_is_verified_with_its_templates_expanded() {
    let seen = |answer: &str| {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        let answer = answer.to_owned();
        let asked = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for stream in listener.incoming().take(2) {
                let mut stream = stream.expect("accepted");
                let mut head = [0; 1024];
                let length = stream.read(&mut head).expect("a request");
                asked.push(String::from_utf8_lossy(&head[..length]).into_owned());
                stream.write_all(answer.as_bytes()).expect("answered");
            }
            asked
        });
        (address, asked)
    };
    let ((direct, at_direct), (gateway, at_gateway)) = (seen(DIRECT), seen(DIRECT));
    let plain = get();
    let made = TargetSpec {
        name: "made".into(),
        method: "POST".into(),
        path: "/{{uuid}}/{{line ids.txt}}".into(),
        body: b"{{random 1 1000000}} {{seq}}".to_vec(),
        body_is_template: true,
        ..get()
    };
    let files = BTreeMap::from([("ids.txt".to_owned(), "seven\n".to_owned())]);
    let both = Requests { files, ..requests(vec![plain, made]) };
    assert_eq!(verify(direct, gateway, &both, &Change::default(), TIMEOUT), Ok(()));
    let (there, here) = (at_direct.join().expect("no panic"), at_gateway.join().expect("no panic"));
    assert_eq!(there, here, "both sides are asked the same");
    assert!(there[0].starts_with("GET / "), "{}", there[0]);
    assert!(there[1].contains("/seven HTTP/1.1") && !there[1].contains("{{"), "{}", there[1]);
    assert!(there[1].ends_with(" 0"), "{}", there[1]);
}

#[test]
fn the_target_of_a_mix_is_named() {
    let failing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    let mix = requests(vec![TargetSpec { name: "first".into(), ..get() }, get()]);
    let failure = verify(serve(&[DIRECT]), serve(&[failing]), &mix, &Change::default(), TIMEOUT)
        .expect_err("they differ");
    insta::assert_snapshot!(failure.message);
}

#[test]
fn each_version_of_http_is_tested_and_the_old_one_is_named() {
    // Envoy refuses HTTP/1.0 in this way unless it is configured to accept HTTP/1.0.
    let picky = || {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                let mut head = [0; 1024];
                let length = stream.read(&mut head).expect("a request");
                let old = String::from_utf8_lossy(&head[..length]).contains("HTTP/1.0");
                let refusal = "HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(if old { refusal } else { DIRECT }.as_bytes()).expect("answered");
            }
        });
        address
    };
    let asked = |versions| Requests { versions, ..requests(vec![get()]) };
    let (new, old) = (HttpVersion::Http11, HttpVersion::Http10);
    assert_eq!(verify(serve(&[DIRECT]), picky(), &asked(vec![new]), &Change::default(), TIMEOUT), Ok(()));
    let failure = verify(serve(&[DIRECT]), picky(), &asked(vec![new, old]), &Change::default(), TIMEOUT)
        .expect_err("they differ");
    insta::assert_snapshot!(failure.message);
}

//! Tests of the upstream's special requests (echo, token review, TLS) over real connections.

use hoptax_format::Address;
use hoptax_lab::features::{Change, Credentials};
use hoptax_plan::{Body, BuiltInUpstream, Feature};
use hoptax_servers::http_client::{Answer, HttpClient};
use hoptax_servers::ledger;
use hoptax_servers::upstream::{
    LONG_HEADER, MARK, Placement, RESPONSE_REMOVED, RunningUpstream, TOKEN_REVIEW_PATH,
};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(20);

fn upstream(placement: &Placement) -> RunningUpstream {
    let plain = BuiltInUpstream::with_body(Body::Text("plain".into()));
    let settings = BuiltInUpstream { instances: 2, failures: 1.0, ..plain };
    RunningUpstream::start(&settings, placement).expect("starts")
}

fn ask(address: &Address, request: &str) -> anyhow::Result<Answer> {
    HttpClient::plain(address.clone(), TIMEOUT).send(request.as_bytes(), request.starts_with("HEAD"))
}

fn get(address: &Address, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).expect("answered")
}

fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_slice(&answer.body).expect("JSON")
}

#[test]
fn echo_tells_what_arrived_behind_any_prefix() {
    let upstream = upstream(&Placement::default());
    let request = "POST /public/route-00001/.hoptax/echo?q=%20 HTTP/1.1\r\nhost: a\r\nX-Odd:  v  \r\n\
                   transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let answer = ask(&upstream.ready().instances[1], request).expect("answered");
    assert_eq!(answer.headers.get(RESPONSE_REMOVED).map(String::as_str), Some("by-upstream"));
    let echo = json(&answer);
    assert_eq!(echo["method"], "POST");
    assert_eq!(echo["path"], "/public/route-00001/.hoptax/echo?q=%20");
    assert_eq!(echo["headers"][1], serde_json::json!(["x-odd", "v"]));
    assert_eq!((echo["body_bytes"].as_u64(), echo["instance"].as_u64()), (Some(5), Some(1)));
    let digest = hoptax_record::digest("abcde");
    assert_eq!((echo["body_digest"].as_str(), echo["protocol"].as_str()), (Some(&*digest), Some("HTTP/1.1")));
    assert!(echo["tls"].is_null());
    // A request is special only if the mark `/.hoptax/` is in its path. The upstream answers all other
    // requests as its settings say, even if the mark is in the query.
    assert_eq!(get(&upstream.ready().instances[0], "/?x=/.hoptax/echo").status, 500);
    assert_eq!(get(&upstream.ready().instances[0], "/.hoptax").status, 500);
    let ledger = ledger::fetch(upstream.ready().control).expect("a ledger");
    assert_eq!((ledger.instances[0].requests, ledger.instances[1].requests), (2, 1));
}

#[test]
fn each_path_answers_as_it_says() {
    let upstream = upstream(&Placement::default());
    let address = &upstream.ready().instances[0];
    let of = |path: &str| get(address, &format!("{MARK}{path}"));
    for status in [200, 204, 304, 404, 500] {
        assert_eq!(of(&format!("status/{status}")).status, status);
    }
    assert_eq!(of("bytes/0").body.len(), 0);
    let plain = of("bytes/1000000");
    let chunked = of("chunked/1000000");
    assert!(plain.body.len() == 1_000_000 && plain.body == chunked.body);
    assert_eq!(chunked.headers.get("transfer-encoding").map(String::as_str), Some("chunked"));
    assert_eq!(of("header/30000").headers.get(LONG_HEADER).map(String::len), Some(30_000));
    assert_eq!(of("slow/1ms").body, b"slow\n");
    assert_eq!(of("no-such-thing").status, 404);
    assert_eq!(of("bytes/99999999999").status, 404);
    let head = ask(address, "HEAD /.hoptax/bytes/7 HTTP/1.1\r\nhost: a\r\n\r\n").expect("answered");
    assert_eq!((head.body.len(), head.headers.get("content-length").map(String::as_str)), (0, Some("7")));
    for path in ["close", "close-midway"] {
        let request = format!("GET {MARK}{path} HTTP/1.1\r\nhost: a\r\n\r\n");
        assert!(ask(address, &request).is_err(), "{path}");
    }
    // Responses come in the order of the requests, even if the first one is delayed.
    let both = "GET /.hoptax/slow/5ms HTTP/1.1\r\nhost: a\r\n\r\nGET /.hoptax/status/201 HTTP/1.1\r\nhost: \
        a\r\n\r\n";
    assert_eq!(ask(address, both).expect("answered").body, b"slow\n");
}

/// Sends bytes, and reads until the upstream closes the connection.
fn raw(address: &Address, request: &str) -> String {
    let Address::Tcp(address) = address else { panic!("a port") };
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(TIMEOUT)).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn what_http2_gateways_are_tested_with_exists_over_http1() {
    let upstream = upstream(&Placement::default());
    let address = &upstream.ready().instances[0];
    let last = "host: a\r\nconnection: close\r\n";
    let get = |path: &str| raw(address, &format!("GET {MARK}{path} HTTP/1.1\r\n{last}\r\n"));
    let trailers = get("trailers");
    assert!(trailers.ends_with("\r\n0\r\nx-hoptax-trailer: by-upstream\r\n\r\n"), "{trailers}");
    let hints = get("hints");
    assert!(hints.starts_with("HTTP/1.1 103 Early Hints\r\nlink: "), "{hints}");
    assert!(hints.contains("\r\n\r\nHTTP/1.1 200 OK\r\n"), "{hints}");
    let leaves = raw(address, &format!("GET {MARK}goaway HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert!(leaves.contains("connection: close\r\n"), "{leaves}");
    // The body is incomplete.
    let early = raw(address, &format!("POST {MARK}early HTTP/1.1\r\n{last}content-length: 5\r\n\r\nab"));
    assert!(early.starts_with("HTTP/1.1 200 OK\r\n") && early.ends_with("early\n"), "{early}");
    let chunks = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Later:  7 \r\n\r\n";
    let echo = raw(address, &format!("POST {MARK}echo HTTP/1.1\r\n{last}{chunks}"));
    assert!(echo.contains(r#""trailers":[["x-later","7"]]"#), "{echo}");
    assert!(echo.contains(r#""delayed":0"#) && echo.contains(r#""abandoned":0"#), "{echo}");
}

/// Over HTTP/1, a client gives up by closing the connection.
#[test]
fn requests_that_clients_give_up_are_counted() {
    let upstream = upstream(&Placement::default());
    let address = &upstream.ready().instances[0];
    let Address::Tcp(tcp) = address else { panic!("a port") };
    let mut stream = TcpStream::connect(tcp).expect("connects");
    stream.write_all(b"GET /.hoptax/slow/30s HTTP/1.1\r\nhost: a\r\n\r\n").expect("sent");
    let count = |member: &str| json(&get(address, "/.hoptax/echo"))[member].as_u64();
    let eventually = |member: &str| {
        let deadline = Instant::now() + TIMEOUT;
        while count(member) != Some(1) {
            assert!(Instant::now() < deadline, "{member}: {:?}", count(member));
        }
    };
    eventually("delayed");
    assert_eq!(count("abandoned"), Some(0));
    drop(stream);
    eventually("abandoned");
}

#[test]
fn token_reviews_tell_good_tokens_and_are_counted() {
    let made = Credentials::make(&[Feature::TokenReview { cache_s: 0 }]).expect("made");
    let secret = Some(made.jwt_secret.clone());
    let upstream = upstream(&Placement { token_secret: secret, ..Placement::default() });
    let (first, second) = (&upstream.ready().instances[0], &upstream.ready().instances[1]);
    let good = &made.consumers[0].token_hs256;
    let bad = format!("{good}x");
    let review = |token: &str| {
        let body = serde_json::json!({ "kind": "TokenReview", "spec": { "token": token } }).to_string();
        let length = body.len();
        ask(
            first,
            &format!(
                "POST {TOKEN_REVIEW_PATH} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}"
            ),
        )
        .expect("answered")
    };
    let answer = review(good);
    assert_eq!(answer.status, 201);
    assert_eq!(json(&answer)["status"]["authenticated"], true);
    assert_eq!(json(&answer)["status"]["user"]["username"], "consumer-00001");
    let answer = review(&bad);
    assert_eq!((answer.status, json(&answer)["status"]["authenticated"].as_bool()), (201, Some(false)));
    for (token, status) in [(good, 200), (&bad, 401)] {
        let request =
            format!("GET {TOKEN_REVIEW_PATH} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
        assert_eq!(ask(second, &request).expect("answered").status, status);
    }
    assert_eq!(json(&get(first, "/.hoptax/echo"))["token_reviews"], 4, "of all instances");
    let ledger = ledger::fetch(upstream.ready().control).expect("a ledger");
    assert_eq!((ledger.instances[0].requests, ledger.instances[1].requests), (3, 2));
}

#[test]
fn the_same_instance_answers_over_tls_and_counts_it() {
    let made = Credentials::make(&[Feature::UpstreamTls]).expect("made");
    let identity = Some(made.server.certificate.clone() + &made.server.key);
    let upstream = upstream(&Placement { identity, ..Placement::default() });
    let ready = upstream.ready();
    assert_eq!(ready.tls_instances.len(), 2);
    let change = Change::new(&[Feature::Tls], &made);
    let client = change.client(ready.tls_instances[1].clone(), TIMEOUT);
    let asked = |request: &str| client.send(request.as_bytes(), false).expect("answered");
    let echo = json(&asked("GET /.hoptax/echo HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!((&echo["tls"]["version"], &echo["instance"]), (&"TLSv1.3".into(), &1.into()));
    assert_eq!(echo["tls"]["cipher"], "TLS13_AES_128_GCM_SHA256");
    let large = asked("GET /.hoptax/chunked/3000000 HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(large.body, get(&ready.instances[0], "/.hoptax/bytes/3000000").body);
    let body = "x".repeat(1_000_000);
    let request = format!("POST /.hoptax/echo HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n{body}");
    assert_eq!(json(&asked(&request))["body_bytes"], 1_000_000);
    // A plain request to the TLS port is answered with an alert and not counted.
    let plain = HttpClient { tls: None, ..client.clone() };
    assert!(plain.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", false).is_err());
    let ledger = ledger::fetch(ready.control).expect("a ledger");
    assert_eq!((ledger.instances[0].requests, ledger.instances[1].requests), (1, 3));
    assert_eq!(ledger.instances[1].connections, 4);
    assert!(
        RunningUpstream::start(
            &BuiltInUpstream::with_body(Body::Size(0)),
            &Placement { identity: Some("no certificate".into()), ..Placement::default() }
        )
        .is_err()
    );
}

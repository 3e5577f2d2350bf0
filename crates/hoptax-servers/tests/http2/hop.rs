//! `hop-h2` between our client and the built-in upstream.

use super::client::{Answer, Client, Request};
use super::{counts, pattern, settings, start, tags, with_answers};
use hoptax_format::Address;
use hoptax_plan::{Body, BuiltInUpstream, HopDelay, HopDelayHow};
use hoptax_servers::hop::{HopSettings, Kind, RunningHop, UpstreamHttp};
use hoptax_servers::upstream::{Placement, RunningUpstream, TRAILER};
use hoptax_wire::http2::{Code, Config};
use std::time::{Duration, Instant};

const BOTH: [UpstreamHttp; 2] = [UpstreamHttp::Http2, UpstreamHttp::Http1];

fn hop_to(upstream: &Address, http: UpstreamHttp, delay: Option<HopDelay>) -> RunningHop {
    let settings = HopSettings {
        kind: Kind::H2(http),
        listen: "127.0.0.1:0".parse().expect("an address"),
        upstreams: vec![upstream.clone()],
        workers: 1,
        cpus: Vec::new(),
        forward: None,
        delay,
        seed: 0,
    };
    RunningHop::start(&settings).expect("it starts")
}

fn hop(upstream: &RunningUpstream, http: UpstreamHttp) -> RunningHop {
    hop_to(&upstream.ready().instances[0], http, None)
}

fn connect(hop: &RunningHop) -> Client {
    Client::connect(&hop.ready().listen.into(), Config::default())
}

fn version(http: UpstreamHttp) -> &'static str {
    match http {
        UpstreamHttp::Http2 => "2",
        UpstreamHttp::Http1 => "1.1",
    }
}

#[test]
fn requests_and_responses_pass_unchanged() {
    for http in BOTH {
        let upstream = start(&settings(), &Placement::default());
        let hop = hop(&upstream, http);
        let mut client = connect(&hop);
        for (length, headers) in [(0, &[][..]), (9, &[("x-a", "b")][..]), (700_000, &[("cookie", "c=d")][..])]
        {
            let body = pattern(length);
            let request =
                Request { method: "PUT", headers, body: &body, ..Request::get(0, "/.hoptax/echo?x=y") };
            let answer = client.exchange(&[request]).remove(0);
            let echo: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(echo["protocol"], format!("HTTP/{}", version(http)));
            assert_eq!(
                (echo["method"].as_str(), echo["path"].as_str()),
                (Some("PUT"), Some("/.hoptax/echo?x=y"))
            );
            assert_eq!(echo["body_bytes"], length);
            let mut expected = vec![["host", "upstream.test"]];
            expected.extend(headers.iter().map(|(name, value)| [*name, *value]));
            let length = length.to_string();
            if !body.is_empty() {
                expected.push(["content-length", &length]);
            }
            // Over HTTP/1, the cookie is last.
            let mut found: Vec<[String; 2]> = serde_json::from_value(echo["headers"].clone()).expect("pairs");
            found.sort();
            expected.sort_unstable();
            assert_eq!(found, expected, "{http:?}");
        }
        let head = Request { method: "HEAD", ..Request::get(0, "/") };
        let answer = client.exchange(&[head]).remove(0);
        assert_eq!((answer.header("content-length"), answer.body.len()), (Some("1024"), 0));
        assert_eq!(client.get("/.hoptax/status/204").status, 204);
        assert_eq!(client.get("/.hoptax/bytes/1000000").body, pattern(1_000_000));
        let without_length = client.get("/.hoptax/chunked/100000");
        assert_eq!(
            (without_length.header("content-length"), &without_length.body),
            (None, &pattern(100_000))
        );
        let long = client.get("/.hoptax/header/30000");
        assert_eq!(long.header("x-hoptax-long").map(str::len), Some(30_000));
        let seen = counts(&upstream).instances.remove(0);
        assert_eq!((seen.requests, seen.connections), (8, 1), "{http:?}");
        assert_eq!(seen.http_version, [(version(http).to_owned(), 8)].into());
    }
}

#[test]
fn trailers_pass_in_both_directions() {
    let upstream = start(&settings(), &Placement::default());
    let hop = hop(&upstream, UpstreamHttp::Http2);
    let mut client = connect(&hop);
    for _ in 0..2 {
        let answer = client.get("/.hoptax/trailers");
        let trailer = (TRAILER.0.to_owned(), TRAILER.1.to_owned());
        assert_eq!((answer.status, answer.trailers), (200, vec![trailer]));
        assert!(!answer.body.is_empty());
        let post = Request { method: "POST", body: b"hello", ..Request::get(0, "/.hoptax/echo") };
        client.begin_with_trailer(&post, ("x-checksum", "abc"));
        client.flush();
        let answer = client.next().expect("an answer");
        let echo: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(echo["trailers"], serde_json::json!([["x-checksum", "abc"]]));
        assert_eq!((&echo["body_bytes"], answer.trailers.len()), (&5.into(), 0));
    }
}

#[test]
fn streams_share_the_upstreams_connection_and_do_not_wait_for_each_other() {
    let answers: Vec<String> = (0..4)
        .map(|place| format!("{{ path: /{place}, body: 1B, delay: {}ms }}", 1000 - 250 * place))
        .collect();
    let upstream = with_answers(&answers.iter().map(String::as_str).collect::<Vec<_>>());
    for http in BOTH {
        let hop = hop(&upstream, http);
        let mut client = connect(&hop);
        let before = counts(&upstream);
        let paths: Vec<String> = (0..4).map(|place| format!("/{place}")).collect();
        let requests: Vec<Request> = (0..).zip(&paths).map(|(tag, path)| Request::get(tag, path)).collect();
        assert_eq!(tags(&client.exchange(&requests)), [3, 2, 1, 0], "{http:?}");
        let connections = counts(&upstream).since(&before).connections;
        assert_eq!(connections, if http == UpstreamHttp::Http2 { 1 } else { 4 });
    }
}

#[test]
fn bodies_pass_through_small_windows() {
    let upstream = start(&BuiltInUpstream { body: Body::Size(400_000), ..settings() }, &Placement::default());
    let body = pattern(600_000);
    for http in BOTH {
        let hop = hop(&upstream, http);
        for window in [1000, 1 << 20] {
            let config = Config { window, connection_window: 65_535, ..Config::default() };
            let mut client = Client::connect(&hop.ready().listen.into(), config);
            let requests: Vec<Request> = (0..30)
                .map(|tag| Request { method: "POST", body: &body, ..Request::get(tag, "/") })
                .collect();
            for answer in client.exchange(&requests) {
                assert_eq!((answer.status, answer.body.len()), (200, 400_000), "{http:?} {window}");
            }
        }
    }
}

#[test]
fn delays_are_as_given() {
    let upstream = start(&settings(), &Placement::default());
    let millis = Duration::from_millis;
    for http in BOTH {
        for how in [HopDelayHow::Sleep, HopDelayHow::Spin] {
            let delay = HopDelay { inbound: millis(3), outbound: millis(4), how, ..HopDelay::default() };
            let hop = hop_to(&upstream.ready().instances[0], http, Some(delay));
            let mut client = connect(&hop);
            for _ in 0..3 {
                let began = Instant::now();
                let post = Request { method: "POST", body: b"hello", ..Request::get(0, "/") };
                assert_eq!(client.exchange(&[post]).remove(0).status, 200);
                assert!(began.elapsed() >= millis(7), "{http:?} {how:?}: {:?}", began.elapsed());
            }
        }
        // Streams are delayed at the same time.
        let delay = HopDelay { inbound: millis(100), outbound: millis(100), ..HopDelay::default() };
        let hop = hop_to(&upstream.ready().instances[0], http, Some(HopDelay { share: 1.0, ..delay }));
        let requests: Vec<Request> = (0..50).map(|tag| Request::get(tag, "/")).collect();
        let began = Instant::now();
        connect(&hop).exchange(&requests);
        let took = began.elapsed();
        assert!(took >= millis(200) && took < millis(10_000), "{took:?}");
    }
}

#[test]
fn failures_of_the_upstream_become_502_or_reset_the_stream() {
    let unused = hoptax_testing::unused_address();
    for http in BOTH {
        let unreachable = connect(&hop_to(&unused.into(), http, None)).get("/");
        let text = String::from_utf8_lossy(&unreachable.body).into_owned();
        assert_eq!(unreachable.status, 502);
        assert!(text.contains(&unused.to_string()) && text.contains("cannot be reached"), "{text}");

        let upstream = start(&settings(), &Placement::default());
        let hop = hop(&upstream, http);
        let mut client = connect(&hop);
        assert_eq!(client.get("/.hoptax/close").status, 502, "{http:?}");
        let midway = client.get("/.hoptax/close-midway");
        let reset = Some((Code::INTERNAL_ERROR, false));
        assert_eq!((midway.status, midway.body.len(), midway.reset), (200, 500, reset), "{http:?}");
        assert_eq!(client.get("/").status, 200, "the connection is still open");
    }
}

#[test]
fn requests_that_the_upstream_has_not_processed_are_sent_again() {
    let upstream = start(&settings(), &Placement { close_after: Some(7), ..Placement::default() });
    for http in BOTH {
        let hop = hop(&upstream, http);
        let mut client = connect(&hop);
        for _ in 0..20 {
            // The hop sends ten requests at a time. The upstream accepts at most seven on a connection, and
            // the rest once more.
            let requests: Vec<Request> = (0..10).map(|tag| Request::get(tag, "/")).collect();
            let answers: Vec<Answer> = client.exchange(&requests);
            assert!(answers.iter().all(|answer| answer.status == 200), "{http:?}: {answers:?}");
        }
    }
    assert_eq!(counts(&upstream).instances[0].requests, 400);
}

#[test]
fn a_cancelled_request_is_cancelled_at_the_upstream() {
    let upstream = with_answers(&["{ path: /late, body: 1B, delay: 60s }"]);
    for http in BOTH {
        let hop = hop(&upstream, http);
        let before = counts(&upstream);
        let mut client = connect(&hop);
        let streams: Vec<u32> = (0..5).map(|tag| client.begin(&Request::get(tag, "/late"))).collect();
        client.get("/");
        for stream in &streams[..3] {
            client.connection.reset(*stream, Code::CANCEL, &mut client.output);
        }
        client.get("/");
        // The upstream has received the resets before this request.
        client.get("/");
        let delta = counts(&upstream).since(&before);
        assert_eq!(delta.requests, 8);
        let (cancels, open) = (delta.cancels, counts(&upstream).instances[0].open);
        match http {
            UpstreamHttp::Http2 => assert_eq!((cancels, open), (Some(3), 1)),
            UpstreamHttp::Http1 => assert_eq!(cancels, Some(0)),
        }
        drop((client, hop));
    }
}

#[test]
fn a_client_that_has_ended_its_side_gets_its_answers() {
    let upstream = with_answers(&["{ path: /, body: 100KiB, delay: 50ms }"]);
    for http in BOTH {
        let hop = hop(&upstream, http);
        let mut client = connect(&hop);
        for tag in 0..3 {
            client.begin(&Request::get(tag, "/"));
        }
        client.finish();
        let ended: Vec<u32> = std::iter::from_fn(|| client.next()).map(|answer| answer.tag).collect();
        assert_eq!(ended.len(), 3, "{http:?}");
    }
}

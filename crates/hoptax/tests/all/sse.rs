//! Server-sent events of `hoptax upstream`, which `hoptax load` reads directly, through hops and through real
//! gateways.

use crate::run::{cases, measured};
use crate::support::messages::{assert_all_received, assert_intact, count, p50};
use crate::support::{Json, hoptax, json, retry_if_disturbed};
use crate::wire::Server;
use crate::world::is_missing;
use std::net::SocketAddr;

/// Number of events of a response.
const EVENTS: u64 = 20;
/// Time between two events, µs.
const GAP: f64 = 20_000.0;

/// Loads responses with events, over four connections unless `more` says otherwise.
fn load(address: SocketAddr, responses: u64, more: &[&str]) -> Json {
    let mut command = hoptax();
    command.args(["load", &format!("http://{address}/"), "--events", "-n", &responses.to_string()]);
    for (option, value) in [("-c", "4"), ("--timeout", "60s")] {
        if !more.contains(&option) {
            command.args([option, value]);
        }
    }
    json(command.args(["--fail-above", "100%", "--json"]).args(more))
}

/// Requires that all responses succeeded, and that each had this many events.
#[track_caller]
fn assert_events(name: &str, result: &Json, responses: u64, each: u64) {
    assert_eq!(result["counts"]["ok"].as_u64(), Some(responses), "{name}: {}", result["counts"]);
    let passed = ["sent", "received"].map(|what| count(result, what));
    assert_eq!(passed, [responses, responses * each], "{name}: {}", result["messages"]);
    assert_intact(name, result);
}

/// Whether the gaps between events are those of the upstream's schedule.
fn keeps_the_pace(name: &str, result: &Json) -> Result<(), String> {
    let gap = p50(result, "gap");
    let is_near = (0.7 * GAP..1.3 * GAP).contains(&gap);
    is_near.then_some(()).ok_or(format!("{name}: {gap} µs between events"))
}

/// The hops, and the gateways that are installed.
pub(crate) fn with_gateways(hops: &[&str], gateways: &[&'static str]) -> String {
    let installed: Vec<&str> = gateways.iter().copied().filter(|pack| !is_missing(pack)).collect();
    [hops, installed.as_slice()].concat().join(", ")
}

#[test]
fn a_load_reads_events_directly_and_through_hops() {
    let upstream = Server::start(&["upstream", "--events", "20,20ms"]);
    let direct = upstream.instance(0);
    let (_l4, through_l4) = Server::hop("l4", direct, &[]);
    let (_l7, through_l7) = Server::hop("l7", direct, &[]);
    let (_h2, through_h2) = Server::hop("h2", direct, &[]);
    let one_by_one: &[&str] = &["-c", "4"];
    let multiplexed: &[&str] = &["--http", "2", "--streams", "4", "-c", "2"];
    let cases = [
        ("direct", direct, one_by_one),
        ("hop-l4", through_l4, one_by_one),
        ("hop-l7", through_l7, one_by_one),
        ("direct over HTTP/2", direct, multiplexed),
        ("hop-h2", through_h2, multiplexed),
    ];
    retry_if_disturbed(|| {
        std::thread::scope(|scope| {
            let threads = cases.map(|(name, address, more)| {
                scope.spawn(move || {
                    // Without the number of events, too.
                    for number in [&["--messages", "20"][..], &[]] {
                        let result = load(address, 8, &[more, number].concat());
                        assert_events(name, &result, 8, EVENTS);
                        keeps_the_pace(name, &result)?;
                    }
                    Ok::<(), String>(())
                })
            });
            threads.into_iter().try_for_each(|thread| thread.join().expect("all events arrive"))
        })
    });
}

#[test]
fn events_arrive_whole_however_they_are_written() {
    for (name, options, events) in [
        ("all at once", &["--events", "1000"][..], 1000),
        ("long data", &["--events", "10,1ms,300KiB"], 10),
        ("late", &["--events", "5,1ms", "--events-first", "100ms"], 5),
        ("several in a write", &["--events", "21,5ms", "--events-per-write", "4"], 21),
        ("parts of one", &["--events", "10,5ms,100B", "--events-split", "7"], 10),
    ] {
        let upstream = Server::start(&[&["upstream"][..], options].concat());
        for version in [&["--http", "1.1"][..], &["--http", "2"]] {
            let number = events.to_string();
            let number = ["--messages", number.as_str()];
            let result = load(upstream.instance(0), 12, &[version, &number].concat());
            assert_events(&format!("{name}, {version:?}"), &result, 12, events);
            if name == "late" {
                assert!(p50(&result, "first_message") >= 100_000.0, "{}", result["message"]);
            }
        }
    }
}

#[test]
fn comments_keep_responses_open() {
    let upstream = Server::start(&["upstream", "--events", "2,1500ms", "--events-heartbeat", "100ms"]);
    // The time limit begins again with each comment.
    let result = load(upstream.instance(0), 4, &["--messages", "2", "--timeout", "1s"]);
    assert_events("with comments", &result, 4, 2);
    let comments = count(&result, "comments");
    assert!((4..=4 * 15).contains(&comments), "{comments} comments");
}

#[test]
fn a_client_that_connects_again_gets_the_events_after_its_last() {
    let upstream = Server::start(&["upstream", "--events", "20,1ms"]);
    let result = load(upstream.instance(0), 12, &["-H", "last-event-id: 14"]);
    assert_events("after number 14", &result, 12, 5);
}

#[test]
fn endless_events_end_with_the_measured_time() {
    let upstream = Server::start(&["upstream", "--events", "endless,10ms"]);
    let url = format!("http://{}/", upstream.instance(0));
    for more in [&["-c", "8"][..], &["-c", "2", "--http", "2", "--streams", "4"]] {
        let mut command = hoptax();
        command.args(["load", &url, "--events", "--messages", "endless", "-d", "500ms", "--json"]);
        let result = json(command.args(more));
        assert_eq!(result["counts"]["ok"].as_u64(), Some(8), "{more:?}: {}", result["counts"]);
        assert_intact(&format!("{more:?}"), &result);
        // Each of eight responses has an event when it begins, and one every 10 ms.
        let received = count(&result, "received");
        assert!((8..=8 * 52).contains(&received), "{more:?}: {received} events");
    }
}

/// A plan with events through these gateways.
fn plan(gateways: &str, load: &str) -> String {
    format!(
        "name: sse
upstream: {{ events: {{ count: 20, gap: 20ms }} }}
gateways: [{gateways}]
load: [{{ loop: closed, {load}, duration: 600ms }}]
trials: 1
warmup: 50ms
"
    )
}

/// Runs a plan with events. At most `concurrent` responses are open at a time.
fn every_event_passes(plan: &str, concurrent: u64) {
    retry_if_disturbed(|| {
        let report = measured(plan);
        for case in cases(&report) {
            assert_all_received(case, EVENTS, concurrent);
        }
        for case in cases(&report) {
            let name = case["case"].as_str().expect("a name");
            keeps_the_pace(name, case)?;
            let age = p50(case, "age");
            if !(0.0..GAP / 2.0).contains(&age) {
                return Err(format!("{name}: events are {age} µs old"));
            }
            let (headers, first) = (p50(case, "headers"), p50(case, "first_message"));
            // The first event is due at once.
            assert!(headers > 0.0 && headers < 1.5 * first, "{name}: {headers} µs, {first} µs");
        }
        Ok(())
    });
}

#[test]
fn events_pass_through_hops_and_gateways_and_over_tls() {
    let packs = ["nginx", "haproxy", "envoy"];
    let plain = with_gateways(&["hop-l4", "hop-l7"], &packs);
    let over_tls = packs
        .into_iter()
        .filter(|pack| !is_missing(pack))
        .map(|pack| format!("{{ name: {pack}, label: {pack}-tls, features: [tls] }}"));
    let gateways: Vec<String> = std::iter::once(plain).chain(over_tls).collect();
    every_event_passes(&plan(&gateways.join(", "), "connections: 4"), 4);
}

#[test]
fn events_pass_over_http2() {
    let gateways = with_gateways(&["hop-l4", "hop-h2"], &["nginx", "haproxy", "envoy"]);
    every_event_passes(&plan(&gateways, "connections: 2, http: 2, streams: 4"), 8);
}

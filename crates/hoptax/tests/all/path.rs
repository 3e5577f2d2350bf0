//! The path split in real runs. A delay added on one side of the upstream must be attributed to that side.
//! The upstream's own delay must be attributed to neither side.

use crate::run::{case, measured, report, run, run_directory, text, trials};
use crate::support::server::{Response, Server};
use crate::support::{Json, Scratch, retry_if_disturbed};
use crate::wire::{self, Client};
use hoptax_format::clock;
use hoptax_format::histogram::Encoded;
use hoptax_format::stamp::{ClockId, HEADER, Stamp};
use std::net::SocketAddr;

/// The planted delay. A sleep never ends too early. On a busy machine it ends late, but by less than half of
/// the delay.
const DELAY: u64 = 50 * clock::MILLISECOND;

struct Times {
    least: u64,
    median: u64,
    mean: f64,
}

fn times(trial: &Json, name: &str) -> Times {
    let encoded = trial["load_record"]["histograms"][name].as_str().unwrap_or_else(|| panic!("no {name}"));
    let histogram = Encoded(encoded.to_owned()).decode().expect("our own");
    Times { least: histogram.min(), median: histogram.value_at_quantile(0.5), mean: histogram.mean() }
}

/// If the machine stalls, the other side can seem slow. Then the test is repeated.
#[test]
fn a_delay_shows_on_its_own_side() {
    retry_if_disturbed(|| delays_by_side("hop-l7", "connections: 4"));
}

#[test]
fn a_delay_shows_on_its_own_side_over_http2() {
    retry_if_disturbed(|| delays_by_side("hop-h2", "connections: 2, http: 2, streams: 4"));
}

fn delays_by_side(hop: &str, connections: &str) -> Result<(), String> {
    let scratch = Scratch::new();
    let plan = format!(
        "upstream: {{ delay: 50ms }}
path_split: on
gateways:
  - {{ name: {hop}, label: slow-there, delay: {{ in: 50ms }} }}
  - {{ name: {hop}, label: slow-back, delay: {{ out: 50ms }} }}
load: [{{ loop: closed, {connections}, requests: 24, duration: 60s }}]
trials: 2
warmup: 100ms
"
    );
    let output = run(&scratch, &plan, &["--accept-void"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let directory = run_directory(&scratch);
    for trial in trials(&directory) {
        let who = trial["contender"].as_str().expect("a label");
        let (there, back) = (times(&trial, "request_path"), times(&trial, "response_path"));
        // The time must be at least the planted delay, within the precision of the histogram.
        let delayed = |way: &Times| way.least >= DELAY - DELAY / 500;
        let prompt = |way: &Times| way.median < DELAY / 2;
        let reported = format!(
            "{who}: there {} to {}, back {} to {}",
            there.least, there.median, back.least, back.median
        );
        let quick = match who {
            "slow-there" => {
                assert!(delayed(&there), "{reported}");
                prompt(&back)
            }
            "slow-back" => {
                assert!(delayed(&back), "{reported}");
                prompt(&there)
            }
            _ => prompt(&there) && prompt(&back),
        };
        if !quick {
            return Err(reported);
        }
        // The remaining time is the upstream's own time: its delay and its work.
        let own = times(&trial, "service_time").mean - there.mean - back.mean;
        assert!(own >= 0.99 * DELAY as f64, "{who}: the upstream's own time is {own} ns");
        let stamps = &trial["load_record"]["stamps"];
        assert_eq!(stamps["used"], trial["load_record"]["counts"]["completed"], "{who}: {stamps}");
        assert_eq!((&stamps["missing"], &stamps["impossible"]), (&0.into(), &0.into()), "{who}");
        assert_eq!(stamps["clock"], trial["upstream_clock"], "{who}");
        assert!(!stamps["clock"].is_null(), "{who}");
    }
    let report = report(&directory);
    let added = |gateway: &str, way: &str| {
        let path = &case(&report, gateway)["path"];
        path[way]["estimate"].as_f64().unwrap_or_else(|| panic!("{gateway}: {path}"))
    };
    let half = DELAY as f64 / 2e3;
    for (gateway, slow, quick) in [
        ("slow-there", "added_request_us_p50", "added_response_us_p50"),
        ("slow-back", "added_response_us_p50", "added_request_us_p50"),
    ] {
        let (slow, quick) = (added(gateway, slow), added(gateway, quick).abs());
        if slow <= half || quick >= half {
            return Err(format!("{gateway}: {slow} µs more on the slow side, {quick} µs on the other"));
        }
    }
    assert!(clock_findings(&report).is_empty(), "{:?}", clock_findings(&report));
    assert!(text(&output.stdout).contains("request path +"), "{}", text(&output.stdout));
    Ok(())
}

fn clock_findings(report: &Json) -> Vec<&Json> {
    let findings = report["findings"].as_array().expect("findings").iter();
    findings.filter(|finding| finding["code"] == "clock").collect()
}

fn in_front_of(upstream: SocketAddr) -> Json {
    let plan = format!(
        "upstream: {{ url: \"http://{upstream}\" }}
path_split: on
gateways: [hop-l7]
load: [{{ loop: closed, connections: 2, duration: 300ms }}]
trials: 1
warmup: 0s
"
    );
    measured(&plan)
}

fn paths(report: &Json) -> Vec<&Json> {
    report["cases"].as_array().expect("cases").iter().map(|case| &case["path"]).collect()
}

#[test]
fn a_running_upstream_can_stamp_too() {
    let upstream = wire::Server::start(&["upstream", "--stamps"]);
    let report = in_front_of(upstream.instance(0));
    assert!(paths(&report).iter().all(|path| !path["request_us_p50"]["estimate"].is_null()), "{report}");
    assert!(clock_findings(&report).is_empty(), "{:?}", clock_findings(&report));
}

#[test]
fn an_upstream_without_stamps_is_a_finding() {
    let upstream = wire::Server::start(&["upstream"]);
    let report = in_front_of(upstream.instance(0));
    assert!(paths(&report).iter().all(|path| path.is_null()), "{report}");
    let findings = clock_findings(&report);
    assert_eq!(findings.len(), 2);
    assert!(findings.iter().all(|finding| finding["evidence"]["missing"] == 1.0), "{findings:?}");
}

/// The stamps of the responses have wrong times, as if a gateway's cache or an upstream with another clock
/// had sent them.
#[test]
fn stamps_of_another_time_are_a_finding() {
    let upstream = Server::start(|_| Response::new(200, "").with(HEADER, "1 2"));
    let report = in_front_of(upstream.address);
    assert!(paths(&report).iter().all(|path| path.is_null()), "{report}");
    let findings = clock_findings(&report);
    assert_eq!(findings.len(), 2);
    assert!(findings.iter().all(|finding| finding["evidence"]["impossible"] == 1.0), "{findings:?}");
}

fn stamp(head: &str) -> Stamp {
    let line = head.lines().find_map(|line| line.strip_prefix(&format!("{HEADER}: ")));
    Stamp::read(line.unwrap_or_else(|| panic!("no stamp: {head}")).as_bytes()).expect("two numbers")
}

#[test]
fn the_upstream_stamps_what_it_reads_and_answers() {
    const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for (options, least) in [
        (&["--stamps"][..], 0),
        (&["--stamps", "--delay", "5ms"], 5 * clock::MILLISECOND),
        (&["--stamps", "--body", "1MiB"], 0),
        (&["--stamps", "--status", "204"], 0),
        (&["--stamps", "--failures", "100%"], 0),
    ] {
        let upstream = wire::Server::start(&[&["upstream"], options].concat());
        let mut client = Client::connect(upstream.instance(0));
        for pipelined in [1, 3] {
            let before = clock::now();
            client.send(GET.repeat(pipelined));
            for _ in 0..pipelined {
                let stamp = stamp(&client.response().head);
                assert!(before <= stamp.received && stamp.replied <= clock::now(), "{options:?}: {stamp:?}");
                assert!(stamp.received + least <= stamp.replied, "{options:?}: {stamp:?}");
            }
        }
        let ledger = hoptax_servers::ledger::fetch(upstream.control()).expect("a ledger");
        assert_eq!(ledger.clock, ClockId::here());
    }
    let plain = wire::Server::start(&["upstream"]);
    assert!(!Client::connect(plain.instance(0)).send(GET).response().head.contains(HEADER));
}

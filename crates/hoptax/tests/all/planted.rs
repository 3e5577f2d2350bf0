//! More planted faults that real runs must find. Some are faults of published tests: cases D and E. Cases A
//! and C are in `findings.rs`, as `http-1-0` and `asks-twice`. Others are faults of the machine and its
//! clocks. This file also lists where each finding is planted.

use crate::findings::two_ports;
use crate::run::{case, report, run_directory, run_to_success, trials};
use crate::support::haproxy::Haproxy;
use crate::support::hog::Hog;
use crate::support::proxy::{Misbehaviour, Proxy};
use crate::support::server::{Response, Server};
use crate::support::{Json, PATIENCE, Scratch, hoptax, json, retry_if_disturbed};
use hdrhistogram::Histogram;
use hoptax_format::histogram::Encoded;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
/// A plan with two upstream instances, and with one proxy for each misbehaviour. `rest` contains the load.
fn plan(gateways: &[(&str, Misbehaviour)], upstream: &str, rest: &str) -> (String, Vec<Proxy>) {
    let upstreams = two_ports();
    let proxies: Vec<Proxy> =
        gateways.iter().map(|(_, wrong)| Proxy::start(&upstreams, wrong.clone())).collect();
    let list: String = gateways
        .iter()
        .zip(&proxies)
        .map(|((label, _), proxy)| {
            format!("  - {{ name: external, label: {label}, url: \"{}\" }}\n", proxy.url())
        })
        .collect();
    let port = upstreams[0].port();
    let plan = format!(
        "name: planted\nupstream: {{ instances: 2, port: {port}{upstream} }}\ngateways:\n{list}warmup: \
        0s\n{rest}"
    );
    (plan, proxies)
}

fn run_and_report(gateways: &[(&str, Misbehaviour)], upstream: &str, rest: &str) -> Json {
    let (plan, _proxies) = plan(gateways, upstream, rest);
    let scratch = Scratch::new();
    measured(&scratch, &plan)
}

fn measured(scratch: &Scratch, plan: &str) -> Json {
    report(&run_to_success(scratch, plan, &["--accept-void"]))
}

fn finding<'a>(report: &'a Json, code: &str, gateway: &str) -> Option<&'a Json> {
    let of = |finding: &&Json| {
        let case = finding["case"].as_str().unwrap_or_default();
        finding["code"] == code && case.starts_with(&format!("{gateway},"))
    };
    report["findings"].as_array().expect("findings").iter().find(of)
}

fn raised<'a>(report: &'a Json, code: &str, gateway: &str) -> &'a Json {
    finding(report, code, gateway).unwrap_or_else(|| panic!("{code} of {gateway}: {}", report["findings"]))
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// HAProxy serves only half of the connections. The others never get a response, but send few requests, so
/// that hardly any request fails.
#[test]
fn clients_that_a_gateway_never_serves() {
    let scratch = Scratch::new();
    let upstream = two_ports()[0];
    let haproxy = Haproxy::with_at_most(20, upstream, &scratch);
    let plan = format!(
        "name: planted\nupstream: {{ port: {}, delay: 20ms }}\ngateways:\n  - {{ name: external, label: \
         haproxy, url: \"{}\" }}\n\
         warmup: 0s\ntimeout: 1500ms\nload: [{{ loop: closed, connections: 40, duration: 600ms }}]\n\
         trials: 1\n",
        upstream.port(),
        haproxy.url()
    );
    let report = measured(&scratch, &plan);
    let found = raised(&report, "connections-unserved", "haproxy");
    assert_eq!((&found["severity"], &found["evidence"]["unserved"]), (&"void".into(), &20.into()), "{found}");
    assert_eq!(finding(&report, "connections-unserved", "direct"), None);
    let unanswered = |gateway| case(&report, gateway)["connections"]["unanswered"].clone();
    assert_eq!((unanswered("direct"), unanswered("haproxy")), (0.into(), 20.into()));
}

/// Direct and the gateway send every client to another address.
#[test]
fn redirects_are_no_result() {
    let server = Server::start(|_| Response::new(302, "").with("location", "/login?from=1"));
    let plan = format!(
        "name: planted\nupstream: {{ url: \"http://{}\" }}\ngateways: [hop-l7]\nwarmup: 0s\n\
         load: [{{ loop: closed, connections: 2, requests: 300, duration: 30s }}]\ntrials: 1\n",
        server.address
    );
    let report = measured(&Scratch::new(), &plan);
    for contender in ["direct", "hop-l7"] {
        let found = raised(&report, "redirected", contender);
        assert_eq!(
            (&found["severity"], &found["evidence"]["commonest_status"]),
            (&"void".into(), &302.into())
        );
        assert!(
            found["message"].as_str().is_some_and(|text| text.contains("status 302 to /login.")),
            "{found}"
        );
    }
}

/// Case D: the load had more connections than a gateway accepts, and requests timed out. The percentiles then
/// cover only the requests that were answered. (Another test uses 15,000 connections through real gateways.)
#[test]
fn case_d_connections_that_wait_and_time_out() {
    let gateways = [
        ("crowded", Misbehaviour { backlog: Some((1, 200 * MS)), ..Misbehaviour::default() }),
        ("roomy", Misbehaviour::default()),
    ];
    let report = run_and_report(
        &gateways,
        ", delay: 50ms",
        "timeout: 300ms\nload: [{ loop: closed, connections: 64, duration: 700ms }]\ntrials: 1\n",
    );
    raised(&report, "errors", "crowded");
    raised(&report, "connections-short", "crowded");
    raised(&report, "listen-overflow", "crowded");
    assert_eq!(finding(&report, "connections-short", "roomy"), None);
    assert_eq!(finding(&report, "connections-short", "direct"), None);
}

/// Case E: two connections can carry the rate to direct, but not through the gateway.
#[test]
fn case_e_a_rate_that_is_not_reached() {
    let gateways = [("slow", Misbehaviour { delay: Some(20 * MS), ..Misbehaviour::default() })];
    let load = "load: [{ loop: open, rate: 300/s, connections: 2, duration: 600ms }]\ntrials: 1\n";
    // If the machine stalls at the end of a trial, some requests of direct may not be sent.
    retry_if_disturbed(|| {
        let report = run_and_report(&gateways, "", load);
        let share = |gateway: &str| {
            finding(&report, "rate-missed", gateway).map(|it| number(&it["evidence"]["share"]))
        };
        // Two connections carry at most 100 requests per second.
        assert!(share("slow").is_some_and(|share| share < 0.4), "{:?}", share("slow"));
        match share("direct") {
            Some(share) if share <= 0.8 => Err(format!("direct carries {share} of the rate")),
            _ => Ok(()),
        }
    });
}

/// Returns the finding that a run must raise. If a disturbed machine hides the finding, repeats the run.
fn seen(code: &str, gateway: &str, look: impl Fn() -> Json) -> Json {
    retry_if_disturbed(|| {
        let report = look();
        let found = finding(&report, code, gateway).cloned();
        found.ok_or_else(|| format!("no {code} of {gateway}: {}", report["findings"]))
    })
}

#[test]
fn an_included_warm_up_is_found() {
    // At first, the gateway is very slow. In the rest of the trial, noise cannot make the gateway as slow.
    let cold = Misbehaviour { cold: Some((1000 * MS, 25 * MS)), ..Misbehaviour::default() };
    let load = "load: [{ loop: closed, connections: 1, duration: 2s }]\ntrials: 1\n";
    let unsteady = retry_if_disturbed(|| {
        let report = run_and_report(&[("cold", cold.clone())], ", delay: 2ms", load);
        let unsteady = finding(&report, "unsteady", "cold").cloned();
        let unsteady = unsteady.ok_or_else(|| format!("no unsteady of cold: {}", report["findings"]))?;
        // If the machine stalled, the finding reports the stall instead of the change.
        let changes = unsteady["evidence"]["standstill_s"].is_null();
        if changes { Ok(unsteady) } else { Err(unsteady.to_string()) }
    });
    assert!(number(&unsteady["evidence"]["change"]) > 0.5, "{unsteady}");
}

/// The trial is too short for its windows to show the stall.
#[test]
fn a_stall_in_a_short_trial_is_found() {
    let stalls = Misbehaviour { stall: Some((60, 400 * MS)), ..Misbehaviour::default() };
    let load = "load: [{ loop: open, rate: 1000/s, connections: 4, duration: 300ms }]\ntrials: 1\n";
    let report = run_and_report(&[("stalls", stalls)], "", load);
    let found = raised(&report, "unsteady", "stalls");
    assert!(number(&found["evidence"]["standstill_s"]) >= 0.15, "{found}");
}

const SPREAD: &str = ", delay: \"uniform(1ms, 28ms)\"";
const OF_SPREAD: &str = "load: [{ loop: closed, connections: 8, requests: 500, duration: 30s }]\ntrials: 1\n";

#[test]
fn a_coarse_timer_is_found() {
    let coarse = Misbehaviour { quantum: Some(10 * MS), ..Misbehaviour::default() };
    let look = || {
        let report = run_and_report(&[("coarse", coarse.clone())], SPREAD, OF_SPREAD);
        assert_eq!(finding(&report, "clock", "direct"), None);
        report
    };
    let clock = seen("clock", "coarse", look);
    assert_eq!(clock["evidence"]["step_us"], 10_000.0, "{clock}");
}

/// The upstream serves one request at a time, so it limits the throughput of every gateway.
#[test]
fn a_saturated_upstream_is_found() {
    let origin = crate::world::http_upstream("hello");
    let one_by_one = Misbehaviour { one_every: Some(5 * MS), ..Misbehaviour::default() };
    let upstream = Proxy::start(&[origin.address], one_by_one);
    let plan = format!(
        "upstream: {{ url: \"{}\" }}
gateways: [hop-l4]
load: [{{ loop: closed, connections: [16, 32], duration: 400ms }}]
trials: 1
warmup: 100ms
",
        upstream.url()
    );
    let saturated = seen("upstream-saturated", "hop-l4", || measured(&Scratch::new(), &plan));
    assert_eq!(saturated["evidence"]["connections_before"], 16, "{saturated}");
}

/// Applies `change` to every value of a histogram, in ascending order of the values.
fn changed(encoded: &Json, mut change: impl FnMut(u64) -> u64) -> Json {
    let before = Encoded(encoded.as_str().expect("a histogram").to_owned()).decode().expect("our own");
    let mut after: Histogram<u64> = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds");
    for value in before.iter_recorded() {
        for _ in 0..value.count_at_value() {
            after.record(change(value.value_iterated_to())).expect("within an hour");
        }
    }
    Encoded::new(&after).0.into()
}

/// Edits the trials of a gateway in a run directory. Calls `change` with the histograms of each trial.
fn edit(directory: &Path, gateway: &str, change: impl Fn(&mut Json)) {
    let mut lines = String::new();
    for mut trial in trials(directory) {
        if trial["contender"] == gateway {
            change(&mut trial["load_record"]["histograms"]);
        }
        lines += &format!("{trial}\n");
    }
    std::fs::write(directory.join("trials.jsonl"), lines).expect("written");
}

/// One published table had a minimum of 74 ns over a network. Another table had a p99 above the maximum. No
/// run of hoptax produces such figures, so the test edits a record.
#[test]
fn impossible_figures_are_found_in_an_edited_record() {
    let (plan, _proxies) = plan(
        &[("quick", Misbehaviour::default()), ("late", Misbehaviour::default())],
        "",
        "load: [{ loop: open, rate: 400/s, connections: 4, duration: 250ms }]\ntrials: 1\n",
    );
    let scratch = Scratch::new();
    let before = measured(&scratch, &plan);
    let void = |report: &Json, gateway: &str| {
        finding(report, "impossible", gateway).filter(|it| it["severity"] == "void").cloned()
    };
    for gateway in ["quick", "late", "direct"] {
        assert_eq!(void(&before, gateway), None);
    }
    let directory = run_directory(&scratch);
    edit(&directory, "quick", |histograms| {
        let mut first = true;
        let least = |value| if std::mem::take(&mut first) { 74 } else { value };
        histograms["service_time"] = changed(&histograms["service_time"], least);
    });
    edit(&directory, "late", |histograms| {
        histograms["service_time"] = changed(&histograms["response_time"], |value| value * 2);
    });
    let after = report(&directory);
    let seen =
        |gateway: &str, what: &str| void(&after, gateway).expect("void")["evidence"]["seen"][what].clone();
    assert_eq!(seen("quick", "shortest_ns"), 74);
    assert!(seen("late", "service_above_response").is_object(), "{}", after["findings"]);
    assert_eq!(void(&after, "direct"), None);
}

/// Number of rounds of the test below. In every other round, another process keeps a CPU busy.
const ROUNDS: u32 = 4;

/// Another process causes load during half of the rounds. The report must show this load. The verdicts on
/// taxes must be the same with the disturbed rounds and without them.
#[test]
fn other_load_in_half_of_the_rounds_changes_no_verdict() {
    // Load that other processes add can change a verdict, so the test may be repeated.
    retry_if_disturbed(run_beside_other_load);
}

fn run_beside_other_load() -> Result<(), String> {
    let gateways = [
        ("slow", Misbehaviour { delay: Some(20 * MS), ..Misbehaviour::default() }),
        ("plain", Misbehaviour::default()),
    ];
    let load = "load: [{ loop: open, rate: 150/s, connections: 16, duration: 300ms }]";
    let (plan, _proxies) = plan(&gateways, "", &format!("{load}\ntrials: {ROUNDS}\n"));
    let scratch = Scratch::new();
    let path = scratch.file("plan.yaml", &plan);
    let mut command = hoptax();
    command.arg("run").arg(path).arg("--out").arg(scratch.path()).arg("--accept-void");
    let mut measuring = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("hoptax runs");
    // Each round has one trial for each gateway and two trials of direct.
    let of_round = gateways.len() + 2;
    let started = Instant::now();
    let mut hog = None;
    while measuring.try_wait().expect("ours").is_none() {
        let done = lines_below(scratch.path()) / of_round;
        match (done % 2 == 1, hog.is_none()) {
            (true, true) => hog = Some(Hog::start()),
            (false, false) => hog = None,
            _ => std::thread::sleep(10 * MS),
        }
        assert!(started.elapsed() < PATIENCE, "it does not end");
    }
    drop(hog);
    let directory = run_directory(&scratch);
    let all = report(&directory);
    let mut noisy = all["findings"].as_array().expect("findings").iter();
    let noisy = noisy.find(|finding| finding["code"] == "host-noisy").expect("a CPU was burnt");
    let noisy_trials = number(&noisy["evidence"]["noisy_trials"]) as usize;
    assert!(noisy_trials >= of_round * ROUNDS as usize / 4, "{noisy}");
    // The records of the same run without the disturbed rounds.
    let kept: String = trials(&directory)
        .into_iter()
        .filter(|trial| trial["round"].as_u64().expect("a number") % 2 == 0)
        .map(|trial| format!("{trial}\n"))
        .collect();
    std::fs::write(directory.join("trials.jsonl"), kept).expect("written");
    let quiet = report(&directory);
    for (name, report) in [("all", &all), ("quiet", &quiet)] {
        let added = &case(report, "slow")["tax"]["added_p50"];
        assert!(number(&added["high"]) > 15_000.0, "{name}: {added}");
        if added["distinguishable"] != true {
            return Err(format!("{name}: {added}"));
        }
    }
    Ok(())
}

fn lines_below(directory: &Path) -> usize {
    let runs = std::fs::read_dir(directory).expect("there").flatten();
    let texts = runs.filter_map(|run| std::fs::read_to_string(run.path().join("trials.jsonl")).ok());
    texts.map(|text| text.lines().count()).sum()
}

/// A small, careless plan: different settings, one round, few requests.
#[test]
fn careless_plans_raise_findings() {
    needs!("nginx", "haproxy");
    let plan = "gateways: [{ name: nginx, workers: 1 }, { name: haproxy, workers: 2 }]
load: [{ loop: open, rate: 100/s, connections: 2, duration: 300ms }]
trials: 1
warmup: 0s
";
    let report = measured(&Scratch::new(), plan);
    let codes: BTreeSet<&str> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter_map(|it| it["code"].as_str())
        .collect();
    for code in ["few-samples", "not-distinguishable", "workers-unequal"] {
        assert!(codes.contains(code), "{code}: {codes:?}");
    }
}

enum Where {
    /// An integration test plants the finding in a real run. The text is the test's file, which contains the
    /// finding's code.
    Real(&'static str),
    /// A unit test of the rule plants the finding in a generated record. The text is the reason why no real
    /// run plants it.
    Generated(&'static str),
}

use Where::{Generated, Real};

/// Every finding, with the place of the test that must raise the finding.
const PLANTS: [(&str, Where); 78] = [
    ("abort-ignored", Real("llm_findings.rs")),
    ("abuse-guard", Real("http2_runs.rs")),
    ("amplification", Real("findings.rs")),
    ("balance", Real("findings.rs")),
    ("bandwidth-bound", Generated("a saturated loopback needs the whole machine")),
    ("cached-answers", Real("own_gateway.rs")),
    ("clock", Real("path.rs")),
    ("connections-recycled", Real("http2_runs.rs")),
    ("connections-short", Real("planted.rs")),
    ("connections-unserved", Real("planted.rs")),
    ("cpus-moved", Generated("only the hypervisor can move CPUs")),
    ("deadline-changed", Real("grpc_streams.rs")),
    ("delayed-ack", Real("delayed_ack.rs")),
    ("different-work", Real("findings.rs")),
    ("errors", Real("findings.rs")),
    ("event-failed", Real("events.rs")),
    ("events-bunched", Real("stream_findings.rs")),
    ("extension-differs", Real("stream_findings.rs")),
    ("failed-checks", Real("findings.rs")),
    ("false-end", Real("llm_findings.rs")),
    ("few-quiet-windows", Generated("only the hypervisor can cause steal")),
    ("few-samples", Real("planted.rs")),
    ("first-event-held", Real("llm_findings.rs")),
    ("frames-changed", Generated("no gateway here adds or removes pings or comments")),
    ("gateway-died", Real("run.rs")),
    ("generator-saturated", Generated("the bottleneck depends on the machine")),
    ("generators-disagree", Generated("generators on one machine have the same path to the gateway")),
    ("grpc-failed", Real("grpc_runs.rs")),
    ("head-of-line", Real("http2_runs.rs")),
    ("herd", Generated("the waiting time of simultaneous requests depends on the machine")),
    ("hidden-limit", Real("probes.rs")),
    ("host-changed", Generated("a test cannot change its host")),
    ("host-noisy", Real("planted.rs")),
    ("host-unfit", Generated("a test cannot change its host")),
    ("impossible", Real("planted.rs")),
    ("keepalive-lost", Real("findings.rs")),
    ("limit-exceeded", Generated("no current pack that runs here lets more through")),
    ("listen-overflow", Real("planted.rs")),
    ("logging-unequal", Real("probes.rs")),
    ("memory-growing", Real("findings.rs")),
    ("messages-differ", Real("grpc_streams.rs")),
    ("no-backpressure", Real("llm_findings.rs")),
    ("not-distinguishable", Real("planted.rs")),
    ("not-ready", Generated("no gateway here is ready in only some of its starts")),
    ("not-settled", Generated("the load of a test is too short to tell")),
    ("ports-exhausted", Generated("exhausted ports would affect every test on the machine")),
    ("protocol-downgraded", Real("upstream_leg.rs")),
    ("queued", Real("own_gateway.rs")),
    ("quiet-differs", Generated("only the hypervisor can cause steal")),
    ("rate-missed", Real("planted.rs")),
    ("redirected", Real("planted.rs")),
    ("rejections-counted", Real("findings.rs")),
    ("request-altered", Real("llm_findings.rs")),
    ("retries-after-abort", Generated("no gateway of these tests asks again for a client that has left")),
    ("retries-multiply", Real("llm_findings.rs")),
    ("shared-cpus", Generated("how much is used of shared CPUs depends on the machine")),
    ("silence", Real("llm_findings.rs")),
    ("still-warming", Real("warm_up.rs")),
    ("stream-buffered", Real("grpc_streams.rs")),
    ("stream-workers-full", Generated("no gateway of these tests holds a worker for each stream")),
    ("streams-capped", Real("http2_runs.rs")),
    ("streams-refused", Real("http2_runs.rs")),
    ("tail-of-the-machine", Real("tails.rs")),
    ("throttled", Real("probes.rs")),
    ("trailers-lost", Real("grpc_runs.rs")),
    ("tunnel-cut", Real("stream_findings.rs")),
    ("tunnel-refused", Real("stream_findings.rs")),
    ("unasked", Generated("no current pack has such a gateway")),
    ("unpinned-version", Real("findings.rs")),
    ("unsteady", Real("planted.rs")),
    ("upstream-http-version", Real("findings.rs")),
    ("upstream-not-multiplexed", Real("upstream_leg.rs")),
    ("upstream-not-reused", Real("findings.rs")),
    ("upstream-saturated", Real("planted.rs")),
    ("usage-altered", Real("llm_findings.rs")),
    ("window-stalled", Real("http2_runs.rs")),
    ("workers-starved", Real("http2_runs.rs")),
    ("workers-unequal", Real("planted.rs")),
];

/// Every finding must be raised by a test. A new finding must also be added to the list above.
#[test]
fn every_finding_is_planted_somewhere() {
    let rules = json(hoptax().args(["findings", "--json"]));
    let rules = rules.as_array().expect("rules").iter();
    let rules: BTreeSet<&str> = rules.filter_map(|rule| rule["code"].as_str()).collect();
    let plants: BTreeMap<&str, &Where> = PLANTS.iter().map(|(code, place)| (*code, place)).collect();
    assert_eq!(plants.keys().copied().collect::<BTreeSet<_>>(), rules);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (code, place) in plants {
        let (path, mark) = match place {
            Real(file) => (root.join("tests/all").join(file), format!("\"{code}\"")),
            Generated(reason) => {
                assert!(!reason.is_empty());
                let rule = format!("../hoptax-analysis/src/checks/{}.rs", code.replace('-', "_"));
                (root.join(rule), "fn raised_".to_owned())
            }
        };
        let source =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // The list above also contains the finding's name. That line does not count.
        let named = source
            .lines()
            .filter(|line| line.contains(&mark) && !line.trim_start().starts_with("(\""))
            .count();
        assert!(named > 0, "{code} is not planted in {}", path.display());
    }
}

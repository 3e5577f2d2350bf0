//! More mistakes planted for real: those of published tests (cases A to E), and those of the machine and its clocks; and the
//! list of where each finding is planted.

use crate::findings::two_ports;
use crate::run::{report, run, run_directory, text, trials};
use crate::support::hog::Hog;
use crate::support::proxy::{Misbehaviour, Planted, Proxy};
use crate::support::{Json, PATIENCE, Scratch, eventually, hoptax, json};
use hdrhistogram::Histogram;
use hoptax_load::histogram::Encoded;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
/// A plan with an upstream of two instances and a proxy for each misbehaviour; `rest` says what is asked of them.
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
        "name: planted\nupstream: {{ instances: 2, port: {port}{upstream} }}\ngateways:\n{list}warmup: 0s\n{rest}"
    );
    (plan, proxies)
}

/// Runs such a plan, and reports.
fn examined(gateways: &[(&str, Misbehaviour)], upstream: &str, rest: &str) -> Json {
    let (plan, _proxies) = plan(gateways, upstream, rest);
    let scratch = Scratch::new();
    measured(&scratch, &plan)
}

fn measured(scratch: &Scratch, plan: &str) -> Json {
    let output = run(scratch, plan, &["--accept-void"]);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    report(&run_directory(scratch))
}

/// The finding of this code about a gateway's case.
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

/// A load generator that spoke HTTP/1.0: one gateway closed every connection, the other did not.
#[test]
fn case_a_keep_alive_on_one_side_only() {
    let gateways = [
        ("keeps", Misbehaviour::default()),
        ("closes", Misbehaviour { http_10: true, ..Misbehaviour::default() }),
    ];
    let report =
        examined(&gateways, "", "load: [{ loop: closed, connections: 4, duration: 500ms }]\ntrials: 2\n");
    assert_eq!(raised(&report, "keepalive-lost", "closes")["severity"], "void");
    assert_eq!(
        (finding(&report, "keepalive-lost", "keeps"), finding(&report, "keepalive-lost", "direct")),
        (None, None)
    );
}

/// Token reviews: for each request that came in, two went to the upstream.
#[test]
fn case_c_twice_the_requests_at_the_upstream() {
    let gateways = [
        ("reviews", Misbehaviour { duplicate_every: Some(1), ..Misbehaviour::default() }),
        ("remembers", Misbehaviour::default()),
    ];
    let report = examined(
        &gateways,
        "",
        "load: [{ loop: open, rate: 200/s, connections: 8, duration: 1s }]\ntrials: 2\n",
    );
    let per_request = number(&raised(&report, "amplification", "reviews")["evidence"]["per_request"]);
    assert!((1.9..2.1).contains(&per_request), "{per_request}");
    assert_eq!(finding(&report, "amplification", "remembers"), None);
    assert_eq!(finding(&report, "amplification", "direct"), None);
}

/// More connections than a gateway takes, and requests that time out: its percentiles are those of the survivors. (With
/// 15,000 connections through real gateways there is a test of its own.)
#[test]
fn case_d_connections_that_wait_and_time_out() {
    let gateways = [
        ("crowded", Misbehaviour { backlog: Some((1, 200 * MS)), ..Misbehaviour::default() }),
        ("roomy", Misbehaviour::default()),
    ];
    let report = examined(
        &gateways,
        "",
        "timeout: 300ms\nload: [{ loop: closed, connections: 64, duration: 1s }]\ntrials: 1\n",
    );
    raised(&report, "errors", "crowded");
    raised(&report, "connections-short", "crowded");
    raised(&report, "listen-overflow", "crowded");
    assert_eq!(finding(&report, "connections-short", "roomy"), None);
    assert_eq!(finding(&report, "connections-short", "direct"), None);
}

/// A rate that two connections cannot carry via the gateway, though direct carries it.
#[test]
fn case_e_a_rate_that_is_not_reached() {
    let slow = Planted { inbound: 20 * MS, outbound: Duration::ZERO, every: 1, spin: false };
    let gateways = [("slow", Misbehaviour { delay: Some(slow), ..Misbehaviour::default() })];
    let load = "load: [{ loop: open, rate: 300/s, connections: 2, duration: 1s }]\ntrials: 2\n";
    // A machine that stands still for a moment as a trial ends leaves some of direct's undone.
    eventually(|| {
        let report = examined(&gateways, "", load);
        let share = |gateway: &str| {
            finding(&report, "rate-missed", gateway).map(|it| number(&it["evidence"]["share"]))
        };
        // Two connections carry 100 requests per second at most.
        assert!(share("slow").is_some_and(|share| share < 0.4), "{:?}", share("slow"));
        match share("direct") {
            Some(share) if share <= 0.8 => Err(format!("direct carries {share} of the rate")),
            _ => Ok(()),
        }
    });
}

/// The finding that a run must raise. Where a disturbed machine hid it, the run is made again.
fn seen(code: &str, gateway: &str, look: impl Fn() -> Json) -> Json {
    eventually(|| {
        let report = look();
        let found = finding(&report, code, gateway).cloned();
        found.ok_or_else(|| format!("no {code} of {gateway}: {}", report["findings"]))
    })
}

#[test]
fn a_warm_up_that_was_left_in_is_found() {
    // So slow at first that no noise makes the rest as slow.
    let cold = Misbehaviour { cold: Some((1000 * MS, 25 * MS)), ..Misbehaviour::default() };
    let load = "load: [{ loop: closed, connections: 2, duration: 2s }]\ntrials: 1\n";
    let unsteady = eventually(|| {
        let report = examined(&[("cold", cold.clone())], "", load);
        let unsteady = finding(&report, "unsteady", "cold").cloned();
        let unsteady = unsteady.ok_or_else(|| format!("no unsteady of cold: {}", report["findings"]))?;
        // A machine that stood still is told before anything that changes.
        let changes = unsteady["evidence"]["standstill_s"].is_null();
        if changes { Ok(unsteady) } else { Err(unsteady.to_string()) }
    });
    assert!(number(&unsteady["evidence"]["change"]) > 0.5, "{unsteady}");
}

const SPREAD: &str = ", delay: \"uniform(1ms, 28ms)\"";
const OF_SPREAD: &str = "load: [{ loop: closed, connections: 8, duration: 1s }]\ntrials: 1\n";

#[test]
fn a_coarse_timer_is_found() {
    let coarse = Misbehaviour { quantum: Some(10 * MS), ..Misbehaviour::default() };
    let look = || {
        let report = examined(&[("coarse", coarse.clone())], SPREAD, OF_SPREAD);
        assert_eq!(finding(&report, "clock", "direct"), None);
        report
    };
    let clock = seen("clock", "coarse", look);
    assert_eq!(clock["evidence"]["step_us"], 10_000.0, "{clock}");
}

/// The steps of a timer as a record has them on a machine that wakes up when it should.
#[test]
fn steps_are_found_in_a_record_made_by_hand() {
    let (plan, _proxies) = plan(&[("plain", Misbehaviour::default())], SPREAD, OF_SPREAD);
    let scratch = Scratch::new();
    assert_eq!(finding(&measured(&scratch, &plan), "clock", "plain"), None);
    let directory = run_directory(&scratch);
    edit(&directory, "plain", |histograms| {
        let stepped = changed(&histograms["response_time"], |value| value.next_multiple_of(4_000_000));
        histograms["response_time"] = stepped;
    });
    let report = report(&directory);
    assert_eq!(raised(&report, "clock", "plain")["evidence"]["step_us"], 4_000.0);
    assert_eq!(finding(&report, "clock", "direct"), None);
}

/// Whatever stands before it, an upstream that lets one request through after the other is the limit.
#[test]
fn an_upstream_that_is_the_limit_is_found() {
    let origin = crate::world::http_upstream("hello");
    let one_by_one = Misbehaviour { one_every: Some(10 * MS), ..Misbehaviour::default() };
    let upstream = Proxy::start(&[origin.address], one_by_one);
    let plan = format!(
        "name: limit
upstream: {{ url: \"{}\" }}
gateways: [hop-l4]
load: [{{ loop: closed, connections: [16, 32], duration: 600ms }}]
trials: 2
warmup: 100ms
",
        upstream.url()
    );
    let saturated = seen("upstream-saturated", "hop-l4", || measured(&Scratch::new(), &plan));
    assert_eq!(saturated["evidence"]["connections_before"], 16, "{saturated}");
}

/// Every value of a histogram changed, in order of size.
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

/// Changes the trials of a gateway in a run directory; `change` gets the histograms of each.
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

/// A published table had a minimum of 74 ns over a network, and another a p99 above the maximum. No run of ours does that, so
/// a record of one is made to.
#[test]
fn figures_that_cannot_be_are_found_in_a_record_made_by_hand() {
    let (plan, _proxies) = plan(
        &[("quick", Misbehaviour::default()), ("late", Misbehaviour::default())],
        "",
        "load: [{ loop: open, rate: 200/s, connections: 4, duration: 500ms }]\ntrials: 2\n",
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

/// Rounds of the test below; in every other one somebody else burns a CPU.
const ROUNDS: u32 = 4;

/// A neighbour during half of the rounds: it is told, and what is a tax without it is one with it.
#[test]
fn a_neighbour_in_half_of_the_rounds_changes_no_verdict() {
    // Others than ours may spoil a verdict.
    eventually(beside_a_neighbour);
}

fn beside_a_neighbour() -> Result<(), String> {
    let slow = Planted { inbound: 20 * MS, outbound: Duration::ZERO, every: 1, spin: false };
    let gateways = [
        ("slow", Misbehaviour { delay: Some(slow), ..Misbehaviour::default() }),
        ("plain", Misbehaviour::default()),
    ];
    let load = "load: [{ loop: open, rate: 100/s, connections: 16, duration: 500ms }]";
    let (plan, _proxies) = plan(&gateways, "", &format!("{load}\ntrials: {ROUNDS}\n"));
    let scratch = Scratch::new();
    let path = scratch.file("plan.yaml", &plan);
    let mut command = hoptax();
    command.arg("run").arg(path).arg("--out").arg(scratch.path()).arg("--accept-void");
    let mut measuring = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("hoptax runs");
    // Two gateways, and direct at both ends.
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
    // The same run without the rounds of the neighbour.
    let kept: String = trials(&directory)
        .into_iter()
        .filter(|trial| trial["round"].as_u64().expect("a number") % 2 == 0)
        .map(|trial| format!("{trial}\n"))
        .collect();
    std::fs::write(directory.join("trials.jsonl"), kept).expect("written");
    let quiet = report(&directory);
    for (name, report) in [("all", &all), ("quiet", &quiet)] {
        let cases = report["cases"].as_array().expect("cases");
        let slow = cases.iter().find(|case| case["gateway"] == "slow").expect("measured");
        let added = &slow["tax"]["added_p50"];
        assert!(number(&added["high"]) > 15_000.0, "{name}: {added}");
        if added["distinguishable"] != true {
            return Err(format!("{name}: {added}"));
        }
    }
    Ok(())
}

/// Trials on disk so far.
fn lines_below(directory: &Path) -> usize {
    let runs = std::fs::read_dir(directory).expect("there").flatten();
    let texts = runs.filter_map(|run| std::fs::read_to_string(run.path().join("trials.jsonl")).ok());
    texts.map(|text| text.lines().count()).sum()
}

/// What every small and careless plan has: settings that differ, one round, few requests.
#[test]
fn careless_plans_are_told_so() {
    if crate::world::is_missing("nginx") || crate::world::is_missing("haproxy") {
        return;
    }
    let plan = "name: careless
gateways: [{ name: nginx, workers: 1 }, { name: haproxy, workers: 2 }]
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

/// Where a finding is planted.
enum Where {
    /// Through the real pipeline, in this file of the integration tests, which names the code.
    Real(&'static str),
    /// In a record made up, in the tests of the rule: why not for real.
    MadeUp(&'static str),
}

use Where::{MadeUp, Real};

/// Every finding, and where a run is made that must raise it.
const PLANTS: [(&str, Where); 36] = [
    ("amplification", Real("findings.rs")),
    ("balance", Real("findings.rs")),
    ("bandwidth-bound", MadeUp("a loopback that is full takes the whole machine")),
    ("clock", Real("path.rs")),
    ("connections-short", Real("planted.rs")),
    ("different-work", Real("findings.rs")),
    ("errors", Real("findings.rs")),
    ("event-failed", Real("events.rs")),
    ("failed-checks", Real("findings.rs")),
    ("few-quiet-windows", MadeUp("steal is the hypervisor's to make")),
    ("few-samples", Real("planted.rs")),
    ("generator-saturated", MadeUp("who is at the limit depends on the machine")),
    ("herd", MadeUp("how long those that arrive together wait depends on the machine")),
    ("hidden-limit", Real("probes.rs")),
    ("host-changed", MadeUp("a test does not change its host")),
    ("host-noisy", Real("planted.rs")),
    ("host-unfit", MadeUp("a test does not change its host")),
    ("impossible", Real("planted.rs")),
    ("keepalive-lost", Real("findings.rs")),
    ("listen-overflow", Real("planted.rs")),
    ("logging-unequal", Real("probes.rs")),
    ("memory-growing", Real("findings.rs")),
    ("not-distinguishable", Real("planted.rs")),
    ("ports-exhausted", MadeUp("ports that are used up are so for every test on the machine")),
    ("quiet-differs", MadeUp("steal is the hypervisor's to make")),
    ("rate-missed", Real("planted.rs")),
    ("rejections-counted", Real("findings.rs")),
    ("shared-cpus", MadeUp("how much is used of shared CPUs depends on the machine")),
    ("throttled", Real("probes.rs")),
    ("unasked", MadeUp("gateways that do it are in their packs' past only")),
    ("unpinned-version", Real("findings.rs")),
    ("unsteady", Real("planted.rs")),
    ("upstream-http-version", Real("findings.rs")),
    ("upstream-not-reused", Real("findings.rs")),
    ("upstream-saturated", Real("planted.rs")),
    ("workers-unequal", Real("planted.rs")),
];

/// No finding without a run that must raise it: a new one has to be put in the list above.
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
            MadeUp(reason) => {
                assert!(!reason.is_empty());
                let rule = format!("../hoptax-analysis/src/checks/{}.rs", code.replace('-', "_"));
                (root.join(rule), "fn raised_".to_owned())
            }
        };
        let source =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // Its own line in the list above does not count.
        let named = source
            .lines()
            .filter(|line| line.contains(&mark) && !line.trim_start().starts_with("(\""))
            .count();
        assert!(named > 0, "{code} is not planted in {}", path.display());
    }
}

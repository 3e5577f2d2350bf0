//! Real runs with planted faults, one for each gateway. The report must find each fault. Also tests `hoptax
//! findings`, which explains the findings.

use crate::run::{assert_found, measured, text};
use crate::support::proxy::{Misbehaviour, Proxy};
use crate::support::refusals::refusals;
use crate::support::{Json, hoptax, json};
use crate::wire::Server;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};

/// Findings that are planted here. The report may contain other findings, which the test machine causes.
const PLANTED: [&str; 10] = [
    "amplification",
    "balance",
    "different-work",
    "errors",
    "failed-checks",
    "keepalive-lost",
    "memory-growing",
    "rejections-counted",
    "unasked",
    "upstream-not-reused",
];

/// Two consecutive ports on which no process listens. The ports are below the kernel's ephemeral ports,
/// because many ephemeral ports remain in use for a minute after a test that opens thousands of connections.
/// Each test is a process of its own, so a lock on a file keeps the ports for this process until it ends.
pub(crate) fn two_ports() -> [SocketAddr; 2] {
    let user = rustix::process::getuid().as_raw();
    let locks = std::env::temp_dir().join(format!("hoptax-test-ports-{user}"));
    std::fs::create_dir_all(&locks).expect("made");
    let begin = std::process::id() % 6_000;
    for pair in (begin..6_000).chain(0..begin) {
        let first = 20_000 + pair as u16 * 2;
        let lock = std::fs::File::create(locks.join(first.to_string())).expect("made");
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let listeners = [first, first + 1].map(|port| TcpListener::bind(("127.0.0.1", port)));
        if let [Ok(first), Ok(second)] = &listeners {
            // Closing the file would release the lock.
            std::mem::forget(lock);
            return [first, second].map(|listener| listener.local_addr().expect("bound"));
        }
    }
    panic!("no two ports in a row are free");
}

/// Codes of the findings that the report has for a gateway. Findings that are not planted are left out.
fn found(report: &Json, gateway: &str) -> BTreeSet<String> {
    crate::run::found(report, gateway, &PLANTED)
}

fn severity<'a>(report: &'a Json, code: &str, gateway: &str) -> &'a str {
    let findings = report["findings"].as_array().expect("findings");
    let of = |finding: &&Json| {
        finding["code"] == code
            && finding["case"].as_str().is_some_and(|case| case.starts_with(&format!("{gateway},")))
    };
    findings.iter().find(of).expect("raised")["severity"].as_str().expect("a severity")
}

#[test]
fn each_fault_is_found_only_where_it_was_planted() {
    let right = Misbehaviour::default;
    let plants: [(&str, Misbehaviour, &[&str]); 9] = [
        ("faithful", right(), &[]),
        ("closes", Misbehaviour { close_clients: true, ..right() }, &["keepalive-lost"]),
        ("http-1-0", Misbehaviour { http_10: true, ..right() }, &["keepalive-lost"]),
        ("no-pool", Misbehaviour { fresh_upstream: true, ..right() }, &["upstream-not-reused"]),
        ("asks-twice", Misbehaviour { duplicate_every: Some(1), ..right() }, &["amplification"]),
        ("cached", Misbehaviour { cached: true, ..right() }, &["amplification"]),
        (
            "limited",
            Misbehaviour { limit_per_second: Some(20), ..right() },
            &["amplification", "different-work", "failed-checks", "rejections-counted"],
        ),
        ("altered", Misbehaviour { alter_every: Some(3), ..right() }, &["failed-checks"]),
        ("favours", Misbehaviour { favour_first: Some(10), ..right() }, &["balance"]),
    ];
    let upstreams = two_ports();
    let proxies: Vec<(&str, Proxy)> =
        plants.iter().map(|(label, wrong, _)| (*label, Proxy::start(&upstreams, wrong.clone()))).collect();
    let gateways: String = proxies
        .iter()
        .map(|(label, proxy)| format!("  - {{ name: external, label: {label}, url: \"{}\" }}\n", proxy.url()))
        .collect();
    let plan = format!(
        "upstream: {{ instances: 2, port: {}, body: {{ text: hello }} }}
gateways:
{gateways}target: {{ path: /, expect: {{ body: {{ equals: hello }} }} }}
load: [{{ loop: open, rate: 1000/s, connections: 16, duration: 300ms }}]
trials: 2
warmup: 100ms
",
        upstreams[0].port()
    );
    let report = measured(&plan);
    let none: &[&str] = &[];
    let expected = plants.iter().map(|(label, _, codes)| (*label, *codes));
    assert_found(&report, &PLANTED, expected.chain([("direct", none)]));
    for (code, gateway, expected) in [
        ("keepalive-lost", "closes", "void"),
        ("amplification", "asks-twice", "warning"),
        ("amplification", "cached", "void"),
        ("different-work", "limited", "void"),
    ] {
        assert_eq!(severity(&report, code, gateway), expected, "{code}, {gateway}");
    }
    let unpinned = report["findings"].as_array().expect("findings").iter();
    assert_eq!(unpinned.filter(|finding| finding["code"] == "unpinned-version").count(), plants.len());
}

/// The report must find a memory leak in the process that the plan names for the gateway. In this test, the
/// plan names the test's own process. Other tests in this process allocate and free memory at the same time,
/// and this can hide the leak. Then the test is repeated.
#[test]
fn a_leak_is_found() {
    let seen = (0..3).map(|_| run_with_a_leak()).find(|(codes, _)| codes.contains("memory-growing"));
    let (_, leaked) = seen.expect("one of three runs sees it");
    assert!(leaked > 100 << 20, "it leaked {leaked}");
}

/// Runs a gateway that leaks memory. Returns the codes of its findings, and the number of leaked bytes.
fn run_with_a_leak() -> (BTreeSet<String>, u64) {
    let upstreams = two_ports();
    let leaky = Proxy::start(&upstreams, Misbehaviour { leak_bytes: 96 << 10, ..Misbehaviour::default() });
    let plan = format!(
        "upstream: {{ instances: 2, port: {} }}
gateways: [{{ name: external, label: leaky, url: \"{}\", pid: {} }}]
load: [{{ loop: closed, connections: 2, requests: 1000, duration: 20s }}]
trials: 4
warmup: 0s
",
        upstreams[0].port(),
        leaky.url(),
        std::process::id()
    );
    (found(&measured(&plan), "leaky"), leaky.leaked() as u64)
}

/// nginx before 1.29.7 ships without a pool of upstream connections, and uses HTTP/1.0 to the upstream.
/// HAProxy ships with a pool and uses HTTP/1.1.
#[test]
fn shipped_defaults_are_found() {
    let gateways = json(hoptax().args(["gateways", "--json"]));
    let nginx =
        gateways.as_array().expect("packs").iter().find(|pack| pack["name"] == "nginx").expect("a pack");
    let version: Vec<u32> = nginx["version"]
        .as_str()
        .expect("installed")
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect();
    assert!(version < vec![1, 29, 7], "this test needs an older nginx");
    let plan = "profile: stock
gateways: [nginx, haproxy]
load: [{ loop: open, rate: 1000/s, connections: 8, duration: 300ms }]
trials: 1
warmup: 100ms
";
    let report = measured(plan);
    let codes = |gateway: &str| -> BTreeSet<&str> {
        let findings = report["findings"].as_array().expect("findings").iter();
        let of = findings.filter(|finding| {
            finding["case"].as_str().is_some_and(|case| case.starts_with(&format!("{gateway},")))
                && finding["code"].as_str().expect("a code").starts_with("upstream-")
        });
        of.filter_map(|finding| finding["code"].as_str())
            .filter(|code| *code != "upstream-saturated")
            .collect()
    };
    assert_eq!(codes("nginx"), BTreeSet::from(["upstream-http-version", "upstream-not-reused"]));
    assert_eq!(codes("haproxy"), BTreeSet::new());
}

/// The end of each connection is announced, so no request is lost.
#[test]
fn connections_that_end_after_some_requests_are_found() {
    let [upstream, keeps] = [(); 2].map(|()| Server::start(&["upstream"]));
    let recycles = Server::start(&["upstream", "--close-after", "100"]);
    let plan = format!(
        "upstream: {{ url: \"http://{}\" }}
gateways:
  - {{ name: external, label: keeps, url: \"http://{}\" }}
  - {{ name: external, label: recycles, url: \"http://{}\" }}
load: [{{ loop: closed, connections: 4, requests: 2000, duration: 20s }}]
trials: 2
warmup: 0s
",
        upstream.instance(0),
        keeps.instance(0),
        recycles.instance(0)
    );
    let report = measured(&plan);
    let findings = report["findings"].as_array().expect("findings").iter();
    let raised: Vec<(&str, &str)> = findings
        .filter(|finding| finding["code"] == "connections-recycled")
        .filter_map(|finding| Some((finding["case"].as_str()?, finding["severity"].as_str()?)))
        .collect();
    assert_eq!(raised, [("recycles, closed loop, 4 connections", "note")]);
}

#[test]
fn the_verb_explains_findings() {
    let all = json(hoptax().args(["findings", "--json"]));
    let codes: Vec<&str> =
        all.as_array().expect("rules").iter().filter_map(|rule| rule["code"].as_str()).collect();
    for code in PLANTED {
        assert!(codes.contains(&code), "{code}");
    }
    let reported = hoptax().args(["findings", "balance"]).output().expect("runs");
    let reported = text(&reported.stdout);
    assert!(reported.starts_with("balance (warning)") && reported.contains("What to do"), "{reported}");
    assert!(!reported.contains("amplification"), "{reported}");
    insta::assert_snapshot!(refusals(&["findings"], &[&["keepalive"]]));
}

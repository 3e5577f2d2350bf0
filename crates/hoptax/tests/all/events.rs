//! Events in real runs: gateways and the upstream reload, change and restart under load.

use crate::run::{report, run, run_directory, run_without_stall, text, trials};
use crate::support::planted_pack::altered;
use crate::support::{Json, Scratch};
use crate::wire::{Client, Server};
use hoptax_servers::{ledger, upstream};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn an_upstream_instance_restarts_without_affecting_the_other() {
    let server = Server::start(&["upstream", "--instances", "2", "--body", "10B"]);
    let tell = |instance, order| upstream::send_order(server.control(), instance, order);
    let mut of_first = Client::connect(server.instance(0));
    let mut of_second = Client::connect(server.instance(1));
    assert_eq!((of_first.send(GET).response().status, of_second.send(GET).response().status), (200, 200));

    tell(0, upstream::Order::Close).expect("closed");
    assert!(of_first.read(false).is_err(), "its connections are gone");
    let refused = std::net::TcpStream::connect(server.instance(0)).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(of_second.send(GET).response().status, 200);
    let counts = ledger::fetch(server.control()).expect("the ledger is always readable").instances;
    assert_eq!((counts[0].requests, counts[0].open, counts[1].requests), (1, 0, 2));

    tell(0, upstream::Order::Open).expect("open");
    assert_eq!(Client::connect(server.instance(0)).send(GET).response().status, 200);
    let counts = ledger::fetch(server.control()).expect("a ledger").instances;
    assert_eq!(
        (counts[0].requests, counts[0].connections),
        (2, 2),
        "counts go on, and who only woke it is not among them"
    );

    tell(0, upstream::Order::Close).expect("closed again");
    let reported = format!("{:#}", tell(2, upstream::Order::Close).expect_err("there is none"));
    assert!(reported.contains("instance 2"), "{reported}");
    assert_eq!(server.stop(), Some(0), "also while an instance is down");
}

#[test]
fn no_request_that_a_web_page_can_send_changes_the_upstream() {
    let server = Server::start(&["upstream", "--address", "0.0.0.0"]);
    assert!(server.control().ip().is_loopback(), "{}", server.control());
    let order = |headers: &str| {
        let request =
            format!("POST /instances/0/close HTTP/1.1\r\nhost: a\r\n{headers}content-length: 2\r\n\r\n{{}}");
        Client::connect(server.control()).send(&request).response().status
    };
    // A page may send these headers without asking first, also with another value of `content-type`.
    for simple in ["", "origin: http://evil.example\r\ncontent-type: text/plain\r\naccept: x-hoptax\r\n"] {
        assert_eq!(order(simple), 403, "{simple}");
    }
    assert_eq!(order("x-hoptax: 0\r\n"), 403);
    let preflight = "OPTIONS /instances/0/close HTTP/1.1\r\nhost: a\r\norigin: http://evil.example\r\n\
                     access-control-request-method: POST\r\naccess-control-request-headers: x-hoptax\r\n\r\n";
    let preflight = Client::connect(server.control()).send(preflight).response();
    assert!(preflight.status == 404 && !preflight.head.contains("access-control"), "{}", preflight.head);
    let instance = std::net::SocketAddr::from(([127, 0, 0, 1], server.instance(0).port()));
    assert_eq!(Client::connect(instance).send(GET).response().status, 200, "it was never closed");
    assert_eq!(order("X-Hoptax: 1\r\n"), 200);
    assert!(std::net::TcpStream::connect(instance).is_err(), "now it is closed");
}

const EVENTS: [&str; 4] = ["reload", "change-route", "restart-upstream", "restart-gateway"];

fn name_of_event(event: &Json) -> String {
    let action = &event["event"]["action"];
    action
        .as_str()
        .map(str::to_owned)
        .unwrap_or_else(|| action.as_object().expect("one").keys().next().expect("a name").clone())
}

#[test]
fn real_gateways_are_reloaded_changed_and_restarted_under_load() {
    needs!("nginx", "haproxy", "envoy");
    let scratch = Scratch::new();
    let plan = "upstream: { instances: 2, body: 1KiB }
gateways:
  - { name: nginx, features: [{ routes: 5 }] }
  - { name: haproxy, features: [{ routes: 5 }] }
  - { name: envoy, features: [{ routes: 5 }] }
load:
  - { loop: open, rate: 200/s, connections: 4, duration: 5s }
trials: 1
warmup: 100ms
events:
  - { at: 200ms, do: reload, gateway: nginx }
  - { at: 200ms, do: reload, gateway: envoy }
  - { at: 500ms, do: change-route, route: first }
  - { at: 1000ms, do: restart-upstream, instance: 1, down: 100ms }
  - { at: 1500ms, do: restart-gateway }
";
    let (_, directory) = run_without_stall(&scratch, plan, &["--accept-void"]);
    let trials = trials(&directory);
    assert_eq!(trials.len(), 5);
    for trial in &trials {
        let who = trial["contender"].as_str().expect("a label");
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let events = trial["events"].as_array().expect("events");
        let names: Vec<String> = events.iter().map(name_of_event).collect();
        if who == "direct" {
            assert_eq!(names, ["restart-upstream"]);
        } else {
            // HAProxy ignores a reload that arrives during another reload. So the only event of this plan
            // that reloads HAProxy is the new route.
            assert_eq!(names, if who == "haproxy" { &EVENTS[1..] } else { &EVENTS[..] });
            // At first, the gateway refused requests for the new route. These requests were repeated until
            // the gateway answered.
            let new_route = &events[events.len() - 3]["new_route"];
            assert!(new_route["after_ns"].as_u64().is_some_and(|after| after > 0), "{who}: {events:?}");
        }
        for event in events {
            assert!(event["failed"].is_null(), "{who}: {event}");
            let (at, done) =
                (event["at_ns"].as_u64().expect("begun"), event["done_ns"].as_u64().expect("done"));
            assert!(at <= done, "{who}: {event}");
        }
        let windows = trial["load_record"]["windows"].as_array().expect("windows");
        let ok: u64 = windows.iter().filter_map(|window| window["ok"].as_u64()).sum();
        assert!(ok > 100, "{who}: {ok} requests were answered");
        if who != "direct" {
            let last = windows.iter().rposition(|window| window["ok"].as_u64() > Some(0)).expect("answered");
            assert!(
                last as u64 > events[events.len() - 1]["at_ns"].as_u64().unwrap() / 100_000_000,
                "{who} answers again: {last}"
            );
        }
    }
    let document = report(&directory);
    for case in document["cases"].as_array().expect("cases") {
        let events = case["events"].as_array().expect("events of the case");
        let expected =
            if case["gateway"] == "direct" { 1 } else { 3 + usize::from(case["gateway"] != "haproxy") };
        assert_eq!(events.len(), expected);
        // There are two direct trials per round.
        let times = if case["gateway"] == "direct" { 2 } else { 1 };
        assert!(events.iter().all(|event| event["trials"] == times), "{events:?}");
        // The effects of planned events must not be reported as faults.
        let codes = case["findings"].as_array().expect("codes");
        assert!(!codes.iter().any(|code| code == "errors" || code == "event-failed"), "{codes:?}");
    }
    let page = std::fs::read_to_string(directory.join("report.html")).expect("a page");
    assert!(page.contains("Around the events") && page.contains("restart-gateway"));
}

#[test]
fn metrics_are_read_once_per_event() {
    needs!("nginx");
    let scratch = Scratch::new();
    let (packs, log) = (scratch.path().join("packs"), scratch.path().join("scrapes.log"));
    // It logs each request for its page of metrics.
    let location = format!(
        "location = /metrics {{ access_log {}; return 200 metrics; }}\n location = /stub_status {{",
        log.display()
    );
    let changes = [
        ("nginx.conf.j2", "location = /stub_status {", location.as_str()),
        ("gateway.yaml", "metrics: /stub_status\n", "metrics: /metrics\n"),
    ];
    altered(&packs, "nginx", "logged", &changes);
    let plan = "gateways: [logged, { name: logged, label: scraped }]
load: [{ loop: open, rate: 100/s, connections: 2, duration: 600ms }]
trials: 1
warmup: 50ms
events:
  - { at: 100ms, do: scrape, gateway: scraped }
  - { at: 300ms, do: scrape, gateway: scraped }
";
    run(&scratch, plan, &["--accept-void", "--packs", packs.to_str().expect("text")]);
    let trials = trials(&run_directory(&scratch));
    // Trials without events have no such member.
    let scraped: Vec<Json> =
        trials.iter().filter_map(|trial| trial["events"].as_array()).flatten().cloned().collect();
    assert_eq!(scraped.iter().map(name_of_event).collect::<Vec<_>>(), ["scrape"; 2]);
    assert!(scraped.iter().all(|event| event["failed"].is_null()), "{scraped:?}");
    let log = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(
        log.lines().filter(|line| line.contains("\"GET /metrics HTTP/1.1\" 200 7")).count(),
        2,
        "{log}"
    );
}

#[test]
fn metrics_that_cannot_be_read_are_reported_with_their_event() {
    needs!("nginx");
    let scratch = Scratch::new();
    let packs = scratch.path().join("packs");
    altered(&packs, "nginx", "silent", &[("gateway.yaml", "metrics: /stub_status", "metrics: /none")]);
    let plan = "gateways: [silent]
load: [{ loop: open, rate: 100/s, connections: 2, duration: 500ms }]
trials: 1
warmup: 50ms
events: [{ at: 100ms, do: scrape }]
";
    run(&scratch, plan, &["--accept-void", "--packs", packs.to_str().expect("text")]);
    let document = report(&run_directory(&scratch));
    let findings = document["findings"].as_array().expect("findings");
    let failed = findings.iter().find(|finding| finding["code"] == "event-failed").expect("a finding");
    assert!(failed.to_string().contains("/none"), "{failed}");
}

#[test]
fn a_route_that_never_answers_is_reported_with_its_event() {
    needs!("nginx");
    let scratch = Scratch::new();
    let packs = scratch.path().join("packs");
    let nonsense = "daemon off;\n{% if features.routes and \"changed\" in (features.routes | last) \
        %}nonsense;\n{% endif %}";
    altered(&packs, "nginx", "spoilt", &[("nginx.conf.j2", "daemon off;\n", nonsense)]);
    let plan = "gateways: [{ name: spoilt, features: [{ routes: 2 }] }]
load: [{ loop: open, rate: 200/s, connections: 2, duration: 1s }]
trials: 1
warmup: 0s
events:
  - { at: 100ms, do: change-route }
";
    let output = run(&scratch, plan, &["--accept-void", "--packs", packs.to_str().expect("text")]);
    let said = text(&output.stderr);
    let trials = trials(&run_directory(&scratch));
    let via = trials.iter().find(|trial| trial["contender"] == "spoilt").expect("a trial");
    let events = via["events"].as_array().expect("events");
    // nginx rejects the new configuration and keeps the old one.
    assert!(
        events[0]["failed"].as_str().is_some_and(|why| why.contains("did not answer")),
        "{events:?}\n{said}"
    );
    let document = report(&run_directory(&scratch));
    let found = document["findings"].as_array().expect("findings");
    assert!(found.iter().any(|finding| finding["code"] == "event-failed"), "{found:#?}");
    assert!(via["failed"].is_null() && via["load_record"]["counts"]["ok"].as_u64() > Some(50), "{via}");
}

//! `hoptax import`: the plan from a log of the real nginx must contain the log's mix, and must work with real
//! gateways.

use crate::load::case;
use crate::run::{run_directory, trials};
use crate::support::nginx::Nginx;
use crate::support::refusals::refusals;
use crate::support::{PATIENCE, Scratch, hoptax, json, succeed, wait_until, yaml};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;

const REQUESTS: u64 = 6000;

/// The known mix. Ids in paths and the values of the query differ from request to request.
const MIX: &str = r#"
- { name: item, weight: 60, path: "/items/{{random 1 5000}}", headers: { authorization: Bearer abc } }
- { name: search, weight: 25, path: "/search?q=secret-{{seq}}&page={{random 1 9}}" }
- { name: order, weight: 10, method: POST, path: /orders, body: 300B }
- { name: gone, weight: 5, path: "/gone/{{uuid}}", expect: { status: 404 } }
"#;

/// A service whose answers have different lengths, with a log in the combined format.
struct Service(Nginx);

impl Service {
    fn start() -> Self {
        let (short, long) = ("s".repeat(200), "l".repeat(3000));
        let http = format!(
            "default_type text/plain; access_log ROOT/access.log combined;
             server {{ listen unix:ROOT/socket; location /items/ {{ return 200 {short}; }}
             location /search {{ return 200 {long}; }} location /orders {{ return 201 ok; }}
             location / {{ return 404; }} }}"
        );
        Self(Nginx::start_with(&[], &http, |root| UnixStream::connect(root.join("socket")).is_ok()))
    }

    fn file(&self, name: &str) -> String {
        self.0.file(name).display().to_string()
    }
}

/// Requests of each target that were answered.
fn by_target(record: &Value) -> BTreeMap<String, u64> {
    let one = |target: &Value| {
        let counts = if target["counts"].is_null() { target } else { &target["counts"] };
        (target["name"].as_str().expect("a name").to_owned(), counts["completed"].as_u64().expect("a count"))
    };
    record["targets"].as_array().expect("several targets").iter().map(one).collect()
}

#[test]
fn a_log_of_a_known_mix_gives_it_back_and_is_measured() {
    needs!("nginx", "haproxy", "envoy");
    let (service, scratch) = (Service::start(), Scratch::new());
    let mix = scratch.file("mix.yaml", MIX).display().to_string();
    let (socket, count) = (service.file("socket"), REQUESTS.to_string());
    let few = ["-n", &count, "-c", "4"];
    let sent = case(&[&["http://shop.test", "--targets", &mix, "--unix", &socket][..], &few].concat());
    let sent = by_target(&sent);
    wait_until("every request is logged", PATIENCE, || {
        std::fs::read_to_string(service.file("access.log"))
            .is_ok_and(|log| log.lines().count() as u64 == REQUESTS)
    });

    let plan = scratch.path().join("traffic.yaml");
    succeed(hoptax().arg("import").arg(service.file("access.log")).arg("-o").arg(&plan));
    let written = std::fs::read_to_string(&plan).expect("written");
    assert!(!written.contains("secret") && !written.contains("abc"), "{written}");
    let read = yaml::read(&written).expect("YAML");
    let weights: BTreeMap<&str, u64> = read["target"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|target| {
            (target["name"].as_str().expect("a name"), target["weight"].as_u64().expect("a weight"))
        })
        .collect();
    let names = [
        ("item", "GET /items/*"),
        ("search", "GET /search?q=x&page=*"),
        ("order", "POST /orders"),
        ("gone", "GET /gone/*"),
    ];
    for (name, imported) in names {
        assert_eq!(weights.get(imported), sent.get(name), "the log has every request: {written}");
    }
    for part in ["body: 200B", "body: 3000B", "status: 201", "status: 404"] {
        assert!(written.contains(part), "{part}: {written}");
    }

    let shown = succeed(hoptax().arg("check").arg(&plan));
    assert!(shown.contains("access.log") && shown.contains("100 % of 6000"), "{shown}");

    let sets = [
        "gateways=[nginx, haproxy, envoy]",
        "load=[{ loop: closed, connections: 4, requests: 3000, duration: 60s }]",
        "trials=2",
        "warmup=50ms",
    ];
    let mut run = hoptax();
    run.arg("run").arg(&plan).args(["--accept-void", "--out"]).arg(scratch.path());
    sets.iter().for_each(|set| {
        run.args(["--set", set]);
    });
    let shown = succeed(&mut run);
    assert!(shown.contains("access.log"), "{shown}");
    let measured = trials(&run_directory(&scratch));
    assert_eq!(measured.len(), 2 * (2 + 3), "direct twice in each round");
    for trial in measured {
        let (who, record) = (&trial["contender"], &trial["load_record"]);
        let counts = &record["counts"];
        assert_eq!(counts["completed"], counts["ok"], "{who}: {counts}");
        let found = by_target(record);
        let all = found.values().sum::<u64>() as f64;
        for (name, target) in names {
            let expected = sent[name] as f64 / REQUESTS as f64;
            let share = found[target] as f64 / all;
            // Five standard deviations of a count.
            let bound = 5.0 * (expected * (1.0 - expected) / all).sqrt();
            assert!((share - expected).abs() < bound, "{who}: {target} has {share}, not {expected}");
        }
        let missing = counts["status"]["404"].as_u64().expect("some") as f64 / all;
        assert!((0.03..0.08).contains(&missing), "{who}: only /gone answers 404: {counts}");
    }
}

#[test]
fn inputs_that_cannot_be_imported_are_refused() {
    let scratch = Scratch::new();
    let empty = scratch.file("empty", "").display().to_string();
    let prose = scratch.file("prose", "this is\nnot a log\n").display().to_string();
    let har = scratch.file("x.har", "{\"log\": {").display().to_string();
    let line = "::1 - - [27/Nov/2026:20:25:44 +0000] \"GET / HTTP/1.1\" 200 5\n";
    let log = scratch.file("log", line).display().to_string();
    let there = scratch.file("there.yaml", "").display().to_string();
    let place = scratch.path().display().to_string();
    let lines = [
        &[empty.as_str()][..],
        &["/no/such/file"],
        &["/tmp"],
        &[prose.as_str()],
        &[har.as_str()],
        &[log.as_str(), &har],
        &[log.as_str(), "--format", "$status"],
        &[log.as_str(), "--format", "squid"],
        &[log.as_str(), "--scale", "0"],
        &[log.as_str(), "--host", "other.test"],
        &[log.as_str(), "-o", &there],
    ];
    insta::assert_snapshot!(refusals(&["import"], &lines).replace(&place, "PLACE"));
}

#[test]
fn the_upstream_answers_by_path() {
    let upstream = crate::load::Upstream::start(&[
        "--body",
        "7B",
        "--answer",
        r#"{ path: "/users/*", body: "choice(50% 10B, 50% 100KiB)" }"#,
        "--answer",
        "{ method: POST, path: /orders, status: 201, body: 2B }",
    ]);
    for (path, expected) in [("/users/1", [10_u64, 102_400].as_slice()), ("/other", &[7]), ("/orders", &[7])]
    {
        let record = json(hoptax().args([
            "load",
            &format!("{}{path}", upstream.url().trim_end_matches('/')),
            "-n",
            "200",
            "-c",
            "2",
            "--json",
        ]));
        assert_eq!(record["counts"]["ok"], 200, "{path}: {record}");
        let mean = record["bytes"]["per_response"].as_f64().expect("a number");
        let (least, most) = (expected[0] as f64, expected[expected.len() - 1] as f64);
        let heads = 200.0;
        assert!((least..most + heads).contains(&mean), "{path}: {mean}");
        if expected.len() == 2 {
            assert!((mean / ((least + most) / 2.0) - 1.0).abs() < 0.3, "{path}: {mean}");
        }
    }
    insta::assert_snapshot!(refusals(&["upstream"], &[&["--answer", "{ path: users }"]]));
}

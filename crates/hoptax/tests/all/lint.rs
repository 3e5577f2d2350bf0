//! `hoptax lint`, on the packs of the project and on packs with something planted: the real gateways, started for real.

use crate::support::planted_pack::{argument, packs};
use crate::support::{Json, Scratch, eventually, hoptax};
use crate::world::is_missing;

/// Runs it on a planted pack; gives the exit code and the report.
fn lint(plants: &[(&str, &str)]) -> (Option<i32>, Json) {
    let packs = packs(plants);
    let output =
        hoptax().args(["lint", "planted", "--json", "--packs", argument(&packs)]).output().expect("it runs");
    let reports: Json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), reports[0].clone())
}

/// The checks that found something.
fn found(report: &Json) -> Vec<&str> {
    let checks = report["checks"].as_array().expect("a list");
    let bad = checks
        .iter()
        .filter(|check| !["ok", "not looked at"].contains(&check["verdict"].as_str().expect("a word")));
    bad.map(|check| check["check"].as_str().expect("a name")).collect()
}

/// That what was planted is found, with advice, and nothing else.
fn is_found(plants: &[(&str, &str)], expected: &[&str]) {
    if is_missing("nginx") {
        return;
    }
    let (code, report) = lint(plants);
    is_told(code, &report, expected);
}

fn is_told(code: Option<i32>, report: &Json, expected: &[&str]) {
    assert_eq!(found(report), expected, "{report:#}");
    assert_eq!((code, &report["equalised"]), (Some(3), &false.into()), "{report:#}");
    for check in report["checks"].as_array().expect("a list") {
        let is_bad = expected.contains(&check["check"].as_str().expect("a name"));
        assert_eq!(check["advice"].as_str().is_some_and(|advice| !advice.is_empty()), is_bad, "{check}");
        assert!(check["evidence"].as_str().is_some_and(|evidence| !evidence.is_empty()), "{check}");
    }
}

/// That a pack of the project is equalised, as its table says.
fn is_equalised(pack: &str) {
    if is_missing(pack) {
        return;
    }
    let output = hoptax().args(["lint", pack]).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.starts_with(pack) && told.contains(": equalised"), "{told}");
    assert!(!told.contains("help:"), "{told}");
}

#[test]
fn the_packs_of_the_project_are_equalised() {
    for pack in ["nginx", "haproxy", "envoy"] {
        is_equalised(pack);
    }
}

#[test]
fn a_pack_that_ignores_the_worker_count_is_found() {
    if is_missing("nginx") {
        return;
    }
    // Others may leave it too little of the CPUs.
    let same = [("worker_processes {{ workers }}", "worker_processes 1")];
    let (code, report) = eventually(|| conclusive(&same));
    is_told(code, &report, &["workers"]);
}

#[test]
fn a_pack_with_more_at_work_than_workers_is_found() {
    if is_missing("nginx") {
        return;
    }
    // Three more, so that it wants several CPUs even while others take most of them.
    let more = [("worker_processes {{ workers }}", "worker_processes {{ workers + 3 }}")];
    let (code, report) = eventually(|| conclusive(&more));
    is_told(code, &report, &["workers"]);
}

/// Looks at a planted pack; fails where the check of the workers could not be made.
fn conclusive(plants: &[(&str, &str)]) -> Result<(Option<i32>, Json), String> {
    let (code, report) = lint(plants);
    let workers = workers(&report);
    if workers["verdict"] != "not looked at" {
        return Ok((code, report));
    }
    // Said where it was not kept busy or had no CPU left, and nowhere else.
    let (used, idle) = (cpus(workers, " CPUs used"), cpus(workers, " left idle"));
    assert!(used <= 1.25 && (used < 0.8 || idle < 0.2), "{workers}");
    Err(workers.to_string())
}

fn workers(report: &Json) -> &Json {
    let checks = report["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["check"] == "workers").expect("looked at")
}

/// The first number of the evidence in front of `words`.
fn cpus(check: &Json, words: &str) -> f64 {
    let evidence = check["evidence"].as_str().expect("text");
    let number = evidence.split(words).next().and_then(|text| text.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number before `{words}`: {evidence}"))
}

/// Threads without number, on as many CPUs as the plan has workers.
#[test]
fn gateways_with_a_thread_for_each_connection_are_held_to_cpus() {
    for pack in ["varnish", "apache"] {
        is_equalised(pack);
    }
}

/// Three faults that have nothing to do with each other, in one pack.
#[test]
fn a_pack_without_a_pool_that_always_logs_and_closes_clients_connections_is_found() {
    let always =
        ("access_log {{ access_log or \"off\" }};", "access_log {{ access_log or (dir ~ '/always.log') }};");
    let plants = [
        ("keepalive {{ [connections, 32] | max }};", ""),
        always,
        ("keepalive_requests 1000000000;\n    {%- if", "keepalive_timeout 0;\n    {%- if"),
    ];
    is_found(&plants, &["upstream connections", "client connections", "access log off"]);
}

/// nginx keeps no connection on which it speaks HTTP/1.0.
#[test]
fn a_pack_that_never_logs_and_speaks_http_1_0_to_the_upstream_is_found() {
    let plants = [
        ("access_log {{ access_log or \"off\" }};", "access_log off;"),
        ("proxy_http_version 1.1;", "proxy_http_version 1.0;"),
    ];
    is_found(&plants, &["upstream connections", "upstream HTTP version", "access log on"]);
}

#[test]
fn requests_that_nobody_made_are_found() {
    let mirrored = (
        "location / {",
        "location = /mirror { internal; proxy_pass http://upstreams$request_uri; proxy_http_version 1.1; \
         proxy_set_header Connection \"\"; }\n        location / {\n            mirror /mirror;",
    );
    // nginx does not read what a mirror answers, so that those connections are not used again.
    is_found(&[mirrored], &["upstream connections", "extra requests"]);
}

#[test]
fn a_pack_that_leaves_the_foreground_is_found() {
    if is_missing("nginx") {
        return;
    }
    let (code, report) = lint(&[("daemon off;", "daemon on;")]);
    assert_eq!((code, found(&report)), (Some(3), vec!["start"]), "{report:#}");
    let evidence = report["checks"][0]["evidence"].as_str().expect("text");
    // Whether it was ready before its guard had seen it leave is chance.
    assert!(evidence.contains("exited with code 0"), "{evidence}");
    assert!(evidence.contains("planted/gateway.yaml:7"), "{evidence}");
}

#[test]
fn what_is_kept_is_kept_and_what_cannot_be_looked_at_is_told() {
    if is_missing("nginx") {
        return;
    }
    let scratch = Scratch::new();
    let packs = packs(&[]);
    let kept = scratch.path().join("kept");
    let output = hoptax()
        .args(["lint", "planted", "--packs", argument(&packs), "--keep"])
        .arg(&kept)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(kept.join("planted-1/rendered/planted/nginx.conf").is_file());
    assert!(kept.join("planted-1-logged/logs/planted/access.log").is_file());

    let unknown = hoptax().args(["lint", "nginks"]).output().expect("it runs");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no pack `nginks`"));
}

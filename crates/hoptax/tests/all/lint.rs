//! `hoptax lint` with real gateways: the project's packs, and packs with planted faults.

use crate::support::planted_pack::{argument, change, packs, with_tls_alone};
use crate::support::refusals::refused;
use crate::support::{Json, Scratch, hoptax, retry_if_disturbed, succeed};
use crate::world::is_missing;
use std::process::Command;

/// Checks the settings of a planted pack. Returns the exit code and the report.
fn lint(plants: &[(&str, &str)]) -> (Option<i32>, Json) {
    let packs = packs(plants);
    let output = hoptax()
        .args(["lint", "planted", "--settings", "--json", "--packs", argument(&packs)])
        .output()
        .expect("it runs");
    let reports: Json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), reports[0].clone())
}

fn found(report: &Json) -> Vec<&str> {
    let checks = report["checks"].as_array().expect("a list");
    let bad = checks
        .iter()
        .filter(|check| !["ok", "not looked at"].contains(&check["verdict"].as_str().expect("a word")));
    bad.map(|check| check["check"].as_str().expect("a name")).collect()
}

/// Asserts that exactly the expected checks fail, and that each of them gives advice.
fn assert_reported(code: Option<i32>, report: &Json, expected: &[&str]) {
    assert_eq!(found(report), expected, "{report:#}");
    assert_eq!((code, &report["equalised"]), (Some(3), &false.into()), "{report:#}");
    for check in report["checks"].as_array().expect("a list") {
        let is_bad = expected.contains(&check["check"].as_str().expect("a name"));
        assert_eq!(check["advice"].as_str().is_some_and(|advice| !advice.is_empty()), is_bad, "{check}");
        assert!(check["evidence"].as_str().is_some_and(|evidence| !evidence.is_empty()), "{check}");
    }
}

/// Asserts that this `hoptax lint` prints that a pack of the project is equalised, without advice. Returns
/// what it prints.
fn equalised(pack: &str, command: &mut Command) -> String {
    let reported = succeed(command);
    assert!(reported.starts_with(pack) && reported.contains(": equalised"), "{reported}");
    assert!(!reported.contains("help:"), "{reported}");
    reported
}

/// Asserts that the settings of a pack of the project are equalised.
fn assert_equalised(pack: &str) {
    needs!(pack);
    let reported = equalised(pack, hoptax().args(["lint", pack, "--settings"]));
    assert!(!reported.contains(" cases, "), "{reported}");
}

#[test]
fn the_packs_of_the_project_are_equalised() {
    for pack in ["haproxy", "envoy"] {
        assert_equalised(pack);
    }
}

/// `conformance` compares the answers of every installed gateway, so this compares those of nginx only.
#[test]
fn nginx_is_equalised_and_its_files_are_kept() {
    needs!("nginx");
    let scratch = Scratch::new();
    let kept = scratch.path().join("kept");
    let reported =
        equalised("nginx", hoptax().current_dir(scratch.path()).args(["lint", "nginx", "--keep", "kept"]));
    assert!(reported.contains(": 22 cases, "), "the answers follow: {reported}");
    assert_eq!(reported.matches("access.log").count(), 1, "a log's bytes count once: {reported}");
    assert!(kept.join("nginx-1/rendered/nginx/nginx.conf").is_file());
    assert!(kept.join("nginx-1-logged/logs/nginx/access.log").is_file());
    let again = hoptax().args(["lint", "nginx", "--keep"]).arg(&kept).output();
    let again = again.expect("it runs");
    assert_eq!(
        (again.status.code(), again.stdout.len()),
        (Some(2), 0),
        "old logs are not mixed with new logs"
    );
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"), "{again:?}");
}

#[test]
fn the_packs_of_the_project_are_equalised_over_http2() {
    for pack in ["nginx", "haproxy", "envoy"] {
        if is_missing(pack) {
            continue;
        }
        let output = hoptax().args(["lint", pack, "--settings", "--http", "2"]).output().expect("it runs");
        let reported = String::from_utf8_lossy(&output.stdout);
        let code = output.status.code();
        assert_eq!(code, Some(0), "{reported}{}", String::from_utf8_lossy(&output.stderr));
        assert!(reported.contains(" over HTTP/2: equalised"), "{reported}");
    }
}

#[test]
fn packs_are_equalised_with_http2_to_the_upstream() {
    for (pack, clients, heading) in
        [("haproxy", "2", " over HTTP/2 on both legs"), ("envoy", "1.1", " with HTTP/2 to the upstream")]
    {
        if is_missing(pack) {
            continue;
        }
        let arguments = ["lint", pack, "--settings", "--http", clients, "--upstream-http", "2"];
        let output = hoptax().args(arguments).output().expect("it runs");
        let reported = String::from_utf8_lossy(&output.stdout);
        let code = output.status.code();
        assert_eq!(code, Some(0), "{reported}{}", String::from_utf8_lossy(&output.stderr));
        assert!(reported.contains(&format!("{heading}: equalised")), "{reported}");
        assert!(reported.contains("HTTP/2 ×") && !reported.contains("HTTP/1.1 ×"), "{reported}");
    }
}

/// nginx's port speaks nothing but HTTP/2, and answers readiness there. nginx drops trailers.
#[test]
fn a_gateway_that_drops_trailers_is_found_over_http2() {
    needs!("nginx");
    let packs = packs(&[
        ("listen 127.0.0.1:{{ port }};", "listen 127.0.0.1:{{ port }}{% if http2 %} http2{% endif %};"),
        ("        location / {", "        location = /up { return 200; }\n        location / {"),
    ]);
    change(&packs, "gateway.yaml", "ready: { path: /ready, port: admin }", "ready: { path: /up }");
    let error = refused(hoptax().args(["lint", "planted", "--http", "2", "--packs", argument(&packs)]));
    assert!(error.contains("`planted`"), "{error}");

    change(&packs, "gateway.yaml", "access_log: file\n", "access_log: file\nhttp2: exclusive\n");
    let arguments = ["lint", "planted", "--answers", "--http", "2", "--packs", argument(&packs)];
    let output = hoptax().args(arguments).arg("--json").output().expect("it runs");
    let reports: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let report = &reports[0];
    assert_eq!((output.status.code(), report["http"].as_str()), (Some(3), Some("2")), "{report:#}");
    let answers = &report["answers"];
    assert_eq!(answers["cases"], 36, "{report:#}");
    let what = |case: &str| {
        let differences = answers["differences"].as_array().expect("a list");
        differences.iter().find(|one| one["case"] == case).map(|one| one["what"].clone())
    };
    let lost = "the trailer `x-hoptax-trailer` is missing";
    assert_eq!(what("response-trailers"), Some(lost.into()), "{report:#}");
    for case in ["get", "post-1m", "body-1m", "slow", "ping", "window-grows", "goaway-client"] {
        assert_eq!(what(case), None, "{report:#}");
    }
    let left_out: Vec<&Json> =
        answers["left_out"].as_array().expect("a list").iter().map(|one| &one["case"]).collect();
    assert_eq!(left_out, ["post-chunked-1k", "post-chunked-1m"], "{report:#}");
}

#[test]
fn cases_that_http2_does_not_have_are_named() {
    needs!("haproxy");
    let text = succeed(hoptax().args(["lint", "haproxy", "--answers", "--http", "2"]));
    assert!(text.contains(" over HTTP/2: 36 cases, "), "{text}");
    assert!(text.contains("  post-chunked-1k: "), "{text}");
}

/// nginx does not reuse HTTP/1.0 connections to the upstream. It ignores the answer to a mirrored request and
/// does not reuse the connection of that request.
#[test]
fn a_pack_with_more_workers_mirrors_http_1_0_and_no_log_is_found() {
    needs!("nginx");
    let mirror = "location = /mirror { internal; proxy_pass http://upstreams$request_uri; } \
         location / {\n            mirror /mirror;";
    let plants = [
        // Three additional workers, so that the gateway uses several CPUs even on a busy machine.
        ("worker_processes {{ workers }}", "worker_processes {{ workers + 3 }}"),
        ("location / {", mirror),
        ("proxy_http_version 1.1;", "proxy_http_version 1.0;"),
        ("access_log {{ access_log or \"off\" }};", "access_log off;"),
    ];
    let (code, report) = retry_if_disturbed(|| conclusive(&plants));
    let expected =
        ["workers", "upstream connections", "upstream HTTP version", "extra requests", "access log on"];
    assert_reported(code, &report, &expected);
}

#[test]
fn a_pack_with_too_few_workers_no_pool_closed_connections_and_a_log_is_found() {
    needs!("nginx");
    let plants = [
        ("worker_processes {{ workers }}", "worker_processes 1"),
        ("keepalive {{ [connections, 32] | max }};", ""),
        ("keepalive_requests 1000000000;\n    {%- if", "keepalive_timeout 0;\n    {%- if"),
        ("access_log {{ access_log or \"off\" }};", "access_log {{ access_log or (dir ~ '/always.log') }};"),
    ];
    // Retries the check, because other processes may leave the gateway too little CPU time.
    let (code, report) = retry_if_disturbed(|| conclusive(&plants));
    let expected = ["workers", "upstream connections", "client connections", "access log off"];
    assert_reported(code, &report, &expected);
}

/// Lints a planted pack. Fails if the check `workers` was inconclusive.
fn conclusive(plants: &[(&str, &str)]) -> Result<(Option<i32>, Json), String> {
    let (code, report) = lint(plants);
    let workers = workers(&report);
    if workers["verdict"] != "not looked at" {
        return Ok((code, report));
    }
    // The check may be inconclusive only if the gateway was not fully loaded, or if no CPU was idle.
    let (used, idle) = (cpus(workers, " CPUs used"), cpus(workers, " left idle"));
    assert!(used <= 1.25 && (used < 0.8 || idle < 0.2), "{workers}");
    Err(workers.to_string())
}

fn workers(report: &Json) -> &Json {
    let checks = report["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["check"] == "workers").expect("looked at")
}

/// The number before `words` in the evidence.
fn cpus(check: &Json, words: &str) -> f64 {
    let evidence = check["evidence"].as_str().expect("text");
    let number = evidence.split(words).next().and_then(|text| text.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number before `{words}`: {evidence}"))
}

/// A gateway with many threads must be limited to n CPUs if the plan has n workers.
#[test]
fn gateways_with_a_thread_per_connection_are_limited_to_cpus() {
    for pack in ["varnish", "apache"] {
        assert_equalised(pack);
    }
}

#[test]
fn a_gateway_that_accepts_tls_alone_is_asked_over_tls() {
    needs!("nginx");
    let packs = with_tls_alone();
    let output =
        hoptax().args(["lint", "planted", "--json", "--packs", argument(&packs)]).output().expect("it runs");
    let reports: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    // The check `workers` depends on the machine.
    let found: Vec<_> = found(&reports[0]).into_iter().filter(|check| *check != "workers").collect();
    assert!(found.is_empty(), "{found:?}: {reports:#}");
    let checks = reports[0]["checks"].as_array().expect("a list").len();
    assert!(checks > 5, "it started: {reports:#}");

    let answers = &reports[0]["answers"];
    assert_eq!(answers["cases"], 22, "{reports:#}");
    let differences = answers["differences"].as_array().expect("a list");
    for case in ["get", "post-1m", "body-1m", "slow"] {
        assert!(!differences.iter().any(|one| one["case"] == case), "{reports:#}");
    }
}

#[test]
fn a_pack_that_leaves_the_foreground_is_found() {
    needs!("nginx");
    let (code, report) = lint(&[("daemon off;", "daemon on;")]);
    assert_eq!((code, found(&report)), (Some(3), vec!["start"]), "{report:#}");
    let evidence = report["checks"][0]["evidence"].as_str().expect("text");
    // The gateway may count as ready before its guard notices that the first process has exited.
    assert!(evidence.contains("exited with code 0"), "{evidence}");
    assert!(evidence.contains("planted/gateway.yaml:7"), "{evidence}");
}

#[test]
fn a_gateway_that_dies_at_the_start_is_reported_with_its_log_and_version() {
    let packs = crate::packs::scripted("echo {{ port }}: no such thing >&2\nexit 2\n", "60s");
    let lint = |more: &[&str]| {
        let output = hoptax().args(["lint", "wrong", "--packs", argument(&packs)]).args(more).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let reported = lint(&[]);
    assert!(reported.starts_with("wrong 1.0: not equalised"), "{reported}");
    assert!(reported.contains("exited with code 2") && reported.contains(": no such thing\n"), "{reported}");
    let reports: Json = serde_json::from_str(&lint(&["--json"])).expect("JSON");
    assert!(reports[0]["log"].as_str().is_some_and(|log| log.contains(": no such thing")), "{reports:#}");
}

/// Compares the answers of the planted pack. Returns the exit code and the report.
fn answers(packs: &tempfile::TempDir) -> (Option<i32>, Json) {
    let output =
        hoptax().args(["lint", "planted", "--answers", "--json", "--packs", argument(packs)]).output();
    let output = output.expect("it runs");
    let reports: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), reports[0].clone())
}

#[test]
fn a_pack_must_list_how_its_answers_differ() {
    needs!("nginx");
    let packs = packs(&[]);
    let (code, report) = answers(&packs);
    assert_eq!((code, &report["answers"]["as_listed"]), (Some(3), &false.into()), "{report:#}");
    assert_eq!((&report["checks"], &report["answers"]["cases"]), (&Json::Null, &22.into()), "{report:#}");
    let differences = report["answers"]["differences"].as_array().expect("a list");
    assert!(differences.iter().any(|one| one["case"] == "close" && one["reason"].is_null()), "{report:#}");
    let listed = differences
        .iter()
        .map(|one| format!("  - {{ case: {}, what: {}, reason: it is nginx }}\n", one["case"], one["what"]));
    let listed = listed.collect::<String>();
    change(&packs, "gateway.yaml", "settings:\n", &format!("differences:\n{listed}settings:\n"));
    let (code, report) = answers(&packs);
    assert_eq!((code, &report["answers"]["as_listed"]), (Some(0), &true.into()), "{report:#}");
    let reasons = report["answers"]["differences"].as_array().expect("a list").iter();
    assert!(reasons.map(|one| &one["reason"]).all(|reason| reason == "it is nginx"), "{report:#}");

    let unseen = "differences:\n  - { case: get, what: no whole answer, reason: none }\n";
    change(&packs, "gateway.yaml", "differences:\n", unseen);
    let (code, report) = answers(&packs);
    let mismatches = report["answers"]["mismatches"].as_array().expect("a list");
    assert_eq!((code, mismatches.len()), (Some(3), 1), "{report:#}");
    assert!(mismatches[0].as_str().is_some_and(|text| text.starts_with("get: ")), "{report:#}");
}

/// nginx forwards only paths with the prefix, and removes it.
#[test]
fn requests_to_models_have_the_prefix_of_the_pack() {
    needs!("nginx");
    let packs = packs(&[
        ("location / {", "location /openai/ { proxy_buffering off; client_max_body_size 0;"),
        ("proxy_pass http://upstreams;", "proxy_pass http://upstreams/;"),
    ]);
    change(&packs, "gateway.yaml", "settings:\n", "llm: { apis: [openai], prefix: /openai }\nsettings:\n");
    let reported = succeed(hoptax().args(["lint", "planted", "--llm", "--packs", argument(&packs)]));
    assert!(reported.contains(": 31 cases, 31 same as direct"), "{reported}");
}

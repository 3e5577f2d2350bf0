//! Wrong plans, and their error messages.

use super::*;

/// A wrong type or an unknown key must not hide mistakes in other parts, and must not cause errors where
/// there is no mistake.
#[test]
fn all_mistakes_are_shown_at_once() {
    let lines = |text: &str| -> Vec<(u32, String)> {
        let errors = parsed(text, &[]).expect_err("must be refused").0;
        errors.into_iter().map(|error| (error.line, error.message)).collect()
    };
    let text = "gateways: [ngnix, { name: nginx, worker: 1 }]\nload:\n  - { loop: closed, conections: 1 }\n  - { loop: open, rate: 5, connections: 1 }\ntimeout: 3\ntrial: 4\npause: 1\nbudget: [{ gateway: nginx, metric: p50, max: 1ms }]\n";
    let found = lines(text);
    let places: Vec<u32> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(places, [1, 1, 3, 4, 5, 6, 7], "{found:?}");
    // Several mistakes in one entry, and a mistake in the value of a mistyped key whose meaning is clear.
    let text = "gateways: [ngnix]\nload:\n  - { loop: closed, conections: 0,\n      duration: 10 }\n  - { \
                loop: closed, connections: 1,\n      durration: 10, speed: 3 }\ntime: 5 minutes\nisolate: \
                3\ntarget: { method: [GET], paths: x }\n";
    let found = lines(text);
    let places: Vec<u32> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(places, [1, 3, 6, 6, 7, 8, 9, 9], "{found:?}");
    // All of `gateways` is unusable, so no other errors are reported.
    assert_eq!(lines("gateways: 3\nload: [{ loop: closed, connections: 1 }]\ntimeout: 3\n").len(), 1);
    let both =
        parsed("gateways: [nginx]\nload: [{ loop: closed, connections: 1 }]\ntimeout: 3\n", &["trials=x"]);
    assert_eq!(both.expect_err("must be refused").0.len(), 2);
}

#[test]
fn errors_look_like_those_of_a_compiler() {
    let told = refusals(
        &[
            "gateways: [nginx]\nload:\n  - { loop: closed, conections: 1 }\n",
            "gateways: [ngnix]\nload: [{ loop: closed, connections: 1 }]\ntimeout: 3\n",
            "gateways: []\nload:\n  - { loop: closed, connections: \"1\" }\n",
        ],
        |text| parsed(text, &[]).expect_err(text).to_string(),
    );
    insta::assert_snapshot!(told);
    insta::assert_snapshot!(parsed(SMALLEST, &["trials=1", "load.0.duration=5"]).unwrap_err());
}

/// Lists the errors in `text`.
pub(super) fn mistake(text: &str) -> String {
    listed(parsed(text, &[]).expect_err(text))
}

/// These errors, each on its own line, as `line:column message; help`.
pub(super) fn listed(PlanErrors(errors): PlanErrors) -> String {
    errors
        .iter()
        .map(|error| format!("{}:{} {}; {}", error.line, error.column, error.message, error.help))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn types_and_shapes() {
    let told = refusals(
        &[
            "",
            "- a\n",
            "gateways: [nginx]\n",
            "load: [{ loop: closed, connections: 1 }]\n",
            "gateways: nginx\nload: []\n",
            "gateways: []\nload: [{ loop: closed }]\n",
            "gateways: []\nload: []\n",
            "gateways: []\nload: [{ loop: closd, connections: 1 }]\n",
            "gateways: []\nload: [{ loop: closed, connections: lots }]\n",
            "gateways: []\nload: [{ loop: closed, connections: -1 }]\n",
            "gateways: []\nload: [{ loop: closed, connections: \"1\" }]\n",
            "gateways: []\nload: [{ loop: closed, connections: [] }]\n",
            &format!("{SMALLEST}restarts: 101\n"),
            &format!("{SMALLEST}isolate: true\nrestarts: 3\n"),
            &format!("{SMALLEST}isolate: yes\n"),
            &format!("{SMALLEST}profile: equalized\n"),
            &format!("{SMALLEST}name: [a]\n"),
            &format!("{SMALLEST}target: {{ headers: [a] }}\n"),
        ],
        mistake,
    );
    insta::assert_snapshot!(told);
}

#[test]
fn delays_of_hops() {
    let told = refusals(
        &[
            "{ name: nginx, delay: { in: 2ms } }",
            "{ name: hop-l4, delay: { in: 2ms } }",
            "{ name: hop-l7, delay: { share: 1% } }",
            "{ name: hop-l7, delay: { in: 2ms, share: 0% } }",
            "{ name: hop-l7, delay: { out: 2m } }",
            "{ name: hop-l7, delay: { in: 2ms, how: doze } }",
            "{ name: hop-h2, delay: { message: 2m } }",
            "{ name: hop-l7, delay: { message: 1ms } }",
        ],
        |gateway| {
            mistake(&format!(
                "gateways: [{gateway}]\nload: [{{ loop: closed, connections: 1, duration: 1s }}]\n"
            ))
        },
    );
    insta::assert_snapshot!(told);
}

#[test]
fn faults_of_hops() {
    let told = refusals(
        &[
            "{ name: hop-l4, faults: { drop: 1% } }",
            "{ name: hop-h2, faults: { cut: 1s } }",
            "{ name: hop-h2, upstream_http: 1.1, faults: { drop: 1% } }",
            "{ name: hop-h2, faults: { drop: 2 } }",
            "{ name: hop-h2, faults: { drop: 0% } }",
            "{ name: hop-h2, faults: { hold: 2m } }",
            "{ name: hop-h2, faults: { deadline: 0s } }",
            "{ name: hop-h2, faults: { deadline: lose } }",
            "{ name: hop-h2, faults: { repeat: 200% } }",
        ],
        |gateway| {
            mistake(&format!(
                "gateways: [{gateway}]\nload: [{{ loop: closed, connections: 1, http: 2, duration: 1s }}]\n"
            ))
        },
    );
    insta::assert_snapshot!(told);
}

#[test]
fn faults_in_event_streams_and_websockets() {
    let load = "load: [{ loop: closed, connections: 1, duration: 1s }]";
    let told = refusals(
        &[
            "deadline: drop",
            "bunch: 1",
            "bunch: 0",
            "refuse: 200%",
            "cut: 2m",
            "deflate: keep",
            "merge: 0%",
            "false_end: false",
            "hold_first: 2m",
            "retry: 101",
        ],
        |faults| mistake(&format!("gateways: [{{ name: hop-l7, faults: {{ {faults} }} }}]\n{load}\n")),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn warm_ups_of_hops() {
    let told = refusals(
        &[
            "{ name: nginx, warming: { requests: 9, extra: 1ms } }",
            "{ name: hop-l4, warming: { requests: 9, extra: 1ms } }",
            "{ name: hop-l7, warming: { requests: 9 } }",
            "{ name: hop-l7, warming: { extra: 1ms } }",
            "{ name: hop-l7, warming: { requests: 0, extra: 1ms } }",
            "{ name: hop-l7, warming: { requests: 1000000001, extra: 1ms } }",
            "{ name: hop-l7, warming: { requests: 9, extra: 999ns } }",
            "{ name: hop-l7, warming: { requests: 9, extra: 1.1s } }",
            "{ name: hop-l7, warming: { requests: 9, extra: 5 } }",
            "{ name: hop-l7, warming: { requests: 9, extra: 1ms, fall: sudden } }",
            "{ name: hop-l7, warming: { requests: 9, extra: 1ms, share: 1% } }",
        ],
        |gateway| {
            mistake(&format!(
                "gateways: [{gateway}]\nload: [{{ loop: closed, connections: 1, duration: 1s }}]\n"
            ))
        },
    );
    insta::assert_snapshot!(told);
}

#[test]
fn upstream_and_target() {
    let told = refusals(
        &[
            "upstream: { instances: 0 }",
            "upstream: { status: 101 }",
            "upstream: { status: 204, body: 1KiB }",
            "upstream: { body: 1024 }",
            "upstream: { body: 2GiB }",
            "upstream: { body: { text: a, kind: json } }",
            "upstream: { body: { text: a, size: 1B } }",
            "upstream: { body: { file: nothing.json } }",
            "upstream: { delay: soon }",
            "upstream: { delay: uniform(1ms, 5ms) }",
            "upstream: { grpc_status: fine }",
            "upstream: { failures: 2 }",
            "upstream: { port: 65535, instances: 2 }",
            "upstream: { port: 0 }",
            "upstream: { port: 70000 }",
            "upstream: { url: localhost }",
            "upstream: { url: \"http://localhost\", delay: 1ms }",
            "upstream: { delay: 3s }",
            "timeout: 0s",
            "target: { method: get }",
            "target: { method: CONNECT }",
            "target: { method: \"G T\" }",
            "target: { path: api }",
            "target: { path: \"http://h/api\" }",
            "target: { path: \"/a b\" }",
            "target: { headers: { \"a b\": c } }",
            "target: { headers: { a: b, A: c } }",
            "target: { headers: { a: \"b\\r\\nc\" } }",
            "target: { headers: { a: \" b\" } }",
            "target: { headers: { Content-Length: 3 } }",
            "name: ../x",
            "trials: 20000",
            "trials: 0",
            "trials: many",
            "trials: { within: 0% }",
            "trials: { at_most: 0s }",
            "trials: { at_most: 10 }",
            "trials: { least: 1 }",
            "trials: { least: 9, most: 3 }",
            "cpus: all",
            "cpus: { gateway: \"1-3\" }",
            "cpus: { gateway: x }",
        ],
        |line| mistake(&format!("{line}\n{SMALLEST}")),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn gateways() {
    let told = refusals(
        &[
            "kong",
            "hop_l4",
            "nginx, nginx",
            "direct",
            "{ name: nginx, label: direct }",
            "{ name: nginx, label: a/b }",
            "{ name: nginx, label: .. }",
            "{ name: nginx, workers: 0 }",
            "{ name: nginx, features: [keyauth] }",
            "{ name: nginx, features: [tls] }",
            "{ name: haproxy, features: [tls] }",
            "{ name: nginx, features: [key-auth, key-auth] }",
            "{ name: nginx, features: every }",
            "{ name: nginx, features: [{}] }",
            "{ name: nginx, features: [{ rate-limit: 0.5/s }] }",
            "{ name: nginx, features: [{ ask: last }] }",
            "{ name: nginx, features: [{ rate-limit: 5/s, routes: 3 }] }",
            "{ name: haproxy, features: each }",
            "{ name: nginx, pid: 1 }",
            "{ name: hop-l4, workers: 2 }",
            "{ name: hop-l7, features: [tls] }",
            "external",
            "{ name: external, url: \"http://x\", insecure: true }",
            "{ name: external, url: \"ftp://x\" }",
            "{ name: external, url: \"http://x\", workers: 2 }",
            "{ name: external, url: \"http://x\", pid: 0 }",
        ],
        |list| mistake(&format!("gateways: [{list}]\nload: [{{ loop: closed, connections: 1 }}]\n")),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn load_points() {
    let told = refusals(
        &[
            "loop: closed, connections: 0",
            "loop: closed, connections: 1, rate: 5/s",
            "loop: closed, connections: 1, arrivals: poisson",
            "loop: [closed, open], connections: 1, rate: 5/s",
            "loop: open, connections: 1",
            "loop: open, connections: 1, rate: 1000",
            "loop: open, connections: 1, rate: 1/h",
            "loop: open, connections: 1, rate: 9999999999/s",
            "loop: open, connections: 1, rate: 5/s, arrivals: bursts",
            "loop: closed, connections: 1, duration: 0s",
            "loop: closed, connections: 1, requests: 5",
            "loop: closed, connections: 1, requests: 0, duration: 1s",
            "loop: closed, connections: [1, 2, 1]",
        ],
        |entry| mistake(&format!("gateways: []\nload: [{{ {entry} }}]\n")),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn a_sweep_of_sweeps_is_bounded() {
    let many = (1..=1001).map(|count| count.to_string()).collect::<Vec<_>>().join(", ");
    insta::assert_snapshot!(mistake(&format!(
        "gateways: []\nload: [{{ loop: closed, connections: [{many}], requests: [{many}], duration: 1s }}]\n"
    )));
}

#[test]
fn a_rate_needs_connections_by_littles_law() {
    let plan = |delay: &str, load: &str| {
        format!("upstream: {{ delay: \"{delay}\" }}\ngateways: []\nload:\n  - {{ loop: open, {load} }}\n")
    };
    let texts = [
        plan("100ms", "rate: 1000/s, connections: [2, 100]"),
        plan("exponential(10ms)", "rate: [1/s, 101/s], connections: 1"),
        plan("choice(90% 0ms, 10% 100ms)", "rate: 200/s, connections: 1"),
    ];
    insta::assert_snapshot!(texts.map(|text| refusal(&text, &mistake(&text))).concat());
    good(&plan("100ms", "rate: 1000/s, connections: 100"));
    good(&plan("uniform(0ms, 20ms)", "rate: 100/s, connections: 1"));
}

#[test]
fn budgets() {
    let told = refusals(
        &[
            "{ metric: added_p99 }",
            "{ metric: added_p98, max: 1ms }",
            "{ metric: added_p99, max: 1 }",
            "{ metric: added_p99, max: 1ms, min: 2ms }",
            "{ gateway: ngnix, metric: added_p99, max: 1ms }",
            "{ metric: error_share, max: 1% }, { metric: error_share, max: 2% }",
            "{ metric: added_p99 , maximum: 1ms }",
            "{ metric: p50, max: +10% }",
            "{ metric: p50, max: +10%, against: ngnix }",
            "{ metric: p50, max: 1ms, against: direct }",
            "{ metric: p50, max: +10ms, against: direct }",
            "{ metric: error_share, max: +10%, against: direct }",
            "{ metric: p50, max: -20%, min: -10%, against: direct }",
            "{ metric: p50, max: 1ms, load: { connections: 4711 } }",
            "{ metric: p50, max: 1ms, load: { loops: open } }",
        ],
        |entry| mistake(&format!("{SMALLEST}budget: [{entry}]\n")),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn all_errors_are_reported_in_the_order_of_lines() {
    let shown = mistake(
        "trials: 0\ngateways: [ngnix, kong]\nload: [{ loop: open, connections: 0 }]\ntimeout: soon\nbudget: \
        [{ metric: added_p50 }]\n",
    );
    let lines: Vec<_> = shown.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(lines, ["1:9", "2:12", "2:19", "3:8", "3:35", "4:10", "5:10"], "{shown}");
}

#[test]
fn errors_point_into_the_text_with_any_line_ending() {
    // In YAML, a carriage return without a line feed ends a line. If something is missing at the end of the
    // text, the error points after the last character.
    for (text, line, column, excerpt) in [
        ("name: a\rgateways: [nginx]\rload: }\r", 3, 7, "load: }"),
        ("name: a\r\ngateways: [nginx]\r\nload: }\r\n", 3, 7, "load: }"),
        ("name: a\r\r\nload: }", 3, 7, "load: }"),
        ("gateways: [nginx", 1, 17, "gateways: [nginx"),
        ("gateways: [nginx\n", 1, 17, "gateways: [nginx"),
    ] {
        let error = &parsed(text, &[]).unwrap_err().0[0];
        let shown = (error.line, error.column, error.excerpt.as_str());
        assert_eq!(shown, (line, column, excerpt), "{text:?}: {error}");
    }
    let error = &parsed(SMALLEST, &["load=[\n{ loop: }"]).unwrap_err().0[0];
    assert_eq!((error.line, error.excerpt.as_str()), (0, "{ loop: }"), "{error}");
    let error = &parsed(SMALLEST, &["load=[closed"]).unwrap_err().0[0];
    assert_eq!((error.line, error.column, error.excerpt.as_str()), (0, 13, "load=[closed"), "{error}");
}

/// Damaged input must result in a plan or in errors that can be shown, but never in a panic.
#[test]
fn damaged_plans_are_refused_without_a_panic() {
    let mut random = hoptax_format::random::Random::new(11);
    let junk: Vec<char> = "[]{}:,-&*!|>'\"%@`#?~\t\r\n \u{feff}é0".chars().collect();
    let mut refused = 0;
    for _ in 0..3000 {
        let mut text: Vec<char> = TEMPLATE.chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(4) {
                0 => text.truncate(at.max(1)),
                1 => drop(text.remove(at)),
                2 => text[at] = junk[random.below(junk.len() as u64) as usize],
                _ => text.insert(at, junk[random.below(junk.len() as u64) as usize]),
            }
            if text.is_empty() {
                text.push('x');
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(errors) = parsed(&text, &[]) {
            refused += 1;
            assert!(!errors.0.is_empty());
            for error in &errors.0 {
                assert!(error.line >= 1 && error.column >= 1 && error.span >= 1 && !error.message.is_empty());
            }
            assert!(!errors.to_string().is_empty());
        }
    }
    assert!(refused > 300, "too few damaged plans were refused: {refused}");
}

//! Wrong plans, and their error messages.

use super::*;

/// Checks the whole error output for a plan.
#[track_caller]
fn says(text: &str, expected: &str) {
    let shown = parsed(text, &[]).expect_err("must be refused").to_string();
    assert_eq!(shown, expected.trim_matches('\n'), "\n{shown}\n");
}

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
    says(
        "gateways: [nginx]\nload:\n  - { loop: closed, conections: 1 }\n",
        "
plans/x.yaml:3:21: unknown key `conections`
  |
3 |   - { loop: closed, conections: 1 }
  |                     ^^^^^^^^^^
  = help: did you mean `connections`?
",
    );
    says(
        "gateways: [ngnix]\nload: [{ loop: closed, connections: 1 }]\ntimeout: 3\n",
        "
plans/x.yaml:1:12: unknown gateway `ngnix`
  |
1 | gateways: [ngnix]
  |            ^^^^^
  = help: did you mean `nginx`?

plans/x.yaml:3:10: the duration `3` has no unit
  |
3 | timeout: 3
  |          ^
  = help: write 3s for seconds or 3ms for milliseconds

2 errors
",
    );
    says(
        "gateways: []\nload:\n  - { loop: closed, connections: \"1\" }\n",
        "
plans/x.yaml:3:34: expected a whole number, found `1`
  |
3 |   - { loop: closed, connections: \"1\" }
  |                                  ^^^
  = help: remove the quotes
",
    );
    let shown = parsed(SMALLEST, &["trials=1", "load.0.duration=5"]).unwrap_err().to_string();
    assert_eq!(
        shown,
        "\
--set load.0.duration=5: the duration `5` has no unit
 |
 | load.0.duration=5
 |                 ^
 = help: write 5s for seconds or 5ms for milliseconds",
        "\n{shown}"
    );
}

/// Lists the errors in `text`. Each error is on its own line, as `line:column message; help`.
pub(super) fn mistake(text: &str) -> String {
    let PlanErrors(errors) = parsed(text, &[]).expect_err(text);
    errors
        .iter()
        .map(|error| format!("{}:{} {}; {}", error.line, error.column, error.message, error.help))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn types_and_shapes() {
    for (text, expected) in [
        ("", "1:1 expected a mapping, found nothing; known keys here: name, upstream, gateways"),
        ("- a\n", "1:1 expected a mapping, found a list;"),
        ("gateways: [nginx]\n", "1:1 missing key `load`; add `load: …`"),
        ("load: [{ loop: closed, connections: 1 }]\n", "1:1 missing key `gateways`"),
        ("gateways: nginx\nload: []\n", "1:11 expected a list, found `nginx`; start each entry with `- `"),
        ("gateways: []\nload: [{ loop: closed }]\n", "2:8 missing key `connections`"),
        ("gateways: []\nload: []\n", "2:7 `load` is empty; add an entry"),
        (
            "gateways: []\nload: [{ loop: closd, connections: 1 }]\n",
            "2:16 unknown value `closd`; did you mean `closed`?",
        ),
        (
            "gateways: []\nload: [{ loop: closed, connections: lots }]\n",
            "2:37 expected a whole number, found `lots`;",
        ),
        (
            "gateways: []\nload: [{ loop: closed, connections: -1 }]\n",
            "2:37 -1 is out of range; use 0 to 4294967295",
        ),
        (
            "gateways: []\nload: [{ loop: closed, connections: \"1\" }]\n",
            "2:37 expected a whole number, found `1`; remove the quotes",
        ),
        (
            "gateways: []\nload: [{ loop: closed, connections: [] }]\n",
            "2:37 expected at least one value, found an empty list;",
        ),
        (&format!("{SMALLEST}restarts: 101\n"), "3:11 `restarts` is too large: 101; write 100 or less"),
        (
            &format!("{SMALLEST}isolate: true\nrestarts: 3\n"),
            "4:11 a plan with `isolate: true` cannot have `restarts`;",
        ),
        (&format!("{SMALLEST}isolate: yes\n"), "3:10 expected true or false, found `yes`; write true"),
        (
            &format!("{SMALLEST}profile: equalized\n"),
            "3:10 unknown value `equalized`; did you mean `equalised`?",
        ),
        (&format!("{SMALLEST}name: [a]\n"), "3:7 expected a single value, found a list;"),
        (&format!("{SMALLEST}target: {{ headers: [a] }}\n"), "3:20 expected a mapping, found a list;"),
    ] {
        let shown = mistake(text);
        assert!(shown.starts_with(expected) && !shown.contains('\n'), "{text}\n{shown}");
    }
}

#[test]
fn delays_of_hops() {
    for (gateway, expected) in [
        ("{ name: nginx, delay: { in: 2ms } }", "1:34 `nginx` cannot have a `delay`, only `hop-l7` and"),
        ("{ name: hop-l4, delay: { in: 2ms } }", "1:35 `hop-l4` cannot have a `delay`, only `hop-l7` and"),
        ("{ name: hop-l7, delay: { share: 1% } }", "1:35 `delay` needs `in`, `out` or `message`; write"),
        ("{ name: hop-l7, delay: { in: 2ms, share: 0% } }", "1:35 `share` must be above 0%"),
        ("{ name: hop-l7, delay: { out: 2m } }", "1:35 the delay 2m is too long; write 1m or less"),
        ("{ name: hop-l7, delay: { in: 2ms, how: doze } }", "`doze`"),
        ("{ name: hop-h2, delay: { message: 2m } }", "1:35 the delay 2m is too long; write 1m or less"),
        ("{ name: hop-l7, delay: { message: 1ms } }", "1:46 `hop-l7` cannot have `message` in `delay`, only"),
    ] {
        let text =
            format!("gateways: [{gateway}]\nload: [{{ loop: closed, connections: 1, duration: 1s }}]\n");
        let shown = mistake(&text);
        assert!(shown.contains(expected), "{gateway}: {shown}");
    }
}

#[test]
fn faults_of_hops() {
    for (gateway, expected) in [
        ("{ name: hop-l4, faults: { drop: 1% } }", "1:36 `hop-l4` cannot have `faults`, only `hop-l7` and"),
        ("{ name: hop-h2, faults: { cut: 1s } }", "1:36 `hop-h2` cannot plant `merge`, `bunch`, `refuse`,"),
        (
            "{ name: hop-h2, upstream_http: 1.1, faults: { drop: 1% } }",
            "1:56 `faults` needs HTTP/2 to the upstream; remove `upstream_http`, or remove `faults`",
        ),
        ("{ name: hop-h2, faults: { drop: 2 } }", "1:44 the share `2` is more than 100%; write at most 1;"),
        ("{ name: hop-h2, faults: { drop: 0% } }", "1:36 the faults have no effect; write at least one of"),
        ("{ name: hop-h2, faults: { hold: 2m } }", "1:36 2m is too long; write 1m or less"),
        ("{ name: hop-h2, faults: { deadline: 0s } }", "1:36 the deadline is zero; write a time such as"),
        ("{ name: hop-h2, faults: { deadline: lose } }", "1:48 `lose` is not a duration;"),
        ("{ name: hop-h2, faults: { repeat: 200% } }", "1:46 the share `200%` is more than 100%"),
    ] {
        let load = "{ loop: closed, connections: 1, http: 2, duration: 1s }";
        let text = format!("gateways: [{gateway}]\nload: [{load}]\n");
        let shown = mistake(&text);
        assert!(shown.contains(expected), "{gateway}: {shown}");
    }
}

#[test]
fn faults_in_event_streams_and_websockets() {
    for (faults, expected) in [
        ("deadline: drop", "1:36 `hop-l7` cannot plant `deadline`, only `hop-h2` can; write name: hop-h2,"),
        ("bunch: 1", "1:36 a bunch of 1 is out of range; write 2 to 1000 events"),
        ("bunch: 0", "1:36 a bunch of 1 is out of range; write 2 to 1000 events"),
        ("refuse: 200%", "1:46 the share `200%` is more than 100%"),
        ("cut: 2m", "1:36 2m is too long; write 1m or less"),
        ("deflate: keep", "`keep`"),
        ("merge: 0%", "1:36 the faults have no effect; write at least one of"),
    ] {
        let load = "{ loop: closed, connections: 1, duration: 1s }";
        let text = format!("gateways: [{{ name: hop-l7, faults: {{ {faults} }} }}]\nload: [{load}]\n");
        let shown = mistake(&text);
        assert!(shown.contains(expected), "{faults}: {shown}");
    }
}

#[test]
fn warm_ups_of_hops() {
    for (gateway, expected) in [
        (
            "{ name: nginx, warming: { requests: 9, extra: 1ms } }",
            "1:36 `nginx` cannot have `warming`, only `hop-l7` and `hop-h2` can; remove `warming`",
        ),
        (
            "{ name: hop-l4, warming: { requests: 9, extra: 1ms } }",
            "1:37 `hop-l4` cannot have `warming`, only `hop-l7` and `hop-h2` can;",
        ),
        ("{ name: hop-l7, warming: { requests: 9 } }", "1:37 missing key `extra`; add `extra: …`"),
        ("{ name: hop-l7, warming: { extra: 1ms } }", "1:37 missing key `requests`; add `requests: …`"),
        (
            "{ name: hop-l7, warming: { requests: 0, extra: 1ms } }",
            "1:37 a warm-up of 0 requests is out of range; write 1 to 1000000000 requests",
        ),
        (
            "{ name: hop-l7, warming: { requests: 1000000001, extra: 1ms } }",
            "1:37 a warm-up of 1000000001 requests is out of range;",
        ),
        (
            "{ name: hop-l7, warming: { requests: 9, extra: 999ns } }",
            "1:37 the extra time 999ns of the warm-up is out of range; write 1us to 1s",
        ),
        (
            "{ name: hop-l7, warming: { requests: 9, extra: 1.1s } }",
            "1:37 the extra time 1.1s of the warm-up is out of range; write 1us to 1s",
        ),
        ("{ name: hop-l7, warming: { requests: 9, extra: 5 } }", "the duration `5` has no unit;"),
        ("{ name: hop-l7, warming: { requests: 9, extra: 1ms, fall: sudden } }", "unknown value `sudden`;"),
        ("{ name: hop-l7, warming: { requests: 9, extra: 1ms, share: 1% } }", "unknown key `share`;"),
    ] {
        let text =
            format!("gateways: [{gateway}]\nload: [{{ loop: closed, connections: 1, duration: 1s }}]\n");
        let shown = mistake(&text);
        assert!(shown.contains(expected), "{gateway}: {shown}");
    }
}

#[test]
fn upstream_and_target() {
    for (line, expected) in [
        ("upstream: { instances: 0 }", "1:24 `instances` is zero; write 1 or more"),
        ("upstream: { status: 101 }", "1:21 101 is not the status of a final response; use 200 to 599"),
        ("upstream: { status: 204, body: 1KiB }", "1:32 a response with status 204 has no body;"),
        ("upstream: { body: 1024 }", "1:19 the size `1024` has no unit; write 1024B"),
        ("upstream: { body: 2GiB }", "1:19 the body is larger than 1GiB;"),
        ("upstream: { body: { text: a, kind: json } }", "1:36 `kind` needs a `size`; add `size`"),
        ("upstream: { body: { text: a, size: 1B } }", "1:19 a body needs one of `size`, `text` and `file`;"),
        ("upstream: { body: { file: nothing.json } }", "1:27 cannot read no-such-directory/nothing.json: "),
        ("upstream: { delay: soon }", "1:20 `soon` is not a duration;"),
        (
            "upstream: { delay: uniform(1ms, 5ms) }",
            "1:33 unknown key `5ms)`; inside braces, put quotes around a value with a comma",
        ),
        ("upstream: { grpc_status: fine }", "1:26 `fine` is not a gRPC status; use one of ok, cancelled,"),
        ("upstream: { failures: 2 }", "1:23 the share `2` is more than 100%; write at most 1"),
        (
            "upstream: { port: 65535, instances: 2 }",
            "1:19 2 instances from port 65535 need ports up to 65536;",
        ),
        ("upstream: { port: 0 }", "1:19 `port` is zero;"),
        ("upstream: { port: 70000 }", "1:19 70000 is out of range; use 0 to 65535"),
        (
            "upstream: { url: localhost }",
            "1:18 the URL `localhost` has no scheme; write http://host:port or https://host:port",
        ),
        (
            "upstream: { url: \"http://localhost\", delay: 1ms }",
            "1:18 `delay` is only for the built-in upstream; remove `delay`",
        ),
        (
            "upstream: { delay: 3s }",
            "1:20 every request would time out: the upstream delays each response by at least 3s, and the \
            timeout is 3s;",
        ),
        ("timeout: 0s", "1:10 the timeout is zero; write a longer time"),
        (
            "target: { method: get }",
            "1:19 methods are case-sensitive; `get` is not a standard method; write GET",
        ),
        ("target: { method: CONNECT }", "1:19 CONNECT opens a tunnel"),
        ("target: { method: \"G T\" }", "1:19 `G T` is not a method;"),
        ("target: { path: api }", "1:17 the path `api` does not start with `/`; write /api"),
        (
            "target: { path: \"http://h/api\" }",
            "1:17 the path `http://h/api` does not start with `/`; write only the path, /api",
        ),
        ("target: { path: \"/a b\" }", "1:17 a path cannot contain ' '; percent-encode it: %20"),
        ("target: { headers: { \"a b\": c } }", "1:22 `a b` is not a header name;"),
        ("target: { headers: { a: b, A: c } }", "1:28 the header `A` appears twice;"),
        ("target: { headers: { a: \"b\\r\\nc\" } }", "1:25 a header value cannot contain '\\r';"),
        ("target: { headers: { a: \" b\" } }", "1:25 a header value cannot start or end with a space;"),
        (
            "target: { headers: { Content-Length: 3 } }",
            "1:38 `content-length` is 3, but the body has 0 bytes",
        ),
        ("name: ../x", "1:7 the name `../x` is not valid as a directory name;"),
        ("trials: 20000", "1:9 `trials` is too large: 20000; write 10000 or less"),
        ("trials: 0", "1:9 `trials` is zero; write 1 or more"),
        ("trials: many", "1:9 `many` is not a number of rounds; write a whole number such as 5, `auto`, or"),
        ("trials: { within: 0% }", "1:19 `within` is zero; write for example 5%"),
        ("trials: { at_most: 0s }", "1:20 `at_most` is zero; write the longest time for all rounds"),
        ("trials: { at_most: 10 }", "1:20 the duration `10` has no unit"),
        ("trials: { least: 1 }", "1:18 `least` is 1; write 2 or more"),
        ("trials: { least: 9, most: 3 }", "1:27 `most` (3) is below `least` (9); swap the two"),
        ("cpus: all", "1:7 unknown value `all`; write auto, or"),
        ("cpus: { gateway: \"1-3\" }", "1:18 this machine has no CPU 2; use CPUs 0 to 1"),
        ("cpus: { gateway: x }", "1:18 `x` is not a list of CPUs;"),
    ] {
        let shown = mistake(&format!("{line}\n{SMALLEST}"));
        assert!(shown.starts_with(expected) && !shown.contains('\n'), "{line}\n{shown}");
    }
}

#[test]
fn gateways() {
    for (list, expected) in [
        (
            "kong",
            "1:12 unknown gateway `kong`; use one of: nginx, haproxy, envoy, routed, secure, hop-l4, hop-l7, \
            hop-h2, external;",
        ),
        ("hop_l4", "1:12 unknown gateway `hop_l4`; did you mean `hop-l4`?"),
        (
            "nginx, nginx",
            "1:19 two gateways have the label `nginx`; give this gateway another label: { name: nginx, \
            label: nginx-2 }",
        ),
        ("direct", "1:12 `direct` is the name of the baseline, which is always measured; remove this entry"),
        ("{ name: nginx, label: direct }", "1:34 `direct` is the name of the baseline"),
        ("{ name: nginx, label: a/b }", "1:34 the label `a/b` is not valid as a directory name;"),
        ("{ name: nginx, label: .. }", "1:34 the label `..` is not valid as a directory name;"),
        ("{ name: nginx, workers: 0 }", "1:36 `workers` is zero;"),
        (
            "{ name: nginx, features: [keyauth] }",
            "1:38 the pack `nginx` has no feature `keyauth`; did you mean `key-auth`?",
        ),
        (
            "{ name: nginx, features: [tls] }",
            "1:38 the pack `nginx` has no feature `tls`; use key-auth or rate-limit",
        ),
        (
            "{ name: haproxy, features: [tls] }",
            "1:40 the pack `haproxy` has no feature `tls`; the pack has no features;",
        ),
        ("{ name: nginx, features: [key-auth, key-auth] }", "1:48 the feature `key-auth` appears twice;"),
        ("{ name: nginx, features: every }", "1:37 `features: every` is not a list, `each` or `all-pairs`;"),
        ("{ name: nginx, features: [{}] }", "1:38 this entry names no feature;"),
        (
            "{ name: nginx, features: [{ rate-limit: 0.5/s }] }",
            "1:52 the rate limit 0.5/s is not a whole number",
        ),
        ("{ name: nginx, features: [{ ask: last }] }", "1:45 `ask` needs `routes`;"),
        (
            "{ name: nginx, features: [{ rate-limit: 5/s, routes: 3 }] }",
            "1:65 this entry has a second feature, `routes`;",
        ),
        ("{ name: haproxy, features: each }", "1:39 the pack `haproxy` has no features to measure;"),
        (
            "{ name: nginx, pid: 1 }",
            "1:20 `pid` is only for a gateway that already runs, but hoptax starts `nginx`;",
        ),
        ("{ name: hop-l4, workers: 2 }", "1:37 `hop-l4` always has one worker;"),
        ("{ name: hop-l7, features: [tls] }", "1:39 `hop-l7` has no features;"),
        ("external", "1:12 an external gateway needs a `url`;"),
        (
            "{ name: external, url: \"http://x\", insecure: true }",
            "1:57 `insecure` needs TLS, but http://x:80",
        ),
        ("{ name: external, url: \"ftp://x\" }", "1:35 the URL `ftp://x` is neither http nor https"),
        ("{ name: external, url: \"http://x\", workers: 2 }", "1:56 hoptax does not start this gateway"),
        ("{ name: external, url: \"http://x\", pid: 0 }", "1:52 `pid` is 0, which is not a process;"),
    ] {
        let shown = mistake(&format!("gateways: [{list}]\nload: [{{ loop: closed, connections: 1 }}]\n"));
        assert!(shown.starts_with(expected) && !shown.contains('\n'), "{list}\n{shown}");
    }
}

#[test]
fn load_points() {
    for (entry, expected) in [
        ("loop: closed, connections: 0", "2:37 `connections` is zero;"),
        (
            "loop: closed, connections: 1, rate: 5/s",
            "2:46 a closed loop has no `rate`, because responses set its pace; remove `rate`, or write \
            `loop: open`",
        ),
        ("loop: closed, connections: 1, arrivals: poisson", "2:50 a closed loop has no `arrivals`"),
        (
            "loop: [closed, open], connections: 1, rate: 5/s",
            "2:54 a closed loop has no `rate`, because responses set its pace; write the closed and the open \
            loop as two entries",
        ),
        ("loop: open, connections: 1", "2:8 an open loop needs a `rate`; add for example"),
        ("loop: open, connections: 1, rate: 1000", "2:44 the rate `1000` has no unit; write 1000/s"),
        ("loop: open, connections: 1, rate: 1/h", "2:44 at 1/h, no request is due within 10s;"),
        ("loop: open, connections: 1, rate: 9999999999/s", "2:44 rates above 10000000/s are not supported;"),
        ("loop: open, connections: 1, rate: 5/s, arrivals: bursts", "2:59 unknown arrivals `bursts`;"),
        ("loop: closed, connections: 1, duration: 0s", "2:50 `duration` is zero;"),
        ("loop: closed, connections: 1, requests: 5", "2:50 `requests` needs a `duration`"),
        ("loop: closed, connections: 1, requests: 0, duration: 1s", "2:50 `requests` is zero;"),
        ("loop: closed, connections: [1, 2, 1]", "2:8 the load point closed, 1 connection appears twice;"),
    ] {
        let shown = mistake(&format!("gateways: []\nload: [{{ {entry} }}]\n"));
        assert!(shown.starts_with(expected) && !shown.contains('\n'), "{entry}\n{shown}");
    }
}

#[test]
fn a_sweep_of_sweeps_is_bounded() {
    let many = (1..=1001).map(|count| count.to_string()).collect::<Vec<_>>().join(", ");
    let shown = mistake(&format!(
        "gateways: []\nload: [{{ loop: closed, connections: [{many}], requests: [{many}], duration: 1s }}]\n"
    ));
    assert_eq!(
        shown,
        "2:8 this sweep has 1002001 load points; use fewer values: at most 1000 load points are allowed"
    );
}

#[test]
fn a_rate_needs_connections_by_littles_law() {
    let plan = |delay: &str, load: &str| {
        format!("upstream: {{ delay: \"{delay}\" }}\ngateways: []\nload:\n  - {{ loop: open, {load} }}\n")
    };
    assert_eq!(
        mistake(&plan("100ms", "rate: 1000/s, connections: [2, 100]")),
        "4:47 1000/s with an upstream delay of 100ms needs 100 connections, but there are 2; use at least \
         100 connections or at most 20/s"
    );
    assert!(
        mistake(&plan("exponential(10ms)", "rate: [1/s, 101/s], connections: 1")).contains("at least 2 ")
    );
    assert!(
        mistake(&plan("choice(90% 0ms, 10% 100ms)", "rate: 200/s, connections: 1")).contains("at least 2 ")
    );
    good(&plan("100ms", "rate: 1000/s, connections: 100"));
    good(&plan("uniform(0ms, 20ms)", "rate: 100/s, connections: 1"));
}

#[test]
fn budgets() {
    for (entry, expected) in [
        ("{ metric: added_p99 }", "3:10 this budget has no limit; add `max: …` or `min: …`"),
        ("{ metric: added_p98, max: 1ms }", "3:20 unknown value `added_p98`; did you mean `added_p9"),
        ("{ metric: added_p99, max: 1 }", "3:36 the duration `1` has no unit;"),
        ("{ metric: added_p99, max: 1ms, min: 2ms }", "3:46 `min` (2ms) is above `max` (1ms);"),
        (
            "{ gateway: ngnix, metric: added_p99, max: 1ms }",
            "3:21 no gateway has the label `ngnix`; did you mean `nginx`?",
        ),
        (
            "{ metric: error_share, max: 1% }, { metric: error_share, max: 2% }",
            "3:44 `max` of `error_share` is set twice for every gateway;",
        ),
        ("{ metric: added_p99 , maximum: 1ms }", "3:32 unknown key `maximum`;"),
        ("{ metric: p50, max: +10% }", "3:10 this limit is relative, but there is nothing to compare with;"),
        ("{ metric: p50, max: +10%, against: ngnix }", "3:45 no gateway has the label `ngnix`;"),
        ("{ metric: p50, max: 1ms, against: direct }", "3:44 `against` needs a relative limit;"),
        ("{ metric: p50, max: +10ms, against: direct }", "3:30 `+10ms` is not a change;"),
        (
            "{ metric: error_share, max: +10%, against: direct }",
            "3:38 `error_share` is zero for most gateways",
        ),
        (
            "{ metric: p50, max: -20%, min: -10%, against: direct }",
            "3:41 `min` (-10%) is above `max` (-20%);",
        ),
        ("{ metric: p50, max: 1ms, load: { connections: 4711 } }", "3:41 no load point matches;"),
        (
            "{ metric: p50, max: 1ms, load: { loops: open } }",
            "3:43 unknown key `loops`; did you mean `loop`?",
        ),
    ] {
        let shown = mistake(&format!("{SMALLEST}budget: [{entry}]\n"));
        assert!(shown.starts_with(expected) && !shown.contains('\n'), "{entry}\n{shown}");
    }
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

//! Messages of `hoptax load` and `hoptax run` if clients get no response, only failures, or responses that
//! they do not expect.

use crate::load::{Upstream, load};
use crate::run::{run, run_directory, run_to_success, text, trials};
use crate::support::haproxy::Haproxy;
use crate::support::refusals::refused_plans;
use crate::support::server::{Response, Server};
use crate::support::{Scratch, hoptax, own_listener};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// A finished load: its JSON document, the exit code, and what it says on standard error.
struct Loaded {
    case: Value,
    code: Option<i32>,
    errors: String,
}

impl Loaded {
    fn new(args: &[&str]) -> Self {
        Self::of(load(&[args, &["--json"]].concat()))
    }

    fn of(output: Output) -> Self {
        let case = serde_json::from_slice(&output.stdout).expect("one JSON document");
        Self { case, code: output.status.code(), errors: text(&output.stderr) }
    }

    #[track_caller]
    fn warns(&self, part: &str) {
        let warnings = self.case["warnings"].as_array().expect("warnings");
        let found =
            warnings.iter().any(|warning| warning.as_str().is_some_and(|warning| warning.contains(part)));
        assert!(found, "{part:?} is not among {warnings:#?}");
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

/// A server that answers every request with `bytes`.
fn answering(bytes: &'static [u8]) -> SocketAddr {
    let listener = own_listener();
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    if stream.write_all(bytes).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn connections_beyond_the_limit_of_haproxy_are_named() {
    let (upstream, scratch) = (Upstream::start(&["--delay", "20ms"]), Scratch::new());
    let haproxy = Haproxy::with_at_most(20, upstream.address(), &scratch);
    let url = haproxy.url();
    let loaded = Loaded::new(&[&url, "-c", "40", "-d", "600ms", "--timeout", "1500ms"]);
    assert_eq!(loaded.case["connections"]["unanswered"], 20, "{}", loaded.case["connections"]);
    assert_eq!(loaded.case["connections"]["responses"]["min"], 0);
    assert!(loaded.case["connections"]["responses"]["max"].as_u64() > Some(3));
    loaded.warns("20 of 40 connections ");
    let enough = Loaded::new(&[&url, "-c", "10", "-d", "300ms"]);
    assert_eq!((&enough.case["connections"]["unanswered"], enough.code), (&0.into(), Some(0)));
}

#[test]
fn concurrency_is_at_most_the_connections() {
    let upstream = Upstream::start(&["--delay", "200ms"]);
    // Most responses arrive after the measured time.
    let loaded = Loaded::new(&[&upstream.url(), "-c", "50", "-d", "300ms"]);
    let concurrency = loaded.case["concurrency"].as_f64().expect("a number");
    assert!(concurrency <= 50.0 && concurrency > 20.0, "{concurrency}");
}

#[test]
fn answers_that_nobody_wants_have_a_warning_and_an_exit_code() {
    for (status, warning) in [
        (302, "redirects (status 302 to /login)"),
        (404, "(50) were not successes"),
        (429, "limits the rate"),
    ] {
        let server = Server::start(move |_| Response::new(status, "").with("location", "/login?from=1"));
        let url = url(server.address);
        let loaded = Loaded::new(&[&url, "-n", "50", "-c", "2"]);
        loaded.warns(warning);
        assert_eq!(loaded.code, Some(3), "{status}: {}", loaded.errors);
        assert!(loaded.errors.contains("failures 100 %, limit 50%"), "{}", loaded.errors);
        let expected = Loaded::new(&[&url, "-n", "50", "-c", "2", "--expect-status", &status.to_string()]);
        assert_eq!((expected.code, &expected.case["warnings"]), (Some(0), &Value::Array(Vec::new())));
    }
}

#[test]
fn limits_decide_the_exit_code() {
    // One response of ten is not a success.
    let server =
        Server::start(|request| Response::new(if request.number % 10 == 9 { 503 } else { 200 }, "hello"));
    let url = url(server.address);
    for (args, code) in [
        (&[][..], 0),
        (&["--fail-above", "20%"], 0),
        (&["--fail-above", "1%"], 3),
        (&["--expect-body", "hello", "--expect-status", "200"], 3),
        (&["--expect-body", "hello", "--expect-status", "200,503"], 0),
        (&["--max", "p99=20s", "--max", "max=30s", "--min", "throughput=1/s"], 0),
        (&["--max", "p50=1us"], 3),
        (&["--min", "throughput=100000000/s"], 3),
        (&["--max", "p50"], 2),
        (&["--max", "errors=1%"], 2),
    ] {
        let output = load(&[&[url.as_str(), "-n", "100", "-c", "1"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    }
    let judged = Loaded::new(&[&url, "-n", "100", "-c", "1", "--max", "p50=1us"]);
    let limits = judged.case["limits"].as_array().expect("limits");
    assert_eq!((&limits[1]["metric"], &limits[1]["kept"]), (&"p50".into(), &false.into()));
    assert!(judged.errors.contains("error: limit exceeded: p50 "), "{}", judged.errors);
}

#[test]
fn a_load_of_failures_ends_early_and_says_why() {
    for (bytes, advice) in [
        (&b"SSH-2.0-OpenSSH\r\n"[..], "Check that the server speaks this version of HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: nonsense\r\n\r\n", "content-length: nonsense"),
    ] {
        let url = url(answering(bytes));
        let begun = Instant::now();
        let loaded = Loaded::new(&[&url, "-n", "2000", "-c", "10"]);
        assert_eq!((loaded.code, &loaded.case["gave_up"]), (Some(1), &true.into()), "{}", loaded.errors);
        assert!(loaded.errors.contains(advice), "{}", loaded.errors);
        assert!(!loaded.errors.contains("a server listens"), "{}", loaded.errors);
        // With all 2,000 requests, it would take more than two minutes.
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        let output = load(&[&url, "-n", "50", "-c", "10"]);
        let summary = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        for wrong in ["keep connections alive", "overload", "keep-alive in the server"] {
            assert!(!summary.contains(wrong), "{summary}");
        }
    }
}

/// Stops a process for a while during a load of 3 s, and returns the load.
fn while_stopped(url: &str, args: &[&str], stopped: impl Fn(u32) -> u32) -> Loaded {
    let mut command = hoptax();
    command
        .args(["load", url, "-d", "3s", "--json"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    let pid = Pid::from_raw(stopped(child.id()) as i32).expect("a process");
    std::thread::sleep(Duration::from_millis(700));
    kill_process(pid, Signal::STOP).expect("stopped");
    std::thread::sleep(Duration::from_millis(1500));
    kill_process(pid, Signal::CONT).expect("continued");
    Loaded::of(child.wait_with_output().expect("ends"))
}

#[test]
fn a_server_that_stalls_is_told_from_a_generator_that_stalls() {
    let server_stalls = |args: &[&str]| {
        let upstream = Upstream::start(&["--delay", "2ms"]);
        let served = while_stopped(&upstream.url(), args, |_| upstream.pid());
        served.warns("No response arrived for 1.");
        let warnings = served.case["warnings"].to_string();
        assert!(!warnings.contains("--cpus") && !warnings.contains("service times"), "{warnings}");
    };
    let generator_stalls = |args: &[&str]| {
        let upstream = Upstream::start(&["--delay", "2ms"]);
        let generated = while_stopped(&upstream.url(), args, |generator| generator);
        generated.warns("The generator did not run for 1.");
        assert!(!generated.case["warnings"].to_string().contains("No response arrived"));
    };
    let loads = [&["-c", "1"][..], &["-c", "4", "--rate", "200/s"]];
    // The loads leave the CPUs mostly idle, so they do not disturb each other.
    std::thread::scope(|scope| {
        for args in loads {
            scope.spawn(move || server_stalls(args));
            scope.spawn(move || generator_stalls(args));
        }
    });
}

#[test]
fn the_advice_about_connections_follows_from_rate_and_service_time() {
    let upstream = Upstream::start(&["--delay", "50ms"]);
    let url = upstream.url();
    // 100/s × 50 ms is 5 requests in flight. One connection answers at most 20/s.
    let loaded = Loaded::new(&[&url, "-c", "1", "--rate", "100/s", "-d", "1s", "--timeout", "20s"]);
    loaded.warns("had to wait for a connection");
    let warnings = loaded.case["warnings"].to_string();
    let advised = warnings.split("(-c ").nth(1).and_then(|rest| rest.split(')').next()).expect("an advice");
    assert!(advised.parse::<u32>().expect("a number") >= 6, "{warnings}");
}

#[test]
fn a_plan_whose_direct_is_refused_ends_after_verification() {
    let server = Server::start(|_| Response::new(401, "who are you?"));
    let scratch = Scratch::new();
    let plan = format!(
        "name: refused\nupstream: {{ url: \"http://{}\" }}\ngateways: [hop-l7]\nwarmup: 0s\n\
         load: [{{ loop: closed, connections: 2, duration: 200ms }}]\ntrials: 3\n",
        server.address
    );
    let output = run(&scratch, &plan, &[]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let said = "status 401 instead of 200-399";
    assert_eq!(errors.matches(said).count(), 1, "{errors}");
    assert!(
        errors.contains("expect: { status: 401 }") && errors.contains("nothing was measured"),
        "{errors}"
    );
    assert_eq!(trials(&run_directory(&scratch)).len(), 0);
    // If the plan expects this status, it is measured.
    let expecting = plan.replace("load:", "target: { path: /, expect: { status: 401 } }\nload:");
    let expecting = expecting.replace("duration: 200ms", "requests: 100, duration: 20s");
    run_to_success(&Scratch::new(), &expecting, &["--accept-void"]);
}

#[test]
fn check_refuses_what_the_pack_does_not_support() {
    insta::assert_snapshot!(refused_plans(&["gateways: [{ name: express-gateway, workers: 2 }]\n"]));
}

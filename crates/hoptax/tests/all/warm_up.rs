//! Warm-ups of processes that are slow at first, with a hop whose warm-up is known.

use crate::run::{report, run, run_directory, text};
use crate::support::{Scratch, retry_if_disturbed};
use crate::world::is_missing;
use hoptax_record::dir::Run;
use serde_json::Value;

/// Runs a plan with a hop that has this warm-up. Returns the exit status and the report.
fn measured(warming: &str, warmup: &str) -> (Option<i32>, Value) {
    let scratch = Scratch::new();
    let output = run(
        &scratch,
        &format!(
            "name: warm
gateways: [{{ name: hop-l7, label: cold, warming: {warming} }}]
load: [{{ loop: open, rate: 500/s, connections: 4 }}]
time: 2s
warmup: {warmup}
"
        ),
        &[],
    );
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 4), "{}", text(&output.stderr));
    (output.status.code(), report(&run_directory(&scratch)))
}

fn of_hop(report: &Value) -> &Value {
    of(report, "cold")
}

fn of<'a>(report: &'a Value, contender: &str) -> &'a Value {
    let all = report["warm_ups"].as_array().expect("a list");
    all.iter().find(|one| one["contender"] == contender).expect("the hop was warmed up")
}

#[test]
fn a_process_is_measured_only_when_it_is_warm_and_the_report_says_how_long_that_took() {
    for fall in ["step", "linear"] {
        retry_if_disturbed(|| {
            let (_, report) =
                measured(&format!("{{ requests: 6000, extra: 300us, fall: {fall} }}"), "{ at_most: 30s }");
            let found = of_hop(&report);
            assert_eq!(found["settled"], true, "{fall}: {found}");
            // A burst in which the process becomes fast has thousands of requests, so a test on a busy
            // machine cannot be as exact as benches/known-warm-up.py.
            let slow = found["slow_requests"].as_f64().expect("a number");
            let cpu = &found["cpu_us_per_request"];
            let (first, settled) = (cpu["first"].as_f64().unwrap(), cpu["settled"].as_f64().unwrap());
            // The first figure is the mean of a burst, in which some requests are fast.
            if !(4_000.0..=8_000.0).contains(&slow) || first <= settled + 150.0 {
                return Err(format!("{fall}: {found}"));
            }
            let notes = report["notes"].to_string();
            assert!(notes.contains("cold first took"), "{fall}: {notes}");
            Ok(())
        });
    }
}

#[test]
fn nothing_is_claimed_from_a_process_that_does_not_settle() {
    retry_if_disturbed(|| {
        let (status, report) = measured("{ requests: 20000, extra: 1ms, fall: linear }", "{ at_most: 6s }");
        if of_hop(&report)["settled"] == true {
            // If neighbors take the CPU, the fall can be within the scatter.
            return Err(of_hop(&report).to_string());
        }
        let findings = report["findings"].as_array().expect("a list");
        let found = findings.iter().find(|one| one["code"] == "still-warming").expect("found");
        assert_eq!((&found["severity"], status), (&"void".into(), Some(4)), "{found}");
        Ok(())
    });
}

#[test]
fn a_fixed_warm_up_stays_as_it_is() {
    let (_, report) = measured("{ requests: 100000, extra: 100us }", "100ms");
    assert_eq!(report["warm_ups"], Value::Array(Vec::new()));
}

/// Hops whose first requests take 100 µs longer. The last step is in the second look on most machines: a hop
/// that answers 8,000 requests per second has had 10 s of load by then.
#[test]
fn a_step_is_never_measured_as_a_part_of_the_tax() {
    let scratch = Scratch::new();
    let hop = |requests: u32| {
        let warming = format!("{{ requests: {requests}, extra: 100us, fall: step }}");
        format!("{{ name: hop-l7, label: \"{requests}\", warming: {warming} }}")
    };
    let cold = [30_000, 45_000, 90_000];
    let output = run(
        &scratch,
        &format!(
            "name: steps
gateways: [hop-l7, {}]
load: [{{ loop: open, rate: 1000/s, connections: 8 }}]
time: 8s
",
            cold.map(hop).join(", ")
        ),
        &[],
    );
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 4), "{}", text(&output.stderr));
    let report = report(&run_directory(&scratch));
    let cases = report["cases"].as_array().expect("a list");
    let tax = |gateway: &str, metric: &str| {
        let case = cases.iter().find(|one| one["gateway"] == gateway).expect("measured");
        case["tax"][metric]["estimate"].as_f64().unwrap_or_else(|| panic!("{case:#}"))
    };
    for requests in cold {
        let gateway = requests.to_string();
        let cpu = tax(&gateway, "cpu_us_per_request") - tax("hop-l7", "cpu_us_per_request");
        // Cold requests would add 100 µs. On a busy machine, equal hops differ by some tens.
        assert!(cpu.abs() < 50.0, "{gateway}: {cpu} µs of CPU time more than the warm hop: {report:#}");
        let slow = of(&report, &gateway)["slow_requests"].as_f64().expect("a number");
        assert!(slow >= 0.8 * f64::from(requests), "{gateway}: only {slow} slow requests");
    }
    let found = report["findings"].as_array().expect("a list");
    assert!(found.iter().all(|one| one["code"] != "still-warming"), "{found:?}");
}

/// LuaJIT generates code while it runs.
#[test]
fn rounds_of_a_gateway_that_generates_code_have_four_processes() {
    if is_missing("nginx-lua") {
        return;
    }
    let scratch = Scratch::new();
    let output = run(
        &scratch,
        "name: processes
gateways: [{ name: nginx-lua, label: lua, features: [key-auth] }]
load: [{ loop: closed, connections: 4, duration: 100ms }]
trials: 8
warmup: { at_most: 1s }
",
        &[],
    );
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 4), "{}", text(&output.stderr));
    let directory = run_directory(&scratch);
    let measured = Run::read(&directory).expect("readable");
    let starts = |label: &str| -> Vec<u32> {
        measured.trials.iter().filter(|trial| trial.contender == label).map(|trial| trial.start).collect()
    };
    assert_eq!(starts("lua"), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(starts("direct"), [0; 16]);
    let lua = &measured.record.contenders[1];
    let warm_ups: Vec<u32> = lua.warm_ups.iter().map(|one| one.start).collect();
    assert_eq!((lua.label.as_str(), warm_ups), ("lua", vec![0, 1, 2, 3]));
    assert!(lua.warm_ups.iter().all(|one| one.generates_code), "{:?}", lua.warm_ups);
    let report = report(&directory);
    let cases = report["cases"].as_array().expect("a list");
    let of_lua = cases.iter().find(|one| one["gateway"] == "lua").expect("measured");
    assert_eq!(of_lua["processes"], 4, "{of_lua}");
    let shown = std::fs::read_to_string(directory.join("report.md")).expect("written");
    assert!(shown.contains("Rounds are spread over 4 processes of lua."), "{shown}");
}

//! Warm-ups of processes that are slow at first, with a hop whose warm-up is known.

use crate::run::{case, report, run, run_directory, text};
use crate::support::{Scratch, retry_if_disturbed};
use hoptax_record::dir::Run;
use serde_json::Value;

/// Runs a plan with these hops. Returns the exit status and the report.
fn measured(hops: &str, warmup: &str) -> (Option<i32>, Value) {
    let scratch = Scratch::new();
    let output = run(
        &scratch,
        &format!(
            "gateways: [{hops}]
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

/// A hop with this label that has this warm-up.
fn hop(label: &str, warming: &str) -> String {
    format!("{{ name: hop-l7, label: {label}, warming: {warming} }}")
}

fn of<'a>(report: &'a Value, contender: &str) -> &'a Value {
    let all = report["warm_ups"].as_array().expect("a list");
    all.iter().find(|one| one["contender"] == contender).expect("the hop was warmed up")
}

#[test]
fn a_process_is_measured_only_when_it_is_warm_and_the_report_says_how_long_that_took() {
    let falls = ["step", "linear"];
    let hops =
        falls.map(|fall| hop(fall, &format!("{{ requests: 3000, extra: 300us, fall: {fall} }}"))).join(", ");
    // The processes are warm within 3 s, or later on a slow machine. A warm-up that has reached its limit
    // needs a steady second half.
    retry_if_disturbed(|| {
        let (_, report) = measured(&hops, "{ at_most: 10s }");
        for fall in falls {
            let found = of(&report, fall);
            // A burst in which the process becomes fast has up to two thousand requests, so a test cannot be
            // as exact as benches/known-warm-up.py.
            let slow = found["slow_requests"].as_f64().expect("a number");
            let cpu = &found["cpu_us_per_request"];
            let (first, settled) = (cpu["first"].as_f64().unwrap(), cpu["settled"].as_f64().unwrap());
            // The first figure is the mean of a burst, in which some requests are fast.
            let is_known = (1_000.0..=5_000.0).contains(&slow) && first > settled + 150.0;
            if found["settled"] != true || !is_known {
                return Err(found.to_string());
            }
            let notes = report["notes"].to_string();
            assert!(notes.contains(&format!("{fall} first took")), "{notes}");
        }
        Ok(())
    });
}

#[test]
fn nothing_is_claimed_from_a_process_that_does_not_settle() {
    let cold = hop("cold", "{ requests: 13000, extra: 1ms, fall: linear }");
    retry_if_disturbed(|| {
        let (status, report) = measured(&cold, "{ at_most: 4s }");
        if of(&report, "cold")["settled"] == true {
            // If neighbors take the CPU, the fall can be within the scatter.
            return Err(of(&report, "cold").to_string());
        }
        let findings = report["findings"].as_array().expect("a list");
        let Some(found) = findings.iter().find(|one| one["code"] == "still-warming") else {
            // Without an undisturbed trial, the hop has no case.
            return Err(format!("{}\n{findings:#?}", of(&report, "cold")));
        };
        assert_eq!((&found["severity"], status), (&"void".into(), Some(4)), "{found}");
        Ok(())
    });
}

/// Hops whose first requests take 100 µs longer. The later step is in the second look on most machines: a hop
/// that answers 6,000 requests per second has had 10 s of load by then.
#[test]
fn a_step_is_never_measured_as_a_part_of_the_tax() {
    let scratch = Scratch::new();
    let cold = [25_000, 60_000];
    let hops = cold.map(|requests| {
        hop(&format!("\"{requests}\""), &format!("{{ requests: {requests}, extra: 100us, fall: step }}"))
    });
    let output = run(
        &scratch,
        &format!(
            "gateways: [{}]
load: [{{ loop: open, rate: 1000/s, connections: 8 }}]
time: 6s
",
            hops.join(", ")
        ),
        &[],
    );
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 4), "{}", text(&output.stderr));
    let report = report(&run_directory(&scratch));
    // The first hop has had its step, because so many slow requests came before. The other one must be like
    // it.
    for requests in cold {
        let slow = of(&report, &requests.to_string())["slow_requests"].as_f64().expect("a number");
        assert!(slow >= 0.8 * f64::from(requests), "{requests}: only {slow} slow requests");
    }
    let cases = report["cases"].as_array().expect("a list");
    let cpu = cold.map(|requests| {
        let is_of_hop = |one: &&Value| one["gateway"] == requests.to_string().as_str();
        let case = cases.iter().find(is_of_hop).expect("measured");
        case["tax"]["cpu_us_per_request"]["estimate"].as_f64().unwrap_or_else(|| panic!("{case:#}"))
    });
    // Cold requests would add 100 µs. On a busy machine, equal hops differ by some tens.
    assert!((cpu[1] - cpu[0]).abs() < 50.0, "CPU time per request: {cpu:?} µs: {report:#}");
    let found = report["findings"].as_array().expect("a list");
    assert!(found.iter().all(|one| one["code"] != "still-warming"), "{found:?}");
}

/// LuaJIT generates code while it runs.
#[test]
fn rounds_of_a_gateway_that_generates_code_have_several_processes() {
    needs!("nginx-lua");
    let scratch = Scratch::new();
    let output = run(
        &scratch,
        "gateways: [{ name: nginx-lua, label: lua, features: [key-auth] }]
load: [{ loop: closed, connections: 4, duration: 100ms }]
time: 8s
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
    assert!(starts("direct").iter().all(|start| *start == 0));
    // Each process has at least two rounds. A slow machine has fewer of them than four.
    let starts = starts("lua");
    let of_processes: Vec<&[u32]> = starts.chunk_by(|one, other| one == other).collect();
    assert!(
        (2..=4).contains(&of_processes.len()) && of_processes.iter().all(|of| of.len() > 1),
        "{starts:?}"
    );
    let lua = &measured.record.contenders[1];
    let mut warm_ups: Vec<u32> = lua.warm_ups.iter().map(|one| one.start).collect();
    // A process that the run ends with, or replaces, is looked at once more.
    warm_ups.dedup();
    let processes: Vec<u32> = of_processes.iter().map(|of| of[0]).collect();
    assert_eq!((lua.label.as_str(), warm_ups), ("lua", processes));
    assert!(lua.warm_ups.iter().all(|one| one.generates_code), "{:?}", lua.warm_ups);
    let report = report(&directory);
    let of_lua = case(&report, "lua");
    // Only processes with a trial that counts. Rounds that the machine disturbed do not.
    let counted = of_lua["processes"].as_u64().expect("a number");
    assert!((2..=of_processes.len() as u64).contains(&counted), "{of_processes:?}: {of_lua}");
    let shown = std::fs::read_to_string(directory.join("report.md")).expect("written");
    let words = format!("Rounds are spread over {counted} processes of lua.");
    assert!(shown.contains(&words), "{shown}");
}

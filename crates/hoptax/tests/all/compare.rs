//! Tests of `hoptax compare` and `hoptax gate`, on generated runs and on real runs.

use crate::report::fixture::{Run, sample, via};
use crate::report::on_disk;
use crate::run::{run, run_directory, text};
use crate::support::{Json, Scratch, hoptax, json, refusals, retry_if_disturbed};
use hoptax_plan::{Gateway, GatewayKind};
use std::path::Path;
use std::process::Output;

fn compare(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    hoptax().arg("compare").args(arguments.iter().map(AsRef::as_ref)).output().expect("runs")
}

fn gate(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    hoptax().arg("gate").args(arguments.iter().map(AsRef::as_ref)).output().expect("runs")
}

/// A run of nginx with six rounds. `us` is the response time and `cpu_us` the CPU time per request, both in
/// µs. Both values grow slightly from round to round.
fn nginx(us: u64, cpu_us: u64) -> Run {
    let mut run = Run::closed(32);
    let kind = GatewayKind::External {
        url: "http://127.0.0.1:1".into(),
        pid: None,
        access: Default::default(),
        prometheus: None,
        pods: None,
    };
    run.record.plan.gateways = vec![Gateway { label: "nginx".into(), kind }];
    for round in 0..6 {
        run.direct(round, 100 + u64::from(round % 2), 100);
        let cpu = cpu_us * 1000 + u64::from(round) * 20;
        run.push(via("nginx", round).all_at_us(us + u64::from(round)).gateway_cpu_us(cpu));
    }
    run
}

#[test]
fn compares_two_runs_in_every_format() {
    let (_one, a) = on_disk(&nginx(200, 20));
    let (_two, b) = on_disk(&nginx(200, 30));
    let reported = compare(&[&a, &b]);
    assert_eq!(reported.status.code(), Some(0), "{}", text(&reported.stderr));
    assert!(
        text(&reported.stdout).lines().next().unwrap().contains("is worse than"),
        "{}",
        text(&reported.stdout)
    );
    let failed = compare(&[&a, &b, &"--fail-on", &"worse"]);
    assert_eq!(failed.status.code(), Some(3));
    let better = compare(&[&b, &a, &"--fail-on", &"worse", &"--format", &"markdown"]);
    assert_eq!(better.status.code(), Some(0));
    assert!(text(&better.stdout).starts_with("**"), "{}", text(&better.stdout));

    let report = json(hoptax().arg("compare").args([&a, &b]).args(["--format", "json"]));
    let interface: Json =
        serde_json::from_str(include_str!("../../../../docs/reference/openapi.json")).expect("JSON");
    let described = |object: &Json, schema: &str| {
        let members = &interface["components"]["schemas"][schema]["properties"];
        for name in object.as_object().expect("an object").keys() {
            assert!(
                members[name]["description"].is_string(),
                "docs/reference/openapi.json does not describe `{name}` of {schema}"
            );
        }
    };
    described(&report, "Comparison");
    let rows = report["rows"].as_array().expect("rows");
    described(&rows[0], "Row");
    described(&rows[0]["difference"], "Contrast");
    let cpu = rows.iter().find(|row| row["metric"] == "cpu_us_per_request").expect("a row");
    assert_eq!((&cpu["verdict"], &report["verdict"]), (&"worse".into(), &"worse".into()));
    assert!((cpu["change"]["estimate"].as_f64().unwrap() - 0.5).abs() < 0.01, "{cpu}");
}

#[test]
fn incomparable_runs_are_refused_with_a_fix() {
    let (_one, a) = on_disk(&nginx(200, 20));
    let mut other = nginx(200, 20);
    other.record.plan.profile = hoptax_plan::Profile::Stock;
    let (_two, b) = on_disk(&other);
    let refused = compare(&[&a, &b]);
    assert_eq!(refused.status.code(), Some(2));
    let reported = text(&refused.stderr);
    for expected in ["profile", "equalised", "stock", "--force"] {
        assert!(reported.contains(expected), "{reported}");
    }
    let forced = compare(&[&a, &b, &"--force"]);
    assert_eq!(forced.status.code(), Some(0));
    assert!(text(&forced.stdout).contains("Forced comparison: "), "{}", text(&forced.stdout));

    let [empty, foreign, newer] = [(); 3].map(|()| Scratch::new());
    foreign.file("run.json", "{\"some\": \"thing\"}");
    newer.file("run.json", "{\"schema\": 4711}");
    let name = a.file_name().expect("a name").to_string_lossy();
    let places =
        [a.as_path(), empty.path(), foreign.path(), newer.path()].map(|path| path.display().to_string());
    let [run, empty, foreign, newer] = &places;
    let lines: [&[&str]; 7] = [
        &[],
        &["/nowhere/at/all"],
        &[empty],
        &[foreign],
        &[newer],
        &["--labels", "nginx,ngnix"],
        &["--labels", "nginx,nginx"],
    ];
    let told = refusals::refusals(&["compare", run], &lines).replace(run, "RUN").replace(&*name, "RUN");
    insta::assert_snapshot!(told.replace(empty, "EMPTY").replace(foreign, "FOREIGN").replace(newer, "NEWER"));
}

/// Two runs of one plan below `results`. Each verb takes its name or `latest`, and a path below another
/// directory.
#[test]
fn runs_are_named_by_their_plan_or_as_latest() {
    let scratch = Scratch::new();
    for (name, cpu_us) in [("20261101T000000Z-made-up", 20), ("20261102T000000Z-made-up", 30)] {
        let (_made, from) = on_disk(&nginx(200, cpu_us));
        let to = scratch.path().join("results").join(name);
        std::fs::create_dir_all(&to).expect("made");
        for file in ["run.json", "trials.jsonl"] {
            std::fs::copy(from.join(file), to.join(file)).expect("copied");
        }
    }
    let budget = scratch.file("b.yaml", "- { metric: cpu_us_per_request, max: 25us }\n");
    let (old, elsewhere) = ("results/20261101T000000Z-made-up", scratch.path().join("results/made-up"));
    let budget = budget.to_str().expect("UTF-8");
    for (arguments, code) in [
        (vec!["report", "made-up"], 0),
        (vec!["report", "latest"], 0),
        (vec!["report", elsewhere.to_str().expect("UTF-8")], 0),
        (vec!["gate", "made-up", "--budget", budget], 3),
        (vec!["gate", old, "--budget", budget, "--baseline", "latest"], 0),
        (vec!["compare", old, "latest", "--fail-on", "worse"], 3),
        (vec!["history", "results", "show", "latest"], 0),
    ] {
        let output = hoptax().current_dir(scratch.path()).args(&arguments).output().expect("runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}{}", text(&output.stdout));
        assert!(
            arguments[0] == "history" || said.contains("20261102T000000Z-made-up"),
            "{arguments:?}: which one? {said}"
        );
    }
    std::fs::write(scratch.path().join("plan.yaml"), "gateways: [nginx]\n").expect("written");
    for (typed, what) in [
        ("unknown", "there is no run unknown: neither a directory nor the name of a measured plan"),
        ("plan.yaml", "plan.yaml is a file, not a run directory"),
        ("results", "results is not a run directory: it has no run.json"),
    ] {
        for verb in ["report", "gate", "compare"] {
            let output = hoptax().current_dir(scratch.path()).args([verb, typed]).output().expect("runs");
            let said = text(&output.stderr);
            assert!(!output.status.success(), "{verb} {typed}: {}", text(&output.stdout));
            assert!(said.contains(what) && said.contains("`hoptax history list`"), "{verb} {typed}: {said}");
        }
    }
}

#[test]
fn two_gateways_of_one_run_are_paired() {
    let (_below, dir) = on_disk(&sample());
    let report =
        json(hoptax().arg("compare").arg(&dir).args(["--labels", "haproxy,nginx", "--format", "json"]));
    assert_eq!((&report["paired"], &report["verdict"]), (&true.into(), &"worse".into()), "{report}");
    let direct =
        json(hoptax().arg("compare").arg(&dir).args(["--labels", "direct,nginx", "--format", "json"]));
    assert!(direct["rows"].as_array().expect("rows").iter().any(|row| row["verdict"] == "worse"));
}

#[test]
fn comparing_a_void_run_exits_with_4() {
    let mut broken = nginx(200, 20);
    for round in 6..12 {
        broken.push(via("nginx", round).errors(9000));
    }
    let ((_one, a), (_two, b)) = (on_disk(&nginx(200, 20)), on_disk(&broken));
    let reported = compare(&[&a, &b]);
    assert_eq!(reported.status.code(), Some(4), "{}", text(&reported.stdout));
    assert!(text(&reported.stdout).contains("Void"), "{}", text(&reported.stdout));
    assert_eq!(compare(&[&a, &b, &"--accept-void"]).status.code(), Some(0));
}

#[test]
fn gates_a_run_by_a_file_and_a_baseline() {
    let scratch = Scratch::new();
    let (_one, base) = on_disk(&nginx(200, 20));
    let (_two, dir) = on_disk(&nginx(200, 30));
    let absolute =
        scratch.file("a.yaml", "- { metric: p99, max: 1ms }\n- { metric: cpu_us_per_request, max: 25us }\n");
    let junit = scratch.path().join("junit.xml");
    let reported = gate(&[&dir, &"--budget", &absolute, &"--junit", &junit]);
    assert_eq!(reported.status.code(), Some(3), "{}", text(&reported.stderr));
    let words = text(&reported.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" 2 budgets, 1 ") && words.contains(" 25 µs"), "{words}");
    let xml = std::fs::read_to_string(&junit).expect("written");
    let document = roxmltree::Document::parse(&xml).expect("XML");
    let failures = document.descendants().filter(|node| node.has_tag_name("failure"));
    assert_eq!(failures.count(), 1, "{xml}");
    assert_eq!(gate(&[&base, &"--budget", &absolute]).status.code(), Some(0));

    let relative = scratch.file("r.yaml", "- { gateway: nginx, metric: cpu_us_per_request, max: +10% }\n");
    let reported = gate(&[&dir, &"--budget", &relative, &"--baseline", &base, &"--format", &"markdown"]);
    assert_eq!(reported.status.code(), Some(3), "{}", text(&reported.stderr));
    assert!(text(&reported.stdout).contains("+49.9 %"), "{}", text(&reported.stdout));
    let same = gate(&[&dir, &"--budget", &relative, &"--baseline", &dir]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
    // Two runs scatter by about 8 %, so they do not decide a limit of 5 %.
    let narrow = scratch.file("n.yaml", "- { gateway: nginx, metric: cpu_us_per_request, max: +5% }\n");
    let undecided = gate(&[&dir, &"--budget", &narrow, &"--baseline", &dir]);
    assert_eq!(undecided.status.code(), Some(5), "{}", text(&undecided.stdout));
    let words = text(&undecided.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("inconclusive") && words.contains("against"), "{words}");
    let passed = gate(&[
        &dir,
        &"--budget",
        &narrow,
        &"--baseline",
        &dir,
        &"--inconclusive",
        &"pass",
        &"--junit",
        &junit,
    ]);
    assert_eq!(passed.status.code(), Some(0), "{}", text(&passed.stdout));
    let xml = std::fs::read_to_string(&junit).expect("written");
    let document = roxmltree::Document::parse(&xml).expect("XML");
    let skipped = document.descendants().find(|node| node.has_tag_name("skipped")).expect("skipped");
    assert!(skipped.attribute("message").is_some_and(|message| message.contains("must be")), "{xml}");
    let report = json(
        hoptax()
            .arg("gate")
            .arg(&dir)
            .arg("--budget")
            .arg(&relative)
            .arg("--baseline")
            .arg(&base)
            .args(["--format", "json"]),
    );
    assert_eq!(
        (&report["kept"], &report["budget"][0]["outcome"]),
        (&false.into(), &"exceeded".into()),
        "{report}"
    );
}

#[test]
fn mistakes_in_a_budget_file_are_reported_with_their_place() {
    let scratch = Scratch::new();
    let (_one, dir) = on_disk(&nginx(200, 20));
    let place = scratch.path().display().to_string();
    let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
    let told = [
        "- { metric: cpu, max: 1ms }\n",
        "- { gateway: ngnix, metric: p50, max: 1ms }\n",
        "- { metric: p50, max: +10% }\n",
        "budget:\n- { metric: p50, max: 1ms }\n",
        "- { metric: p50, max: 1ms, load: { loop: open } }\n",
    ]
    .map(|content| {
        let refused = gate(&[&dir, &"--budget", &scratch.file("b.yaml", content)]);
        assert_eq!(refused.status.code(), Some(2), "{content}");
        let reported = text(&refused.stderr).replace(&dir.display().to_string(), "RUN");
        format!("{content}=> {}", reported.replace(&name, "RUN").replace(&place, "PLACE"))
    })
    .concat();
    let none = gate(&[&dir]);
    assert_eq!(none.status.code(), Some(2));
    insta::assert_snapshot!(told + &text(&none.stderr).replace(&name, "RUN"));
}

/// Two real runs of the built-in hop. In the second run, the hop also spends CPU time on each request: ten
/// times as long as a request normally takes. `compare` and `gate` must find this difference between the
/// runs. `compare` must also find the difference within one run.
#[test]
fn a_planted_slowdown_is_found_between_real_runs() {
    let of = |planted: &str| {
        let scratch = Scratch::new();
        let plan = format!(
            "name: planted
gateways: [{{ name: hop-l7, label: main }}, {{ name: hop-l7, label: pr{planted} }}]
load: [{{ loop: closed, connections: 4, duration: 200ms }}]
trials: 8
warmup: 50ms
upstream: {{ body: 64B }}
budget: [{{ gateway: pr, metric: cpu_us_per_request, against: main, max: +50% }}]
"
        );
        let output = run(&scratch, &plan, &["--accept-void"]);
        (scratch, output)
    };
    let verdict = |runs: &[&Path], labels: &str| {
        let mut command = hoptax();
        command.arg("compare").args(runs).args(["--labels", labels, "--format", "json", "--accept-void"]);
        let output = command.output().expect("runs");
        let reported: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        reported["verdict"].as_str().expect("a verdict").to_owned()
    };
    // Bursts of steal in either run can make intervals very wide. Then both runs are repeated.
    retry_if_disturbed(|| {
        let ((clean, kept), (slow, exceeded)) = (of(""), of(", delay: { in: 400us, how: spin }"));
        let (before, after) = (run_directory(&clean), run_directory(&slow));
        let verdicts = [
            verdict(&[&after], "main,pr"),
            verdict(&[&before, &after], "pr,pr"),
            verdict(&[&after, &before], "pr,pr"),
        ];
        let codes = [&kept, &exceeded].map(|output| output.status.code());
        if codes != [Some(0), Some(3)] || verdicts != ["worse", "worse", "better"] {
            let reported = [kept.stdout, exceeded.stdout].map(|reported| text(&reported)).join("\n");
            return Err(format!(
                "the budgets' exit codes are {codes:?}, the verdicts {verdicts:?}\n{reported}"
            ));
        }
        assert!(text(&exceeded.stdout).contains("against main"), "{}", text(&exceeded.stdout));
        Ok(())
    });
}

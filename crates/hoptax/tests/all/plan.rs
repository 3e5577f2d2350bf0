//! Commands that only read and write plans: `check`, `init`, `schema`.

use crate::kubernetes_lab;
use crate::support::{hoptax, json};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        hoptax().current_dir(directory).args(arguments).output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_plan_of_the_repository_checks() {
    let mut names = Vec::new();
    for entry in fs::read_dir(repository().join("plans")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let lab = kubernetes_lab::fake_lab_for(&path);
            let plan = lab.as_ref().map_or(path.clone(), |lab| lab.path().join("plans/plan.yaml"));
            let (code, out, err) = run(&repository(), &["check", plan.to_str().unwrap()]);
            assert_eq!(code, 0, "{}: {err}", path.display());
            assert!(out.contains("takes about"), "{out}");
            names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    let readme = fs::read_to_string(repository().join("plans/README.md")).unwrap();
    for name in ["quickstart", "mix", "kong-notes", "round-robin-15k"] {
        assert!(names.iter().any(|other| other == name), "{name} is missing");
    }
    for name in names {
        assert!(readme.contains(&format!("[{name}]({name}.yaml)")), "plans/README.md does not list {name}");
    }
}

/// Kong and Ocelot compile while they run. A fixed warm-up is too short for them, so a plan with it gives its
/// reason in a comment above.
#[test]
fn plans_with_gateways_that_compile_warm_up_until_settled_or_say_why_not() {
    for (name, is_fixed) in [("kong-notes", false), ("round-robin-15k", true)] {
        let path = repository().join(format!("plans/{name}.yaml"));
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let fixed = lines.iter().position(|line| line.starts_with("warmup:"));
        assert_eq!(fixed.is_some(), is_fixed, "{name}");
        assert!(fixed.is_none_or(|at| lines[at - 1].starts_with("# ")), "{name} does not say why");
        let (code, out, err) = run(&repository(), &["check", path.to_str().unwrap()]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(out.contains("each process until it gets no faster"), !is_fixed, "{out}");
        assert!(text.contains("instead_of: kong") && text.contains("not_comparable:"), "{name}");
    }
}

#[test]
fn check_lists_the_cases_as_json() {
    let (code, out, err) = run(
        &repository(),
        &["check", "plans/quickstart.yaml", "--json", "--set", "trials=2", "--set", "seed=7"],
    );
    assert_eq!((code, err.as_str()), (0, ""));
    let outlook: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(outlook["contenders"][0]["label"], "direct");
    assert_eq!(outlook["contenders"].as_array().unwrap().len(), 5);
    assert_eq!((outlook["cases"].as_u64(), outlook["trials"].as_u64()), (Some(10), Some(24)));
    assert_eq!(outlook["seed"], 7);
    assert_eq!(outlook["load"][0]["rate"], 1000.0);
}

#[test]
fn the_quickstart_fits_into_four_minutes() {
    let (_, out, _) = run(&repository(), &["check", "plans/quickstart.yaml", "--json"]);
    let outlook: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = outlook["expected_s"].as_f64().unwrap();
    assert!(expected < 240.0, "{expected} s leaves no margin");
}

/// The pack of Spring Cloud Gateway names code that the JVM generates, and nginx's does not.
#[test]
fn check_counts_the_restarts_of_gateways_that_generate_code() {
    let expected = |gateway: &str, warmup: &str| {
        let directory = tempfile::tempdir().unwrap();
        let plan = format!(
            "gateways: [{gateway}]\nload: [{{ loop: closed, connections: 1, duration: 1s }}]\ntrials: \
             8\n{warmup}"
        );
        fs::write(directory.path().join("x.yaml"), plan).unwrap();
        let (_, out, err) = run(directory.path(), &["check", "x.yaml", "--json"]);
        let outlook: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
        outlook["expected_s"].as_f64().expect("a time")
    };
    let longer = |warmup| expected("spring-cloud-gateway", warmup) - expected("nginx", warmup);
    assert!((longer("") - 117.1).abs() < 1e-6, "{}", longer(""));
    assert!(longer("warmup: 1s\n").abs() < 1e-6, "nobody then knows who generates code");
}

#[test]
fn a_mistake_exits_with_2_and_names_the_place() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("x.yaml"),
        "gateways: [ngnix]\nload: [{ loop: closed, connections: 1 }]\n",
    )
    .unwrap();
    let (code, out, err) = run(directory.path(), &["check", "x.yaml"]);
    assert_eq!((code, out.as_str()), (2, ""));
    insta::assert_snapshot!(err);
}

#[test]
fn a_missing_or_binary_plan_exits_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let (code, _, err) = run(directory.path(), &["check", "missing.yaml"]);
    assert_eq!(code, 2);
    assert!(err.contains("missing.yaml") && err.contains("hoptax init"), "{err}");
    fs::write(directory.path().join("binary.yaml"), b"name: \xff\n").unwrap();
    let (code, _, err) = run(directory.path(), &["check", "binary.yaml"]);
    assert_eq!(code, 2);
    assert!(err.contains("offset 6"), "{err}");
    let (code, ..) = run(directory.path(), &["check"]);
    assert_eq!(code, 2, "no plan was named");
}

/// hoptax must refuse an endless or oversized file, both as the plan itself and as a file that a plan or an
/// option names.
#[test]
fn endless_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let below = |name: &str| directory.path().join(name).display().to_string();
    assert!(Command::new("mkfifo").arg(below("fifo")).status().unwrap().success());
    fs::File::create(below("large")).unwrap().set_len(10 << 30).unwrap();
    let refused = |arguments: &[&str], stdin: Stdio, part: &str| {
        let begun = Instant::now();
        let output = hoptax().args(arguments).current_dir(directory.path()).stdin(stdin).output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && reported.contains(part), "{arguments:?}: {reported}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{arguments:?} took {:?}", begun.elapsed());
    };
    let load = ["load", "http://127.0.0.1:9"];
    for (file, part) in [
        ("/dev/urandom", "it is a device"),
        ("/dev/zero", "it is a device"),
        ("fifo", "it is a named pipe"),
        ("large", "it is larger than"),
        (".", "irectory"),
    ] {
        for named in [
            &["check", file][..],
            &["load", "--spec", file],
            &[&load[..], &["--targets", file]].concat(),
            &[&load[..], &["--body", &format!("@{file}")]].concat(),
            &[&load[..], &["--expect-body-equals", &format!("@{file}")]].concat(),
            &["load", &format!("http://127.0.0.1:9/{{{{line {file}}}}}")],
            &["load", "https://127.0.0.1:9", "--ca", file],
            &["serve", "--root", ".", "--token-file", file],
        ] {
            refused(named, Stdio::null(), part);
        }
    }
    let urandom = || Stdio::from(fs::File::open("/dev/urandom").unwrap());
    refused(&["load", "--spec", "-"], urandom(), "it is a device");
    refused(&["check", "/dev/stdin"], urandom(), "it is a device");
    let smallest = "printf 'gateways: [hop-l4]\nload: [{ loop: closed, connections: 1, duration: 1s }]\n'";
    let script = format!("\"$0\" check <({smallest}) && {smallest} | \"$0\" check /dev/stdin");
    let output = Command::new("bash").args(["-c", &script]).arg(hoptax().get_program()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_body_file_is_found_beside_the_plan() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    let plan =
        "upstream: { body: { file: answer.json } }\ngateways: []\nload: [{ loop: closed, connections: 1 }]\n";
    fs::write(directory.path().join("sub/x.yaml"), plan).unwrap();
    let (code, _, err) = run(directory.path(), &["check", "sub/x.yaml"]);
    assert_eq!(code, 2, "{err}");
    fs::write(directory.path().join("sub/answer.json"), "{}").unwrap();
    let (code, _, err) = run(directory.path(), &["check", "sub/x.yaml"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn init_writes_a_plan_once() {
    let directory = tempfile::tempdir().unwrap();
    let (code, out, _) = run(directory.path(), &["init"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(out);
    let text = fs::read_to_string(directory.path().join("hoptax.yaml")).unwrap();
    let schema =
        text.lines().next().unwrap().strip_prefix("# yaml-language-server: $schema=").expect("for editors");
    let (_, printed, _) = run(directory.path(), &["generate", "schema"]);
    assert_eq!(fs::read_to_string(directory.path().join(schema)).unwrap(), printed);
    let (code, _, err) = run(directory.path(), &["check", "hoptax.yaml"]);
    assert_eq!(code, 0, "{err}");

    fs::write(directory.path().join("hoptax.yaml"), "mine").unwrap();
    let (code, _, err) = run(directory.path(), &["init"]);
    assert_eq!(code, 2);
    assert!(err.contains("--force"), "{err}");
    assert_eq!(fs::read_to_string(directory.path().join("hoptax.yaml")).unwrap(), "mine");
    assert_eq!(run(directory.path(), &["init", "--force"]).0, 0);
    assert_eq!(run(directory.path(), &["check", "hoptax.yaml"]).0, 0);

    let (code, _, err) = run(directory.path(), &["init", "no/such/folder.yaml"]);
    assert_eq!(code, 1);
    assert!(err.contains("no/such/folder.yaml"), "{err}");
}

const PACK: &str = r#"
name: absent
summary: A gateway that no machine has.
binary: no-such-program-anywhere
version: { command: ["{{ binary }}", "-v"], pattern: "(.*)" }
install: { apt: apt install absent }
start: ["{{ binary }}", "--port", "{{ port }}"]
ready: { path: /, port: main, status: 200, timeout: 5s }
access_log: stdout
"#;

#[test]
fn check_names_gateways_that_are_not_installed() {
    let directory = tempfile::tempdir().unwrap();
    let pack = directory.path().join("packs/absent");
    fs::create_dir_all(&pack).unwrap();
    fs::write(pack.join("gateway.yaml"), PACK).unwrap();
    fs::write(
        directory.path().join("x.yaml"),
        "gateways: [absent, hop-l4]\nload: [{ loop: closed, connections: 1 }]\n",
    )
    .unwrap();
    let (code, out, err) = run(directory.path(), &["check", "x.yaml", "--packs", "packs"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("apt install absent"), "{out}");
    let (_, out, _) = run(directory.path(), &["check", "x.yaml", "--packs", "packs", "--json"]);
    let outlook: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(outlook["not_installed"][0]["pack"], "absent");
    let (code, _, err) = run(directory.path(), &["check", "x.yaml", "--packs", "nowhere"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn check_warns_of_a_running_gateway_that_cannot_know_the_upstreams_port() {
    let directory = tempfile::tempdir().unwrap();
    let there = "{ url: \"http://127.0.0.1:8080\" }";
    for (upstream, warns) in [("{}", true), ("{ port: 8080 }", false), (there, false)] {
        let plan = format!(
            "upstream: {upstream}\ngateways: [{{ name: external, label: mine, url: \
             \"http://127.0.0.1:9000\" }}]\n\
             load: [{{ loop: closed, connections: 1 }}]\n"
        );
        fs::write(directory.path().join("x.yaml"), plan).unwrap();
        let (code, out, err) = run(directory.path(), &["check", "x.yaml"]);
        assert_eq!((code, out.contains("`mine` cannot forward")), (0, warns), "{upstream}: {out}{err}");
    }
}

/// The pack's program is looked for in every directory of the search path, so `sh` counts as installed.
#[test]
fn check_says_which_gateway_replaces_another() {
    let directory = tempfile::tempdir().unwrap();
    let plan = "gateways: [absent, { name: hop-l4, instead_of: absent, not_comparable: its plugins }]
load: [{ loop: closed, connections: 1 }]
";
    fs::write(directory.path().join("x.yaml"), plan).unwrap();
    let pack = directory.path().join("packs/absent");
    fs::create_dir_all(&pack).unwrap();
    for (binary, note, measured) in [
        ("no-such-program-anywhere", "absent is not installed, and hop-l4 replaces it", "hop-l4"),
        ("sh", "hop-l4 is left out, because absent is installed", "absent"),
    ] {
        fs::write(pack.join("gateway.yaml"), PACK.replace("no-such-program-anywhere", binary)).unwrap();
        let (code, out, err) = run(directory.path(), &["check", "x.yaml", "--packs", "packs"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(&format!("note: {note}")) && !out.contains("To install it"), "{out}");
        let (_, out, _) = run(directory.path(), &["check", "x.yaml", "--packs", "packs", "--json"]);
        let outlook: Value = serde_json::from_str(&out).unwrap();
        let labels: Vec<_> =
            outlook["contenders"].as_array().unwrap().iter().map(|one| &one["label"]).collect();
        assert_eq!(labels, ["direct", measured], "{out}");
        assert_eq!(outlook["replaced"][0], note);
    }
}

#[test]
fn check_and_run_refuse_plans_that_do_not_fit_and_leave_out_load_points() {
    const LEFT_OUT: &str = "left out: closed, 400 connections. ";
    let directory = tempfile::tempdir().unwrap();
    let plan = |connections: &str| {
        format!(
            "gateways: [hop-l4]\nload: [{{ loop: closed, connections: {connections}, duration: 100ms }}]\n\
             trials: 2\nwarmup: 0s\n"
        )
    };
    let verb = |verb: &str, connections: &str| {
        fs::write(directory.path().join("plan.yaml"), plan(connections)).unwrap();
        let limited = "ulimit -n 500; exec \"$0\" \"$1\" plan.yaml";
        let mut command = Command::new("sh");
        command.args(["-c", limited]).arg(hoptax().get_program()).arg(verb).current_dir(directory.path());
        let output = command.output().expect("sh starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for refusing in ["check", "run"] {
        let (code, out, err) = verb(refusing, "1000");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{refusing}: {err}");
        assert!(err.contains(" 218 "), "{refusing}: {err}");
    }
    assert!(!directory.path().join("results").exists(), "nothing was begun");
    let (code, out, err) = verb("check", "[4, 400]");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains(LEFT_OUT) && out.contains("2 contenders × 1 load point = 2"), "{out}");
    let (code, out, err) = verb("run", "[4, 400]");
    assert!(err.contains(LEFT_OUT), "{err}");
    assert!(code.is_some_and(|code| code == 0 || code == 4), "{code:?}: {err}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("do not fit").count(), 1, "said once: {out}");
    let results = fs::read_dir(directory.path().join("results")).expect("there").flatten();
    let run = results.map(|entry| entry.path()).find(|path| path.join("run.json").exists()).expect("a run");
    let report = json(hoptax().arg("report").arg(run).args(["--format", "json"]));
    let cases = report["cases"].as_array().expect("a list");
    let large: Vec<&Value> = cases.iter().filter(|case| case["load"]["connections"] == 400).collect();
    assert_eq!(large.len(), 2, "direct and the hop");
    assert!(
        large.iter().all(|case| case["failed"]["stage"] == "left-out" && case["trials"] == 0),
        "{large:?}"
    );
    assert_eq!(report["trials_recorded"], 2 * 3, "only the load point that fits");
}

#[test]
fn init_does_not_offer_to_overwrite_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (code, _, err) = run(directory.path(), &["init", ".", "--force"]);
    assert_eq!(code, 2);
    assert!(err.contains("./hoptax.yaml"), "{err}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = hoptax().args(["generate", "schema"]).stdout(writer).output().expect("the binary starts");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(1), ""));
}

//! Findings from probes, each with a real cause: limited CPU time, limits of gateways, unequal logs. Also
//! tests `hoptax hosts bandwidth`.

use crate::run::{report, run, run_directory, text, trials};
use crate::support::planted_pack::altered;
use crate::support::{Json, Scratch, hoptax, json, refusals, skip, succeed};
use crate::world::exe;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn findings(document: &Json, code: &str) -> Vec<Json> {
    let all = document["findings"].as_array().expect("a list");
    all.iter().filter(|finding| finding["code"] == code).cloned().collect()
}

#[test]
fn only_limits_that_gateways_reached_are_found() {
    needs!("envoy", "nginx");
    let scratch = Scratch::new();
    let packs = scratch.path().join("packs");
    altered(
        &packs,
        "envoy",
        "tight-envoy",
        &[
            ("envoy.yaml.j2", "max_connections: 1000000000", "max_connections: 1"),
            ("envoy.yaml.j2", "max_pending_requests: 1000000000", "max_pending_requests: 1"),
        ],
    );
    let connections = "{{ [[connections * (streams + 1) + 512, 1024] | max, descriptors] | min }}";
    altered(&packs, "nginx", "tight-nginx", &[("nginx.conf.j2", connections, "16")]);
    let plan = "gateways: [tight-envoy, tight-nginx, envoy, nginx, haproxy]
load: [{ loop: closed, connections: 24, duration: 300ms }]
trials: 1
warmup: 50ms
upstream: { delay: 20ms }
";
    let packs = packs.to_str().expect("text");
    let output = run(&scratch, plan, &["--accept-void", "--packs", packs]);
    let document = report(&run_directory(&scratch));
    let hit = findings(&document, "hidden-limit");
    let counters = |label: &str| -> Vec<&str> {
        let of =
            hit.iter().filter(|finding| finding["case"].as_str().is_some_and(|case| case.starts_with(label)));
        of.map(|finding| finding["evidence"]["counter"].as_str().expect("a name")).collect()
    };
    let said = text(&output.stderr);
    assert!(counters("tight-envoy").contains(&"max_pending_requests_hit"), "{hit:#?}\n{said}");
    assert!(counters("tight-nginx").contains(&"worker_connections_hit"), "{hit:#?}\n{said}");
    for label in ["envoy,", "nginx,", "haproxy,"] {
        assert_eq!(counters(label), Vec::<&str>::new(), "{label} {hit:#?}");
    }
    for trial in trials(&run_directory(&scratch)).iter().filter(|trial| trial["contender"] == "haproxy") {
        assert_eq!(trial["gateway_counters"]["upstream_connect_errors"], 0.0, "it could be read: {trial}");
    }
}

#[test]
fn unequal_logs_are_found() {
    needs!("nginx");
    let scratch = Scratch::new();
    let packs = scratch.path().join("packs");
    altered(
        &packs,
        "nginx",
        "chatty",
        &[(
            "nginx.conf.j2",
            "access_log {{ access_log if access_log else \"off\" }};",
            "access_log {{ log_dir }}/access.log;",
        )],
    );
    let load =
        "load: [{ loop: closed, connections: 4, requests: 2500, duration: 30s }]\ntrials: 1\nwarmup: 0s\n";
    let packs = packs.to_str().expect("text");
    let plan = format!("name: logs\ngateways: [nginx, chatty, hop-l7]\n{load}");
    run(&scratch, &plan, &["--accept-void", "--packs", packs]);
    let found = findings(&report(&run_directory(&scratch)), "logging-unequal");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["evidence"]["most"], &found[0]["evidence"]["least"]),
        (&"chatty".into(), &"nginx".into())
    );

    let scratch = Scratch::new();
    let plan =
        format!("name: logs\naccess_log: file\ngateways: [nginx, {{ name: nginx, label: other }}]\n{load}");
    run(&scratch, &plan, &["--accept-void"]);
    assert_eq!(findings(&report(&run_directory(&scratch)), "logging-unequal"), Vec::<Json>::new());
    let logged = trials(&run_directory(&scratch));
    let bytes = logged.iter().filter_map(|trial| trial["gateway_log_bytes"].as_u64());
    assert!(bytes.min().is_some_and(|bytes| bytes > 2500 * 40), "a line for each request");
}

/// A control group that may use a fifth of a CPU. It is removed when dropped.
struct LimitedCgroup(PathBuf);

impl LimitedCgroup {
    /// Creates the control group, with cgroup version 1 or 2. Fails if this process has no permission to do
    /// so.
    fn make() -> std::io::Result<Self> {
        let name = format!("hoptax-test-{}", std::process::id());
        let one = Path::new("/sys/fs/cgroup/cpu").join(&name);
        if std::fs::create_dir(&one).is_ok() {
            let cgroup = Self(one);
            std::fs::write(cgroup.0.join("cpu.cfs_quota_us"), "20000")?;
            return Ok(cgroup);
        }
        let two = Path::new("/sys/fs/cgroup").join(&name);
        std::fs::create_dir(&two)?;
        let cgroup = Self(two);
        std::fs::write(cgroup.0.join("cpu.max"), "20000 100000")?;
        Ok(cgroup)
    }
}

impl Drop for LimitedCgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cpu_limit_that_throttles_is_found() {
    let cgroup = match LimitedCgroup::make() {
        Ok(cgroup) => cgroup,
        Err(error) => {
            return skip(format!("no cgroup can be made: {error}"));
        }
    };
    let scratch = Scratch::new();
    let plan = "name: limited\ngateways: [hop-l7]\nload: [{ loop: closed, connections: 8, duration: 1s }]\n\
                trials: 1\nwarmup: 0s\ntimeout: 30s\n";
    let plan = scratch.file("plan.yaml", plan);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(&cgroup.0).arg(exe());
    command.args(["run", "--accept-void", "--out"]).arg(scratch.path()).arg(plan);
    succeed(&mut command);
    let found = findings(&report(&run_directory(&scratch)), "throttled");
    let roles: Vec<&str> = found.iter().filter_map(|finding| finding["evidence"]["role"].as_str()).collect();
    for role in ["generator", "gateway", "upstream"] {
        assert!(roles.contains(&role), "{found:#?}");
    }
}

#[test]
fn every_trial_records_the_probes_samples() {
    let scratch = Scratch::new();
    let plan = "name: seen\nupstream: { body: 64KiB }\ngateways: [hop-l7]\n\
                load: [{ loop: closed, connections: 2, duration: 300ms }]\ntrials: 1\nwarmup: 0s\n";
    run(&scratch, plan, &["--accept-void"]);
    let directory = run_directory(&scratch);
    for trial in trials(&directory) {
        let windows = trial["load_record"]["windows"].as_array().expect("windows").len();
        for role in ["generator", "upstream", "gateway"] {
            let usage = &trial[role];
            if role == "gateway" && trial["contender"] == "direct" {
                assert!(usage.is_null(), "{usage}");
                continue;
            }
            assert!(usage["cpus_allowed"].as_array().is_some_and(|cpus| !cpus.is_empty()), "{role}: {usage}");
            assert!(usage["busy_threads"].as_u64().is_some_and(|busy| busy >= 1), "{role}: {usage}");
            let memory = usage["rss_bytes_by_window"].as_array().expect("a list");
            assert_eq!(memory.len(), windows, "{role}");
            assert!(
                memory.iter().all(|bytes| bytes.as_u64().is_some_and(|bytes| bytes > 100_000)),
                "{usage}"
            );
        }
        assert!(trial["network"]["segments_sent"].as_u64().is_some_and(|sent| sent > 10), "{trial}");
        assert!(trial["host"]["load_average"].is_number(), "{trial}");
    }
    let record = std::fs::read_to_string(directory.join("run.json")).expect("there");
    let record: Json = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["link"]["message_bytes"], 65_536);
    assert!(record["link"]["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{}", record["link"]);
}

#[test]
fn bandwidth_is_measured_on_loopback_and_to_a_receiver() {
    let short = ["--repeats", "3", "--duration", "20ms", "--json"];
    let here = json(hoptax().args(["hosts", "bandwidth", "--size", "1MiB"]).args(short));
    assert_eq!((&here["to"], &here["message_bytes"]), (&"loopback".into(), &1_048_576.into()));
    let rate = &here["bytes_per_second"];
    assert!(rate["low"].as_f64() <= rate["estimate"].as_f64() && rate["trials"] == 3, "{here}");

    let mut receiver = hoptax()
        .args(["hosts", "bandwidth", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut line = String::new();
    BufReader::new(receiver.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let ready: Json = serde_json::from_str(&line).expect("JSON");
    let address = ready["listen"].as_str().expect("an address");
    let there = json(hoptax().args(["hosts", "bandwidth", address, "--echo", "--size", "100B"]).args(short));
    receiver.kill().expect("it is there");
    receiver.wait().expect("it ends");
    assert_eq!((&there["to"], &there["echo"]), (&address.into(), &true.into()));
    assert!(
        there["repeats"]
            .as_array()
            .is_some_and(|all| all.iter().all(|once| once["bytes"].as_u64() >= Some(100)))
    );
}

#[test]
fn bandwidth_reports_wrong_arguments() {
    let lines = [&["--size", "0B"][..], &["--size", "ten"], &["nowhere"]];
    insta::assert_snapshot!(refusals::refusals(&["hosts", "bandwidth"], &lines));
    let nobody = crate::wire::UnusedAddress::new();
    let output =
        hoptax().args(["hosts", "bandwidth", &nobody.address.to_string()]).output().expect("it runs");
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("--listen"), "{said}");
}

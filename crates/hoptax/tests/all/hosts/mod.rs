//! Runs whose roles are on machines of their own, over a real `sshd`: from the plan to the report, and with
//! every fault that such machines have.

mod machines;

use crate::run::{case, report, text, trials};
use crate::support::{Json, PATIENCE, json, skip, wait_until};
use hoptax_host::programs::{find_in, search_path};
use hoptax_plan::HostKind;
use machines::{Network, PROGRAM, kill, run_directories};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Three machines, one for each role of the plan.
const MACHINES: [&str; 3] = ["client", "edge", "app"];

/// A gateway and its upstream on one machine. Only one leg is measured, at the start and at the end, so a run
/// is shorter by eight seconds.
const TWO_MACHINES: [&str; 2] = ["client", "edge"];

/// A plan for the machines of a network. All have hoptax.
fn plan(network: &Network, gateway: &str, rest: &str) -> String {
    let names = network.names();
    let host = |name: &&str| {
        let address = network.address(name);
        format!("  {name}: {{ ssh: {name}, address: {address}, hoptax: {PROGRAM} }}\n")
    };
    let hosts: String = names.iter().map(host).collect();
    let upstream = names[names.len() - 1];
    format!(
        "name: machines\ngateways: [{gateway}]\nhosts:\n{hosts}roles: {{ generator: client, gateway: edge, \
        upstream: {upstream} }}\n{rest}"
    )
}

const LOAD: &str = "load: [{ loop: open, rate: 300/s, connections: 4, duration: 300ms }]\n";

fn is_installed(program: &str) -> bool {
    let found = find_in(program, &search_path()).is_some();
    if !found {
        skip(format!("{program} is not installed"));
    }
    found
}

/// Messages of the failures of all trials.
fn failures(trials: &[Json]) -> Vec<String> {
    let failed = trials.iter().filter_map(|trial| trial["failed"]["message"].as_str());
    failed.map(str::to_owned).collect()
}

/// Runs a plan, which must succeed. Returns the run's directory, its standard error and its standard output.
fn measured(network: &Network, plan: &str) -> (PathBuf, String, String) {
    let output = network.run(plan, &["--accept-void"]);
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{said}\n{printed}");
    (run_directories(network.scratch.path()).remove(0), said, printed)
}

/// `ssh` must accept the options that hoptax passes, and must not take a word of the command for an option.
#[test]
fn ssh_understands_its_words() {
    skip_if!(!is_installed("ssh"));
    let command = hoptax_plan::commands(&HostKind::Ssh(vec!["edge.invalid".to_owned()])).remove(0);
    // With -G, ssh prints the configuration for the host instead of connecting.
    let printed = Command::new(&command[0])
        .args(["-F", "none", "-G"])
        .args(&command[1..])
        .args(["-p", "2222"])
        .output();
    let printed = printed.expect("it is installed");
    let text = String::from_utf8_lossy(&printed.stdout).to_lowercase();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    for line in [
        "hostname edge.invalid",
        "port 22",
        "batchmode yes",
        "connecttimeout 10",
        "serveraliveinterval 3",
        "controlmaster false",
        "clearallforwardings yes",
        "requesttty false",
    ] {
        assert!(text.lines().any(|one| one == line), "no line `{line}`:\n{text}");
    }
}

#[test]
fn three_machines_are_measured_over_ssh() {
    let Some(network) = Network::make(&MACHINES) else { return };
    skip_if!(!is_installed("nginx"));
    let load = LOAD.replace("duration", "http: 2, streams: 2, duration");
    let plan = plan(&network, "nginx", &format!("{load}trials: 1\nwarmup: 100ms\n"));
    // This machine has no hoptax, so hoptax copies itself.
    let edge = format!("ssh: edge, address: {}", network.address("edge"));
    let plan = plan.replace(&format!("{edge}, hoptax: {PROGRAM}"), &edge);
    let (directory, said, _) = measured(&network, &plan);
    for name in MACHINES {
        assert_eq!(network.processes(name), [], "on {name}");
        assert!(network.agent_directories(name).is_empty(), "on {name}");
        let has_copy = network.files(name).join("home/.cache/hoptax/agent").is_dir();
        assert_eq!(has_copy, name == "edge", "on {name}");
    }
    assert_eq!(said.matches("copying hoptax (").count(), 1, "{said}");
    assert!(said.contains("to host edge"), "{said}");
    assert_eq!(failures(&trials(&directory)), [""; 0]);
    let record = json(Command::new("cat").arg(directory.join("run.json")));
    for (name, role) in [("client", "generator"), ("edge", "gateway"), ("app", "upstream")] {
        let host = &record["hosts"][name];
        assert_eq!(host["environment"]["host"], name, "{host}");
        assert_eq!(host["roles"][0], role, "{host}");
        assert_eq!(host["address"], network.address(name).to_string(), "{host}");
    }
    // The gateway must listen at the address of its machine, and forward to the address of the upstream's
    // machine.
    let rendered = std::fs::read_to_string(directory.join("hosts/edge/rendered/nginx/nginx.conf"));
    let rendered = rendered.expect("copied from the machine");
    assert!(rendered.contains(&format!("listen {}:", network.address("edge"))), "{rendered}");
    assert!(rendered.contains(&format!("server {}:", network.address("app"))), "{rendered}");
    let report = report(&directory);
    let case = |gateway| case(&report, gateway);
    let cpu = &case("nginx")["cpu"];
    assert!(cpu["gateway_us_per_request"].as_f64().is_some_and(|cpu| cpu > 0.0), "{cpu}");
    // nginx forwards HTTP/2 as HTTP/1.1.
    for (gateway, at_upstream) in [("direct", "2"), ("nginx", "1.1")] {
        let (counts, http2) = (&case(gateway)["counts"], &case(gateway)["http2"]);
        assert_eq!(counts["scheduled"], counts["ok"], "{counts}");
        assert!((1..=2).contains(&http2["most_streams"].as_u64().expect("a count")), "{http2}");
        let versions = case(gateway)["ledger"]["http_version"].as_object().expect("counts");
        assert_eq!(versions.keys().collect::<Vec<_>>(), [at_upstream]);
    }

    // The next command finds the copy. With two hosts, it measures only one leg.
    let lines = plan.lines().filter(|line| !line.starts_with("  app: "));
    let two: String = lines.map(|line| line.replace("upstream: app", "upstream: edge") + "\n").collect();
    network.scratch.file("two.yaml", &two);
    let hosts = network.hoptax(&["hosts", "two.yaml", "--json"]).output().expect("it runs");
    assert!(!text(&hosts.stderr).contains("copying"), "{}", text(&hosts.stderr));
    let hosts: Json = serde_json::from_slice(&hosts.stdout).expect("JSON");
    let names: Vec<&str> =
        hosts["hosts"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["client", "edge"]);
    assert_eq!(hosts["hosts"][1]["gateways"][0]["name"], "nginx", "{hosts}");
    assert!(hosts["hosts"][1]["gateways"][0]["version"].is_string(), "{hosts}");
}

#[test]
fn several_clients_send_one_load() {
    let machines = ["one", "two", "edge", "app"];
    let Some(network) = Network::make(&machines) else { return };
    let [edge, app] = ["edge", "app"].map(|name| network.address(name));
    let load = LOAD.replace("duration", "http: 2, streams: 2, from: [clients, edge], duration");
    let plan = format!(
        "name: clients\ngateways: [hop-h2]\n{load}trials: 1\nwarmup: 100ms\nhosts:\n  clients: {{ ssh: [one, \
         two], hoptax: {PROGRAM} }}\n  edge: {{ ssh: edge, address: {edge}, hoptax: {PROGRAM} }}\n  app: {{ \
         ssh: app, address: {app}, hoptax: {PROGRAM} }}\nroles: {{ generator: clients, gateway: edge, \
         upstream: app }}\n"
    );
    let (directory, _, printed) = measured(&network, &plan);
    let trials = trials(&directory);
    assert_eq!(failures(&trials), [""; 0]);
    let (of_clients, of_edge): (Vec<&Json>, Vec<&Json>) = trials.iter().partition(|trial| trial["load"] == 0);
    assert_eq!((of_clients.len(), of_edge.len()), (3, 3));
    assert!(
        of_edge.iter().all(|trial| trial.get("generators").is_none()),
        "one machine sends it: {of_edge:?}"
    );
    for trial in of_clients {
        let parts = trial["generators"].as_array().expect("two");
        let hosts: Vec<&str> = parts.iter().filter_map(|part| part["host"].as_str()).collect();
        assert_eq!(hosts, ["clients-1", "clients-2"]);
        let completed = |part: &Json| part["counts"]["completed"].as_u64().expect("a count");
        let sum: u64 = parts.iter().map(completed).sum();
        assert_eq!(sum, completed(&trial["load_record"]), "{trial}");
        assert!(parts.iter().all(|part| completed(part) > 0), "{trial}");
        let http2 = &trial["load_record"]["http2"];
        assert!((1..=2).contains(&http2["most_streams"].as_u64().expect("a count")), "{http2}");
    }
    // The split needs the legs of every client.
    let report = report(&directory);
    let legs = report["hosts"]["legs"].as_array().expect("legs");
    let legs: Vec<String> = legs
        .iter()
        .map(|leg| format!("{}-{}", leg["from"].as_str().expect("from"), leg["to"].as_str().expect("to")))
        .collect();
    let expected =
        ["clients-1-app", "clients-1-edge", "edge-app", "clients-2-app", "clients-2-edge", "edge-edge"];
    assert_eq!(legs, expected);
    let splits = report["hosts"]["splits"].as_array().expect("a list");
    assert_eq!(splits.len(), 1, "{report}");
    assert!(printed.contains("hop-h2 · clients-2"), "{printed}");
}

/// Round trips that are planted between the client and the other machines, ms.
const TO_EDGE_MS: u64 = 12;
const TO_APP_MS: u64 = 4;

/// The client is far from both machines, and farther from the gateway. The gateway's own machine, and the
/// machine where hoptax runs, are near.
#[test]
fn the_same_load_from_several_machines_shows_the_gateway_from_each() {
    let Some(network) = Network::make(&MACHINES) else { return };
    skip_if!(!is_installed("python3"));
    let Some(_to_edge) = network.delay("client", "edge", TO_EDGE_MS / 2) else { return };
    let Some(_to_app) = network.delay("client", "app", TO_APP_MS / 2) else { return };
    let load =
        "load: [{ loop: open, rate: 100/s, connections: 4, duration: 300ms, from: [client, edge, local] }]\n";
    let plan = plan(&network, "hop-l7", &format!("{load}trials: 3\nwarmup: 50ms\n"));
    let (directory, _, printed) = measured(&network, &plan);
    let all = trials(&directory);
    assert_eq!((failures(&all), all.len()), (vec![], 3 * 3 * 3));
    let record = json(Command::new("cat").arg(directory.join("run.json")));
    let from: Vec<&Json> = (0..3).map(|load| &record["load"][load]["from"]).collect();
    assert_eq!(from, [&Json::Null, &"edge".into(), &"local".into()]);
    assert_eq!(record["hosts"]["edge"]["roles"], serde_json::json!(["generator", "gateway"]));
    assert_eq!(record["hosts"]["local"]["roles"], serde_json::json!(["generator"]));
    // `hosts` of a trial lists the machines that take part in it, except the one that sends its load.
    for trial in &all {
        let others: Vec<&str> =
            trial["hosts"].as_object().expect("hosts").keys().map(String::as_str).collect();
        match trial["load"].as_u64() {
            Some(1) => assert_eq!(others, ["app"], "{trial}"),
            _ => assert_eq!(others, ["app", "edge"], "{trial}"),
        }
        assert!(trial["generator"]["cpu_ns"].as_u64() > Some(0), "{trial}");
        assert_eq!(trial["gateway"].is_null(), trial["contender"] == "direct", "{trial}");
    }

    let report = report(&directory);
    let same = &report["hosts"]["same_loads"];
    let views = same[0]["views"].as_array().unwrap_or_else(|| panic!("{report}"));
    let names: Vec<&str> = views.iter().filter_map(|view| view["from"].as_str()).collect();
    assert_eq!((names, same.as_array().map(Vec::len)), (vec!["client", "edge", "local"], Some(1)));
    let ms = |view: &Json, figure: &str| view[figure]["estimate"].as_f64().expect("measured") / 1e3;
    let planted = |seen: f64, ms: u64| {
        assert!(seen > 0.8 * ms as f64 && seen < 1.8 * ms as f64, "{seen} for {ms}: {same}");
    };
    for near in &views[1..] {
        planted(ms(&views[0], "direct_p50_us") - ms(near, "direct_p50_us"), TO_APP_MS);
        planted(ms(&views[0], "added_p50_us") - ms(near, "added_p50_us"), TO_EDGE_MS - TO_APP_MS);
        planted(-ms(near, "more_us"), TO_EDGE_MS - TO_APP_MS);
        assert!(near["more_us"]["high"].as_f64() < Some(0.0), "{near}");
    }
    // The report has a split for the loads from `client` and `local`. It has none for the load from the
    // gateway's own machine.
    let splits = report["hosts"]["splits"].as_array().expect("a list");
    let loads: Vec<u64> = splits.iter().filter_map(|split| split["load"].as_u64()).collect();
    assert_eq!(loads, [0, 2], "{splits:?}");
    // Each leg is measured for one second. If the machine is busy during that second, the intervals are wide.
    let wire =
        |split: &Json| ["low", "high"].map(|end| split["wire_us"][end].as_f64().expect("batches") / 1e3);
    let [low, high] = wire(&splits[0]);
    assert!(low < 10.0 && high > 6.0, "{splits:?}");
    let [low, high] = wire(&splits[1]);
    assert!(low < 1.0 && high > -1.0, "{splits:?}");
    for part in ["hop-l7 from client", "hop-l7 from edge", "hop-l7 from local", "connections, from edge"] {
        assert!(printed.contains(part), "no `{part}`:\n{printed}");
    }

    for name in MACHINES {
        assert_eq!(network.processes(name), [], "on {name}");
    }
}

#[test]
fn errors_before_a_run_name_the_host_and_what_to_try() {
    let Some(network) = Network::make(&MACHINES) else { return };
    let error = |edge: &str| {
        let plan = plan(&network, "hop-l7", &format!("{LOAD}trials: 1\nwarmup: 100ms\n"));
        let address = network.address("edge");
        let plan = plan.replace(&format!("{{ ssh: edge, address: {address}, hoptax: {PROGRAM} }}"), edge);
        let output = network.run(&plan, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let address = network.address("edge");
    let with = |rest: &str| error(&format!("{{ address: {address}, {rest} }}"));
    let wrong_key = with(&format!("ssh: stranger, hoptax: {PROGRAM}"));
    assert!(wrong_key.contains("host edge: `ssh") && wrong_key.contains("Permission denied"), "{wrong_key}");
    assert!(wrong_key.contains("works without a password"), "{wrong_key}");
    let off = with("ssh: nowhere");
    assert!(off.contains("host edge: `ssh") && off.contains("No route to host"), "{off}");
    let missing = with("ssh: edge, hoptax: /opt/hoptax");
    assert!(missing.contains("status 127"), "{missing}");
    let no_program = with("ssh: edge, hoptax: /tmp/passwd");
    assert!(no_program.contains("126"), "{no_program}");
    let other = with("ssh: edge, hoptax: /bin/echo");
    assert!(other.contains("`agent`"), "{other}");
    let elsewhere = error(&format!("{{ ssh: edge, address: 192.0.2.1, hoptax: {PROGRAM} }}"));
    assert!(elsewhere.contains("host edge: 192.0.2.1 "), "{elsewhere}");
    // The file system has too little space for the copy.
    let home = network.files("edge").join("home");
    let inside = format!("nsenter --mount=/proc/{}/ns/mnt", network.first_process("edge"));
    let mounted = Command::new("sh")
        .args(["-c", &format!("{inside} mount -t tmpfs -o size=1m tmpfs /tmp/home")])
        .output();
    assert!(mounted.expect("sh runs").status.success(), "{}", home.display());
    let full = with("ssh: edge");
    assert!(full.contains("dd of=") && full.contains("No space left"), "{full}");
    // Nothing remains of a run that did not start.
    for name in MACHINES {
        network.assert_nothing_runs(name, Instant::now());
    }
    assert!(run_directories(network.scratch.path()).is_empty());
}

/// Starts a run in which something happens during the first trial, and waits for the run's end. Returns its
/// trials, and what it printed.
fn disturbed(network: &Network, rest: &str, disturb: impl FnOnce(Instant)) -> (Vec<Json>, String) {
    let plan = plan(network, "hop-l7", rest);
    let started = network.command(&plan, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let running = started.expect("it runs");
    wait_until("the generator sends load", PATIENCE, || {
        network.processes("client").iter().any(|(_, command)| command.contains("load"))
    });
    disturb(Instant::now());
    let output = running.wait_with_output().expect("it ends");
    let directory = run_directories(network.scratch.path()).remove(0);
    (trials(&directory), text(&output.stderr) + &text(&output.stdout))
}

const LONG: &str =
    "load: [{ loop: open, rate: 100/s, connections: 2, duration: 1s }]\nwarmup: 100ms\ntrials: 2\n";

#[test]
fn a_connection_that_breaks_costs_a_trial_and_not_the_run() {
    let Some(network) = Network::make(&MACHINES) else { return };
    let (trials, said) = disturbed(&network, LONG, |lost| {
        network.plug("edge", false);
        // The processes on `edge` must end by themselves, because hoptax cannot reach them.
        wait_until("nothing runs on edge", PATIENCE, || network.processes("edge").is_empty());
        assert!(lost.elapsed() < Duration::from_secs(12), "after {:?}", lost.elapsed());
        network.plug("edge", true);
    });
    let failed = failures(&trials);
    assert!(failed.iter().any(|message| message.contains("host edge: ")), "{failed:?}\n{said}");
    let last = trials.iter().rfind(|trial| trial["contender"] == "hop-l7").expect("two rounds");
    assert_eq!(last["failed"], Json::Null, "the host came back: {said}");
    for name in MACHINES {
        network.assert_nothing_runs(name, Instant::now());
    }
}

#[test]
fn a_machine_that_is_rebooted_costs_a_trial_and_not_the_run() {
    let Some(network) = Network::make(&TWO_MACHINES) else { return };
    let (trials, said) = disturbed(&network, LONG, |_| {
        network.stop("client");
        network.start("client");
    });
    let failed = failures(&trials);
    assert!(failed.iter().any(|message| message.contains("host client: ")), "{failed:?}\n{said}");
    let last = trials.last().expect("two rounds");
    assert_eq!(last["failed"], Json::Null, "the host came back: {said}");
}

#[test]
fn a_killed_runner_leaves_nothing_on_any_machine() {
    let Some(network) = Network::make(&TWO_MACHINES) else { return };
    let plan = plan(&network, "hop-l7", &LONG.replace("duration: 1s", "duration: 60s"));
    let mut running =
        network.command(&plan, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    wait_until("the generator sends load", PATIENCE, || {
        network.processes("client").iter().any(|(_, command)| command.contains("load"))
    });
    kill(running.id());
    let lost = Instant::now();
    running.wait().expect("it was killed");
    for name in TWO_MACHINES {
        network.assert_nothing_runs(name, lost);
        assert!(network.agent_directories(name).is_empty(), "on {name}");
    }
}

#[test]
fn a_slow_link_to_a_host_is_no_fault() {
    let Some(network) = Network::make(&TWO_MACHINES) else { return };
    skip_if!(!is_installed("tc"));
    network.shape("edge", "root tbf rate 2mbit burst 16kb latency 400ms");
    let slow = LOAD.replace("300/s", "50/s").replace("300ms", "1s");
    let plan = plan(&network, "hop-l7", &format!("{slow}trials: 1\nwarmup: 100ms\n"));
    let (directory, ..) = measured(&network, &plan);
    assert_eq!(failures(&trials(&directory)), [""; 0]);
}

//! Istio's inbound sidecar: the real Envoy, which intercepts traffic in the network namespace of a run.

use crate::load::KilledOnDrop;
use crate::run::{run_directory, run_to_success, text, trials};
use crate::support::refusals::{refused, refused_plans};
use crate::support::{PATIENCE, Scratch, hoptax, skip, succeed, wait_until};
use crate::world::{Running, driver_for, exe, get, is_missing, pack_gateway, running_plan, started};
use hoptax_format::spec::TargetSpec;
use hoptax_host::tree::descendants;
use hoptax_lab::{Driver as _, verify};
use hoptax_plan::{Gateway, Profile};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Whether interception can be tested on this machine: Envoy must be installed, and the test must run as
/// root.
pub(crate) fn can_intercept() -> bool {
    if is_missing("istio-sidecar") {
        return false;
    }
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("interception needs root");
    }
    root
}

fn sidecar(label: &str, pack: &str) -> Gateway {
    pack_gateway(label, pack, 1, &[])
}

fn output(program: &str, arguments: &[&str]) -> String {
    succeed(Command::new(program).args(arguments))
}

/// Pid of an Envoy that is a descendant of `root` and runs in another network namespace than this test.
/// hoptax also starts an Envoy that only prints its version, but that Envoy runs in the test's namespace.
fn sidecar_below(root: u32) -> Option<u32> {
    let own = std::fs::read_link("/proc/self/ns/net").expect("procfs");
    let inside = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|its| its != own)
            && std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "envoy")
    };
    descendants(root).into_iter().find(inside)
}

/// Number of packets that the redirect to `port` has counted.
fn redirected(inside: u32, port: u16) -> u64 {
    let net = format!("--net=/proc/{inside}/ns/net");
    let rules = output("nsenter", &[&net, "--", "nft", "list", "ruleset"]);
    let rule = rules.lines().find(|line| line.contains(&format!("dport {port} "))).expect(&rules);
    let words: Vec<&str> = rule.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "packets").expect(rule);
    words[at + 1].parse().expect("a count")
}

#[test]
fn traffic_for_the_application_passes_its_sidecar_and_direct_does_not() {
    skip_if!(!can_intercept());
    let gateways = vec![sidecar("default", "istio-sidecar"), sidecar("tuned", "istio-sidecar@tuned")];
    let mut plan = running_plan(gateways);
    plan.profile = Profile::Equalised;
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path());
    let upstream = started(driver.start_upstream());
    let direct = upstream.0.addresses()[0];
    let request =
        || TargetSpec::only("GET", "/some/path?query=1", vec![("host".into(), "echo.com".into())], vec![]);
    let requests = || upstream.0.ledger().expect("kept").expect("present").instances[0].requests;

    let mut sidecars = Vec::new();
    for gateway in &plan.gateways {
        let label = &gateway.label;
        let mut service = started(driver.start_gateway(gateway, &upstream.0.endpoints()));
        let via = service.0.addresses()[0];
        assert_eq!((via.ip(), via != direct), (direct.ip(), true), "{label}: another port of the same host");
        let same = verify::verify(direct, via, &request().into(), &Default::default(), PATIENCE);
        assert_eq!(same, Ok(()), "{label}");

        let inside = sidecar_below(service.0.process().expect("watched").pid).expect("it stands inside");
        let requests_seen = |service: &mut Running| service.0.observe().counters["intercepted_requests"];
        let (packets, seen, served) =
            (redirected(inside, via.port()), requests_seen(&mut service), requests());
        for _ in 0..3 {
            assert_eq!(get(via, "/").status, 200, "{label}");
        }
        assert_eq!(redirected(inside, via.port()) - packets, 3, "{label}: each connection was redirected");
        assert_eq!(requests_seen(&mut service) - seen, 3.0, "{label}: the sidecar saw each request");
        assert_eq!(requests() - served, 3, "{label}: and so did the upstream");
        for _ in 0..3 {
            assert_eq!(get(direct, "/").status, 200);
        }
        assert_eq!(requests_seen(&mut service) - seen, 3.0, "{label}: direct bypasses the sidecar");
        sidecars.push((via, service));
    }

    let log = |label: &str| run.path().join("logs").join(label).join("access.log").exists();
    assert_eq!((log("default"), log("tuned")), (true, false), "which is part of the two variants");
    let (via, mut tuned) = sidecars.pop().expect("two");
    tuned.0.stop();
    let escaped = TcpStream::connect_timeout(&via, Duration::from_secs(2));
    assert!(escaped.is_err(), "without its sidecar the application cannot be reached at its own port");
    assert_eq!(get(direct, "/").status, 200, "though it is there");
    assert_eq!(get(sidecars[0].0, "/").status, 200, "and so is the other sidecar");
}

const PLAN: &str = "name: sidecar\ngateways: [{ name: istio-sidecar, label: sidecar, variant: tuned }]\n\
                    load: [{ loop: closed, connections: 2, duration: 300ms }]\ntrials: 1\nwarmup: 0s\n";

/// Network links, named namespaces and rules of this host that hoptax may have created.
fn traces(interface: &str) -> Vec<String> {
    let links = output("ip", &["-o", "link"]);
    let found = links.lines().filter(|line| line.contains(interface));
    let names = output("ip", &["netns", "list"]);
    let rules = output("nft", &["list", "tables"]);
    let ours = names.lines().chain(rules.lines()).filter(|line| line.contains("hoptax"));
    found.chain(ours).map(str::to_owned).collect()
}

#[test]
fn a_run_measures_the_sidecar_and_cleans_up() {
    skip_if!(!can_intercept());
    let scratch = Scratch::new();
    let trials = trials(&run_to_success(&scratch, PLAN, &["--accept-void"]));
    let via: Vec<_> = trials.iter().filter(|trial| trial["contender"] == "sidecar").collect();
    assert_eq!(via.len(), 1);
    let intercepted = via[0]["gateway_counters"]["intercepted_requests"].as_f64().expect("counted");
    let served = via[0]["ledger"]["requests"].as_f64().expect("counted");
    assert!(served > 0.0 && (intercepted - served).abs() <= 2.0, "{intercepted} of {served}");
    // Interfaces of other runs may exist on this machine, so the test checks only the interface of this run.
    let holder = std::fs::read_dir(run_directory(&scratch).join("logs/namespace"));
    assert!(holder.is_ok(), "it was made");
}

#[test]
fn a_killed_run_leaves_no_namespace_link_or_rule() {
    skip_if!(!can_intercept());
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", PLAN);
    let mut command = hoptax();
    command.arg("run").arg(&plan).args(["--accept-void", "--set", "load.0.duration=10m", "--out"]);
    let started = command.arg(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut killed = KilledOnDrop(started.expect("it starts"));
    // Three processes must start: the namespace's holder, the upstream and Envoy.
    wait_until("the sidecar has started", 3 * PATIENCE, || sidecar_below(killed.0.id()).is_some());
    let inside = sidecar_below(killed.0.id()).expect("just seen");
    let net = format!("--net=/proc/{inside}/ns/net");
    // Inside the namespace, the interface is named eth0@if7. The number is the index of the interface's other
    // end, which is outside.
    let eth0 = output("nsenter", &[&net, "--", "ip", "-o", "link", "show", "eth0"]);
    let number = eth0.split_once("@if").and_then(|(_, rest)| rest.split_once(':')).expect(&eth0).0;
    let links = output("ip", &["-o", "link"]);
    let link = links.lines().find(|line| line.starts_with(&format!("{number}: "))).expect(&links);
    let interface = link.split([' ', '@', ':']).find(|word| word.starts_with("hoptax")).expect(link);
    assert!(!traces(interface).is_empty(), "it exists during the run");
    let all = descendants(killed.0.id());
    killed.0.kill().and_then(|()| killed.0.wait()).expect("killed");
    crate::run::wait_until_gone(&all);
    wait_until(&format!("no trace of {interface} is left"), PATIENCE, || traces(interface).is_empty());
}

#[test]
fn without_privileges_it_reports_what_is_missing_and_measures_the_rest() {
    needs!("istio-sidecar");
    let scratch = Scratch::new();
    let plan = PLAN.replace("gateways: [", "gateways: [hop-l4, ");
    let plan = scratch.file("plan.yaml", &plan);
    let mut command = Command::new("setpriv");
    // Without these two capabilities, even root cannot set up interception.
    command.args(["--bounding-set=-net_admin,-sys_admin", "--inh-caps=-net_admin,-sys_admin"]).arg(exe());
    if !rustix::process::geteuid().is_root() {
        command = hoptax();
    }
    let output = command
        .arg("run")
        .arg(&plan)
        .args(["--accept-void", "--out"])
        .arg(scratch.path())
        .output()
        .expect("it runs");
    let said = text(&output.stderr);
    for words in ["sidecar", "Run hoptax as root", "CAP_NET_ADMIN and CAP_SYS_ADMIN"] {
        assert!(said.contains(words), "`{words}` in: {said}");
    }
    let measured = trials(&run_directory(&scratch));
    let hop: Vec<_> = measured.iter().filter(|trial| trial["contender"] == "hop-l4").collect();
    assert!(hop.len() == 1 && hop[0]["failed"].is_null(), "{hop:?}");
}

#[test]
fn impossible_variants_and_upstreams_are_refused_with_their_place() {
    insta::assert_snapshot!(refused_plans(
        &[
            ("variant: tuned", "variant: tunde"),
            ("name: istio-sidecar", "name: nginx"),
            ("name: istio-sidecar", "name: hop-l7"),
            ("trials: 1", "upstream: { instances: 2 }"),
            ("trials: 1", "upstream: { url: \"http://127.0.0.1:1\" }"),
        ]
        .map(|(from, to)| PLAN.replace(from, to))
    ));
}

#[test]
fn indistinguishable_variants_are_refused_with_their_line() {
    let refusals = ["[usual, usual]", "[usual, \"a b\"]"].map(|variants| {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path().join("mine")).expect("made");
        let pack = format!(
            "name: mine\nsummary: a test\nbinary: mine\nversion: {{ command: [\"{{{{ binary }}}}\"], \
             pattern: '(.+)' }}\n\
             start: [\"{{{{ binary }}}}\"]\nready: {{ path: / }}\naccess_log: file\nvariants: {variants}\n"
        );
        scratch.file("mine/gateway.yaml", &pack);
        let error = refused(hoptax().args(["gateways", "--packs"]).arg(scratch.path()));
        error.replace(&scratch.path().display().to_string(), "PLACE")
    });
    insta::assert_snapshot!(refusals.concat());
}

#[test]
fn both_variants_are_rendered_with_their_differences() {
    let scratch = Scratch::new();
    let plan = PLAN.replace("gateways: [", "gateways: [{ name: istio-sidecar, label: usual }, ");
    let plan = scratch.file("plan.yaml", &plan);
    let render = |label: &str| succeed(hoptax().arg("render").arg(&plan).args(["--gateway", label]));
    let (usual, tuned) = (render("usual"), render("sidecar"));
    for words in ["use_original_dst: true", "type: ORIGINAL_DST", "127.0.0.6", "0.0.0.0, port_value: 15006"] {
        assert!(usual.contains(words), "`{words}` in: {usual}");
    }
    assert!(tuned.contains("port_value: 15106"), "the second one has other ports: {tuned}");
    for words in ["envoy.tracers.zipkin", "envoy.access_loggers.http_grpc", "envoy.access_loggers.file"] {
        assert!(usual.contains(words) && !tuned.contains(words), "{words}");
    }
    assert!(Path::new("../../plans/istio-sidecar.yaml").exists(), "the plan that repeats the published test");
}

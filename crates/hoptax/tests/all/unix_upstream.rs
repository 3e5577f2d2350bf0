//! Upstreams on Unix sockets: the built-in one, and one that already runs. curl and the servers' own counts
//! are the second opinion.

use crate::connections::Nginx;
use crate::run::{report, run_to_success, text, trials};
use crate::support::refusals::refused_plans;
use crate::support::{Scratch, hoptax};
use crate::wire::Server;
use crate::world::{Running, driver_for, is_missing, running_plan};
use hoptax_format::Address;
use hoptax_lab::Driver as _;
use hoptax_plan::{Listen, Upstream};
use hoptax_servers::ledger;
use hoptax_servers::upstream::{Order, send_order};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const LOAD: &str =
    "load: [{ loop: closed, connections: 4, requests: 200, duration: 60s }]\ntrials: 1\nwarmup: 50ms\n";

/// Packs of gateways that can forward to a Unix socket.
const PACKS: [&str; 8] = ["nginx", "nginx-lua", "haproxy", "envoy", "caddy", "apache", "nghttpx", "varnish"];

fn curl(arguments: &[&str]) -> Output {
    Command::new("curl")
        .args(["-sS", "--max-time", "20"])
        .args(arguments)
        .output()
        .expect("curl is installed")
}

fn installed(packs: &[&'static str]) -> Vec<&'static str> {
    packs.iter().copied().filter(|pack| !is_missing(pack)).collect()
}

/// Mode of a file, without its type.
fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

/// Asserts that every trial was measured without an error. Returns the contenders' names.
fn measured(directory: &Path) -> Vec<String> {
    let names = trials(directory).into_iter().map(|trial| {
        let who = trial["contender"].as_str().expect("a label").to_owned();
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let counts = &trial["load_record"]["counts"];
        assert_eq!((counts["ok"].as_u64(), &counts["ok"]), (Some(200), &counts["completed"]), "{who}");
        if let Some(upstream) = trial["ledger"]["requests"].as_u64() {
            let lifetime = &trial["load_record"]["lifetime"];
            let [sent, done] = ["sent", "completed"].map(|name| lifetime[name].as_u64().expect("counted"));
            assert!((done..=sent).contains(&upstream), "{who}: {upstream} of {done}..={sent}");
        }
        who
    });
    names.collect()
}

#[test]
fn every_gateway_that_can_forwards_to_the_upstreams_socket() {
    let scratch = Scratch::new();
    // Some gateways run their workers as another user.
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
    let packs = installed(&PACKS);
    let mut gateways: Vec<String> =
        ["hop-l4", "hop-l7"].iter().chain(&packs).map(|name| (*name).to_owned()).collect();
    // TLS has a socket of its own.
    let secure = packs.iter().filter(|pack| **pack != "varnish");
    gateways.extend(
        secure.map(|pack| format!("{{ name: {pack}, label: {pack}-tls, features: [upstream-tls] }}")),
    );
    let own = format!("\"unix:{}/own.sock\"", scratch.path().display());
    // The path of the socket is the same to all gateways.
    for (listen, gateways) in [("unix", &gateways[..]), (own.as_str(), &gateways[..3])] {
        let plan = format!(
            "upstream: {{ listen: {listen}, instances: 2 }}\ngateways: [{}]\n{LOAD}",
            gateways.join(", ")
        );
        let runs = Scratch::new();
        let directory = run_to_success(&runs, &plan, &["--accept-void"]);
        let mut names = measured(&directory);
        names.dedup();
        assert_eq!(names.iter().filter(|name| *name != "direct").count(), gateways.len(), "{names:?}");
        let document = report(&directory);
        let notes = document["notes"].to_string();
        assert!(notes.contains("Direct connects to "), "{notes}");
    }
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("listed").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Gateways may run their workers as other users, whatever the umask.
#[test]
fn hoptax_makes_a_socket_that_every_user_reaches_and_removes_it() {
    let mut plan = running_plan(Vec::new());
    let Upstream::BuiltIn(upstream) = &mut plan.upstream else { panic!("it is built in") };
    (upstream.listen, upstream.instances) = (Listen::Unix(None), 2);
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path());
    let service = driver.start_upstream().unwrap_or_else(|failure| panic!("{failure:#?}"));
    let mut service = Running(service);
    assert_eq!(service.0.addresses(), []);
    let paths: Vec<_> = service
        .0
        .endpoints()
        .into_iter()
        .map(|endpoint| match endpoint {
            Address::Unix(path) => path,
            Address::Tcp(address) => panic!("{address} is no socket"),
        })
        .collect();
    assert_eq!(paths.len(), 2);
    let directory = paths[0].parent().expect("a directory").to_owned();
    for path in &paths {
        assert_eq!(mode(path), 0o666);
        let socket = path.to_string_lossy();
        let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-sS", "--unix-socket"];
        let asked = match rustix::process::geteuid().is_root() {
            true => {
                Command::new("setpriv").args(as_nobody).arg(path).arg("http://a/").output().expect("runs")
            }
            false => curl(&["--unix-socket", &socket, "http://a/"]),
        };
        assert!(asked.status.success(), "{}", text(&asked.stderr));
        assert_eq!(asked.stdout.len(), 64);
    }
    assert_eq!((mode(&directory), mode(directory.parent().expect("ours"))), (0o711, 0o711));
    let counts = service.0.ledger().expect("it has one").expect("readable");
    assert_eq!(counts.instances.iter().map(|one| one.requests).collect::<Vec<_>>(), [1, 1]);
    service.0.stop();
    assert!(!directory.parent().expect("ours").exists(), "{}", directory.display());
}

#[test]
fn curl_reaches_the_socket_of_hoptax_upstream_directly_and_through_hops() {
    let scratch = Scratch::new();
    let path = scratch.path().join("app.sock").display().to_string();
    let upstream = Server::start(&["upstream", "--unix", &path, "--body-text", "over a socket"]);
    assert_eq!(upstream.ready["instances"], serde_json::json!([format!("unix:{path}")]));
    let body = |arguments: &[&str]| {
        let output = curl(arguments);
        (output.status.code(), text(&output.stdout))
    };
    let direct = ["--unix-socket", &path, "http://localhost/"];
    assert_eq!(body(&direct), (Some(0), "over a socket".to_owned()));
    let to = format!("unix:{path}");
    for kind in ["l4", "l7"] {
        let hop = Server::start(&["hop", kind, "--upstream", &to]);
        let url = format!("http://{}/", hop.ready["listen"].as_str().expect("an address"));
        assert_eq!(body(&[&url]), (Some(0), "over a socket".to_owned()), "{kind}");
        // A client of HTTP/1.0 names no host.
        assert_eq!(body(&["-0", "-H", "host:", &url]), (Some(0), "over a socket".to_owned()), "{kind}");
    }
    let mut load = hoptax();
    let load = load.args(["load", "http://localhost/", "--unix", &path, "-n", "50", "-c", "5"]);
    assert!(load.output().expect("runs").status.success());
    assert_eq!(ledger::fetch(upstream.control()).expect("a ledger").instances[0].requests, 5 + 50);

    send_order(upstream.control(), 0, Order::Close).expect("closed");
    assert_eq!(body(&direct).0, Some(7), "curl's code for a failed connect");
    send_order(upstream.control(), 0, Order::Open).expect("open");
    assert_eq!(body(&direct), (Some(0), "over a socket".to_owned()));

    let second = hoptax().args(["upstream", "--unix", &path]).output().expect("runs");
    assert!(
        !second.status.success() && text(&second.stderr).contains("is in use"),
        "{}",
        text(&second.stderr)
    );
    assert_eq!(upstream.stop(), Some(0));
    assert!(!Path::new(&path).exists());
}

#[test]
fn an_upstream_that_already_runs_is_reached_at_its_socket() {
    needs!("nginx");
    let nginx = Nginx::start();
    let socket = nginx.socket();
    let asked = curl(&["--unix-socket", &socket, "http://localhost/"]);
    assert_eq!(text(&asked.stdout), "hello");
    nginx.seen(1);
    let plan =
        format!("upstream: {{ url: \"http+unix:{socket}\" }}\ngateways: [hop-l7, nginx, haproxy]\n{LOAD}");
    let scratch = Scratch::new();
    let directory = run_to_success(&scratch, &plan, &["--accept-void"]);
    let names = measured(&directory);
    assert_eq!(names.len(), 5, "{names:?}");
    // Each trial sends 200 requests; warm-up and verification send more.
    let seen = nginx.seen(1000);
    assert!(seen.iter().all(|line| line[0] == "unix:"), "{:?}", seen[0]);
    let document = report(&directory);
    let notes = document["notes"].to_string();
    assert!(notes.contains(&format!("http+unix:{socket}")), "{notes}");
    assert!(notes.contains("Direct connects to "), "{notes}");
    for contender in trials(&directory) {
        assert!(contender["ledger"].is_null(), "{contender}");
    }
}

#[test]
fn what_a_socket_cannot_do_is_refused_before_anything_starts() {
    let long = format!("upstream: {{ listen: \"unix:/{}\" }}\ngateways: [nginx]\n", "x".repeat(120));
    insta::assert_snapshot!(refused_plans(&[
        "upstream: { listen: unix }\ngateways: [traefik]\n",
        "upstream: { url: \"http+unix:/run/app.sock\" }\ngateways: [kong]\n",
        "upstream: { listen: unix, port: 80 }\ngateways: [nginx]\n",
        "upstream: { listen: \"unix:app.sock\" }\ngateways: [nginx]\n",
        "upstream: { url: \"http+unix:app.sock\" }\ngateways: [nginx]\n",
        "upstream: { listen: unix }\nsources: [127.0.0.2]\ngateways: [nginx]\n",
        "gateways: [{ name: external, label: mine, url: \"http+unix:/run/app.sock\" }]\n",
        "upstream: { listen: unix }\ngateways: [nginx]\nhosts: { edge: { address: 10.0.0.2, ssh: edge } }\n\
         roles: { gateway: edge }\n",
        long.as_str(),
    ]));
}

//! Names with several addresses. Each test has an `/etc/hosts` of its own, in a mount namespace.

use crate::origin::Origin;
use crate::support::{Scratch, hoptax, skip};
use serde_json::Value as Json;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether tests must be skipped, because only root may mount an `/etc/hosts`.
#[track_caller]
fn cannot_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("needs root for an /etc/hosts of its own");
    }
    !root
}

/// Runs hoptax where `/etc/hosts` has these lines.
fn with_hosts(hosts: &str, args: &[&str]) -> Output {
    let scratch = Scratch::new();
    let hosts = scratch.file("hosts", hosts);
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let program = hoptax().get_program().to_owned();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", script]).arg(&hosts).arg(program).args(args);
    command.output().expect("unshare runs")
}

/// Servers on the same port of several addresses. Each counts its requests, and answers all with 200.
struct Servers {
    port: u16,
    requests: Vec<Arc<AtomicU64>>,
}

impl Servers {
    fn start(addresses: &[&str]) -> Self {
        let first = TcpListener::bind((addresses[0], 0)).expect("a port");
        let port = first.local_addr().expect("bound").port();
        let others = addresses[1..]
            .iter()
            .map(|address| TcpListener::bind((*address, port)).expect("the port is free"));
        let listeners: Vec<TcpListener> = std::iter::once(first).chain(others).collect();
        Self { port, requests: listeners.into_iter().map(serve).collect() }
    }

    fn counts(&self) -> Vec<u64> {
        self.requests.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }
}

fn serve(listener: TcpListener) -> Arc<AtomicU64> {
    use std::io::{Read as _, Write as _};
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                }
            });
        }
    });
    count
}

const HOSTS: &str =
    "127.0.0.1 localhost\n127.0.0.2 several.test\n127.0.0.3 several.test\n127.0.0.4 several.test\n";

fn load(hosts: &str, url: &str, more: &[&str]) -> (Json, String) {
    let base = ["load", url, "-c", "6", "-n", "600", "--json"];
    let output = with_hosts(hosts, &[&base[..], more].concat());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    (serde_json::from_slice(&output.stdout).expect("JSON"), words)
}

#[test]
fn connections_are_spread_over_all_addresses_of_a_name() {
    skip_if!(cannot_mount());
    let servers = Servers::start(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    let url = format!("http://several.test:{}/", servers.port);
    let (case, words) = load(HOSTS, &url, &[]);
    assert_eq!(case["counts"]["ok"], 600);
    assert!(servers.counts().iter().all(|&count| count > 0), "{:?}", servers.counts());
    assert_eq!(case["load"]["addresses"].as_array().map(Vec::len), Some(3), "{}", case["load"]);
    assert!(words.contains("several.test has 3 "), "{words}");
    let summary = with_hosts(HOSTS, &["load", &url, "-c", "6", "-n", "60"]);
    let summary = String::from_utf8_lossy(&summary.stdout).into_owned();
    assert!(summary.replace('\n', " ").contains("3 addresses"), "{summary}");

    let before = servers.counts();
    load(HOSTS, &url, &["--resolve", "first"]);
    let sent: Vec<u64> = servers.counts().iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(sent, [600, 0, 0]);
}

#[test]
fn addresses_that_refuse_are_left_out_and_named() {
    skip_if!(cannot_mount());
    let servers = Servers::start(&["127.0.0.2", "127.0.0.4"]);
    let url = format!("http://several.test:{}/", servers.port);
    let (case, words) = load(HOSTS, &url, &[]);
    assert_eq!(case["counts"]["ok"], 600);
    let refused = format!("It leaves out 127.0.0.3:{} (connection refused)", servers.port);
    assert!(words.contains(&refused), "{words}");
    assert_eq!(servers.counts().iter().sum::<u64>(), 600);

    // `localhost` is ::1 first, and the server listens on IPv4 only.
    let local = Servers::start(&["127.0.0.1"]);
    let url = format!("http://localhost:{}/", local.port);
    let (case, words) = load("::1 localhost\n127.0.0.1 localhost\n", &url, &[]);
    assert_eq!(case["counts"]["ok"], 600);
    assert!(words.contains(&format!("hoptax uses 127.0.0.1:{}", local.port)), "{words}");

    let nobody = TcpListener::bind("127.0.0.9:0").expect("a port").local_addr().expect("bound").port();
    let output = with_hosts(HOSTS, &["load", &format!("http://several.test:{nobody}/"), "-n", "1"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    for last in 2..=4 {
        assert!(words.contains(&format!("127.0.0.{last}:{nobody}")), "{words}");
    }
}

#[test]
fn a_hop_uses_the_first_address_that_accepts() {
    skip_if!(cannot_mount());
    let origin = Origin::start();
    let hosts = format!("::1 origin.test\n{} origin.test\n", origin.address.ip());
    let upstream = format!("origin.test:{}", origin.address.port());
    let scratch = Scratch::new();
    let script = scratch.file(
        "hop.sh",
        "exe=$1; \"$exe\" hop l7 --upstream \"$2\" >\"$3\" 2>\"$3.words\" & hop=$!\n\
         while ! [ -s \"$3\" ]; do kill -0 $hop || exit 1; sleep 0.02; done\n\
         listen=$(sed 's/.*\"listen\":\"\\([^\"]*\\)\".*/\\1/' \"$3\")\n\
         \"$exe\" load \"http://$listen/bytes?3\" -n 5 -c 1; code=$?\n\
         kill $hop; wait $hop; cat \"$3.words\" >&2; exit $code\n",
    );
    let hosts = scratch.file("hosts", &hosts);
    let mount = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", mount]).arg(&hosts).args([Path::new("sh"), &script]);
    command.arg(hoptax().get_program()).arg(&upstream).arg(scratch.path().join("ready"));
    let output = command.output().expect("unshare runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("200: 5"), "{words}");
    assert!(words.contains(&format!("hoptax uses {}", origin.address)), "{words}");
}

#[test]
fn a_plan_uses_all_addresses_of_its_services_and_says_so() {
    skip_if!(cannot_mount());
    let upstream = Servers::start(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    let gateway = Servers::start(&["127.0.0.2", "127.0.0.4"]);
    let scratch = Scratch::new();
    let plan = |more: &str| {
        format!(
            "upstream: {{ url: 'http://several.test:{}'{more} }}\n\
             gateways: [{{ name: external, label: mine, url: 'http://several.test:{}' }}]\n\
             load: [{{ loop: closed, connections: 6, requests: 600, duration: 20s }}]\ntrials: 1\nwarmup: 0s\n",
            upstream.port, gateway.port
        )
    };
    let file = scratch.file("plan.yaml", &plan("")).display().to_string();
    let check = with_hosts(HOSTS, &["check", &file]);
    let check = String::from_utf8_lossy(&check.stdout).replace('\n', " ");
    assert!(check.contains("several.test has 3 "), "{check}");

    let out = scratch.path().join("out").display().to_string();
    let output = with_hosts(HOSTS, &["run", &file, "--out", &out, "--accept-void", "--no-live"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(upstream.counts().iter().all(|&count| count > 0), "{:?}", upstream.counts());
    assert!(gateway.counts().iter().all(|&count| count > 0), "{:?}", gateway.counts());
    let run = std::fs::read_dir(&out).expect("runs").next().expect("one").expect("readable").path();
    let report = std::fs::read_to_string(run.join("report.md")).expect("a report");
    assert!(report.contains("several.test has 3 "), "{report}");
    assert!(report.contains(&format!("127.0.0.3:{} (connection refused)", gateway.port)), "{report}");

    let before = upstream.counts();
    let file = scratch.file("first.yaml", &plan(", resolve: first")).display().to_string();
    let output = with_hosts(HOSTS, &["run", &file, "--out", &out, "--accept-void", "--no-live"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(upstream.counts()[1..], before[1..]);
}

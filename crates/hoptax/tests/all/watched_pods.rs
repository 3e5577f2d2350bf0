//! CPU time and memory of a gateway in a pod of a real cluster, compared with `/proc`. See `hosts/kubernetes.rs` for the cluster.

use crate::prometheus::{Thread, Truth, cpu_ns, used};
use crate::run::{run, run_to_success, text, trials};
use crate::support::{PATIENCE, Scratch, skip, wait_for, wait_until};
use crate::wire::Server;
use hoptax_load::clock;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The address of the cluster's node, which pods reach.
const NODE: &str = "10.88.0.1";

/// Runs `kubectl`. Returns its output.
fn kubectl(words: &[&str]) -> String {
    let output = Command::new("kubectl").args(words).output().expect("kubectl");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A pod of the test.
struct Pod(&'static str);

impl Pod {
    /// Starts a pod with these containers, each with its command.
    fn start(name: &'static str, image: &str, containers: &[(&str, &[&str])]) -> (Self, String) {
        let containers: Vec<_> = containers
            .iter()
            .map(|(name, command)| {
                serde_json::json!({ "name": name, "image": image, "imagePullPolicy": "Never", "command": command })
            })
            .collect();
        let pod = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": name } },
            "spec": { "containers": containers, "terminationGracePeriodSeconds": 0 },
        });
        let mut create = Command::new("kubectl");
        let create = create.args(["create", "--filename=-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = create.spawn().expect("kubectl");
        child.stdin.take().expect("piped").write_all(pod.to_string().as_bytes()).expect("written");
        assert!(child.wait().expect("it ends").success());
        let started = Self(name);
        kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", &format!("pod/{name}")]);
        let address = kubectl(&["get", "pod", name, "--output=jsonpath={.status.podIP}"]);
        (started, address)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = Command::new("kubectl").args(["delete", "pod", self.0, "--wait=true"]).output();
    }
}

fn plan(gateway: &str, upstream: SocketAddr, watch: &str, duration: &str) -> String {
    format!(
        "upstream: {{ url: \"http://{upstream}\" }}
gateways: [{{ name: external, label: edge, url: \"http://{gateway}\", watch: {{ kubernetes: {{ {watch} }} }} }}]
load: [{{ loop: open, rate: 1000/s, connections: 4, duration: {duration} }}]
trials: 2
warmup: 100ms
"
    )
}

/// The process with this command line. Processes in pods are also processes of this machine.
fn process(command: &str) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&text).replace('\0', " ").trim() == command
    })
}

#[test]
fn control_groups_and_proc_agree_about_a_gateway_in_a_pod() {
    let Ok(image) = std::env::var("HOPTAX_TEST_KUBERNETES_IMAGE") else {
        skip("there is no cluster; see scripts/kubernetes-cluster.sh");
        return;
    };
    let scratch = Scratch::new();
    let upstream = Server::start(&["upstream", "--body", "1KiB", "--address", NODE]);
    let at = upstream.instance(0);
    let to = at.to_string();
    let hop = ["/hoptax", "hop", "l7", "--listen", "0.0.0.0:8080", "--upstream", &to];
    let (_edge, address) = Pod::start("edge", &image, &[("proxy", &hop)]);
    let (_two, _) = Pod::start("two", &image, &[("a", &["sleep", "600"]), ("b", &["sleep", "600"])]);
    let gateway = format!("{address}:8080");
    wait_until("the gateway listens", PATIENCE, || std::net::TcpStream::connect(&gateway).is_ok());
    let pid = wait_for("the gateway's process", PATIENCE, || process(&hop.join(" ")));

    let refused =
        |watch: &str, duration: &str| text(&run(&scratch, &plan(&gateway, at, watch, duration), &[]).stderr);
    for (watch, duration, part) in [
        ("selector: app=none", "1s", "no pod runs that `app=none` selects. Look at `kubectl get pods"),
        ("selector: app=two", "1s", "pod two has the containers a, b. Write one of them as `container`"),
        ("selector: app=edge, container: c", "1s", "pod edge has no container `c`: the containers proxy"),
        ("selector: app=edge, namespace: none, context: gone", "1s", "context \"gone\" does not exist"),
        ("selector: app=edge", "100ms", "Write `duration: 200ms` for each load"),
    ] {
        let shown = refused(watch, duration);
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let truth = Truth::default();
    let readings = Arc::clone(&truth);
    let reader = Thread::start(move || {
        readings.lock().expect("not poisoned").push((clock::now(), cpu_ns(pid)));
        std::thread::sleep(Duration::from_millis(5));
    });
    let directory =
        run_to_success(&scratch, &plan(&gateway, at, "selector: app=edge", "2s"), &["--accept-void"]);
    drop(reader);
    let truth = truth.lock().expect("not poisoned");
    let all = trials(&directory);
    let through: Vec<_> = all.iter().filter(|trial| trial["contender"] == "edge").collect();
    assert_eq!(through.len(), 2);
    for trial in through {
        let (usage, record) = (&trial["gateway"], &trial["load_record"]);
        let number =
            |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("a number: {trial}"));
        let (from, measured) = (number(&record["started_ns"]), number(&record["measured_ns"]));
        let (known, really) = (number(&usage["cpu_ns"]) as f64, used(&truth, from, from + measured) as f64);
        println!("control group: {known} ns, /proc: {really} ns");
        assert!((known / really - 1.0).abs() < 0.15, "control group: {known} ns, /proc: {really} ns");
        // Pages of the program that several containers use count for the first of them.
        let memory = number(&usage["rss_bytes_max"]);
        assert!((100 << 10..1 << 30).contains(&memory), "{memory}");
    }
    // No shell remains in the pod.
    wait_until("the shell has ended", PATIENCE, || {
        kubectl(&[
            "exec",
            "edge",
            "--",
            "sh",
            "-c",
            "for one in /proc/[0-9]*/comm; do read -r name <$one && echo $name; done",
        ])
        .lines()
        .filter(|name| *name == "sh")
        .count()
            == 1
    });
}

/// An image without a shell, such as a statically linked gateway alone.
#[test]
fn a_pod_without_a_shell_is_an_error_that_names_prometheus() {
    if std::env::var("HOPTAX_TEST_KUBERNETES_IMAGE").is_err() {
        skip("there is no cluster; see scripts/kubernetes-cluster.sh");
        return;
    }
    let scratch = Scratch::new();
    let upstream = Server::start(&["upstream", "--body", "1KiB", "--address", NODE]);
    let at = upstream.instance(0);
    let waits = ["/hoptax", "agent", "--wait", "600s"];
    let (_bare, _) = Pod::start("bare", "docker.io/lab/bare:1", &[("bare", &waits)]);
    // The gateway is the upstream itself: only the pods matter.
    let shown = text(&run(&scratch, &plan(&at.to_string(), at, "selector: app=bare", "1s"), &[]).stderr);
    for part in ["cannot read the control group of pod bare: ", "write watch: { prometheus: "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

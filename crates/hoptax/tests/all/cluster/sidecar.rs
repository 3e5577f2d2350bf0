//! Istio's inbound sidecar in a pod: the real Envoy with the configuration of the pack `istio-sidecar`. The
//! kernel redirects one of the application's ports to it, and leaves out the other one. So one pod is
//! measured with and without its sidecar.

use super::{Object, container, image, kubectl};
use crate::run::{run_to_success, trials};
use crate::support::{Scratch, hoptax, succeed};
use hoptax_host::programs::{find_in, search_path};
use serde_json::{Value, json};
use std::path::Path;

/// The application's port that is intercepted, as in the pack.
const INTERCEPTED: u16 = 8080;
/// The application's port that is not intercepted.
const LEFT_OUT: u16 = 8081;
/// The sidecar's port.
const SIDECAR: u16 = 15006;

/// The command that runs a program of this machine in a container. The container has this machine's files
/// below /host.
fn of_this_machine(program: &Path, arguments: &[&str]) -> Vec<String> {
    // In the container, absolute links would lead to other files.
    let there = |path: &Path| format!("/host{}", path.canonicalize().expect("it is there").display());
    let loader = there(Path::new("/lib64/ld-linux-x86-64.so.2"));
    let libraries = there(Path::new("/lib/x86_64-linux-gnu"));
    let words = [loader, "--library-path".to_owned(), libraries, there(program)];
    words.into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect()
}

/// The sidecar's configuration, as a run would write it.
fn configuration(scratch: &Scratch) -> String {
    let plan = "gateways: [{ name: istio-sidecar, label: sidecar, variant: tuned }]\nload: [{ loop: closed, \
        connections: 2 }]\n";
    let plan = scratch.file("sidecar.yaml", plan);
    let shown = succeed(hoptax().arg("render").arg(plan).args(["--gateway", "sidecar"]));
    let (_, after) = shown.split_once("==> envoy.yaml").expect(&shown);
    let (_, file) = after.split_once('\n').expect(after);
    let file = file.split("\n==> ").next().expect("a file");
    // A run's namespace has this address. A pod has another address, so here the administration port listens
    // on loopback.
    file.replace("address: 198.18.0.2, port_value: 15000", "address: 127.0.0.1, port_value: 15000")
}

/// A pod with the application and its sidecar. Returns its address.
fn pod(name: &str, image: &str, is_intercepted: bool, configuration: &str) -> (Object, String) {
    let see_host = |mut container: Value| {
        container["volumeMounts"] = json!([{ "name": "host", "mountPath": "/host", "readOnly": true }]);
        container
    };
    let directories = search_path();
    let envoy = find_in("envoy", &directories).expect("installed");
    let sidecar = of_this_machine(
        &envoy,
        &[
            "--config-yaml",
            configuration,
            "--disable-hot-restart",
            "--log-level",
            "warning",
            "--concurrency",
            "1",
        ],
    );
    let words = |words: &[String]| {
        container("istio-proxy", image, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let port = INTERCEPTED.to_string();
    let application = ["/hoptax", "upstream", "--address", "0.0.0.0", "--port", &port, "--instances", "2"];
    let mut spec = json!({
        "containers": [container("application", image, &application), see_host(words(&sidecar))],
        "volumes": [{ "name": "host", "hostPath": { "path": "/" } }],
    });
    if is_intercepted {
        let rules = format!(
            "add table ip sidecar; add chain ip sidecar in {{ type nat hook prerouting priority -100; }}; \
             add rule ip sidecar in tcp dport {INTERCEPTED} counter redirect to :{SIDECAR}"
        );
        let nft = find_in("nft", &directories).expect("installed");
        let mut init = see_host(words(&of_this_machine(&nft, &[&rules])));
        init["name"] = "istio-init".into();
        init["securityContext"] = json!({ "capabilities": { "add": ["NET_ADMIN"] } });
        spec["initContainers"] = json!([init]);
    }
    Object::pod(name, spec)
}

/// Number of requests that the sidecar of a pod has seen.
fn seen(pod: &str) -> u64 {
    let get = ["exec", pod, "--container=application", "--", "busybox", "wget", "-q", "-O-"];
    let all = kubectl(&[&get[..], &["http://127.0.0.1:15000/stats?filter=downstream_rq_total"]].concat());
    let of_application = format!("http.inbound_0.0.0.0_{INTERCEPTED}.downstream_rq_total: ");
    let line = all.lines().find_map(|line| line.strip_prefix(of_application.as_str()));
    line.map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn one_pod_with_and_without_its_sidecar_and_one_without_interception() {
    let Some(image) = image() else { return };
    needs!("istio-sidecar");
    let scratch = Scratch::new();
    let configuration = configuration(&scratch);
    let (_on, on) = pod("meshed", &image, true, &configuration);
    let (_off, off) = pod("plain", &image, false, &configuration);
    let plan = format!(
        "name: sidecar-in-a-pod
upstream: {{ url: \"http://{on}:{LEFT_OUT}\" }}
gateways:
  - name: external
    label: sidecar
    url: \"http://{on}:{INTERCEPTED}\"
    watch: {{ kubernetes: {{ selector: app=meshed, container: istio-proxy }} }}
  - name: external
    label: not-intercepted
    url: \"http://{off}:{INTERCEPTED}\"
    watch: {{ kubernetes: {{ selector: app=plain, container: istio-proxy }} }}
load: [{{ loop: open, rate: 1000/s, connections: 8, duration: 1s }}]
trials: 4
warmup: 200ms
"
    );
    let directory = run_to_success(&scratch, &plan, &["--accept-void", "--no-live"]);
    let cpu_per_request = |label: &str| {
        let all = trials(&directory);
        let of_label: Vec<_> = all.iter().filter(|trial| trial["contender"] == label).collect();
        assert_eq!(of_label.len(), 4);
        let sum = |get: &dyn Fn(&Value) -> u64| of_label.iter().map(|trial| get(trial)).sum::<u64>() as f64;
        assert!(of_label.iter().all(|trial| trial["failed"].is_null()), "{of_label:?}");
        sum(&|trial| trial["gateway"]["cpu_ns"].as_u64().unwrap_or_else(|| panic!("{trial}")))
            / sum(&|trial| trial["load_record"]["counts"]["ok"].as_u64().expect("a count"))
            / 1e3
    };
    let (with, without) = (cpu_per_request("sidecar"), cpu_per_request("not-intercepted"));
    println!("CPU per request: {with} us in the sidecar, {without} us in one that nothing reaches");
    assert!(with > 10.0 && without < with / 4.0, "{with} us, {without} us");
    let (seen_on, seen_off) = (seen("meshed"), seen("plain"));
    assert!(seen_on >= 4000 && seen_off == 0, "{seen_on} requests, {seen_off} requests");
}

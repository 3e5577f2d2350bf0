//! CPU time and memory of a gateway in a pod, compared with `/proc`.

use super::{NODE, Object, container, image, kubectl};
use crate::prometheus::with_known_cpu;
use crate::run::{run, run_to_success, text};
use crate::support::{PATIENCE, Scratch, wait_for, wait_until};
use crate::wire::Server;
use serde_json::json;
use std::net::SocketAddr;

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
    let Some(image) = image() else { return };
    let scratch = Scratch::new();
    let upstream = Server::start(&["upstream", "--body", "1KiB", "--address", NODE]);
    let at = upstream.instance(0);
    let to = at.to_string();
    let hop = ["/hoptax", "hop", "l7", "--listen", "0.0.0.0:8080", "--upstream", &to];
    let (_edge, address) = Object::pod("edge", json!({ "containers": [container("proxy", &image, &hop)] }));
    let two = ["a", "b"].map(|name| container(name, &image, &["sleep", "600"]));
    let (_two, _) = Object::pod("two", json!({ "containers": two }));
    let gateway = format!("{address}:8080");
    wait_until("the gateway listens", PATIENCE, || std::net::TcpStream::connect(&gateway).is_ok());
    let pid = wait_for("the gateway's process", PATIENCE, || process(&hop.join(" ")));

    let refused =
        |watch: &str, duration: &str| text(&run(&scratch, &plan(&gateway, at, watch, duration), &[]).stderr);
    for (watch, duration, part) in [
        ("selector: app=none", "1s", "`app=none`"),
        ("selector: app=two", "1s", "pod two has the containers a, b. "),
        ("selector: app=edge, container: c", "1s", "pod edge has no container `c`: "),
        ("selector: app=edge, namespace: none, context: gone", "1s", "context \"gone\" "),
        ("selector: app=edge", "100ms", "`duration: 200ms`"),
    ] {
        let shown = refused(watch, duration);
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let plan = plan(&gateway, at, "selector: app=edge", "2s");
    let (_, through) = with_known_cpu(pid, || run_to_success(&scratch, &plan, &["--accept-void"]));
    assert_eq!(through.len(), 2);
    for trial in through {
        // If several containers use the same pages of a program, only the first container counts these pages.
        let memory = trial["gateway"]["rss_bytes_max"].as_u64().expect("a number");
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
    skip_if!(image().is_none());
    let scratch = Scratch::new();
    let upstream = Server::start(&["upstream", "--body", "1KiB", "--address", NODE]);
    let at = upstream.instance(0);
    let waits = ["/hoptax", "agent", "--wait", "600s"];
    let containers = [container("bare", "docker.io/lab/bare:1", &waits)];
    let (_bare, _) = Object::pod("bare", json!({ "containers": containers }));
    // The upstream itself serves as the gateway, because only the pods matter here.
    let shown = text(&run(&scratch, &plan(&at.to_string(), at, "selector: app=bare", "1s"), &[]).stderr);
    for part in ["cannot read the control group of pod bare: ", "write watch: { prometheus: "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

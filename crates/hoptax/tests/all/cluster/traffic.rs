//! A gateway in the cluster, with generators and the upstream that hoptax creates there. All traffic stays in
//! the cluster.

use super::{Object, container, image, kubectl};
use crate::run::{case, report, run_to_success, trials};
use crate::support::{PATIENCE, Scratch, wait_until};
use serde_json::json;

#[test]
fn a_gateway_reaches_the_created_upstream_through_a_service() {
    let Some(image) = image() else { return };
    let scratch = Scratch::new();
    // The gateway's Service exists before the upstream, as in a cluster with a configured gateway.
    let _service = Object::create(&json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "backend" },
        "spec": { "selector": { "role": "backend" }, "ports": [{ "port": 8080 }] },
    }));
    let backend = kubectl(&["get", "service", "backend", "--output=jsonpath={.spec.clusterIP}"]);
    let to = format!("{backend}:8080");
    let hop = ["/hoptax", "hop", "l7", "--listen", "0.0.0.0:8080", "--upstream", &to];
    let (_edge, edge) = Object::pod("edge", json!({ "containers": [container("proxy", &image, &hop)] }));
    wait_until("the gateway listens", PATIENCE, || {
        std::net::TcpStream::connect(format!("{edge}:8080")).is_ok()
    });
    let plan = format!(
        "name: pods-traffic
upstream: {{ port: 8080 }}
hosts:
  clients: {{ hoptax: /hoptax, kubernetes: {{ job: {{ image: {image}, pull: never }} }} }}
  app:
    hoptax: /hoptax
    kubernetes: {{ deployment: {{ image: {image}, pull: never, service: measured-upstream, labels: {{ role: backend }} }} }}
roles: {{ generator: clients, upstream: app }}
gateways: [{{ name: external, label: edge, url: \"http://{edge}:8080\", watch: {{ kubernetes: {{ selector: app=edge }} }} }}]
load: [{{ loop: open, rate: 500/s, connections: 4, duration: 1s }}]
idle: sleep
trials: 3
"
    );
    let directory = run_to_success(&scratch, &plan, &["--accept-void", "--no-live"]);
    for trial in trials(&directory) {
        assert!(trial["failed"].is_null(), "{trial}");
        let ok = trial["load_record"]["counts"]["ok"].as_u64().expect("a count");
        let served = trial["ledger"]["requests"].as_u64().expect("a count");
        assert!(ok > 400 && served >= ok, "{trial}");
        if trial["contender"] == "edge" {
            let cpu = trial["gateway"]["cpu_ns"].as_u64().expect("its CPU time");
            // From 5 to 500 us for each request.
            assert!((5_000..500_000).contains(&(cpu / ok)), "{cpu} ns for {ok} requests");
        }
    }
    let report = report(&directory);
    let tax = &case(&report, "edge")["tax"];
    let estimate = |name: &str| tax[name]["estimate"].as_f64().unwrap_or_else(|| panic!("{name}: {tax}"));
    assert!(estimate("added_p50").is_finite(), "{tax}");
    assert_eq!((estimate("extra_upstream_requests"), estimate("throughput_ratio").round()), (0.0, 1.0));
}

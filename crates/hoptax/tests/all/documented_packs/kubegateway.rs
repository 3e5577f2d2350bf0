//! KubeGateway.

use super::{cases, list, pack, rendering};
use hoptax_lab::features::SERVER_NAME;
use hoptax_lab::packs::manifest::ReadyPort;
use hoptax_plan::{Feature, Profile};
use serde_json::json;

/// Source for KubeGateway: `pkg/apis/proxy/v1alpha1/upstreamcluster_types.go`.
#[test]
fn accepts_its_cluster() {
    for case in cases("kubegateway") {
        let cluster = case.json("cluster.json");
        case.keys(&cluster, &["apiVersion", "kind", "metadata", "spec"], &[]);
        assert_eq!(
            (&cluster["apiVersion"], &cluster["kind"]),
            (&json!("proxy.kubegateway.io/v1alpha1"), &json!("UpstreamCluster"))
        );
        let spec = &cluster["spec"];
        case.keys(spec, &["servers", "clientConfig", "dispatchPolicies"], &["flowControl", "logging"]);
        assert_eq!(list(&spec["servers"]).len(), case.upstreams, "{}", case.what);
        // pkg/apis/proxy/v1alpha1/validation: with TLS, the cluster requires an authority and a client
        // credential.
        let secure: &[&str] = if case.has("upstream-tls") { &["caData", "serverName"] } else { &[] };
        let client = &spec["clientConfig"];
        case.keys(client, &[&["insecure"], secure].concat(), &["bearerToken", "certData", "keyData"]);
        let pair = client["certData"].is_string() && client["keyData"].is_string();
        let known = pair || client["bearerToken"].is_string();
        assert_eq!(known, case.has("upstream-tls"), "{}", case.what);
        for policy in list(&spec["dispatchPolicies"]) {
            case.keys(policy, &["rules"], &["strategy", "flowControlSchemaName"]);
            let schemas = list(&spec["flowControl"]["flowControlSchemas"]);
            let named = policy["flowControlSchemaName"].as_str();
            assert!(named.is_none_or(|name| schemas.iter().any(|one| one["name"] == name)), "{}", case.what);
        }
    }
}

/// The first instance gives the same answers as the measured instance. It listens on another address, so that
/// hoptax cannot verify the wrong instance.
#[test]
fn the_first_instance_has_an_address_of_its_own() {
    for case in cases("kubegateway") {
        let script = case.text("start.sh");
        let (before, after) = script.split_once("\nexec ").expect("it becomes the gateway");
        assert!(
            before.contains("\"$@\" --bind-address=127.0.0.2 >") && !before.contains("127.0.0.1"),
            "{script}"
        );
        assert!(before.contains("clusters=\"https://127.0.0.2:20002/"), "{script}");
        assert!(after.contains("\"$@\" --bind-address=127.0.0.1"), "{script}");
        // With `--fail`, the loop did not end after status 409.
        assert!(!script.contains("--fail") && script.contains("= 409 ]"), "{script}");
        assert!(script.contains("exit 1"), "the number of tries is limited: {script}");
    }
}

/// The access log needs a setting of the cluster too, and is written to standard error.
#[test]
fn the_access_log_is_on_in_the_cluster_too() {
    for case in cases("kubegateway") {
        let expected = if case.access_log { json!({ "mode": "on" }) } else { json!(null) };
        assert_eq!(case.json("cluster.json")["spec"]["logging"], expected, "{}", case.what);
        let (_, command) = case.text("start.sh").split_once("\nexec ").expect("it becomes the gateway");
        assert_eq!(command.contains(" 2>&1"), case.access_log, "{}", case.what);
    }
}

/// The gateway accepts connections before it knows its cluster. A request through the cluster, by its name as
/// Host, then gets 503 and not 200. `pkg/gateway/endpoints/filters/upstreaminfo.go`: only requests by name
/// use a cluster.
#[test]
fn is_ready_when_the_cluster_passes_requests_on() {
    let ready = &pack("kubegateway").manifest().ready;
    assert!(ready.tls && ready.port == ReadyPort::Main && ready.status == 200);
    for case in cases("kubegateway") {
        assert_eq!(case.json("cluster.json")["metadata"]["name"], SERVER_NAME, "{}", case.what);
    }
}

/// A client without a certificate must not be accepted as `system:anonymous`. Nobody has run the feature with
/// the readiness check that it needs.
#[test]
fn mtls_excludes_anonymous_clients() {
    let manifest = pack("kubegateway").manifest();
    let last = manifest.last_run_for_real.as_ref().expect("it was run");
    assert!(last.unproved.contains_key("mtls"), "{:?}", last.unproved);
    for features in [vec![Feature::Tls], vec![Feature::Tls, Feature::Mtls]] {
        let case = rendering("kubegateway", Profile::Equalised, false, 2, features);
        let groups = if case.has("mtls") { json!(["system:authenticated"]) } else { json!(null) };
        let cluster = case.json("cluster.json");
        let rules = list(&cluster["spec"]["dispatchPolicies"][0]["rules"]);
        assert_eq!(rules.len(), 2);
        for rule in rules {
            assert_eq!(rule["userGroups"], groups, "{}", case.what);
        }
    }
}

#[test]
fn requests_without_a_token_pass() {
    let refusal = &pack("kubegateway").manifest().refusals["token-review"];
    assert!(refusal.passes_anonymous && refusal.wrong.is_none());
}

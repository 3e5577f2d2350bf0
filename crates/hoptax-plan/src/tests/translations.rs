//! Tests of the features that translate calls to gRPC.

use super::*;

const PROTO: &str = r#"syntax = "proto3";
package echo;
service Echo {
  rpc Say (Request) returns (Request);
  rpc Watch (Request) returns (stream Request);
}
message Request { string text = 1; }
"#;

/// A plan beside `echo.proto`, with these features of Envoy and this target. Answers are empty messages.
fn read(features: &str, target: &str) -> Result<Plan, String> {
    read_with("0B", features, target)
}

/// Like [`read`], with another body of answers.
fn read_with(body: &str, features: &str, target: &str) -> Result<Plan, String> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("echo.proto"), PROTO).expect("written");
    let pack = |name: &str, features: &[&str], unsupported: &[(&str, &str)]| PackInfo {
        name: name.to_owned(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        unsupported: unsupported.iter().map(|(what, why)| ((*what).to_owned(), (*why).to_owned())).collect(),
        http2: ClientHttp2::Shared,
        upstream_http2: true,
        ..PackInfo::default()
    };
    let known = vec![
        pack("envoy", &["key-auth", "path-rewrite", "grpc-web", "grpc-json"], &[]),
        pack("plain", &["key-auth"], &[("grpc-web", "it translates no calls")]),
    ];
    let context = Context { cpus: 2, known, directory: directory.path().to_owned() };
    let gateway = match features {
        "plain" => "{ name: plain, features: [grpc-web] }".to_owned(),
        _ => format!("{{ name: envoy, features: {features} }}"),
    };
    let load = "load: [{ loop: closed, connections: 1, http: 2 }]";
    let text = format!("upstream: {{ body: {body} }}\ngateways: [{gateway}]\ntarget: {target}\n{load}\n");
    parse("plans/x.yaml", &text, &[], &context).map_err(listed)
}

const PAGE: &str = "{ path: /page }";
const SAY: &str = "{ grpc: { service: echo.Echo, method: Say } }";
const AS_JSON: &str =
    "{ grpc: { service: echo.Echo, method: Say, proto: echo.proto, message: { json: { text: hi } } } }";

fn labels(plan: &Plan) -> Vec<&str> {
    plan.gateways.iter().map(|gateway| gateway.label.as_str()).collect()
}

#[test]
fn the_plan_has_descriptors_only_if_a_gateway_needs_them() {
    let good = |features: &str| {
        let mut plan = read(features, AS_JSON).unwrap_or_else(|error| panic!("{error}"));
        assert!(plan.targets[0].encoded.is_some());
        plan.targets.remove(0).descriptors
    };
    assert_eq!(good("[grpc-web]"), None);
    let EncodedMessage(set) = good("[grpc-json]").expect("descriptors");
    assert!(set.windows(13).any(|part| part == b".echo.Request"), "{set:?}");
}

#[test]
fn every_target_must_be_a_call_that_can_be_translated() {
    let grpc = |rest: &str| format!("{{ name: x, grpc: {{ service: echo.Echo, {rest} }} }}");
    let compressed = "method: Say, proto: echo.proto, message: { json: { text: hi } }, compression: gzip";
    let failing = AS_JSON.replacen('{', "{ expect: { grpc: not-found },", 1);
    let expecting = |body: &str| SAY.replacen('{', &format!("{{ expect: {{ body: {body} }},"), 1);
    let mut told = String::new();
    for (features, target) in [
        ("[grpc-web]", PAGE.to_owned()),
        ("[grpc-web]", format!("[{SAY}, {PAGE}]")),
        ("[grpc-web]", grpc("method: Talk, kind: both-ways")),
        ("[grpc-web]", grpc("method: Up, kind: client-stream")),
        ("[grpc-web]", expecting("{ length: 105B }")),
        ("[grpc-web]", expecting("{ equals: hi }")),
        ("[grpc-json]", SAY.to_owned()),
        ("[grpc-json]", PAGE.to_owned()),
        ("[grpc-json]", grpc("method: W, kind: server-stream")),
        ("[grpc-json]", grpc(compressed)),
        ("[grpc-json]", failing),
        ("[grpc-web, grpc-json]", AS_JSON.to_owned()),
        ("[path-rewrite, grpc-json]", AS_JSON.to_owned()),
        ("plain", SAY.to_owned()),
    ] {
        let error = read(features, &target).expect_err(features);
        told += &refusal(&format!("{features} {target}"), &error);
    }
    for body in ["1KiB", "{ kind: json, size: 1KiB }"] {
        told += &refusal(body, &read_with(body, "[grpc-json]", AS_JSON).expect_err("not a message"));
        assert!(!labels(&read_with(body, "each", AS_JSON).expect("others fit")).contains(&"envoy.grpc-json"));
    }
    read_with("{ text: hi }", "[grpc-json]", AS_JSON).expect("it may be a message");
    for settings in ["0B, failures: 10%", "0B, status: 503", "0B, grpc_status: not-found"] {
        told += &refusal(settings, &read_with(settings, "[grpc-json]", AS_JSON).expect_err(settings));
        read_with(settings, "[grpc-web]", AS_JSON).expect("it keeps the status of calls");
    }
    insta::assert_snapshot!(told);
    read("[grpc-web]", &expecting("{ length: { least: 5B }, contains: a }")).expect("the body may be longer");
    let watched = grpc("method: Watch, kind: server-stream");
    assert_eq!(labels(&read("[grpc-web]", &watched).expect("it can be translated")), ["envoy"]);
}

#[test]
fn a_matrix_has_the_features_that_fit_the_calls() {
    let each = |target: &str| {
        let plan = read("each", target).unwrap_or_else(|error| panic!("{error}"));
        let found: Vec<_> =
            labels(&plan).iter().map(|label| label.trim_start_matches("envoy").to_owned()).collect();
        (found.join(" "), plan.targets[0].descriptors.is_some())
    };
    assert_eq!(each(AS_JSON), (" .key-auth .path-rewrite .grpc-web .grpc-json".to_owned(), true));
    assert_eq!(each(SAY), (" .key-auth .path-rewrite .grpc-web".to_owned(), false));
    assert_eq!(each(PAGE), (" .key-auth .path-rewrite".to_owned(), false));
    let stream = "{ grpc: { service: echo.Echo, proto: echo.proto, method: Watch } }";
    assert_eq!(each(stream), (" .key-auth .path-rewrite .grpc-web".to_owned(), false));
}

//! Envoy translates gRPC-Web and JSON to gRPC for the upstream.

use crate::run::{case, cases, measured, report, run, run_to_success, text};
use crate::support::refusals::refused_plans;
use crate::support::{PATIENCE, Scratch};
use crate::world::{Running, driver_for, running_plan, started};
use hoptax_format::grpc;
use hoptax_format::spec::{Check, HttpVersion, TargetSpec};
use hoptax_lab::Driver as _;
use hoptax_lab::features::Change;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::verify::{self, Requests, proofs};
use hoptax_plan::{Body, Feature, Gateway, GatewayKind, Upstream};
use hoptax_record::Failure;

const PROTO: &str = include_str!("../../../../plans/features/echo.proto");

/// The findings about calls and answers. The report may contain others.
const FINDINGS: [&str; 4] = ["different-work", "grpc-failed", "protocol-downgraded", "trailers-lost"];

/// The example plan, which measures gRPC, gRPC-Web and JSON.
#[test]
fn translated_calls_succeed() {
    needs!("envoy");
    let scratch = Scratch::new();
    scratch.file("echo.proto", PROTO);
    let plan = include_str!("../../../../plans/features/grpc-translation.yaml");
    let sets = ["trials=1", "warmup=20ms", "load.0.rate=200/s", "load.0.duration=400ms"];
    let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).chain(["--accept-void"]).collect();
    let report = report(&run_to_success(&scratch, plan, &sets));
    for gateway in ["direct", "envoy", "envoy-web", "envoy-json"] {
        let case = case(&report, gateway);
        let counts = &case["counts"];
        assert!(case["trials"].as_u64() > Some(0), "{gateway}: {}", case["failed"]);
        assert_eq!(counts["scheduled"], counts["ok"], "{gateway}: {counts}");
        assert_eq!(counts["status"], serde_json::json!({ "200": counts["completed"] }), "{gateway}");
        let statuses = serde_json::json!({ "OK": counts["completed"] });
        // An answer in JSON has an HTTP status only.
        let statuses = (gateway != "envoy-json").then_some(&statuses);
        assert_eq!(counts.get("grpc"), statuses, "{gateway}");
        let versions = case["ledger"]["http_version"].as_object().expect("counts");
        assert_eq!(versions.keys().collect::<Vec<_>>(), ["2"], "{gateway}");
        let codes = case["findings"].as_array().expect("codes").iter().filter_map(|code| code.as_str());
        let found: Vec<&str> = codes.filter(|code| FINDINGS.contains(code)).collect();
        assert!(found.is_empty(), "{gateway}: {found:?}");
    }
}

#[test]
fn streams_of_servers_can_be_grpc_web() {
    needs!("envoy");
    let report = measured(
        "upstream: { body: 100B }
gateways: [{ name: envoy, features: [grpc-web] }]
target: { grpc: { service: echo.Echo, method: Watch, kind: server-stream, messages: 5, message: 100B } }
load: [{ loop: closed, connections: 2, http: 2, streams: 4, requests: 100, duration: 60s }]
trials: 1
warmup: 20ms
",
    );
    for case in cases(&report) {
        let (gateway, counts, messages) = (&case["gateway"], &case["counts"], &case["messages"]);
        assert!(case["trials"].as_u64() > Some(0), "{gateway}: {}", case["failed"]);
        assert_eq!(counts["grpc"], serde_json::json!({ "OK": counts["completed"] }), "{gateway}");
        let of = |what: &str| messages[what].as_u64();
        assert_eq!([of("lost"), of("repeated"), of("unnumbered")], [Some(0); 3], "{gateway}: {messages}");
        assert!(of("received") > Some(0), "{gateway}: {messages}");
    }
}

/// The body begins with a field whose type does not exist.
#[test]
fn an_answer_that_is_not_a_message_is_explained() {
    needs!("envoy");
    let scratch = Scratch::new();
    scratch.file("echo.proto", PROTO);
    let plan = "upstream: { body: { text: no message } }
gateways: [{ name: envoy, features: [grpc-json] }]
target: { grpc: { service: echo.Echo, method: Say, proto: echo.proto, message: { json: { text: hi } } } }
load: [{ loop: closed, connections: 1, http: 2, duration: 200ms }]
trials: 1
";
    let output = run(&scratch, plan, &["--accept-void"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("write upstream: { body: 0B }"), "{said}");
}

/// Starts Envoy with the feature, or without any. Returns the results of the verification and of the proof
/// that the feature is on.
fn outcome(feature: Feature, is_on: bool) -> [Result<(), Failure>; 2] {
    let kind = GatewayKind::Pack {
        pack: "envoy".into(),
        workers: 1,
        features: vec![feature],
        instances: None,
        driver: Default::default(),
        upstream_http2: true,
    };
    let mut plan = running_plan(vec![Gateway { label: "translates".into(), kind }]);
    if let Upstream::BuiltIn(upstream) = &mut plan.upstream {
        upstream.body = Body::Size(0);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("echo.proto");
    std::fs::write(&file, PROTO).expect("written");
    let method = hoptax_plan::Proto::compile(&file).and_then(|proto| proto.service("echo.Echo"));
    let method = method.and_then(|service| service.method("Say")).expect("declared");
    let encoded = |bytes| Some(hoptax_plan::EncodedMessage(bytes));
    let json = r#"{"text":"hi"}"#;
    let target = &mut plan.targets[0];
    (target.name, target.path, target.grpc) = ("say".into(), "/echo.Echo/Say".into(), true);
    target.body = Some(Body::Text(json.into()));
    target.encoded = encoded(method.encode(json).expect("fits"));
    target.descriptors = encoded(method.descriptors());

    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path());
    let upstream = started(driver.start_upstream());
    let start = |driver: &mut ProcessDriver, gateway: &Gateway| {
        let service = driver.start_gateway(gateway, &upstream.0.endpoints());
        Running(service.unwrap_or_else(|failure| panic!("{feature}: {failure:#?}")))
    };
    let translating = start(&mut driver, &plan.gateways[0]);
    let change: Change = translating.0.facts().change.clone();
    let mut bare = plan.gateways[0].clone();
    bare.label = "bare".into();
    if let GatewayKind::Pack { features, .. } = &mut bare.kind {
        features.clear();
    }
    let service = if is_on { translating } else { start(&mut driver, &bare) };

    let mut headers = vec![("host".to_owned(), "echo.com".to_owned())];
    grpc::add_headers(&mut headers, None);
    let message = grpc::body(&method.encode(json).expect("fits")).expect("short");
    let target = TargetSpec {
        name: "say".to_owned(),
        grpc: true,
        checks: vec![Check::Grpc(vec![grpc::Status::Ok])],
        ..TargetSpec::only("POST", "/echo.Echo/Say", headers, message)
    };
    let requests = Requests { versions: vec![HttpVersion::Http2], ..Requests::from(target) };
    let (direct, via) = (upstream.0.addresses(), service.0.addresses()[0]);
    [
        verify::verify(direct[0], via, &requests, &change, PATIENCE),
        proofs::prove(direct, via, &requests, &change, PATIENCE),
    ]
}

#[test]
fn a_gateway_that_only_passes_calls_on_proves_nothing() {
    needs!("envoy");
    for (feature, expected) in [
        (Feature::GrpcWeb, "feature `grpc-web` is not on: "),
        (Feature::GrpcJson, "feature `grpc-json` is not on: "),
    ] {
        assert_eq!(outcome(feature, true), [Ok(()), Ok(())], "{feature}");
        // The upstream itself answers gRPC-Web, so the verification alone would not notice.
        let [verified, proved] = outcome(feature, false);
        assert_eq!(verified.is_ok(), feature == Feature::GrpcWeb, "{verified:?}");
        let failure = proved.expect_err(expected);
        assert!(failure.message.starts_with(expected), "{failure:?}");
    }
}

#[test]
fn check_refuses_calls_that_nobody_can_translate() {
    insta::assert_snapshot!(refused_plans(
        &[
            ("{ name: envoy, features: [grpc-web] }", "{ path: /page }"),
            ("{ name: envoy, features: [grpc-json] }", "{ grpc: { service: a, method: B } }"),
            ("{ name: nginx, features: [grpc-web] }", "{ grpc: { service: a, method: B } }"),
        ]
        .map(|(gateway, target)| {
            let load = "load: [{ loop: closed, connections: 1, http: 2 }]";
            format!("gateways: [{gateway}]\ntarget: {target}\n{load}\n")
        })
    ));
}

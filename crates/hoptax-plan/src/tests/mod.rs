//! Tests of whole plans.

use super::*;
use mistakes::{listed, mistake};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

mod events;
mod from;
mod grpc;
mod hosts;
mod http;
mod llm;
mod load;
mod mistakes;
mod passing;
mod replacements;
mod requests;
mod running;
mod schema;
mod search;
mod sse;
mod start;
mod translations;
mod versions;
mod websocket;

fn context() -> Context {
    let pack = |name: &str, features: &[&str]| PackInfo {
        name: name.to_owned(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        http2: match name {
            "nginx" => ClientHttp2::Exclusive,
            "haproxy" => ClientHttp2::Shared,
            _ => ClientHttp2::No,
        },
        upstream_http2: ["haproxy", "envoy"].contains(&name),
        always_tls: name == "secure",
        unix_upstream: name == "nginx",
        websocket: name == "nginx",
        docker: name == "nginx",
        image: (name == "nginx").then(|| "nginx:1.27".to_owned()),
        reloads: ["nginx", "routed"].contains(&name),
        has_metrics: name != "haproxy",
        ..PackInfo::default()
    };
    Context {
        cpus: 2,
        known: vec![
            pack("nginx", &["key-auth", "rate-limit"]),
            pack("haproxy", &[]),
            pack("envoy", &[]),
            pack("routed", &["routes"]),
            pack("secure", &["rate-limit", "tls", "mtls"]),
        ],
        directory: PathBuf::from("no-such-directory"),
    }
}

fn parsed(text: &str, sets: &[&str]) -> Result<Plan, PlanErrors> {
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    parse("plans/x.yaml", text, &sets, &context())
}

fn good(text: &str) -> Plan {
    parsed(text, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Each of these texts with its error, for a snapshot.
pub(crate) fn refusals(texts: &[&str], error: impl Fn(&str) -> String) -> String {
    texts.iter().map(|&text| refusal(text, &error(text))).collect()
}

fn refusal(text: &str, error: &str) -> String {
    format!("{}\n=> {}\n", text.trim_end(), error.trim_end())
}

const SMALLEST: &str = "gateways: [nginx]\nload: [{ loop: closed, connections: 1 }]\n";

#[test]
fn missing_keys_have_defaults() {
    assert_eq!(
        good(SMALLEST),
        Plan {
            name: "x".to_owned(),
            upstream: Upstream::BuiltIn(BuiltInUpstream::with_body(Body::Size(1024))),
            gateways: vec![Gateway {
                label: "nginx".to_owned(),
                kind: GatewayKind::Pack {
                    pack: "nginx".to_owned(),
                    workers: 1,
                    features: Vec::new(),
                    instances: None,
                    driver: PackDriver::Process,
                    upstream_http2: false,
                },
            }],
            replacements: Vec::new(),
            targets: vec![Target::get("/")],
            files: BTreeMap::new(),
            secrets: Vec::new(),
            imported: None,
            load: vec![LoadPoint::closed(1, Duration::from_millis(300))],
            trials: timed(Duration::from_secs(180), 0.05, None),
            start: None,
            warmup: Duration::from_millis(50),
            until_settled: until_settled(60),
            pause: Duration::ZERO,
            timeout: Timeouts::all(Duration::from_secs(3)),
            sources: Vec::new(),
            profile: Profile::Equalised,
            access_log: AccessLog::Off,
            path_split: PathSplit::Off,
            cpu_profile: None,
            tail: None,
            cpus: CpuPlan::Auto,
            idle: None,
            isolate: false,
            restarts: None,
            seed: None,
            events: Vec::new(),
            budget: Vec::new(),
            hosts: Vec::new(),
            roles: Roles::default(),
        }
    );
}

/// The rounds of a plan without `trials`.
fn timed(at_most: Duration, within: f64, within_us: Option<f64>) -> Trials {
    Trials::Auto(AutoTrials { within, within_us, at_most, least: 10, most: 10_000 })
}

#[test]
fn time_and_precision_set_the_rounds() {
    let plan = good(&format!("{SMALLEST}time: 10m\nprecision: 5us\n"));
    assert_eq!(plan.trials, timed(Duration::from_secs(600), 0.05, Some(5.0)));
    insta::assert_snapshot!(plan.trials.describe());
    assert_eq!(
        good(&format!("{SMALLEST}precision: 2%\n")).trials,
        timed(Duration::from_secs(180), 0.02, None)
    );
    // Events need long trials.
    let events = good(&format!("{SMALLEST}events: [{{ at: 2s, do: reload }}]\n"));
    assert_eq!((events.trials, events.load[0].duration), (Trials::Fixed(5), Duration::from_secs(10)));
    assert_eq!((events.warmup, events.until_settled), (Duration::from_secs(2), until_settled(60)));
    let typed = good(&format!("{SMALLEST}warmup: 1s\n"));
    assert_eq!((typed.warmup, typed.until_settled), (Duration::from_secs(1), None));
}

#[test]
fn profiles_are_on_off_or_have_settings() {
    let profile = |text: &str| good(&format!("{SMALLEST}cpu_profile: {text}\n")).cpu_profile;
    assert_eq!((profile("off"), profile("on")), (None, Some(CpuProfile::default())));
    let short = CpuProfile { duration: Duration::from_millis(500), ..CpuProfile::default() };
    assert_eq!(profile("{ for: 500ms }"), Some(short));
    assert_eq!(profile("{ passes: 3 }").map(|profile| profile.passes), Some(3));
}

#[test]
fn explanations_of_slow_requests_are_on_off_or_have_settings() {
    let plan = |text: &str| good(&format!("{SMALLEST}tail: {text}\n"));
    assert_eq!((plan("off").tail, plan("on").tail), (None, Some(TailPasses::default())));
    assert_eq!((plan("off").path_split, plan("on").path_split), (PathSplit::Off, PathSplit::On));
    let typed = TailPasses { passes: 3, duration: Duration::from_secs(2) };
    assert_eq!(plan("{ passes: 3, for: 2s }").tail, Some(typed));
}

fn until_settled(seconds: u64) -> Option<UntilSettled> {
    Some(UntilSettled { at_most: Duration::from_secs(seconds), overload_external: false })
}

#[test]
fn a_warmup_is_a_time_or_has_limits() {
    let warmup = |text: &str| good(&format!("{SMALLEST}warmup: {text}\n"));
    assert_eq!(warmup("{ at_most: 5s }").until_settled, until_settled(5));
    assert_eq!(warmup("{ at_most: 5s }").warmup, Duration::from_millis(50));
    let overloaded = warmup("{ overload_external: true }").until_settled.expect("limits");
    assert!(overloaded.overload_external && overloaded.at_most == Duration::from_secs(60));
    let told = refusals(&["{}", "{ at_most: 0s }", "{ at_most: 2h }", "{ at_least: 2s }"], |text| {
        mistake(&format!("{SMALLEST}warmup: {text}\n"))
    });
    insta::assert_snapshot!(told);
}

#[test]
fn the_last_set_decides_between_trials_and_time() {
    let text = format!("{SMALLEST}time: 10m\n");
    assert_eq!(parsed(&text, &["trials=2"]).expect("a plan").trials, Trials::Fixed(2));
    let fixed = format!("{SMALLEST}trials: 4\n");
    let set = parsed(&fixed, &["time=30s"]).expect("a plan");
    assert_eq!(set.trials, timed(Duration::from_secs(30), 0.05, None));
    assert_eq!(set.load[0].duration, Duration::from_millis(300));
}

#[test]
fn short_trials_have_time_for_fifty_requests() {
    let duration = |load: &str, rest: &str| {
        good(&format!("gateways: []\nload: [{{ {load} }}]\n{rest}")).load[0].duration
    };
    let ms = Duration::from_millis;
    assert_eq!(duration("loop: open, rate: 1000/s, connections: 8", ""), ms(300));
    assert_eq!(duration("loop: open, rate: 20/s, connections: 8", ""), ms(2500));
    assert_eq!(duration("loop: open, rate: 1/s, connections: 8", ""), ms(10_000));
    assert_eq!(duration("loop: closed, connections: 8", "upstream: { delay: 20ms }\n"), ms(1000));
    assert_eq!(duration("loop: closed, connections: 8", "trials: 3\n"), ms(10_000));
    assert_eq!(duration("loop: closed, connections: 8, duration: 2s", ""), ms(2000));
}

#[test]
fn a_plan_with_every_key() {
    let plan = good(
        r#"
name: all
upstream:
  instances: 2
  status: 503
  headers: { x-a: b, set-cookie: [one, two] }
  body: { text: hello }
  delay: choice(99% 0ms, 1% 50ms)
  failures: 1%
  port: 8000
gateways:
  - { name: nginx, label: with-keys, workers: 2, features: [key-auth] }
  - hop-l4
  - name: hop-l7
  - { name: external, label: mine, url: "http://localhost:9000/", pid: 4711 }
target: { method: POST, path: "/a?b=c", headers: { Host: echo.com }, body: 64KiB }
load:
  - { loop: open, rate: 1000/s, arrivals: jitter(25%), connections: 64, duration: 1m, requests: 500 }
trials: 3
warmup: 0s
pause: 250ms
timeout: 1s
profile: stock
access_log: file
path_split: on
cpus: { generator: 0, gateway: "0-1" }
isolate: true
seed: 18446744073709551615
budget:
  - { gateway: with-keys, metric: added_p99, max: 1ms }
  - { metric: throughput_ratio, min: 0.9 }
"#,
    );
    let Upstream::BuiltIn(upstream) = &plan.upstream else { panic!("built in") };
    assert_eq!((upstream.instances, upstream.status, upstream.port), (2, 503, Some(8000)));
    assert_eq!(upstream.body, Body::Text("hello".to_owned()));
    assert_eq!(upstream.failures, 0.01);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(upstream.headers, [pair("x-a", "b"), pair("set-cookie", "one"), pair("set-cookie", "two")]);
    let labels: Vec<_> = plan.gateways.iter().map(|gateway| gateway.label.as_str()).collect();
    assert_eq!(labels, ["with-keys", "hop-l4", "hop-l7", "mine"]);
    assert_eq!(
        plan.gateways[3].kind,
        GatewayKind::External {
            url: "http://localhost:9000".to_owned(),
            pid: Some(4711),
            access: Access::default(),
            prometheus: None,
            pods: None
        }
    );
    assert_eq!(plan.gateways[1].kind, GatewayKind::Hop(HopKind::L4));
    assert_eq!(plan.targets[0].headers, [pair("Host", "echo.com")]);
    assert_eq!(plan.targets[0].body, Some(Body::Size(65_536)));
    assert_eq!(
        plan.load[0].shape,
        hoptax_format::spec::Shape::Open {
            rate: hoptax_format::spec::Rate::Fixed(1000.0),
            arrivals: hoptax_format::spec::Arrivals::Jitter(0.25)
        }
    );
    assert_eq!(plan.load[0].requests, Some(500));
    let sets = CpuSets { generator: vec![0], gateway: vec![0, 1], upstream: Vec::new() };
    assert_eq!(plan.cpus, CpuPlan::Pinned(sets));
    assert_eq!((plan.profile, plan.access_log), (Profile::Stock, AccessLog::File));
    assert_eq!(plan.path_split, PathSplit::On);
    assert_eq!((plan.isolate, plan.seed), (true, Some(u64::MAX)));
    assert_eq!((plan.budget[0].max, plan.budget[1].min), (Some(1000.0), Some(0.9)));
}

#[test]
fn a_running_upstream_is_a_url() {
    let plan = good(&format!("upstream: {{ url: \"http://127.0.0.1:8080\" }}\n{SMALLEST}"));
    assert_eq!(
        plan.upstream,
        Upstream::Running(Running { url: "http://127.0.0.1:8080".to_owned(), ..Running::default() })
    );
}

#[test]
fn a_status_without_a_body_has_none() {
    let plan = good(&format!("upstream: {{ status: 204 }}\n{SMALLEST}"));
    assert!(matches!(plan.upstream, Upstream::BuiltIn(BuiltInUpstream { body: Body::Size(0), .. })));
}

fn points(load: &str) -> Vec<String> {
    let plan = good(&format!("gateways: []\nload:\n  - {{ {load} }}\n"));
    plan.load
        .iter()
        .map(|point| format!("{}, {}", point.describe(), units::show_duration(point.duration)))
        .collect()
}

#[test]
fn the_first_axis_of_a_sweep_changes_slowest() {
    let shown = [
        "loop: closed, connections: [1, 100], duration: [2s, 1s]",
        "duration: [2s, 1s], loop: closed, connections: [1, 100]",
        "loop: open, arrivals: [constant, poisson], rate: [10/s, 60/m], connections: 2",
    ]
    .map(|load| format!("{load}\n  {}\n", points(load).join("\n  ")));
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn sets_override_the_file() {
    let plan = parsed(SMALLEST, &["trials=1", "load.0.duration=2s", "gateways=[hop-l4, hop-l7]"]).unwrap();
    assert_eq!((plan.trials.at_least(), plan.load[0].duration), (1, Duration::from_secs(2)));
    assert_eq!(plan.gateways.len(), 2);
}

/// The plan after it was written to a record and read again.
fn kept(plan: &Plan) -> Plan {
    let json = serde_json::to_string(plan).expect("JSON");
    serde_json::from_str(&json).expect("its own form")
}

#[test]
fn a_plan_survives_the_record() {
    let plan = good(SMALLEST);
    assert_eq!(kept(&plan), plan);
}

#[test]
fn delays_and_warm_ups_of_hops_survive_the_record() {
    let plan = good(
        r#"
gateways:
  - { name: hop-l7, label: cold, warming: { requests: 30000, extra: 140us } }
  - { name: hop-l7, label: step, warming: { requests: 2, extra: 1s, fall: step } }
  - { name: hop-l7, label: both, delay: { in: 2ms, how: spin }, warming: { requests: 9, extra: 1us, fall: linear } }
  - { name: hop-l7, label: slow, delay: { out: 2ms, share: 1% } }
load: [{ loop: closed, connections: 1 }]
"#,
    );
    assert_eq!(kept(&plan), plan);
    let hops = plan.gateways.iter().map(|gateway| match &gateway.kind {
        GatewayKind::DelayingHop(delay) => *delay,
        kind => panic!("{kind:?}"),
    });
    let hops: Vec<HopDelay> = hops.collect();
    let warming = |requests, extra, fall| Some(HopWarming { requests, extra, fall });
    let cold = warming(30_000, Duration::from_micros(140), HopWarmingFall::Linear);
    assert_eq!(hops[0], HopDelay { warming: cold, ..HopDelay::default() });
    assert_eq!(hops[1].warming, warming(2, Duration::from_secs(1), HopWarmingFall::Step));
    assert_eq!(hops[2].warming, warming(9, Duration::from_micros(1), HopWarmingFall::Linear));
    assert_eq!((hops[2].inbound, hops[2].how), (Duration::from_millis(2), HopDelayHow::Spin));
    insta::assert_snapshot!(hops.iter().map(HopDelay::to_string).collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_template_is_a_plan_and_names_every_key() {
    let plan = good(TEMPLATE);
    assert!(!plan.gateways.is_empty());
    let schema = schema();
    for key in schema["properties"].as_object().unwrap().keys() {
        assert!(
            TEMPLATE.contains(&format!("\n{key}:")) || TEMPLATE.contains(&format!("\n# {key}:")),
            "{key}"
        );
    }
}

/// The labels and features of a plan's gateways.
fn features_of(text: &str) -> Vec<(String, String)> {
    let plan = good(text);
    let words = |gateway: &Gateway| {
        let words: Vec<_> = gateway.features().iter().map(ToString::to_string).collect();
        (gateway.label.clone(), words.join(" "))
    };
    plan.gateways.iter().map(words).collect()
}

#[test]
fn features_have_settings() {
    let one = |features: &str| {
        let load = "load: [{ loop: closed, connections: 1 }]";
        features_of(&format!("gateways: [{{ name: nginx, features: {features} }}]\n{load}\n"))[0].1.clone()
    };
    assert_eq!(one("[key-auth]"), "key-auth");
    assert_eq!(one("[rate-limit]"), "rate-limit");
    assert_eq!(one("[{ rate-limit: 100/s }]"), "rate-limit=100/s");
}

#[test]
fn a_gateway_that_always_uses_tls_has_the_feature_in_every_plan() {
    let plan = |gateway: &str| {
        features_of(&format!("gateways: [{gateway}]\nload: [{{ loop: closed, connections: 1 }}]\n"))
    };
    let pair = |label: &str, features: &str| (label.to_owned(), features.to_owned());
    assert_eq!(plan("secure"), [pair("secure", "tls")]);
    assert_eq!(plan("{ name: secure, features: [tls] }"), [pair("secure", "tls")]);
    assert_eq!(plan("{ name: secure, features: [rate-limit] }"), [pair("secure", "rate-limit tls")]);
    let each =
        [pair("secure", "tls"), pair("secure.rate-limit", "rate-limit tls"), pair("secure.mtls", "tls mtls")];
    assert_eq!(plan("{ name: secure, features: each }"), each, "`tls` has no price");
}

#[test]
fn a_matrix_has_bare_single_and_paired_features() {
    let plan = |features: &str| {
        features_of(&format!(
            "gateways: [{{ name: nginx, label: n, features: {features} }}]\nload: [{{ loop: closed, \
            connections: 1 }}]\n"
        ))
    };
    let pair = |label: &str, features: &str| (label.to_owned(), features.to_owned());
    let each = vec![pair("n", ""), pair("n.key-auth", "key-auth"), pair("n.rate-limit", "rate-limit")];
    assert_eq!(plan("each"), each);
    let both = pair("n.key-auth.rate-limit", "key-auth rate-limit");
    assert_eq!(plan("all-pairs"), each.into_iter().chain([both]).collect::<Vec<_>>());
}

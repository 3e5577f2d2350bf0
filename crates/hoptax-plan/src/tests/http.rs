//! Tests of HTTP/2 and streams.

use super::*;
use hoptax_format::spec::HttpVersion;

fn entry(load: &str) -> String {
    format!("gateways: []\nload:\n  - {{ {load} }}\n")
}

fn shown(text: &str) -> Vec<String> {
    good(text).load.iter().map(LoadPoint::describe).collect()
}

#[test]
fn http2_and_streams_can_be_swept() {
    let plan = good(&entry("loop: closed, connections: 10, http: 2, streams: [1, 8]"));
    let points: Vec<_> = plan.load.iter().map(|point| (point.http, point.streams)).collect();
    assert_eq!(points, [(HttpVersion::Http2, 1), (HttpVersion::Http2, 8)]);
    assert!(plan.is_http2_only());
    let loads = [
        "loop: closed, connections: 2, http: 2, streams: [1, 8], keepalive: 100",
        "loop: open, rate: 5000/s, connections: 16, streams: 8, http: 2",
    ];
    insta::assert_snapshot!(loads.map(|load| shown(&entry(load)).join("\n")).join("\n"));
    let search = "search: { slo: \"p99 < 9ms\", from: 100/s, to: 9000/s }";
    let search = good(&entry(&format!("loop: open, connections: 4, streams: 2, http: 2, {search}")));
    assert_eq!((search.load[0].http, search.load[0].streams), (HttpVersion::Http2, 2));
    let staged = good(&entry("loop: open, connections: 4, streams: 2, http: 2, rate: [9/s for 1s]"));
    assert_eq!(staged.load[0].streams, 2);
    let start = good(
        "gateways: [nginx]\nstart: {}\nload: [{ loop: open, rate: 9/s, connections: 1, http: 2 \
                      }]\n",
    );
    assert_eq!(start.load[0].http, HttpVersion::Http2);
}

/// HTTP/1 has no streams, so a sweep over both has its points with one stream only.
#[test]
fn a_sweep_over_versions_has_http1_with_one_stream() {
    let plan = good(&entry("loop: closed, connections: 1, streams: [1, 10], http: [1.1, 2]"));
    let shown: Vec<String> = plan.load.iter().map(LoadPoint::describe).collect();
    let expected =
        ["closed, 1 connection", "closed, 1 connection, HTTP/2", "closed, 1 connection × 10 streams, HTTP/2"];
    assert_eq!(shown, expected);
    assert_eq!(plan.versions(), [HttpVersion::Http11, HttpVersion::Http2]);
    assert!(!plan.is_http2_only());
}

#[test]
fn streams_need_http2_and_have_limits() {
    let told = refusals(
        &[
            "loop: closed, connections: 1, streams: 8",
            "loop: closed, connections: 1, streams: 8, http: [2, 1.1]",
            "loop: closed, connections: 1, http: 2, streams: 0",
            "loop: closed, connections: 1, http: 2, streams: 1001",
            "loop: closed, connections: [1, 1001], http: 2, streams: 1000",
            "loop: closed, connections: 1, http: 2, streams: 8, keepalive: off",
            "loop: closed, connections: 1, http: 2, streams: [1, 8], keepalive: [100, 7]",
        ],
        |load| mistake(&entry(load)),
    );
    insta::assert_snapshot!(told);
    good(&entry("loop: closed, connections: 10000000, http: 2"));
    good(&entry("loop: closed, connections: 1, http: 2, streams: 8, keepalive: 8"));
}

#[test]
fn connections_and_streams_must_carry_the_rate() {
    let plan = |streams: &str| {
        let load = format!("loop: open, connections: 10, http: 2, streams: {streams}, rate: 300/s");
        format!("upstream: {{ delay: 100ms }}\n{}", entry(&load))
    };
    good(&plan("3"));
    insta::assert_snapshot!(mistake(&plan("[2, 3]")));
}

#[test]
fn http2_refuses_what_belongs_to_http1() {
    let load = entry("loop: closed, connections: 1, http: [1.1, 2]");
    let with = |target: &str| format!("target: {target}\n{load}");
    let told = refusals(
        &[
            "{ headers: { Connection: close } }",
            "{ headers: { upgrade: h2c } }",
            "{ headers: { te: gzip } }",
            "{ method: POST, body: { size: 9B, chunked: true } }",
        ],
        |target| mistake(&with(target)),
    );
    insta::assert_snapshot!(told);
    good(&with("{ headers: { te: trailers, host: a.test } }"));
}

fn on(gateways: &str, http: &str) -> Result<Plan, String> {
    let pack = |name: &str, http2, features: &[&str]| PackInfo {
        name: name.into(),
        http2,
        features: features.iter().map(|name| (*name).to_owned()).collect(),
        variants: vec!["plain".into(), "connect".into(), "forward".into()],
        proxy: BTreeMap::from([
            ("connect".to_owned(), ProxyForm::Connect),
            ("forward".to_owned(), ProxyForm::Forward),
        ]),
        ..PackInfo::default()
    };
    let known = vec![
        pack("old", ClientHttp2::No, &[]),
        pack("both", ClientHttp2::Shared, &[]),
        pack("either", ClientHttp2::Exclusive, &["tls"]),
    ];
    let context = Context { known, ..context() };
    let text = format!("gateways: [{gateways}]\nload: [{{ loop: closed, connections: 1, http: {http} }}]\n");
    parse("plans/x.yaml", &text, &[], &context).map_err(listed)
}

#[test]
fn gateways_must_speak_the_version_of_the_load() {
    for (gateways, http) in [
        ("old, either, hop-l7", "[1.0, 1.1]"),
        ("both, hop-l4", "[1.1, 2]"),
        ("either", "2"),
        ("{ name: either, features: [tls] }", "[1.1, 2]"),
        ("{ name: old, variant: connect }", "2"),
        ("{ name: hop-l7, proxy: connect }", "2"),
        ("{ name: external, label: own, url: \"http://127.0.0.1:9\" }", "[1.1, 2]"),
    ] {
        assert!(on(gateways, http).is_ok(), "{gateways} {http}: {:?}", on(gateways, http));
    }
    let told = [
        ("both, old", "2"),
        ("either", "[1.1, 2]"),
        ("hop-l7", "2"),
        ("{ name: hop-h2, delay: { in: 1ms } }", "[1.1, 2]"),
        ("{ name: hop-h2, upstream_http: 1.0 }", "2"),
        ("{ name: hop-l4, upstream_http: 2 }", "2"),
        ("{ name: hop-h2, variant: a }", "2"),
        ("{ name: hop-h2, workers: 2 }", "2"),
        ("{ name: both, variant: forward }", "2"),
        ("{ name: hop-l7, proxy: forward }", "2"),
    ]
    .map(|(gateways, http)| {
        refusal(&format!("{gateways} | {http}"), &on(gateways, http).expect_err(gateways))
    })
    .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn hop_h2_has_an_upstream_version_and_delays() {
    let hops = "hop-h2, { name: hop-h2, label: down, upstream_http: 1.1, delay: { in: 2ms } }";
    let plan = on(hops, "2").expect("valid");
    let kinds: Vec<GatewayKind> = plan.gateways.iter().map(|gateway| gateway.kind.clone()).collect();
    let delay = HopDelay { inbound: Duration::from_millis(2), ..HopDelay::default() };
    let expected = [
        GatewayKind::Http2Hop { upstream: HttpVersion::Http2, delay: None },
        GatewayKind::Http2Hop { upstream: HttpVersion::Http11, delay: Some(delay) },
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn hop_h2_has_faults() {
    let first = "{ name: hop-h2, delay: { message: 50us }, \
                 faults: { drop: 0.1%, hold: 50ms, deadline: 100ms } }";
    let hops = format!("{first}, {{ name: hop-h2, label: b, faults: {{ repeat: 1%, deadline: drop }} }}");
    let plan = on(&hops, "2").expect("valid");
    let delays = plan.gateways.iter().map(|gateway| match &gateway.kind {
        GatewayKind::Http2Hop { delay: Some(delay), .. } => *delay,
        kind => panic!("{kind:?}"),
    });
    let delays: Vec<HopDelay> = delays.collect();
    let deadline = Some(HopDeadline::Replace(Duration::from_millis(100)));
    let faults = HopFaults { drop: 0.001, hold: Duration::from_millis(50), deadline, ..HopFaults::default() };
    let message = Duration::from_micros(50);
    let both = HopDelay { message, faults: Some(faults), ..HopDelay::default() };
    assert_eq!(delays[0], both);
    insta::assert_snapshot!(delays.iter().map(HopDelay::to_string).collect::<Vec<_>>().join("\n"));
    let json = serde_json::to_string(&plan.gateways).expect("plain data");
    assert_eq!(serde_json::from_str::<Vec<Gateway>>(&json).expect("it was written"), plan.gateways);
}

#[test]
fn hop_l7_has_faults() {
    let first = "{ name: hop-l7, faults: { drop: 1%, hold: 1m, merge: 10%, bunch: 5 } }";
    let hops =
        format!("{first}, {{ name: hop-l7, label: b, faults: {{ refuse: 1%, cut: 1s, deflate: drop }} }}");
    let of_llm = "hold_first: 25ms, false_end: true, ignore_abort: true, retry: 2, rewrite_usage: true, \
                  add_field: true, alter_response: false, drop_comments: true, unbounded: true";
    let hops = format!("{hops}, {{ name: hop-l7, label: c, faults: {{ {of_llm} }} }}");
    let plan = on(&hops, "1.1").expect("valid");
    let faults = plan.gateways.iter().map(|gateway| match &gateway.kind {
        GatewayKind::DelayingHop(HopDelay { faults: Some(faults), .. }) => *faults,
        kind => panic!("{kind:?}"),
    });
    let faults: Vec<HopFaults> = faults.collect();
    let of_events =
        HopFaults { drop: 0.01, hold: Duration::from_secs(60), merge: 0.1, bunch: 5, ..HopFaults::default() };
    let of_websockets = HopFaults {
        refuse: 0.01,
        cut: Duration::from_secs(1),
        deflate: Some(HopDeflate::Drop),
        ..HopFaults::default()
    };
    let llm = HopLlm {
        hold_first: Duration::from_millis(25),
        false_end: true,
        ignore_abort: true,
        retry: 2,
        rewrite_usage: true,
        add_field: true,
        alter_response: false,
        drop_comments: true,
        unbounded: true,
    };
    let of_llm = HopFaults { llm: Some(llm), ..HopFaults::default() };
    assert_eq!(faults, [of_events, of_websockets, of_llm]);
    insta::assert_snapshot!(faults.iter().map(HopFaults::to_string).collect::<Vec<_>>().join("\n"));
    assert!(faults.iter().all(HopFaults::is_of_streams) && !faults.iter().any(HopFaults::is_of_calls));
    let json = serde_json::to_string(&plan.gateways).expect("plain data");
    assert_eq!(serde_json::from_str::<Vec<Gateway>>(&json).expect("it was written"), plan.gateways);
}

#[test]
fn packs_that_can_have_an_http2_upstream() {
    let pack = |name: &str, upstream_http2, reasons: &[(&str, &str)]| PackInfo {
        name: name.into(),
        upstream_http2,
        unsupported: reasons.iter().map(|(what, why)| ((*what).into(), (*why).into())).collect(),
        variants: vec!["plain".into(), "forward".into()],
        proxy: BTreeMap::from([("forward".to_owned(), ProxyForm::Forward)]),
        ..PackInfo::default()
    };
    let known = vec![
        pack("new", true, &[]),
        pack("old", false, &[]),
        pack("shy", false, &[("upstream_http2", "it has no such setting")]),
    ];
    let context = Context { known, ..context() };
    let read = |gateways: &str| {
        let text = format!("gateways: [{gateways}]\nload: [{{ loop: closed, connections: 1 }}]\n");
        parse("plans/x.yaml", &text, &[], &context)
            .map(|plan| plan.gateways.iter().map(Gateway::has_http2_upstream).collect::<Vec<_>>())
            .map_err(listed)
    };
    let all = "new, old, { name: new, label: new-h2, upstream_http: 2 }, { name: new, label: new-h1, \
               variant: plain, upstream_http: 1.1 }";
    assert_eq!(read(all), Ok(vec![false, false, true, false]));
    let told = refusals(
        &[
            "{ name: old, upstream_http: 2 }",
            "{ name: shy, upstream_http: 2 }",
            "{ name: old, upstream_http: 1.1 }",
            "{ name: new, upstream_http: 1.0 }",
            "{ name: new, upstream_http: 3 }",
            "{ name: new, upstream_http: 2, variant: forward }",
        ],
        |gateway| read(gateway).expect_err(gateway),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn budgets_can_select_a_version_and_streams() {
    let plan = |selector: &str| {
        format!(
            "gateways: []\nload: [{{ loop: closed, connections: 1, streams: [1, 8], http: [1.1, 2] \
             }}]\nbudget: [{{ metric: p50, max: 1ms, load: {{ {selector} }} }}]\n"
        )
    };
    let selected = |selector: &str| {
        let plan = good(&plan(selector));
        plan.load.iter().map(|point| plan.budget[0].load.selects(point)).collect::<Vec<_>>()
    };
    assert_eq!(selected("http: 2"), [false, true, true]);
    assert_eq!(selected("http: 1.1"), [true, false, false]);
    assert_eq!(selected("streams: 8"), [false, false, true]);
    insta::assert_snapshot!(refusals(&["http: 1.0", "http: 3"], |selector| mistake(&plan(selector))));
}

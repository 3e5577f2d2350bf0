//! Tests of searches for capacity, and of wrong searches.

use super::*;
use hoptax_format::spec::{Arrivals, Rate, Shape};
use std::time::Duration;

fn entry(search: &str, rest: &str) -> String {
    format!("gateways: []\nload:\n  - {{ loop: open, connections: 8, search: {{ {search} }}{rest} }}\n")
}

fn search(typed: &str, rest: &str) -> (LoadPoint, Search) {
    let point = good(&entry(typed, rest)).load.remove(0);
    let search = point.search.clone().expect("a search");
    (point, search)
}

#[test]
fn defaults_of_a_search() {
    let (point, search) = search(r#"slo: "p99 < 10ms", from: 100/s, to: 50000/s"#, ", duration: 5s");
    assert_eq!(point.shape, Shape::Open { rate: Rate::Fixed(100.0), arrivals: Arrivals::Constant });
    assert_eq!((search.from, search.to, search.precision), (100.0, 50_000.0, 0.05));
    assert_eq!((search.confirm, point.duration), (Duration::from_secs(10), Duration::from_secs(5)));
    insta::assert_snapshot!(point.describe());
}

#[test]
fn a_closed_loop_of_streams_searches_for_connections() {
    let text = |connections: &str, search: &str| {
        let target = "target: { grpc: { service: a, method: B, kind: server-stream } }";
        let load = format!("loop: closed, http: 2, connections: {connections}, search: {{ {search} }}");
        format!("{target}\ngateways: []\nload: [{{ {load} }}]\n")
    };
    let point = good(&text("900", r#"slo: "p99 < 9ms", from: 10, to: 900"#)).load.remove(0);
    assert_eq!((&point.shape, point.connections), (&Shape::Closed, 900));
    let search = point.search.as_ref().expect("a search");
    assert_eq!((search.from, search.to), (10.0, 900.0));
    insta::assert_snapshot!(point.describe());
    let texts = [
        text("900", "from: 10/s, to: 900"),
        text("900", "from: 900, to: 900"),
        text("8", "from: 10, to: 900"),
    ];
    insta::assert_snapshot!(texts.map(|text| refusal(&text, &mistake(&text))).concat());
}

#[test]
fn a_search_for_connections_needs_times_of_messages() {
    let text = |kind: &str, upstream: &str, slo: &str| {
        let target = format!("target: {{ path: /a, websocket: {{ kind: {kind}, every: 10ms }} }}");
        let search = format!("search: {{ slo: \"{slo}\", from: 10, to: 900 }}");
        let load = format!("load: [{{ loop: closed, connections: 900, {search} }}]");
        format!("{upstream}\n{target}\ngateways: []\n{load}\n")
    };
    let running = "upstream: { url: \"http://127.0.0.1:8081\" }";
    for (kind, upstream, slo) in
        [("echo", running, "p99 < 9ms"), ("push", "", "p99 < 9ms"), ("push", running, "errors < 1%")]
    {
        good(&text(kind, upstream, slo));
    }
    let refused = [text("push", "", "first_content_p99 < 9ms"), text("push", running, "p99 < 9ms")];
    insta::assert_snapshot!(refused.map(|text| refusal(&text, &mistake(&text))).concat());
}

#[test]
fn a_frontier_is_one_search_with_several_objectives() {
    let texts = |typed: &str| -> Vec<String> {
        let (_, search) = search(&format!("{typed} from: 100/s, to: 1000/s"), ", duration: 5s");
        search.objectives.into_iter().map(|objective| objective.text).collect()
    };
    let standard = texts("");
    assert_eq!(standard.len(), 5);
    assert_eq!(
        (&*standard[0], &*standard[4]),
        ("p99 < 1ms and errors < 0.1%", "p99 < 100ms and errors < 0.1%")
    );
    assert_eq!(texts("bounds: [1ms, 5ms, 10ms, 50ms, 100ms],"), standard);
    assert_eq!(texts(r#"slo: ["p50 < 1ms", "mean < 2ms"],"#), ["p50 < 1ms", "mean < 2ms"]);
}

#[test]
fn searches_can_be_swept() {
    let text = entry(
        "from: 1000/s, to: 9000/s, confirm: 7s, precision: 10%",
        ", duration: [1s, 2s], arrivals: poisson",
    );
    let plan = good(&text);
    let confirms: Vec<Duration> =
        plan.load.iter().map(|point| point.search.as_ref().expect("a search").confirm).collect();
    assert_eq!(confirms, [Duration::from_secs(7); 2]);
    assert_eq!(plan.load[1].duration, Duration::from_secs(2));
}

#[test]
fn errors_in_an_objective_have_places() {
    let told = refusals(&["p99 < 10ms and eror < 0.1%", "p99 < 10"], |slo| {
        let text = entry(&format!("slo: \"{slo}\", from: 100/s, to: 900/s"), "");
        parsed(&text, &[]).expect_err(slo).to_string()
    });
    insta::assert_snapshot!(told);
}

#[test]
fn wrong_searches_are_refused() {
    let slo = r#"slo: "p99 < 10ms""#;
    let closed = entry(&format!("{slo}, from: 100/s, to: 900/s"), "").replace("loop: open", "loop: closed");
    let shown = parsed(&closed, &[]).expect_err("closed").to_string();
    insta::assert_snapshot!(shown);
    let mut told = String::new();
    for (typed, rest) in [
        ("from: 900/s, to: 100/s", ""),
        ("from: 100/s, to: 900/s", ", rate: 5/s"),
        ("from: 100/s, to: 900/s", ", requests: 500, duration: 9s"),
        ("from: 100/s, to: 900/s, precision: 0.1%", ""),
        ("from: 100/s, to: 900/s, bounds: [1ms]", ""),
        ("from: 10/s, to: 900/s", ", duration: 2s"),
        ("from: 100/s, to: 99999999/s", ""),
        ("from: 100/s", ""),
        ("from: 100/s, to: 900/s, confirm: 0s", ""),
    ] {
        told += &refusal(&format!("{typed}{rest}"), &mistake(&entry(&format!("{slo}, {typed}"), rest)));
    }
    told += &refusals(&[r#"slo: ["p99 < 1ms", "p99 <= 1ms"]"#, "bounds: [1ms, 0ms]"], |typed| {
        mistake(&entry(&format!("{typed}, from: 100/s, to: 900/s"), ""))
    });
    insta::assert_snapshot!(told);
}

/// By Little's law, four connections can carry 200/s if each response takes 20 ms. A search must not start
/// above this rate, but it may reach higher rates later.
#[test]
fn the_first_rate_of_a_search_fits_its_connections() {
    let text = |from: &str| {
        format!(
            "upstream: {{ delay: 20ms }}\n{}",
            entry(&format!("slo: \"p90 < 1s\", from: {from}, to: 9000/s"), "")
        )
        .replace("connections: 8", "connections: 4")
    };
    good(&text("100/s"));
    let shown = parsed(&text("300/s"), &[]).expect_err("too much").to_string();
    insta::assert_snapshot!(shown);
}

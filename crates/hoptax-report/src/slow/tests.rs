//! Tests of the explanation of slow requests in each format.

use super::*;
use crate::fixture::*;
use crate::formats::html::html as page;
use crate::formats::markdown::markdown as document;
use crate::formats::terminal::terminal;
use hoptax_format::moments::Moment;
use hoptax_record::Role;
use hoptax_record::report::Load;
use hoptax_record::tail::{CpuLane, Doing, Holder, Lane, SlowRequest, TailCause, TailKind};
use hoptax_stats::Estimate;

/// Half of a slow request's time, a program with a strange name had the CPU.
fn model() -> Model {
    let mut model = Run::steady(3, 100, &[("nginx", 150)]).model();
    let cause = |kind, role, holder: Option<&str>, share: f64, slow_us: f64| SlowCause {
        kind,
        role,
        holder: holder.map(str::to_owned),
        share: Estimate { estimate: share, low: Some(share - 0.1), high: Some(share + 0.1), trials: 8 },
        slow_us,
        usual_us: 20.0,
    };
    let waiting = TailCause {
        kind: TailKind::Waiting,
        role: Some(Role::Gateway),
        holder: Some(Holder::Other("k<d>".into())),
    };
    let request = SlowRequest {
        moment: Moment { completed: 1_000_000, ..Moment::default() },
        pieces: vec![(0, 600_000), (1, 400_000)],
        lanes: vec![Lane {
            role: Role::Gateway,
            thread: "nginx 7".into(),
            spans: vec![(0, 600_000, Doing::Ready), (600_000, 1_000_000, Doing::Running)],
        }],
        cpus: vec![CpuLane { cpu: 1, spans: vec![(0, 600_000, "k<d> 5".into())] }],
    };
    let running = TailCause { kind: TailKind::Running, role: Some(Role::Gateway), holder: None };
    let load: Load = model.cases[0].load.clone();
    let mut figures = SlowFigures {
        contender: "nginx".into(),
        load,
        passes: 4,
        failed: 1,
        failure: Some("perf ended".into()),
        recorder: "perf version 6.1".into(),
        requests: 4_000,
        left_out: 1_500,
        p50_us: Some(Estimate { estimate: 162.0, low: Some(158.0), high: Some(166.0), trials: 4 }),
        slow_requests: 40,
        lost: 12,
        disturbed: 0.25,
        slow_us: Some(Estimate { estimate: 1_000.0, low: Some(900.0), high: Some(1_100.0), trials: 8 }),
        usual_us: Some(100.0),
        causes: vec![
            cause(TailKind::Waiting, None, Some("k<d>"), 0.61, 569.0),
            cause(TailKind::Neighbour, Some(Role::Gateway), None, 0.3, 290.0),
            cause(TailKind::Asleep, Some(Role::Upstream), None, 0.09, 101.0),
            cause(TailKind::Running, Some(Role::Gateway), None, 0.001, 21.0),
        ],
        sentence: String::new(),
        slowest: vec![(request, vec![waiting, running])],
    };
    figures.sentence = sentence(&figures);
    model.slow = vec![figures];
    model
}

#[test]
fn the_answer_names_who_had_the_cpu() {
    let expected = "Requests through nginx beyond p99 took 900 µs longer than those at the median: \
        61 % k<d> had the CPU, 30 % the gateway served another request and 9 % the upstream slept.";
    assert_eq!(model().slow[0].sentence, expected);
}

#[test]
fn every_format_has_the_answer_the_table_and_the_failure() {
    let model = model();
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = page(&model).expect("a page");
    assert!(page.contains("<svg viewBox") && page.contains("k&lt;d&gt; 5") && !page.contains("k<d>"));
    for text in [terminal(&model, 80, false), document(&model), page] {
        let text = one_line(text);
        let words = "The gateway served another request|perf ended|12 switches were lost|Left out: 25 %|\
                     900 µs|had 1,500 requests more than could be kept|\
                     While switches were recorded, p50 was 162 µs (158.0–166.0); in the trials, 150 µs";
        for word in words.split('|') {
            assert!(text.contains(word), "{word} is missing: {text}");
        }
        assert!(!text.contains("The gateway ran"), "its share is too small for a row: {text}");
    }
    fits(&terminal(&model, 80, false), 80);
}

#[test]
fn the_trace_has_a_process_for_each_request() {
    let files = tail_files(&model());
    assert_eq!((files.len(), files[0].name.as_str()), (1, "tail-nginx-1.json"));
    let trace: serde_json::Value = serde_json::from_slice(&files[0].content).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(spans.len(), 5);
    assert_eq!(spans[0]["name"], "k<d> had the CPU");
    assert_eq!((spans[0]["ts"].as_f64(), spans[0]["dur"].as_f64()), (Some(0.0), Some(600.0)));
    assert_eq!(spans[1]["ts"].as_f64(), Some(600.0));
}

use super::colour::{DIRECT, shade};
use super::unit::Unit;
use super::*;
use crate::fixture::*;
use hoptax_analysis::fixture::features::matrix;
use hoptax_plan::Metric;

#[test]
fn a_contender_has_one_colour_and_direct_none_of_theirs() {
    let model = sample().model();
    assert_eq!(colour(&model, "nginx"), colour(&model, "nginx"));
    assert_ne!(colour(&model, "nginx"), colour(&model, "haproxy"));
    assert_eq!(colour(&model, "direct"), DIRECT);
}

#[test]
fn twenty_gateways_have_twenty_colours() {
    let all: std::collections::BTreeSet<String> = (0..21).map(|index| css(shade(index))).collect();
    assert_eq!(all.len(), 21, "{all:?}");
    assert!(!all.contains(&css(DIRECT)));
}

/// The first chart of the page.
fn first(model: &Model, load: &Load, width: Width) -> Option<String> {
    tax(model, load, &model.measures()[0], width).expect("drawn")
}

#[test]
fn the_tax_is_drawn_at_both_widths() {
    let model = sample().model();
    for load in model.loads() {
        for width in [Width::Wide, Width::Narrow] {
            let svg = first(&model, load, width).expect("there is something to draw");
            assert!(svg.starts_with("<svg class=") && svg.trim_end().ends_with("</svg>"));
            assert!(!svg.contains("http") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn without_figures_there_is_no_chart() {
    let run = Run::closed(1).with([via("nginx", 0).nothing_completed()]);
    let model = run.model();
    let load = model.loads().next().expect("one");
    assert_eq!(first(&model, load, Width::Wide), None);
    // Trials without responses still have a duration and memory.
    for chart in Chart::ALL.into_iter().filter(|chart| ![Chart::Time, Chart::Memory].contains(chart)) {
        assert_eq!(svg(chart, &model, load, Theme::Light).expect("no error"), None, "{}", chart.name());
    }
}

#[test]
fn starts_are_drawn_on_the_page_and_as_a_file() {
    let model = hoptax_analysis::fixture::starts::sample().model();
    let load = shown_first(&model).expect("the load after the start");
    assert!(has(Chart::Starts, &model, load));
    assert_eq!(Chart::ALL.into_iter().filter(|chart| has(*chart, &model, load)).count(), 1);
    let file = svg(Chart::Starts, &model, load, Theme::Dark).expect("drawn").expect("something");
    for text in ["nginx", "yarp", "direct", "10 ms", "1 s"] {
        assert!(file.contains(text), "{text}: {file}");
    }
    for width in [Width::Wide, Width::Narrow] {
        let page = after_starts(&model, width).expect("drawn").expect("something");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}

#[test]
fn labels_are_escaped() {
    let model = Run::steady(3, 100, &[("<b>&\"x\"", 150)]).model();
    let load = model.loads().next().expect("one");
    let page = first(&model, load, Width::Wide).expect("something");
    let alone = svg(Chart::Percentiles, &model, load, Theme::Dark).expect("drawn").expect("something");
    assert!(!page.contains("<b>") && !alone.contains("<b>"), "{page}{alone}");
    assert!(roxmltree::Document::parse(&alone).is_ok());
}

/// A run with two gateways, two load points and a search.
fn swept() -> Run {
    let mut run = Run::with_load(vec![open_point(1000.0, 2, 1), open_point(1000.0, 8, 1), searched_point()]);
    for round in 0..3 {
        for load in 0..2 {
            let trial = |who: &str, us: u64| {
                via(who, round).windows_us(&vec![vec![us + u64::from(round); 100]; 10]).at_load(load)
            };
            run.push(trial("direct", 100).first());
            run.push(trial("nginx", 160)).push(trial("envoy", 400));
            run.push(trial("direct", 103).last());
        }
        for (who, us) in [("direct", 900), ("nginx", 1500), ("envoy", 9000)] {
            for rate in [800.0, 1600.0, 3200.0] {
                run.push(via(who, round).all_at_us(us + rate as u64 / 10).step(rate).at_load(2));
            }
        }
    }
    run
}

/// A run with enough rounds for a precision over time.
fn long() -> Run {
    let mut run = Run::closed(4);
    for round in 0..12 {
        let start = 3.0 * f64::from(round);
        run.push(via("direct", round).first().all_at_us(100).at_s(start));
        run.push(via("nginx", round).all_at_us(150 + u64::from(round % 5)).at_s(start + 1.0));
    }
    run
}

/// A run of streams. The ages or response times of messages are 100 µs, and 170 µs through the gateway.
fn streams(stream: impl Fn(MadeTrial, u64) -> MadeTrial) -> Model {
    let mut run = Run::closed(4);
    for round in 0..3 {
        let jitter = u64::from(round % 2);
        let of = |who: &str, calls_us: u64, messages_us: u64| {
            stream(via(who, round).all_at_us(calls_us), messages_us)
        };
        run.push(of("direct", 900, 100).first()).push(of("direct", 900, 100 + jitter).last());
        run.push(of("nginx", 1400, 170 + jitter));
    }
    run.model()
}

fn drawn(chart: Chart, model: &Model, load: &Load) -> String {
    svg(chart, model, load, Theme::Light)
        .expect("drawn")
        .unwrap_or_else(|| panic!("{} is missing", chart.name()))
}

#[test]
fn every_chart_can_be_drawn_as_svg_and_png() {
    let (swept, features, long) = (swept().model(), matrix(230, 33).model(), long().model());
    let starts = hoptax_analysis::fixture::starts::sample().model();
    let tokens = streams(|trial, us| {
        let trial = trial.server_stream_us(us, 1000).first_message_us(us + 30).headers_us(us);
        trial.tokens_us([us + 9, us, 1000], 10)
    });
    let streams = streams(|trial, us| trial.both_ways_us(us, 1000));
    for chart in Chart::ALL {
        let model = match chart {
            Chart::Prices => &features,
            Chart::Precision => &long,
            Chart::Starts => &starts,
            Chart::TaxMessage => &streams,
            Chart::StreamLife => &tokens,
            _ => &swept,
        };
        let mut loads = model.noise_floor.by_load.iter().map(|floor| &floor.load);
        let is_of_searches = matches!(chart, Chart::Frontier | Chart::Capacity);
        let load = loads.find(|load| load.search.is_some() == is_of_searches).expect("one");
        assert!(has(chart, model, load), "{}", chart.name());
        let text = drawn(chart, model, load);
        let document = roxmltree::Document::parse(&text).expect("XML");
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        assert!(texts.contains(&chart.title()), "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("nginx")), "{texts:?}");
        assert!(!text.contains("NaN") && !text.contains("inf,"), "{text}");
        if [Chart::Tax, Chart::Time].contains(&chart) {
            let file = png(chart, model, load, Theme::Dark).expect("drawn").expect("something");
            let decoder = png::Decoder::new(std::io::Cursor::new(&file));
            let reader = decoder.read_info().expect("PNG");
            assert_eq!(reader.info().width, 1920, "two dots for each of 960 pixels");
        }
    }
}

#[test]
fn the_chart_of_messages_names_the_times_that_it_shows() {
    let both_ways = streams(|trial, us| trial.both_ways_us(us, 1000));
    let of_server = streams(|trial, us| trial.server_stream_us(us, 1000));
    let response_time = (&both_ways, "response time", Metric::AddedMessageP50);
    for (model, times, metric) in [response_time, (&of_server, "age", Metric::AddedAgeP50)] {
        let added = model.cases.iter().find_map(|case| case.tax.as_ref()?.get(metric)).expect("a tax");
        let value = Unit::Time.format(added.estimate.estimate);
        let load = model.loads().next().expect("one");
        let file = drawn(Chart::TaxMessage, model, load);
        let label = format!("{times}; closed loop, 4 connections; with 95 % intervals");
        assert!(file.contains(&label) && file.contains(&value), "{value}: {file}");
        for width in [Width::Wide, Width::Narrow] {
            let page = first(model, load, width).expect("something");
            assert!(page.contains(&format!("Added {times} of")), "{page}");
        }
    }
    let without = Run::steady(3, 100, &[("nginx", 150)]).model();
    let load = without.loads().next().expect("one");
    assert!(!has(Chart::TaxMessage, &without, load));
}

/// A way to add messages to a trial. It receives the time that the answer is about, µs.
type Stream = fn(MadeTrial, u64) -> MadeTrial;

#[test]
fn the_answer_the_first_chart_and_the_table_of_pairs_have_the_same_measure() {
    let kinds: [(Stream, Metric, &str); 4] = [
        (|trial, us| trial.all_at_us(us), Metric::AddedP50, "Added response time at the median"),
        (
            |trial, us| trial.both_ways_us(us, 1000),
            Metric::AddedMessageP50,
            "Added response time of messages at the median",
        ),
        (
            |trial, us| trial.server_stream_us(us, 1000),
            Metric::AddedAgeP50,
            "Added age of messages at the median",
        ),
        (
            // Ages are smaller through b.
            |trial, us| {
                let age_us = us.min(400 - us);
                trial.server_stream_us(age_us, 1000).first_message_us(us).tokens_us([us, us, 1000], 10)
            },
            Metric::AddedFirstMessageP50,
            "Added time to the first content at the median",
        ),
    ];
    for (stream, metric, title) in kinds {
        let mut run = Run::closed(4);
        for round in 0..4 {
            let of = |who: &str, call_us: u64, us: u64| {
                stream(via(who, round).all_at_us(call_us), us + u64::from(round % 2))
            };
            run.push(of("direct", 900, 100).first()).push(of("direct", 900, 100).last());
            // Calls are shorter through b.
            run.push(of("a", 1800, 150)).push(of("b", 1400, 290));
        }
        let model = run.model();
        let load = model.loads().next().expect("one");
        assert_eq!(model.latency_metric(), metric);
        let answer = model.answer.as_deref().expect("two gateways");
        assert!(answer.starts_with("a adds least "), "{answer}");
        let rows = catalogue::tax(&model, load, model.measures()[0].metric).expect("two gateways").rows;
        assert_eq!([&*rows[0].name, &*rows[1].name], ["a", "b"], "{title}");
        let file = drawn(Chart::Tax, &model, load);
        let value = Unit::Time.format(rows[0].estimate.estimate);
        assert!(file.contains(title) && file.contains(&value), "{title}, {value}: {file}");
        let page = crate::html(&model).expect("drawn");
        let shown_first = format!("\"measures\":[{{\"metric\":\"{}\"", metric.name());
        assert!(page.contains(&shown_first), "{shown_first}");
        assert!(page.contains(&format!("<p><strong>{title}, closed loop")), "{title}");
        let text = crate::markdown(&model);
        assert!(text.contains("| b against a | slower |"), "{text}");
    }
}

#[test]
fn a_life_has_bars_and_a_dot_for_each_token() {
    let model = streams(|trial, us| trial.server_stream_us(us, 1000).tokens_us([us, us, 1000], 10));
    let load = model.loads().next().expect("one");
    let text = drawn(Chart::StreamLife, &model, load);
    assert_eq!(text.matches("<circle").count(), 2 * 10, "ten tokens, directly and via nginx");
    for text in [text, stream_life(&model, load, Width::Narrow).expect("drawn").expect("something")] {
        assert!(text.contains("direct") && text.contains("nginx") && text.contains("8 ms"), "{text}");
    }
    let events = streams(|trial, us| trial.server_stream_us(us, 1000));
    assert!(!has(Chart::StreamLife, &events, events.loads().next().expect("one")));
}

#[test]
fn a_line_has_as_many_points_as_there_are_load_points() {
    let model = swept().model();
    let load = model.loads().next().expect("one");
    let text = drawn(Chart::SweepP50, &model, load);
    let document = roxmltree::Document::parse(&text).expect("XML");
    let dots = document.descendants().filter(|node| node.has_tag_name("circle"));
    assert_eq!(dots.count(), 3 * 2, "three contenders at two load points");
    let single = Run::closed(4).model();
    let load = single.loads().next().expect("one");
    assert!(!has(Chart::SweepP50, &single, load) && !has(Chart::Frontier, &single, load));
}

#[test]
fn precision_needs_ten_rounds() {
    let (long, short) = (long().model(), Run::steady(9, 100, &[("nginx", 150)]).model());
    let load = long.loads().next().expect("one");
    assert_eq!(drawn(Chart::Precision, &long, load).matches("<circle").count(), 3, "5, 10 and 12 rounds");
    assert!(!has(Chart::Precision, &short, short.loads().next().expect("one")));
}

#[test]
fn values_are_written_beside_their_lines() {
    let model = Run::steady(3, 100, &[("nginx", 150)]).model();
    let load = model.loads().next().expect("one");
    let added = model.cases.iter().find_map(|case| case.tax.as_ref()?.added_p50.as_ref()).expect("a tax");
    let value = Unit::Time.format(added.estimate.estimate);
    assert!(drawn(Chart::Tax, &model, load).contains(&value), "{value}");
}

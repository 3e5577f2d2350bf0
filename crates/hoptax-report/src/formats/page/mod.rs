//! The data of the report page: a JSON document that the page's script reads.
//!
//! Figures have the same names and types as in the JSON report. The document also contains data that only
//! charts need: colours, trials over time, and whole distributions.

mod searches;
mod times;

use crate::charts;
use crate::model::Model;
use crate::prices::named;
use crate::profiles::{Flames, flame_graphs};
use crate::words::measure::Measure;
use crate::words::sweeps::{self, Sweep};
use hoptax_analysis::{Case, Load, NoiseFloor, Versions, headline};
use hoptax_plan::Metric;
use hoptax_record::DIRECT;
use hoptax_record::report::{
    Cpu, CurvePoint, Latency, Ledger, Memory, Path, Prices, StartFigures, Tax, Throughput,
};
use hoptax_record::start::StartKind;
use searches::Search;
use serde::Serialize;
use std::collections::BTreeMap;
use times::Times;

/// Version of the document's format. Only the script in the same page reads the document.
const SCHEMA: u32 = 2;

/// Everything that the page's script needs.
#[derive(Debug, Serialize)]
pub(crate) struct Page<'m> {
    schema: u32,
    name: &'m str,
    /// What the page's first charts show.
    measures: Vec<Measure>,
    /// Direct and the gateways, in the plan's order. Other fields refer to a contender by its index in
    /// `contenders`.
    contenders: Vec<Contender<'m>>,
    loads: Vec<PageLoad<'m>>,
    /// Index of the load point that the page shows first. Absent if there are only searches.
    first_load: Option<usize>,
    cases: Vec<PageCase<'m>>,
    sweeps: Vec<Sweep>,
    searches: Vec<Search<'m>>,
    prices: Vec<PagePrice<'m>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    versions: Vec<PageVersions<'m>>,
    starts: Vec<PageStart>,
    /// The flame graphs. Left out without profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flames: Vec<Flames>,
}

#[derive(Debug, Serialize)]
struct Contender<'m> {
    label: &'m str,
    colour: String,
    direct: bool,
}

#[derive(Debug, Serialize)]
struct PageLoad<'m> {
    #[serde(flatten)]
    load: &'m Load,
    /// The noise floor of each metric of the tax. Unknown values are left out.
    noise_floor: BTreeMap<&'static str, f64>,
}

#[derive(Debug, Serialize)]
struct PageCase<'m> {
    gateway: usize,
    load: usize,
    trials: u32,
    throughput: &'m Option<Throughput>,
    response_time: &'m Option<Latency>,
    cpu: &'m Option<Cpu>,
    memory: &'m Option<Memory>,
    ledger: &'m Option<Ledger>,
    tax: &'m Option<Tax>,
    path: &'m Option<Path>,
    curve: Vec<(f64, f64)>,
    times: Vec<Times>,
    events: Vec<PageEvent<'m>>,
}

/// The versions of a gateway at a load point.
#[derive(Debug, Serialize)]
struct PageVersions<'m> {
    name: &'m str,
    load: usize,
    versions: Vec<PageVersion<'m>>,
}

#[derive(Debug, Serialize)]
struct PageVersion<'m> {
    gateway: usize,
    name: &'m str,
}

/// The curve of response times after the starts of a contender.
#[derive(Debug, Serialize)]
struct PageStart {
    gateway: usize,
    /// Time since the start, s, and response time, µs.
    curve: Vec<(f64, f64)>,
}

#[derive(Debug, Serialize)]
struct PageEvent<'m> {
    event: &'m str,
    at_s: f64,
}

#[derive(Debug, Serialize)]
struct PagePrice<'m> {
    gateway: usize,
    bare: &'m str,
    load: usize,
    features: String,
    #[serde(flatten)]
    prices: &'m Prices,
}

impl<'m> Page<'m> {
    pub(crate) fn new(model: &'m Model) -> Self {
        let place = |label: &str| model.contenders.iter().position(|one| one.label == label);
        let mut loads: Vec<&Load> = model.loads().collect();
        loads.sort_by_key(|load| load.index);
        Self {
            schema: SCHEMA,
            name: &model.name,
            measures: model.measures(),
            contenders: model.contenders.iter().map(|one| contender(model, &one.label)).collect(),
            first_load: headline::for_latency(&mut loads.iter().copied()).map(|load| load.index),
            loads: loads.iter().map(|load| of_load(model, load)).collect(),
            cases: model.cases.iter().filter_map(|case| Some(of_case(place(&case.gateway)?, case))).collect(),
            sweeps: sweeps::sweeps(&loads),
            searches: searches::searches(model, place),
            prices: model
                .prices
                .rows
                .iter()
                .filter_map(|price| {
                    Some(PagePrice {
                        gateway: place(&price.gateway)?,
                        bare: &price.bare,
                        load: price.load.index,
                        features: named(price),
                        prices: &price.prices,
                    })
                })
                .collect(),
            versions: model.versions.iter().map(|one| of_versions(one, place)).collect(),
            starts: model
                .starts
                .iter()
                .filter(|one| one.kind != StartKind::Reload)
                .filter_map(|one| Some(of_start(place(&one.contender)?, one)))
                .collect(),
            flames: flame_graphs(model),
        }
    }

    pub(crate) fn has_sweeps(&self) -> bool {
        !self.sweeps.is_empty()
    }

    /// The document for a `script` element. The text is escaped, so that it cannot end the element or start a
    /// comment.
    pub(crate) fn json(&self) -> String {
        let text = serde_json::to_string(self).expect("the page's document has only string keys");
        text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
    }
}

fn contender<'m>(model: &Model, label: &'m str) -> Contender<'m> {
    Contender { label, colour: charts::css(charts::colour(model, label)), direct: label == DIRECT }
}

fn of_load<'m>(model: &Model, load: &'m Load) -> PageLoad<'m> {
    let floor: Option<&NoiseFloor> = model.noise_floor.by_load.get(load.index);
    let known = |metric: Metric| Some((metric.name(), floor?.get(metric)?));
    let metrics = Metric::TAXES.into_iter().chain(Metric::further());
    PageLoad { load, noise_floor: metrics.filter_map(known).collect() }
}

fn of_versions(one: &Versions, place: impl Fn(&str) -> Option<usize>) -> PageVersions<'_> {
    let versions = one
        .versions
        .iter()
        .filter_map(|version| Some(PageVersion { gateway: place(&version.gateway)?, name: &version.name }));
    PageVersions { name: &one.name, load: one.load.index, versions: versions.collect() }
}

fn of_start(gateway: usize, one: &StartFigures) -> PageStart {
    let curve = one.load.iter().flat_map(|load| &load.curve);
    let point = |point: &CurvePoint| (times::short(point.since_start_s), times::short(point.p50_us));
    PageStart { gateway, curve: curve.map(point).collect() }
}

fn of_case(gateway: usize, case: &Case) -> PageCase<'_> {
    PageCase {
        gateway,
        load: case.load.index,
        trials: case.trials,
        throughput: &case.throughput,
        response_time: &case.response_time,
        cpu: &case.cpu,
        memory: &case.memory,
        ledger: &case.ledger,
        tax: &case.tax,
        path: &case.path,
        curve: case.curve.iter().map(|(rarity, us)| (times::short(*rarity), *us)).collect(),
        times: case.series.iter().map(Times::new).collect(),
        events: case.events.iter().map(|one| PageEvent { event: &one.event, at_s: one.at_s }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Reported as _;
    use crate::json;
    use hoptax_analysis::fixture::{Run, open_point, sample, via};
    use serde_json::Value;

    fn both(model: &Model) -> (Value, Value) {
        let page = serde_json::from_str(&Page::new(model).json()).expect("JSON");
        (page, serde_json::from_str(&json(model)).expect("JSON"))
    }

    #[test]
    fn messages_have_noise_floors_of_their_own() {
        let mut run = Run::closed(4);
        for round in 0..3 {
            let of = |who: &str, us: u64| via(who, round).server_stream_us(us + u64::from(round), 1000);
            run.push(of("direct", 100).first()).push(of("direct", 110).last()).push(of("nginx", 150));
        }
        let (page, report) = both(&run.model());
        let floor = &page["loads"][0]["noise_floor"];
        assert!(floor["added_age_p50"].as_f64().expect("a floor") > 5.0, "{floor}");
        assert_eq!(floor["added_message_p50"], Value::Null);
        let tax = "added_age_p50";
        assert_eq!(page["cases"][1]["tax"][tax], report["cases"][1]["tax"][tax]);
        assert!(page["cases"][1]["tax"][tax].is_object(), "{page}");
        let (page, _) = both(&sample().model());
        assert!(!page.to_string().contains("added_age_p50"), "{page}");
    }

    #[test]
    fn curves_after_starts_are_those_of_the_json_report() {
        let (page, report) = both(&hoptax_analysis::fixture::starts::sample().model());
        let ours: Vec<usize> = page["starts"]
            .as_array()
            .expect("starts")
            .iter()
            .map(|one| one["curve"].as_array().map_or(0, Vec::len))
            .collect();
        let theirs: Vec<usize> = report["starts"].as_array().expect("starts")[..3]
            .iter()
            .map(|one| one["load"]["curve"].as_array().map_or(0, Vec::len))
            .collect();
        assert!(ours == theirs && ours.iter().all(|points| *points > 10), "{ours:?}, {theirs:?}");
        assert_eq!(page["loads"], Value::Array(Vec::new()));
    }

    #[test]
    fn the_document_cannot_end_its_script_element() {
        let mut run = Run::steady(3, 100, &[("</script><!--\u{2028}", 150)]);
        run.record.plan.name = "<script>".into();
        let text = Page::new(&run.model()).json();
        assert!(!text.contains('<') && !text.contains('\u{2028}'), "{text}");
        let page: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&page["name"], &page["contenders"][1]["label"]),
            (&"<script>".into(), &"</script><!--\u{2028}".into())
        );
    }

    #[test]
    fn trials_over_time_have_their_rounds() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 2)]);
        let windows = vec![vec![200; 100]; 20];
        for round in 0..2 {
            run.direct_trials(round, |trial| trial.windows_us(&windows));
            run.push(via("nginx", round).windows_us(&windows));
        }
        let (page, _) = both(&run.model());
        let told: Vec<(u64, bool)> = page["cases"][0]["times"]
            .as_array()
            .expect("trials")
            .iter()
            .map(|trial| (trial["round"].as_u64().expect("a round"), trial["last"].as_bool().expect("which")))
            .collect();
        assert_eq!(told, [(0, false), (0, true), (1, false), (1, true)]);
        let trial = &page["cases"][1]["times"][1];
        assert_eq!((trial["round"].as_u64(), trial["step_s"].as_f64()), (Some(1), Some(0.1)));
        assert_eq!(trial["throughput"][0], 1000.0);
        assert!(trial["p99_us"][19].as_f64().is_some_and(|us| (us - 200.0).abs() < 2.0), "{trial}");
    }
}

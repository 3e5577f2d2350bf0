//! `/trends`: a metric of a case over time.

use super::super::app::App;
use super::super::extract::QueryOf;
use super::super::problem::Problem;
use super::filled;
use super::template::Page;
use crate::{Store, Trend, TrendChoice, TrendQuery};
use axum::extract::State;
use hoptax_plan::Metric;
use hoptax_report::comparison::figure_of;
use hoptax_report::figure_in_words;
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of the page's address. If a value is not available, the page uses a default instead.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(in crate::serve) struct Typed {
    name: String,
    gateway: String,
    load: String,
    metric: String,
}

/// The chosen trend, and the values that the user can choose instead.
#[derive(Debug, Default, Serialize)]
struct Choice {
    names: Vec<String>,
    gateways: Vec<String>,
    loads: Vec<String>,
    metrics: Vec<&'static str>,
    name: String,
    gateway: String,
    load: String,
    metric: &'static str,
}

pub(in crate::serve) async fn page(State(app): State<Arc<App>>, QueryOf(typed): QueryOf<Typed>) -> Page {
    let (choice, trend) = app.history(move |store| of(store, &typed)).await?;
    let rows: Vec<Value> = trend.iter().flat_map(|(metric, trend)| rows(*metric, trend)).collect();
    let changes: Vec<Value> = trend.iter().flat_map(|(metric, trend)| changes(*metric, trend)).collect();
    let data = trend.as_ref().map(|(metric, trend)| {
        let words: Vec<String> = trend.changes.iter().map(|change| change.in_words(*metric)).collect();
        serde_json::json!({
            "metric": metric.name(),
            "unit": trend.unit,
            "points": trend.points,
            "changes": trend.changes,
            "change_words": words,
        })
    });
    let with = context! { choice, rows, changes, data => data.map(|data| Value::from_serialize(&data)) };
    filled(&app, "trends.html", "trends", with)
}

fn of(store: &mut Store, typed: &Typed) -> Result<(Choice, Option<(Metric, Trend)>), Problem> {
    let all = store.trend_choices()?;
    let (choice, metric) = chosen(&all, typed);
    let Some(metric) = metric else { return Ok((choice, None)) };
    let query = TrendQuery {
        name: choice.name.clone(),
        gateway: choice.gateway.clone(),
        load: choice.load.clone(),
        metric,
    };
    let trend = store.trend(&query)?;
    Ok((choice, Some((metric, trend))))
}

/// Chooses plan, gateway, load point and metric, in this order. Each choice limits the values for the next
/// choice.
fn chosen(all: &[TrendChoice], typed: &Typed) -> (Choice, Option<Metric>) {
    let names = distinct(all.iter().map(|one| &one.name));
    let most = |one: &&TrendChoice| one.runs;
    let name = pick(&names, &typed.name, all.iter().max_by_key(most).map(|one| &one.name));
    let of_name: Vec<&TrendChoice> = all.iter().filter(|one| one.name == name).collect();
    let gateways = distinct(of_name.iter().map(|one| &one.gateway));
    let gateway = pick(&gateways, &typed.gateway, gateways.iter().find(|one| *one != hoptax_record::DIRECT));
    let of_gateway: Vec<&TrendChoice> = of_name.into_iter().filter(|one| one.gateway == gateway).collect();
    let loads = distinct(of_gateway.iter().map(|one| &one.load));
    let load = pick(&loads, &typed.load, loads.first());
    let metrics = of_gateway.iter().find(|one| one.load == load).map_or(&[][..], |one| &one.metrics[..]);
    let metric = metrics.iter().find(|one| one.name() == typed.metric).or(metrics.first()).copied();
    let choice = Choice {
        names,
        gateways,
        loads,
        metrics: metrics.iter().map(|one| one.name()).collect(),
        name,
        gateway,
        load,
        metric: metric.map_or("", Metric::name),
    };
    (choice, metric)
}

fn distinct<'t>(all: impl Iterator<Item = &'t String>) -> Vec<String> {
    let mut all: Vec<String> = all.cloned().collect();
    all.sort();
    all.dedup();
    all
}

fn pick(there: &[String], typed: &String, else_this: Option<&String>) -> String {
    match there.contains(typed) {
        true => typed.clone(),
        false => else_this.or(there.first()).cloned().unwrap_or_default(),
    }
}

/// The rows of the table. The newest run comes first, as in every list.
fn rows(metric: Metric, trend: &Trend) -> Vec<Value> {
    let row = |point: &crate::Point| {
        let figure = match point.bound {
            Some(bound) => bound.sign().to_owned() + &figure_in_words(metric, point.estimate, point.interval),
            None => figure_of(metric, point.estimate, point.interval),
        };
        context! { point, figure }
    };
    trend.points.iter().rev().map(row).collect()
}

/// The rows of the table of changes, newest change first.
fn changes(metric: Metric, trend: &Trend) -> Vec<Value> {
    let row = |change: &crate::Change| context! { change, words => change.in_words(metric) };
    trend.changes.iter().rev().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices() -> Vec<TrendChoice> {
        let one = |name: &str, gateway: &str, load: &str, runs| TrendChoice {
            name: name.into(),
            gateway: gateway.into(),
            load: load.into(),
            metrics: vec![Metric::AddedP50, Metric::Throughput],
            runs,
        };
        vec![
            one("a", "direct", "8", 9),
            one("a", "nginx", "8", 9),
            one("a", "nginx", "32", 9),
            one("b", "envoy", "8", 2),
        ]
    }

    #[test]
    fn values_that_do_not_fit_are_ignored() {
        let of = |name: &str, gateway: &str, load: &str, metric: &str| {
            let typed = Typed {
                name: name.into(),
                gateway: gateway.into(),
                load: load.into(),
                metric: metric.into(),
            };
            let (choice, _) = chosen(&choices(), &typed);
            (choice.name, choice.gateway, choice.load, choice.metric)
        };
        let expected = |name: &str, gateway: &str, load: &str, metric| {
            (name.into(), gateway.into(), load.into(), metric)
        };
        assert_eq!(of("", "", "", ""), expected("a", "nginx", "32", "added_p50"));
        assert_eq!(of("a", "direct", "32", "throughput"), expected("a", "direct", "8", "throughput"));
        assert_eq!(of("b", "nginx", "8", "p50"), expected("b", "envoy", "8", "added_p50"));
        assert_eq!(chosen(&[], &Typed::default()).1, None);
    }
}

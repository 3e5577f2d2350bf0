//! `/metrics`: figures of the run in progress, and of the last complete run of each case, in the OpenMetrics
//! format. All figures of complete runs come from the index. A scrape does not start an analysis.

use super::app::App;
use super::latest::History;
use super::problem::Problem;
use crate::live::{self, Stage};
use crate::{Latest, Query};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hoptax_plan::Metric;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long the figures of complete runs are cached. Every run takes longer than this.
const FRESH: Duration = Duration::from_secs(5);

/// Seconds in a microsecond.
const MICRO: f64 = 1e-6;

type Labels = Vec<(&'static str, String)>;
type Value = Gauge<f64, AtomicU64>;

pub(super) async fn scrape(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let history = history(&app).await?;
    let mut registry = Registry::with_prefix("hoptax");
    of_history(&mut registry, &history);
    let live = app.live().filter(|state| state.stage != Stage::Ended);
    of_run(&mut registry, live.as_ref());
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| Problem::fault("the metrics could not be encoded"))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

async fn history(app: &Arc<App>) -> Result<Arc<History>, Problem> {
    let known = || app.figures.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, history)) = &*known()
        && at.elapsed() < FRESH
    {
        return Ok(Arc::clone(history));
    }
    let found = app.history(|store| {
        let listing = store.list(&Query { limit: 1, ..Query::default() })?;
        Ok(Arc::new(History { runs: listing.all, pending: listing.pending, latest: store.latest()? }))
    });
    let found = found.await?;
    *known() = Some((Instant::now(), Arc::clone(&found)));
    Ok(found)
}

/// Registers gauges. A gauge with labels is registered only if it has a value.
struct Gauges<'r> {
    registry: &'r mut Registry,
}

impl Gauges<'_> {
    fn put(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let family = Family::<Labels, Value>::default();
        let mut any = false;
        for (labels, value) in values.into_iter().filter(|(_, value)| value.is_finite()) {
            family.get_or_create(&labels).set(value);
            any = true;
        }
        match unit {
            _ if !any => {}
            Some(unit) => self.registry.register_with_unit(name, help, unit, family),
            None => self.registry.register(name, help, family),
        }
    }

    fn one(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Value::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }
}

/// A figure of the last complete runs. It is exported as three metrics: `name` is the estimate, and `name`
/// with the suffix `_low` or `_high` is the lower or upper end of the interval.
struct Shown {
    name: &'static str,
    help: &'static str,
    unit: Unit,
    by: f64,
    metrics: Vec<(Metric, Option<&'static str>)>,
}

fn shown() -> Vec<Shown> {
    let quantiles = |p50, p99| vec![(p50, Some("0.5")), (p99, Some("0.99"))];
    let (added, times) = (quantiles(Metric::AddedP50, Metric::AddedP99), quantiles(Metric::P50, Metric::P99));
    let one = |metric| vec![(metric, None)];
    let shown = |name, help, unit, by, metrics| Shown { name, help, unit, by, metrics };
    let seconds = |name, help, metrics| shown(name, help, Unit::Seconds, MICRO, metrics);
    let (rate, settled) = (Unit::Other("requests_per_second".into()), one(Metric::Settled));
    let until_settled = "Time from the start of the gateway until it is as fast as later under load";
    let until_listening = "Time from the start of the gateway until it accepts connections";
    let until_ready = "Time from the start of the gateway until it has answered rightly";
    vec![
        seconds("added_latency", "Response time that the gateway adds to the response time of direct", added),
        seconds("latency", "Response time", times),
        shown("throughput", "Responses per second", rate, 1.0, one(Metric::Throughput)),
        seconds("cpu_per_request", "CPU time of the gateway per request", one(Metric::CpuUsPerRequest)),
        shown("memory", "Largest resident set of the gateway", Unit::Bytes, 1.0, one(Metric::MemoryRssBytes)),
        seconds("start_listening", until_listening, one(Metric::Listening)),
        seconds("start_ready", until_ready, one(Metric::Ready)),
        seconds(
            "start_first_request",
            "Response time of the first request after a start",
            one(Metric::FirstRequest),
        ),
        seconds("start_settled", until_settled, settled),
    ]
}

fn of_history(registry: &mut Registry, history: &History) {
    let mut gauges = Gauges { registry };
    gauges.one("runs", "Run directories in the history", f64::from(history.runs));
    gauges.one("runs_pending", "Runs that are not analysed yet", f64::from(history.pending));
    let case = |one: &Latest| -> Labels {
        vec![("plan", one.name.clone()), ("gateway", one.gateway.clone()), ("load", one.load.clone())]
    };
    for Shown { name, help, unit, by, metrics } in shown() {
        type Take = fn(f64, Option<(f64, f64)>) -> Option<f64>;
        let parts: [(&str, &str, Take); 3] = [
            ("", "estimate", |estimate, _| Some(estimate)),
            ("_low", "lower end of the 95 % interval", |_, interval| Some(interval?.0)),
            ("_high", "upper end of the 95 % interval", |_, interval| Some(interval?.1)),
        ];
        for (suffix, part, take) in parts {
            let values = history.latest.iter().flat_map(|one| {
                metrics.iter().filter_map(move |(metric, quantile)| {
                    let (estimate, interval) = one.figure(*metric)?;
                    let mut labels = case(one);
                    labels.extend(quantile.map(|quantile| ("quantile", quantile.to_owned())));
                    Some((labels, take(estimate, interval)? * by))
                })
            });
            let help = format!("{help}, last complete run: {part}");
            gauges.put(&format!("result_{name}{suffix}"), &help, Some(unit_of(&unit)), values);
        }
    }
    let begun = history.latest.iter().map(|one| (case(one), one.started_unix as f64));
    gauges.put("result_start_time", "Start of the last complete run, Unix time", Some(Unit::Seconds), begun);
    let info = history.latest.iter().map(|one| {
        let mut labels = case(one);
        labels.push(("run", one.id.clone()));
        labels.push(("version", one.version.clone().unwrap_or_default()));
        labels.push(("verdict", one.verdict.clone()));
        (labels, 1.0)
    });
    gauges.put("result_info", "Version and verdict of the last complete run", None, info);
}

/// Copies a unit, because `Unit` does not implement `Clone`.
fn unit_of(unit: &Unit) -> Unit {
    match unit {
        Unit::Seconds => Unit::Seconds,
        Unit::Bytes => Unit::Bytes,
        other => Unit::Other(other.as_str().to_owned()),
    }
}

fn of_run(registry: &mut Registry, state: Option<&live::State>) {
    let mut gauges = Gauges { registry };
    gauges.one("run_under_way", "1 while this process measures a run", f64::from(u8::from(state.is_some())));
    let Some(state) = state else { return };
    let run = || vec![("run", state.run.clone()), ("plan", state.name.clone())];
    let (done, planned) = (f64::from(state.trials_done), f64::from(state.trials_planned));
    let (elapsed, left, steal) = (state.elapsed_s, state.left_s, state.steal.unwrap_or(f64::NAN));
    for (name, help, unit, value) in [
        ("run_trials_done", "Trials of the run in progress that have ended", None, done),
        ("run_trials_planned", "Trials of the run in progress that are planned so far", None, planned),
        ("run_elapsed", "Time since the run in progress began", Some(Unit::Seconds), elapsed),
        ("run_left", "Minimum time that the run in progress still takes", Some(Unit::Seconds), left),
        ("run_steal", "Share of the host's CPU time that the hypervisor took", Some(Unit::Ratios), steal),
    ] {
        gauges.put(name, help, unit, [(run(), value)]);
    }
    let severities = ["void", "warning", "note"].map(|severity| {
        let count = state.findings.iter().filter(|one| one.severity.name() == severity).count();
        ([run(), vec![("severity", severity.to_owned())]].concat(), count as f64)
    });
    gauges.put("run_findings", "Findings of the run in progress so far", None, severities);
    let roles = |value: fn(&live::Role) -> f64| {
        let of = move |one: &live::Role| (vec![("role", one.role.clone())], value(one));
        state.cpu.iter().map(of).collect::<Vec<_>>()
    };
    let (cpus, memory) = (roles(|one| one.cpus), roles(|one| one.memory_bytes as f64));
    let cores = Some(Unit::Other("cores".into()));
    gauges.put("run_cpu", "CPUs that a role uses, over the last second", cores, cpus);
    gauges.put("run_memory", "Resident memory of a role", Some(Unit::Bytes), memory);
    if let Some((trial, last)) = state.trial.as_ref().zip(state.course().pop()) {
        of_trial(&mut gauges, trial, last);
    }
}

/// Adds the figures of the last second of the current trial, or of the last trial of the same case if trials
/// are short.
fn of_trial(gauges: &mut Gauges<'_>, trial: &live::Trial, last: live::Second) {
    let case = || vec![("gateway", trial.gateway.clone()), ("load", trial.load.clone())];
    for (name, help, value) in [
        ("trial_responses", "Responses of the current trial, last second", last.rate),
        ("trial_failures", "Failures of the current trial, last second", last.failed),
    ] {
        gauges.put(name, help, Some(Unit::Other("per_second".into())), [(case(), value)]);
    }
    let quantiles = [("0.5", last.p50_us), ("0.99", last.p99_us)].into_iter().filter_map(|(quantile, us)| {
        let labels = [case(), vec![("quantile", quantile.to_owned())]].concat();
        us.map(|us| (labels, us * MICRO))
    });
    let seconds = Some(Unit::Seconds);
    gauges.put("trial_latency", "Response time of the current trial, last second", seconds, quantiles);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_starts_has_a_gauge() {
        for metric in Metric::STARTS {
            let of_metric = |one: &Shown| one.metrics.iter().any(|(shown, _)| *shown == metric);
            let shown: Vec<Shown> = shown().into_iter().filter(of_metric).collect();
            assert_eq!(shown.len(), 1, "{metric:?}");
            assert_eq!(shown[0].name, format!("start_{}", metric.name()));
        }
    }
}

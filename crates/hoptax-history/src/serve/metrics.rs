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
    metrics: &'static [(Metric, Option<&'static str>)],
}

impl Shown {
    /// A time of starts.
    fn of_start(
        name: &'static str,
        help: &'static str,
        metrics: &'static [(Metric, Option<&'static str>)],
    ) -> Self {
        Self { name, help, unit: Unit::Seconds, by: MICRO, metrics }
    }
}

fn shown() -> [Shown; 9] {
    [
        Shown {
            name: "added_latency",
            help: "Response time that the gateway adds to the response time of direct, last complete run",
            unit: Unit::Seconds,
            by: MICRO,
            metrics: &[(Metric::AddedP50, Some("0.5")), (Metric::AddedP99, Some("0.99"))],
        },
        Shown {
            name: "latency",
            help: "Response time, last complete run",
            unit: Unit::Seconds,
            by: MICRO,
            metrics: &[(Metric::P50, Some("0.5")), (Metric::P99, Some("0.99"))],
        },
        Shown {
            name: "throughput",
            help: "Responses per second, last complete run",
            unit: Unit::Other("requests_per_second".into()),
            by: 1.0,
            metrics: &[(Metric::Throughput, None)],
        },
        Shown {
            name: "cpu_per_request",
            help: "CPU time of the gateway per request, last complete run",
            unit: Unit::Seconds,
            by: MICRO,
            metrics: &[(Metric::CpuUsPerRequest, None)],
        },
        Shown {
            name: "memory",
            help: "Largest resident set of the gateway, last complete run",
            unit: Unit::Bytes,
            by: 1.0,
            metrics: &[(Metric::MemoryRssBytes, None)],
        },
        Shown::of_start(
            "start_listening",
            "Time from the start of the gateway until it accepts connections, last complete run",
            &[(Metric::Listening, None)],
        ),
        Shown::of_start(
            "start_ready",
            "Time from the start of the gateway until it has answered rightly, last complete run",
            &[(Metric::Ready, None)],
        ),
        Shown::of_start(
            "start_first_request",
            "Response time of the first request after a start, last complete run",
            &[(Metric::FirstRequest, None)],
        ),
        Shown::of_start(
            "start_settled",
            "Time from the start of the gateway until it is as fast as later under load, last complete run",
            &[(Metric::Settled, None)],
        ),
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
        type Part = fn(f64, Option<(f64, f64)>) -> Option<f64>;
        let parts: [(&str, &str, Part); 3] = [
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
            let unit = unit_of(&unit);
            gauges.put(&format!("result_{name}{suffix}"), &format!("{help}: {part}"), Some(unit), values);
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
    let mut put = |name: &str, help: &str, unit: Option<Unit>, value: f64| {
        gauges.put(name, help, unit, [(run(), value)]);
    };
    put(
        "run_trials_done",
        "Trials of the run in progress that have ended",
        None,
        f64::from(state.trials_done),
    );
    put(
        "run_trials_planned",
        "Trials of the run in progress that are planned so far",
        None,
        f64::from(state.trials_planned),
    );
    put("run_elapsed", "Time since the run in progress began", Some(Unit::Seconds), state.elapsed_s);
    put("run_left", "Minimum time that the run in progress still takes", Some(Unit::Seconds), state.left_s);
    if let Some(steal) = state.steal {
        put("run_steal", "Share of the host's CPU time that the hypervisor took", Some(Unit::Ratios), steal);
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
    gauges.put(
        "run_cpu",
        "CPUs that a role uses, over the last second",
        Some(Unit::Other("cores".into())),
        roles(|one| one.cpus),
    );
    gauges.put(
        "run_memory",
        "Resident memory of a role",
        Some(Unit::Bytes),
        roles(|one| one.memory_bytes as f64),
    );
    if let Some((trial, last)) = state.trial.as_ref().zip(state.course().pop()) {
        of_trial(&mut gauges, trial, last);
    }
}

/// Adds the figures of the last second of the current trial, or of the last trial of the same case if trials
/// are short.
fn of_trial(gauges: &mut Gauges<'_>, trial: &live::Trial, last: live::Second) {
    let case = || vec![("gateway", trial.gateway.clone()), ("load", trial.load.clone())];
    let per_second = || Some(Unit::Other("per_second".into()));
    gauges.put(
        "trial_responses",
        "Responses of the current trial, last second",
        per_second(),
        [(case(), last.rate)],
    );
    gauges.put(
        "trial_failures",
        "Failures of the current trial, last second",
        per_second(),
        [(case(), last.failed)],
    );
    let quantiles = [("0.5", last.p50_us), ("0.99", last.p99_us)].into_iter().filter_map(|(quantile, us)| {
        let labels = [case(), vec![("quantile", quantile.to_owned())]].concat();
        us.map(|us| (labels, us * MICRO))
    });
    gauges.put(
        "trial_latency",
        "Response time of the current trial, last second",
        Some(Unit::Seconds),
        quantiles,
    );
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

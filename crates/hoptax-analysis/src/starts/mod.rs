//! What starts and reloads of gateways cost: medians over starts, and the response time over the time since a
//! start.

mod contrast;
mod curve;
mod settling;
#[cfg(test)]
mod tests;

pub(super) use contrast::medians;

use hoptax_format::clock::{MILLISECOND, SECOND};
use hoptax_format::record::WINDOW_NS;
use hoptax_plan::Metric;
use hoptax_record::RunRecord;
use hoptax_record::report::{FirstRequests, StartFigures, StartMedian, StartUnderLoad};
use hoptax_record::start::{StartKind, StartLoad, StartRecord, StartTraffic, UsedAtReady};
use hoptax_stats::{Estimate, Observed, sample_median};
use settling::{Settling, settling};

/// Nanoseconds in a microsecond.
const MICROSECOND: f64 = 1e3;

/// The starts or the reloads of one contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Starts {
    /// The figures, as in the report.
    pub figures: StartFigures,
    /// The value of each metric of starts in each start, µs, in the order of [`Metric::STARTS`].
    values: [Vec<Observed>; 4],
}

impl Starts {
    /// The figure of a metric, in its own unit. `None` if it was not measured.
    pub fn measured(&self, metric: Metric) -> Option<StartMedian> {
        median(self.values(metric), 1.0)
    }

    /// The same figure as an [`Estimate`]. If only a bound of the median is known, the estimate is this
    /// bound. Unknown ends of the interval are absent.
    pub fn estimate(&self, metric: Metric) -> Option<Estimate> {
        let median = self.measured(metric)?;
        Some(Estimate {
            estimate: median.at_least(),
            low: median.low,
            high: median.high,
            trials: median.starts,
        })
    }

    /// The value of a metric in each start, µs.
    fn values(&self, metric: Metric) -> &[Observed] {
        let place = Metric::STARTS.into_iter().position(|one| one == metric);
        place.map_or(&[], |place| &self.values[place])
    }

    /// The name of these starts in findings and budgets: `nginx, start`.
    pub fn case(&self) -> String {
        let kind = match self.figures.kind {
            StartKind::Direct => return self.figures.contender.clone(),
            StartKind::Start => "start",
            StartKind::Reload => "reload",
        };
        format!("{}, {kind}", self.figures.contender)
    }

    /// True for starts of the gateway's process.
    pub fn is_of_process(&self) -> bool {
        self.figures.kind == StartKind::Start
    }
}

/// The starts of the process of the contender with this label.
pub(super) fn of_process<'s>(all: &'s [Starts], label: &str) -> Option<&'s Starts> {
    all.iter().find(|one| one.is_of_process() && one.figures.contender == label)
}

/// The figures of every contender: in the order of the contenders, starts before reloads. Empty without
/// starts.
pub(super) fn starts(run: &RunRecord, records: &[StartRecord]) -> Vec<Starts> {
    let kinds = [StartKind::Direct, StartKind::Start, StartKind::Reload];
    let each = run.contenders.iter().flat_map(|contender| kinds.map(|kind| (&contender.label, kind)));
    each.filter_map(|(label, kind)| {
        let of: Vec<&StartRecord> =
            records.iter().filter(|record| record.contender == *label && record.kind == kind).collect();
        (!of.is_empty()).then(|| of_contender(label, kind, &of))
    })
    .collect()
}

fn of_contender(label: &str, kind: StartKind, records: &[&StartRecord]) -> Starts {
    let measured = |traffic| {
        let is_meant = move |record: &&&StartRecord| record.failed.is_none() && record.traffic == traffic;
        records.iter().filter(is_meant).copied().collect::<Vec<_>>()
    };
    let one_by_one = measured(StartTraffic::OneByOne);
    let loaded: Vec<Loaded<'_>> = measured(StartTraffic::Load).into_iter().filter_map(Loaded::new).collect();
    let request = |number: usize| -> Vec<Observed> {
        let times = one_by_one.iter().filter_map(|record| record.response_times_ns.get(number - 1));
        times.map(|ns| exactly(*ns)).collect()
    };
    let requests = [1, 10, 100, 1000].map(request);
    let [first_us, tenth_us, hundredth_us, thousandth_us] =
        requests.each_ref().map(|values| median(values, 1.0 / MICROSECOND));
    // Starts with load have these times too. They do not count, because each comes right after another start
    // while the machine is in the same state.
    let of = |value: &dyn Fn(&StartRecord) -> Option<u64>| -> Vec<Observed> {
        one_by_one.iter().filter_map(|record| value(record)).map(exactly).collect()
    };
    let has_gateway = kind != StartKind::Direct;
    let listening = of(&|record| record.listening_ns);
    let ready = of(&|record| record.ready_ns.filter(|_| has_gateway));
    let used = |used: fn(UsedAtReady) -> u64| of(&|record| record.at_ready.map(used));
    let failures = || records.iter().filter_map(|record| record.failed.as_ref());
    let settled: Vec<Observed> = loaded.iter().map(|one| one.observed(one.since_start_ns())).collect();
    let ms = 1.0 / MILLISECOND as f64;
    let figures = StartFigures {
        contender: label.to_owned(),
        kind,
        measured: records.iter().filter(|record| record.failed.is_none()).count() as u32,
        failed: failures().count() as u32,
        failure: failures().next_back().map(|failure| failure.message.clone()),
        wrong_answers: records.iter().map(|record| u64::from(record.wrong_answers)).sum(),
        listening_ms: median(&listening, ms),
        ready_ms: median(&ready, ms),
        requests: FirstRequests { first_us, tenth_us, hundredth_us, thousandth_us },
        ready_cpu_ms: median(&used(|used| used.cpu_ns), ms),
        ready_rss_bytes: median(&used(|used| used.rss_bytes), 1.0),
        load: (!loaded.is_empty()).then(|| under_load(&loaded)),
    };
    let [first, ..] = requests;
    let us = |values: Vec<Observed>| -> Vec<Observed> {
        let us = |one: Observed| Observed { value: one.value / MICROSECOND, ..one };
        values.into_iter().map(us).collect()
    };
    Starts { figures, values: [listening, ready, first, settled].map(us) }
}

/// A start with the plan's load.
struct Loaded<'r> {
    record: &'r StartRecord,
    load: &'r StartLoad,
    settling: Settling,
}

impl<'r> Loaded<'r> {
    fn new(record: &'r StartRecord) -> Option<Self> {
        let load = record.load.as_ref()?;
        Some(Self { record, load, settling: settling(&load.windows)? })
    }

    /// Time from the start until the gateway had settled, ns. If it had not settled, the duration of the
    /// load, which is a lower bound and the same in each start.
    fn since_start_ns(&self) -> f64 {
        match self.settling.is_settled {
            true => (self.load.after_ns + self.settling.ns) as f64,
            false => self.load.measured_ns as f64,
        }
    }

    /// A figure of the time until the gateway had settled. If it had not settled, the value is a lower bound.
    fn observed(&self, value: f64) -> Observed {
        Observed { value, is_more: !self.settling.is_settled }
    }

    /// CPU time from the start until the gateway had settled, ns.
    fn cpu_ns(&self) -> Option<f64> {
        let (at_ready, usage) = (self.record.at_ready?, self.load.usage.as_ref()?);
        let windows = self.settling.ns as f64 / WINDOW_NS as f64;
        // Of the last window, only the part until the gateway had settled counts.
        let part = |at: usize| (windows - at as f64).clamp(0.0, 1.0);
        let used: f64 = usage.cpu_ns_by_window.iter().zip(0..).map(|(ns, at)| *ns as f64 * part(at)).sum();
        Some(at_ready.cpu_ns as f64 + used)
    }

    /// Largest resident memory until the gateway had settled, bytes. If it did not settle, the largest under
    /// the whole load.
    fn rss_bytes(&self) -> Option<f64> {
        let (at_ready, usage) = (self.record.at_ready?, self.load.usage.as_ref()?);
        let windows = self.settling.ns.div_ceil(WINDOW_NS) as usize;
        let largest = usage.rss_bytes_by_window.iter().take(windows).max().copied().unwrap_or(0);
        Some(at_ready.rss_bytes.max(largest) as f64)
    }
}

fn under_load(loaded: &[Loaded<'_>]) -> StartUnderLoad {
    let of = |value: &dyn Fn(&Loaded<'_>) -> Option<f64>, factor: f64| {
        let values: Vec<Observed> = loaded.iter().filter_map(|one| Some(one.observed(value(one)?))).collect();
        median(&values, factor)
    };
    let level: Vec<Observed> =
        loaded.iter().filter_map(|one| one.settling.level_ns).map(Observed::exactly).collect();
    // Memory hardly shrinks. So if a gateway had not settled, the largest memory under the whole load is its
    // value, and not only a bound.
    let memory: Vec<Observed> =
        loaded.iter().filter_map(|one| one.rss_bytes().map(Observed::exactly)).collect();
    let sum = |of: fn(&StartLoad) -> u64| loaded.iter().map(|one| of(one.load)).sum();
    let loads: Vec<&StartLoad> = loaded.iter().map(|one| one.load).collect();
    StartUnderLoad {
        starts: loaded.len() as u32,
        unsettled: loaded.iter().filter(|one| !one.settling.is_settled).count() as u32,
        settled_s: of(&|one| Some(one.since_start_ns()), 1.0 / SECOND as f64),
        settled_requests: of(&|one| Some(one.settling.requests as f64), 1.0),
        later_request_s: of(&|one| Some(one.settling.later_request_s), 1.0),
        settled_p50_us: median(&level, 1.0 / MICROSECOND),
        settled_cpu_ms: of(&|one| one.cpu_ns(), 1.0 / MILLISECOND as f64),
        settled_rss_bytes: median(&memory, 1.0),
        scheduled: sum(|load| load.scheduled),
        ok: sum(|load| load.ok),
        timeouts: sum(|load| load.timeouts),
        errors: sum(|load| load.errors),
        unanswered: sum(|load| load.unanswered),
        curve: curve::curve(&loads),
    }
}

fn exactly(ns: u64) -> Observed {
    Observed::exactly(ns as f64)
}

/// The median of values, multiplied by `factor`. `None` if there are none.
fn median(values: &[Observed], factor: f64) -> Option<StartMedian> {
    let found = sample_median(values)?;
    let (low, high) = found.interval.unzip();
    // Bounds grow with the rank. So the bound of the first unknown value also holds for the other unknown
    // values.
    let unknown = [low, Some(found.median), high].into_iter().flatten().find(|one| one.is_more);
    let median = StartMedian {
        estimate: found.median.known(),
        low: low.and_then(Observed::known),
        high: high.and_then(Observed::known),
        more_than: unknown.map(|one| one.value),
        starts: found.count,
    };
    Some(median.times(factor))
}

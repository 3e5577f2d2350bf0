//! Formats the figures of any metric, for budgets and comparisons.

use crate::words::format::{Scale, bytes, nonzero, number};
use hoptax_analysis::{BudgetResult, ChangeResult, Outcome};
use hoptax_plan::{Metric, Quantity};
use hoptax_stats::Estimate;

/// Chooses the unit for values of a metric that are about as large as `size`. `None` for bytes, because
/// [`bytes`] formats them.
fn scale(metric: Metric, size: f64) -> Option<Scale> {
    match metric.quantity() {
        Quantity::Time => Some(Scale::of_us(size)),
        Quantity::Bytes => None,
        Quantity::Rate => Some(Scale::of_throughput(size)),
        Quantity::Share | Quantity::Ratio => Some(Scale::percent()),
        Quantity::PerRequest => Some(Scale::plain()),
    }
}

pub(crate) fn value(metric: Metric, value: f64) -> String {
    scale(metric, value).map_or_else(|| bytes(value), |scale| scale.value(value))
}

/// A figure with its interval, or with `one trial` instead of the interval.
pub(crate) fn figure(metric: Metric, estimate: &Estimate) -> String {
    let interval = match (scale(metric, estimate.estimate), estimate.interval()) {
        (Some(scale), _) => scale.interval_of(estimate),
        (None, Some((low, high))) => format!("{} to {}", bytes(low), bytes(high)),
        (None, None) => "one trial".into(),
    };
    format!("{} ({interval})", value(metric, estimate.estimate))
}

/// A figure, with its interval if there is one.
pub fn figure_in_words(metric: Metric, estimate: f64, interval: Option<(f64, f64)>) -> String {
    let (low, high) = interval.unzip();
    match interval {
        Some(_) => figure(metric, &Estimate { estimate, low, high, trials: 2 }),
        None => value(metric, estimate),
    }
}

/// A change in per cent, with its sign and its interval.
pub(crate) fn change(change: &Estimate) -> String {
    let signed =
        |share: f64, text: String| if share > 0.0 && text != "0" { format!("+{text}") } else { text };
    // An interval that excludes zero does so after rounding too.
    let end = match change.excludes(0.0) {
        true => nonzero,
        false => number,
    };
    let interval = match change.interval() {
        Some((low, high)) => {
            format!("{} to {}", signed(low, end(low * 100.0)), signed(high, end(high * 100.0)))
        }
        None if change.trials > 1 => "no interval".into(),
        None => "one trial".into(),
    };
    format!("{} % ({interval})", signed(change.estimate, number(change.estimate * 100.0)))
}

pub(crate) fn limit(result: &BudgetResult) -> String {
    let shown = |limit| value(result.metric, limit);
    let mut words = match (result.max, result.min) {
        (Some(max), Some(min)) => vec![format!("{} to {}", shown(min), shown(max))],
        (Some(max), None) => vec![format!("at most {}", shown(max))],
        (None, Some(min)) => vec![format!("at least {}", shown(min))],
        (None, None) => Vec::new(),
    };
    if let Some(ChangeResult { against, max, min, .. }) = &result.change {
        let percent = |share: f64| hoptax_plan::units::show_change(share).replace('%', " %");
        let bounds = match (max, min) {
            (Some(max), Some(min)) => format!("{} to {}", percent(*min), percent(*max)),
            (Some(max), None) => format!("at most {}", percent(*max)),
            (None, Some(min)) => format!("at least {}", percent(*min)),
            (None, None) => String::new(),
        };
        words.push(format!("{bounds} against {against}"));
    }
    words.join(", ")
}

pub(crate) fn measured(result: &BudgetResult) -> String {
    let own = result.measured.as_ref().map(|measured| match result.more_than {
        Some(bound) => more_than(result.metric, measured, bound),
        None => figure(result.metric, measured),
    });
    let changed = result.change.as_ref().and_then(|changed| changed.measured.as_ref()).map(change);
    match (own, changed) {
        (own, Some(changed)) => match own {
            Some(own) => format!("{changed}, at {own}"),
            None => changed,
        },
        (Some(own), None) => own,
        (None, None) => "–".into(),
    }
}

/// A figure that is only known to exceed a bound, or a figure whose upper end is: `more than 10 s`, `8.2 s
/// (5.1 to more than 10 s)`.
fn more_than(metric: Metric, measured: &Estimate, bound: f64) -> String {
    let more = format!("more than {}", value(metric, bound));
    match measured.low {
        Some(low) if measured.estimate < bound => {
            format!("{} ({} to {more})", value(metric, measured.estimate), value(metric, low))
        }
        Some(low) => format!("{more} ({} to {more})", value(metric, low)),
        None => more,
    }
}

/// A sentence about a budget that was not kept.
pub(crate) fn sentence(result: &BudgetResult) -> String {
    let measured = match (result.outcome, reason(result)) {
        (Outcome::Unmeasured, Some(reason)) => format!("it was not measured: {reason}"),
        (_, Some(reason)) => format!("it is {}; {reason}", measured(result)),
        (_, None) => format!("it is {}", measured(result)),
    };
    let measured = measured.trim_end_matches('.');
    format!("{}: {} must be {}; {measured}.", result.case, result.metric.name(), limit(result))
}

/// Why a budget is inconclusive, or why it was not measured. For an inconclusive budget, the measuring time
/// that would decide it, if it is known.
pub(crate) fn reason(result: &BudgetResult) -> Option<String> {
    let would_decide = result.would_decide.map(|one| {
        let unit = if result.metric.is_start() { "starts" } else { "rounds" };
        let rounds = format!("{} {unit}", number(f64::from(two_digits(one.rounds))));
        match one.seconds {
            Some(seconds) => {
                format!("about {} of measuring ({rounds}) would decide at this scatter", about(seconds))
            }
            None => format!("about {rounds} would decide at this scatter"),
        }
    });
    would_decide.or_else(|| result.reason.clone())
}

/// A time with about two digits, in the unit that people would use: `40 s`, `12 min`, `3 h`.
fn about(seconds: f64) -> String {
    match seconds {
        _ if seconds < 99.5 => format!("{seconds:.0} s"),
        _ if seconds < 5970.0 => format!("{:.0} min", (seconds / 60.0).ceil()),
        _ => format!("{:.0} h", (seconds / 3600.0).ceil()),
    }
}

/// A number rounded up to two digits, because it is an estimate.
fn two_digits(count: u32) -> u32 {
    let unit = 10_u32.pow(count.max(1).ilog10().saturating_sub(1));
    count.div_ceil(unit) * unit
}

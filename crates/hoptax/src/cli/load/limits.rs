//! Limits that the user sets for a load: failed requests, response times, throughput. They decide the exit
//! code.

use super::doubts::{self, Doubt};
use super::figures::{decimals, percent, time};
use hdrhistogram::Histogram;
use hoptax_format::histogram::{rank, value_at_rank};
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::LoadSpec;
use hoptax_plan::units::{self, UnitError};
use hoptax_plan::{Figure, Term};
use serde::Serialize;
use std::time::Duration;

/// Share of failed requests that a load without limits allows. Above it, the figures describe failures. The
/// finding `errors` of a run is void from the same share on.
const ALLOWED: f64 = 0.5;

/// A limit from the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    /// Maximum share of requests that are not successes. `implied` is true if the user did not set it.
    Failed { share: f64, implied: bool },
    /// Maximum of a statistic of the response times, ns.
    Time { of: Figure, most: f64 },
    /// The same of the times to the first content.
    FirstContent { of: Figure, most: f64 },
    /// Minimum throughput, requests/s.
    Throughput { least: f64 },
}

/// A limit and the measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Judged {
    /// The metric: `failures`, `throughput`, `p99`, `max`, `mean`, `first_content_p99`.
    pub(super) metric: String,
    /// Times in µs, throughput in requests/s, shares from 0 to 1.
    pub(super) limit: f64,
    /// Absent if there is no value, because no request completed.
    pub(super) value: Option<f64>,
    pub(super) kept: bool,
    #[serde(skip)]
    pub(super) text: String,
    #[serde(skip)]
    pub(super) implied: bool,
}

/// A value of `--max`: `p99=20ms`.
pub(super) fn maximum(text: &str) -> Result<Limit, UnitError> {
    let wrong = |message: String| UnitError {
        message,
        help: "write p99=20ms, p99.9=50ms, mean=5ms or max=100ms".into(),
    };
    let Some((name, value)) = text.split_once('=') else {
        return Err(wrong(format!("`{text}` is not a limit")));
    };
    let objective = hoptax_plan::objective(&format!("{} < {}", name.trim(), value.trim()))
        .map(|objective| objective.terms)
        .map_err(|(_, error)| error)?;
    match objective.as_slice() {
        [Term::Time { of, below }] => Ok(Limit::Time { of: *of, most: below.as_nanos() as f64 }),
        [Term::FirstContent { of, below }] => {
            Ok(Limit::FirstContent { of: *of, most: below.as_nanos() as f64 })
        }
        [Term::Errors { below }] => Err(UnitError {
            message: "--max limits times".into(),
            help: format!("use --fail-above {}", units::show_share(*below)),
        }),
        _ => Err(wrong(format!("`{text}` is not a limit of a time"))),
    }
}

/// A value of `--min`: `throughput=1000/s`.
pub(super) fn minimum(text: &str) -> Result<Limit, UnitError> {
    match text.split_once('=') {
        Some((name, value)) if name.trim() == "throughput" => {
            Ok(Limit::Throughput { least: units::rate(value.trim())? })
        }
        _ => Err(UnitError {
            message: format!("`{text}` is not a minimum"),
            help: "write throughput=1000/s".into(),
        }),
    }
}

/// All limits of a load. A load with expectations allows no failure, unless `--fail-above` allows some.
pub(super) fn of(spec: &LoadSpec, fail_above: Option<f64>, others: &[&[Limit]]) -> Vec<Limit> {
    let expects = spec.targets.iter().any(|target| !target.checks.is_empty());
    let share = fail_above.unwrap_or(if expects { 0.0 } else { ALLOWED });
    let failed = Limit::Failed { share, implied: fail_above.is_none() };
    std::iter::once(failed).chain(others.iter().flat_map(|limits| limits.iter().copied())).collect()
}

/// Checks that a load can have these limits.
///
/// # Errors
/// The first limit that it cannot have, and what to do.
pub(super) fn check(limits: &[Limit], spec: &LoadSpec) -> Result<(), String> {
    let is_of_tokens = |limit: &Limit| matches!(limit, Limit::FirstContent { .. });
    let mut streams = spec.targets.iter().filter_map(|target| target.stream.as_ref());
    if limits.iter().any(is_of_tokens) && !streams.any(|stream| stream.tokens.is_some()) {
        return Err("--max first_content_… needs streams of tokens; add --llm openai".to_owned());
    }
    Ok(())
}

/// The times that limits are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitedTimes<'a> {
    pub(super) response_time: &'a Histogram<u64>,
    /// Absent without streams of tokens.
    pub(super) first_content: Option<&'a Histogram<u64>>,
}

/// Compares each limit with `record`. Redirects that nobody expects count as failed.
pub(super) fn judge(
    limits: &[Limit],
    record: &LoadRecord,
    times: LimitedTimes<'_>,
    doubts: &[Doubt],
) -> Vec<Judged> {
    let counts = &record.counts;
    let redirects = doubts.iter().find_map(|doubt| match doubt {
        Doubt::Redirects { redirects, .. } => Some(*redirects),
        _ => None,
    });
    let failed = doubts::failed(counts) + counts.completed.saturating_sub(counts.ok) + redirects.unwrap_or(0);
    let due = counts.scheduled - counts.in_flight;
    limits.iter().map(|limit| limit.judge(record, times, (failed, due))).collect()
}

impl Limit {
    fn judge(self, record: &LoadRecord, times: LimitedTimes<'_>, (failed, due): (u64, u64)) -> Judged {
        match self {
            Self::Failed { share, implied } => {
                let value = (due > 0).then(|| failed as f64 / due as f64);
                let kept = value.is_none_or(|value| value <= share);
                let text = format!("failures {}, limit {}", percent(failed, due), units::show_share(share));
                Judged { metric: "failures".into(), limit: share, value, kept, text, implied }
            }
            Self::Time { of, most } => {
                let name = Term::Time { of, below: Duration::ZERO }.name();
                judge_time(name, (of, most), Some(times.response_time))
            }
            Self::FirstContent { of, most } => {
                let name = Term::FirstContent { of, below: Duration::ZERO }.name();
                judge_time(name, (of, most), times.first_content)
            }
            Self::Throughput { least } => {
                let seconds = record.measured_ns as f64 / 1e9;
                let value = if seconds > 0.0 { record.completed_in_time as f64 / seconds } else { 0.0 };
                let text =
                    format!("throughput {} requests/s, minimum {}", decimals(value), units::show_rate(least));
                Judged {
                    metric: "throughput".into(),
                    limit: least,
                    value: Some(value),
                    kept: value >= least,
                    text,
                    implied: false,
                }
            }
        }
    }
}

/// Compares a figure of `times` with its maximum, nanoseconds.
fn judge_time(name: String, (of, most): (Figure, f64), times: Option<&Histogram<u64>>) -> Judged {
    let value = times.filter(|times| !times.is_empty()).map(|times| match of {
        Figure::Percentile(share) => value_at_rank(times, rank(share, times.len())) as f64,
        Figure::Mean => times.mean(),
        Figure::Max => times.max() as f64,
    });
    // A histogram has three digits, so a value that equals the limit can be listed slightly above it.
    let is_equal = |value: f64| times.is_some_and(|times| times.equivalent(value as u64, most as u64));
    let kept = value.is_some_and(|value| value <= most || is_equal(value));
    let shown = value.map_or_else(|| "without a value".to_owned(), time);
    let text = format!("{name} {shown}, limit {}", time(most));
    Judged { metric: name, limit: most / 1e3, value: value.map(|ns| ns / 1e3), kept, text, implied: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed_or_refused_with_a_hint() {
        assert_eq!(maximum("p99=20ms"), Ok(Limit::Time { of: Figure::Percentile(0.99), most: 20e6 }));
        let content = Limit::FirstContent { of: Figure::Percentile(0.99), most: 300e6 };
        assert_eq!(maximum("first_content_p99=300ms"), Ok(content));
        assert_eq!(maximum("max = 1s"), Ok(Limit::Time { of: Figure::Max, most: 1e9 }));
        assert_eq!(minimum("throughput=1000/s"), Ok(Limit::Throughput { least: 1000.0 }));
        let told = [maximum("p99"), maximum("errors=1%"), minimum("p99=3ms")]
            .map(|result| result.expect_err("wrong").to_string() + "\n");
        insta::assert_snapshot!(told.concat());
        assert!(maximum("p99=20").is_err() && maximum("p99=0ms").is_err());
    }
}

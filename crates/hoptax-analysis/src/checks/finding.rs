//! Helpers that several findings use.

use crate::Case;
use hoptax_record::report::{Concerns, Finding, Load, Severity};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A finding about a case that makes all its figures doubtful. Callers add evidence and message, and an
/// advice if the rule's advice does not fit.
pub(super) fn about(code: &'static str, severity: Severity, case: &str) -> Finding {
    Finding {
        code,
        severity,
        concerns: Concerns::ALL,
        case: Some(case.to_owned()),
        evidence: BTreeMap::new(),
        message: String::new(),
        advice: String::new(),
    }
}

/// A finding about the whole run, like [`about`].
pub(super) fn about_run(code: &'static str, severity: Severity) -> Finding {
    Finding { case: None, ..about(code, severity, "") }
}

pub(super) fn evidence<const N: usize>(members: [(&'static str, Value); N]) -> BTreeMap<&'static str, Value> {
    members.into_iter().collect()
}

/// Evidence that names a host, if there is one to name.
pub(super) fn with_host(
    mut evidence: BTreeMap<&'static str, Value>,
    name: &'static str,
    host: Option<String>,
) -> BTreeMap<&'static str, Value> {
    evidence.extend(host.map(|host| (name, Value::from(host))));
    evidence
}

/// Limit for the share of a case's trials that are disturbed. Up to this share, the interval of a figure
/// contains the effect of the disturbance, so the finding is a note or concerns only the tails. In five
/// rounds, one disturbed trial is above this limit.
pub(super) const MANY: f64 = 0.1;

/// The connections of a load point in a sentence: `32 connections`, or `10 connections × 8 streams`.
pub(super) fn connections(load: &Load) -> String {
    match load.streams {
        1 => format!("{} connections", load.connections),
        streams => format!("{} connections × {streams} streams", load.connections),
    }
}

/// Maximum number of requests in flight. The server may allow fewer streams than the load has.
pub(super) fn most_in_flight(case: &Case) -> u64 {
    let allowed = case.http2.and_then(|http2| http2.stream_limit).unwrap_or(u32::MAX);
    u64::from(case.load.connections) * u64::from(case.load.streams.min(allowed).max(1))
}

/// Limit for the number of faults via the gateway ÷ the number expected from direct's share.
const MORE: f64 = 2.0;
/// The number must also be above direct's by this many standard deviations of a count (Poisson).
const SCATTER: f64 = 5.0;

/// True if a gateway has more faults than the upstream explains, which may cause some itself. `scale` is the
/// gateway's number of messages or exchanges ÷ direct's.
pub(super) fn is_more(count: u64, of_direct: u64, scale: f64) -> bool {
    let expected = of_direct as f64 * scale;
    count as f64 > MORE * expected + SCATTER * expected.sqrt()
}

/// True if chance explains the difference between two shares: it is at most [`SCATTER`] standard errors of
/// the pooled share. Each share is a count and the number that it is a part of, which is not zero.
pub(super) fn is_chance([(a, n), (b, m)]: [(u64, u64); 2]) -> bool {
    let [a, n, b, m] = [a, n, b, m].map(|count| count as f64);
    let pooled = (a + b) / (n + m);
    (a / n - b / m).abs() <= SCATTER * (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt()
}

/// A time in words, with three digits: `28.4 ms`.
pub(super) fn time_in_words(us: f64) -> String {
    let (value, unit) = match us {
        _ if us < 999.5 => (us, "µs"),
        _ if us < 999_500.0 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    let decimals = 10_f64.powf((2.0 - value.log10().floor()).clamp(0.0, 2.0));
    format!("{} {unit}", (value * decimals).round() / decimals)
}

/// A duration in words, like [`time_in_words`].
pub(super) fn duration_in_words(duration: Duration) -> String {
    time_in_words(duration.as_secs_f64() * 1e6)
}

/// A share as a percentage, or `none`.
pub(super) fn percent_or_none(share: f64) -> String {
    if share > 0.0 { percent(share) } else { "none".to_owned() }
}

/// A share as a percentage, with enough digits that it is not rounded to 0 % or 100 %.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent >= 99.95 && share < 1.0 => format!("{percent:.2} %"),
        _ if percent >= 10.0 => format!("{percent:.0} %"),
        _ if percent >= 0.1 => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::{percent, time_in_words};

    #[test]
    fn a_time_has_three_digits_and_its_unit() {
        for (us, text) in [
            (0.0, "0 µs"),
            (5.25, "5.25 µs"),
            (999.4, "999 µs"),
            (999.6, "1 ms"),
            (28_449.0, "28.4 ms"),
            (140_000.0, "140 ms"),
            (20e6, "20 s"),
            (3.6e9, "3600 s"),
        ] {
            assert_eq!(time_in_words(us), text);
        }
    }

    #[test]
    fn percentages_keep_the_digits_that_matter() {
        let words = [0.0004, 0.0123, 0.345, 0.9999, 1.0].map(percent);
        assert_eq!(words, ["0.04 %", "1.2 %", "34 %", "99.99 %", "100 %"]);
    }
}

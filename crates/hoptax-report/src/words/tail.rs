//! The sentence about an added p99 that the run does not resolve.

use crate::words::format::Scale;
use crate::words::text::with_interval;
use hoptax_analysis::{Difference, RESOLVED_WITHIN, Tail};

/// Says that the added p99 is not resolved, and how long a run would have to measure to resolve it. `None` if
/// it is resolved. Also `None` if it has an interval but is not distinguishable from noise: another sentence
/// says so, and no time can be given.
pub(crate) fn sentence(tail: &Tail, p99: &Difference) -> Option<String> {
    if tail.resolved || (p99.estimate.interval().is_some() && !p99.distinguishable) {
        return None;
    }
    let figure = with_interval(&p99.estimate, Scale::of_us(p99.estimate.estimate));
    let time = tail.time_for_20_percent_s.map_or(String::new(), |seconds| format!(" {}", in_words(seconds)));
    Some(format!("The added p99 is not resolved: {figure}.{time}"))
}

/// The measuring time that the p99 needs, with two significant figures.
fn in_words(seconds: f64) -> String {
    let share = Scale::percent().value(RESOLVED_WITHIN);
    // No run is planned to the second, so a minute is the least.
    let minutes = two_figures(seconds.max(60.0) / 60.0);
    let hours = two_figures(seconds / 3600.0);
    let time = match (minutes < 60.0, hours <= 24.0) {
        (true, _) => format!("{minutes} min"),
        (false, true) => format!("{hours} h"),
        (false, false) => {
            return format!("More than a day of measuring would be needed to give it to ±{share}.");
        }
    };
    format!("About {time} of measuring would give it to ±{share}.")
}

/// Rounds a number from 1 to 99 to two significant figures.
fn two_figures(value: f64) -> f64 {
    if value < 9.95 { (value * 10.0).round() / 10.0 } else { value.round() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::Metric;
    use hoptax_stats::Estimate;

    #[test]
    fn times_have_two_significant_figures() {
        let time = |seconds: f64| {
            let words = in_words(seconds);
            words.trim_start_matches("About ").split(" of measuring").next().expect("a time").to_owned()
        };
        for (seconds, expected) in [
            (4.0, "1 min"),
            (74.0, "1.2 min"),
            (600.0, "10 min"),
            (1507.0, "25 min"),
            (3569.0, "59 min"),
            (3571.0, "1 h"),
            (5400.0, "1.5 h"),
            (86_400.0, "24 h"),
            (90_000.0, "More than a day"),
            (1e30, "More than a day"),
        ] {
            assert_eq!(time(seconds), expected, "{seconds}");
        }
    }

    fn unresolved(highest_resolved: Option<Metric>, time_for_20_percent_s: Option<f64>) -> Tail {
        Tail { metric: Metric::AddedP99, resolved: false, highest_resolved, time_for_20_percent_s }
    }

    fn said(low: Option<f64>, high: Option<f64>, distinguishable: bool, tail: Tail) -> Option<String> {
        let estimate = Estimate { low, high, ..Estimate::bare(240.0, 60) };
        sentence(&tail, &Difference { estimate, in_run: estimate, distinguishable })
    }

    #[test]
    fn an_unresolved_p99_says_how_long_it_would_take() {
        for seconds in [1e6, 1500.0] {
            let tail = unresolved(Some(Metric::AddedP95), Some(seconds));
            insta::assert_snapshot!(said(Some(110.0), Some(370.0), true, tail).expect("not resolved"));
        }
    }

    #[test]
    fn no_time_is_given_without_an_interval_or_in_the_noise() {
        let tail = unresolved(None, None);
        insta::assert_snapshot!(said(None, None, false, tail).expect("not resolved"));
        assert_eq!(said(Some(-20.0), Some(500.0), false, tail), None);
        let resolved = Tail { resolved: true, highest_resolved: Some(Metric::AddedP99), ..tail };
        assert_eq!(said(Some(230.0), Some(250.0), true, resolved), None);
    }
}

//! The sentence about medians that are lower at a higher rate.
//!
//! Such a median looks like a mistake, but it is not one: the longer a CPU idles, the deeper it sleeps, and
//! the longer it takes to wake up for the next request (R. Schöne and others, "Wake-up latencies for
//! processor idle states on current x86 processors", 2015).

use crate::model::Model;
use crate::words::sweeps::sweeps;
use hoptax_analysis::{Case, Load};
use hoptax_plan::Idle;
use hoptax_stats::Estimate;

/// Says at which rates medians are lower than at a lower rate, and why. `None` if there are none.
pub(crate) fn line(model: &Model) -> Option<String> {
    let loads: Vec<&Load> = model.loads().collect();
    let sweeps = sweeps(&loads);
    let rates = sweeps.iter().filter(|sweep| sweep.axis == "rate");
    // Compares the lowest and the highest rate, because their medians differ most clearly.
    let found = rates.filter_map(|sweep| {
        let (slow, fast) = (*sweep.loads.first()?, *sweep.loads.last()?);
        let lower = lower_medians(model, slow, fast);
        (!lower.is_empty()).then(|| (lower, label(&loads, slow), label(&loads, fast)))
    });
    let (labels, slow, fast) = found.max_by_key(|(lower, ..)| lower.len())?;
    let why = match model.environment.idle {
        Some(Idle::Poll) => "with more time between requests, caches become cold and clock rates fall",
        _ => "CPUs that idle longer sleep deeper and take longer to wake up",
    };
    let who = match labels.as_slice() {
        [one] => format!("The median of {one} is"),
        [many @ .., last] => format!("The medians of {} and {last} are", many.join(", ")),
        [] => return None,
    };
    Some(format!("{who} lower at {fast} than at {slow}: {why}."))
}

/// The contenders whose median is lower at the higher rate, with intervals that do not overlap.
fn lower_medians(model: &Model, slow: usize, fast: usize) -> Vec<&str> {
    let at = |load: usize| model.cases.iter().filter(move |case| case.load.index == load);
    let median = |case: &Case| case.response_time.as_ref()?.p50;
    let is_lower =
        |slow: Estimate, fast: Estimate| slow.low.zip(fast.high).is_some_and(|(slow, fast)| fast < slow);
    at(fast)
        .filter(|case| {
            let same = at(slow).find(|other| other.gateway == case.gateway);
            let both = same.and_then(median).zip(median(case));
            both.is_some_and(|(slow, fast)| is_lower(slow, fast))
        })
        .map(|case| case.gateway.as_str())
        .collect()
}

/// The rate of a load point in words: `1,000 requests/s`.
fn label(loads: &[&Load], index: usize) -> String {
    let rate = loads.iter().find(|load| load.index == index).and_then(|load| load.rate).unwrap_or_default();
    format!("{}/s", crate::words::format::number(rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;

    fn run(slow_us: u64, fast_us: u64) -> Run {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), open_point(200.0, 8, 1)]);
        for round in 0..5 {
            for (load, us) in [(0, fast_us), (1, slow_us)] {
                run.direct_trials(round, |trial| trial.at_load(load).all_at_us(us));
                run.push(via("nginx", round).at_load(load).all_at_us(2 * us));
            }
        }
        run
    }

    #[test]
    fn a_lower_median_at_a_higher_rate_is_explained() {
        let mut run = run(90, 60);
        let words = line(&run.model()).expect("lower");
        run.record.environment.idle = Some(Idle::Poll);
        assert!(line(&run.model()).expect("lower").contains("clock rates"));
        for text in [crate::terminal(&run.model(), 200, false), crate::markdown(&run.model())] {
            insta::assert_snapshot!(text);
        }
        insta::assert_snapshot!(words);
        assert!(crate::html(&run.model()).expect("a page").contains("are lower at 1,000"));
    }

    #[test]
    fn medians_that_are_alike_or_rise_need_no_sentence() {
        assert_eq!(line(&run(60, 60).model()), None);
        assert_eq!(line(&run(60, 90).model()), None);
    }
}

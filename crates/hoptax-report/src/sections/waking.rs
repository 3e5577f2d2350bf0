//! The sentence about CPU per request at a rate, which contains the gateway's waking up.
//!
//! A gateway that waits for the next request sleeps. Going to sleep and waking up count as CPU time of the
//! gateway. In a closed loop, many requests share one wake-up.

use crate::model::Model;
use crate::words::format::Scale;
use crate::words::text::{listed, place};
use hoptax_analysis::{Case, headline};
use hoptax_record::DIRECT;
use hoptax_stats::Estimate;

/// Names the gateways whose CPU per request at a rate is clearly above that in a closed loop. `None` if there
/// are none, or if the run has only one kind of loop.
pub(crate) fn line(model: &Model) -> Option<String> {
    let loads = || model.loads().filter(|load| load.search.is_none());
    let open = headline::for_latency(&mut loads()).filter(|load| load.is_steady())?;
    let closed = headline::for_throughput(&mut loads())?;
    let gateways = model.cases.iter().filter(|case| case.load.index == open.index && case.gateway != DIRECT);
    let found = gateways.filter_map(|case| {
        let other = model
            .cases
            .iter()
            .find(|other| other.load.index == closed.index && other.gateway == case.gateway)?;
        let (open, closed) = (cpu(case)?, cpu(other)?);
        (open.low? > closed.high?).then(|| {
            let figure = |cpu: Estimate| Scale::of_us(cpu.estimate).value(cpu.estimate);
            format!("{} {} instead of {}", case.gateway, figure(open), figure(closed))
        })
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| {
        format!(
            "CPU per request {} contains waking up, which requests {} share: {}.",
            place(open),
            place(closed),
            listed(&found)
        )
    })
}

/// CPU per request, microseconds.
fn cpu(case: &Case) -> Option<Estimate> {
    Some(case.tax.as_ref()?.cpu_us_per_request.as_ref()?.estimate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;

    /// Five rounds at a rate and in a closed loop, with these CPU times of nginx per 1000 requests.
    fn run(open_us: u64, closed_us: u64) -> Run {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(16, 1)]);
        for round in 0..5 {
            for (load, us) in [(0, open_us), (1, closed_us)] {
                run.direct_trials(round, |trial| trial.at_load(load));
                run.push(via("nginx", round).at_load(load).gateway_cpu_us(us + u64::from(round) * us / 100));
            }
        }
        run
    }

    #[test]
    fn more_cpu_per_request_at_a_rate_is_explained() {
        let model = run(42_000, 20_000).model();
        insta::assert_snapshot!(line(&model).expect("more"));
        let words = "contains waking up";
        for text in [crate::terminal(&model, 200, false), crate::markdown(&model)] {
            assert!(text.contains(words), "{text}");
        }
        assert!(crate::html(&model).expect("a page").contains(words));
    }

    #[test]
    fn cpu_per_request_that_is_alike_or_less_needs_no_sentence() {
        assert_eq!(line(&run(20_000, 20_000).model()), None);
        assert_eq!(line(&run(20_000, 42_000).model()), None);
    }
}

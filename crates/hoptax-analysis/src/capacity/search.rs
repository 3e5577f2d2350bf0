//! Computes capacities from the trials of searches.

use super::judge::SearchTrial;
use super::limit;
use hoptax_plan::{Figure, LoadPoint, Objective, Search};
use hoptax_record::report::{Capacity, Confirmed, Load, Step};
use hoptax_record::{RunRecord, StepPurpose, TrialRecord};
use hoptax_stats::{Estimate, Threshold};

/// Limit for the probability that the threshold is above the highest rate tried, and for the probability that
/// it is below the lowest rate tried. From this probability on, the threshold counts as outside of the rates
/// tried.
const CERTAIN: f64 = 0.975;

/// The capacities of every search in a run. Sorted by load point, then by contender (direct first), then by
/// objective.
pub fn capacities(run: &RunRecord, loads: &[Load], records: &[TrialRecord]) -> Vec<Capacity> {
    let mut all = Vec::new();
    for load in loads {
        let Some(search) = run.load.get(load.index).and_then(LoadPoint::searched) else { continue };
        let mut of_load: Vec<Capacity> = Vec::new();
        for contender in &run.contenders {
            let steps: Vec<&TrialRecord> = records
                .iter()
                .filter(|record| record.contender == contender.label && record.load as usize == load.index)
                .filter(|record| record.step.is_some())
                .collect();
            for objective in &search.objectives {
                let mut one = capacity(load, &contender.label, search, objective, &steps);
                let last = steps.last().and_then(|record| record.failed.clone());
                one.failed = contender
                    .failed
                    .clone()
                    .or(last.filter(|_| one.steps.last().is_some_and(|step| step.held.is_none())));
                of_load.push(one);
            }
        }
        limit::compare_with_direct(&mut of_load);
        all.append(&mut of_load);
    }
    all
}

fn capacity(
    load: &Load,
    gateway: &str,
    search: &Search,
    objective: &Objective,
    records: &[&TrialRecord],
) -> Capacity {
    let trials: Vec<Option<SearchTrial<'_>>> =
        records.iter().map(|record| SearchTrial::read(record, !load.is_open())).collect();
    let steps: Vec<Step> = records
        .iter()
        .zip(&trials)
        .filter_map(|(record, trial)| step(record, trial.as_ref(), objective))
        .collect();
    let mut threshold = Threshold::new(search.from, search.to, search.precision);
    for step in &steps {
        if let Some(held) = step.held {
            threshold.observe(step.rate, held);
        }
    }
    let measured = threshold.observations() > 0;
    let nowhere = measured && threshold.above(search.from) <= 1.0 - CERTAIN;
    let everywhere = threshold.above(search.to) >= CERTAIN;
    let mut made = Capacity {
        load: load.clone(),
        gateway: gateway.to_owned(),
        slo: objective.text.clone(),
        rate: (measured && !nowhere).then(|| estimate(&threshold, search, everywhere)),
        below: nowhere.then_some(search.from),
        at_least: false,
        limited_by: None,
        broken: Vec::new(),
        confirmed: confirmed(&steps, threshold.quantile(0.975)),
        of_direct: None,
        failed: None,
        steps,
    };
    limit::from_own_trials(&mut made, &trials, search, everywhere);
    made
}

/// The capacity with its interval. The capacity is limited to the range of rates tried. The interval has no
/// upper end if the objective held everywhere in this range.
fn estimate(threshold: &Threshold, search: &Search, everywhere: bool) -> Estimate {
    let (middle, low, high) = threshold.interval();
    Estimate {
        estimate: middle.clamp(search.from, search.to),
        low: Some(low.clamp(0.0, search.to)),
        high: (!everywhere).then_some(high),
        trials: threshold.observations(),
    }
}

fn step(record: &TrialRecord, trial: Option<&SearchTrial<'_>>, objective: &Objective) -> Option<Step> {
    let asked = record.step?;
    let broken = trial.map(|trial| trial.breaks(objective));
    let us = |of: Figure| Some(trial?.figure(of)? / 1e3);
    let seconds = |trial: &SearchTrial<'_>| trial.load.measured_ns as f64 / 1e9;
    Some(Step {
        number: asked.number,
        rate: asked.rate,
        purpose: asked.purpose,
        held: broken.as_ref().map(Vec::is_empty),
        broken: broken.unwrap_or_default(),
        throughput: trial.map(|trial| trial.load.completed_in_time as f64 / seconds(trial)),
        p50_us: us(Figure::Percentile(0.5)),
        p99_us: us(Figure::Percentile(0.99)),
        errors: trial.map(SearchTrial::errors),
        generator_utilisation: trial
            .map(|trial| trial.load.cpu.busiest_worker_ns as f64 / trial.load.measured_ns as f64),
    })
}

/// The highest rate, up to `high`, that longer trials confirmed. Longer trials confirm a rate if the
/// objective held in at least two of them, and in more than half of them.
fn confirmed(steps: &[Step], high: f64) -> Option<Confirmed> {
    let longer = || steps.iter().filter(|step| step.purpose == StepPurpose::Confirm && step.held.is_some());
    let at = |rate: f64| {
        let here: Vec<&Step> = longer().filter(|step| step.rate == rate).collect();
        let held = here.iter().filter(|step| step.held == Some(true)).count();
        Confirmed { rate, held: held as u32, trials: here.len() as u32 }
    };
    let rates = longer().map(|step| step.rate).filter(|rate| *rate <= high);
    rates
        .map(at)
        .filter(|one| one.held >= 2 && 2 * one.held > one.trials)
        .max_by(|one, other| one.rate.total_cmp(&other.rate))
}

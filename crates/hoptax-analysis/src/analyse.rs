//! Analyses a run: cases, noise floors, capacities, prices, findings and budgets.

use super::analysis::Analysis;
use super::side::Side;
use super::{capacity, checks};
use crate::budgets::budget::not_everywhere;
use crate::budgets::start_budget::judge;
use crate::figures::case;
use crate::figures::path::path;
use crate::hosts::legs::Network;
use crate::hosts::vantage;
use crate::taxes::another_run::Scatters;
use crate::taxes::tail::tail;
use crate::taxes::tax::tax;
use crate::taxes::{features, gateway_pairs, generators, noise, per_stream, processes, targets, versions};
use crate::trials::trial::{Trial, good_trials, of_case};
use crate::trials::{measuring_time, warm_ups};
use crate::{concerns, quiet_cases, starts, tails};
use hoptax_record::report::{Case, FailedTrial, Load};
use hoptax_record::start::StartRecord;
use hoptax_record::tail::TailPass;
use hoptax_record::{Aside, DIRECT, Failure, RunRecord, Stage, TrialRecord, placements};

/// Analyses the records of a run. With `starts`, the run measured starts of gateways instead of trials.
pub fn analyse(
    run: &RunRecord,
    records: &[TrialRecord],
    starts: &[StartRecord],
    passes: &[TailPass],
) -> Analysis {
    let slow = tails::tails(run, passes);
    let loads = Load::all(&run.load);
    let measured_s = measuring_time::seconds(records);
    let warm_ups = warm_ups::figures(run, records);
    let mut examined = Vec::new();
    let mut noise_floor = Vec::new();
    for load in &loads {
        let direct = good_trials(records, DIRECT, load.index);
        let floor = noise::noise_floor(load.clone(), &direct);
        let first = examined.len();
        // A search has no cases, because its trials run at many rates, and a run of starts has no trials.
        // They still get an empty noise floor, so that `noise_floor` has the same indices as the load points.
        let has_cases = load.search.is_none() && starts.is_empty();
        let contenders = if has_cases { &run.contenders[..] } else { &[] };
        for contender in contenders {
            let trials = good_trials(records, &contender.label, load.index);
            let mut case = case::case(&contender.label, load, &trials);
            case.failed_trials = failed_trials(records, &contender.label, load.index);
            let aside = |why| {
                of_case(records, &contender.label, load.index)
                    .filter(|one| one.set_aside == Some(why))
                    .count() as u32
            };
            case.moved = aside(Aside::Moved);
            case.set_aside = aside(Aside::Disturbed) + case.moved;
            case.warming = aside(Aside::Warming);
            case.processes = processes::count(&trials);
            case.last_round = of_case(records, &contender.label, load.index).map(|one| one.round).max();
            case.targets = targets::figures(&run.plan.targets, &trials, &direct, case.is_direct());
            case.generators = generators::figures(load, &trials, &direct, case.is_direct());
            case.path = path(&trials, &direct, case.is_direct());
            if !case.is_direct() && !trials.is_empty() {
                case.tax = Some(tax(&trials, &direct, &floor));
            }
            if trials.is_empty() {
                let in_trial = case.failed_trials.last().map(|trial| trial.failure.clone());
                case.failed = left_out(load).or(in_trial).or_else(|| contender.failed.clone());
            }
            examined.push((case, trials));
        }
        quiet_cases::fill_in(load, &mut examined[first..]);
        noise_floor.push(floor);
    }
    let processes = processes::processes(run, |label, load| {
        let of_case = |(case, _): &&(Case, Vec<Trial<'_>>)| case.gateway == label && case.load.index == load;
        examined.iter().find(of_case).map_or(&[][..], |(_, trials)| trials)
    });
    per_stream::fill_in(&run.load, &mut examined);
    let scatters = Scatters::new(run, &warm_ups, &processes);
    for (case, _) in &mut examined {
        scatters.of(&case.gateway).widen_case(case);
        case.tail = case.tax.as_ref().and_then(|tax| tail(tax, measured_s));
    }
    let prices = features::prices(run, records, &noise_floor, &scatters);
    let pairs = gateway_pairs::pairs(run, &prices, &scatters, &examined);
    let versions = versions::versions(run, &scatters, &examined);
    let of_starts = starts::starts(run, starts);
    let placements = placements(records);
    let findings = checks::examine(&checks::Subject {
        run,
        placements: &placements,
        cases: &examined,
        records,
        noise_floor: &noise_floor,
        starts,
        of_starts: &of_starts,
        slow: &slow,
    });
    let same_loads = vantage::same_loads(run, &examined, &scatters);
    let mut cases: Vec<Case> = examined.into_iter().map(|(case, _)| case).collect();
    for case in &mut cases {
        let about = findings.iter().filter(|finding| finding.case.as_deref() == Some(&*case.case));
        case.findings = about.map(|finding| finding.code).collect();
    }
    let budget = match run.plan.budget.is_empty() {
        true => Vec::new(),
        false => judge(&run.plan.budget, (&cases, &of_starts), &Side::read(run, records), None),
    };
    let capacity = capacity::capacities(run, &loads, records);
    let starts = of_starts;
    let network = Network::new(run, &cases, &scatters);
    let unchecked = not_everywhere(&run.plan.budget, run);
    let mut analysis = Analysis {
        cases,
        noise_floor,
        capacity,
        prices,
        pairs,
        versions,
        warm_ups,
        placements,
        starts,
        slow,
        network,
        same_loads,
        findings,
        budget,
        unchecked,
    };
    concerns::mark(&mut analysis, run);
    analysis
}

/// Why a load point has no case.
fn left_out(load: &Load) -> Option<Failure> {
    let message = load.left_out.clone()?;
    Some(Failure { stage: Stage::LeftOut, message, detail: String::new() })
}

fn failed_trials(records: &[TrialRecord], contender: &str, load: usize) -> Vec<FailedTrial> {
    of_case(records, contender, load)
        .filter_map(|record| {
            Trial::read(record).err().map(|failure| FailedTrial { round: record.round, failure })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Run, failure, via};
    use hoptax_record::Stage;

    #[test]
    fn a_failed_trial_is_listed_and_does_not_count() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.push(via("nginx", 3).all_at_us(9000).failed("nginx died: exit status 1"));
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("a row");
        assert_eq!((case.trials, case.failed_trials.len(), &case.failed), (3, 1, &None));
        assert_eq!(case.failed_trials[0].failure.message, "nginx died: exit status 1");
        let p50 = case.response_time.as_ref().expect("measured").p50.expect("samples");
        assert!((p50.estimate - 150.0).abs() < 0.2, "the failed trial's 9 ms must not count: {p50:?}");
    }

    #[test]
    fn a_failed_contender_and_a_run_without_trials_have_cases_without_figures() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.contender("envoy", Some(failure(Stage::Missing, "envoy is not installed")));
        let analysis = run.analyse();
        let case = analysis.case("envoy", 0).expect("a row");
        assert_eq!(case.trials, 0);
        assert_eq!(case.failed.as_ref().expect("the reason").message, "envoy is not installed");
        let mut run = Run::closed(4);
        run.contender("nginx", None);
        let analysis = run.analyse();
        assert_eq!(analysis.cases.len(), 2);
        assert!(analysis.cases.iter().all(|case| case.trials == 0 && case.throughput.is_none()));
        assert!(analysis.cases.iter().all(|case| case.failed.is_none()));
    }

    #[test]
    fn every_case_of_a_load_point_that_was_left_out_has_the_reason() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        let mut large = run.record.load[0].clone();
        (large.connections, large.left_out) = (15_000, Some("15000 connections do not fit".into()));
        run.record.load.push(large);
        let analysis = run.analyse();
        for contender in ["direct", "nginx"] {
            let failure = analysis.case(contender, 1).expect("a row").failed.clone().expect("a reason");
            assert_eq!((failure.stage, &*failure.message), (Stage::LeftOut, "15000 connections do not fit"));
            assert!(analysis.case(contender, 0).expect("a row").failed.is_none());
        }
    }

    #[test]
    fn an_undecodable_histogram_fails_its_trial_only() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        let record = run.trials.iter_mut().find(|record| record.contender == "nginx").expect("there are two");
        record.load_record.as_mut().expect("measured").histograms.response_time.0 = "aGVsbG8=".into();
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("a row");
        assert_eq!((case.trials, case.failed_trials.len()), (1, 1));
        assert!(case.failed_trials[0].failure.message.contains("cannot be read"));
    }
}

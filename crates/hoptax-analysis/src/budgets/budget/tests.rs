use super::*;
use crate::fixture::{Run, closed_point, failure, open_point, via};
use hoptax_plan::LoadSelector;
use hoptax_record::{CpuRoundTrip, Stage};

/// A budget of nginx: the metric, its limits `max` and `min`, and the expected outcome.
type Row = (Metric, Option<f64>, Option<f64>, Outcome);

fn assert_outcomes(run: &mut Run, rows: &[Row]) -> Vec<BudgetResult> {
    let budget = |(metric, max, min, _): &Row| Budget {
        gateway: Some("nginx".into()),
        max: *max,
        min: *min,
        ..Budget::of(*metric)
    };
    run.record.plan.budget = rows.iter().map(budget).collect();
    let results = run.analyse().budget;
    assert_eq!(results.len(), rows.len());
    for (result, row) in results.iter().zip(rows) {
        assert_eq!(result.outcome, row.3, "{row:?}");
    }
    results
}

fn relative(run: &mut Run, metric: Metric, against: &str, max: f64) -> BudgetResult {
    let against = Some(against.to_string());
    run.record.plan.budget = vec![Budget { against, max_change: Some(max), ..Budget::of(metric) }];
    let mut results = run.analyse().budget;
    assert_eq!(results.len(), 1, "{results:?}");
    results.remove(0)
}

#[test]
fn the_whole_interval_must_be_on_one_side_of_the_limit() {
    let mut run = Run::closed(1);
    for (round, via_us) in [140, 150, 160].into_iter().enumerate() {
        run.direct(round as u32, 100, 100);
        run.push(via("nginx", round as u32).all_at_us(via_us));
    }
    // The gateway adds 50 µs. Of the 27 draws, 7 have a median of 140 µs and 7 have a median of 160 µs.
    // So s*² = 100 · 14/27, and t(2)·√1.5·s* = 37.9.
    let rows: [Row; 8] = [
        (Metric::AddedP50, Some(10.0), None, Outcome::Exceeded),
        (Metric::AddedP50, Some(15.0), None, Outcome::Inconclusive),
        (Metric::AddedP50, Some(60.0), None, Outcome::Inconclusive),
        (Metric::AddedP50, Some(90.0), None, Outcome::Kept),
        (Metric::AddedP50, None, Some(90.0), Outcome::Exceeded),
        (Metric::AddedP50, Some(90.0), Some(15.0), Outcome::Inconclusive),
        (Metric::P50, Some(110.0), None, Outcome::Exceeded),
        (Metric::P50, Some(140.0), None, Outcome::Inconclusive),
    ];
    let results = assert_outcomes(&mut run, &rows);
    let decides = results[7].would_decide.expect("more rounds decide");
    assert!(decides.rounds > 3 && decides.seconds.is_some(), "{decides:?}");
}

#[test]
fn messages_have_budgets() {
    let mut run = Run::closed(1);
    for round in 0..4 {
        run.direct_trials(round, |trial| trial.all_at_us(900).both_ways_us(100, 1000));
        run.push(via("nginx", round).all_at_us(900).both_ways_us(150, 1000).gateway_cpu_us(40_000));
    }
    // The gateway adds 50 µs to each message, ±6 % for another run.
    let rows: [Row; 5] = [
        (Metric::AddedMessageP50, Some(60.0), None, Outcome::Kept),
        (Metric::AddedMessageP99, Some(40.0), None, Outcome::Exceeded),
        (Metric::MessageP99, Some(200.0), None, Outcome::Kept),
        (Metric::CpuUsPerMessage, Some(1.5), None, Outcome::Exceeded),
        (Metric::AddedAgeP50, Some(60.0), None, Outcome::Unmeasured),
    ];
    assert_outcomes(&mut run, &rows);
}

#[test]
fn goodput_has_budgets() {
    let mut run = Run::closed(1).token_streams(10);
    for round in 0..4 {
        let trial = |label: &str, good: u64| {
            let trial = via(label, round).server_stream_us(100, 1000).tokens_us([100, 100, 1000], 10);
            trial.token_counts(|counts| counts.good = Some(good))
        };
        run.push(trial("direct", 1000).first()).push(trial("direct", 1000).last());
        run.push(trial("nginx", 990 - u64::from(round % 2)));
    }
    let rows: [Row; 5] = [
        (Metric::GoodputShare, None, Some(0.97), Outcome::Kept),
        (Metric::GoodputShare, None, Some(0.999), Outcome::Exceeded),
        (Metric::GoodputShare, None, Some(1.0), Outcome::Exceeded),
        (Metric::GoodRate, None, Some(1.0), Outcome::Kept),
        (Metric::GoodRate, None, Some(1e6), Outcome::Exceeded),
    ];
    assert_outcomes(&mut run, &rows);
    let mut without = Run::steady(3, 100, &[("nginx", 150)]);
    assert_outcomes(&mut without, &[(Metric::GoodputShare, None, Some(0.9), Outcome::Unmeasured)]);
}

#[test]
fn without_an_interval_the_value_decides() {
    let mut run = Run::steady(1, 100, &[("nginx", 150)]);
    let rows: [Row; 3] = [
        (Metric::AddedP50, Some(45.0), None, Outcome::Exceeded),
        (Metric::AddedP50, Some(55.0), None, Outcome::Kept),
        (Metric::ErrorShare, Some(0.0), None, Outcome::Kept),
    ];
    assert_outcomes(&mut run, &rows);
    // A change of one round may be chance.
    for max in [0.4, 0.6] {
        let result = relative(&mut run, Metric::P50, "direct", max);
        assert_eq!(result.outcome, Outcome::Inconclusive);
        assert!(result.reason.is_some_and(|reason| reason.contains("at least two")));
    }
}

#[test]
fn one_of_many_limits_may_be_exceeded_by_chance() {
    let result = |estimate: f64, low: f64| BudgetResult {
        case: String::new(),
        gateway: String::new(),
        metric: Metric::P99,
        max: None,
        min: None,
        measured: None,
        more_than: None,
        change: Some(ChangeResult {
            max: Some(0.1),
            between_runs: true,
            measured: Some(Estimate { low: Some(low), high: Some(9.0), ..Estimate::bare(estimate, 8) }),
            ..unknown("earlier")
        }),
        outcome: if low > 0.1 { Outcome::Exceeded } else { Outcome::Kept },
        reason: None,
        would_decide: None,
    };
    let outcomes = |mut results: Vec<BudgetResult>| {
        allow_for_chance(&mut results);
        for one in &results {
            let change = one.change.as_ref().and_then(|change| change.measured).expect("measured");
            let is_beyond = change.low.expect("an interval") > 0.1;
            assert_eq!(is_beyond, one.outcome == Outcome::Exceeded, "{one:?}");
        }
        results.into_iter().map(|one| one.outcome).collect::<Vec<_>>()
    };
    // In one of 90 measured pairs, two equal nginx differed like this by chance: +152 % (+13.7 to +403), with
    // twenty limits.
    let by_chance = result(1.52, 0.137);
    assert_eq!(outcomes(vec![by_chance.clone()]), [Outcome::Exceeded]);
    let kept = std::iter::repeat_n(result(0.0, -0.05), 19);
    let all = outcomes(kept.clone().chain([by_chance]).collect());
    assert!(all[..19].iter().all(|one| *one == Outcome::Kept));
    assert_eq!(all[19], Outcome::Inconclusive);
    assert_eq!(outcomes(kept.chain([result(1.52, 0.9)]).collect())[19], Outcome::Exceeded);
}

#[test]
fn an_unmeasured_metric_is_not_kept() {
    let mut run = Run::steady(2, 100, &[]);
    run.contender("nginx", Some(failure(Stage::Start, "did not start")));
    assert_outcomes(&mut run, &[(Metric::AddedP50, Some(45.0), None, Outcome::Unmeasured)]);
    let result = relative(&mut run, Metric::P50, "direct", 0.1);
    assert_eq!((result.outcome, result.reason.as_deref()), (Outcome::Unmeasured, Some("did not start")));
    let mut run = Run::steady(2, 100, &[("nginx", 150)]);
    run.contender("main", Some(failure(Stage::Start, "did not start")));
    let budget = Budget { max_change: Some(0.1), against: Some("main".into()), ..Budget::of(Metric::P50) };
    run.record.plan.budget = vec![budget];
    let results = run.analyse().budget;
    assert_eq!((results.len(), results[0].outcome), (1, Outcome::Unmeasured));
    assert!(results[0].reason.as_ref().is_some_and(|why| why.starts_with("main ")), "{results:?}");
}

#[test]
fn a_budget_without_a_gateway_limits_all_gateways_but_not_direct() {
    let mut run = Run::steady(2, 100, &[("nginx", 150), ("envoy", 170)]);
    run.record.plan.budget = vec![Budget { max: Some(60.0), ..Budget::of(Metric::AddedP50) }];
    let results = run.analyse().budget;
    let outcomes: Vec<Outcome> = results.iter().map(|result| result.outcome).collect();
    assert_eq!(outcomes, [Outcome::Kept, Outcome::Exceeded]);
}

#[test]
fn a_selector_limits_its_load_points_only() {
    let mut run = Run::with_load(vec![closed_point(8, 1), open_point(1000.0, 8, 1)]);
    for load in 0..2 {
        run.direct_trials(0, |trial| trial.at_load(load));
        run.push(via("nginx", 0).at_load(load).all_at_us(900));
    }
    let load = LoadSelector { open: Some(true), ..LoadSelector::default() };
    run.record.plan.budget = vec![Budget { load, max: Some(1.0), ..Budget::of(Metric::P99) }];
    let results = run.analyse().budget;
    assert_eq!(results.len(), 1);
    assert!(results[0].case.contains("open loop"), "{results:?}");
}

#[test]
fn changes_within_a_run_are_paired() {
    // The machine is three times as slow in the last round. The gateway `pr` always takes 20 % more time
    // than `main`.
    let mut run = Run::closed(1);
    for (round, speed) in [1, 2, 3].into_iter().enumerate() {
        let round = round as u32;
        run.direct(round, 100 * speed, 100 * speed);
        run.push(via("main", round).all_at_us(200 * speed));
        run.push(via("pr", round).all_at_us(240 * speed));
    }
    let result = relative(&mut run, Metric::P50, "main", 0.1);
    assert_eq!((result.outcome, &*result.gateway), (Outcome::Exceeded, "pr"));
    let changed = result.change.expect("relative").measured.expect("three pairs");
    assert!((changed.estimate - 0.2).abs() < 0.01 && changed.low.expect("bounded") > 0.19, "{changed:?}");
    assert_eq!(relative(&mut run, Metric::P50, "main", 0.25).outcome, Outcome::Kept);
}

fn against_baseline(base: &Run, run: &Run, metric: Metric) -> BudgetResult {
    let (there, here) = (Side::read(&base.record, &base.trials), Side::read(&run.record, &run.trials));
    let (base_cases, cases) = (base.analyse().cases, run.analyse().cases);
    let baseline = Baseline { name: "base", side: &there, cases: &base_cases, starts: &[] };
    let budget = Budget { max_change: Some(0.1), ..Budget::of(metric) };
    judge(&[budget], &cases, &here, Some(&baseline)).remove(0)
}

#[test]
fn a_baseline_run_on_a_slower_machine_is_inconclusive() {
    let base = Run::steady(5, 100, &[("nginx", 150)]);
    let worse = Run::steady(5, 100, &[("nginx", 180)]);
    let result = against_baseline(&base, &worse, Metric::P50);
    assert_eq!((result.outcome, &*result.change.expect("relative").against), (Outcome::Exceeded, "base"));
    // Everything takes 20 % longer, including direct. So the machine became slower, not the gateway.
    let slower = Run::steady(5, 120, &[("nginx", 180)]);
    let result = against_baseline(&base, &slower, Metric::P50);
    assert_eq!(result.outcome, Outcome::Inconclusive, "{result:?}");
    assert!((result.change.expect("relative").drift - 0.2).abs() < 0.02);
    // A gateway that became much faster is within the limit, even if the machine may have changed.
    let faster = Run::steady(5, 100, &[("nginx", 110)]);
    assert_eq!(against_baseline(&base, &faster, Metric::P50).outcome, Outcome::Kept);
}

#[test]
fn a_baseline_with_another_placement_of_cpus_is_inconclusive() {
    let placed = |us: u64, ns: f64| {
        let mut run = Run::steady(10, 100, &[("nginx", us)]);
        for trial in &mut run.trials {
            trial.cpu_round_trips = vec![CpuRoundTrip { cpus: [0, 1], before_ns: ns, after_ns: ns }];
        }
        run
    };
    for (before, after) in [((150, 123.0), (250, 315.0)), ((250, 315.0), (150, 123.0))] {
        let (base, run) = (placed(before.0, before.1), placed(after.0, after.1));
        let result = against_baseline(&base, &run, Metric::AddedP50);
        assert_eq!(result.outcome, Outcome::Inconclusive, "{result:?}");
        let reason = result.reason.expect("a reason");
        insta::assert_snapshot!(reason);
        // Counts do not depend on the placement.
        assert_eq!(against_baseline(&base, &run, Metric::MemoryRssBytes).reason, None);
    }
    let (base, run) = (placed(150, 123.0), placed(250, 130.0));
    assert_eq!(against_baseline(&base, &run, Metric::AddedP50).outcome, Outcome::Exceeded, "alike");
}

#[test]
fn errors_in_one_trial_of_many_are_inconclusive() {
    let mut run = Run::closed(1);
    for round in 0..5 {
        run.direct(round, 100, 100);
        run.push(via("nginx", round).errors(if round == 0 { 20 } else { 0 }));
        run.push(via("envoy", round).errors(20));
    }
    run.record.plan.budget = vec![Budget { max: Some(0.002), ..Budget::of(Metric::ErrorShare) }];
    let outcomes: Vec<Outcome> = run.analyse().budget.iter().map(|result| result.outcome).collect();
    assert_eq!(outcomes, [Outcome::Inconclusive, Outcome::Exceeded]);
}

#[test]
fn more_rounds_decide_about_errors_that_never_occurred() {
    let judged = |rounds: u32, errors: u64, max: f64| {
        let mut run = Run::closed(1);
        for round in 0..rounds {
            run.direct(round, 100, 100);
            run.push(via("nginx", round).errors(errors));
        }
        run.record.plan.budget = vec![Budget { max: Some(max), ..Budget::of(Metric::ErrorShare) }];
        run.analyse().budget.remove(0)
    };
    let few = judged(4, 0, 0.0005);
    assert_eq!((few.outcome, few.reason), (Outcome::Inconclusive, None));
    let rounds = few.would_decide.expect("more rounds decide").rounds;
    assert_eq!(judged(rounds, 0, 0.0005).outcome, Outcome::Kept, "{rounds} rounds");
    assert_eq!(judged(rounds * 3 / 4, 0, 0.0005).outcome, Outcome::Inconclusive, "{rounds} rounds");
    let some = judged(4, 1, 0.0015);
    assert_eq!((some.outcome, some.reason), (Outcome::Inconclusive, None));
    assert!(some.would_decide.expect("more rounds decide").rounds > 4);
}

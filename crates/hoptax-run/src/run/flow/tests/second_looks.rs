//! Tests of the look at processes after the last round.

use super::*;
use hoptax_plan::{AutoTrials, Trials};
use hoptax_record::Aside;

/// Plays a run of three rounds. hop-l7 becomes faster after this many loads. A load takes 1 s, so a warm-up
/// has ten loads.
fn with_step_after(loads: usize) -> (ReadRun, Vec<String>) {
    let mut scene = Scene::new();
    scene.plan.until_settled =
        Some(UntilSettled { at_most: Duration::from_secs(60), overload_external: false });
    let at_most = Duration::from_secs(3600);
    scene.plan.trials =
        Trials::Auto(AutoTrials { within: 1e-9, within_us: None, at_most, least: 3, most: 3 });
    scene.traffic.fast_after = Some((HOP_L7, loads));
    let (_, run, journal) = scene.play();
    (run, journal)
}

/// Marks the trials of hop-l7: `x` if it is set aside.
fn marks(run: &ReadRun) -> String {
    let of_hop = run.trials.iter().filter(|trial| trial.contender == "hop-l7");
    of_hop.map(|trial| if trial.set_aside == Some(Aside::Warming) { 'x' } else { '.' }).collect()
}

#[test]
fn trials_before_a_step_in_the_second_look_are_set_aside_and_rounds_follow() {
    // Ten bursts, three trials, and the step after five bursts of the second look.
    let (run, _) = with_step_after(18);
    assert_eq!(marks(&run), "xxx...");
    let hop = &run.record.contenders[2];
    let steps: Vec<bool> = hop.warm_ups.iter().map(|warm_up| warm_up.faster_by.is_some()).collect();
    assert_eq!(steps, [false, true, false], "the third look finds no other step");
    assert_eq!(hop.warm_ups[1].before_trial, 12);
    let others = run.trials.iter().filter(|trial| trial.contender != "hop-l7");
    assert!(others.clone().count() == 18 && others.clone().all(|trial| trial.set_aside.is_none()));
}

#[test]
fn a_run_without_a_step_ends_after_the_second_look() {
    for loads in [0, 5] {
        let (run, journal) = with_step_after(loads);
        assert_eq!(marks(&run), "...");
        assert!(run.record.contenders[2].warm_ups.iter().all(|one| one.settled && one.faster_by.is_none()));
        let loads = journal.iter().filter(|line| *line == "load 7").count();
        assert!((23..40).contains(&loads), "two warm-ups and three trials: {loads}");
    }
}

//! Tests of restarts between rounds.

use super::*;
use hoptax_plan::{AutoTrials, Trials};
use hoptax_record::Aside;

/// A run in which hop-l7 generates code.
fn scene(trials: Trials) -> Scene {
    let mut scene = Scene::new();
    scene.plan.until_settled =
        Some(UntilSettled { at_most: Duration::from_secs(60), overload_external: false });
    scene.plan.trials = trials;
    scene.traffic.generates_code = Some(HOP_L7);
    scene
}

/// As many rounds as `most`.
fn auto(most: u32) -> Trials {
    let at_most = Duration::from_secs(3600);
    Trials::Auto(AutoTrials { within: 1e-9, within_us: None, at_most, least: 3, most })
}

/// The start that each trial of a contender belongs to, in order.
fn starts(run: &ReadRun, contender: &str) -> Vec<u32> {
    run.trials.iter().filter(|trial| trial.contender == contender).map(|trial| trial.start).collect()
}

fn count(journal: &[String], line: &str) -> usize {
    journal.iter().filter(|one| *one == line).count()
}

#[test]
fn rounds_of_a_gateway_that_generates_code_are_spread_over_four_processes() {
    let (outcome, run, journal) = scene(Trials::Fixed(8)).play();
    assert_eq!(outcome.measured, 32);
    assert_eq!(starts(&run, "hop-l7"), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!((count(&journal, "start hop-l7"), count(&journal, "stop hop-l7")), (4, 4));
    // Each process is warmed up for 20 s, and a load has 1 s.
    let warm_ups = &run.record.contenders[2].warm_ups;
    let of_starts: Vec<_> = warm_ups.iter().map(|one| (one.start, one.before_trial)).collect();
    assert_eq!(of_starts, [(0, 0), (1, 8), (2, 16), (3, 24)]);
    assert!(warm_ups.iter().all(|one| one.settled && one.bursts.len() == 20), "{warm_ups:?}");
    assert_eq!(count(&journal, "load 7"), 4 * 20 + 8);
    assert_eq!((starts(&run, "hop-l4"), count(&journal, "start hop-l4")), (vec![0; 8], 1));
    assert!(starts(&run, DIRECT).iter().all(|start| *start == 0));
    assert_eq!(count(&journal, "start upstream"), 1);
    // The old process ends before the next one starts, and the trial follows its warm-up.
    let stopped = journal.iter().position(|line| line == "stop hop-l7").expect("stopped");
    assert_eq!(journal[stopped + 1], "start hop-l7");
    assert!(journal[stopped + 2..stopped + 22].iter().all(|line| line == "load 7"), "{journal:?}");
}

#[test]
fn few_rounds_have_fewer_processes() {
    let (_, run, _) = scene(Trials::Fixed(5)).play();
    assert_eq!(starts(&run, "hop-l7"), [0, 0, 0, 1, 1]);
    let (_, run, _) = scene(Trials::Fixed(3)).play();
    assert_eq!(starts(&run, "hop-l7"), [0; 3]);
}

#[test]
fn each_process_of_a_run_that_ends_by_itself_has_a_second_look() {
    // Two processes with 20 bursts, three trials and ten bursts of the second look each. The second one
    // becomes fast within its look.
    let mut scene = scene(auto(12));
    scene.traffic.fast_after = Some((HOP_L7, 61));
    let (_, run, _) = scene.play();
    assert_eq!(starts(&run, "hop-l7"), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    let hop = &run.record.contenders[2];
    let looks: Vec<_> = hop.warm_ups.iter().map(|one| (one.start, one.faster_by.is_some())).collect();
    let [no, yes] = [false, true];
    assert_eq!(looks, [(0, no), (0, no), (1, no), (1, yes), (2, no), (2, no), (3, no), (3, no)]);
    let of_hop = run.trials.iter().filter(|trial| trial.contender == "hop-l7");
    let aside: String =
        of_hop.map(|trial| if trial.set_aside == Some(Aside::Warming) { 'x' } else { '.' }).collect();
    assert_eq!(aside, "...xxx......", "only trials of the process that became faster");
}

#[test]
fn a_plan_decides_how_often_gateways_are_restarted() {
    let mut none = scene(Trials::Fixed(8));
    none.plan.restarts = Some(0);
    let (_, run, journal) = none.play();
    assert_eq!((starts(&run, "hop-l7"), count(&journal, "start hop-l7")), (vec![0; 8], 1));

    let mut one = Scene::new();
    one.plan.trials = Trials::Fixed(4);
    one.plan.restarts = Some(1);
    let url = "http://127.0.0.1:4".to_owned();
    one.plan.gateways[0].kind = GatewayKind::External {
        url,
        pid: None,
        access: hoptax_plan::Access::default(),
        prometheus: None,
        pods: None,
    };
    let (_, run, journal) = one.play();
    assert_eq!((starts(&run, "hop-l7"), count(&journal, "start hop-l7")), (vec![0, 0, 1, 1], 2));
    assert_eq!((starts(&run, "hop-l4"), count(&journal, "start hop-l4")), (vec![0; 4], 1), "not ours");
    assert_eq!(run.record.contenders[2].warm_ups, []);
}

#[test]
fn a_gateway_that_does_not_start_again_fails_its_trials() {
    let mut scene = scene(Trials::Fixed(8));
    scene.script("hop-l7").starts = Some(2);
    let (_, run, _) = scene.play();
    let of_hop: Vec<_> = run.trials.iter().filter(|trial| trial.contender == "hop-l7").collect();
    assert!(of_hop[..4].iter().all(|trial| trial.failed.is_none()));
    assert!(of_hop[4..].iter().all(|trial| trial.failed.is_some()));
}

#[test]
fn isolated_trials_have_starts_of_their_own() {
    let mut scene = scene(Trials::Fixed(2));
    scene.plan.isolate = true;
    let (_, run, _) = scene.play();
    assert_eq!(starts(&run, "hop-l7"), [1, 2]);
}

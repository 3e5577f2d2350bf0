//! Tests of the rules that set trials aside.

use super::*;
use crate::dir::tests::trial;
use crate::{Failure, Stage, TrialHost};
use std::path::Path;

const TIMED: AsideRules = AsideRules { is_timed: true, until_settled: false, late_steps: Vec::new() };

/// Marks each trial: `x` if it is set aside, `.` if not. Each trial is given as its load point and its
/// steal.
fn marked(trials: &[(u32, f64)]) -> String {
    let made = |&(load, steal): &(u32, f64)| {
        let mut trial = trial(0);
        (trial.load, trial.host.steal) = (load, steal);
        trial
    };
    let mut trials: Vec<TrialRecord> = trials.iter().map(made).collect();
    mark_disturbed(&mut trials);
    trials.iter().map(|trial| if trial.set_aside.is_some() { 'x' } else { '.' }).collect()
}

fn at_one_load(steal: &[f64]) -> String {
    marked(&steal.iter().map(|steal| (0, *steal)).collect::<Vec<_>>())
}

#[test]
fn disturbed_trials_are_set_aside() {
    assert_eq!(at_one_load(&[0.0, 0.05, 0.06, 0.0, 0.5, 0.01]), "..x.x.");
    assert_eq!(at_one_load(&[0.0; 3]), "...");
}

#[test]
fn at_most_half_is_set_aside_and_those_are_the_most_disturbed() {
    assert_eq!(at_one_load(&[0.1, 0.3, 0.2, 0.1, 0.4, 0.1]), ".x..x.");
    assert_eq!(at_one_load(&[0.3; 5]), ".....");
    assert_eq!(at_one_load(&[0.5]), ".");
}

/// Marks each trial: `x` if it is set aside because a CPU was moved. Each trial is given as the round
/// trip before and after it, ns.
fn moved(trials: &[(f64, f64)]) -> String {
    let made = |&(before_ns, after_ns): &(f64, f64)| {
        let mut trial = trial(0);
        trial.cpu_round_trips = vec![CpuRoundTrip { cpus: [0, 1], before_ns, after_ns }];
        trial
    };
    let mut trials: Vec<TrialRecord> = trials.iter().map(made).collect();
    mark_aside(&mut trials, &TIMED);
    trials.iter().map(|trial| if trial.set_aside == Some(Aside::Moved) { 'x' } else { '.' }).collect()
}

#[test]
fn trials_with_an_unusual_placement_of_cpus_are_set_aside() {
    let (near, far) = ((80.0, 85.0), (390.0, 370.0));
    assert_eq!(moved(&[near, far, far, (380.0, 82.0), near, far, far, far, far]), "x..xx....");
    assert_eq!(moved(&[near, near, near, near, near, near, (115.0, 100.0), far]), ".......x");
    assert_eq!(moved(&[near, far, near, far]), "....", "there are too few");
    assert_eq!(moved(&[]), "");
}

#[test]
fn a_placement_has_its_usual_and_its_other_distance() {
    let mut trials = vec![trial(0); 9];
    for (at, trial) in trials.iter_mut().enumerate() {
        let ns = if at < 2 { 80.0 } else { 390.0 };
        trial.cpu_round_trips = vec![CpuRoundTrip { cpus: [0, 1], before_ns: ns, after_ns: ns }];
    }
    let expected = Placement { cpus: [0, 1], usual_ns: 390.0, other_ns: Some(80.0), moved: 2, trials: 9 };
    assert_eq!(placements(&trials), [expected]);
    let expected = Placement { other_ns: None, moved: 0, ..expected };
    trials.iter_mut().for_each(|trial| {
        trial.cpu_round_trips[0] = CpuRoundTrip { cpus: [0, 1], before_ns: 390.0, after_ns: 390.0 }
    });
    assert_eq!(placements(&trials), [expected]);
    assert_eq!(placements(&trials[..7]), [], "there are too few");
}

#[test]
fn load_points_have_limits_of_their_own() {
    assert_eq!(marked(&[(0, 0.1), (1, 0.0), (0, 0.1), (1, 0.1), (0, 0.1), (1, 0.0)]), "...x..");
}

/// Marks trials by the steal on the gateway's machine, `d` for direct and `g` for gateways.
fn marked_elsewhere(trials: &[(char, f64)]) -> String {
    let made = |&(who, steal): &(char, f64)| {
        let mut trial = trial(0);
        trial.contender = if who == 'd' { DIRECT } else { "nginx" }.into();
        let usage = Some(HostUsage { steal, ..HostUsage::default() });
        let edge = TrialHost { roles: vec![Role::Gateway], usage, ..TrialHost::default() };
        trial.hosts.insert("edge".into(), edge);
        trial
    };
    let mut trials: Vec<TrialRecord> = trials.iter().map(made).collect();
    mark_disturbed(&mut trials);
    trials.iter().map(|trial| if trial.set_aside.is_some() { 'x' } else { '.' }).collect()
}

#[test]
fn steal_counts_on_the_machines_that_requests_pass() {
    let (direct, via) = (('d', 0.3), ('g', 0.3));
    assert_eq!(marked_elsewhere(&[direct, ('g', 0.0), via, ('g', 0.0), direct]), "..x..");
    // Direct trials, in which nothing runs on the gateway's machine, do not lower the limit of the
    // others.
    assert_eq!(marked_elsewhere(&[('d', 0.0), via, ('d', 0.0), ('d', 0.0), via, ('g', 0.4)]), ".....x");
}

#[test]
fn trials_with_errors_count() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs/delays");
    let run = crate::dir::Run::read(&kept).expect("kept");
    let mut trials: Vec<TrialRecord> =
        run.trials.into_iter().filter(|trial| trial.load == 0 && trial.step.is_none()).take(3).collect();
    trials.iter_mut().for_each(|trial| trial.host.steal = 0.0);
    trials[0].host.steal = 0.5;
    mark_disturbed(&mut trials);
    assert!(trials[0].set_aside.is_some(), "without errors");
    trials[0].load_record.as_mut().expect("measured").counts.timeouts = 1;
    mark_disturbed(&mut trials);
    assert!(trials[0].set_aside.is_none(), "with an error");
}

#[test]
fn failed_trials_are_not_set_aside_and_old_marks_are_removed() {
    let mut trials = vec![trial(0), trial(1), trial(2), trial(3)];
    for trial in &mut trials[2..] {
        trial.host.steal = 0.5;
    }
    trials[3].failed = Some(Failure { stage: Stage::Trial, message: "died".into(), detail: String::new() });
    trials[0].set_aside = Some(Aside::Disturbed);
    mark_disturbed(&mut trials);
    assert_eq!(
        trials.iter().map(|trial| trial.set_aside).collect::<Vec<_>>(),
        [None, None, Some(Aside::Disturbed), None]
    );
}

/// Marks the trials of a process whose trials used this much CPU time per request, in µs. Every second
/// trial belongs to another load point, which takes twice the time.
fn warming(cpu_us: &[u64]) -> String {
    let mut trials = with_cpu_us(cpu_us);
    mark_aside(&mut trials, &AsideRules { until_settled: true, ..TIMED });
    warming_marks(&trials)
}

fn warming_marks(trials: &[TrialRecord]) -> String {
    trials.iter().map(|trial| if trial.set_aside == Some(Aside::Warming) { 'x' } else { '.' }).collect()
}

fn with_cpu_us(cpu_us: &[u64]) -> Vec<TrialRecord> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs/delays");
    let run = crate::dir::Run::read(&kept).expect("kept");
    let measured =
        |trial: &&TrialRecord| trial.failed.is_none() && trial.step.is_none() && trial.gateway.is_some();
    let one = run.trials.iter().find(measured).expect("one with a gateway").clone();
    let made = |(at, us): (usize, &u64)| {
        let mut trial = one.clone();
        trial.load = at as u32 % 2;
        trial.sequence = at as u32;
        let completed = trial.load_record.as_ref().expect("measured").completed_in_time;
        trial.gateway.as_mut().expect("watched").cpu_ns = us * 1000 * completed * (1 + u64::from(trial.load));
        trial.host.steal = 0.0;
        trial
    };
    cpu_us.iter().enumerate().map(made).collect()
}

#[test]
fn a_late_step_sets_the_trials_before_it_aside_unless_none_would_remain() {
    let with_step = |before_trial: u32, cpu_us: &[u64]| {
        let mut trials = with_cpu_us(cpu_us);
        let contender = trials[0].contender.clone();
        let step = LateStep { contender, start: 0, before_trial, faster_by: 1.5 };
        let rules = AsideRules { is_timed: false, until_settled: true, late_steps: vec![step] };
        mark_aside(&mut trials, &rules);
        warming_marks(&trials)
    };
    let (slow, fast) = ([130; 8], [28; 8]);
    assert_eq!(with_step(8, &[slow, fast].concat()), "xxxxxxxx........", "it was in the second look");
    let earlier = with_step(16, &[&slow[..], &[130; 4], &[28; 4], &fast[..4]].concat());
    assert_eq!(earlier, "xxxxxxxxxxxx........", "it was in the trials");
    assert_eq!(with_step(8, &[&slow[..], &[28]].concat()), "x.x.x.x..", "one load point has no other");
    assert_eq!(with_step(8, &slow), "........");
}

#[test]
fn each_process_has_a_warm_up_of_its_own() {
    let of_two = |first: &[u64], second: &[u64]| {
        let mut trials = with_cpu_us(&[first, second].concat());
        trials[first.len()..].iter_mut().for_each(|trial| trial.start = 1);
        trials
    };
    let (slow, fast) = ([90, 91, 90, 92, 91, 90, 91, 90], [50, 51, 49, 50, 52, 51, 50, 49]);
    let mut trials = of_two(&slow, &fast);
    mark_aside(&mut trials, &AsideRules { until_settled: true, ..TIMED });
    assert_eq!(warming_marks(&trials), "................", "the second process is faster");
    let mut trials = of_two(&slow, &[&slow[..4], &fast[..]].concat());
    mark_aside(&mut trials, &AsideRules { until_settled: true, ..TIMED });
    assert_eq!(warming_marks(&trials), "........xxxx........");
    // A look after the first of two processes finds a step.
    let mut trials = of_two(&slow, &slow);
    let contender = trials[0].contender.clone();
    let step = LateStep { contender, start: 0, before_trial: 8, faster_by: 1.5 };
    let rules = AsideRules { is_timed: false, until_settled: true, late_steps: vec![step] };
    mark_aside(&mut trials, &rules);
    assert_eq!(warming_marks(&trials), "xxxxxxxx........");
}

#[test]
fn trials_before_a_fall_of_the_cpu_time_are_set_aside() {
    assert_eq!(warming(&[90, 91, 90, 92, 50, 51, 49, 50, 52, 51, 50, 49]), "xxxx........");
    assert_eq!(warming(&[50, 51, 49, 50, 52, 51, 50, 49, 50, 51, 49, 50]), "............", "nothing falls");
    assert_eq!(warming(&[50, 51, 49, 50, 52, 51, 90, 91, 92, 90, 91, 90]), "............", "it rises");
    assert_eq!(warming(&[53, 47, 55, 50, 45, 52, 48, 51, 46, 54, 50, 47]), "............", "it is noise");
    assert_eq!(warming(&[90, 90, 50, 50]), "....", "there are too few");
}

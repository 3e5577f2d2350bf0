//! Tests of the profiling passes after the rounds.

use super::*;
use hoptax_plan::CpuProfile;

const PASSES: u32 = 3;

/// Two hops, two rounds of trials, and three rounds of passes.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.plan.cpu_profile = Some(CpuProfile { passes: PASSES, duration: Duration::from_secs(1) });
    for (label, pid) in [("hop-l4", 44), ("hop-l7", 77)] {
        scene.script(label).process = Some(Watched { pid, include_root: true });
    }
    scene
}

#[test]
fn passes_follow_the_rounds_and_are_no_trials() {
    let (outcome, run, journal) = scene().play();
    assert_eq!((outcome.measured, run.trials.len()), (8, 8));
    let first = journal.iter().position(|line| line.starts_with("record")).expect("a pass");
    let loads = journal[..first].iter().filter(|line| line.starts_with("load")).count();
    assert_eq!(loads, 8, "{journal:?}");
    for (at, line) in journal.iter().enumerate().filter(|(_, line)| line.starts_with("record")) {
        let port = if line.ends_with("77") { "load 7" } else { "load 4" };
        assert_eq!(journal[at + 1], port, "each pass has the gateway's load: {journal:?}");
    }
    // Threads that wait are recorded in the first and the third round.
    let of = |kind: PassKind, label: &str| {
        let mine = |pass: &&hoptax_record::profile::PassRecord| pass.kind == kind && pass.contender == label;
        run.profiles.iter().filter(mine).map(|pass| pass.round).collect::<Vec<_>>()
    };
    for label in ["hop-l4", "hop-l7"] {
        assert_eq!((of(PassKind::Cpu, label), of(PassKind::Waiting, label)), (vec![0, 1, 2], vec![0, 2]));
    }
    assert!(run.profiles.iter().enumerate().all(|(index, pass)| pass.sequence as usize == index));
    assert!(run.profiles.iter().all(|pass| pass.samples == 3 && pass.failed.is_none()));
}

#[test]
fn a_gateway_without_a_process_is_left_out_after_two_failures_of_each_kind() {
    let mut scene = scene();
    scene.script("hop-l4").process = None;
    let (_, run, _) = scene.play();
    let failed: Vec<_> = run.profiles.iter().filter(|pass| pass.failed.is_some()).collect();
    assert_eq!(failed.len(), 4);
    assert!(failed.iter().all(|pass| pass.contender == "hop-l4"));
    assert_eq!(run.profiles.len() - failed.len(), 5);
}

#[test]
fn a_gateway_is_started_again_if_its_frames_need_it() {
    let mut scene = scene();
    scene.script("hop-l7").facts.profiling.needs_restart = true;
    let (_, _, journal) = scene.play();
    let starts = |label: &str| journal.iter().filter(|line| **line == format!("start {label}")).count();
    assert_eq!((starts("hop-l4"), starts("hop-l7")), (1, 2));
}

#[test]
fn a_warm_up_for_passes_is_not_recorded() {
    let mut scene = scene();
    // Nothing settles within three bursts. Each takes a second.
    scene.plan.until_settled =
        Some(UntilSettled { at_most: Duration::from_secs(3), overload_external: false });
    scene.script("hop-l7").facts.profiling.needs_restart = true;
    let (_, run, journal) = scene.play();
    assert_eq!(journal.iter().filter(|line| *line == "start hop-l7").count(), 2);
    let warm_ups = &run.record.contenders[2].warm_ups;
    assert_eq!(warm_ups.len(), 1, "only that of the trials: {warm_ups:?}");
    assert_eq!((warm_ups[0].before_trial, warm_ups[0].settled), (0, false));
}

#[test]
fn a_death_in_a_pass_fails_the_pass_and_is_no_death_of_a_trial() {
    let mut scene = scene();
    // Checks 1 to 4 are before and after its two trials, 5 and 6 before and after its first pass.
    scene.script("hop-l7").dies_at_check = Some(6);
    let (outcome, run, _) = scene.play();
    assert_eq!(outcome.measured, 8);
    assert_eq!(run.record.contenders[2].deaths, []);
    let failed: Vec<_> = run.profiles.iter().filter_map(|pass| pass.failed.as_ref()).collect();
    assert!(!failed.is_empty() && failed[0].message.contains("exited"), "{failed:?}");
}

#[test]
fn without_profiles_in_the_plan_nothing_is_recorded() {
    let (_, run, journal) = Scene::new().play();
    assert!(run.profiles.is_empty() && !journal.iter().any(|line| line.starts_with("record")));
}

#[test]
fn a_signal_in_the_rounds_leaves_out_all_passes() {
    let mut scene = scene();
    scene.traffic.interrupt_at_load = Some(3);
    let (_, run, _) = scene.play();
    assert!(run.profiles.is_empty());
}

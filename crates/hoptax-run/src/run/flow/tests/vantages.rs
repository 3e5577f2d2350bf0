//! Tests of loads that come from several hosts.

use super::*;
use hoptax_plan::CpuProfile;

/// Two load points that differ only in the host that sends them.
fn scene() -> Scene {
    let mut scene = Scene::new();
    let edge = hoptax_plan::LoadPoint { from: Some("edge".into()), ..scene.plan.load[0].clone() };
    scene.plan.load.push(edge);
    scene
}

#[test]
fn each_trial_comes_from_the_host_of_its_load_point_in_the_same_rounds() {
    let mut scene = scene();
    let (outcome, run, _) = scene.play();
    // Two rounds of two load points with direct twice and two hops.
    assert_eq!((outcome.measured, scene.traffic.origins.len()), (16, 16));
    for (trial, origin) in run.trials.iter().zip(&scene.traffic.origins) {
        assert_eq!(run.record.load[trial.load as usize].from, *origin, "{trial:?}");
    }
    for round in 0..2 {
        let of = |load| run.trials.iter().filter(|one| (one.round, one.load) == (round, load)).count();
        assert_eq!((of(0), of(1)), (4, 4));
    }
}

/// A burst has the connections of one load point, and comes from the host of this load point.
#[test]
fn warm_ups_and_profiles_come_from_the_host_of_their_load_point() {
    let mut scene = scene();
    scene.plan.load[1].connections = 9;
    scene.plan.until_settled =
        Some(UntilSettled { at_most: Duration::from_millis(1), overload_external: false });
    scene.plan.cpu_profile = Some(CpuProfile { passes: 1, duration: Duration::from_secs(1) });
    scene.script("hop-l7").process = Some(Watched { pid: 77, include_root: true });
    let (_, run, _) = scene.play();
    let origins = &scene.traffic.origins;
    let before =
        origins.len() - run.trials.len() - run.profiles.iter().filter(|one| one.failed.is_none()).count();
    assert!(before >= 3, "the upstream and both hops are warmed up: {origins:?}");
    assert!(origins[..before].iter().all(|origin| origin.as_deref() == Some("edge")), "{origins:?}");
    let passes = &origins[before + run.trials.len()..];
    let expected: Vec<Option<String>> = run
        .profiles
        .iter()
        .filter(|pass| pass.failed.is_none())
        .map(|pass| run.record.load[pass.load as usize].from.clone())
        .collect();
    assert_eq!(passes, expected);
    assert!(passes.contains(&None) && passes.contains(&Some("edge".into())), "{passes:?}");
}

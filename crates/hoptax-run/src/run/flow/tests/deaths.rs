//! Tests of runs in which a gateway or the upstream dies.

use super::*;

#[test]
fn a_gateway_that_dies_once_loses_one_trial_and_is_started_again() {
    let mut scene = Scene::new();
    // Check 1 is before its first trial, check 2 after it. The next process is checked once, after the last
    // trial.
    scene.script("hop-l7").dies_at_check = Some(2);
    let (outcome, run, journal) = scene.play();
    assert_eq!(outcome.measured, 7);
    let mut trials = run.trials.iter().filter(|trial| trial.contender == "hop-l7");
    let (first, second) = (trials.next().expect("round 0"), trials.next().expect("round 1"));
    assert!(first.load_record.is_some(), "what was measured is kept");
    assert_eq!(first.failed.as_ref().map(|failure| failure.stage), Some(Stage::Trial));
    assert!(second.failed.is_none(), "it was started again");
    assert_eq!(journal.iter().filter(|line| *line == "start hop-l7").count(), 2);
    let deaths = &run.record.contenders[2].deaths;
    assert_eq!(
        (deaths[0].during, deaths[0].trial, deaths[0].load),
        (DeathDuring::Trial, first.sequence, Some(0))
    );
    assert_eq!((deaths.len(), deaths[0].started_again), (1, Some(second.sequence)));
}

/// Plays a run of four rounds with two load points, of 1 and of 50 connections. The larger one kills hop-l7.
fn with_a_deadly_case(scene: &mut Scene) -> (Outcome, ReadRun, Vec<String>) {
    let killed = Rc::clone(&scene.script("hop-l7").killed);
    scene.traffic.kills = Some((HOP_L7, 50, killed));
    scene.plan.load.push(hoptax_plan::LoadPoint::closed(50, Duration::from_secs(1)));
    scene.plan.trials = hoptax_plan::Trials::Fixed(4);
    scene.play()
}

/// Number of good trials of a contender at each of the two load points.
fn good(run: &ReadRun, contender: &str) -> [usize; 2] {
    [0, 1].map(|load| {
        let of = run.trials.iter().filter(|trial| trial.contender == contender && trial.load == load);
        of.filter(|trial| trial.failed.is_none()).count()
    })
}

#[test]
fn a_case_that_kills_its_gateway_twice_is_left_out_and_the_others_are_measured() {
    let (_, run, journal) = with_a_deadly_case(&mut Scene::new());
    assert_eq!((good(&run, "hop-l7"), good(&run, "hop-l4"), good(&run, DIRECT)), ([4, 0], [4, 4], [8, 8]));
    let deadly: Vec<_> =
        run.trials.iter().filter(|trial| trial.contender == "hop-l7" && trial.load == 1).collect();
    let loaded: Vec<bool> = deadly.iter().map(|trial| trial.load_record.is_some()).collect();
    assert_eq!(loaded, [true, true, false, false], "the rest gets no load");
    assert!(
        deadly.iter().all(|trial| trial.failed.as_ref().is_some_and(|why| why.message.contains("exited")))
    );
    assert_eq!(run.record.contenders[2].deaths.len(), 2);
    assert_eq!(journal.iter().filter(|line| *line == "start hop-l7").count(), 3);
}

#[test]
fn a_gateway_that_cannot_be_started_again_three_times_stays_failed() {
    let mut scene = Scene::new();
    scene.script("hop-l7").starts = Some(1);
    let (_, run, journal) = with_a_deadly_case(&mut scene);
    assert!(good(&run, "hop-l7")[0] <= 1, "at most the trial before it died");
    let starts = journal.iter().filter(|line| *line == "start hop-l7").count();
    assert_eq!(starts, 1 + 3, "three attempts in a row");
    let last = run.trials.iter().rfind(|trial| trial.contender == "hop-l7").expect("it has its turns");
    assert_eq!(last.failed.as_ref().map(|failure| failure.message.as_str()), Some("not again"));
}

#[test]
fn a_gateway_that_dies_between_its_trials_loses_none() {
    let mut scene = Scene::new();
    // Check 3 is before its second trial.
    scene.script("hop-l7").dies_at_check = Some(3);
    let (outcome, run, _) = scene.play();
    assert_eq!(outcome.measured, 8);
    let deaths = &run.record.contenders[2].deaths;
    assert_eq!(
        deaths.iter().map(|death| (death.during, death.load)).collect::<Vec<_>>(),
        [(DeathDuring::Pause, None)]
    );
}

#[test]
fn a_gateway_that_dies_while_it_is_warmed_up_gets_less_load_next_time() {
    let mut scene = Scene::new();
    scene.plan.until_settled =
        Some(UntilSettled { at_most: Duration::from_millis(1), overload_external: false });
    let (_, run, _) = with_a_deadly_case(&mut scene);
    assert_eq!((good(&run, "hop-l7"), good(&run, "hop-l4")), ([4, 0], [4, 4]));
    let deaths = &run.record.contenders[2].deaths;
    let in_warm_ups: Vec<_> = deaths.iter().filter(|death| death.during == DeathDuring::WarmUp).collect();
    assert_eq!(in_warm_ups.len(), 2, "at the highest load, and at the load of the load point: {deaths:?}");
    assert_eq!(deaths.len(), 4);
}

#[test]
fn the_death_of_a_service_is_reported_as_the_cause_of_a_failed_trial() {
    let mut scene = Scene::new();
    scene.traffic.nothing_completes = true;
    scene.script("hop-l7").dies_at_check = Some(2);
    let (_, run, _) = scene.play();
    let of = |contender: &str| {
        let trial = run.trials.iter().find(|trial| trial.contender == contender).expect("it had its turn");
        trial.failed.clone().expect("failed")
    };
    let dead = of("hop-l7");
    assert!(dead.message.contains("hop-l7 exited with code 1"), "{dead:?}");
    for text in [&dead.detail, &of("hop-l4").message] {
        assert!(text.starts_with("none of 100 "), "{text}");
    }
    assert!(dead.detail.ends_with("its last log line"), "{dead:?}");

    let mut scene = Scene::new();
    scene.traffic.nothing_completes = true;
    scene.driver.upstream.dies_at_check = Some(1);
    let (_, run, _) = scene.play();
    let why = run.trials[0].failed.as_ref().expect("failed");
    assert!(why.message.starts_with("upstream exited"), "{why:?}");
}

#[test]
fn a_run_ends_when_its_upstream_dies() {
    let (outcome, run, journal) = played(|scene| scene.driver.upstream.dies_at_check = Some(3));
    assert_eq!(run.trials.len(), 3);
    let why = outcome.ended.failed.expect("it says why");
    assert!(why.message.contains("upstream exited"), "{why:?}");
    assert_eq!(journal.iter().filter(|line| line.starts_with("stop")).count(), 3, "everything was stopped");
}

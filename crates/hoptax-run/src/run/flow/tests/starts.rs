//! Tests of a run that measures starts.

use super::*;
use hoptax_format::spec::Shape;
use hoptax_record::start::{FIRST_REQUESTS, START_WINDOW_NS, StartKind, StartTraffic};

const TIMES: u32 = 4;

/// Two hops and four rounds; `hop-l7` can reload. Nothing fails.
fn scene() -> Scene {
    let mut scene = Scene::new();
    let start = Start { times: TIMES, duration: Duration::from_secs(1), reload: true };
    (scene.plan.start, scene.plan.trials) = (Some(start), hoptax_plan::Trials::Fixed(TIMES));
    scene.script("hop-l7").can_reload = true;
    scene
}

fn of<'a>(run: &'a ReadRun, contender: &str) -> Vec<&'a StartRecord> {
    run.starts.iter().filter(|start| start.contender == contender).collect()
}

#[test]
fn every_round_has_every_kind_of_start_once() {
    let (outcome, run, journal) = scene().play();
    let verified = ["start upstream", "start hop-l4", "verify 4", "stop hop-l4", "start hop-l7", "verify 7"];
    assert_eq!(journal[..6], verified, "a gateway is stopped after it was verified");
    assert_eq!((outcome.measured, run.starts.len(), run.trials.len()), (TIMES as usize * 8, 32, 0));
    assert!(run.starts.iter().enumerate().all(|(index, start)| start.sequence as usize == index));
    for round in 0..TIMES {
        let kinds = |contender| {
            let mut kinds: Vec<_> = of(&run, contender)
                .iter()
                .filter(|start| start.round == round)
                .map(|start| (start.kind, start.traffic))
                .collect();
            kinds.sort_unstable();
            kinds
        };
        let both = |kind| [(kind, StartTraffic::OneByOne), (kind, StartTraffic::Load)];
        assert_eq!(kinds(DIRECT), both(StartKind::Direct));
        assert_eq!(kinds("hop-l4"), both(StartKind::Start));
        assert_eq!(kinds("hop-l7"), [both(StartKind::Start), both(StartKind::Reload)].concat());
    }
    let ended = run.record.ended.expect("it ended");
    assert!(!ended.interrupted && ended.failed.is_none(), "{ended:?}");
    assert_eq!((run.record.trials_planned, run.record.contenders[2].failed.as_ref()), (32, None));
}

#[test]
fn a_gateway_runs_only_in_its_turns() {
    let (_, _, journal) = scene().play();
    let turns: Vec<&str> = journal[7..].iter().map(String::as_str).collect();
    for (at, line) in turns.iter().enumerate().filter(|(_, line)| **line == "start hop-l7") {
        let first = turns[at + 1];
        let rest = &turns[at + 2..];
        if first == "first 7 × 1000" {
            assert_eq!(rest[..2], ["first 7 × 1000", "stop hop-l7"], "{line} at {at}: {turns:?}");
        } else {
            let expected = ["load 7", "first 7 × 1", "load 7", "stop hop-l7"];
            assert_eq!((first, &rest[..4]), ("first 7 × 1", &expected[..]), "{line} at {at}");
        }
    }
}

#[test]
fn times_of_a_start_begin_with_its_process() {
    let (_, run, _) = scene().play();
    for start in &run.starts {
        let answered = match start.traffic {
            StartTraffic::OneByOne => FIRST_REQUESTS,
            StartTraffic::Load => 0,
        };
        assert_eq!(start.response_times_ns.len(), answered);
        assert_eq!(start.load.is_some(), start.traffic == StartTraffic::Load);
        let times = (start.began_ns, start.listening_ns, start.ready_ns);
        assert_eq!(start.wrong_answers, 2);
        match start.kind {
            StartKind::Start => assert_eq!(times, (FAKE_BEGAN_NS, Some(1_000), Some(3_000))),
            StartKind::Reload => assert_eq!(times, (FAKE_BEGAN_NS, None, Some(3_000))),
            StartKind::Direct => assert_eq!(times, (FAKE_BEGAN_NS + 500, None, Some(2_500))),
        }
    }
}

#[test]
fn a_gateway_is_left_out_after_three_failures_in_a_row() {
    let mut scene = scene();
    scene.traffic.never_ready = Some(HOP_L4);
    let (outcome, run, _) = scene.play();
    let failed = of(&run, "hop-l4");
    assert_eq!(failed.len(), 3, "it was tried again twice");
    let why = failed[0].failed.as_ref().expect("it says why");
    assert_eq!(why.stage, Stage::Start);
    let last = why.message.clone();
    let why = run.record.contenders[1].failed.as_ref().expect("noted");
    assert!(why.message.starts_with("3 starts") && why.message.contains(&last), "{why:?}");
    assert_eq!(outcome.measured, TIMES as usize * 6, "the others are measured");
}

#[test]
fn a_gateway_that_dies_under_load_says_so() {
    let mut scene = scene();
    // One check in each turn comes after its traffic.
    scene.script("hop-l4").dies_at_check = Some(1);
    let (_, run, _) = scene.play();
    let why = of(&run, "hop-l4")[0].failed.as_ref().expect("failed");
    assert!(why.message.contains("hop-l4 exited with code 1"), "{why:?}");
    assert_eq!(why.stage, Stage::Start);
}

#[test]
fn a_gateway_that_fails_verification_is_not_started_again() {
    let mut scene = scene();
    scene.traffic.answers_wrong = Some(HOP_L7);
    let (outcome, run, _) = scene.play();
    assert!(of(&run, "hop-l7").is_empty());
    assert_eq!(outcome.measured, TIMES as usize * 4);
    assert_eq!(run.record.contenders[2].failed.as_ref().map(|failure| failure.stage), Some(Stage::Verify));
}

#[test]
fn a_signal_keeps_the_starts_before_it() {
    let mut scene = scene();
    scene.traffic.interrupt_at_load = Some(3);
    let (outcome, run, journal) = scene.play();
    assert!(outcome.ended.interrupted && outcome.ended.failed.is_none());
    let loads = run.starts.iter().filter(|start| start.traffic == StartTraffic::Load).count();
    assert_eq!(loads, 2, "the load that the signal ended is left out");
    assert_eq!(journal.last().map(String::as_str), Some("stop upstream"));
}

#[test]
fn a_run_of_starts_ends_when_its_upstream_dies() {
    let mut scene = scene();
    scene.driver.upstream.dies_at_check = Some(2);
    let (outcome, run, _) = scene.play();
    assert!(outcome.ended.failed.is_some_and(|why| why.message.contains("upstream exited")));
    assert!((2..=4).contains(&run.starts.len()), "{}", run.starts.len());
}

#[test]
fn progress_names_the_round_and_the_gateway() {
    let scene = &mut scene();
    let interrupted = AtomicBool::new(false);
    let run = Scene::run(&scene.plan, &interrupted);
    let mut dir = RunDir::create(scene.out.path(), "scene").expect("a run directory");
    let mut log = LogProgress::default();
    run.run(&mut dir, &mut scene.driver, &mut scene.traffic, &mut log).expect("the disk works");
    assert_eq!(log.0[0], "begun 24", "only packs are expected to reload");
    for line in ["round 3 of 4: starting hop-l4", "round 4 of 4: reloading hop-l7", "started 31"] {
        assert!(log.0.iter().any(|logged| logged == line), "{line}: {:?}", log.0);
    }
}

#[test]
fn the_load_has_short_windows_and_the_same_arrivals_for_all() {
    let mut scene = scene();
    let interrupted = AtomicBool::new(false);
    scene.plan.load[0].shape = Shape::Open {
        rate: hoptax_format::spec::Rate::Fixed(100.0),
        arrivals: hoptax_format::spec::Arrivals::Poisson,
    };
    let run = Scene::run(&scene.plan, &interrupted);
    let slot = Slot {
        round: 3,
        load: 0,
        contender: Contender::Direct(hoptax_record::DirectTrial::First),
        step: None,
    };
    let seed = |port| load_spec(&run, &slot, vec![SocketAddr::from(([127, 0, 0, 1], port))]).seed;
    assert_eq!(seed(HOP_L4), seed(HOP_L7));
    scene.play();
    assert!(scene.traffic.windows_ns.iter().all(|ns| *ns == Some(START_WINDOW_NS)));
}

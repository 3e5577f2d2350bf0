use super::*;
use crate::schedule::Contender;
use hoptax_analysis::Severity;
use hoptax_analysis::fixture::{Run, failure, via};
use hoptax_host::probe::RecentTree;
use hoptax_lab::fake::parsed as plan;
use hoptax_record::{DirectTrial, Stage as At};

const S: u64 = SECOND;

const TWO_ROUNDS: &str = "name: two\ngateways: [hop-l4]\nload: [{ loop: closed, connections: 4, duration: \
    10s }, { loop: open, rate: 500/s, connections: 4, duration: 5s }]\ntrials: 2\n";

fn slot(round: u32, load: usize) -> Slot {
    Slot { round, load, contender: Contender::Direct(DirectTrial::First), step: None }
}

fn phase(phase: Phase) -> TrialUpdate {
    TrialUpdate::Phase(PhaseLine { phase, at_ns: 0 })
}

fn line(second: u64, length_ns: u64) -> TrialUpdate {
    let (p50_ns, p99_ns) = (Some(200_000), Some(900_000));
    TrialUpdate::Second(SecondLine {
        second,
        length_ns,
        sent: 101,
        completed: 100,
        ok: 98,
        failed: 3,
        p50_ns,
        p99_ns,
        response_time: None,
    })
}

#[test]
fn a_trial_is_shown_from_its_start_to_its_end() {
    let mut live = LiveState::new("2026-two", &plan(TWO_ROUNDS));
    assert_eq!((live.state().stage, live.state().name.as_str()), (Stage::Preparing, "two"));
    live.begun(12, Duration::from_secs(100), 5 * S);
    live.preparing("verifying hop-l4 against direct");
    assert_eq!(live.state().doing, "verifying hop-l4 against direct");
    live.trial(0, &slot(0, 1), "direct", 7 * S);
    let state = live.state().clone();
    assert_eq!((state.stage, state.round.as_str(), state.doing.as_str()), (Stage::Measuring, "1/2", ""));
    assert_eq!((state.elapsed_s, state.left_s, state.trials_planned), (2.0, 98.0, 12));
    let trial = state.trial.expect("it began");
    assert_eq!(
        (trial.number, trial.phase, trial.duration_s, trial.due),
        (1, TrialPhase::Starting, 5.0, Some(500.0))
    );
    assert_eq!(trial.load, "open loop, 500/s, constant, 4 connections");

    for (update, at, phase, elapsed, shown) in [
        (phase(Phase::Connecting), 8, TrialPhase::Connecting, 0.0, 0),
        (phase(Phase::Warmup), 9, TrialPhase::Warmup, 0.0, 0),
        (phase(Phase::Measuring), 10, TrialPhase::Measuring, 0.0, 0),
        (line(0, S), 11, TrialPhase::Measuring, 1.0, 1),
        (line(1, S / 2), 12, TrialPhase::Measuring, 2.0, 2),
        (phase(Phase::Draining), 16, TrialPhase::Draining, 5.0, 2),
        (TrialUpdate::Used(Used::default()), 20, TrialPhase::Draining, 5.0, 2),
    ] {
        live.update(&update, at * S);
        let trial = live.state().trial.as_ref().expect("a current trial");
        assert_eq!(
            (trial.phase, trial.elapsed_s, trial.seconds.len()),
            (phase, elapsed, shown),
            "{update:?}"
        );
    }
    let seconds = &live.state().trial.as_ref().expect("a current trial").seconds;
    assert_eq!(seconds[0], Second { rate: 100.0, failed: 3.0, p50_us: Some(200.0), p99_us: Some(900.0) });
    assert_eq!((seconds[1].rate, seconds[1].failed), (200.0, 6.0), "per second, from half a second");
    live.pausing();
    assert_eq!(live.state().stage, Stage::Pausing);
    live.ended(30 * S);
    live.tick(99 * S);
    assert_eq!((live.state().stage, live.state().elapsed_s, live.state().left_s), (Stage::Ended, 25.0, 0.0));
}

#[test]
fn short_trials_show_the_rounds_of_their_load_point() {
    let text = TWO_ROUNDS.replace("duration: 5s", "duration: 300ms");
    let mut live = LiveState::new("2026-two", &plan(&text));
    live.begun(12, Duration::from_secs(100), 0);
    for round in 0..2 {
        live.trial(0, &slot(round, 1), "direct", S);
        live.recorded(&via("direct", round).at_load(1).first().all_at_us(100 + u64::from(round)).0, 2 * S);
        live.trial(1, &slot(round, 1), "hop-l4", S);
        assert!(live.state().trial.as_ref().is_some_and(|trial| trial.by_round));
        assert_eq!(live.state().course().len(), round as usize, "before its own trial of this round");
        live.recorded(&via("hop-l4", round).at_load(1).all_at_us(150).status(500, 100).0, 2 * S);
    }
    let state = live.state();
    let seen: Vec<_> = state.rounds.iter().map(|one| (one.gateway.as_str(), one.round)).collect();
    assert_eq!(seen, [("direct", 1), ("hop-l4", 1), ("direct", 2), ("hop-l4", 2)]);
    let last = state.course().pop().expect("two trials");
    assert!(last.rate > 0.0 && last.failed > 0.0, "{last:?}");
    assert!(last.p50_us.is_some_and(|p50| (p50 - 150.0).abs() < 1.0), "{last:?}");
    live.trial(2, &slot(1, 0), "direct", 3 * S);
    assert!(live.state().rounds.is_empty(), "ten seconds are long enough for figures by second");
}

#[test]
fn roles_are_those_of_the_current_trial() {
    let mut live = LiveState::new("r", &plan(TWO_ROUNDS));
    let tree = |cpus| Some(RecentTree { cpus, rss_bytes: 5 << 20 });
    let used = Used { generator: tree(0.5), gateway: tree(0.25), upstream: None, steal: 0.125 };
    live.trial(0, &slot(0, 0), "hop-l4", 0);
    live.update(&TrialUpdate::Used(used), S);
    let roles: Vec<_> = live.state().cpu.iter().map(|role| (role.role.as_str(), role.cpus)).collect();
    assert_eq!((roles, live.state().steal), (vec![("generator", 0.5), ("gateway", 0.25)], Some(0.125)));
    live.trial(1, &slot(0, 0), "direct", 2 * S);
    assert_eq!((live.state().cpu.len(), live.state().steal), (0, None));
}

#[test]
fn time_left_is_the_estimate_first_and_then_the_pace() {
    let mut live = LiveState::new("r", &plan(TWO_ROUNDS));
    live.begun(4, Duration::from_secs(100), 0);
    let run = Run::steady(1, 100, &[("hop-l4", 150)]);
    // Each trial takes 40 s instead of 25 s.
    for (at, done, left) in [
        (0, 0, 100.0),
        (39, 0, 61.0),
        (40, 1, 60.0),
        (80, 2, 80.0),
        (100, 2, 60.0),
        (120, 3, 40.0),
        (300, 3, 0.0),
    ] {
        if live.state().trials_done < done {
            live.recorded(&run.trials[0], at * S);
        }
        live.tick(at * S);
        assert_eq!(live.state().left_s, left, "after {at} s");
    }
    live.planned(6);
    live.tick(300 * S);
    assert_eq!(live.state().trials_planned, 6);
    assert!(!live.state().open_ended);
}

#[test]
fn time_left_contains_the_warm_ups_of_restarts() {
    let mut live = LiveState::new("r", &plan(TWO_ROUNDS));
    live.begun(4, Duration::from_secs(100), 0);
    live.extended(Duration::from_secs(60), 20 * S);
    assert_eq!(live.state().left_s, 140.0);
}

#[test]
fn time_left_of_slow_starts_is_their_pace_from_a_tenth_on() {
    let starts = plan("gateways: [hop-l4]\nstart: { times: 5, for: 1s }\n");
    // 20 starts are expected to take 5 s each.
    for (each_s, at, left) in [
        // They take 40 s each. The first is less than a tenth of them.
        (40, 40, 60.0),
        (40, 80, 720.0),
        (40, 100, 700.0),
        (40, 400, 400.0),
        // They take 2 s each. The estimate counts until half of them have ended.
        (2, 4, 96.0),
        (2, 18, 82.0),
        (2, 20, 20.0),
    ] {
        let mut live = LiveState::new("r", &starts);
        live.begun(20, Duration::from_secs(100), 0);
        for number in 1..=at / each_s {
            live.started(number * each_s * S);
        }
        live.tick(at * S);
        assert_eq!(live.state().left_s, left, "{each_s} s each, after {at} s");
    }
}

#[test]
fn the_range_of_rounds_is_shown_with_trials_auto() {
    let auto = plan(&TWO_ROUNDS.replace("trials: 2", "trials: { least: 5, most: 30 }"));
    let mut live = LiveState::new("r", &auto);
    live.trial(0, &slot(1, 0), "direct", 0);
    assert_eq!((live.state().round.as_str(), live.state().open_ended), ("2 of 5 to 30", true));
}

#[test]
fn a_step_of_a_search_shows_its_rate_and_duration() {
    let text = "gateways: []\nload: [{ loop: open, connections: 2, duration: 3s, search: { from: 100/s, to: \
        900/s } }]\n";
    let mut live = LiveState::new("r", &plan(text));
    for (purpose, rate, label, duration) in [
        (StepPurpose::Search, 728.8, "searching at 729/s, step 7: search, 100/s to 900/s", 3.0),
        (StepPurpose::Confirm, 99.125, "confirming at 99.12/s, step 7: search, 100/s to 900/s", 6.0),
    ] {
        let step = Some(SearchStep { number: 6, rate, purpose });
        live.trial(3, &Slot { step, ..slot(0, 0) }, "direct", 0);
        let trial = live.state().trial.as_ref().expect("it began");
        assert!(trial.load.starts_with(label), "{}", trial.load);
        assert_eq!((trial.duration_s, trial.due), (duration, Some(rate)));
    }
}

#[test]
fn the_rate_due_follows_the_stages() {
    let text = "gateways: []\nload: [{ loop: open, connections: 2, rate: [ramp to 100/s over 10s] }]\n";
    let mut live = LiveState::new("r", &plan(text));
    live.trial(0, &slot(0, 0), "direct", 0);
    live.update(&phase(Phase::Measuring), S);
    live.tick(6 * S);
    let due = live.state().trial.as_ref().and_then(|trial| trial.due);
    assert!(due.is_some_and(|due| (due - 50.0).abs() < 1e-9), "{due:?}");
}

#[test]
fn failures_and_findings_are_reported_as_new_only_once() {
    let mut live = LiveState::new("r", &plan(TWO_ROUNDS));
    let run = Run::steady(2, 100, &[("hop-l4", 150)]);
    run.trials.iter().for_each(|trial| live.recorded(trial, S));
    let cases: Vec<_> = live.state().cases.iter().map(|case| (case.gateway.as_str(), case.trials)).collect();
    assert_eq!((cases, live.state().trials_done), (vec![("direct", 4), ("hop-l4", 2)], 6));
    assert_eq!(live.state().cases[0].load, "closed loop, 4 connections");

    let known = |live: &LiveState| {
        live.state().cases.iter().map(|case| case.added_p50_half_width_us).collect::<Vec<_>>()
    };
    live.known_within(vec![HalfWidth { load: 0, gateway: "hop-l4".into(), us: 6.1 }]);
    assert_eq!(known(&live), [None, Some(6.1)]);
    live.recorded(&via("hop-l4", 2).all_at_us(150).0, S);
    assert_eq!(known(&live), [None, Some(6.1)], "it remains until the next analysis");

    let died = failure(At::Trial, "it died");
    assert!(live.failed("hop-l4", &died) && !live.failed("hop-l4", &died) && live.failed("upstream", &died));
    assert_eq!(live.state().failures.len(), 2);

    let mut noisy = Run::closed(4);
    noisy.contender("nginx", None);
    noisy.push(via("direct", 0).first().all_at_us(100)).push(via("nginx", 0).all_at_us(150).errors(40));
    let findings = noisy.analyse().findings;
    let new = live.found(&findings);
    assert_eq!(new.len(), findings.len());
    assert_eq!(live.found(&findings[1..]), []);
    assert_eq!(live.found(&findings).len(), 1, "a finding that had disappeared is new again");
    assert!(live.state().findings.iter().all(|finding| finding.severity <= Severity::Note));
}

#[test]
fn updates_without_a_known_trial_are_ignored() {
    let mut live = LiveState::new("r", &plan(TWO_ROUNDS));
    live.update(&phase(Phase::Measuring), S);
    live.update(&line(0, 0), S);
    live.recorded(&via("nobody", 0).at_load(7).all_at_us(100).0, S);
    assert_eq!((live.state().trial.as_ref(), live.state().cases.len()), (None, 0));
}

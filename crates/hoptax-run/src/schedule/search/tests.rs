//! Tests of all searches of a plan, against simulated contenders.

use super::*;
use crate::schedule;
use hoptax_analysis::Limit;
use hoptax_analysis::fixture::{Run, via};
use hoptax_record::{DIRECT, Failure, Stage, StepPurpose};

fn plan(rest: &str) -> Plan {
    hoptax_lab::fake::parsed(&format!(
        "gateways: [hop-l4, hop-l7]\nload:\n  - {{ loop: open, connections: 8, duration: 1s, search: {{ \
         slo: \"p99 < 10ms\", from: 200/s, to: 20000/s }} }}\n{rest}"
    ))
}

/// Record of a trial. At rates up to its capacity, the contender answers in 1 ms. At higher rates, it answers
/// in 50 ms.
fn answer(slot: &Slot, capacity: [f64; 3]) -> TrialRecord {
    let who = match slot.contender {
        Contender::Direct(_) => 0,
        Contender::Gateway(index) => index + 1,
    };
    let label = [DIRECT, "hop-l4", "hop-l7"][who];
    let rate = slot.step.map_or(0.0, |step| step.rate);
    let mut record = via(label, slot.round).all_at_us(if rate <= capacity[who] { 1000 } else { 50_000 }).0;
    (record.step, record.load) = (slot.step, slot.load as u32);
    record
}

/// Runs the whole schedule. Returns the slots with their records.
fn play(plan: &Plan, mut answer: impl FnMut(&Slot) -> TrialRecord) -> Vec<(Slot, TrialRecord)> {
    let mut director = schedule::director(plan, 7);
    let mut played: Vec<(Slot, TrialRecord)> = Vec::new();
    while let Some(slot) = director.next(played.last().map(|(_, record)| record)) {
        assert!(director.planned() >= played.len(), "{} planned after {}", director.planned(), played.len());
        let record = answer(&slot);
        played.push((slot, record));
    }
    assert_eq!(director.planned(), played.len(), "all planned trials were measured");
    played
}

/// A run with these trials of the whole schedule.
fn run(plan: &Plan, answer: impl FnMut(&Slot) -> TrialRecord) -> Run {
    let mut run = Run::with_load(plan.load.clone());
    run.contender("hop-l4", None).contender("hop-l7", None);
    run.trials = play(plan, answer).into_iter().map(|(_, record)| record).collect();
    run
}

#[test]
fn contenders_take_turns() {
    let plan = plan("");
    let played = play(&plan, |slot| answer(slot, [9000.0, 5000.0, 1200.0]));
    assert!(played.iter().all(|(slot, _)| slot.step.is_some()));
    let turns = played.chunk_by(|one, other| one.0.round == other.0.round);
    for turn in turns {
        let mut who: Vec<Contender> = turn.iter().map(|(slot, _)| slot.contender).collect();
        who.sort();
        who.dedup();
        assert_eq!(who.len(), turn.len(), "one step per contender in each turn");
    }
    let orders: std::collections::BTreeSet<Vec<Contender>> =
        played.chunks(3).take(4).map(|turn| turn.iter().map(|(slot, _)| slot.contender).collect()).collect();
    assert!(orders.len() > 1, "each turn has its own order");
    let confirmed =
        played.iter().filter(|(slot, _)| slot.step.expect("a step").purpose == StepPurpose::Confirm);
    assert!(confirmed.count() >= 6);
}

#[test]
fn reports_each_capacity_with_its_limit() {
    let capacity = [9000.0, 5000.0, 9000.0];
    let found = run(&plan(""), |slot| answer(slot, capacity)).analyse().capacity;
    assert_eq!(found.len(), 3);
    for (one, (label, capacity)) in found.iter().zip([DIRECT, "hop-l4", "hop-l7"].into_iter().zip(capacity)) {
        assert_eq!(one.gateway, label);
        let rate = one.rate.expect("found");
        assert!((rate.estimate / capacity).ln().abs() < 0.06, "{rate:?} for {capacity}");
        assert!(rate.low < Some(capacity * 1.01) && rate.high > Some(capacity * 0.99), "{rate:?}");
        assert_eq!(one.broken, ["p99"]);
        assert_eq!(one.confirmed.expect("two longer trials").held, 2);
        assert_eq!(one.steps.len(), one.rate.expect("found").trials as usize);
    }
    assert_eq!((found[0].limited_by, found[0].at_least), (Some(Limit::Upstream), false));
    assert_eq!((found[1].limited_by, found[1].at_least), (Some(Limit::Gateway), false));
    assert_eq!((found[2].limited_by, found[2].at_least), (Some(Limit::Upstream), true));
    let ratio = found[1].of_direct.expect("both are bounded");
    assert!((ratio.estimate - 5.0 / 9.0).abs() < 0.04 && !ratio.excludes(5.0 / 9.0), "{ratio:?}");
}

#[test]
fn a_saturated_generator_is_reported_as_the_limit() {
    let busy = |slot: &Slot| {
        let mut record = answer(slot, [5000.0; 3]);
        let load = record.load_record.as_mut().expect("made with one");
        load.cpu.busiest_worker_ns = load.measured_ns / 100 * 97;
        record
    };
    for one in run(&plan(""), busy).analyse().capacity {
        assert_eq!((one.limited_by, one.at_least), (Some(Limit::Generator), true), "{}", one.gateway);
    }
}

#[test]
fn capacities_outside_the_range_are_reported() {
    let found = run(&plan(""), |slot| answer(slot, [1e6, 1e6, 100.0])).analyse().capacity;
    for one in &found[..2] {
        let rate = one.rate.expect("it held everything");
        assert_eq!((rate.estimate, rate.high), (20_000.0, None));
        assert_eq!((one.limited_by, one.at_least), (Some(Limit::Range), true));
    }
    assert_eq!((found[2].rate, found[2].below), (None, Some(200.0)));
    assert_eq!(found[2].limited_by, Some(Limit::Gateway));
}

#[test]
fn a_gateway_that_dies_ends_its_search_and_the_others_continue() {
    let mut trials = 0;
    let run = run(&plan(""), |slot| {
        let mut record = answer(slot, [5000.0; 3]);
        if slot.contender == Contender::Gateway(0) {
            trials += 1;
            if trials > 3 {
                record.failed = Some(Failure::new(Stage::Trial, "hop-l4 died"));
                record.load_record = None;
            }
        }
        record
    });
    assert_eq!(trials, 5, "two trials without a result end the search");
    let found = run.analyse().capacity;
    assert_eq!(found[1].failed.as_ref().expect("it says why").message, "hop-l4 died");
    assert_eq!(found[1].rate.expect("of three trials").trials, 3, "its earlier result is kept");
    assert!(found[2].failed.is_none() && found[2].confirmed.is_some());
}

#[test]
fn rounds_come_first_and_skip_load_points_with_a_search() {
    let mut plan = plan("trials: 2\n");
    let closed = LoadPoint::closed(1, Duration::from_secs(1));
    plan.load.insert(0, closed.clone());
    plan.load.push(closed);
    let played = play(&plan, |slot| answer(slot, [9000.0, 5000.0, 1200.0]));
    let in_rounds = 2 * 2 * 4;
    assert!(played[..in_rounds].iter().all(|(slot, _)| slot.step.is_none() && [0, 2].contains(&slot.load)));
    assert!(played[in_rounds..].iter().all(|(slot, _)| slot.step.is_some() && slot.load == 1));
}

#[test]
fn the_same_seed_gives_the_same_search() {
    let plan = plan("");
    let slots = || -> Vec<Slot> {
        play(&plan, |slot| answer(slot, [9000.0, 5000.0, 1200.0])).into_iter().map(|(slot, _)| slot).collect()
    };
    assert_eq!(slots(), slots());
}

#[test]
fn a_contender_that_holds_nothing_takes_the_minimum_of_trials() {
    let plan = plan("");
    let played = play(&plan, |slot| answer(slot, [1.0; 3]));
    let search = plan.load[0].search.as_ref().expect("a search");
    assert!(played.len() as u32 >= 3 * bounds(search).0, "{}", played.len());
    assert!(played.len() as u32 <= 3 * bounds(search).1);
}

#[test]
fn the_estimated_duration_includes_searches() {
    let plan = plan("warmup: 1s\n");
    let (steps, measured) = expected(&plan.load[0]).expect("a search");
    assert_eq!(
        measured,
        Duration::from_secs(u64::from(steps - 2) + 2 * 2),
        "two confirming trials, each twice as long"
    );
    let seconds = schedule::estimate(&plan).as_secs_f64();
    let trials = f64::from(steps) * 3.0 * (1.0 + 0.075 + 0.0008) + 3.0 * measured.as_secs_f64();
    assert!((seconds - (trials + 3.0 * 0.7)).abs() < 1e-6, "{seconds}");
}

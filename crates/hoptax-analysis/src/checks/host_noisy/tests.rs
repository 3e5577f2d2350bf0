//! Tests of the finding.

use super::super::tests::*;
use super::*;
use crate::fixture::hosts::{from_two_hosts, on_hosts};
use hoptax_record::ForeignProcess;

#[test]
fn raised_once_with_the_worst_trial_and_not_on_a_quiet_machine() {
    let mut run = Run::closed(1);
    run.push(via("nginx", 0).host(0.06, 0.0)).push(via("nginx", 1).host(0.0, 0.2));
    run.push(via("nginx", 2).host(0.01, 0.01));
    let findings = raised(&run, CODE);
    assert_eq!(findings.len(), 1);
    let evidence = &findings[0].evidence;
    assert_eq!((&evidence["noisy_trials"], &evidence["trials"]), (&2.into(), &3.into()));
    assert_eq!((&evidence["worst_round"], &evidence["worst_foreign"]), (&2.into(), &0.2.into()));
    let run = Run::closed(1).with([via("nginx", 0).host(0.05, 0.05)]);
    assert_eq!(raised(&run, CODE), [], "a quiet machine");
}

#[test]
fn a_search_whose_trials_are_disturbed_is_void() {
    let cases =
        [(0, None), (1, Some(Severity::Note)), (3, Some(Severity::Warning)), (6, Some(Severity::Void))];
    for (noisy, expected) in cases {
        let mut run = Run::with_load(vec![searched_point()]);
        for at in 0..20 {
            let foreign = if at < noisy { 0.9 } else { 0.0 };
            run.push(via("nginx", at).all_at_us(100).step(500.0).host(0.0, foreign));
        }
        let found = raised(&run, CODE);
        assert_eq!(found.first().map(|one| one.severity), expected, "{noisy} of 20: {found:?}");
        assert!(found.iter().all(|one| one.evidence["noisy_trials"] == noisy), "{found:?}");
        if expected == Some(Severity::Void) {
            insta::assert_snapshot!(texts(&found));
        }
    }
}

#[test]
fn names_the_process_that_used_most() {
    for (foreign, named) in [(0.2, true), (0.01, false)] {
        let mut trial = via("nginx", 0).host(0.1, foreign);
        trial.0.host.busiest_foreign = Some(ForeignProcess { name: "cargo".into(), cpu_ns: 1 });
        let run = Run::closed(1).with([trial]);
        assert_eq!(raised(&run, CODE)[0].message.contains("`cargo`"), named);
    }
}

#[test]
fn raised_if_cpus_stood_still_although_there_was_no_steal() {
    for (ms, count) in [(50, 0), (60, 1)] {
        let mut trial = via("nginx", 0);
        let windows = vec![ms * 1_000_000, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let ns_by_cpu = std::collections::BTreeMap::from([(1, windows)]);
        trial.0.host.stalled = Some(Stalled { count: 9, longest_ns: 5_700_000, ns_by_cpu });
        let run = Run::closed(1).with([trial]);
        let found = raised(&run, CODE);
        assert_eq!(found.len(), count, "{ms} ms of a second");
        assert!(found.iter().all(|one| one.message.contains(" 5.7 ms")), "{found:?}");
    }
}

#[test]
fn a_gateway_without_a_process_may_be_the_noise() {
    let advice = |watched: bool, foreign: f64| {
        let mut run = Run::closed(1);
        let trial = via("mine", 0).host(0.1, foreign);
        run.push(if watched { trial } else { trial.unwatched() });
        run.record.plan.gateways = vec![crate::fixture::features::external("mine")];
        raised(&run, CODE).remove(0).advice
    };
    insta::assert_snapshot!(advice(false, 0.4));
    assert!(!advice(true, 0.4).contains("pid"), "its process was found");
    assert!(!advice(false, 0.01).contains("pid"), "the hypervisor took the time");
}

#[test]
fn a_note_if_few_trials_are_noisy() {
    for (noisy, expected) in [(2, Severity::Note), (3, Severity::Warning)] {
        let mut run = Run::closed(1);
        for round in 0..20 {
            let steal = if round < noisy { 0.06 } else { 0.0 };
            run.push(via("nginx", round).host(steal, 0.0)).push(via("envoy", round));
        }
        let found = raised(&run, CODE);
        assert_eq!((found.len(), found[0].severity), (1, expected), "{noisy} of 20");
    }
}

#[test]
fn void_if_too_many_trials_are_noisy_but_not_which_gateway_costs_more() {
    let (warning, void) = ((Severity::Warning, Figures::All), (Severity::Void, Figures::Machine));
    for (noisy, expected) in [(6, warning), (7, void)] {
        let mut run = Run::closed(1);
        for at in 0..20 {
            for (gateway, disturbed) in [("nginx", at < noisy), ("envoy", false)] {
                run.push(via(gateway, at).host(0.0, if disturbed { 0.9 } else { 0.0 }));
            }
        }
        let found = raised(&run, CODE);
        assert_eq!(
            (found.len(), (found[0].severity, found[0].concerns.figures)),
            (1, expected),
            "{noisy} of 40"
        );
        if expected == void {
            insta::assert_snapshot!(texts(&found));
        }
    }
}

#[test]
fn two_noisy_trials_are_too_few_to_be_void() {
    for (noisy, expected) in [(2, Severity::Warning), (3, Severity::Void)] {
        let mut run = Run::closed(1);
        for at in 0..3 {
            run.push(via("nginx", at).host(if at < noisy { 0.5 } else { 0.0 }, 0.0));
        }
        assert_eq!(raised(&run, CODE)[0].severity, expected, "{noisy} of 3");
    }
}

#[test]
fn the_cpu_time_of_an_unknown_gateway_makes_nothing_void() {
    for (watched, steal, expected) in
        [(true, 0.0, Severity::Void), (false, 0.0, Severity::Warning), (false, 0.1, Severity::Void)]
    {
        let mut run = Run::closed(1);
        run.record.plan.gateways = vec![crate::fixture::features::external("mine")];
        for round in 0..6 {
            let trial = via("mine", round).host(steal, 0.4);
            run.push(if watched { trial } else { trial.unwatched() });
        }
        assert_eq!(raised(&run, CODE)[0].severity, expected, "{watched} {steal}");
    }
}

#[test]
fn void_if_the_answers_load_point_is_noisy() {
    let severity = |noisy: u32| {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
        for round in 0..10 {
            for at in 0..2 {
                let steal = if at == noisy && round < 2 { 0.06 } else { 0.0 };
                run.push(via("nginx", round).at_load(at).host(steal, 0.0));
                run.push(via("envoy", round).at_load(at).host(steal, 0.0));
            }
        }
        raised(&run, CODE)[0].severity
    };
    assert_eq!((severity(0), severity(1)), (Severity::Void, Severity::Note), "4 of 40 trials");
}

#[test]
fn noise_away_from_the_answer_is_a_note_if_it_is_rare() {
    let severity = |load: u32| {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
        for round in 0..20 {
            for at in 0..2 {
                let steal = if at == load && round < 3 { 0.06 } else { 0.0 };
                run.push(via("nginx", round).at_load(at).host(steal, 0.0));
                run.push(via("envoy", round).at_load(at));
            }
        }
        raised(&run, CODE)[0].severity
    };
    assert_eq!((severity(0), severity(1)), (Severity::Warning, Severity::Note));
}

#[test]
fn mentions_quiet_figures_if_there_are_any() {
    let run = |stolen: &[u64]| {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).windows_us(&vec![vec![100]; 10]).stolen_ms(stolen).host(0.06, 0.0));
        raised(&run, CODE).remove(0).advice
    };
    assert!(run(&[0, 0, 30, 0, 0, 0, 0, 0, 0, 0]).contains("quiet windows"));
    assert!(!run(&[0; 10]).contains("quiet windows"), "foreign processes leave no window out");
    assert!(!run(&[30; 10]).contains("quiet windows"), "none is left");
}

#[test]
fn raised_by_starts_on_a_noisy_machine() {
    let (note, warning, void) = (Some(Severity::Note), Some(Severity::Warning), Some(Severity::Void));
    for (noisy, expected) in [(0, None), (2, note), (6, warning), (9, void)] {
        let mut run = crate::fixture::starts::started(20, &[]);
        run.starts.iter_mut().take(noisy).for_each(|start| start.host.steal = 0.2);
        let found = raised(&run, CODE);
        assert_eq!(found.first().map(|one| one.severity), expected, "{noisy} of 40");
        assert!(found.iter().all(|one| one.evidence["noisy_starts"] == noisy), "{found:?}");
    }
}

#[test]
fn starts_are_disturbed_on_the_gateways_host_too() {
    let mut run = crate::fixture::starts::started(20, &[]);
    run.record.hosts = on_hosts(&[]).record.hosts;
    for start in run.starts.iter_mut().take(9) {
        start.hosts.insert("edge".into(), HostUsage { steal: 0.2, ..HostUsage::default() });
    }
    let found = raised(&run, CODE);
    assert_eq!((found.len(), &found[0].evidence["noisy_starts"]), (1, &9.into()), "{found:?}");
    insta::assert_snapshot!(texts(&found));
}

#[test]
fn names_the_host_that_was_disturbed() {
    // `edge` sends the second load, so `trial.host` is the usage of `edge`.
    let mut run = from_two_hosts();
    for trial in run.trials.iter_mut().filter(|trial| trial.load == 1) {
        trial.host.steal = 0.3;
    }
    insta::assert_snapshot!(texts(&raised(&run, CODE)));
    for trial in run.trials.iter_mut().filter(|trial| trial.load == 0) {
        let there = trial.hosts.get_mut("edge").expect("there").usage.as_mut();
        there.expect("its own").steal = 0.4;
    }
    insta::assert_snapshot!(texts(&raised(&run, CODE)));

    let mut run = on_hosts(&[("nginx", 850)]);
    for trial in &mut run.trials {
        // Direct requests do not pass the gateway's host.
        trial.hosts.get_mut("edge").expect("there").usage.as_mut().expect("its own").steal = 0.3;
    }
    let found = raised(&run, CODE);
    assert_eq!((found.len(), &found[0].evidence["noisy_trials"]), (1, &4.into()), "{found:?}");
    assert_eq!(found[0].evidence["worst_host"], "host edge (gateway)");
    insta::assert_snapshot!(texts(&found));
    run.trials.retain(|trial| trial.contender == "direct");
    assert_eq!(raised(&run, CODE), []);
}

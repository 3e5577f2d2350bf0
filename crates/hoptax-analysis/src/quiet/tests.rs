//! Tests the rule window by window, and compares figures with results computed by hand.

use super::{Quiet, needs_repeating};
use crate::fixture::hosts::via_edge;
use crate::fixture::{MadeTrial, Run, via};
use hoptax_format::clock::MILLISECOND;
use hoptax_record::{Role, Stalled, Stolen};
use std::collections::BTreeMap;

/// Shows the windows of a trial as text: `.` is a quiet window, and `x` is left out. `taken` contains one
/// list for each CPU: the time taken in each window, ms. The first `before` and the last `after` windows of
/// each list lie outside of the trial.
fn marks(before: u32, after: u32, taken: &[&[u64]]) -> String {
    let length = taken[0].len() - (before + after) as usize;
    let mut trial = via("nginx", 0).windows_us(&vec![vec![100]; length]).0;
    let lists = taken.iter().map(|list| list.iter().map(|ms| ms * MILLISECOND).collect());
    trial.host.stolen = Some(Stolen { before, after, ns_by_cpu: (0..).zip(lists).collect() });
    drawn(&Quiet::of(&trial).expect("steal is recorded"))
}

fn drawn(quiet: &Quiet) -> String {
    quiet.left_out.iter().map(|left_out| if *left_out { 'x' } else { '.' }).collect()
}

#[test]
fn bursts_and_windows_near_them_are_left_out() {
    assert_eq!(marks(0, 0, &[&[0, 0, 0, 10, 0, 0, 0]]), "..xxx..");
    assert_eq!(marks(0, 0, &[&[0, 0, 0, 0, 0, 0, 0]]), ".......");
    assert_eq!(marks(0, 0, &[&[0, 0, 90, 100, 90, 0, 0, 0, 0, 0]]), ".xxxxxxx..");
    // Single ticks in several windows cause no backlog.
    assert_eq!(marks(0, 0, &[&[0, 0, 10, 10, 10, 10, 0, 0, 0, 0]]), ".xxxxxx...");
    // The CPU was away for 280 ms, and the kernel noticed this only at the end.
    assert_eq!(marks(0, 0, &[&[0, 0, 0, 0, 0, 280, 0, 0, 0, 0, 0]]), "..xxxxxxx..");
    // On each of two CPUs, 4 ms were taken. This is less than a tick on each CPU. Bursts on different CPUs
    // are not added up.
    assert_eq!(marks(0, 0, &[&[0, 0, 4, 0, 0, 0], &[0, 0, 4, 0, 0, 0]]), "......");
    let two: [&[u64]; 2] = [&[0, 10, 0, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 10, 0, 0]];
    assert_eq!(marks(0, 0, &two), "xxx..xxx.");
    assert_eq!(marks(0, 0, &[&[0, 0, 100, 0, 0, 0, 0], &[0, 0, 100, 0, 0, 0, 0]]), ".xxx...");
    assert_eq!(marks(3, 2, &[&[0, 100, 100, 0, 0, 0, 0, 0, 0]]), "xx..");
    assert_eq!(marks(2, 3, &[&[0, 0, 0, 0, 0, 0, 0, 210, 0]]), "..xx");
    assert_eq!(marks(2, 2, &[&[20, 0, 0, 0, 0, 0, 0, 0]]), "....");
}

/// With the windows beside it, it would leave out the whole trial.
#[test]
fn a_single_tick_in_a_short_trial_leaves_out_its_window_alone() {
    for (before, list) in [(0, &[0, 10, 0][..]), (2, &[0, 0, 0, 10, 0])] {
        assert_eq!(marks(before, 0, &[list]), ".x.");
    }
    assert_eq!(marks(0, 0, &[&[0, 20, 0]]), "xxx");
    assert_eq!(marks(0, 0, &[&[0, 10, 0], &[10, 0, 0]]), "xxx", "a tick on each of two CPUs");
    let mut trial = via("nginx", 0).windows_us(&vec![vec![100]; 3]).0;
    let mut needs = |ms: u64| {
        let ns_by_cpu = BTreeMap::from([(0, vec![0, ms * MILLISECOND, 0])]);
        trial.host.stolen = Some(Stolen { before: 0, after: 0, ns_by_cpu });
        needs_repeating(&trial)
    };
    assert!(!needs(10) && needs(20));
}

#[test]
fn a_tick_shared_by_two_windows_belongs_to_the_one_that_has_more_of_it() {
    let mut trial = via("nginx", 0).windows_us(&vec![vec![100]; 6]).0;
    let mut mark = |part: u64| {
        let taken = vec![0, 0, 10 * MILLISECOND - part, part, 0, 0];
        trial.host.stolen = Some(Stolen { before: 0, after: 0, ns_by_cpu: BTreeMap::from([(1, taken)]) });
        drawn(&Quiet::of(&trial).expect("steal is recorded"))
    };
    assert_eq!(mark(MILLISECOND), ".xxx..");
    assert_eq!(mark(9 * MILLISECOND), "..xxx.");
    assert_eq!(mark(5 * MILLISECOND), "..xx..", "four of six would be most of the trial");
}

#[test]
fn a_dedicated_machine_is_quiet_and_older_records_are_unknown() {
    let bare = via("nginx", 0).stolen_ms(&[0; 10]).0;
    assert_eq!(Quiet::of(&bare).expect("steal is recorded").left_out(), 0);
    assert!(!needs_repeating(&bare));
    let unknown = via("nginx", 0).host(0.5, 0.0).0;
    assert_eq!(Quiet::of(&unknown), None);
    assert!(!needs_repeating(&unknown), "unknown steal is no reason");
}

#[test]
fn older_records_have_steal_as_a_share_of_all_cpus() {
    let mut trial = via("nginx", 0).windows_us(&vec![vec![100]; 6]).0;
    trial.host.steal_by_window = vec![0.0, 0.0, 0.05, 0.0, 0.0, 0.0];
    assert_eq!(drawn(&Quiet::of(&trial).expect("steal is recorded")), ".xxx..");
    // A list with the wrong length must not cause a panic.
    trial.host.steal_by_window = vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.2];
    assert_eq!(drawn(&Quiet::of(&trial).expect("steal is recorded")), "......");
    trial.host.steal_by_window = vec![0.2];
    assert_eq!(drawn(&Quiet::of(&trial).expect("steal is recorded")), "xx....");
}

#[test]
fn a_trial_is_repeated_if_less_than_half_of_it_is_quiet() {
    let trial = |stolen: usize| {
        let taken: Vec<u64> = (0..10).map(|window| if window < stolen { 10 } else { 0 }).collect();
        via("nginx", 0).stolen_ms(&taken)
    };
    assert!(!needs_repeating(&trial(4).0));
    assert!(needs_repeating(&trial(5).0));
    assert!(!needs_repeating(&trial(5).failed("nginx died").0), "it failed, and says so");
}

/// Ten windows. If `stolen` is true, the hypervisor takes most of the fifth window: its responses are slow,
/// and few requests complete.
fn trial(who: &str, round: u32, usual_us: u64, stolen: bool) -> MadeTrial {
    let windows: Vec<Vec<u64>> = (0..10)
        .map(|window| if stolen && window == 4 { vec![40_000; 10] } else { vec![usual_us + window; 100] })
        .collect();
    let mut trial = via(who, round).windows_us(&windows);
    if let Some(gateway) = &mut trial.0.gateway {
        gateway.cpu_ns_by_window =
            (0..10).map(|window| if window == 4 { 9_000_000 } else { 2_000_000 }).collect();
    }
    let mut taken = [0; 10];
    taken[4] = if stolen { 90 } else { 0 };
    trial.stolen_ms(&taken)
}

/// Three rounds in which direct has only quiet windows.
fn rounds(of_nginx: impl Fn(u32) -> MadeTrial) -> Run {
    let mut run = Run::closed(1);
    for round in 0..3 {
        let direct = || trial("direct", round, 1000, false);
        run.push(direct().first()).push(direct().last()).push(of_nginx(round));
    }
    run
}

#[test]
fn steal_counts_on_the_machines_that_requests_pass() {
    let quiet = [0; 10];
    let robbed = [0, 0, 0, 0, 10, 0, 0, 0, 0, 0];
    let drawn = |trial: MadeTrial| drawn(&Quiet::of(&trial.0).expect("steal is recorded"));
    let (alone, both) = (|who| via_edge(who, 0, &quiet), |who| via_edge(who, 0, &robbed));
    assert_eq!(drawn(alone("nginx")), "..........");
    assert_eq!(drawn(both("nginx")), "...xxx....", "the gateway's machine was robbed");
    assert_eq!(drawn(both("direct")), "..........", "which direct requests do not pass");
    for who in ["direct", "nginx"] {
        let upstream = alone(who).elsewhere("app", Role::Upstream, &robbed);
        assert_eq!(drawn(upstream), "...xxx....", "{who}");
        assert_eq!(drawn(alone(who).stolen_ms(&robbed)), "...xxx....", "{who}");
    }
    let all = both("nginx").stolen_ms(&[10, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(drawn(all), "xx.xxx....", "each machine has its own");
    let mut unknown = alone("nginx");
    unknown.0.hosts.get_mut("edge").expect("there").usage.as_mut().expect("its own").stolen = None;
    assert_eq!(Quiet::of(&unknown.0), None);
    assert!(needs_repeating(&via_edge("nginx", 0, &[10; 10]).0));
    assert!(!needs_repeating(&via_edge("direct", 0, &[10; 10]).0));
}

#[test]
fn figures_by_hand() {
    let analysis = rounds(|round| trial("nginx", round, 1500, true)).analyse();
    let case = analysis.case("nginx", 0).expect("measured");
    let quiet = case.quiet.as_ref().expect("steal is recorded");
    assert_eq!((quiet.windows, quiet.left_out, quiet.share_left_out), (30, 9, 0.3));
    assert_eq!((quiet.trials, quiet.trials_left_out), (3, 0));
    let throughput = |throughput: &Option<crate::Throughput>| {
        throughput.as_ref().expect("steal is recorded").estimate.estimate
    };
    assert!((throughput(&case.throughput) - 910.0).abs() < 1e-9);
    assert!((throughput(&quiet.throughput) - 1000.0).abs() < 1e-9);
    // The gateway used 2 ms in each of seven windows of 100 requests.
    assert!((quiet.cpu_us_per_request.expect("watched") - 20.0).abs() < 1e-9);
    let all = case.response_time.as_ref().expect("steal is recorded").p99.expect("samples").estimate;
    let without = quiet.response_time.as_ref().expect("steal is recorded").p99.expect("samples").estimate;
    assert!(all > 39_000.0 && (without / 1509.0 - 1.0).abs() < 0.008, "{all} {without}");
    let added = quiet.tax.as_ref().expect("a gateway").added_p50.expect("three rounds").estimate;
    assert!((added.estimate - 500.0).abs() < 0.016 * 1000.0 && added.trials == 3, "{added:?}");
    let ratio = quiet.tax.as_ref().expect("a gateway").throughput_ratio.expect("three rounds").estimate;
    assert!((ratio.estimate - 1.0).abs() < 1e-9, "{ratio:?}");

    let direct = analysis.case("direct", 0).expect("measured").quiet.as_ref().expect("steal is recorded");
    assert_eq!((direct.left_out, direct.trials, &direct.tax), (0, 6, &None));
}

#[test]
fn without_disturbed_windows_the_figures_are_those_of_all_windows() {
    let analysis = rounds(|round| trial("nginx", round, 1500, false)).analyse();
    let case = analysis.case("nginx", 0).expect("measured");
    let quiet = case.quiet.as_ref().expect("steal is recorded");
    assert_eq!((quiet.left_out, quiet.trials), (0, 3));
    assert_eq!(
        (&quiet.throughput, &quiet.response_time, &quiet.tax),
        (&case.throughput, &case.response_time, &case.tax)
    );
}

#[test]
fn a_trial_with_too_few_quiet_windows_is_in_no_quiet_figure() {
    let of_nginx = |round: u32| {
        let via = trial("nginx", round, 1500 + 1000 * u64::from(round), true);
        if round == 2 { via.stolen_ms(&[10; 10]) } else { via }
    };
    let analysis = rounds(of_nginx).analyse();
    let quiet = analysis.case("nginx", 0).expect("measured").quiet.as_ref().expect("steal is recorded");
    assert_eq!((quiet.trials, quiet.trials_left_out, quiet.left_out), (2, 1, 16));
    let added = quiet.tax.as_ref().expect("a gateway").added_p50.expect("two rounds").estimate;
    // Half of the merged requests took 1,500 µs and half took 2,500 µs. The median is 1,500 µs.
    assert!(added.trials == 2 && (added.estimate - 500.0).abs() < 30.0, "{added:?}");
}

#[test]
fn a_case_without_a_quiet_trial_has_counts_but_no_figures() {
    let run = Run::closed(1)
        .with([trial("direct", 0, 1000, false).first(), trial("nginx", 0, 1500, true).stolen_ms(&[10; 10])]);
    let analysis = run.analyse();
    let quiet = analysis.case("nginx", 0).expect("measured").quiet.as_ref().expect("steal is recorded");
    assert_eq!((quiet.trials, quiet.share_left_out), (0, 1.0));
    assert_eq!((&quiet.throughput, &quiet.response_time, &quiet.tax), (&None, &None, &None));
}

#[test]
fn an_unreadable_window_removes_its_trial_from_quiet_figures_only() {
    let mut run = Run::closed(1);
    run.push(trial("direct", 0, 1000, false).first());
    run.push(trial("nginx", 0, 1500, true)).push(trial("nginx", 1, 1500, true));
    let load = run.trials[1].load_record.as_mut().expect("measured");
    load.windows[0].response_time.as_mut().expect("there is one").0 = "*".into();
    let analysis = run.analyse();
    let case = analysis.case("nginx", 0).expect("measured");
    assert_eq!((case.trials, case.quiet.as_ref().expect("steal is recorded").trials), (2, 1));
}

/// Steal does not show all of them.
#[test]
fn a_stall_leaves_out_its_windows_for_direct_and_gateways_alike() {
    for contender in ["direct", "nginx"] {
        let mut trial = via(contender, 0).windows_us(&vec![vec![100]; 8]).stolen_ms(&[0; 8]).0;
        let mut marks = |cpu: u32, taken: &[u64]| {
            let ns_by_cpu = BTreeMap::from([(cpu, taken.iter().map(|us| us * 1000).collect())]);
            trial.host.stalled = Some(Stalled { count: 1, longest_ns: 1, ns_by_cpu });
            drawn(&Quiet::of(&trial).expect("steal is recorded"))
        };
        assert_eq!(marks(1, &[0, 0, 600, 0, 0, 0, 0, 0]), "..x.....");
        assert_eq!(marks(0, &[0, 0, 0, 90_000, 80_000, 0, 0, 0]), "...xxx..", "170 ms");
        assert_eq!(marks(0, &[0; 8]), "........");
    }
}

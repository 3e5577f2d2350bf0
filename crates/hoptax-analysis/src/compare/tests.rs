//! Tests comparisons of generated runs.

use super::*;
use crate::fixture::hosts::{from_two_hosts, on_hosts};
use crate::fixture::starts::{Cold, started};
use crate::fixture::{Run, closed_point, features, open_point, searched_point, via};
use hoptax_plan::{Metric, PathSplit, Profile, Start, Target, Upstream};
use hoptax_record::{CpuRoundTrip, Setting};
use std::time::Duration;

struct Compared<'a> {
    runs: (&'a Run, &'a Run),
    labels: Option<(&'a str, &'a str)>,
    force: bool,
}

fn read(run: &Run) -> (Side<'_>, Analysis) {
    (Side::read(&run.record, &run.trials), run.analyse())
}

fn subject<'r>(name: &'r str, read: &'r (Side<'r>, Analysis), label: Option<&'r str>) -> Subject<'r> {
    Subject { name, side: &read.0, analysis: &read.1, label }
}

fn compared(compared: &Compared<'_>) -> Result<Comparison, Refusal> {
    let (a, b) = compared.runs;
    let one = read(a);
    let other = (!std::ptr::eq(a, b)).then(|| read(b));
    let first = subject("one", &one, compared.labels.map(|labels| labels.0));
    let second = subject("two", other.as_ref().unwrap_or(&one), compared.labels.map(|labels| labels.1));
    compare(&first, &second, LEAST_CHANGE, compared.force)
}

fn of_runs(a: &Run, b: &Run) -> Comparison {
    compared(&Compared { runs: (a, b), labels: None, force: false }).expect("comparable")
}

fn of_labels(run: &Run, a: &str, b: &str) -> Comparison {
    compared(&Compared { runs: (run, run), labels: Some((a, b)), force: false }).expect("comparable")
}

fn row<'c>(comparison: &'c Comparison, label: &str, metric: Metric) -> &'c Row {
    let mut rows = comparison.rows.iter().filter(|row| row.label_b == label && row.metric == metric);
    rows.next().unwrap_or_else(|| panic!("no row {label} {metric:?}"))
}

/// Rounds with a little noise. Direct takes 1,000 µs. Each gateway is given as (label, response time in µs,
/// CPU time per request in µs).
fn noisy(seed: u64, machine: f64, gateways: &[(&str, f64, f64)]) -> Run {
    let mut random = hoptax_format::random::Random::new(seed);
    let mut run = Run::closed(32);
    for round in 0..6 {
        let mut near = |value: f64| (value * machine * (1.0 + 0.01 * (random.unit() - 0.5))) as u64;
        let (first, last) = (near(1000.0), near(1000.0));
        run.direct(round, first, last);
        for (label, response, cpu) in gateways {
            let throughput = 1e6 * 32.0 / (near(*response) as f64);
            let trial = via(label, round)
                .all_at_us(near(*response))
                .throughput(throughput as u64)
                .gateway_cpu_us(near(cpu * throughput));
            run.push(trial);
        }
    }
    // In the fixture, direct's throughput is always 1,000 requests/s and does not depend on its response
    // times.
    run
}

#[test]
fn the_same_twice_is_not_distinguishable() {
    let a = noisy(1, 1.0, &[("nginx", 1500.0, 20.0)]);
    let b = noisy(2, 1.0, &[("nginx", 1500.0, 20.0)]);
    let comparison = of_runs(&a, &b);
    assert_eq!(comparison.verdict, Verdict::NotDistinguishable);
    assert!(!comparison.paired && comparison.forced.is_empty() && comparison.void.is_empty());
    assert_eq!(row(&comparison, "nginx", Metric::CpuUsPerRequest).verdict, Verdict::NotDistinguishable);
    assert!(comparison.rows.iter().any(|row| row.label_a == "direct" && !row.headline));
    assert!(comparison.expected_by_chance > 0.0);
}

#[test]
fn a_fifth_more_cpu_time_is_worse_and_the_reverse_is_better() {
    let a = noisy(1, 1.0, &[("nginx", 1500.0, 20.0)]);
    let b = noisy(2, 1.0, &[("nginx", 1500.0, 24.0)]);
    let worse = of_runs(&a, &b);
    let cpu = row(&worse, "nginx", Metric::CpuUsPerRequest);
    assert_eq!((cpu.verdict, cpu.headline, worse.verdict), (Verdict::Worse, true, Verdict::Worse));
    let changed = cpu.change.expect("above zero");
    assert!((changed.estimate - 0.2).abs() < 0.02 && changed.low.expect("bounded") > 0.0, "{changed:?}");
    assert!(cpu.carries() && cpu.adjusted_p_value >= cpu.difference.p_value);
    assert_eq!(of_runs(&b, &a).verdict, Verdict::Better);
}

#[test]
fn a_slower_machine_is_not_a_worse_gateway() {
    let a = noisy(1, 1.0, &[("nginx", 1500.0, 20.0)]);
    let mut b = noisy(2, 1.3, &[("nginx", 1500.0, 20.0)]);
    // The CPU use of upstream and generator grows by the same factor.
    for trial in &mut b.trials {
        trial.upstream.as_mut().expect("watched").cpu_ns = 6_500_000;
        trial.load_record.as_mut().expect("measured").cpu.used_ns = 130_000_000;
    }
    let comparison = of_runs(&a, &b);
    for metric in [Metric::P50, Metric::AddedP50, Metric::CpuUsPerRequest] {
        let row = row(&comparison, "nginx", metric);
        assert!(row.floor > 0.2 * row.a.expect("measured").estimate, "{row:?}");
        assert_eq!(row.verdict, Verdict::NotDistinguishable, "{row:?}");
    }
    // For direct itself, the change is a result and is reported.
    assert_eq!(row(&comparison, "direct", Metric::P50).verdict, Verdict::Worse);
}

#[test]
fn cpus_that_were_placed_differently_explain_a_difference() {
    let placed = |ns: f64, cpu: f64| {
        let mut run = noisy(cpu as u64, 1.0, &[("nginx", 1500.0, cpu)]);
        for trial in &mut run.trials {
            trial.cpu_round_trips = vec![CpuRoundTrip { cpus: [0, 1], before_ns: ns, after_ns: ns }];
        }
        run
    };
    let cpu = |comparison: &Comparison| row(comparison, "nginx", Metric::CpuUsPerRequest).verdict;
    let apart = of_runs(&placed(90.0, 20.0), &placed(390.0, 24.0));
    assert_eq!(cpu(&apart), Verdict::NotDistinguishable, "a fifth more");
    let says =
        |comparison: &Comparison| comparison.warnings.iter().any(|warning| warning.contains("90 ns apart"));
    assert!(says(&apart), "{:?}", apart.warnings);
    let back = of_runs(&placed(390.0, 24.0), &placed(90.0, 20.0));
    assert_eq!(cpu(&back), Verdict::NotDistinguishable, "a sixth less");
    assert_eq!(
        cpu(&of_runs(&placed(90.0, 20.0), &placed(390.0, 60.0))),
        Verdict::Worse,
        "three times as much"
    );
    assert_eq!(cpu(&of_runs(&placed(390.0, 60.0), &placed(90.0, 20.0))), Verdict::Better, "a third");
    let alike = of_runs(&placed(90.0, 20.0), &placed(92.0, 24.0));
    assert_eq!(cpu(&alike), Verdict::Worse, "the distance is the same");
    assert!(!says(&alike), "{:?}", alike.warnings);
}

#[test]
fn labels_of_one_run_are_paired() {
    let mut run = Run::closed(1);
    for (round, speed) in [3, 4, 3, 5].into_iter().enumerate() {
        let round = round as u32;
        run.direct(round, 100 * speed, 100 * speed);
        run.push(via("main", round).all_at_us(200 * speed).gateway_cpu_us(20_000 * speed));
        run.push(
            via("pr", round).all_at_us(220 * speed).gateway_cpu_us(24_000 * speed + 100 * u64::from(round)),
        );
    }
    let comparison = of_labels(&run, "main", "pr");
    assert!(comparison.paired);
    let cpu = row(&comparison, "pr", Metric::CpuUsPerRequest);
    assert_eq!(cpu.difference.rounds, 4);
    let changed = cpu.change.expect("above zero");
    assert!(changed.low.expect("bounded") > 0.19 && changed.high.expect("bounded") < 0.22, "{changed:?}");
}

#[test]
fn one_round_shows_no_difference() {
    let run = Run::steady(1, 100, &[("main", 200), ("pr", 900)]);
    let comparison = of_labels(&run, "main", "pr");
    assert_eq!(comparison.verdict, Verdict::NotDistinguishable);
    assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::NotDistinguishable));
}

#[test]
fn load_points_are_matched_by_their_settings() {
    let push = |run: &mut Run, load: u32, us: u64| {
        for round in 0..3 {
            run.direct_trials(round, |trial| trial.at_load(load));
            run.push(via("nginx", round).at_load(load).all_at_us(us + u64::from(round)));
        }
    };
    let mut a = Run::with_load(vec![closed_point(1, 5), open_point(500.0, 8, 5), closed_point(99, 5)]);
    let mut b = Run::with_load(vec![open_point(500.0, 8, 7), closed_point(1, 5)]);
    for (load, us) in [(0, 300), (1, 600), (2, 900)] {
        push(&mut a, load, us);
    }
    for (load, us) in [(0, 600), (1, 300)] {
        push(&mut b, load, us);
    }
    let comparison = of_runs(&a, &b);
    assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::NotDistinguishable), "{comparison:#?}");
    assert!(comparison.rows.iter().all(|row| row.load.connections != 99));
    insta::assert_snapshot!(comparison.warnings.join("\n"));
}

#[test]
fn runs_of_different_questions_are_refused_with_every_difference() {
    let a = Run::steady(2, 100, &[("nginx", 200)]);
    let mut b = Run::steady(2, 100, &[("nginx", 200)]);
    b.record.plan.targets = vec![Target::get("/other")];
    b.record.plan.profile = Profile::Stock;
    b.record.plan.path_split = PathSplit::On;
    b.record.plan.upstream =
        Upstream::Running(hoptax_plan::Running { url: "http://127.0.0.1:1".into(), ..Default::default() });
    b.record.contenders[1].kind = "envoy".into();
    b.record.load[0].http = hoptax_format::spec::HttpVersion::Http10;
    let refused = compared(&Compared { runs: (&a, &b), labels: None, force: false });
    let Err(Refusal::Obstacles(obstacles)) = refused else { panic!("{refused:?}") };
    let differing: Vec<&str> = obstacles.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(differing, ["target", "upstream", "profile", "path_split", "load", "gateway `nginx`"]);
    assert_eq!((&*obstacles[0].a, &*obstacles[0].b), ("path: /", "path: /other"), "{:?}", obstacles[0]);
    b.record.load[0].http = hoptax_format::spec::HttpVersion::Http11;
    let forced = compared(&Compared { runs: (&a, &b), labels: None, force: true }).expect("forced");
    assert_eq!(forced.forced.len(), 5);
}

#[test]
fn settings_that_differ_are_named_by_their_keys() {
    let a = Run::steady(2, 100, &[("nginx", 200)]);
    let mut b = Run::steady(2, 100, &[("nginx", 200)]);
    let Upstream::BuiltIn(built_in) = &mut b.record.plan.upstream else { panic!("it is built in") };
    built_in.delay = hoptax_plan::Delay::Fixed(Duration::from_millis(5));
    built_in.status = 204;
    b.record.plan.pause = Duration::from_secs(2);
    let refused = compared(&Compared { runs: (&a, &b), labels: None, force: false });
    let Err(Refusal::Obstacles(obstacles)) = refused else { panic!("{refused:?}") };
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    let expected = ("delay: 0s, status: 200", "delay: 5ms, status: 204");
    assert_eq!((&*obstacles[0].a, &*obstacles[0].b), expected);
    let forced = compared(&Compared { runs: (&a, &b), labels: None, force: true }).expect("forced");
    assert!(forced.warnings.contains(&"Pause differs: 0s and 2s.".to_owned()), "{:?}", forced.warnings);
}

#[test]
fn http2_to_the_upstream_and_other_settings_are_named() {
    let setting = |setting: &str| Setting { setting: setting.into(), reason: "as in the plan".into() };
    let run = |gateway, settings: &[&str]| {
        let mut run = Run::steady(2, 100, &[("haproxy", 200)]);
        run.record.plan.gateways = vec![gateway];
        run.record.contenders[1].settings = settings.iter().map(|&text| setting(text)).collect();
        run
    };
    let old = run(features::gateway("haproxy", &[]), &["nbthread 1"]);
    let new = run(features::with_http2_upstream("haproxy"), &["nbthread 1", "proto h2"]);
    insta::assert_snapshot!(of_runs(&old, &new).warnings.join("\n"));
}

#[test]
fn another_machine_or_version_is_a_warning() {
    let a = Run::steady(2, 100, &[("nginx", 200)]);
    let mut b = Run::steady(2, 100, &[("nginx", 200)]);
    b.record.environment.kernel = "Linux 7".into();
    b.record.hoptax = "9.9.9".into();
    b.record.contenders[1].version = Some("1.2.4".into());
    b.record.ended = None;
    insta::assert_snapshot!(of_runs(&a, &b).warnings.join("\n"));
    assert_eq!(of_runs(&a, &Run::steady(2, 100, &[("nginx", 200)])).warnings, Vec::<String>::new());
}

#[test]
fn machines_are_compared_by_role() {
    let a = on_hosts(&[("nginx", 850)]);
    let mut b = on_hosts(&[("nginx", 850)]);
    b.record.hosts.get_mut("edge").expect("there").environment.kernel = "Linux 7".into();
    insta::assert_snapshot!(of_runs(&a, &b).warnings.join("\n"));
    let one_host = Run::steady(4, 300, &[("nginx", 850)]);
    insta::assert_snapshot!(of_runs(&a, &one_host).warnings.join("\n"));
}

#[test]
fn machines_that_only_send_load_are_compared_by_name() {
    let with_sender = |kernel: &str| {
        let mut run = from_two_hosts();
        run.record.load[1].from = Some("branch".into());
        run.record.plan.load.clone_from(&run.record.load);
        let mut branch = run.record.hosts["client"].clone();
        branch.environment.kernel = kernel.into();
        run.record.hosts.insert("branch".into(), branch);
        run
    };
    let (a, b) = (with_sender("Linux 6.1"), with_sender("Linux 7"));
    insta::assert_snapshot!(of_runs(&a, &b).warnings.join("\n"));
    assert_eq!(of_runs(&a, &with_sender("Linux 6.1")).warnings, [""; 0]);
}

#[test]
fn runs_without_a_common_case_are_refused() {
    let a = Run::steady(2, 100, &[("nginx", 200)]);
    let mut b = Run::closed(32);
    b.contender("nginx", None);
    let refused = compared(&Compared { runs: (&a, &b), labels: None, force: false });
    let Err(Refusal::NothingInCommon(why)) = refused else { panic!("{refused:?}") };
    insta::assert_snapshot!(why);
    let labels = Some(("nginx", "envoy"));
    let refused = compared(&Compared { runs: (&a, &a), labels, force: false });
    assert!(matches!(refused, Err(Refusal::NothingInCommon(_))), "{refused:?}");
}

#[test]
fn a_warning_says_that_capacities_are_not_compared() {
    let (mut a, mut b) = (Run::steady(3, 100, &[("nginx", 150)]), Run::steady(3, 100, &[("nginx", 150)]));
    for run in [&mut a, &mut b] {
        run.record.load.push(searched_point());
    }
    let warnings = of_runs(&a, &b).warnings;
    for run in [&mut a, &mut b] {
        run.record.load.remove(0);
    }
    let refused = compared(&Compared { runs: (&a, &b), labels: None, force: false });
    let Err(Refusal::NothingInCommon(reason)) = refused else { panic!("{refused:?}") };
    insta::assert_snapshot!(reason);
    insta::assert_snapshot!(warnings.join("\n"));
}

#[test]
fn a_disturbed_machine_voids_a_comparison_of_runs_but_not_of_two_gateways_of_one_run() {
    let gateways = [("nginx", 1500.0, 30.0), ("envoy", 1900.0, 60.0)];
    let (quiet, mut disturbed) = (noisy(1, 1.0, &gateways), noisy(2, 1.0, &gateways));
    disturbed.trials.iter_mut().for_each(|trial| trial.host.foreign = 0.5);
    let void = of_runs(&quiet, &disturbed).void;
    assert!(void.iter().any(|one| one.contains("host-noisy")), "{void:?}");
    let within = of_labels(&disturbed, "nginx", "envoy");
    assert_eq!((within.verdict, within.void), (Verdict::Worse, Vec::<String>::new()));
}

#[test]
fn void_cases_are_named() {
    let a = Run::steady(2, 100, &[("nginx", 200)]);
    let mut b = Run::closed(32);
    for round in 0..2 {
        b.direct(round, 100, 100);
        b.push(via("nginx", round).errors(5000));
    }
    let void = of_runs(&a, &b).void;
    assert!(void.iter().any(|one| one.starts_with("two, nginx") && one.contains("errors")), "{void:?}");
}

/// A run of two gateways. From run to run, figures scatter as in `records/2026-11-27-vm-runs`: the machine by
/// 3 %, and the times and the CPU time of each process by another 3.6 %, together 4.7 %. The distance of the
/// CPUs depends on neither.
fn scattered(seed: u64, distance_ns: f64, slower: f64) -> Run {
    let mut random = hoptax_format::random::Random::new(seed);
    let mut by = |share: f64| (share * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0)).exp();
    let machine = by(0.03);
    let far = if distance_ns > 200.0 { 1.4 } else { 1.0 };
    let mut gateway = |label: &'static str, response: f64, cpu: f64| {
        (
            label,
            1000.0 + (response * slower * far - 1000.0) * by(0.036),
            cpu * slower * far.sqrt() * by(0.036),
        )
    };
    let gateways = [gateway("nginx", 1500.0, 20.0), gateway("envoy", 2200.0, 45.0)];
    let mut run = noisy(seed, machine, &gateways);
    for trial in &mut run.trials {
        let ns = distance_ns * (1.0 + 0.1 * (seed % 5) as f64);
        trial.cpu_round_trips = vec![CpuRoundTrip { cpus: [0, 1], before_ns: ns, after_ns: ns }];
    }
    run
}

fn mirrored(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Better => Verdict::Worse,
        Verdict::Worse => Verdict::Better,
        same => same,
    }
}

/// Compares `count` pairs of runs in both orders. Returns the number of pairs in which any row shows a
/// difference.
fn called_different(count: u64, runs: impl Fn(u64) -> (Run, Run)) -> usize {
    let is_called = |seed: u64| {
        let (a, b) = runs(seed);
        let (one, two) = (read(&a), read(&b));
        let (first, second) = (subject("one", &one, None), subject("two", &two, None));
        let compared = |a, b| compare(a, b, LEAST_CHANGE, false).expect("comparable");
        let (there, back) = (compared(&first, &second), compared(&second, &first));
        assert_eq!(back.verdict, mirrored(there.verdict));
        for (one, other) in there.rows.iter().zip(&back.rows) {
            assert_eq!(other.verdict, mirrored(one.verdict), "{one:?}\n{other:?}");
        }
        there.rows.iter().any(|row| row.verdict != Verdict::NotDistinguishable)
    };
    (0..count).filter(|seed| is_called(1000 * (seed + 1))).count()
}

#[test]
fn equal_runs_are_not_told_apart_whatever_the_placement_of_their_cpus() {
    let called = |count, [near, far]: [f64; 2], slower| {
        called_different(count, |seed| (scattered(seed, near, 1.0), scattered(seed + 501, far, slower)))
    };
    let near = called(15, [110.0, 110.0], 1.0);
    assert!(near <= 1, "{near} of 15 pairs");
    // An earlier rule called 14 of 15 pairs of a near and a far run worse, and none better.
    let apart = called(15, [123.0, 315.0], 1.0);
    assert!(apart <= 1, "{apart} of 15 pairs");
    assert_eq!(called(5, [110.0, 110.0], 1.5), 5, "half as much again is seen in every pair");
}

/// Checks every row of comparisons of two gateways of one run, and of two runs. Returns how many rows are
/// called different, and how many are not.
fn agreeing_rows(comparisons: impl IntoIterator<Item = Comparison>) -> [usize; 2] {
    let mut counts = [0; 2];
    for row in comparisons.into_iter().flat_map(|comparison| comparison.rows) {
        let is_called = row.verdict != Verdict::NotDistinguishable;
        assert_eq!(row.difference.excludes(0.0), is_called, "{row:#?}");
        let change = row.change.filter(|change| change.interval().is_some());
        assert!(change.is_none_or(|change| change.excludes(0.0) == is_called), "{row:#?}");
        let is_adjusted = row.adjusted_p_value.is_none_or(|p| (p < 0.05) == is_called);
        assert!(is_adjusted, "{row:#?}");
        counts[usize::from(!is_called)] += 1;
    }
    counts
}

#[test]
fn verdicts_and_intervals_never_contradict_each_other() {
    let gateways = |seed: u64| {
        let more = 1.0 + 0.01 * (seed % 7) as f64;
        [("main", 1500.0, 20.0), ("pr", 1500.0 * more, 20.0 * more)]
    };
    let in_one_run =
        agreeing_rows((0..14).map(|seed| of_labels(&noisy(seed, 1.0, &gateways(seed)), "main", "pr")));
    let of_two_runs = agreeing_rows((0..14).map(|seed| {
        let before = noisy(seed, 1.0, &[("nginx", 1500.0, 20.0)]);
        let more = 1.0 + 0.05 * seed as f64;
        of_runs(
            &before,
            &noisy(seed + 50, 1.0 + 0.02 * (seed % 3) as f64, &[("nginx", 1500.0 * more, 20.0 * more)]),
        )
    }));
    for [called, alike] in [in_one_run, of_two_runs] {
        assert!(called > 10 && alike > 10, "{called} and {alike}");
    }
}

/// Measures how often a comparison of equal gateways shows a difference, and how often a difference of one
/// tenth is found. Each simulated run is a complete comparison.
#[test]
fn false_alarms_are_as_rare_as_stated() {
    let alarms = |seeds: std::ops::Range<u64>, extra: f64| {
        let verdict = |seed: u64| {
            let run = noisy(seed, 1.0, &[("main", 1500.0, 20.0), ("pr", 1500.0, 20.0 * extra)]);
            of_labels(&run, "main", "pr").verdict
        };
        seeds.filter(|seed| verdict(*seed) != Verdict::NotDistinguishable).count()
    };
    // If each comparison gives a false alarm with a probability of 5 %, more than 6 of 40 comparisons do so
    // in only one of 300 test runs.
    assert!(alarms(100..140, 1.0) <= 6);
    assert_eq!(alarms(100..115, 1.1), 15);
}

#[test]
fn starts_are_compared_by_their_medians() {
    let run = |ready_ms: f64, settled_s: Option<f64>| {
        started(20, &[("yarp", Cold { ready_ms, settled_s, reload: true, ..Cold::managed() })])
    };
    let (before, after) = (run(310.0, Some(4.0)), run(210.0, Some(3.0)));
    let found = of_runs(&before, &after);
    let verdicts: Vec<(Metric, Verdict)> = found.rows.iter().map(|row| (row.metric, row.verdict)).collect();
    assert_eq!(
        verdicts,
        [
            (Metric::Listening, Verdict::Better),
            (Metric::Ready, Verdict::Better),
            (Metric::FirstRequest, Verdict::NotDistinguishable),
            (Metric::Settled, Verdict::Better),
        ]
    );
    assert_eq!((found.verdict, found.paired), (Verdict::Better, false));
    let ready = &found.rows[1];
    let change = ready.change.and_then(|change| change.interval()).expect("an interval");
    assert!(ready.headline && (-0.46..-0.35).contains(&change.0) && change.1 < -0.15, "{ready:?}");
    assert_eq!(of_runs(&before, &run(310.0, Some(4.0))).verdict, Verdict::NotDistinguishable);
    // A median that is not known is not compared.
    let found = of_runs(&before, &run(310.0, None));
    assert!(found.rows.iter().all(|row| row.metric != Metric::Settled) && found.rows.len() == 3);
    assert!(found.warnings.iter().any(|one| one.contains("in 20 of 20 starts")), "{:?}", found.warnings);
}

#[test]
fn starts_with_loads_of_different_lengths_have_a_warning() {
    let run = |seconds| {
        let mut run = started(6, &[("nginx", Cold::native())]);
        let duration = Duration::from_secs(seconds);
        run.record.plan.start = Some(Start { times: 6, duration, reload: true });
        run.record.plan.load[0].duration = duration;
        run.record.load[0].duration = duration;
        run
    };
    let about = |seconds| {
        let found = of_runs(&run(10), &run(seconds)).warnings;
        found.into_iter().filter(|one| one.contains("start.for")).collect::<Vec<_>>()
    };
    insta::assert_snapshot!(about(5).join("\n"));
    assert_eq!(about(10), [""; 0]);
}

#[test]
fn starts_are_not_compared_with_trials() {
    let starts = started(6, &[("nginx", Cold::native())]);
    let trials = Run::with_load(vec![open_point(1000.0, 32, 10)]);
    for (runs, force) in [((&starts, &trials), false), ((&trials, &starts), true)] {
        let refused = compared(&Compared { runs, labels: None, force });
        let Err(Refusal::NothingInCommon(why)) = refused else { panic!("{refused:?}") };
        insta::assert_snapshot!(why);
    }
}

#[test]
fn messages_are_compared() {
    let run = |of_nginx: u64| {
        let mut run = Run::closed(1);
        for round in 0..5 {
            let jitter = u64::from(round % 2);
            run.direct_trials(round, |trial| trial.all_at_us(900).both_ways_us(100 + jitter, 1000));
            run.push(via("nginx", round).all_at_us(900).both_ways_us(of_nginx + jitter, 1000));
            run.push(via("envoy", round).all_at_us(900).both_ways_us(200 + jitter, 1000));
        }
        run
    };
    let (before, after) = (run(150), run(250));
    let in_one_run = of_labels(&before, "nginx", "envoy");
    let added = row(&in_one_run, "envoy", Metric::AddedMessageP50);
    assert!((added.difference.estimate - 50.0).abs() < 0.5, "{added:?}");
    assert_eq!(added.verdict, Verdict::Worse);
    let of_two_runs = of_runs(&before, &after);
    for metric in [Metric::AddedMessageP50, Metric::AddedMessageP99, Metric::MessageP50] {
        let row = row(&of_two_runs, "nginx", metric);
        assert!((row.difference.estimate - 100.0).abs() < 0.5, "{row:?}");
        assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
    }
    assert_eq!(row(&of_two_runs, "direct", Metric::MessageP50).verdict, Verdict::NotDistinguishable);
}

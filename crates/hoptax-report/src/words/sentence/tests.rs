use hoptax_analysis::fixture::{Run, closed_point, failure, open_point, staged_point, via};
use hoptax_format::spec::{HttpVersion, Retry};
use hoptax_record::Stage;

fn sentence(run: &Run, gateway: &str) -> String {
    let summaries = super::summaries(&run.record, &run.analyse());
    summaries.into_iter().find(|summary| summary.gateway == gateway).expect("a gateway").in_full()
}

#[test]
fn says_what_is_added_taken_and_used() {
    let mut run = Run::closed(32);
    for round in 0..4 {
        run.direct(round, 100, 101);
        let trial =
            via("nginx", round).all_at_us(150 + u64::from(round % 2)).throughput(650 + u64::from(round));
        run.push(trial.gateway_cpu_us(11_700 + 18 * u64::from(round)));
    }
    insta::assert_snapshot!(sentence(&run, "nginx"));
}

#[test]
fn the_least_tax_comes_first() {
    let run = Run::steady(3, 100, &[("envoy", 300), ("nginx", 140)]);
    let summaries = super::summaries(&run.record, &run.analyse());
    let order: Vec<&str> = summaries.iter().map(|summary| &*summary.gateway).collect();
    assert_eq!(order, ["nginx", "envoy"]);
}

#[test]
fn says_not_distinguishable() {
    let mut run = Run::closed(1);
    for round in 0..4 {
        run.direct(round, 100, 180);
        run.push(via("haproxy", round).all_at_us(150 + u64::from(round)));
    }
    insta::assert_snapshot!(sentence(&run, "haproxy"));
}

#[test]
fn a_gain_is_never_a_loss_of_less_than_nothing() {
    let mut run = Run::closed(8);
    for round in 0..4 {
        run.push(via("direct", round).first().all_at_us(100).throughput(100));
        run.push(via("direct", round).last().all_at_us(100).throughput(900));
        let trial = via("nginx", round).all_at_us(150).throughput(700 + 40 * u64::from(round));
        run.push(trial.gateway_cpu_us(11_700 + 18 * u64::from(round)));
    }
    let told = sentence(&run, "nginx");
    insta::assert_snapshot!(told);
    for wrong in [",.", ",,", "noise, ."] {
        assert!(!told.contains(wrong), "{told}");
    }
    for trial in run.trials.iter_mut() {
        trial.gateway = None;
    }
    insta::assert_snapshot!(sentence(&run, "nginx"));
}

#[test]
fn requests_that_never_arrive_are_not_extra_requests() {
    let told = |upstream: u64| {
        let mut run = Run::closed(8);
        for round in 0..4 {
            run.direct(round, 100, 100);
            let mut trial = via("cache", round).all_at_us(150);
            trial.0.ledger.as_mut().expect("made with one").requests = upstream;
            run.push(trial);
        }
        sentence(&run, "cache")
    };
    insta::assert_snapshot!([0, 600, 2000].map(told).join("\n"));
    assert!(!told(1000).contains("upstream"), "{}", told(1000));
}

#[test]
fn a_void_case_claims_nothing() {
    let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
    for round in 0..3 {
        for load in 0..2 {
            run.direct_trials(round, |trial| trial.at_load(load).all_at_us(200));
            run.push(via("limited", round).at_load(load).all_at_us(100 + u64::from(round)).status(500, 950));
            let status = if load == 1 { 950 } else { 0 };
            run.push(via("busy", round).at_load(load).all_at_us(250).status(500, status));
        }
    }
    insta::assert_snapshot!(sentence(&run, "limited"));
    insta::assert_snapshot!(sentence(&run, "busy"));
}

/// Sixty rounds of 3 s. Of the requests via nginx, 6 % take 400 µs longer than the others. The slowest 2
/// % take `slowest` µs more, which depends on the round.
fn tailed(slowest: impl Fn(u32) -> u64) -> Run {
    let mut run = Run::closed(4);
    for round in 0..60 {
        let slowest = slowest(round);
        let of = move |index: u64| match index {
            0..20 => 600 + slowest,
            20..80 => 600,
            _ => 200,
        };
        let start = f64::from(3 * round);
        run.push(via("direct", round).first().all_at_us(100).at_s(start));
        run.push(via("nginx", round).response_times_us((0..1000).map(of)).at_s(start + 1.0));
        run.push(via("direct", round).last().all_at_us(100).at_s(start + 2.0));
    }
    run
}

#[test]
fn states_the_highest_percentile_that_is_resolved() {
    insta::assert_snapshot!(sentence(&tailed(|_| 300), "nginx"));

    // The slowest requests take from 0.7 to 10 ms, in a scattered order of rounds.
    let slowest = |round: u32| (100.0 * 1.08_f64.powi((round * 37 % 60) as i32)) as u64;
    insta::assert_snapshot!(sentence(&tailed(slowest), "nginx"));
}

#[test]
fn one_trial_says_that_there_is_no_interval() {
    insta::assert_snapshot!(sentence(&Run::steady(1, 100, &[("nginx", 150)]), "nginx"));
}

#[test]
fn takes_latency_from_the_open_loop_and_throughput_from_the_most_connections() {
    let mut run = Run::with_load(vec![closed_point(1, 1), closed_point(64, 1), open_point(1000.0, 8, 1)]);
    for round in 0..3 {
        for load in 0..3 {
            run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100 + u64::from(load)));
            run.push(via("nginx", round).at_load(load).all_at_us(200 + 100 * u64::from(load)));
        }
    }
    insta::assert_snapshot!(sentence(&run, "nginx"));
}

#[test]
fn a_steady_rate_says_more_than_stages_and_stages_are_named() {
    let stages = || staged_point("100/s for 1s, ramp to 300/s over 3s", 8);
    let told = |load: Vec<hoptax_plan::LoadPoint>| {
        let mut run = Run::with_load(load);
        for round in 0..3 {
            for load in 0..run.record.load.len() as u32 {
                run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100));
                run.push(via("nginx", round).at_load(load).all_at_us(200 + u64::from(round % 2)));
            }
        }
        sentence(&run, "nginx")
    };
    insta::assert_snapshot!(told(vec![stages()]));
    insta::assert_snapshot!(told(vec![stages(), open_point(1000.0, 8, 1)]));
}

#[test]
fn an_unusual_manner_of_connecting_is_named() {
    let told = |http, requests_per_connection, retry| {
        let point = hoptax_plan::LoadPoint { http, requests_per_connection, retry, ..closed_point(2, 1) };
        let mut run = Run::with_load(vec![point]);
        for round in 0..3 {
            run.direct(round, 100, 100);
            run.push(via("nginx", round).all_at_us(200 + u64::from(round % 2)));
        }
        sentence(&run, "nginx")
    };
    for (http, most, retry, place) in [
        (HttpVersion::Http11, None, Retry::Off, " at 2 connections. "),
        (HttpVersion::Http11, None, Retry::IdleClose, " at 2 connections with retries. "),
        (HttpVersion::Http11, Some(9), Retry::Off, " at 2 connections of 9 requests each. "),
        (HttpVersion::Http10, Some(1), Retry::Off, " at 2 connections in HTTP/1.0 without keep-alive. "),
        (HttpVersion::Http2, None, Retry::Off, " at 2 connections in HTTP/2. "),
    ] {
        let sentence = told(http, most, retry);
        assert!(sentence.contains(place), "{sentence}");
    }
}

#[test]
fn throughput_that_the_generator_held_back_says_so() {
    let told = |direct_busy: u64, via_busy: u64| {
        let mut run = Run::closed(32);
        for round in 0..4 {
            run.direct_trials(round, |trial| trial.throughput(1000).generator_busy(direct_busy));
            let busy = via("nginx", round).throughput(330 + u64::from(round)).generator_busy(via_busy);
            run.push(busy);
        }
        sentence(&run, "nginx")
    };
    insta::assert_snapshot!([told(30, 95), told(95, 30)].join("\n"));
    assert!(!told(30, 30).contains("generator"), "{}", told(30, 30));
}

#[test]
fn a_failed_gateway_says_why() {
    let mut run = Run::steady(2, 100, &[]);
    run.contender("envoy", Some(failure(Stage::Missing, "envoy is not installed")));
    run.contender("late", None);
    insta::assert_snapshot!(["envoy", "late"].map(|gateway| sentence(&run, gateway)).join("\n"));
}

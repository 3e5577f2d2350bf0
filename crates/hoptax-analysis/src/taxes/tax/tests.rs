use super::*;
use crate::Side;
use crate::fixture::{Run, via};

fn tax(run: &Run, gateway: &str) -> Tax {
    run.analyse().case(gateway, 0).expect("measured").tax.clone().expect("a gateway has a tax")
}

#[test]
fn by_hand() {
    // Two rounds. Direct's trials take 100 and 110 µs in the first round, and 100 and 130 µs in the
    // second. The gateway's trials take 150 µs, then 175 µs. The merged medians are 100 and 150 µs, so
    // the gateway adds 50 µs. A draw that takes the first round twice gives 50. A draw that takes the
    // second round twice gives 75. A draw of both rounds gives 50 and is twice as likely. The mean is
    // 56.25, and s*² = 0.75 · 6.25² + 0.25 · 18.75².
    let mut run = Run::closed(1);
    run.direct(0, 100, 110).direct(1, 100, 130);
    run.push(via("nginx", 0).all_at_us(150)).push(via("nginx", 1).all_at_us(175));
    let added = tax(&run, "nginx").added_p50.expect("both rounds have direct").estimate;
    assert!((added.estimate - 50.0).abs() < 0.2, "{added:?}");
    assert_eq!(added.trials, 2);
    // t(1) = 12.706, and n ÷ (n − 1) = 2.
    let half = 12.706 * (2.0 * (0.75 * 6.25 * 6.25 + 0.25 * 18.75 * 18.75_f64)).sqrt();
    assert!((added.half_width().expect("two rounds") / half - 1.0).abs() < 0.01, "{added:?}, {half}");
}

#[test]
fn percentiles_are_merged_and_not_averaged() {
    // One round in ten is slow. The slow round contains a tenth of all times, so the p95 of all times is
    // a time of the slow round. The average of the ten p95s would contain only a tenth of the 900 µs.
    let mut run = Run::closed(1);
    for round in 0..10 {
        run.direct(round, 100, 100);
        run.push(via("nginx", round).all_at_us(if round == 4 { 1000 } else { 100 }));
    }
    let tax = tax(&run, "nginx");
    let added = tax.added_p95.expect("measured").estimate;
    assert!((added.estimate - 900.0).abs() < 1.0, "{added:?}");
    assert!(!added.excludes(0.0), "a third of the draws leave the slow round out: {added:?}");
    assert_eq!(tax.added_p50.expect("measured").estimate.estimate.round(), 0.0);
}

#[test]
fn shared_disturbances_of_a_round_cancel() {
    // Throughput differs ninefold between rounds, but the gateway always halves it.
    let mut run = Run::closed(1);
    for round in 0..5 {
        let direct = 1000 * (1 + 2 * u64::from(round));
        run.direct_trials(round, |trial| trial.throughput(direct));
        run.push(via("nginx", round).throughput(direct / 2));
    }
    let ratio = tax(&run, "nginx").throughput_ratio.expect("measured");
    assert!(ratio.in_run.half_width().expect("five rounds") < 1e-9 && ratio.distinguishable, "{ratio:?}");
    assert!((ratio.estimate.estimate - 0.5).abs() < 1e-9);
}

#[test]
fn the_throughput_ratio_is_a_ratio_of_sums() {
    let mut run = Run::closed(1);
    run.push(via("direct", 0).first().throughput(1000)).push(via("direct", 0).last().throughput(3000));
    run.direct_trials(1, |trial| trial.throughput(8000));
    run.push(via("nginx", 0).throughput(1000)).push(via("nginx", 1).throughput(4000));
    // The gateway completes 5,000 requests in 2 s, and direct 20,000 in 4 s.
    let ratio = tax(&run, "nginx").throughput_ratio.expect("both rounds");
    assert!((ratio.estimate.estimate - 0.5).abs() < 1e-9, "{ratio:?}");
}

#[test]
fn rounds_without_direct_are_left_out() {
    let mut run = Run::closed(1);
    run.direct(0, 100, 100);
    run.push(via("nginx", 0).all_at_us(150)).push(via("nginx", 1).all_at_us(900));
    let added = tax(&run, "nginx").added_p50.expect("one round").estimate;
    assert_eq!((added.trials, added.interval()), (1, None));
    assert!((added.estimate - 50.0).abs() < 0.2);
}

#[test]
fn distinguishable_only_with_an_interval_and_above_the_floor() {
    let clear = Run::steady(5, 100, &[("nginx", 150)]);
    assert!(tax(&clear, "nginx").added_p50.expect("measured").distinguishable);

    // The tax is the same as before, but the two direct trials of a round differ by more than the tax.
    let mut noisy = Run::closed(1);
    for round in 0..5 {
        noisy.direct(round, 100, 180);
        noisy.push(via("nginx", round).all_at_us(170));
    }
    let tax_in_noise = tax(&noisy, "nginx").added_p50.expect("measured");
    assert!(tax_in_noise.in_run.excludes(0.0), "the rounds alone would make it distinguishable");
    assert!(!tax_in_noise.distinguishable, "{tax_in_noise:?}");
    let half = tax_in_noise.estimate.half_width().expect("five rounds");
    assert!((half - 80.0).abs() < 0.5, "the noise floor: {tax_in_noise:?}");

    let one_trial = Run::steady(1, 100, &[("nginx", 5000)]);
    assert!(!tax(&one_trial, "nginx").added_p50.expect("measured").distinguishable);
}

#[test]
fn cpu_and_extra_requests_come_from_the_gateway_only() {
    let mut run = Run::closed(1);
    for round in 0..3 {
        run.direct(round, 100, 100);
        // 1,000 requests cost 18 ms of CPU time and cause 2,000 upstream requests.
        run.push(via("nginx", round).all_at_us(150).gateway_cpu_us(18_000).ledger_requests(2000));
    }
    let tax = tax(&run, "nginx");
    let cpu = tax.cpu_us_per_request.expect("watched");
    assert!((cpu.estimate.estimate - 18.0).abs() < 1e-9 && cpu.distinguishable);
    let extra = tax.extra_upstream_requests.expect("there is a ledger");
    assert!((extra.estimate.estimate - 1.0).abs() < 1e-9 && extra.distinguishable);
}

#[test]
fn unmeasured_figures_are_absent() {
    let mut run = Run::closed(1);
    run.direct(0, 100, 100);
    run.push(via("mine", 0).all_at_us(150).unwatched());
    let tax = tax(&run, "mine");
    assert_eq!((tax.cpu_us_per_request, tax.extra_upstream_requests), (None, None));
}

#[test]
fn nothing_completed_gives_no_tax_and_no_division_by_zero() {
    let mut run = Run::closed(1);
    run.direct(0, 100, 100);
    run.push(via("nginx", 0).nothing_completed());
    let tax = tax(&run, "nginx");
    assert_eq!(tax.added_p50, None);
    assert_eq!(tax.cpu_us_per_request, None);
    assert_eq!(tax.throughput_ratio.expect("zero is a throughput").estimate.estimate, 0.0);
}

/// Five rounds of streams. The gateway adds 50 µs to the answer of each message and 70 µs to each gap.
fn streams() -> Run {
    let mut run = Run::closed(1);
    for round in 0..5 {
        let jitter = u64::from(round % 2);
        run.push(via("direct", round).first().all_at_us(1000).both_ways_us(100, 1000));
        run.push(via("direct", round).last().all_at_us(1000).both_ways_us(100 + jitter, 1000));
        let one = via("nginx", round).all_at_us(1500).gateway_cpu_us(40_000);
        run.push(one.both_ways_us(150 + jitter, 1070));
    }
    run
}

#[test]
fn time_added_to_messages_is_found() {
    let tax = tax(&streams(), "nginx");
    for (metric, expected) in [
        (Metric::AddedMessageP50, 50.0),
        (Metric::AddedMessageP99, 50.0),
        (Metric::AddedFirstMessageP50, 50.0),
        (Metric::AddedGapP50, 70.0),
        (Metric::AddedGapP99, 70.0),
        // The thousand calls have ten messages in each direction.
        (Metric::CpuUsPerMessage, 2.0),
    ] {
        let found = tax.get(metric).expect("measured");
        assert!((found.estimate.estimate / expected - 1.0).abs() < 0.02, "{metric:?}: {found:?}");
        assert!(found.distinguishable && found.estimate.trials == 5, "{metric:?}: {found:?}");
    }
    assert_eq!([Metric::AddedAgeP50, Metric::AddedAgeP99].map(|metric| tax.get(metric)), [None; 2]);
    let json = serde_json::to_value(&tax).expect("plain data");
    let added = json["added_message_p50"]["estimate"].as_f64().expect("a number");
    assert!((added - 50.0).abs() < 1.0 && json.get("added_age_p50").is_none(), "{json}");
}

#[test]
fn intervals_of_messages_come_from_rounds() {
    // The messages of a round are all alike, so only the rounds say how much they scatter: as in
    // `by_hand`.
    let mut run = Run::closed(1);
    for (round, direct_us, via_us) in [(0, [100, 110], 150), (1, [100, 130], 175)] {
        run.push(via("direct", round).first().all_at_us(900).both_ways_us(direct_us[0], 1000));
        run.push(via("direct", round).last().all_at_us(900).both_ways_us(direct_us[1], 1000));
        run.push(via("nginx", round).all_at_us(900).both_ways_us(via_us, 1000));
    }
    let added = *tax(&run, "nginx").get(Metric::AddedMessageP50).expect("measured");
    let half = 12.706 * (2.0 * (0.75 * 6.25 * 6.25 + 0.25 * 18.75 * 18.75_f64)).sqrt();
    let found = added.in_run.half_width().expect("two rounds");
    assert!((found / half - 1.0).abs() < 0.01, "{added:?}, {half}");
}

#[test]
fn ages_are_compared_if_only_the_server_sends_a_stream() {
    let mut run = Run::closed(1);
    for round in 0..3 {
        run.direct_trials(round, |trial| trial.server_stream_us(40, 1000));
        run.push(via("nginx", round).server_stream_us(100, 1000).gateway_cpu_us(22_000));
    }
    let tax = tax(&run, "nginx");
    let estimate = |metric| Some(tax.get(metric)?.estimate.estimate);
    for metric in [Metric::AddedAgeP50, Metric::AddedAgeP99, Metric::AddedFirstMessageP50] {
        let added = estimate(metric).expect("measured");
        assert!((added - 60.0).abs() < 0.5, "{metric:?}: {added}");
    }
    assert_eq!(estimate(Metric::AddedMessageP50), None);
    // Each call has one message of the client and ten of the server.
    assert!((estimate(Metric::CpuUsPerMessage).expect("measured") - 2.0).abs() < 1e-9);
}

#[test]
fn streams_have_costs_and_times_of_their_own() {
    let mut run = Run::closed(1);
    for round in 0..3 {
        let of = |who: &str, us: u64| {
            let one = via(who, round).server_stream_us(us, 1000).first_byte_us(us + 1);
            one.headers_us(us + 2).reach_us(us + 3).open_streams(50)
        };
        run.push(of("direct", 40).first()).push(of("direct", 40).last());
        run.push(of("nginx", 100).gateway_cpu_us(22_000));
    }
    let tax = tax(&run, "nginx");
    let estimate = |metric| tax.get(metric).expect("measured").estimate.estimate;
    for metric in [Metric::AddedFirstByteP50, Metric::AddedHeadersP50, Metric::AddedReachP50] {
        assert!((estimate(metric) - 60.0).abs() < 0.5, "{metric:?}: {}", estimate(metric));
    }
    // 22 ms of CPU time for 50 streams in one second.
    assert!((estimate(Metric::CpuUsPerStreamSecond) - 440.0).abs() < 1e-9);
    let floor = &run.analyse().noise_floor[0];
    assert_eq!(floor.get(Metric::CpuUsPerStreamSecond), Some(0.0));
}

#[test]
fn streams_of_tokens_have_taxes_of_their_own() {
    let mut run = Run::closed(1);
    for round in 0..3 {
        let of = |who: &str, us: u64, upstream: u64| {
            via(who, round).server_stream_us(40, 1000).tokens_us([us, us + 1, us + 2], upstream)
        };
        run.push(of("direct", 40, 10).first()).push(of("direct", 40, 12).last());
        run.push(of("portkey", 100, 14));
    }
    let tax = tax(&run, "portkey");
    let estimate = |metric| tax.get(metric).expect("measured").estimate.estimate;
    for metric in [Metric::AddedFirstEventP50, Metric::AddedFirstAgeP50, Metric::AddedTokenTimeP50] {
        assert!((estimate(metric) - 60.0).abs() < 0.5, "{metric:?}: {}", estimate(metric));
    }
    // 14 tokens per stream, and directly 11 on average.
    assert!((estimate(Metric::ExtraTokensPerStream) - 3.0).abs() < 1e-9);
    let floor = run.analyse().noise_floor[0].get(Metric::ExtraTokensPerStream).expect("measured");
    assert!((floor - 2.0).abs() < 1e-9, "{floor}");
    let side = Side::read(&run.record, &run.trials);
    assert_eq!(side.values(Metric::ExtraTokensPerStream, "portkey", 0), [3.0; 3]);
}

#[test]
fn plain_responses_have_a_tax_of_the_first_byte_alone() {
    let mut run = Run::closed(1);
    for round in 0..3 {
        let of = |who: &str, us: u64| via(who, round).first_byte_us(us);
        run.push(of("direct", 80).first()).push(of("direct", 80).last()).push(of("nginx", 130));
    }
    let tax = tax(&run, "nginx");
    let added = tax.get(Metric::AddedFirstByteP50).expect("measured");
    assert!((added.estimate.estimate - 50.0).abs() < 0.5 && added.distinguishable, "{added:?}");
    assert_eq!(tax.further.len(), 1);
    assert_eq!(run.analyse().noise_floor[0].further.len(), 1);
}

#[test]
fn cpu_time_is_not_divided_by_messages_if_there_were_other_requests_too() {
    let mut run = Run::closed(1);
    for round in 0..3 {
        run.push(via("direct", round).first().both_ways_us(100, 1000).mixed());
        run.push(via("nginx", round).both_ways_us(150, 1000).gateway_cpu_us(40_000).mixed());
    }
    let tax = tax(&run, "nginx");
    assert_eq!(tax.get(Metric::CpuUsPerMessage), None);
    assert!(tax.get(Metric::AddedMessageP50).is_some() && tax.cpu_us_per_request.is_some(), "{tax:?}");
}

#[test]
fn without_streams_there_is_nothing_about_messages() {
    let analysis = Run::steady(3, 100, &[("nginx", 150)]).analyse();
    let json = serde_json::to_string(&(&analysis.cases, &analysis.noise_floor)).expect("plain data");
    for name in ["message", "age_p", "gap"] {
        assert!(!json.contains(name), "{name}: {json}");
    }
    let analysis = streams().analyse();
    let json = serde_json::to_string(&(&analysis.cases, &analysis.noise_floor)).expect("plain data");
    assert_eq!(json.matches("\"cpu_us_per_message\":0.0").count(), 1, "the noise floor: {json}");
    assert_eq!(json.matches("\"messages\":{\"sent\":").count(), 2, "direct and nginx: {json}");
}

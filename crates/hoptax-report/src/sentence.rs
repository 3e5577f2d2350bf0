//! Generates the short answer and the sentences about each gateway from the figures.

use super::answer;
use super::format::Scale;
use super::text::{capital, place, stop, with_interval};
use super::{over_load, tail, void};
use hoptax_analysis::headline;
use hoptax_analysis::{Analysis, Case, Difference, Finding, Load, Severity, competitors};
use hoptax_plan::Metric;
use hoptax_record::DIRECT;
use hoptax_record::RunRecord;
use hoptax_record::report::Summary;
use hoptax_stats::Estimate;

/// A summary for each gateway of the plan. The smallest tax comes first, and gateways without a tax come
/// last.
pub(super) fn summaries(run: &RunRecord, analysis: &Analysis) -> Vec<Summary> {
    let mut gateways: Vec<_> = run.contenders.iter().filter(|contender| contender.label != DIRECT).collect();
    let tax = |label: &str| median(label, analysis).map_or(f64::INFINITY, |(_, tax)| tax.estimate.estimate);
    gateways.sort_by(|one, other| tax(&one.label).total_cmp(&tax(&other.label)));
    let has_answer = answer(run, analysis).is_some();
    gateways
        .into_iter()
        .map(|contender| {
            let (sentence, mut details) = match &contender.failed {
                Some(failure) => {
                    (format!("{} was not measured: {}", contender.label, stop(&failure.message)), Vec::new())
                }
                None => about(&contender.label, analysis),
            };
            // An answer says it for all gateways.
            if !has_answer && let Some((load, _)) = median(&contender.label, analysis) {
                details.extend(over_load::of_gateway(analysis, load, &contender.label));
            }
            Summary { gateway: contender.label.clone(), sentence, details }
        })
        .collect()
}

/// A sentence about the added latency, and further sentences as details.
fn about(gateway: &str, analysis: &Analysis) -> (String, Vec<String>) {
    let cases: Vec<&Case> = analysis.cases.iter().filter(|case| case.gateway == gateway).collect();
    let measured: Vec<&Case> = cases.iter().copied().filter(|case| case.trials > 0).collect();
    let Some(latency) = case_of(&measured, headline::for_latency) else {
        return (nothing(gateway, &cases), Vec::new());
    };
    let extra = latency.tax.as_ref().and_then(|tax| tax.extra_upstream_requests.as_ref());
    let extra = extra.and_then(extra_part);
    let voided = void::codes(latency, analysis);
    if !voided.is_empty() {
        let sentence = format!(
            "{gateway} is void {}: {}. Do not use its figures.",
            place(&latency.load),
            voided.join(", ")
        );
        return (sentence, extra.into_iter().collect());
    }
    let (added, mut details) = latency_parts(latency, analysis);
    if let Some(throughput) = case_of(&measured, headline::for_throughput) {
        let limit = generator_limit(throughput, analysis);
        let voided = void::codes(throughput, analysis);
        match voided.is_empty() {
            true => details.extend(throughput_part(throughput, latency, limit)),
            false => details.push(format!(
                "{} it is void: {}.",
                capital(&place(&throughput.load)),
                voided.join(", ")
            )),
        }
    }
    details.extend(extra);
    (format!("{gateway} {added}."), details)
}

/// Requests that a gateway makes in addition to the client's, or that do not reach the upstream.
fn extra_part(extra: &Difference) -> Option<String> {
    let of = &extra.estimate;
    if !extra.distinguishable || of.estimate.abs() < 0.005 {
        return None;
    }
    Some(match of.estimate {
        missing if missing <= -0.995 => "None of its requests arrive at the upstream.".into(),
        missing if missing < 0.0 => {
            let missing = with_interval(&negated(of), Scale::percent());
            format!("{missing} of its requests do not arrive at the upstream.")
        }
        _ => format!("It makes {} extra upstream requests per request.", with_interval(of, Scale::plain())),
    })
}

/// The load point of the latency headline, and the tax at the median at that load point.
fn median<'a>(gateway: &str, analysis: &'a Analysis) -> Option<(&'a Load, &'a Difference)> {
    let headlines = analysis.headlines(gateway);
    let median = headlines.iter().find(|headline| headline.metric == Metric::AddedP50)?;
    Some((&median.case.load, median.tax))
}

/// The gateway's case at the load point that `choose` returns.
fn case_of<'a>(
    cases: &[&'a Case],
    choose: fn(&mut dyn Iterator<Item = &'a Load>) -> Option<&'a Load>,
) -> Option<&'a Case> {
    let load = choose(&mut cases.iter().map(|case| &case.load))?;
    cases.iter().find(|case| case.load.index == load.index).copied()
}

/// The short answer. It names the gateway that adds least at the median, or says that there is no clear
/// winner. `None` if a finding makes it void, or if fewer than two gateways have an interval at the same load
/// point.
pub(super) fn answer(run: &RunRecord, analysis: &Analysis) -> Option<String> {
    let is_void = |finding: &Finding| finding.concerns.answer && finding.severity == Severity::Void;
    if analysis.findings.iter().any(is_void) {
        return None;
    }
    let competitors = competitors(run, &analysis.prices);
    let ranking = analysis.ranking(&competitors)?;
    Some(answer::in_words(&ranking) + &over_load::in_words(analysis, ranking.load, &competitors))
}

fn nothing(gateway: &str, cases: &[&Case]) -> String {
    match cases.iter().find_map(|case| case.failed.as_ref()) {
        Some(failure) => format!("{gateway} was not measured: {}", stop(&failure.message)),
        None => format!("{gateway} was not measured: the run ended before its first trial."),
    }
}

/// The added latency in words: at the median, and at the highest percentile of the tail that the run
/// resolves. If the median or p99 is too uncertain, a separate sentence says so.
fn latency_parts(case: &Case, analysis: &Analysis) -> (String, Vec<String>) {
    let at = place(&case.load);
    let tax = case.tax.as_ref();
    let Some(median) = tax.and_then(|tax| tax.added_p50.as_ref()) else {
        let none = format!(
            "has no latency tax {at}: in no round did requests complete both directly and through the gateway"
        );
        return (none, Vec::new());
    };
    let p99 = tax.and_then(|tax| tax.added_p99.as_ref());
    if median.estimate.interval().is_none() {
        let p99 = p99.map_or(String::new(), |p99| format!(" and {} at p99", time(p99)));
        let added = format!(
            "adds {} at the median{p99}, {at} (one trial: no interval, not distinguishable from noise)",
            time(median)
        );
        return (added, Vec::new());
    }
    let floor = |metric| analysis.noise_floor.get(case.load.index)?.get(metric);
    let mut clear: Vec<String> = Vec::new();
    let mut doubts: Vec<String> = Vec::new();
    if median.distinguishable {
        clear.push(at_percentile(median, "the median"));
    }
    clear.extend(resolved_tail(case));
    let added = if clear.is_empty() {
        let within = within(median, floor(Metric::AddedP50));
        format!("adds nothing distinguishable from noise at the median {at} {within}")
    } else {
        if !median.distinguishable {
            doubts.push(doubt("the median", median, floor(Metric::AddedP50)));
        }
        format!("adds {} {at}", clear.join(" and "))
    };
    if let Some((p99, tail)) = p99.zip(case.tail) {
        doubts.extend(tail::sentence(&tail, p99));
        if p99.estimate.interval().is_some() && !p99.distinguishable {
            doubts.push(doubt("p99", p99, floor(Metric::AddedP99)));
        }
    }
    (added, doubts)
}

/// The added time at the highest resolved percentile of the tail, in words. `None` if none is resolved.
fn resolved_tail(case: &Case) -> Option<String> {
    let metric = case.tail?.highest_resolved?;
    Some(at_percentile(case.tax.as_ref()?.get(metric)?, metric.plain()?.name()))
}

/// An added time in words: `72 µs (66–78) at the median`.
fn at_percentile(tax: &Difference, which: &str) -> String {
    let less = if tax.estimate.estimate < 0.0 { ", less than direct," } else { "" };
    format!("{} at {which}{less}", interval(tax))
}

/// A sentence about an added time that is not distinguishable from noise.
fn doubt(which: &str, tax: &Difference, floor: Option<f64>) -> String {
    format!("At {which} the difference is not distinguishable from noise {}.", within(tax, floor))
}

/// A tax that is not distinguishable from noise, in words: `(12 µs, −40 to 64; noise ±80 µs)`.
fn within(tax: &Difference, floor: Option<f64>) -> String {
    let noise = floor.map_or(String::new(), |floor| format!("; noise ±{}", Scale::of_us(floor).value(floor)));
    let range = Scale::of_us(tax.estimate.estimate).interval_of(&tax.estimate);
    format!("({}, {range}{noise})", time(tax))
}

fn time(tax: &Difference) -> String {
    Scale::of_us(tax.estimate.estimate).value(tax.estimate.estimate)
}

fn interval(tax: &Difference) -> String {
    with_interval(&tax.estimate, Scale::of_us(tax.estimate.estimate))
}

/// A remark if the load generator limited the gateway's case or direct's. The ratio of their throughputs then
/// does not depend only on the gateway.
fn generator_limit(case: &Case, analysis: &Analysis) -> &'static str {
    let limited = |case: &Case| case.findings.contains(&"generator-saturated");
    match (limited(case), analysis.case(DIRECT, case.load.index).is_some_and(limited)) {
        (true, _) => " (limited by the generator)",
        (false, true) => " (direct was limited by the generator: the true loss may be larger)",
        (false, false) => "",
    }
}

fn throughput_part(case: &Case, latency_case: &Case, limit: &str) -> Option<String> {
    let tax = case.tax.as_ref()?;
    let at =
        if case.load.index == latency_case.load.index { "There".into() } else { capital(&place(&case.load)) };
    let mut parts = Vec::new();
    if let Some(ratio) = &tax.throughput_ratio {
        parts.push(format!("{}{limit}", taken(ratio)));
    }
    if let Some(cpu) = &tax.cpu_us_per_request {
        parts.push(format!(
            "uses {} of CPU per request",
            with_interval(&cpu.estimate, Scale::of_us(cpu.estimate.estimate))
        ));
    }
    let and = if parts.first().is_some_and(|part| part.contains(NOISE)) { ", and " } else { " and " };
    (!parts.is_empty()).then(|| format!("{at} it {}.", parts.join(and)))
}

/// The end of a figure that could be zero.
const NOISE: &str = ", not distinguishable from noise";

fn taken(ratio: &Difference) -> String {
    let estimate = &ratio.estimate;
    let lost = Estimate {
        estimate: 1.0 - estimate.estimate,
        low: estimate.high.map(|high| 1.0 - high),
        high: estimate.low.map(|low| 1.0 - low),
        trials: estimate.trials,
    };
    let in_words = |share: &str| match lost.estimate < 0.0 {
        true => format!("has {share} more throughput than direct"),
        false => format!("takes {share} of the throughput"),
    };
    let share = if lost.estimate < 0.0 { negated(&lost) } else { lost };
    if lost.interval().is_none() {
        let value = Scale::percent().value(share.estimate);
        return in_words(&value) + " (one trial: no interval, not distinguishable from noise)";
    }
    let noise = if ratio.distinguishable { "" } else { NOISE };
    in_words(&with_interval(&share, Scale::percent())) + noise
}

fn negated(estimate: &Estimate) -> Estimate {
    Estimate {
        estimate: -estimate.estimate,
        low: estimate.high.map(|high| -high),
        high: estimate.low.map(|low| -low),
        trials: estimate.trials,
    }
}

#[cfg(test)]
mod tests {
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
        let told = sentence(&run, "nginx");
        insta::assert_snapshot!(told);
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
        let told = sentence(&run, "haproxy");
        insta::assert_snapshot!(told);
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
        let told = sentence(&run, "nginx");
        insta::assert_snapshot!(told);
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
        assert!(told(0).contains(" None of its requests arrive at the upstream."), "{}", told(0));
        assert!(told(600).contains(" of its requests do not arrive at the upstream."), "{}", told(600));
        assert!(told(2000).contains(" extra upstream requests per request."), "{}", told(2000));
        assert!(!told(1000).contains("upstream"), "{}", told(1000));
    }

    #[test]
    fn a_void_case_claims_nothing() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
        for round in 0..3 {
            for load in 0..2 {
                run.push(via("direct", round).first().at_load(load).all_at_us(200));
                run.push(via("direct", round).last().at_load(load).all_at_us(200));
                run.push(
                    via("limited", round).at_load(load).all_at_us(100 + u64::from(round)).status(500, 950),
                );
                let status = if load == 1 { 950 } else { 0 };
                run.push(via("busy", round).at_load(load).all_at_us(250).status(500, status));
            }
        }
        let told = sentence(&run, "limited");
        insta::assert_snapshot!(told);
        let told = sentence(&run, "busy");
        insta::assert_snapshot!(told);
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
        let told = sentence(&tailed(|_| 300), "nginx");
        insta::assert_snapshot!(told);

        // The slowest requests take from 0.7 to 10 ms, in a scattered order of rounds.
        let slowest = |round: u32| (100.0 * 1.08_f64.powi((round * 37 % 60) as i32)) as u64;
        let told = sentence(&tailed(slowest), "nginx");
        insta::assert_snapshot!(told);
    }

    #[test]
    fn one_trial_says_that_there_is_no_interval() {
        let told = sentence(&Run::steady(1, 100, &[("nginx", 150)]), "nginx");
        insta::assert_snapshot!(told);
    }

    #[test]
    fn takes_latency_from_the_open_loop_and_throughput_from_the_most_connections() {
        let mut run = Run::with_load(vec![closed_point(1, 1), closed_point(64, 1), open_point(1000.0, 8, 1)]);
        for round in 0..3 {
            for load in 0..3 {
                run.push(via("direct", round).first().at_load(load).all_at_us(100 + u64::from(load)));
                run.push(via("direct", round).last().at_load(load).all_at_us(100 + u64::from(load)));
                run.push(via("nginx", round).at_load(load).all_at_us(200 + 100 * u64::from(load)));
            }
        }
        let told = sentence(&run, "nginx");
        insta::assert_snapshot!(told);
    }

    #[test]
    fn a_steady_rate_says_more_than_stages_and_stages_are_named() {
        let stages = || staged_point("100/s for 1s, ramp to 300/s over 3s", 8);
        let told = |load: Vec<hoptax_plan::LoadPoint>| {
            let mut run = Run::with_load(load);
            for round in 0..3 {
                for load in 0..run.record.load.len() as u32 {
                    run.push(via("direct", round).first().at_load(load).all_at_us(100));
                    run.push(via("direct", round).last().at_load(load).all_at_us(100));
                    run.push(via("nginx", round).at_load(load).all_at_us(200 + u64::from(round % 2)));
                }
            }
            sentence(&run, "nginx")
        };
        let alone = told(vec![stages()]);
        insta::assert_snapshot!(alone);
        let beside = told(vec![stages(), open_point(1000.0, 8, 1)]);
        insta::assert_snapshot!(beside);
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
                let direct = || via("direct", round).throughput(1000).generator_busy(direct_busy);
                run.push(direct().first()).push(direct().last());
                let busy = via("nginx", round).throughput(330 + u64::from(round)).generator_busy(via_busy);
                run.push(busy);
            }
            sentence(&run, "nginx")
        };
        assert!(told(30, 95).contains("of the throughput (limited by the generator)"), "{}", told(30, 95));
        assert!(told(95, 30).contains("(direct was limited by the generator: the true loss may be larger)"));
        assert!(!told(30, 30).contains("generator"), "{}", told(30, 30));
    }

    #[test]
    fn a_failed_gateway_says_why() {
        let mut run = Run::steady(2, 100, &[]);
        run.contender("envoy", Some(failure(Stage::Missing, "envoy is not installed")));
        assert_eq!(sentence(&run, "envoy"), "envoy was not measured: envoy is not installed.");
        run.contender("late", None);
        assert_eq!(sentence(&run, "late"), "late was not measured: the run ended before its first trial.");
    }
}

//! Generates the short answer and the sentences about each gateway from the figures.

use crate::words::format::Scale;
use crate::words::text::{capital, message_word, place, stop, with_interval};
use crate::words::{answer, over_load, tail, void};
use hoptax_analysis::{Analysis, Case, Difference, Figures, Finding, Load, Severity, competitors, headline};
use hoptax_plan::Metric;
use hoptax_record::report::Summary;
use hoptax_record::{DIRECT, RunRecord};
use hoptax_stats::Estimate;

/// A summary for each gateway of the plan. The smallest tax comes first, and gateways without a tax come
/// last.
pub(crate) fn summaries(run: &RunRecord, analysis: &Analysis) -> Vec<Summary> {
    let mut gateways: Vec<_> = run.contenders.iter().filter(|contender| contender.label != DIRECT).collect();
    let tax = |label: &str| median(label, analysis).map_or(f64::INFINITY, |(_, tax)| tax.estimate.estimate);
    gateways.sort_by(|one, other| tax(&one.label).total_cmp(&tax(&other.label)));
    let has_answer = answer(run, analysis).is_some();
    let message = message_word(&run.plan.targets);
    gateways
        .into_iter()
        .map(|contender| {
            let (sentence, mut details) = match &contender.failed {
                Some(failure) => {
                    (format!("{} was not measured: {}", contender.label, stop(&failure.message)), Vec::new())
                }
                None => about(&contender.label, analysis, message),
            };
            // If there is an answer, it already says for all gateways what changes with the load.
            if !has_answer && let Some((load, _)) = median(&contender.label, analysis) {
                details.extend(over_load::of_gateway(analysis, load, &contender.label));
            }
            Summary { gateway: contender.label.clone(), sentence, details }
        })
        .collect()
}

/// A sentence about the added latency, and further sentences as details.
/// `message` is the word for one message.
fn about(gateway: &str, analysis: &Analysis, message: &str) -> (String, Vec<String>) {
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
    let mut to_messages = added_to_messages(latency, analysis, message);
    if analysis.latency_metric() == Metric::AddedFirstMessageP50 {
        details.splice(0..0, to_messages.map(|added| format!("It {added}.")));
        to_messages = added_to_first_content(latency, analysis);
    }
    let added = match to_messages {
        Some(to_messages) => {
            // Streams that the client ends have no response time.
            let has_whole = latency.tax.as_ref().is_some_and(|tax| tax.added_p50.is_some());
            let of_whole = has_whole.then(|| format!("For whole streams, it {added}."));
            details.splice(0..0, of_whole.into_iter().chain(added_to_first_byte(latency)));
            to_messages
        }
        None => added,
    };
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

/// A sentence about requests that a gateway makes in addition to the client's requests, or about requests
/// that do not reach the upstream. `None` if they are few, or not distinguishable from noise.
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
    let metric = analysis.latency_metric();
    let median = headlines.iter().find(|headline| headline.metric == metric)?;
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
/// point. On a disturbed machine, it only says in which order the gateways are.
pub(crate) fn answer(run: &RunRecord, analysis: &Analysis) -> Option<String> {
    let is_void = |finding: &&Finding| finding.concerns.answer && finding.severity == Severity::Void;
    let mut void = analysis.findings.iter().filter(is_void).map(|finding| finding.concerns.figures);
    let competitors = competitors(run, &analysis.prices);
    let ranking = analysis.ranking(&competitors)?;
    let message = message_word(&run.plan.targets);
    if let Some(first) = void.next() {
        let holds = first == Figures::Machine && void.all(|figures| figures == Figures::Machine);
        return holds.then(|| answer::order_in_words(&ranking, message));
    }
    Some(answer::in_words(&ranking, message) + &over_load::in_words(analysis, ranking.load, &competitors))
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

/// The time added to each message in words, if calls have streams: to its response time, or to its age if
/// only the server sends a stream. `None` without such times.
fn added_to_messages(case: &Case, analysis: &Analysis, message: &str) -> Option<String> {
    let tax = case.tax.as_ref()?;
    let of = |p50: Metric, p99: Metric| Some((p50, tax.get(p50)?, tax.get(p99)));
    let figures = of(Metric::AddedMessageP50, Metric::AddedMessageP99)
        .or_else(|| of(Metric::AddedAgeP50, Metric::AddedAgeP99))?;
    Some(added_to(case, analysis, figures, [&format!("each {message}"), &format!("{message}s")]))
}

/// The time added to the first content in words, like [`added_to_messages`].
fn added_to_first_content(case: &Case, analysis: &Analysis) -> Option<String> {
    let metric = Metric::AddedFirstMessageP50;
    let median = case.tax.as_ref()?.get(metric)?;
    Some(added_to(case, analysis, (metric, median, None), ["the first content"; 2]))
}

/// An added time in words, from its median and p99. `each` and `all` name what it is added to.
fn added_to(
    case: &Case,
    analysis: &Analysis,
    (metric, median, p99): (Metric, &Difference, Option<&Difference>),
    [each, all]: [&str; 2],
) -> String {
    let at = place(&case.load);
    if median.estimate.interval().is_none() {
        let alone = "one trial: no interval, not distinguishable from noise";
        return format!("adds {} to {each} at the median, {at} ({alone})", time(median));
    }
    if !median.distinguishable {
        let floor = analysis.noise_floor.get(case.load.index).and_then(|floor| floor.get(metric));
        let within = within(median, floor);
        return format!("adds nothing distinguishable from noise to {all} at the median {at} {within}");
    }
    let p99 = p99.filter(|p99| p99.distinguishable).map(|p99| at_percentile(p99, "p99"));
    let added: Vec<String> = std::iter::once(at_percentile(median, "the median")).chain(p99).collect();
    format!("adds {} to {each} {at}", added.join(" and "))
}

/// A sentence about the time added to the first byte. `None` if it is not distinguishable from noise.
fn added_to_first_byte(case: &Case) -> Option<String> {
    let added = case.tax.as_ref()?.get(Metric::AddedFirstByteP50).filter(|added| added.distinguishable)?;
    Some(format!("To the first byte of responses, it adds {}.", at_percentile(added, "the median")))
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

/// Follows a figure that could be zero.
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
mod tests;

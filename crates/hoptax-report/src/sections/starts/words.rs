//! The answer of a run of starts, and sentences about each gateway.

use super::interval;
use crate::words::format::{Scale, grouped};
use crate::words::text::{listed, stop};
use hoptax_analysis::{Analysis, Severity, competitors};
use hoptax_record::report::{StartFigures, StartMedian, StartUnderLoad, Summary};
use hoptax_record::start::StartKind;
use hoptax_record::{DIRECT, RunRecord};

/// Number of rounds that were started. Each has two starts of every kind.
pub(crate) fn rounds(analysis: &Analysis) -> u32 {
    let rounds = |one: &StartFigures| (one.measured + one.failed).div_ceil(2);
    analysis.starts.iter().map(|one| rounds(&one.figures)).max().unwrap_or(0)
}

/// Says which gateway is ready first, and which takes longest until it has settled. It puts gateways in an
/// order only if their intervals do not overlap. `None` with a `void` finding, or if fewer than two gateways
/// have intervals.
pub(crate) fn answer(run: &RunRecord, analysis: &Analysis) -> Option<String> {
    if analysis.findings.iter().any(|one| one.severity == Severity::Void && one.concerns.answer) {
        return None;
    }
    let competing = competitors(run, &analysis.prices);
    let of_process = analysis.starts.iter().filter(|one| one.is_of_process());
    let mut ready: Vec<Times<'_>> = of_process
        .filter(|one| competing.contains(&&*one.figures.contender))
        .filter_map(|one| Times::new(&one.figures))
        .filter(|one| one.ready.has_interval())
        .collect();
    ready.sort_by(|one, other| one.ready.at_least().total_cmp(&other.ready.at_least()));
    let first = ready.first().filter(|_| ready.len() > 1)?;
    let leaders: Vec<&Times<'_>> =
        ready.iter().filter(|one| one.ready.low_at_least() <= first.ready.high_at_most()).collect();
    let answer = match leaders.as_slice() {
        [only] => format!("{} is ready first: {} after its start.", only.label, us(&only.ready)),
        several => {
            let each = |one: &&Times<'_>| format!("{} {}", one.label, us(&one.ready));
            let each: Vec<String> = several.iter().map(each).collect();
            format!("No gateway is clearly ready first: {} overlap.", listed(&each))
        }
    };
    Some(answer + &last_settled(&ready).unwrap_or_default())
}

/// A gateway's times in µs.
struct Times<'a> {
    label: &'a str,
    ready: StartMedian,
    settled: Option<StartMedian>,
}

impl<'a> Times<'a> {
    fn new(figures: &'a StartFigures) -> Option<Self> {
        let settled = figures.load.as_ref().and_then(|load| load.settled_s);
        Some(Self {
            label: &figures.contender,
            ready: figures.ready_ms?.times(1e3),
            settled: settled.map(|settled| settled.times(1e6)),
        })
    }
}

/// A sentence about the gateway that settles last, after a space. `None` if none is clearly the last.
fn last_settled(all: &[Times<'_>]) -> Option<String> {
    let settled: Option<Vec<(&Times<'_>, StartMedian)>> =
        all.iter().map(|one| Some((one, one.settled?))).collect();
    let settled = settled?;
    let (last, median) =
        settled.iter().max_by(|one, other| one.1.low_at_least().total_cmp(&other.1.low_at_least()))?;
    let is_clear = settled
        .iter()
        .all(|(one, other)| one.label == last.label || other.high_at_most() < median.low_at_least());
    is_clear.then(|| {
        format!(
            " {} takes longest until it is as fast as later: {} under load, and it is ready after {}.",
            last.label,
            us(median),
            us(&last.ready)
        )
    })
}

/// Sentences about each gateway. The gateway that is ready first comes first.
pub(crate) fn summaries(run: &RunRecord, analysis: &Analysis) -> Vec<Summary> {
    let of = |label: &str, kind: StartKind| {
        let all = analysis.starts.iter().map(|one| &one.figures);
        all.filter(move |one| one.kind == kind).find(|one| one.contender == label)
    };
    let ready = |label: &str| {
        let ready = of(label, StartKind::Start).and_then(|one| one.ready_ms);
        ready.map_or(f64::INFINITY, |ready| ready.at_least())
    };
    let mut labels: Vec<&str> =
        run.contenders.iter().map(|one| &*one.label).filter(|label| *label != DIRECT).collect();
    labels.sort_by(|one, other| ready(one).total_cmp(&ready(other)));
    let summary = |label: &str| {
        let failed = run.contenders.iter().find(|one| one.label == label).and_then(|one| one.failed.as_ref());
        let start = of(label, StartKind::Start);
        let (sentence, mut details) = match (failed, start) {
            (None, Some(start)) if start.ready_ms.is_some() => about(start),
            (failed, start) => {
                let of_start = || start.and_then(|one| one.failure.as_deref());
                let why = failed.map(|failure| &*failure.message).or_else(of_start);
                let why = why.unwrap_or("the run ended before its first start");
                (format!("{label} was not measured: {}", stop(why)), Vec::new())
            }
        };
        details.extend(of(label, StartKind::Reload).and_then(about_reload));
        Summary { gateway: label.to_owned(), sentence, details }
    };
    labels.into_iter().map(summary).collect()
}

/// A sentence about the starts of a gateway, and further sentences.
fn about(start: &StartFigures) -> (String, Vec<String>) {
    let ready = start.ready_ms.map_or(String::new(), |ready| us(&ready.times(1e3)));
    let load = start.load.as_ref();
    let settled = load.and_then(as_fast);
    let sentence = format!(
        "{} is ready {ready} after its start{}.",
        start.contender,
        settled.map_or(String::new(), |settled| format!(", and {settled}"))
    );
    let mut details = Vec::new();
    if let (Some(first), Some(hundredth)) = (start.requests.first_us, start.requests.hundredth_us) {
        details.push(format!("Its first request takes {}, its 100th {}.", us(&first), us(&hundredth)));
    }
    let waiting = load.and_then(|load| Some((load.later_request_s?, load.settled_requests?)));
    if let Some((later, requests)) = waiting.filter(|(later, _)| later.at_least() > 0.0) {
        let count = requests.estimate.map_or(String::new(), |count| format!(" {}", grouped(count)));
        details.push(format!("Until then,{count} requests wait {} longer in all.", us(&later.times(1e6))));
    }
    (sentence, details)
}

/// A sentence about the reloads of a gateway. `None` if they were not measured.
fn about_reload(reload: &StartFigures) -> Option<String> {
    let ready = us(&reload.ready_ms?.times(1e3));
    let settled = reload.load.as_ref().and_then(as_fast);
    let settled = settled.map_or(String::new(), |settled| format!(", and {settled}"));
    Some(format!("After a reload, it answers rightly after {ready}{settled}."))
}

/// Says in words when a gateway has settled.
fn as_fast(load: &StartUnderLoad) -> Option<String> {
    let settled_us = &load.settled_s?.times(1e6);
    // Zero requests until it had settled mean that the gateway was never slow. The medians of its ready time
    // and its settled time can still differ by chance.
    let is_at_once = load.settled_requests.is_some_and(|one| one.estimate == Some(0.0));
    Some(match settled_us.estimate {
        Some(_) if is_at_once => "as fast as later at once".into(),
        Some(_) => format!("as fast as later after {}", us(settled_us)),
        None => {
            let bound = Scale::of_us(settled_us.at_least()).value(settled_us.at_least());
            format!("had not settled after {bound} of load")
        }
    })
}

/// A time in µs with its interval, in words: `5.2 ms (4.9–5.6)`, `more than 10 s`.
fn us(median: &StartMedian) -> String {
    let scale = Scale::of_us(median.at_least());
    match median.estimate {
        Some(value) => format!("{} ({})", scale.value(value), interval(median, scale, "more than")),
        None => format!("more than {}", scale.value(median.at_least())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Reported as _;
    use hoptax_analysis::fixture::starts::{Cold, fail, sample, started};

    fn answer_of(gateways: &[(&str, Cold)]) -> Option<String> {
        started(20, gateways).model().answer.clone()
    }

    #[test]
    fn the_answer_names_the_first_and_the_last() {
        insta::assert_snapshot!(sample().model().answer.clone().expect("two gateways"));
        let never = Cold { settled_s: None, ..Cold::managed() };
        let answer = answer_of(&[("nginx", Cold::native()), ("ocelot", never)]).expect("two gateways");
        insta::assert_snapshot!(answer);
    }

    #[test]
    fn an_order_that_the_intervals_do_not_allow_is_not_claimed() {
        let answer = answer_of(&[("nginx", Cold::native()), ("haproxy", Cold::native())]).expect("two");
        insta::assert_snapshot!(answer);
        let never = Cold { settled_s: None, ..Cold::managed() };
        let answer = answer_of(&[("ocelot", never), ("yarp", never)]).expect("two");
        assert!(!answer.contains("takes longest"), "{answer}");
        assert_eq!(
            started(5, &[("a", Cold::native()), ("b", Cold::managed())]).model().answer,
            None,
            "no intervals"
        );
        assert_eq!(answer_of(&[("nginx", Cold::native())]), None, "nothing to choose from");
    }

    #[test]
    fn each_gateway_has_a_summary() {
        let model = sample().model();
        let sentences: Vec<String> = model.summary.iter().map(Summary::in_full).collect();
        insta::assert_snapshot!(sentences.join("\n"));
    }

    #[test]
    fn a_gateway_that_never_was_ready_has_the_reason() {
        let mut run = sample();
        run.starts
            .iter_mut()
            .filter(|start| start.contender == "yarp")
            .for_each(|start| fail(start, "yarp exited with code 1"));
        let model = run.model();
        insta::assert_snapshot!(model.summary[1].sentence);
        assert_eq!(model.answer, None, "a void finding");
    }
}

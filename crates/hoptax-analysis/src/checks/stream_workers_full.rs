//! `stream-workers-full`: with more streams open, the first content waits in a gateway, although neither
//! upstream nor generator is at its limit.

use super::queued::gateway_busy;
use super::{
    Finding, Measured, Rule, Severity, Subject, about, evidence, most_in_flight, percent, time_in_words,
    tokens,
};
use crate::thresholds::BUSY;
use crate::{Case, Trial};
use serde_json::json;

const CODE: &str = "stream-workers-full";
/// Limit for the p99 of the time to the first content ÷ that with the fewest streams.
const MORE: f64 = 2.0;
/// Smallest growth of this time to report, µs.
const LEAST_US: f64 = 5_000.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "closed loops differ only in their number of streams of tokens, and with more streams the p99 of \
             a gateway's time to the first content is at least {MORE} times as long as with the fewest, and \
             at least {} longer. Direct's does not grow like this. Generator and upstream use less than {} \
             of a CPU",
            time_in_words(LEAST_US),
            percent(BUSY)
        ),
        seen: "Each stream holds a worker of some gateways until it ends. Later streams wait for one.",
        advice: "Start more workers of the gateway, raise the number of streams that each serves, or give it \
                 more CPUs. Otherwise report this number of streams as its limit.",
    }
}

/// Loads of a gateway that differ only in their number of streams.
struct Series<'a> {
    /// The cases with the fewest streams: of the gateway, and of direct.
    fewest: [&'a Case; 2],
    /// Only the smallest number of streams that wait is reported.
    is_reported: bool,
}

impl Series<'_> {
    fn contains(&self, case: &Case) -> bool {
        let of = |case: &Case| (case.load.http, case.load.from.clone(), case.load.requests_per_connection);
        self.fewest[0].gateway == case.gateway && of(self.fewest[0]) == of(case)
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut pairs: Vec<_> = subject.pairs().filter(|(via, _)| is_compared(via.0)).collect();
    pairs.sort_by_key(|(via, _)| most_in_flight(via.0));
    let (mut all, mut findings): (Vec<Series<'_>>, _) = (Vec::new(), Vec::new());
    for (via, direct) in pairs {
        let Some(series) = all.iter_mut().find(|series| series.contains(via.0)) else {
            all.push(Series { fewest: [via.0, direct.0], is_reported: false });
            continue;
        };
        if !series.is_reported
            && let Some(finding) = grown([via, direct], series.fewest)
        {
            series.is_reported = true;
            findings.push(finding);
        }
    }
    findings
}

fn is_compared(case: &Case) -> bool {
    tokens::counts(case).is_some() && !case.load.is_open()
}

/// The p99 of the time to the first content, µs.
fn first_content(case: &Case) -> Option<f64> {
    Some(case.message.as_ref()?.first_message.as_ref()?.p99.as_ref()?.estimate)
}

fn is_idle(trial: &Trial<'_>) -> bool {
    let upstream = trial.record.upstream.as_ref().map_or(0, |usage| usage.cpu_ns);
    trial.generator_utilisation() < BUSY && (upstream as f64) < BUSY * trial.load.measured_ns as f64
}

fn grown([via, direct]: [Measured<'_>; 2], [fewest, fewest_directly]: [&Case; 2]) -> Option<Finding> {
    let (case, trials) = via;
    let [now, before] = [first_content(case)?, first_content(fewest)?];
    let [directly, directly_before] = [first_content(direct.0)?, first_content(fewest_directly)?];
    let grows = |now: f64, before: f64| now >= MORE * before && now - before >= LEAST_US;
    let is_idle = trials.iter().chain(direct.1).all(is_idle);
    if !grows(now, before) || grows(directly, directly_before) || !is_idle {
        return None;
    }
    let busy = trials.iter().filter_map(gateway_busy).reduce(f64::max);
    let busy_in_words = busy.map_or_else(String::new, |busy| {
        format!(" The gateway used or waited for {} of a CPU.", percent(busy))
    });
    let (streams, few) = (most_in_flight(case), most_in_flight(fewest));
    Some(Finding {
        evidence: evidence([
            ("streams", streams.into()),
            ("fewest_streams", few.into()),
            ("first_content_us_p99", now.into()),
            ("first_content_us_p99_of_fewest", before.into()),
            ("first_content_us_p99_of_direct", directly.into()),
            ("gateway_busy", json!(busy)),
        ]),
        message: format!(
            "With {streams} streams, the p99 of the time to the first content is {} via the gateway, and \
             with {few} it is {}. Directly, it is {} and {}. Generator and upstream are not busy, so \
             streams wait in the gateway, for a worker or for a CPU.{busy_in_words}",
            time_in_words(now),
            time_in_words(before),
            time_in_words(directly),
            time_in_words(directly_before)
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    fn trial(label: &str, load: u32, first_us: u64) -> MadeTrial {
        let trial = via(label, 0).at_load(load).server_stream_us(200, 1000).first_message_us(first_us);
        trial.tokens_us([300, 200, 1000], 10).generator_busy(10)
    }

    /// Times to the first content with 1, 8 and 64 streams, directly and via the gateway, ms.
    fn run(direct_ms: [u64; 3], gateway_ms: [u64; 3]) -> Run {
        let points = [1, 8, 64].map(|connections| closed_point(connections, 1));
        let mut run = Run::with_load(points.to_vec()).token_streams(10);
        for (load, (direct, gateway)) in (0..).zip(direct_ms.into_iter().zip(gateway_ms)) {
            run.push(trial("direct", load, direct * 1000).first());
            run.push(trial("litellm", load, gateway * 1000));
        }
        run
    }

    #[test]
    fn raised_at_the_smallest_number_of_streams_that_wait() {
        let findings = raised(&run([50, 51, 52], [60, 140, 900]), CODE);
        assert_eq!(findings[0].evidence["streams"], 8);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_if_direct_waits_too_somebody_is_busy_or_nothing_grows() {
        assert_eq!(raised(&run([50, 110, 120], [60, 140, 240]), CODE), [], "direct waits");
        assert_eq!(raised(&run([50, 50, 50], [60, 80, 110]), CODE), [], "less than twice");
        assert_eq!(raised(&run([1, 1, 1], [1, 3, 5]), CODE), [], "4 ms");
        let mut busy = run([50, 51, 52], [60, 61, 900]);
        for trial in &mut busy.trials {
            trial.load_record.as_mut().expect("measured").cpu.busiest_worker_ns = 900_000_000;
        }
        assert_eq!(raised(&busy, CODE), [], "the generator is busy");
    }
}

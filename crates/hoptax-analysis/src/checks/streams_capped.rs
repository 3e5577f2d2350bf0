//! `streams-capped`: the server allows fewer streams on a connection than the load has.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use hoptax_stats::share;

const CODE: &str = "streams-capped";
/// Limit for the median wait for a stream ÷ the median response time. If a gateway is above this limit and
/// direct is not, the case is void: its response times contain a queue that direct's do not.
const WAITS: f64 = 0.1;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; void if half of the requests via a gateway, but not of direct, wait for a stream for \
             more than {} of the response time",
            percent(WAITS)
        ),
        when: "a server announced that it allows fewer streams on a connection than `streams`".into(),
        seen: "h2load starts its clock after this wait, so none of its figures shows it.",
        advice: "Raise the limit (nginx: `http2_max_concurrent_streams`, HAProxy: \
                 `tune.h2.max-concurrent-streams`, Envoy: `max_concurrent_streams`), or use fewer `streams`.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|measured| of_case(subject, measured)).collect()
}

/// The median wait for a stream, µs, and its share of the median response time.
fn waits(case: &Case) -> Option<(f64, f64)> {
    let wait = case.wait.as_ref()?.stream.p50.as_ref()?.estimate;
    let response = case.response_time.as_ref()?.p50.as_ref()?.estimate;
    Some((wait, share(wait, response)?))
}

fn of_case(subject: &Subject<'_>, (case, _): Measured<'_>) -> Option<Finding> {
    let limit = case.http2.as_ref()?.stream_limit.filter(|limit| *limit < case.load.streams)?;
    let streams = case.load.streams;
    let wait = waits(case);
    let direct = subject.direct(case.load.index).and_then(|(direct, _)| waits(direct));
    let is_long = |wait: Option<(f64, f64)>| wait.is_some_and(|(_, share)| share > WAITS);
    let is_void = !case.is_direct() && is_long(wait) && !is_long(direct);
    let who = if case.is_direct() { "upstream" } else { "gateway" };
    let effect = match wait.filter(|_| is_void) {
        Some((us, share)) => format!(
            "Half of the requests waited {us:.0} µs or longer for a stream, which is {} of the response \
             time, and direct's did not. So the response times contain a queue that direct's do not.",
            percent(share)
        ),
        None => "So fewer requests were in flight than the plan says.".to_owned(),
    };
    Some(Finding {
        evidence: evidence([
            ("limit", limit.into()),
            ("streams", streams.into()),
            ("stream_wait_us", wait.map(|(us, _)| us).into()),
            ("share", wait.map(|(_, share)| share).into()),
        ]),
        message: format!(
            "The {who} allows {limit} streams on a connection, and the load has {streams}. {effect}"
        ),
        advice: format!(
            "Raise the limit (nginx: `http2_max_concurrent_streams`, HAProxy: \
             `tune.h2.max-concurrent-streams`, Envoy: `max_concurrent_streams`), or write `streams: {limit}`."
        ),
        ..about(CODE, if is_void { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "a median wait for a stream above {} of the response time" percent(WAITS);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::record::Http2Tally;
    use hoptax_format::spec::HttpVersion;
    use hoptax_plan::LoadPoint;

    fn run() -> Run {
        Run::with_load(vec![LoadPoint { http: HttpVersion::Http2, streams: 8, ..closed_point(4, 1) }])
    }

    fn limited(trial: MadeTrial, limit: u32) -> MadeTrial {
        trial.http2(Http2Tally {
            stream_limit: Some(limit),
            most_streams: limit.min(8),
            ..Default::default()
        })
    }

    #[test]
    fn raised_as_void_if_only_requests_via_the_gateway_wait() {
        let mut run = run();
        run.push(limited(via("direct", 0), 100).first().waits_us(0, 0, 0));
        run.push(limited(via("nginx", 0), 4).waits_us(0, 50, 0));
        let findings = raised(&run, CODE);
        let share = findings[0].evidence["share"].as_f64().expect("a number");
        assert!(findings[0].evidence["limit"] == 4 && (share - 0.25).abs() < 0.01, "{share}");
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn a_warning_if_nobody_waits_or_direct_waits_too() {
        let mut run = run();
        run.push(limited(via("direct", 0), 4).first().waits_us(0, 50, 0));
        run.push(limited(via("nginx", 0), 4).waits_us(0, 50, 0));
        run.push(limited(via("haproxy", 0), 7));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_if_the_limit_is_enough_or_unknown() {
        let mut run = run();
        run.push(limited(via("direct", 0), 8).first());
        run.push(via("nginx", 0).http2(Http2Tally::default()).waits_us(0, 50, 0)).push(via("older", 0));
        assert_eq!(raised(&run, CODE), []);
    }
}

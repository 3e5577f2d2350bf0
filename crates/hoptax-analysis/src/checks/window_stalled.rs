//! `window-stalled`: requests waited for a flow-control window.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use hoptax_stats::share;

const CODE: &str = "window-stalled";
/// Limit for the time in which requests waited for a window ÷ the time in which they were in flight.
const STALLED: f64 = 0.01;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "requests spent more than {} of their time with an empty flow-control window, so that they could \
             not send their bodies",
            percent(STALLED)
        ),
        seen: "A window of 65,535 bytes holds an upload of 1 MiB back sixteen times, for a round trip each, \
               so the time grows with the distance.",
        advice: "Raise the window of the server that receives the bodies (nginx: `http2_body_preread_size`, \
                 HAProxy: `tune.h2.initial-window-size`, Envoy: `initial_stream_window_size`).",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|measured| of_case(subject, measured)).collect()
}

fn stalled(case: &Case) -> Option<f64> {
    let http2 = case.http2.as_ref()?;
    share(http2.window_stalled_ns as f64, http2.stream_ns as f64)
}

fn of_case(subject: &Subject<'_>, (case, _): Measured<'_>) -> Option<Finding> {
    let share = stalled(case).filter(|share| *share > STALLED)?;
    let of_direct = subject.direct(case.load.index).and_then(|(direct, _)| stalled(direct));
    let than_direct = match of_direct.filter(|_| !case.is_direct()) {
        Some(of_direct) => format!(" For direct, it is {}.", percent(of_direct)),
        None => String::new(),
    };
    let who = if case.is_direct() { "upstream" } else { "gateway" };
    Some(Finding {
        evidence: evidence([
            ("share", share.into()),
            ("share_of_direct", of_direct.into()),
            ("window_wait_p99_us", window_p99(case).into()),
        ]),
        message: format!(
            "Requests spent {} of their time with an empty flow-control window: the {who} let them send only \
             a part of their bodies.{than_direct}",
            percent(share)
        ),
        advice: "Raise the window of the server that receives the bodies (nginx: `http2_body_preread_size`, \
                 HAProxy: `tune.h2.initial-window-size`, Envoy: `initial_stream_window_size`), or report \
                 this as a cost of its settings."
            .into(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

fn window_p99(case: &Case) -> Option<f64> {
    Some(case.wait.as_ref()?.window.p99.as_ref()?.estimate)
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "windows empty for more than {} of the time" percent(STALLED);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::record::Http2Tally;

    fn run(stalled_ns: u64) -> Run {
        let mut run = Run::closed(1);
        let tally = |window_stalled_ns| Http2Tally {
            window_stalled_ns,
            stream_ns: 1_000_000_000,
            ..Http2Tally::default()
        };
        run.push(via("direct", 0).first().http2(tally(1_000_000)).waits_us(0, 0, 0));
        run.push(via("nginx", 0).http2(tally(stalled_ns)).waits_us(0, 0, 40));
        run
    }

    #[test]
    fn raised_by_more_than_a_hundredth_of_the_time() {
        insta::assert_snapshot!(texts(&raised(&run(20_000_000), CODE)));
    }

    #[test]
    fn not_raised_by_a_hundredth_or_without_bodies() {
        let run = run(10_000_000).with([via("haproxy", 0).http2(Http2Tally::default())]);
        assert_eq!(raised(&run, CODE), []);
    }
}

//! `unasked`: bytes arrived on connections that had no request in flight.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence};
use hoptax_stats::share;

const CODE: &str = "unasked";
/// Limit for the number of connections on which unexpected bytes arrived ÷ the number of requests. Above this
/// share the case is void, because answers may belong to other requests.
const MOST: f64 = 0.01;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above one affected connection per {:.0} requests", 1.0 / MOST),
        when: "bytes arrived on a connection that had no request in flight. The generator closes such a \
               connection"
            .into(),
        seen: "Taken for the answer to the next request, these bytes would give it a response time near \
               zero.",
        advice: "Look at the answer with `curl -v`. Look for a body longer than announced, a second answer, \
                 or a body after HEAD or 304.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(of_case).collect()
}

fn of_case((case, trials): Measured<'_>) -> Option<Finding> {
    let unasked: u64 = trials.iter().map(|trial| trial.load.connections.unasked).sum();
    let sent: u64 = trials.iter().map(|trial| trial.load.lifetime.sent).sum();
    let share = share(unasked as f64, sent as f64).filter(|_| unasked > 0)?;
    Some(Finding {
        evidence: evidence([("unasked", unasked.into()), ("sent", sent.into()), ("share", share.into())]),
        message: format!(
            "Bytes arrived on {unasked} connections that had no request in flight, and the generator closed \
             these connections. Other answers may also have arrived before their requests were sent. The \
             response times of such answers are too short."
        ),
        ..about(CODE, if share > MOST { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn raised_by_one_connection_and_void_by_many() {
        let run = Run::closed(1).with([via("one", 0).unasked(1), via("many", 0).unasked(20)]);
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }
}

//! `abuse-guard`: a server took the load for an attack.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence};

const CODE: &str = "abuse-guard";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: "a server ended a connection of HTTP/2 with ENHANCE_YOUR_CALM".into(),
        seen: "Servers count resets, pings and other frames against floods. Traffic Server ends a connection \
               after 200 resets in a minute, and a client's timeouts are resets.",
        advice: "Raise the server's limits against floods, or set a longer `timeout`, so that fewer requests \
                 are reset.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(of_case).collect()
}

fn of_case((case, trials): Measured<'_>) -> Option<Finding> {
    let calmed = case.http2.as_ref()?.calmed;
    if calmed == 0 {
        return None;
    }
    let affected =
        trials.iter().filter(|trial| trial.load.http2.is_some_and(|http2| http2.calmed > 0)).count();
    let who = if case.is_direct() { "upstream" } else { "gateway" };
    let ended = if calmed == 1 { "a connection".to_owned() } else { format!("{calmed} connections") };
    Some(Finding {
        evidence: evidence([("connections", calmed.into()), ("trials", affected.into())]),
        message: format!(
            "The {who} ended {ended} with ENHANCE_YOUR_CALM, in {affected} of {} trials: it took the load \
             for an attack. The figures show its protection against attacks, not its cost.",
            trials.len()
        ),
        ..about(CODE, Severity::Void, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::record::Http2Tally;

    #[test]
    fn raised_as_void_by_a_single_connection() {
        let mut run = Run::closed(1);
        let tally = |calmed| Http2Tally { goaways: calmed, calmed, ..Http2Tally::default() };
        run.push(via("direct", 0).first().http2(tally(0)));
        run.push(via("trafficserver", 0).http2(tally(1))).push(via("trafficserver", 1).http2(tally(0)));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_by_other_ends_of_connections() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).http2(Http2Tally { goaways: 9, resets: 9, ..Http2Tally::default() }));
        run.push(via("haproxy", 0));
        assert_eq!(raised(&run, CODE), []);
    }
}

//! `connections-unserved`: some connections got no response, although the others got several.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::figures::case::responses;
use crate::thresholds::SERVED;
use hoptax_format::histogram::{rank, value_at_rank};
use hoptax_format::record::LoadRecord;
use hoptax_stats::share;

const CODE: &str = "connections-unserved";
/// Limit for the share of connections that were not served. Above this share the case is void, because its
/// load differs too much from the plan's load. `connections-short` has the same limit.
const ANOTHER_CASE: f64 = 0.1;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above {} of the connections", percent(ANOTHER_CASE)),
        when: format!(
            "a connection had requests in a trial and got no response, while the others got {SERVED} or more \
            on average"
        ),
        seen: "Percentiles then describe only the clients that were served. With `maxconn 100`, HAProxy \
               never answered 100 of 200 connections, but only 0.2 % of the requests failed.",
        advice: "Raise the limit of connections (HAProxy: `maxconn`, nginx: `worker_connections`), or \
                 request fewer connections.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(of_case).collect()
}

/// Connections of a trial that were not served. Zero if too few responses arrived to say so.
fn unserved(load: &LoadRecord) -> u64 {
    let unanswered = load.occupancy.as_ref().map_or(0, |occupancy| occupancy.unanswered);
    let served = load.connections.asked.saturating_sub(unanswered);
    let is_clear = served > 0 && load.counts.completed >= SERVED * served;
    if is_clear { unanswered } else { 0 }
}

fn of_case((case, trials): Measured<'_>) -> Option<Finding> {
    // Connections that wait for a gateway that restarts are no sign of a limit.
    let loads = || trials.iter().filter(|trial| trial.record.events.is_empty()).map(|trial| trial.load);
    let waiting: u64 = loads().map(unserved).sum();
    let asked: u64 = loads().map(|load| load.connections.asked).sum();
    let share = share(waiting as f64, asked as f64).filter(|_| waiting > 0)?;
    let most = loads().max_by_key(|load| unserved(load))?;
    let responses = responses(loads())?;
    let served = asked - waiting;
    let median = value_at_rank(&responses, responses.len().saturating_sub(served) + rank(0.5, served));
    Some(Finding {
        evidence: evidence([
            ("asked", most.connections.asked.into()),
            ("unserved", unserved(most).into()),
            ("median_of_others", median.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "{} of {} connections never got a response in a trial. Half of the others got at least \
             {median}. So the figures describe only the clients that were served, under the load of these \
             clients.",
            unserved(most),
            most.connections.asked
        ),
        advice: format!(
            "Raise the limit of connections (HAProxy: `maxconn`, nginx: `worker_connections`), or request \
             at most {} connections.",
            most.connections.asked - unserved(most)
        ),
        ..about(CODE, if share > ANOTHER_CASE { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn void_if_half_of_the_clients_wait() {
        let mut run = Run::closed(32).with([via("direct", 0).first().responses(&[31; 32])]);
        let counts: Vec<u64> = [0; 16].into_iter().chain([62; 16]).collect();
        run.push(via("haproxy", 0).responses(&counts)).push(via("haproxy", 1).responses(&counts));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn one_connection_of_many_is_a_warning_and_none_is_no_finding() {
        let mut run = Run::closed(32);
        let counts: Vec<u64> = [0].into_iter().chain([32; 31]).collect();
        run.push(via("haproxy", 0).responses(&counts));
        assert_eq!(raised(&run, CODE)[0].severity, Severity::Warning);
        let run = Run::closed(32).with([via("nginx", 0).responses(&[31; 32]), via("older", 0)]);
        assert_eq!(raised(&run, CODE), []);
    }
}

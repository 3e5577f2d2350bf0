//! Outcomes of requests, summed over trials.

use crate::trials::trial::Trial;
use hoptax_format::record::Counts;

/// Requests that ended in a timeout or an error.
pub(crate) fn failures(counts: &Counts) -> u64 {
    counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses
}

pub(crate) fn sum_counts(trials: &[Trial<'_>]) -> Counts {
    let mut sum = Counts::default();
    for counts in trials.iter().map(|trial| &trial.load.counts) {
        sum.scheduled += counts.scheduled;
        sum.sent += counts.sent;
        sum.retried += counts.retried;
        sum.completed += counts.completed;
        sum.ended_by_client += counts.ended_by_client;
        sum.ok += counts.ok;
        sum.timeouts += counts.timeouts;
        sum.connect_errors += counts.connect_errors;
        sum.resets += counts.resets;
        sum.bad_responses += counts.bad_responses;
        sum.unsent += counts.unsent;
        sum.in_flight += counts.in_flight;
        for (status, count) in &counts.status {
            *sum.status.entry(*status).or_default() += count;
        }
        for (status, count) in &counts.grpc {
            *sum.grpc.entry(status.clone()).or_default() += count;
        }
        sum.trailers_lost += counts.trailers_lost;
        for (check, count) in &counts.failed_checks {
            *sum.failed_checks.entry(check.clone()).or_default() += count;
        }
        for (cause, count) in &counts.causes {
            *sum.causes.entry(*cause).or_default() += count;
        }
        for (error, count) in &counts.errors {
            *sum.errors.entry(error.clone()).or_default() += count;
        }
    }
    sum
}

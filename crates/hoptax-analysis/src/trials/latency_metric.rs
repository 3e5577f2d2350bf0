//! The metric in which a report compares gateways first.

use super::trial::Trial;
use hoptax_record::Metric;
use hoptax_record::report::Case;

/// The metric of the latency headline. If calls have streams, it is the time that a gateway adds to a message
/// at the median: to its response time, or to its age if only the server sends a stream. For streams of
/// tokens, it is the time added to the first content. Otherwise it is the time added to a request. `has` says
/// whether a metric is measured.
pub fn latency_metric(has: impl Fn(&Metric) -> bool) -> Metric {
    if has(&Metric::AddedFirstEventP50) && has(&Metric::AddedFirstMessageP50) {
        return Metric::AddedFirstMessageP50;
    }
    Metric::HEADLINES_OF_MESSAGES.into_iter().find(has).unwrap_or(Metric::AddedP50)
}

/// The metric of the latency headline of these cases: see [`latency_metric`].
pub fn metric_of_cases(cases: &[Case]) -> Metric {
    let taxes = || cases.iter().filter_map(|case| case.tax.as_ref());
    latency_metric(|metric| taxes().any(|tax| tax.get(*metric).is_some()))
}

/// The metric of the latency headline of these trials: see [`latency_metric`].
pub fn metric_of_trials(trials: &[Trial<'_>]) -> Metric {
    let has = |times| trials.iter().any(|trial| trial.times(times).is_some());
    latency_metric(|metric| metric.times().is_some_and(has))
}

//! Metrics of a single trial.

use crate::trials::counts::failures;
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_stats::{Statistic, share};

/// The percentile that this metric is, of [`Metric::times`]. Absent if the metric does not use a
/// percentile.
pub(crate) fn percentile(metric: Metric) -> Option<Statistic> {
    let quantile = metric.quantile()?;
    Statistic::ALL.into_iter().find(|statistic| statistic.quantile() == Some(quantile))
}

/// CPU times of the gateway.
pub(crate) const OF_CPU: [Metric; 3] =
    [Metric::CpuUsPerRequest, Metric::CpuUsPerMessage, Metric::CpuUsPerStreamSecond];

/// True for percentiles of times, added times and CPU times.
pub(crate) fn is_time(metric: Metric) -> bool {
    OF_CPU.contains(&metric) || metric.quantile().is_some()
}

/// The value of a metric in one trial. For a metric relative to direct, this is the trial's own figure,
/// before the comparison with direct.
pub(crate) fn of_trial(metric: Metric, trial: &Trial<'_>) -> Option<f64> {
    match metric {
        Metric::Throughput | Metric::ThroughputRatio => Some(trial.throughput()),
        Metric::CpuUsPerRequest | Metric::CpuUsPerMessage | Metric::CpuUsPerStreamSecond => {
            trial.gateway_us_and_divisor(metric).and_then(|(cpu_us, divisor)| share(cpu_us, divisor))
        }
        Metric::ExtraUpstreamRequests => trial.extra_upstream_requests(),
        Metric::ExtraTokensPerStream => trial.upstream_tokens().map(|(tokens, streams)| tokens / streams),
        Metric::ErrorShare => share(failures(&trial.load.counts) as f64, trial.load.counts.scheduled as f64),
        Metric::GoodputShare => trial.good().and_then(|(good, due)| share(good as f64, due as f64)),
        Metric::GoodRate => Some(trial.good()?.0 as f64 / trial.seconds()),
        Metric::MemoryRssBytes => Some(trial.record.gateway.as_ref()?.rss_bytes_max as f64),
        Metric::MemoryPssBytes => Some(trial.record.gateway.as_ref()?.pss_bytes_max? as f64),
        _ => percentile(metric)?.of(trial.times(metric.times()?)?),
    }
}

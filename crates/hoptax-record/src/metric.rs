//! The metrics used in budgets, comparisons, taxes and prices, and their properties.

use serde::{Deserialize, Serialize};

/// A metric of budgets and comparisons. Times are in µs. A ratio of 1 means that no throughput is lost.
/// Shares are 0 to 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Added response time at the median, µs.
    AddedP50,
    /// Added response time at the 90th percentile, µs.
    AddedP90,
    /// Added response time at the 95th percentile, µs.
    AddedP95,
    /// Added response time at the 99th percentile, µs.
    AddedP99,
    /// Throughput via the gateway ÷ direct throughput.
    ThroughputRatio,
    /// CPU time of the gateway per request, µs.
    CpuUsPerRequest,
    /// Upstream requests per client request, minus 1.
    ExtraUpstreamRequests,
    /// Errors and timeouts ÷ scheduled requests.
    ErrorShare,
    /// Largest resident set (RSS) of the gateway's processes in a trial, bytes. With several trials, the mean
    /// of their largest values.
    MemoryRssBytes,
    /// Largest proportional set (PSS) of the gateway's processes in a trial, bytes. With several trials, the
    /// mean of their largest values.
    MemoryPssBytes,
    /// Response time at the median, µs.
    P50,
    /// Response time at the 90th percentile, µs.
    P90,
    /// Response time at the 95th percentile, µs.
    P95,
    /// Response time at the 99th percentile, µs.
    P99,
    /// Response time at the 99.9th percentile, µs.
    #[serde(rename = "p99.9")]
    P999,
    /// Throughput, requests/s.
    Throughput,
    /// Time from the start of the gateway's process until it accepts connections, µs. Like the metrics below,
    /// it exists only in runs with `start`.
    Listening,
    /// Time from the start of the gateway's process until its first right answer, µs.
    Ready,
    /// Response time of the first request after a start, µs.
    FirstRequest,
    /// Time from the start of the gateway's process until response times have settled, µs.
    Settled,
}

/// The kind of quantity that a metric measures. It determines the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// µs.
    Time,
    /// Requests per second.
    Rate,
    /// Bytes.
    Bytes,
    /// A throughput ÷ another throughput; 1 means no loss.
    Ratio,
    /// A part of a whole, 0 to 1.
    Share,
    /// A count per request.
    PerRequest,
}

/// Properties of a metric.
#[derive(Debug, Clone, Copy)]
struct Properties {
    name: &'static str,
    quantity: Quantity,
    /// The percentile of response times, 0 to 1; absent if the metric is not a percentile.
    quantile: Option<f64>,
    /// The metric from which this metric is computed, if this metric compares a gateway with direct. For
    /// example, added response times are computed from response times. Absent for other metrics.
    plain: Option<Metric>,
}

impl Properties {
    const fn of(name: &'static str, quantity: Quantity) -> Self {
        Self { name, quantity, quantile: None, plain: None }
    }

    const fn percentile(name: &'static str, quantile: f64) -> Self {
        Self { quantile: Some(quantile), ..Self::of(name, Quantity::Time) }
    }

    const fn against_direct(self, plain: Metric) -> Self {
        Self { plain: Some(plain), ..self }
    }
}

impl Metric {
    /// All metrics, in the order in which reports list them.
    pub const ALL: [Self; 20] = [
        Self::AddedP50,
        Self::AddedP90,
        Self::AddedP95,
        Self::AddedP99,
        Self::ThroughputRatio,
        Self::CpuUsPerRequest,
        Self::ExtraUpstreamRequests,
        Self::ErrorShare,
        Self::MemoryRssBytes,
        Self::MemoryPssBytes,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::Throughput,
        Self::Listening,
        Self::Ready,
        Self::FirstRequest,
        Self::Settled,
    ];

    /// The metrics of a tax, in the order in which reports list them.
    pub const TAXES: [Self; 7] = [
        Self::AddedP50,
        Self::AddedP90,
        Self::AddedP95,
        Self::AddedP99,
        Self::ThroughputRatio,
        Self::CpuUsPerRequest,
        Self::ExtraUpstreamRequests,
    ];

    /// The metrics of a price, in the order in which reports list them.
    pub const PRICES: [Self; 5] =
        [Self::AddedP50, Self::AddedP99, Self::CpuUsPerRequest, Self::ThroughputRatio, Self::MemoryRssBytes];

    /// The metrics of starts. Only runs with `start` have them, and such runs have no other metrics.
    pub const STARTS: [Self; 4] = [Self::Listening, Self::Ready, Self::FirstRequest, Self::Settled];

    const fn properties(self) -> Properties {
        use Properties as Of;
        match self {
            Self::AddedP50 => Of::percentile("added_p50", 0.5).against_direct(Self::P50),
            Self::AddedP90 => Of::percentile("added_p90", 0.9).against_direct(Self::P90),
            Self::AddedP95 => Of::percentile("added_p95", 0.95).against_direct(Self::P95),
            Self::AddedP99 => Of::percentile("added_p99", 0.99).against_direct(Self::P99),
            Self::ThroughputRatio => {
                Of::of("throughput_ratio", Quantity::Ratio).against_direct(Self::Throughput)
            }
            Self::CpuUsPerRequest => Of::of("cpu_us_per_request", Quantity::Time),
            Self::ExtraUpstreamRequests => Of::of("extra_upstream_requests", Quantity::PerRequest),
            Self::ErrorShare => Of::of("error_share", Quantity::Share),
            Self::MemoryRssBytes => Of::of("memory_rss_bytes", Quantity::Bytes),
            Self::MemoryPssBytes => Of::of("memory_pss_bytes", Quantity::Bytes),
            Self::P50 => Of::percentile("p50", 0.5),
            Self::P90 => Of::percentile("p90", 0.9),
            Self::P95 => Of::percentile("p95", 0.95),
            Self::P99 => Of::percentile("p99", 0.99),
            Self::P999 => Of::percentile("p99.9", 0.999),
            Self::Throughput => Of::of("throughput", Quantity::Rate),
            Self::Listening => Of::of("listening", Quantity::Time),
            Self::Ready => Of::of("ready", Quantity::Time),
            Self::FirstRequest => Of::of("first_request", Quantity::Time),
            Self::Settled => Of::of("settled", Quantity::Time),
        }
    }

    /// The metric's name in plans and JSON.
    pub fn name(self) -> &'static str {
        self.properties().name
    }

    /// The metric in words, for people who do not read the plan.
    pub fn words(self) -> &'static str {
        match self {
            Self::AddedP50 => "added p50",
            Self::AddedP90 => "added p90",
            Self::AddedP95 => "added p95",
            Self::AddedP99 => "added p99",
            Self::ThroughputRatio => "throughput ÷ direct's",
            Self::CpuUsPerRequest => "CPU per request",
            Self::ExtraUpstreamRequests => "extra upstream requests",
            Self::ErrorShare => "errors",
            Self::MemoryRssBytes => "memory (RSS)",
            Self::MemoryPssBytes => "memory (PSS)",
            Self::FirstRequest => "first request",
            plain => plain.name(),
        }
    }

    /// The kind of quantity.
    pub fn quantity(self) -> Quantity {
        self.properties().quantity
    }

    /// The percentile of response times, 0 to 1; absent if the metric is not a percentile.
    pub fn quantile(self) -> Option<f64> {
        self.properties().quantile
    }

    /// The metric from which this metric is computed, if this metric compares a gateway with direct. For
    /// example, added response times are computed from response times. Absent for other metrics.
    pub fn plain(self) -> Option<Self> {
        self.properties().plain
    }

    /// Whether the metric is part of a tax.
    pub fn is_tax(self) -> bool {
        Self::TAXES.contains(&self)
    }

    /// Whether the metric is measured by starts of gateways, and not by trials.
    pub fn is_start(self) -> bool {
        Self::STARTS.contains(&self)
    }

    /// The value of a tax or a price in this metric if the gateway or the feature costs nothing.
    pub fn neutral(self) -> f64 {
        if self.quantity() == Quantity::Ratio { 1.0 } else { 0.0 }
    }

    /// Whether a larger value is worse.
    pub fn grows_worse(self) -> bool {
        !matches!(self.quantity(), Quantity::Ratio | Quantity::Rate)
    }

    /// Whether the metric is a time in µs.
    pub fn is_time(self) -> bool {
        self.quantity() == Quantity::Time
    }

    /// The unit in JSON; `1` for a ratio, a share and a count per request.
    pub fn unit(self) -> &'static str {
        match self.quantity() {
            Quantity::Time => "us",
            Quantity::Bytes => "bytes",
            Quantity::Rate => "requests/s",
            Quantity::Ratio | Quantity::Share | Quantity::PerRequest => "1",
        }
    }

    /// Whether the metric is zero for most gateways. A relative change of such a metric would be meaningless.
    pub fn is_mostly_zero(self) -> bool {
        matches!(self.quantity(), Quantity::Share | Quantity::PerRequest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_names_that_plans_use() {
        for name in
            ["added_p50", "p99.9", "throughput", "first_request", "memory_pss_bytes", "cpu_us_per_request"]
        {
            let metric: Metric = serde_json::from_value(name.into()).expect("a metric");
            assert_eq!(metric.name(), name);
        }
        let mut distinct: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            assert_eq!(serde_json::from_value::<Metric>(metric.name().into()).expect("a metric"), metric);
        }
    }

    #[test]
    fn metrics_compared_with_direct_are_taxes() {
        for metric in Metric::ALL {
            assert!(metric.plain().is_none() || metric.is_tax(), "{metric:?}");
            assert!(metric.plain().is_none_or(|plain| plain.quantile() == metric.quantile()), "{metric:?}");
        }
    }
}

//! The metrics used in budgets, comparisons, taxes and prices, and their properties.

use serde::{Deserialize, Serialize};

/// A metric of budgets and comparisons. Times are in µs. A ratio of 1 means that no throughput is lost.
/// Shares are 0 to 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = add_other_names)]
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
    /// Added time to the first byte of the response at the median, µs.
    AddedFirstByteP50,
    /// Added response time of messages at the median, µs. Like the other metrics of messages, it exists only
    /// if targets have streams.
    AddedMessageP50,
    /// Added response time of messages at the 99th percentile, µs.
    AddedMessageP99,
    /// Added time to the first message at the median, µs; of tokens, to the first content.
    #[serde(alias = "added_first_content_p50")]
    AddedFirstMessageP50,
    /// Added age of messages at the median, µs.
    AddedAgeP50,
    /// Added age of messages at the 99th percentile, µs.
    AddedAgeP99,
    /// Added gap between messages at the median, µs.
    AddedGapP50,
    /// Added gap between messages at the 99th percentile, µs.
    AddedGapP99,
    /// Added time to the head of the response of a stream at the median, µs.
    AddedHeadersP50,
    /// Added time until the last connection has a message that all get, at the median, µs. Only with fan-out.
    AddedReachP50,
    /// CPU time of the gateway in the measured time ÷ messages due in it, in both directions, µs.
    CpuUsPerMessage,
    /// CPU time of the gateway ÷ (open streams × seconds), µs.
    CpuUsPerStreamSecond,
    /// Memory of the gateway for each open stream, bytes: the slope of its largest resident set (RSS) over
    /// load points that differ only in their number of streams.
    BytesPerStream,
    /// Added time to the first event of a stream of tokens, with content or without, at the median, µs.
    AddedFirstEventP50,
    /// Added age of the first token of a stream at the median, µs.
    AddedFirstAgeP50,
    /// Added time per token (TPOT) at the median, µs.
    AddedTokenTimeP50,
    /// Tokens that the upstream sent ÷ streams that it began, minus the same of direct.
    ExtraTokensPerStream,
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
    /// Time to the first byte of the response at the median, µs.
    FirstByteP50,
    /// Response time of messages at the median, µs.
    MessageP50,
    /// Response time of messages at the 99th percentile, µs.
    MessageP99,
    /// Time to the first message at the median, µs; of tokens, to the first content.
    #[serde(alias = "first_content_p50")]
    FirstMessageP50,
    /// Age of messages at the median, µs.
    AgeP50,
    /// Age of messages at the 99th percentile, µs.
    AgeP99,
    /// Gap between messages at the median, µs.
    GapP50,
    /// Gap between messages at the 99th percentile, µs.
    GapP99,
    /// Time to the head of the response of a stream at the median, µs.
    HeadersP50,
    /// Time until the last connection has a message that all get, at the median, µs.
    ReachP50,
    /// Time to the first event of a stream of tokens, with content or without, at the median, µs.
    FirstEventP50,
    /// Age of the first token of a stream at the median, µs.
    FirstAgeP50,
    /// Time per token (TPOT) at the median, µs.
    TokenTimeP50,
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
    /// A count per request or per stream.
    PerRequest,
}

/// Times whose percentiles are metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Response times of requests.
    Response,
    /// Times to the first byte of responses.
    FirstByte,
    /// Response times of messages.
    Message,
    /// Times to the first message.
    FirstMessage,
    /// Ages of messages.
    Age,
    /// Gaps between messages.
    Gap,
    /// Times to the heads of the responses of streams.
    Headers,
    /// Times until the last connection has a message that all get.
    Reach,
    /// Times to the first events of streams of tokens.
    FirstEvent,
    /// Ages of the first tokens of streams.
    FirstAge,
    /// Times per token of streams.
    TokenTime,
}

/// Properties of a metric.
#[derive(Debug, Clone, Copy)]
struct Properties {
    name: &'static str,
    quantity: Quantity,
    /// The times, and their percentile, 0 to 1; absent if the metric is not a percentile.
    percentile: Option<(Times, f64)>,
    /// The metric from which this metric is computed, if this metric compares a gateway with direct. For
    /// example, added response times are computed from response times. Absent for other metrics.
    plain: Option<Metric>,
}

impl Properties {
    const fn of(name: &'static str, quantity: Quantity) -> Self {
        Self { name, quantity, percentile: None, plain: None }
    }

    const fn percentile(name: &'static str, quantile: f64) -> Self {
        Self { percentile: Some((Times::Response, quantile)), ..Self::of(name, Quantity::Time) }
    }

    const fn message(name: &'static str, times: Times, quantile: f64) -> Self {
        Self { percentile: Some((times, quantile)), ..Self::of(name, Quantity::Time) }
    }

    const fn against_direct(self, plain: Metric) -> Self {
        Self { plain: Some(plain), ..self }
    }
}

impl Metric {
    /// All metrics, in the order in which reports list them.
    pub const ALL: [Self; 50] = [
        Self::AddedP50,
        Self::AddedP90,
        Self::AddedP95,
        Self::AddedP99,
        Self::ThroughputRatio,
        Self::CpuUsPerRequest,
        Self::ExtraUpstreamRequests,
        Self::AddedFirstByteP50,
        Self::AddedMessageP50,
        Self::AddedMessageP99,
        Self::AddedFirstMessageP50,
        Self::AddedAgeP50,
        Self::AddedAgeP99,
        Self::AddedGapP50,
        Self::AddedGapP99,
        Self::AddedHeadersP50,
        Self::AddedReachP50,
        Self::CpuUsPerMessage,
        Self::CpuUsPerStreamSecond,
        Self::BytesPerStream,
        Self::AddedFirstEventP50,
        Self::AddedFirstAgeP50,
        Self::AddedTokenTimeP50,
        Self::ExtraTokensPerStream,
        Self::ErrorShare,
        Self::MemoryRssBytes,
        Self::MemoryPssBytes,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::Throughput,
        Self::FirstByteP50,
        Self::MessageP50,
        Self::MessageP99,
        Self::FirstMessageP50,
        Self::AgeP50,
        Self::AgeP99,
        Self::GapP50,
        Self::GapP99,
        Self::HeadersP50,
        Self::ReachP50,
        Self::FirstEventP50,
        Self::FirstAgeP50,
        Self::TokenTimeP50,
        Self::Listening,
        Self::Ready,
        Self::FirstRequest,
        Self::Settled,
    ];

    /// The metrics of every tax, in the order in which reports list them.
    pub const TAXES: [Self; 7] = [
        Self::AddedP50,
        Self::AddedP90,
        Self::AddedP95,
        Self::AddedP99,
        Self::ThroughputRatio,
        Self::CpuUsPerRequest,
        Self::ExtraUpstreamRequests,
    ];

    /// Further metrics of a tax, in the order in which reports list them. Only taxes of messages have them.
    pub const OF_MESSAGES: [Self; 12] = [
        Self::AddedMessageP50,
        Self::AddedMessageP99,
        Self::AddedFirstMessageP50,
        Self::AddedAgeP50,
        Self::AddedAgeP99,
        Self::AddedGapP50,
        Self::AddedGapP99,
        Self::AddedHeadersP50,
        Self::AddedReachP50,
        Self::CpuUsPerMessage,
        Self::CpuUsPerStreamSecond,
        Self::BytesPerStream,
    ];

    /// Further metrics of a tax, after those of messages. Only taxes of streams of tokens have them.
    pub const OF_TOKENS: [Self; 4] = [
        Self::AddedFirstEventP50,
        Self::AddedFirstAgeP50,
        Self::AddedTokenTimeP50,
        Self::ExtraTokensPerStream,
    ];

    /// The metrics that replace [`Self::AddedP50`] as the latency headline of calls with streams. The first
    /// of them that was measured is the headline. That of tokens is [`Self::AddedFirstMessageP50`].
    pub const HEADLINES_OF_MESSAGES: [Self; 2] = [Self::AddedMessageP50, Self::AddedAgeP50];

    /// Other names of metrics in plans.
    const OTHER_NAMES: [(&'static str, Self); 2] = [
        ("added_first_content_p50", Self::AddedFirstMessageP50),
        ("first_content_p50", Self::FirstMessageP50),
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
            Self::AddedFirstByteP50 => {
                Of::message("added_first_byte_p50", Times::FirstByte, 0.5).against_direct(Self::FirstByteP50)
            }
            Self::AddedMessageP50 => {
                Of::message("added_message_p50", Times::Message, 0.5).against_direct(Self::MessageP50)
            }
            Self::AddedMessageP99 => {
                Of::message("added_message_p99", Times::Message, 0.99).against_direct(Self::MessageP99)
            }
            Self::AddedFirstMessageP50 => Of::message("added_first_message_p50", Times::FirstMessage, 0.5)
                .against_direct(Self::FirstMessageP50),
            Self::AddedAgeP50 => Of::message("added_age_p50", Times::Age, 0.5).against_direct(Self::AgeP50),
            Self::AddedAgeP99 => Of::message("added_age_p99", Times::Age, 0.99).against_direct(Self::AgeP99),
            Self::AddedGapP50 => Of::message("added_gap_p50", Times::Gap, 0.5).against_direct(Self::GapP50),
            Self::AddedGapP99 => Of::message("added_gap_p99", Times::Gap, 0.99).against_direct(Self::GapP99),
            Self::AddedHeadersP50 => {
                Of::message("added_headers_p50", Times::Headers, 0.5).against_direct(Self::HeadersP50)
            }
            Self::AddedReachP50 => {
                Of::message("added_reach_p50", Times::Reach, 0.5).against_direct(Self::ReachP50)
            }
            Self::CpuUsPerMessage => Of::of("cpu_us_per_message", Quantity::Time),
            Self::CpuUsPerStreamSecond => Of::of("cpu_us_per_stream_second", Quantity::Time),
            Self::BytesPerStream => Of::of("bytes_per_stream", Quantity::Bytes),
            Self::AddedFirstEventP50 => Of::message("added_first_event_p50", Times::FirstEvent, 0.5)
                .against_direct(Self::FirstEventP50),
            Self::AddedFirstAgeP50 => {
                Of::message("added_first_age_p50", Times::FirstAge, 0.5).against_direct(Self::FirstAgeP50)
            }
            Self::AddedTokenTimeP50 => {
                Of::message("added_token_time_p50", Times::TokenTime, 0.5).against_direct(Self::TokenTimeP50)
            }
            Self::ExtraTokensPerStream => Of::of("extra_tokens_per_stream", Quantity::PerRequest),
            Self::ErrorShare => Of::of("error_share", Quantity::Share),
            Self::MemoryRssBytes => Of::of("memory_rss_bytes", Quantity::Bytes),
            Self::MemoryPssBytes => Of::of("memory_pss_bytes", Quantity::Bytes),
            Self::P50 => Of::percentile("p50", 0.5),
            Self::P90 => Of::percentile("p90", 0.9),
            Self::P95 => Of::percentile("p95", 0.95),
            Self::P99 => Of::percentile("p99", 0.99),
            Self::P999 => Of::percentile("p99.9", 0.999),
            Self::Throughput => Of::of("throughput", Quantity::Rate),
            Self::FirstByteP50 => Of::message("first_byte_p50", Times::FirstByte, 0.5),
            Self::MessageP50 => Of::message("message_p50", Times::Message, 0.5),
            Self::MessageP99 => Of::message("message_p99", Times::Message, 0.99),
            Self::FirstMessageP50 => Of::message("first_message_p50", Times::FirstMessage, 0.5),
            Self::AgeP50 => Of::message("age_p50", Times::Age, 0.5),
            Self::AgeP99 => Of::message("age_p99", Times::Age, 0.99),
            Self::GapP50 => Of::message("gap_p50", Times::Gap, 0.5),
            Self::GapP99 => Of::message("gap_p99", Times::Gap, 0.99),
            Self::HeadersP50 => Of::message("headers_p50", Times::Headers, 0.5),
            Self::ReachP50 => Of::message("reach_p50", Times::Reach, 0.5),
            Self::FirstEventP50 => Of::message("first_event_p50", Times::FirstEvent, 0.5),
            Self::FirstAgeP50 => Of::message("first_age_p50", Times::FirstAge, 0.5),
            Self::TokenTimeP50 => Of::message("token_time_p50", Times::TokenTime, 0.5),
            Self::Listening => Of::of("listening", Quantity::Time),
            Self::Ready => Of::of("ready", Quantity::Time),
            Self::FirstRequest => Of::of("first_request", Quantity::Time),
            Self::Settled => Of::of("settled", Quantity::Time),
        }
    }

    /// All metrics of a tax that are not in [`Self::TAXES`], in the order in which reports list them: the
    /// first byte, then those of messages and of tokens.
    pub fn further() -> impl Iterator<Item = Self> {
        std::iter::once(Self::AddedFirstByteP50).chain(Self::OF_MESSAGES).chain(Self::OF_TOKENS)
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
            Self::AddedFirstByteP50 => "added p50 of first bytes",
            Self::AddedMessageP50 => "added p50 of messages",
            Self::AddedMessageP99 => "added p99 of messages",
            Self::AddedFirstMessageP50 => "added p50 of first messages",
            Self::AddedAgeP50 => "added p50 of ages",
            Self::AddedAgeP99 => "added p99 of ages",
            Self::AddedGapP50 => "added p50 of gaps",
            Self::AddedGapP99 => "added p99 of gaps",
            Self::AddedHeadersP50 => "added p50 of headers",
            Self::AddedReachP50 => "added p50 of reach",
            Self::CpuUsPerMessage => "CPU per message",
            Self::CpuUsPerStreamSecond => "CPU per stream and second",
            Self::BytesPerStream => "memory per stream",
            Self::AddedFirstEventP50 => "added p50 of first events",
            Self::AddedFirstAgeP50 => "added p50 of first tokens' ages",
            Self::AddedTokenTimeP50 => "added p50 of times per token",
            Self::ExtraTokensPerStream => "extra tokens per stream",
            Self::FirstByteP50 => "p50 of first bytes",
            Self::MessageP50 => "p50 of messages",
            Self::MessageP99 => "p99 of messages",
            Self::FirstMessageP50 => "p50 of first messages",
            Self::AgeP50 => "p50 of ages",
            Self::AgeP99 => "p99 of ages",
            Self::GapP50 => "p50 of gaps",
            Self::GapP99 => "p99 of gaps",
            Self::HeadersP50 => "p50 of headers",
            Self::ReachP50 => "p50 of reach",
            Self::FirstEventP50 => "p50 of first events",
            Self::FirstAgeP50 => "p50 of first tokens' ages",
            Self::TokenTimeP50 => "p50 of times per token",
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

    /// The percentile, 0 to 1; absent if the metric is not a percentile.
    pub fn quantile(self) -> Option<f64> {
        self.properties().percentile.map(|(_, quantile)| quantile)
    }

    /// The times that the percentile is taken from; absent if the metric is not a percentile.
    pub fn times(self) -> Option<Times> {
        self.properties().percentile.map(|(times, _)| times)
    }

    /// The metric from which this metric is computed, if this metric compares a gateway with direct. For
    /// example, added response times are computed from response times. Absent for other metrics.
    pub fn plain(self) -> Option<Self> {
        self.properties().plain
    }

    /// Whether the metric is part of a tax.
    pub fn is_tax(self) -> bool {
        Self::TAXES.into_iter().chain(Self::further()).any(|metric| metric == self)
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

    /// The unit in JSON; `1` for a ratio, a share and a count per request or stream.
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

/// Adds the other names of metrics to their schema.
fn add_other_names(schema: &mut schemars::Schema) {
    let Some(serde_json::Value::Array(names)) = schema.get_mut("oneOf") else { return };
    for (other, metric) in Metric::OTHER_NAMES {
        let description = format!("Another name of `{}`.", metric.name());
        names.push(serde_json::json!({ "const": other, "description": description, "type": "string" }));
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
        assert_eq!(Metric::AddedReachP50.times(), Some(Times::Reach));
        assert_eq!(Metric::AddedAgeP99.times().zip(Metric::AddedAgeP99.quantile()), Some((Times::Age, 0.99)));
        let mut distinct: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), Metric::ALL.len());
        for (other, metric) in Metric::OTHER_NAMES {
            assert_eq!(serde_json::from_value::<Metric>(other.into()).expect("a metric"), metric);
        }
        for metric in Metric::ALL {
            assert_eq!(serde_json::from_value::<Metric>(metric.name().into()).expect("a metric"), metric);
        }
    }

    #[test]
    fn metrics_compared_with_direct_are_taxes() {
        for metric in Metric::ALL {
            assert!(metric.plain().is_none() || metric.is_tax(), "{metric:?}");
            assert!(metric.plain().is_none_or(|plain| plain.quantile() == metric.quantile()), "{metric:?}");
            assert!(metric.plain().is_none_or(|plain| plain.times() == metric.times()), "{metric:?}");
        }
    }
}

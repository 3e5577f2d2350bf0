//! The metrics used in budgets, comparisons, taxes and prices, and their properties.

use self::Properties as Of;
use serde::{Deserialize, Serialize};

/// Declares the metrics in the order in which reports list them. Each has a name in plans and JSON, the words
/// for people who do not read the plan, and its properties.
macro_rules! metrics {
    ($($(#[$meta:meta])* $metric:ident($name:literal, $words:literal) = $properties:expr;)*) => {
        /// A metric of budgets and comparisons. Times are in µs. A ratio of 1 means that no throughput is
        /// lost. Shares are 0 to 1.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        #[schemars(transform = add_other_names)]
        pub enum Metric {
            $($(#[$meta])* $metric,)*
        }

        impl Metric {
            /// All metrics, in the order in which reports list them.
            pub const ALL: [Self; 52] = [$(Self::$metric),*];

            /// The metric's name in plans and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$metric => $name,)*
                }
            }

            /// The metric in words, for people who do not read the plan.
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$metric => $words,)*
                }
            }

            fn properties(self) -> Properties {
                match self {
                    $(Self::$metric => $properties,)*
                }
            }
        }
    };
}

metrics! {
    /// Added response time at the median, µs.
    AddedP50("added_p50", "added p50") = Of::times(Times::Response, 0.5).against(Metric::P50);
    /// Added response time at the 90th percentile, µs.
    AddedP90("added_p90", "added p90") = Of::times(Times::Response, 0.9).against(Metric::P90);
    /// Added response time at the 95th percentile, µs.
    AddedP95("added_p95", "added p95") = Of::times(Times::Response, 0.95).against(Metric::P95);
    /// Added response time at the 99th percentile, µs.
    AddedP99("added_p99", "added p99") = Of::times(Times::Response, 0.99).against(Metric::P99);
    /// Throughput via the gateway ÷ direct throughput.
    ThroughputRatio("throughput_ratio", "throughput ÷ direct's") =
        Of::quantity(Quantity::Ratio).against(Metric::Throughput);
    /// CPU time of the gateway per request, µs.
    CpuUsPerRequest("cpu_us_per_request", "CPU per request") = Of::quantity(Quantity::Time);
    /// Upstream requests per client request, minus 1.
    ExtraUpstreamRequests("extra_upstream_requests", "extra upstream requests") =
        Of::quantity(Quantity::PerRequest);
    /// Added time to the first byte of the response at the median, µs.
    AddedFirstByteP50("added_first_byte_p50", "added p50 of first bytes") =
        Of::times(Times::FirstByte, 0.5).against(Metric::FirstByteP50);
    /// Added response time of messages at the median, µs. Like the other metrics of messages, it exists only
    /// if targets have streams.
    AddedMessageP50("added_message_p50", "added p50 of messages") =
        Of::times(Times::Message, 0.5).against(Metric::MessageP50);
    /// Added response time of messages at the 99th percentile, µs.
    AddedMessageP99("added_message_p99", "added p99 of messages") =
        Of::times(Times::Message, 0.99).against(Metric::MessageP99);
    /// Added time to the first message at the median, µs; of tokens, to the first content.
    #[serde(alias = "added_first_content_p50")]
    AddedFirstMessageP50("added_first_message_p50", "added p50 until the first message or content") =
        Of::times(Times::FirstMessage, 0.5).against(Metric::FirstMessageP50);
    /// Added age of messages at the median, µs.
    AddedAgeP50("added_age_p50", "added p50 of ages") = Of::times(Times::Age, 0.5).against(Metric::AgeP50);
    /// Added age of messages at the 99th percentile, µs.
    AddedAgeP99("added_age_p99", "added p99 of ages") = Of::times(Times::Age, 0.99).against(Metric::AgeP99);
    /// Added gap between messages at the median, µs.
    AddedGapP50("added_gap_p50", "added p50 of gaps") = Of::times(Times::Gap, 0.5).against(Metric::GapP50);
    /// Added gap between messages at the 99th percentile, µs.
    AddedGapP99("added_gap_p99", "added p99 of gaps") = Of::times(Times::Gap, 0.99).against(Metric::GapP99);
    /// Added time to the head of the response of a stream at the median, µs.
    AddedHeadersP50("added_headers_p50", "added p50 of headers") =
        Of::times(Times::Headers, 0.5).against(Metric::HeadersP50);
    /// Added time until the last connection has a message that all get, at the median, µs. Only with fan-out.
    AddedReachP50("added_reach_p50", "added p50 of reach") =
        Of::times(Times::Reach, 0.5).against(Metric::ReachP50);
    /// CPU time of the gateway in the measured time ÷ messages due in it, in both directions, µs.
    CpuUsPerMessage("cpu_us_per_message", "CPU per message or token") = Of::quantity(Quantity::Time);
    /// CPU time of the gateway ÷ (open streams × seconds), µs.
    CpuUsPerStreamSecond("cpu_us_per_stream_second", "CPU per stream and second") =
        Of::quantity(Quantity::Time);
    /// Memory of the gateway for each open stream, bytes: the slope of its largest resident set (RSS) over
    /// load points that differ only in their number of streams.
    BytesPerStream("bytes_per_stream", "memory per stream") = Of::quantity(Quantity::Bytes);
    /// Added time to the first event of a stream of tokens, with content or without, at the median, µs.
    AddedFirstEventP50("added_first_event_p50", "added p50 of first events") =
        Of::times(Times::FirstEvent, 0.5).against(Metric::FirstEventP50);
    /// Added age of the first token of a stream at the median, µs.
    AddedFirstAgeP50("added_first_age_p50", "added p50 of first tokens' ages") =
        Of::times(Times::FirstAge, 0.5).against(Metric::FirstAgeP50);
    /// Added time per token (TPOT) at the median, µs.
    AddedTokenTimeP50("added_token_time_p50", "added p50 of times per token") =
        Of::times(Times::TokenTime, 0.5).against(Metric::TokenTimeP50);
    /// Tokens that the upstream sent ÷ streams that it began, minus the same of direct.
    ExtraTokensPerStream("extra_tokens_per_stream", "extra tokens per stream") =
        Of::quantity(Quantity::PerRequest);
    /// Errors and timeouts ÷ scheduled requests.
    ErrorShare("error_share", "errors") = Of::quantity(Quantity::Share);
    /// Requests within all limits of `goodput` ÷ requests due.
    GoodputShare("goodput_share", "requests within all limits") = Of::quantity(Quantity::Ratio);
    /// Requests within all limits of `goodput`, requests/s.
    GoodRate("good_rate", "requests within all limits per second") = Of::quantity(Quantity::Rate);
    /// Largest resident set (RSS) of the gateway's processes in a trial, bytes. With several trials, the mean
    /// of their largest values.
    MemoryRssBytes("memory_rss_bytes", "memory (RSS)") = Of::quantity(Quantity::Bytes);
    /// Largest proportional set (PSS) of the gateway's processes in a trial, bytes. With several trials, the
    /// mean of their largest values.
    MemoryPssBytes("memory_pss_bytes", "memory (PSS)") = Of::quantity(Quantity::Bytes);
    /// Response time at the median, µs.
    P50("p50", "p50") = Of::times(Times::Response, 0.5);
    /// Response time at the 90th percentile, µs.
    P90("p90", "p90") = Of::times(Times::Response, 0.9);
    /// Response time at the 95th percentile, µs.
    P95("p95", "p95") = Of::times(Times::Response, 0.95);
    /// Response time at the 99th percentile, µs.
    P99("p99", "p99") = Of::times(Times::Response, 0.99);
    /// Response time at the 99.9th percentile, µs.
    #[serde(rename = "p99.9")]
    P999("p99.9", "p99.9") = Of::times(Times::Response, 0.999);
    /// Throughput, requests/s.
    Throughput("throughput", "throughput") = Of::quantity(Quantity::Rate);
    /// Time to the first byte of the response at the median, µs.
    FirstByteP50("first_byte_p50", "p50 of first bytes") = Of::times(Times::FirstByte, 0.5);
    /// Response time of messages at the median, µs.
    MessageP50("message_p50", "p50 of messages") = Of::times(Times::Message, 0.5);
    /// Response time of messages at the 99th percentile, µs.
    MessageP99("message_p99", "p99 of messages") = Of::times(Times::Message, 0.99);
    /// Time to the first message at the median, µs; of tokens, to the first content.
    #[serde(alias = "first_content_p50")]
    FirstMessageP50("first_message_p50", "p50 until the first message or content") =
        Of::times(Times::FirstMessage, 0.5);
    /// Age of messages at the median, µs.
    AgeP50("age_p50", "p50 of ages") = Of::times(Times::Age, 0.5);
    /// Age of messages at the 99th percentile, µs.
    AgeP99("age_p99", "p99 of ages") = Of::times(Times::Age, 0.99);
    /// Gap between messages at the median, µs.
    GapP50("gap_p50", "p50 of gaps") = Of::times(Times::Gap, 0.5);
    /// Gap between messages at the 99th percentile, µs.
    GapP99("gap_p99", "p99 of gaps") = Of::times(Times::Gap, 0.99);
    /// Time to the head of the response of a stream at the median, µs.
    HeadersP50("headers_p50", "p50 of headers") = Of::times(Times::Headers, 0.5);
    /// Time until the last connection has a message that all get, at the median, µs.
    ReachP50("reach_p50", "p50 of reach") = Of::times(Times::Reach, 0.5);
    /// Time to the first event of a stream of tokens, with content or without, at the median, µs.
    FirstEventP50("first_event_p50", "p50 of first events") = Of::times(Times::FirstEvent, 0.5);
    /// Age of the first token of a stream at the median, µs.
    FirstAgeP50("first_age_p50", "p50 of first tokens' ages") = Of::times(Times::FirstAge, 0.5);
    /// Time per token (TPOT) at the median, µs.
    TokenTimeP50("token_time_p50", "p50 of times per token") = Of::times(Times::TokenTime, 0.5);
    /// Time from the start of the gateway's process until it accepts connections, µs. Like the metrics below,
    /// it exists only in runs with `start`.
    Listening("listening", "listening") = Of::quantity(Quantity::Time);
    /// Time from the start of the gateway's process until its first right answer, µs.
    Ready("ready", "ready") = Of::quantity(Quantity::Time);
    /// Response time of the first request after a start, µs.
    FirstRequest("first_request", "first request") = Of::quantity(Quantity::Time);
    /// Time from the start of the gateway's process until response times have settled, µs.
    Settled("settled", "settled") = Of::quantity(Quantity::Time);
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
    /// A throughput ÷ another throughput, or ÷ the rate of requests due; 1 means no loss.
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
    quantity: Quantity,
    /// The times, and their percentile, 0 to 1; absent if the metric is not a percentile.
    percentile: Option<(Times, f64)>,
    /// The metric from which this metric is computed, if this metric compares a gateway with direct. For
    /// example, added response times are computed from response times. Absent for other metrics.
    plain: Option<Metric>,
}

impl Properties {
    fn quantity(quantity: Quantity) -> Self {
        Self { quantity, percentile: None, plain: None }
    }

    fn times(times: Times, quantile: f64) -> Self {
        Self { percentile: Some((times, quantile)), ..Self::quantity(Quantity::Time) }
    }

    fn against(self, plain: Metric) -> Self {
        Self { plain: Some(plain), ..self }
    }
}

impl Metric {
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

    /// All metrics of a tax that are not in [`Self::TAXES`], in the order in which reports list them: the
    /// first byte, then those of messages and of tokens.
    pub fn further() -> impl Iterator<Item = Self> {
        std::iter::once(Self::AddedFirstByteP50).chain(Self::OF_MESSAGES).chain(Self::OF_TOKENS)
    }

    /// True if this is the metric's name, or its other name.
    pub fn is_called(self, name: &str) -> bool {
        self.name() == name || Self::OTHER_NAMES.iter().any(|(other, of)| *other == name && *of == self)
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
            assert!(metric.is_called(other) && metric.is_called(metric.name()));
            assert!(!Metric::P50.is_called(other) && !metric.is_called("p50"));
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

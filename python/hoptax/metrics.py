"""The metrics of a run, with their units and the places where the JSON report has them."""

from __future__ import annotations

from .estimate import Estimate
from .quantity import PER_REQUEST, RATE, RATIO, SHARE, SIZE, TIME

PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9", "max", "mean")
TAXES = {
    "added_p50": TIME, "added_p90": TIME, "added_p95": TIME, "added_p99": TIME, "throughput_ratio": RATIO,
    "cpu_us_per_request": TIME, "extra_upstream_requests": PER_REQUEST, "added_first_byte_p50": TIME,
    "added_message_p50": TIME, "added_message_p99": TIME, "added_first_message_p50": TIME, "added_age_p50": TIME,
    "added_age_p99": TIME, "added_gap_p50": TIME, "added_gap_p99": TIME, "added_headers_p50": TIME,
    "added_reach_p50": TIME, "cpu_us_per_message": TIME, "cpu_us_per_stream_second": TIME, "bytes_per_stream": SIZE,
    "added_first_event_p50": TIME, "added_first_age_p50": TIME, "added_token_time_p50": TIME,
    "extra_tokens_per_stream": PER_REQUEST,
}
# Times of messages: the member of `message` in the JSON report, and the percentile. Only streams have them.
MESSAGES = {
    "message_p50": ("response_time", "p50"), "message_p99": ("response_time", "p99"),
    "first_message_p50": ("first_message", "p50"), "age_p50": ("age", "p50"), "age_p99": ("age", "p99"),
    "gap_p50": ("gap", "p50"), "gap_p99": ("gap", "p99"), "headers_p50": ("headers", "p50"), "reach_p50": ("reach", "p50"),
    "first_event_p50": ("first_event", "p50"), "first_age_p50": ("first_age", "p50"), "token_time_p50": ("token_time", "p50"),
}
# Other names of metrics. The first message of a model's response is the first event with content.
OTHER_NAMES = {"added_first_content_p50": "added_first_message_p50", "first_content_p50": "first_message_p50"}
PRICES = {
    "added_p50": TIME, "added_p99": TIME, "cpu_us_per_request": TIME, "throughput_ratio": RATIO,
    "memory_rss_bytes": SIZE,
}
# The JSON report has no intervals of these metrics. `hoptax gate` computes the intervals.
GATED = {
    "error_share": SHARE, "goodput_share": SHARE, "good_rate": RATE, "memory_rss_bytes": SIZE, "memory_pss_bytes": SIZE,
}
# Members of a start: the place in the JSON report, and the factor to µs.
STARTS = {
    "listening": (("listening_ms",), 1e3), "ready": (("ready_ms",), 1e3),
    "first_request": (("requests", "first_us"), 1.0), "settled": (("load", "settled_s"), 1e6),
}

# Units of all metrics. These are the metrics of budgets.
UNITS: dict[str, str] = {
    **TAXES, **GATED, **{name: TIME for name in (*PERCENTILES, *MESSAGES, *STARTS)}, "throughput": RATE,
    "first_byte_p50": TIME,
}

# The metrics that a finding makes doubtful, by its `concerns.figures`. Other values of `concerns.figures` concern no metric.
CONCERNED: dict[str, frozenset[str]] = {
    "all": frozenset(UNITS),
    "tails": frozenset((
        "p90", "p95", "p99", "p99.9", "max", "added_p90", "added_p95", "added_p99", "message_p99", "age_p99", "gap_p99",
        "added_message_p99", "added_age_p99", "added_gap_p99",
    )),
    "memory": frozenset(("memory_rss_bytes", "memory_pss_bytes", "bytes_per_stream")),
}
# The difference of two gateways in the first metric is the difference in the second, because direct's figure cancels.
PAIRED = {
    "p50": "added_p50", "p90": "added_p90", "p95": "added_p95", "p99": "added_p99", "message_p50": "added_message_p50",
    "age_p50": "added_age_p50", "first_message_p50": "added_first_message_p50",
}


class Metrics:
    """The metrics of a case as attributes. Each is an `Estimate`. If a metric was not measured, it raises `NotMeasured`."""

    def metric(self, name: str) -> Estimate:
        """A metric by its name in plans, such as `added_p99` or `p99.9`."""
        raise NotImplementedError

    @property
    def added_p50(self) -> Estimate:
        """Added response time at the median, compared with direct."""
        return self.metric("added_p50")

    @property
    def added_p90(self) -> Estimate:
        return self.metric("added_p90")

    @property
    def added_p95(self) -> Estimate:
        return self.metric("added_p95")

    @property
    def added_p99(self) -> Estimate:
        return self.metric("added_p99")

    @property
    def throughput_ratio(self) -> Estimate:
        """Throughput via the gateway ÷ direct throughput."""
        return self.metric("throughput_ratio")

    @property
    def cpu_us_per_request(self) -> Estimate:
        """CPU time of the gateway per completed request."""
        return self.metric("cpu_us_per_request")

    @property
    def extra_upstream_requests(self) -> Estimate:
        """Upstream requests per client request, minus 1."""
        return self.metric("extra_upstream_requests")

    @property
    def added_first_content_p50(self) -> Estimate:
        """Added time to the first event with content at the median. Only streams of tokens have it."""
        return self.metric("added_first_content_p50")

    @property
    def p50(self) -> Estimate:
        """Median response time."""
        return self.metric("p50")

    @property
    def p90(self) -> Estimate:
        return self.metric("p90")

    @property
    def p95(self) -> Estimate:
        return self.metric("p95")

    @property
    def p99(self) -> Estimate:
        return self.metric("p99")

    @property
    def p999(self) -> Estimate:
        return self.metric("p99.9")

    @property
    def throughput(self) -> Estimate:
        """Completed requests per second."""
        return self.metric("throughput")

    @property
    def error_share(self) -> Estimate:
        """Errors and timeouts ÷ scheduled requests. `hoptax gate` computes the interval."""
        return self.metric("error_share")

    @property
    def memory_rss_bytes(self) -> Estimate:
        """Largest resident memory of the gateway in a trial: mean of trials. `hoptax gate` computes the interval."""
        return self.metric("memory_rss_bytes")

    @property
    def memory_pss_bytes(self) -> Estimate:
        return self.metric("memory_pss_bytes")


class StartMetrics:
    """The metrics of starts as attributes."""

    def metric(self, name: str) -> Estimate:
        raise NotImplementedError

    @property
    def listening(self) -> Estimate:
        """Time until the gateway accepts connections."""
        return self.metric("listening")

    @property
    def ready(self) -> Estimate:
        """Time until the gateway gives the first right answer."""
        return self.metric("ready")

    @property
    def first_request(self) -> Estimate:
        return self.metric("first_request")

    @property
    def settled(self) -> Estimate:
        """Time until response times under load have settled."""
        return self.metric("settled")

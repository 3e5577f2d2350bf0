//! What starts and reloads of gateways cost.

use super::super::start::StartKind;
use serde::Serialize;

/// Figures of one kind of start of one contender. Each figure is the median over the starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StartFigures {
    /// `direct`, or a gateway's label.
    pub contender: String,
    /// `start`, `reload`, or `direct` for the same traffic without a gateway.
    pub kind: StartKind,
    /// Number of starts that were measured. Half of them are followed by requests one after the other, half
    /// by the plan's load.
    pub measured: u32,
    /// Number of starts that could not be measured, for example because the gateway was never ready.
    pub failed: u32,
    /// Why the last of these starts could not be measured; absent if all starts were measured.
    pub failure: Option<String>,
    /// Number of wrong answers, and of connections without an answer, before the first right answers.
    pub wrong_answers: u64,
    /// Time until a connection was accepted, ms; absent for reloads and for direct.
    pub listening_ms: Option<StartMedian>,
    /// Time until the first right answer, ms; absent for direct.
    pub ready_ms: Option<StartMedian>,
    /// Response times of the first requests, which are sent one after the other on one connection.
    pub requests: FirstRequests,
    /// CPU time until the gateway was ready, ms; absent for direct.
    pub ready_cpu_ms: Option<StartMedian>,
    /// Resident memory when the gateway was ready, bytes; absent for direct.
    pub ready_rss_bytes: Option<StartMedian>,
    /// What happened under the plan's load; absent if no load was measured.
    pub load: Option<StartUnderLoad>,
}

/// Response times of requests on one connection, each sent after the answer to the one before, µs. The first
/// one includes the connect.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FirstRequests {
    /// The 1st request, µs.
    pub first_us: Option<StartMedian>,
    /// The 10th request, µs.
    pub tenth_us: Option<StartMedian>,
    /// The 100th request, µs.
    pub hundredth_us: Option<StartMedian>,
    /// The 1,000th request, µs.
    pub thousandth_us: Option<StartMedian>,
}

/// What happened under the plan's load, which began as soon as the gateway was ready.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StartUnderLoad {
    /// Number of starts with this load.
    pub starts: u32,
    /// Number of these starts in which the gateway had not settled when the load ended.
    pub unsettled: u32,
    /// Time from the start until the gateway had settled, s. From then on, its response times did not fall
    /// any more.
    pub settled_s: Option<StartMedian>,
    /// Number of answers until the gateway had settled.
    pub settled_requests: Option<StartMedian>,
    /// Delay of all requests together, compared with a settled gateway, request-seconds. It is the area
    /// between the two curves. Failed requests do not count.
    pub later_request_s: Option<StartMedian>,
    /// Median response time of the settled gateway, µs: in the second half of the load.
    pub settled_p50_us: Option<StartMedian>,
    /// CPU time until the gateway had settled, ms; absent for direct.
    pub settled_cpu_ms: Option<StartMedian>,
    /// Largest resident memory until the gateway had settled, or else under the whole load, bytes; absent for
    /// direct.
    pub settled_rss_bytes: Option<StartMedian>,
    /// Scheduled requests of all starts.
    pub scheduled: u64,
    /// Requests of all starts with a right answer.
    pub ok: u64,
    /// Requests of all starts that timed out.
    pub timeouts: u64,
    /// Requests of all starts that failed in another way, or got a wrong answer.
    pub errors: u64,
    /// Requests of all starts without an answer when the load ended.
    pub unanswered: u64,
    /// Response time over the time since the start, at logarithmic distances.
    pub curve: Vec<CurvePoint>,
}

/// A point of the curve of response times after a start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Time since the start, s.
    pub since_start_s: f64,
    /// Median over the starts of the median response time, µs.
    pub p50_us: f64,
}

/// A median over starts, with its 95 % interval.
///
/// A start in which a gateway had not settled when its load ended only shows that settling takes longer. If
/// hoptax knows no more about the median or about an end of its interval, that member is null. `more_than` is
/// then a bound that all such members exceed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StartMedian {
    /// The median; null if it is only known to exceed `more_than`.
    pub estimate: Option<f64>,
    /// Lower end of the interval. Null with fewer than six starts, or if it is only known to exceed
    /// `more_than`.
    pub low: Option<f64>,
    /// Upper end of the interval. Null with fewer than six starts, or if it is only known to exceed
    /// `more_than`.
    pub high: Option<f64>,
    /// The bound that the unknown members exceed. Null if no member is unknown for this reason.
    pub more_than: Option<f64>,
    /// Number of starts.
    pub starts: u32,
}

impl StartMedian {
    /// Smallest number of starts with an interval.
    pub const LEAST_STARTS: u32 = 6;

    /// Whether there is an interval. One of its ends can be unknown.
    pub fn has_interval(&self) -> bool {
        self.starts >= Self::LEAST_STARTS
    }

    /// Lower bound of the median, in the unit of the figure: the median itself, or `more_than`.
    pub fn at_least(&self) -> f64 {
        self.estimate.or(self.more_than).unwrap_or(f64::NAN)
    }

    /// Lower bound of the interval. Without an interval, [`Self::at_least`].
    pub fn low_at_least(&self) -> f64 {
        if self.has_interval() { self.low.or(self.more_than).unwrap_or(f64::NAN) } else { self.at_least() }
    }

    /// Upper bound of the interval; infinite if its upper end is unknown. Without an interval, the median.
    pub fn high_at_most(&self) -> f64 {
        if self.has_interval() {
            self.high.unwrap_or(f64::INFINITY)
        } else {
            self.estimate.unwrap_or(f64::INFINITY)
        }
    }

    /// The same figure in another unit.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let by = |value: Option<f64>| value.map(|value| value * factor);
        let Self { estimate, low, high, more_than, starts } = *self;
        Self { estimate: by(estimate), low: by(low), high: by(high), more_than: by(more_than), starts }
    }
}

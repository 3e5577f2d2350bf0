//! Known delays and known warm-ups of the built-in hop. Users add a delay to check that hoptax measures it
//! correctly. They add a warm-up to check that hoptax detects when a gateway is warm.

use crate::units::{show_duration, show_share};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The delay that a built-in hop adds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HopDelay {
    /// Delay of a request before it is forwarded.
    pub inbound: Duration,
    /// Delay of a response before it is sent to the client.
    pub outbound: Duration,
    /// Share of the requests to delay. It is above 0 and at most 1.
    pub share: f64,
    /// What the hop does during the delay.
    pub how: HopDelayHow,
    /// Warm-up, in addition to the delays. Absent if the hop is warm from the start, and in
    /// older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<HopWarming>,
}

/// A warm-up of a built-in hop: its first requests cost extra CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopWarming {
    /// Number of requests after which the hop is warm. The hop counts the requests of all its workers.
    pub requests: u64,
    /// Extra CPU time of the first request.
    pub extra: Duration,
    /// How the extra time falls to zero.
    pub fall: HopWarmingFall,
}

/// How the extra CPU time of a warm-up falls to zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "hop-warming-fall")]
#[serde(rename_all = "lowercase")]
pub enum HopWarmingFall {
    /// The extra time of request n, counted from 0, is extra × (1 − n/requests).
    #[default]
    Linear,
    /// Each of the first `requests` requests has the full extra time.
    Step,
}

/// What the hop does during a delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "hop-delay-how")]
#[serde(rename_all = "lowercase")]
pub enum HopDelayHow {
    /// Wait on a timer.
    #[default]
    Sleep,
    /// Keep the CPU busy, as a computation does. During this time the worker handles no other request.
    Spin,
}

impl Default for HopDelay {
    /// No delay and no warm-up.
    fn default() -> Self {
        Self {
            inbound: Duration::ZERO,
            outbound: Duration::ZERO,
            share: 1.0,
            how: HopDelayHow::default(),
            warming: None,
        }
    }
}

impl HopDelay {
    /// Whether both delays are zero. A warm-up does not count.
    pub fn is_zero(&self) -> bool {
        self.inbound.is_zero() && self.outbound.is_zero()
    }
}

impl fmt::Display for HopDelayHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sleep => "sleep",
            Self::Spin => "spin",
        })
    }
}

impl fmt::Display for HopWarmingFall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linear => "linear",
            Self::Step => "step",
        })
    }
}

impl fmt::Display for HopDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(warming), true) = (self.warming, self.is_zero()) {
            return write!(f, "{warming}");
        }
        let (inbound, outbound) = (show_duration(self.inbound), show_duration(self.outbound));
        let share = show_share(self.share);
        write!(f, "{inbound} in, {outbound} out, {share} of requests, {}", self.how)?;
        self.warming.map_or(Ok(()), |warming| write!(f, "; {warming}"))
    }
}

impl fmt::Display for HopWarming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (extra, requests) = (show_duration(self.extra), self.requests);
        match self.fall {
            HopWarmingFall::Linear => {
                write!(f, "{extra} of CPU time, falling to zero over {requests} requests")
            }
            HopWarmingFall::Step => write!(f, "{extra} of CPU time in each of the first {requests} requests"),
        }
    }
}

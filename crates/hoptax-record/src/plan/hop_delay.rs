//! Known delays, warm-ups and faults of the built-in hop. Users add a delay to check that hoptax measures it
//! correctly. They add a warm-up to check that hoptax detects when a gateway is warm, and faults to check
//! that hoptax finds them.

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
    /// Delay of each gRPC message of a response, for `hop-h2` only.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub message: Duration,
    /// Faults in gRPC calls, for `hop-h2` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<HopFaults>,
}

/// Faults that `hop-h2` plants in gRPC calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HopFaults {
    /// Share of the messages of responses that are dropped, 0 to 1.
    pub drop: f64,
    /// Share of the messages of responses that are sent twice, 0 to 1.
    pub repeat: f64,
    /// How long the hop keeps the first message of a response, and those that arrive after it. It then sends
    /// them together. Zero if it keeps none.
    pub hold: Duration,
    /// What the hop does with `grpc-timeout`. Absent if it passes it unchanged.
    pub deadline: Option<HopDeadline>,
}

/// What `hop-h2` does with the `grpc-timeout` of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopDeadline {
    /// The hop removes it.
    Drop,
    /// The hop writes this time limit instead.
    Replace(Duration),
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
    /// No delay, no warm-up and no faults.
    fn default() -> Self {
        Self {
            inbound: Duration::ZERO,
            outbound: Duration::ZERO,
            share: 1.0,
            how: HopDelayHow::default(),
            warming: None,
            message: Duration::ZERO,
            faults: None,
        }
    }
}

impl HopDelay {
    /// Whether all delays are zero. A warm-up and faults do not count.
    pub fn is_zero(&self) -> bool {
        self.inbound.is_zero() && self.outbound.is_zero() && self.message.is_zero()
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
        let warming = self.warming.as_ref().map(ToString::to_string);
        let faults = self.faults.as_ref().map(ToString::to_string);
        let mut parts: Vec<String> = warming.into_iter().chain(faults).collect();
        if parts.is_empty() || !self.is_zero() {
            let (inbound, outbound) = (show_duration(self.inbound), show_duration(self.outbound));
            let message = match self.message.is_zero() {
                true => String::new(),
                false => format!(", {} per message", show_duration(self.message)),
            };
            let share = show_share(self.share);
            let how = self.how;
            parts.insert(0, format!("{inbound} in, {outbound} out{message}, {share} of requests, {how}"));
        }
        f.write_str(&parts.join("; "))
    }
}

impl fmt::Display for HopFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_share = |share: f64, what: &str| {
            (share > 0.0).then(|| format!("{} of messages {what}", show_share(share)))
        };
        let hold = (!self.hold.is_zero()).then(|| format!("messages kept for {}", show_duration(self.hold)));
        let deadline = self.deadline.map(|deadline| match deadline {
            HopDeadline::Drop => "deadlines dropped".to_owned(),
            HopDeadline::Replace(time) => format!("deadlines replaced by {}", show_duration(time)),
        });
        let parts = [of_share(self.drop, "dropped"), of_share(self.repeat, "repeated"), hold, deadline];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
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

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
    /// Faults in gRPC calls (`hop-h2`), or in event streams and WebSockets (`hop-l7`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<HopFaults>,
}

/// Faults that `hop-h2` plants in gRPC calls, and `hop-l7` in event streams and WebSockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HopFaults {
    /// Share of the messages of responses that are dropped, 0 to 1. Of `hop-l7`: events.
    pub drop: f64,
    /// Share of the messages of responses that are sent twice, 0 to 1.
    pub repeat: f64,
    /// How long the hop keeps the first message of a response, and those that arrive after it. It then sends
    /// them together. Zero if it keeps none. The end of a response of `hop-l7` does not wait.
    pub hold: Duration,
    /// What `hop-h2` does with `grpc-timeout`. Absent if it passes it unchanged.
    pub deadline: Option<HopDeadline>,
    /// Share of the events that `hop-l7` merges with the next event into one, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero_share")]
    pub merge: f64,
    /// Number of events that `hop-l7` collects and then sends together, after the first event of a response.
    /// 0 if it collects none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bunch: u32,
    /// Share of the handshakes of WebSockets that `hop-l7` answers with status 502, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero_share")]
    pub refuse: f64,
    /// Time after the handshake at which `hop-l7` closes a WebSocket, without a close frame. Zero if it does
    /// not.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub cut: Duration,
    /// What `hop-l7` does with the extensions that handshakes offer. Absent if it passes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deflate: Option<HopDeflate>,
    /// How `hop-l7` treats requests to language models. Absent if it passes them as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<HopLlm>,
}

/// Faults that AI gateways have, as `hop-l7` plants them. Each can be on or off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HopLlm {
    /// How long the first event of a stream waits. Later events wait behind it.
    pub hold_first: Duration,
    /// Whether streams that the upstream cut get a good end.
    pub false_end: bool,
    /// Whether the hop reads the upstream's response to its end after the client has left.
    pub ignore_abort: bool,
    /// How many times the hop sends a request again that was answered with 429 or 5xx.
    pub retry: u32,
    /// Whether the hop changes the numbers of tokens in responses.
    pub rewrite_usage: bool,
    /// Whether the hop adds a field to requests.
    pub add_field: bool,
    /// Whether the hop adds a field to responses that are not streamed.
    pub alter_response: bool,
    /// Whether the hop drops the comments between events.
    pub drop_comments: bool,
    /// Whether the hop reads all that the upstream sends, although the client does not read.
    pub unbounded: bool,
}

fn is_zero_share(share: &f64) -> bool {
    *share <= 0.0
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl HopFaults {
    /// The keys of a plan for faults that only `hop-h2` can plant.
    pub const OF_CALLS: &str = "`deadline`";
    /// The keys of a plan for faults that only `hop-l7` can plant.
    pub const OF_STREAMS: &str = "`merge`, `bunch`, `refuse`, `cut`, `deflate`, `hold_first`, `false_end`, \
        `ignore_abort`, `retry`, `rewrite_usage`, `add_field`, `alter_response`, `drop_comments` and \
        `unbounded`";

    /// True if a fault is one of gRPC calls, which only `hop-h2` can plant.
    pub fn is_of_calls(&self) -> bool {
        self.deadline.is_some()
    }

    /// True if a fault is one of event streams or WebSockets, which only `hop-l7` can plant.
    pub fn is_of_streams(&self) -> bool {
        let Self { drop, repeat, hold, deadline, .. } = *self;
        *self != Self { drop, repeat, hold, deadline, ..Self::default() }
    }

    /// True if the hop changes or delays the messages of responses, or may end them.
    pub fn changes_messages(&self) -> bool {
        let changes = |llm: HopLlm| llm.false_end || llm.drop_comments || !llm.hold_first.is_zero();
        let of_llm = self.llm.is_some_and(changes);
        let of_shares = self.drop > 0.0 || self.repeat > 0.0 || self.merge > 0.0;
        of_llm || of_shares || self.bunch > 0 || !self.hold.is_zero()
    }
}

/// What `hop-l7` does with the header `sec-websocket-extensions` of handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "hop-deflate")]
#[serde(rename_all = "lowercase")]
pub enum HopDeflate {
    /// The hop removes it, so that messages are not compressed.
    Drop,
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
        let merge = of_share(self.merge, "merged with the next");
        let bunch = (self.bunch > 0).then(|| format!("{} messages at once", self.bunch));
        let refuse =
            (self.refuse > 0.0).then(|| format!("{} of WebSockets refused", show_share(self.refuse)));
        let cut = (!self.cut.is_zero()).then(|| format!("WebSockets cut after {}", show_duration(self.cut)));
        let deflate = self.deflate.map(|HopDeflate::Drop| "extensions of WebSockets dropped".to_owned());
        let [drop, repeat] = [of_share(self.drop, "dropped"), of_share(self.repeat, "repeated")];
        let llm = self.llm.as_ref().map(ToString::to_string);
        let parts = [drop, repeat, hold, deadline, merge, bunch, refuse, cut, deflate, llm];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for HopLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hold_first, false_end, ignore_abort, retry, .. } = *self;
        let Self { rewrite_usage, add_field, alter_response, drop_comments, unbounded, .. } = *self;
        let hold_first =
            (!hold_first.is_zero()).then(|| format!("first events kept for {}", show_duration(hold_first)));
        let retry = (retry > 0).then(|| format!("refused requests sent again {retry} times"));
        let others = [
            (false_end, "good ends of streams that were cut"),
            (ignore_abort, "aborts ignored"),
            (rewrite_usage, "numbers of tokens changed"),
            (add_field, "a field added to requests"),
            (alter_response, "a field added to responses"),
            (drop_comments, "comments dropped"),
            (unbounded, "unread responses kept"),
        ];
        let others = others.into_iter().filter(|(is_on, _)| *is_on).map(|(_, words)| words.to_owned());
        f.write_str(&[hold_first, retry].into_iter().flatten().chain(others).collect::<Vec<_>>().join(", "))
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

//! The upstream of a plan.

use crate::{Body, Listen, Running};
use std::time::Duration;

/// The service behind the gateways.
#[derive(Debug, Clone, PartialEq)]
pub enum Upstream {
    /// The built-in upstream, `hoptax upstream`. The run starts and stops it.
    BuiltIn(BuiltInUpstream),
    /// An upstream that already runs.
    Running(Running),
}

impl Upstream {
    /// Whether requests reach the upstream over a Unix socket.
    pub fn is_on_unix_socket(&self) -> bool {
        match self {
            Self::BuiltIn(built_in) => !built_in.listen.is_ports(),
            Self::Running(running) => running.is_on_unix_socket(),
        }
    }
}

/// Settings of the built-in upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltInUpstream {
    /// Number of listeners, each with its own port and thread.
    pub instances: u32,
    /// Status of responses.
    pub status: u16,
    /// Headers of responses.
    pub headers: Vec<(String, String)>,
    /// Body of responses.
    pub body: Body,
    /// Delay of each response.
    pub delay: Delay,
    /// Share of the requests that get status 500, from 0 to 1.
    pub failures: f64,
    /// Port of the first instance. The other instances use the ports after it. If absent, the kernel chooses
    /// the ports.
    pub port: Option<u16>,
    /// Whether it listens on ports or on Unix sockets.
    pub listen: Listen,
    /// Answers to particular paths. Other requests get the answer that the fields above describe.
    pub answers: Vec<Answer>,
}

impl BuiltInUpstream {
    /// Whether two equal requests can get different answers because of [`BuiltInUpstream::answers`].
    pub fn varies(&self) -> bool {
        let same = |one: &Answer, other: &Answer| one.method == other.method && one.path == other.path;
        let repeated = |(index, answer): (usize, &Answer)| {
            self.answers[..index].iter().any(|earlier| same(earlier, answer))
        };
        self.answers.iter().any(|answer| answer.sizes.len() > 1)
            || self.answers.iter().enumerate().any(repeated)
    }
}

/// What the built-in upstream answers to requests for one path.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Method; absent for any.
    pub method: Option<String>,
    /// Path without query. `*` is one or more characters other than `/`.
    pub path: String,
    /// Answers with the same method and path are drawn by weight.
    pub weight: u32,
    /// Status of the response.
    pub status: u16,
    /// Sizes of the body, bytes, with their shares, which add up to 1.
    pub sizes: Vec<(f64, u64)>,
    /// Delay of the response.
    pub delay: Delay,
}

impl Answer {
    /// Mean size of the body, bytes.
    pub fn mean_size(&self) -> f64 {
        self.sizes.iter().map(|(share, size)| share * *size as f64).sum()
    }
}

/// Delay of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum Delay {
    /// All responses have this delay. It can be zero.
    Fixed(Duration),
    /// Uniformly distributed between two bounds.
    Uniform {
        /// The lower bound.
        from: Duration,
        /// The upper bound.
        to: Duration,
    },
    /// Exponentially distributed.
    Exponential {
        /// Mean.
        mean: Duration,
    },
    /// One of several durations. Each duration has a share of the responses. All shares add up to 1.
    Choice(Vec<(f64, Duration)>),
}

impl Delay {
    /// The mean delay.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Uniform { from, to } => (*from + *to) / 2,
            Self::Exponential { mean } => *mean,
            Self::Choice(choices) => choices.iter().map(|(share, delay)| delay.mul_f64(*share)).sum(),
        }
    }

    /// The shortest possible delay.
    pub fn least(&self) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Uniform { from, .. } => *from,
            Self::Exponential { .. } => Duration::ZERO,
            Self::Choice(choices) => choices
                .iter()
                .filter(|(share, _)| *share > 0.0)
                .map(|(_, delay)| *delay)
                .min()
                .unwrap_or_default(),
        }
    }
}

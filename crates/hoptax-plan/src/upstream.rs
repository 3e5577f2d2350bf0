//! The upstream of a plan.

use crate::{Body, Running};
use std::time::Duration;

/// The service behind the gateways.
#[derive(Debug, Clone, PartialEq)]
pub enum Upstream {
    /// The built-in upstream, `hoptax upstream`. The run starts and stops it.
    BuiltIn(BuiltInUpstream),
    /// An upstream that already runs.
    Running(Running),
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
    /// Port of the first instance. The other instances use the ports after it. If absent, the kernel chooses the ports.
    pub port: Option<u16>,
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

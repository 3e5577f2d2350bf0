//! The upstream of a plan.

use crate::{Body, Running};
use std::time::Duration;

/// The service behind the gateways.
#[derive(Debug, Clone, PartialEq)]
pub enum Upstream {
    /// `hoptax upstream`, started and stopped by the run.
    BuiltIn(BuiltInUpstream),
    /// An upstream that already runs.
    Running(Running),
}

/// Settings of the built-in upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltInUpstream {
    /// Listeners, each with its own port and thread.
    pub instances: u32,
    /// Status of responses.
    pub status: u16,
    /// Headers of responses.
    pub headers: Vec<(String, String)>,
    /// Body of responses.
    pub body: Body,
    /// Delay of each response.
    pub delay: Delay,
    /// Share of requests, 0 to 1, that get status 500.
    pub failures: f64,
    /// Port of the first instance; the others follow. If absent, the kernel chooses.
    pub port: Option<u16>,
}

/// Delay of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum Delay {
    /// Always the same; can be zero.
    Fixed(Duration),
    /// Uniform between two bounds.
    Uniform {
        /// Least.
        from: Duration,
        /// Most.
        to: Duration,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: Duration,
    },
    /// One of several durations, each with its share; shares add up to 1.
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

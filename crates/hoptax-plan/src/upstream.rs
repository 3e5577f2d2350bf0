//! The service behind the gateways.

use crate::{Body, Running};
use std::time::Duration;

/// The service behind the gateways.
#[derive(Debug, Clone, PartialEq)]
pub enum Upstream {
    /// `hoptax upstream`, started and stopped by the run.
    BuiltIn(BuiltInUpstream),
    /// One that already runs.
    Running(Running),
}

/// Settings of the built-in upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltInUpstream {
    /// Listeners, each with its own port and thread.
    pub instances: u32,
    /// Status answered.
    pub status: u16,
    /// Headers added to every answer.
    pub headers: Vec<(String, String)>,
    /// Body answered.
    pub body: Body,
    /// How long each answer is held back.
    pub delay: Delay,
    /// Share of requests, 0 to 1, answered with 500 instead.
    pub failures: f64,
    /// First instance's port, the others' follow; asked of the kernel when absent.
    pub port: Option<u16>,
}

/// How long an answer is held back.
#[derive(Debug, Clone, PartialEq)]
pub enum Delay {
    /// Always the same; zero answers at once.
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
    /// One of several, each with its share; shares add up to 1.
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

    /// The least delay that occurs.
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

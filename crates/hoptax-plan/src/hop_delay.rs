//! Delays planted in the built-in hop: what users prove with that hoptax finds a tax whose size they know.

use super::units::{show_duration, show_share};
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// Longer than any delay that is planted on purpose; a typing error is likelier.
pub const LONGEST_HOP_DELAY: Duration = Duration::from_secs(60);

/// What `hop-l7` adds on purpose to the requests that it delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HopDelay {
    /// How long a request is held back before it goes upstream.
    pub inbound: Duration,
    /// How long an answer is held back before it goes to the client.
    pub outbound: Duration,
    /// Share of the requests to which both happen, above 0 and at most 1.
    pub share: f64,
    /// How the time is spent.
    pub how: HopDelayHow,
}

/// How a planted delay is spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[schemars(rename = "hop-delay-how")]
#[serde(rename_all = "lowercase")]
pub enum HopDelayHow {
    /// On a timer: other requests pass meanwhile, and no CPU is used.
    #[default]
    Sleep,
    /// By a busy CPU: the worker does nothing else meanwhile, as when it computes.
    Spin,
}

impl HopDelay {
    /// Whether these are delays that can be planted.
    ///
    /// # Errors
    /// What is wrong, and how to mend it.
    pub fn check(&self) -> Result<(), (String, String)> {
        let refuse = |what: &str, help: &str| Err((what.to_owned(), help.to_owned()));
        if self.share <= 0.0 || self.share > 1.0 {
            return refuse(
                "a share of no requests is delayed",
                "write a share above 0%, or leave it out for 100%",
            );
        }
        if self.inbound.max(self.outbound) > LONGEST_HOP_DELAY {
            let longest = show_duration(LONGEST_HOP_DELAY);
            return Err((
                format!("a delay of {}", show_duration(self.inbound.max(self.outbound))),
                format!("write {longest} or less"),
            ));
        }
        Ok(())
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

impl fmt::Display for HopDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inbound, outbound) = (show_duration(self.inbound), show_duration(self.outbound));
        let share = show_share(self.share);
        write!(f, "{inbound} in, {outbound} out, {share} of requests, {}", self.how)
    }
}

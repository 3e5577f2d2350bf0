//! Known delays of the built-in hop. Users add such a delay to check that hoptax measures it correctly.

use super::units::{show_duration, show_share};
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// Longest accepted delay. A longer delay is probably a typing error.
pub const LONGEST_HOP_DELAY: Duration = Duration::from_secs(60);

/// The delay that the built-in hop `hop-l7` adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HopDelay {
    /// Delay of a request before it is forwarded.
    pub inbound: Duration,
    /// Delay of a response before it is sent to the client.
    pub outbound: Duration,
    /// Share of the requests to delay. It is above 0 and at most 1.
    pub share: f64,
    /// What the hop does during the delay.
    pub how: HopDelayHow,
}

/// What the hop does during a delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[schemars(rename = "hop-delay-how")]
#[serde(rename_all = "lowercase")]
pub enum HopDelayHow {
    /// Wait on a timer. Other requests are not delayed, and no CPU time is used.
    #[default]
    Sleep,
    /// Keep the CPU busy, as a computation does. During this time the worker handles no other request.
    Spin,
}

impl HopDelay {
    /// Checks that the share and the delays are in range.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub fn check(&self) -> Result<(), (String, String)> {
        let refuse = |what: &str, help: &str| Err((what.to_owned(), help.to_owned()));
        if self.share <= 0.0 || self.share > 1.0 {
            return refuse(
                "`share` must be above 0% and at most 100%",
                "write a share above 0%, or remove `share` for 100%",
            );
        }
        if self.inbound.max(self.outbound) > LONGEST_HOP_DELAY {
            let longest = show_duration(LONGEST_HOP_DELAY);
            return Err((
                format!("the delay {} is too long", show_duration(self.inbound.max(self.outbound))),
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

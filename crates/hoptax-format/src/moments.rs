//! The moments of single requests, which explain slow ones. Only a load that asks for them keeps them.

use serde::{Deserialize, Serialize};

/// The moments of the requests of one generator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    /// Process id of the generator.
    pub process: u32,
    /// Number of answered requests that the generator had no room for.
    pub left_out: u64,
    /// The requests of the measured time that were answered with usable timestamps of the upstream, in the
    /// order in which they were due.
    pub requests: Vec<Moment>,
}

/// The moments of a request, nanoseconds on [`crate::clock::now`]. In JSON, a list of its six numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "[u64; 6]", into = "[u64; 6]")]
pub struct Moment {
    /// When it was due.
    pub scheduled: u64,
    /// When its first byte was passed to the kernel.
    pub sent: u64,
    /// When the upstream had read it.
    pub received: u64,
    /// When the upstream passed the first byte of the response to the kernel.
    pub replied: u64,
    /// When the response was complete.
    pub completed: u64,
    /// Id of the generator's thread that sent it.
    pub thread: u32,
}

impl Moment {
    /// Completed − scheduled.
    pub fn response_time(&self) -> u64 {
        self.completed.saturating_sub(self.scheduled)
    }
}

impl From<[u64; 6]> for Moment {
    fn from([scheduled, sent, received, replied, completed, thread]: [u64; 6]) -> Self {
        Self { scheduled, sent, received, replied, completed, thread: thread as u32 }
    }
}

impl From<Moment> for [u64; 6] {
    fn from(one: Moment) -> Self {
        [one.scheduled, one.sent, one.received, one.replied, one.completed, u64::from(one.thread)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_list_in_json() {
        let moment =
            Moment { scheduled: 1, sent: 2, received: 3, replied: 4, completed: u64::MAX >> 1, thread: 7 };
        let text = serde_json::to_string(&moment).expect("numbers");
        assert_eq!(text, "[1,2,3,4,9223372036854775807,7]");
        assert_eq!(serde_json::from_str::<Moment>(&text).expect("read"), moment);
    }
}

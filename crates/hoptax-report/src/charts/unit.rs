//! Units along an axis.

use super::sheet::steps;
use crate::words::format::{Scale, number};

/// The quantity that an axis shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Time, µs.
    Time,
    /// Requests/s, connections, or streams.
    Rate,
    Bytes,
}

impl Unit {
    pub(super) fn scale(self, size: f64) -> Scale {
        match self {
            Self::Time => Scale::of_us(size),
            Self::Rate => Scale::plain(),
            Self::Bytes => Scale::of_bytes(size),
        }
    }

    /// Formats a value with a suitable unit.
    pub(super) fn format(self, value: f64) -> String {
        self.scale(value).value(value)
    }

    /// About `count` round values from `low` to `high`.
    pub(super) fn steps(self, low: f64, high: f64, count: u32) -> Vec<f64> {
        let one = self.scale(high.max(-low)).one();
        steps(low / one, high / one, count).into_iter().map(|step| step * one).collect()
    }

    /// Formats a value for an axis that ends at `largest`.
    pub(super) fn format_for_axis(self, value: f64, largest: f64) -> String {
        if value == 0.0 { number(0.0) } else { self.scale(largest).value(value) }
    }
}

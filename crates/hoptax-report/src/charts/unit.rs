//! Units along an axis.

use super::sheet::steps;
use crate::format::{Scale, number};

/// What is drawn along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// µs.
    Time,
    /// Requests/s, or connections.
    Rate,
    /// Bytes.
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

    /// A value with the unit in which it is best read.
    pub(super) fn told(self, value: f64) -> String {
        self.scale(value).value(value)
    }

    /// Round values from at or below `low` to at or above `high`, about `count` of them.
    pub(super) fn steps(self, low: f64, high: f64, count: u32) -> Vec<f64> {
        let one = self.scale(high.max(-low)).one();
        steps(low / one, high / one, count).into_iter().map(|step| step * one).collect()
    }

    /// A value on an axis that goes to `largest`.
    pub(super) fn told_beside(self, value: f64, largest: f64) -> String {
        if value == 0.0 { number(0.0) } else { self.scale(largest).value(value) }
    }
}

//! Latency histograms: what every recorder, record and report agrees on.
//!
//! Values are nanoseconds. On disk a histogram is HdrHistogram's V2 encoding in base64, which every HDR tool reads.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// The least value told from zero: 100 ns. Nothing that crosses a socket is quicker.
pub const LOWEST: u64 = 100;
/// The largest value kept: one hour. Larger ones count as one hour.
pub const HIGHEST: u64 = 3600 * crate::clock::SECOND;
/// Significant digits of a whole trial's histogram.
pub const TRIAL_DIGITS: u8 = 3;
/// Significant digits of a window's histogram: a trial has hundreds of windows.
pub const WINDOW_DIGITS: u8 = 2;

/// An empty histogram of 100 ns to 1 h with this many significant digits.
pub fn empty(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST, HIGHEST, digits)
        .expect("the bounds are constants that the crate accepts")
}

/// A histogram as it stands in a record: HdrHistogram V2, base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encoded(pub String);

/// An encoded histogram that cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Base64, but not an HdrHistogram.
    #[error("the histogram is not in HdrHistogram V2 encoding: {0}")]
    Histogram(#[from] hdrhistogram::serialization::DeserializeError),
}

/// Encodes histograms one after the other. Only what comes out is allocated anew each time.
pub(crate) struct Encoder {
    serializer: V2Serializer,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { serializer: V2Serializer::new(), bytes: Vec::new() }
    }

    pub(crate) fn encode(&mut self, histogram: &Histogram<u64>) -> Encoded {
        self.bytes.clear();
        self.serializer
            .serialize(histogram, &mut self.bytes)
            .expect("writing to a vector does not fail and our ranges fit the encoding");
        Encoded(STANDARD.encode(&self.bytes))
    }
}

impl Encoded {
    /// Encodes `histogram`.
    pub fn new(histogram: &Histogram<u64>) -> Self {
        Encoder::new().encode(histogram)
    }

    /// Decodes the histogram.
    ///
    /// # Errors
    /// If the text is not base64 or not a V2 histogram.
    pub fn decode(&self) -> Result<Histogram<u64>, DecodeError> {
        let bytes = STANDARD.decode(&self.0)?;
        Ok(Deserializer::new().deserialize(&mut bytes.as_slice())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        for digits in [WINDOW_DIGITS, TRIAL_DIGITS] {
            let mut histogram = empty(digits);
            for value in [150, 90_000, 90_001, 3_000_000_000, HIGHEST] {
                histogram.record(value).expect("in range");
            }
            let back = Encoded::new(&histogram).decode().expect("what we encode decodes");
            assert_eq!(back, histogram);
        }
    }

    #[test]
    fn refuses_what_is_not_a_histogram() {
        assert!(matches!(Encoded("*".into()).decode(), Err(DecodeError::Base64(_))));
        assert!(matches!(Encoded("aGVsbG8=".into()).decode(), Err(DecodeError::Histogram(_))));
    }
}

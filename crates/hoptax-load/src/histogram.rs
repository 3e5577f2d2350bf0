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

/// Whether one of the numbers, of 7 bits to a byte and 8 in the ninth, is the least of all: it stands for 2^63 values left
/// out, and the decoder would negate it, which no number of 64 bits can hold.
fn has_least_number(mut numbers: &[u8]) -> bool {
    while !numbers.is_empty() {
        let more = numbers.iter().take(8).take_while(|&&byte| byte & 0x80 != 0).count();
        let (number, behind) = numbers.split_at((more + 1).min(numbers.len()));
        if number == [0xff; 9] {
            return true;
        }
        numbers = behind;
    }
    false
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
    /// Its head does not fit what follows, or announces what nobody needs.
    #[error("the histogram is not a plain one in HdrHistogram V2 encoding: {0}")]
    Head(&'static str),
}

/// The head of the encoding: cookie, length of the counts, normalizing offset, digits (4 bytes each), lowest, highest, ratio
/// (8 bytes each), big-endian. From HdrHistogram's `V2EncodingFormat`.
const HEAD: usize = 40;
/// First bytes of the encoding without compression.
const COOKIE: u32 = 0x1c84_9313;
/// Most digits read. Each more is ten times the memory: at five, a few bytes ask for 50 MiB.
const MOST_DIGITS: u32 = 4;

/// Most values of one histogram: nine hundred years at ten thousand a second. Sums of many such still fit 64 bits.
const MOST_VALUES: u64 = 1 << 48;

/// Refuses what would have the decoder ask for memory before it knows that there is reason to.
fn check_head(bytes: &[u8]) -> Result<(), DecodeError> {
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    match (word(0), word(4), word(12)) {
        (Some(cookie), _, _) if cookie != COOKIE => Err(DecodeError::Head("it begins otherwise")),
        (_, Some(length), Some(digits)) if bytes.len() >= HEAD => {
            if (bytes.len() - HEAD) as u64 != u64::from(length) {
                Err(DecodeError::Head("it is shorter or longer than it says"))
            } else if digits > MOST_DIGITS {
                Err(DecodeError::Head("it has more than 4 significant digits"))
            } else if has_least_number(&bytes[HEAD..]) {
                Err(DecodeError::Head("it leaves out more values than there are"))
            } else {
                Ok(())
            }
        }
        _ => Err(DecodeError::Head("it ends within its head")),
    }
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
    /// If the text is not base64 or not a V2 histogram without compression. Memory is bounded by the length of the text, and
    /// 6 MiB for the counts.
    pub fn decode(&self) -> Result<Histogram<u64>, DecodeError> {
        let bytes = STANDARD.decode(&self.0)?;
        check_head(&bytes)?;
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice())?;
        if histogram.len() > MOST_VALUES {
            return Err(DecodeError::Head("it has more values than can have been recorded"));
        }
        Ok(histogram)
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

    /// Each of these made the decoder ask for gigabytes, or panic.
    #[test]
    fn refuses_heads_that_lie() {
        let good = Encoded::new(&empty(TRIAL_DIGITS));
        let mut bytes = STANDARD.decode(&good.0).expect("base64");
        assert_eq!(bytes[..4], COOKIE.to_be_bytes());
        bytes.truncate(HEAD);
        let with = |at: usize, word: u32, counts: &[u8]| {
            let mut bytes = [&bytes, counts].concat();
            bytes[4..8].copy_from_slice(&(counts.len() as u32).to_be_bytes());
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            Encoded(STANDARD.encode(bytes)).decode()
        };
        assert!(with(0, COOKIE, &[2, 4]).is_ok());
        for (at, word, counts, part) in [
            (4, u32::MAX, &[][..], "shorter or longer"),
            (12, 5, &[], "more than 4"),
            (0, COOKIE + 1, &[], "begins otherwise"),
            (0, COOKIE, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "more values"),
            (0, COOKIE, &[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "leaves out"),
        ] {
            let error = with(at, word, counts).expect_err(part);
            assert!(error.to_string().contains(part), "{error}");
        }
        let cut = Encoded(STANDARD.encode(&bytes[..HEAD - 1]));
        assert!(matches!(cut.decode(), Err(DecodeError::Head("it ends within its head"))));
    }

    #[test]
    fn refuses_what_is_not_a_histogram() {
        assert!(matches!(Encoded("*".into()).decode(), Err(DecodeError::Base64(_))));
        assert!(matches!(Encoded("aGVsbG8=".into()).decode(), Err(DecodeError::Head(_))));
    }
}

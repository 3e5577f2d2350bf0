//! Format of latency histograms, which recorders, records and reports share.
//!
//! Values are nanoseconds. On disk, a histogram is stored in HdrHistogram's V2 encoding, as base64. All HDR
//! tools can read this format.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Smallest value that is distinguished from zero: 100 ns. No operation on a socket is faster.
pub const LOWEST: u64 = 100;
/// Largest value: one hour. Larger values are recorded as one hour.
pub const HIGHEST: u64 = 3600 * crate::clock::SECOND;
/// Number of significant digits of a trial's histogram.
pub const TRIAL_DIGITS: u8 = 3;
/// Number of significant digits of a window's histogram. It is lower than for a trial, because a trial has
/// hundreds of windows.
pub const WINDOW_DIGITS: u8 = 2;

/// Creates an empty histogram for values from 100 ns to 1 h with `digits` significant digits.
pub fn empty(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST, HIGHEST, digits)
        .expect("the bounds are constants that the crate accepts")
}

/// Creates an empty histogram for counts, such as the number of responses of each connection.
pub fn empty_of_counts() -> Histogram<u64> {
    Histogram::new_with_bounds(1, u64::from(u32::MAX), TRIAL_DIGITS)
        .expect("the bounds are constants that the crate accepts")
}

/// The rank of a quantile (0 to 1) among `samples` values, from 1. It is the smallest rank for which at least
/// this share of the values has this rank or a lower one. A small tolerance is subtracted first, because a
/// product such as 0.9 · 2,000 is not exact in floating point, and rounding up could give the next rank.
pub fn rank(quantile: f64, samples: u64) -> u64 {
    let exact = quantile.clamp(0.0, 1.0) * samples as f64;
    let rank = (exact - 4.0 * f64::EPSILON * exact).ceil() as u64;
    rank.clamp(1, samples.max(1))
}

/// The value with this rank (from 1). Zero if the histogram is empty.
pub fn value_at_rank(histogram: &Histogram<u64>, rank: u64) -> u64 {
    // Ask for the quantile half a rank below `rank`. Rounding errors then cannot lead to another rank.
    histogram.value_at_quantile((rank.max(1) as f64 - 0.5) / histogram.len().max(1) as f64)
}

/// The lowest value, the median and the highest value. `None` if the histogram is empty.
pub fn spread(histogram: &Histogram<u64>) -> Option<[u64; 3]> {
    let median = value_at_rank(histogram, rank(0.5, histogram.len()));
    (!histogram.is_empty()).then(|| [histogram.min(), median, histogram.max()])
}

/// True if `numbers` contains the minimum of `i64`. Each number is stored with 7 bits per byte, and 8 bits in
/// its ninth byte. Negative numbers mean gaps between values. The minimum would be a gap of 2^63 values,
/// which overflows when the decoder negates it.
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

/// A histogram in a record, as base64 of HdrHistogram's V2 encoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encoded(pub String);

/// A histogram of a trial, without values.
impl Default for Encoded {
    fn default() -> Self {
        // A record has many of them, and an empty histogram takes 200 KB.
        static EMPTY: OnceLock<Encoded> = OnceLock::new();
        EMPTY.get_or_init(|| Self::new(&empty(TRIAL_DIGITS))).clone()
    }
}

/// Reason why an encoded histogram cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The text is not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The text is base64, but the decoded bytes are not an HdrHistogram.
    #[error("the histogram is not in HdrHistogram V2 encoding: {0}")]
    Histogram(#[from] hdrhistogram::serialization::DeserializeError),
    /// The header is inconsistent, or declares an unreasonable size.
    #[error("the histogram must be uncompressed and in HdrHistogram V2 encoding: {0}")]
    Head(&'static str),
}

/// Length of the header, bytes. Four fields have 4 bytes each: the cookie, the length of the counts, the
/// normalizing offset and the digits. Three fields have 8 bytes each: the lowest value, the highest value and
/// the ratio. All numbers are big-endian. Source: HdrHistogram's `V2EncodingFormat`.
const HEAD: usize = 40;
/// Magic number of the uncompressed encoding.
const COOKIE: u32 = 0x1c84_9313;
/// Maximum number of significant digits accepted. Each additional digit needs ten times as much memory. With
/// five digits, a few bytes of input would allocate 50 MiB.
const MOST_DIGITS: u32 = 4;

/// Maximum number of values accepted in one histogram. At ten thousand values per second, a load would reach
/// this number after nine hundred years. The sum of many such histograms still fits in 64 bits.
const MOST_VALUES: u64 = 1 << 48;

/// Refuses a histogram if decoding it would allocate too much memory or overflow.
fn check_head(bytes: &[u8]) -> Result<(), DecodeError> {
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    match (word(0), word(4), word(12)) {
        (Some(cookie), _, _) if cookie != COOKIE => Err(DecodeError::Head("the magic number is wrong")),
        (_, Some(length), Some(digits)) if bytes.len() >= HEAD => {
            if (bytes.len() - HEAD) as u64 != u64::from(length) {
                Err(DecodeError::Head("the length in its header is wrong"))
            } else if digits > MOST_DIGITS {
                Err(DecodeError::Head("it has more than 4 significant digits"))
            } else if has_least_number(&bytes[HEAD..]) {
                Err(DecodeError::Head("a gap between values is too large"))
            } else {
                Ok(())
            }
        }
        _ => Err(DecodeError::Head("the header is incomplete")),
    }
}

/// Encodes histograms and reuses its buffers. Only the encoded text is allocated each time.
pub struct Encoder {
    serializer: V2Serializer,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Creates an encoder with empty buffers.
    pub fn new() -> Self {
        Self { serializer: V2Serializer::new(), bytes: Vec::new() }
    }

    /// Encodes `histogram`.
    pub fn encode(&mut self, histogram: &Histogram<u64>) -> Encoded {
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
    /// If the text is not base64, or if it is not an uncompressed V2 histogram. Decoding uses at most 6 MiB
    /// of memory in addition to the length of the text.
    pub fn decode(&self) -> Result<Histogram<u64>, DecodeError> {
        let bytes = STANDARD.decode(&self.0)?;
        check_head(&bytes)?;
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice())?;
        if histogram.len() > MOST_VALUES {
            return Err(DecodeError::Head("it has more values than can be recorded"));
        }
        Ok(histogram)
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "HDR histograms ({} to" time(LOWEST);
    METHODOLOGY "(100 ns to {}, 3 significant" time(HIGHEST);
    METHODOLOGY "to 1 h, {} significant digits: values are exact to within" number(TRIAL_DIGITS);
    QUIET_WINDOWS "Histograms of windows have {} digits" number(WINDOW_DIGITS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_ranks_are_not_rounded_up() {
        for thousands in 1..2_000_u64 {
            let samples = 1000 * thousands;
            for per_mille in [500_u32, 550, 900, 990, 999] {
                let quantile = f64::from(per_mille) / 10.0 / 100.0;
                assert_eq!(
                    rank(quantile, samples),
                    u64::from(per_mille) * thousands,
                    "{quantile} of {samples}"
                );
            }
        }
        assert_eq!([rank(0.0, 5), rank(0.9, 5), rank(1.0, 5), rank(0.5, 0)], [1, 5, 5, 1]);
        let mut histogram = empty(TRIAL_DIGITS);
        (1..=999).for_each(|value| histogram.record(value * 1000).expect("in range"));
        for rank in 1..=999 {
            let value = value_at_rank(&histogram, rank);
            assert!(histogram.equivalent(value, rank * 1000), "{value} at {rank}");
        }
    }

    #[test]
    fn encoding_round_trips() {
        for digits in [WINDOW_DIGITS, TRIAL_DIGITS] {
            let mut histogram = empty(digits);
            for value in [150, 90_000, 90_001, 3_000_000_000, HIGHEST] {
                histogram.record(value).expect("in range");
            }
            let back = Encoded::new(&histogram).decode().expect("our own encoding can be decoded");
            assert_eq!(back, histogram);
        }
    }

    /// Each of these headers made the decoder request gigabytes, or panic.
    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no snapshots")]
    fn refuses_inconsistent_headers() {
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
        let told = [
            (4, u32::MAX, &[][..]),
            (12, 5, &[]),
            (0, COOKIE + 1, &[]),
            (0, COOKIE, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (0, COOKIE, &[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ]
        .map(|(at, word, counts)| format!("{}\n", with(at, word, counts).expect_err("inconsistent")))
        .concat();
        insta::assert_snapshot!(told);
        let cut = Encoded(STANDARD.encode(&bytes[..HEAD - 1]));
        assert!(matches!(cut.decode(), Err(DecodeError::Head(_))));
    }

    #[test]
    fn refuses_other_texts() {
        assert!(matches!(Encoded("*".into()).decode(), Err(DecodeError::Base64(_))));
        assert!(matches!(Encoded("aGVsbG8=".into()).decode(), Err(DecodeError::Head(_))));
    }
}

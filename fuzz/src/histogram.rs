//! Encoded histograms that come from another process or a file. Decoding never panics, and the memory that it
//! needs is limited. Decoded histograms can be summed and queried. Encoding and decoding them again gives the
//! same histograms.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hoptax_format::histogram::{Encoded, TRIAL_DIGITS, empty};
use hoptax_stats::{Statistic, merge};

/// The first byte of `input` determines the form of the other bytes. If the first byte is even, the other
/// bytes are base64 text, as in a record. If it is odd, they are encoded as base64 first.
pub fn holds(input: &[u8]) -> bool {
    let Some((kind, input)) = input.split_first() else { return false };
    let text =
        if kind % 2 == 0 { String::from_utf8_lossy(input).into_owned() } else { STANDARD.encode(input) };
    let histogram = match Encoded(text).decode() {
        Ok(histogram) => histogram,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let again = Encoded::new(&histogram).decode().expect("our own encoding can be decoded");
    assert_eq!(again, histogram);
    let sum = merge([&histogram, &histogram]);
    for statistic in Statistic::ALL {
        assert_eq!(statistic.of(&sum).is_some(), !sum.is_empty());
    }
    let mut mine = empty(TRIAL_DIGITS);
    if mine.add(&histogram).is_ok() {
        assert!(mine.len() <= histogram.len());
    }
    true
}

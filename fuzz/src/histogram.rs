//! Encoded histograms, as they come from another process or from a file: decoding is bounded and never panics, what is
//! decoded can be added up and asked, and what is written again is the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hoptax_load::histogram::{Encoded, TRIAL_DIGITS, empty};
use hoptax_stats::{Statistic, merge};

/// First byte even: the rest is text, as it stands in a record. Odd: the rest is what that text stands for.
pub fn holds(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else { return };
    let text =
        if kind % 2 == 0 { String::from_utf8_lossy(input).into_owned() } else { STANDARD.encode(input) };
    let histogram = match Encoded(text).decode() {
        Ok(histogram) => histogram,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = Encoded::new(&histogram).decode().expect("what we encode decodes");
    assert_eq!(again, histogram);
    let sum = merge([&histogram, &histogram]);
    for statistic in Statistic::ALL {
        assert_eq!(statistic.of(&sum).is_some(), !sum.is_empty());
    }
    let mut mine = empty(TRIAL_DIGITS);
    if mine.add(&histogram).is_ok() {
        assert!(mine.len() <= histogram.len());
    }
}

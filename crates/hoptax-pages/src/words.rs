//! Values in the words of the pages.

use std::fmt::Display;
use std::time::Duration;

const SMALL: [&str; 13] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
];

/// A number in digits: `2,000`, `0.7`.
pub fn number(value: impl Display) -> String {
    let text = value.to_string();
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    rest.map_or_else(|| grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

/// A small number in words: `seven`, `fifty`.
///
/// # Panics
/// If the number has no word here.
pub fn word(value: impl Display) -> String {
    let digits = value.to_string();
    let small = || digits.parse().ok().and_then(|at: usize| SMALL.get(at)).copied();
    let word = if digits == "50" { Some("fifty") } else { small() };
    word.unwrap_or_else(|| panic!("no word for {digits}")).to_owned()
}

/// A small number as an ordinal: `tenth`.
///
/// # Panics
/// If the number has no word here.
pub fn ordinal(value: impl Display) -> String {
    let word = word(value);
    match word.as_str() {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        _ => word + "th",
    }
}

/// A share in percent: `0.1 %`.
pub fn percent(share: f64) -> String {
    // Rounded, because 0.07 · 100 is 7.000000000000001.
    format!("{} %", number((share * 1e8).round() / 1e6))
}

/// A share as a fraction: `a quarter`, `four fifths`.
///
/// # Panics
/// If the share is not a fraction with a denominator of at most 12.
pub fn fraction(share: f64) -> String {
    let parts =
        (2..=12).find(|parts| ((share * f64::from(*parts)).round() - share * f64::from(*parts)).abs() < 1e-9);
    let parts: u32 = parts.unwrap_or_else(|| panic!("{share} is no fraction"));
    let count = (share * f64::from(parts)).round() as u32;
    let part = match parts {
        2 => "half".to_owned(),
        4 => "quarter".to_owned(),
        _ => ordinal(parts),
    };
    match count {
        1 if parts == 2 => part,
        1 if parts == 8 || parts == 11 => format!("an {part}"),
        1 => format!("a {part}"),
        _ => format!("{} {part}s", word(count)),
    }
}

/// A share as a fraction without an article: `quarter`.
///
/// # Panics
/// If the share has no name as a fraction.
pub fn part(share: f64) -> String {
    fraction(share).trim_start_matches("an ").trim_start_matches("a ").to_owned()
}

/// Shares in percent, with the unit once: `1, 10 or 25 %`.
///
/// # Panics
/// If there are no shares.
pub fn percents<const N: usize>(shares: [f64; N]) -> String {
    let (last, others) = shares.split_last().expect("at least one share");
    let others: Vec<String> = others.iter().map(|share| percent(*share).replace(" %", "")).collect();
    format!("{} or {}", others.join(", "), percent(*last))
}

/// How many times: `twice`.
///
/// # Panics
/// If the number has no word here.
pub fn times(value: impl Display) -> String {
    match word(value).as_str() {
        "one" => "once".to_owned(),
        "two" => "twice".to_owned(),
        word => format!("{word} times"),
    }
}

/// One part of this many: `an eighth`.
pub fn one_part_of(parts: u32) -> String {
    fraction(1.0 / f64::from(parts))
}

/// A probability as `1 in 10,000`.
pub fn one_in(chance: f64) -> String {
    format!("1 in {}", number((1.0 / chance).round()))
}

/// A time.
pub trait Time {
    /// The time in nanoseconds.
    fn nanoseconds(self) -> u64;
}

impl Time for u64 {
    fn nanoseconds(self) -> u64 {
        self
    }
}

impl Time for Duration {
    fn nanoseconds(self) -> u64 {
        u64::try_from(self.as_nanos()).expect("less than 500 years")
    }
}

/// A time in the largest unit that needs no fraction: `100 ns`, `150 ms`, `8 s`, `1 h`. A plain number is in
/// nanoseconds.
pub fn time(time: impl Time) -> String {
    let ns = time.nanoseconds();
    let units = [("h", 3_600_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1000), ("ns", 1)];
    let (unit, length) =
        units.into_iter().find(|(_, length)| ns.is_multiple_of(*length)).expect("every ns is whole");
    format!("{} {unit}", number(ns / length))
}

/// A time in seconds: `0.3 s`. A plain number is in nanoseconds.
pub fn seconds(time: impl Time) -> String {
    format!("{} s", number(time.nanoseconds() as f64 / 1e9))
}

/// A time in minutes, in words: `three minutes`.
pub fn minutes(time: impl Time) -> String {
    format!("{} minutes", word(time.nanoseconds() / 60_000_000_000))
}

/// A number of bytes: `64 KiB`, `1 MiB`, `1,400 bytes`.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{} bytes", number(bytes)),
    }
}

/// The length of this many windows of 100 ms: `0.5 s`.
pub fn windows(count: impl Into<u64>) -> String {
    seconds(count.into() * 100_000_000)
}

/// The text with a capital at its start.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_on_the_pages() {
        assert_eq!(
            (number(35_000), number(1400), number(0.7), number(8.0)),
            four("35,000", "1,400", "0.7", "8")
        );
        assert_eq!(
            (percent(0.001), percent(0.025), percent(0.07), percent(0.85)),
            four("0.1 %", "2.5 %", "7 %", "85 %")
        );
        assert_eq!((word(7), word(50), word(4.0), ordinal(10)), four("seven", "fifty", "four", "tenth"));
        assert_eq!(
            (ordinal(8), ordinal(9), ordinal(12), ordinal(2)),
            four("eighth", "ninth", "twelfth", "second")
        );
        assert_eq!(
            (fraction(0.25), fraction(0.5), fraction(0.75), fraction(0.8)),
            four("a quarter", "half", "three quarters", "four fifths")
        );
        assert_eq!(
            (one_part_of(8), fraction(0.1), one_in(1e-4), minutes(Duration::from_secs(180))),
            four("an eighth", "a tenth", "1 in 10,000", "three minutes")
        );
        assert_eq!(
            (
                time(100_u64),
                time(Duration::from_millis(150)),
                time(3_600_000_000_000_u64),
                seconds(Duration::from_millis(300))
            ),
            four("100 ns", "150 ms", "1 h", "0.3 s")
        );
        assert_eq!(
            (bytes(64 << 10), bytes(1 << 20), bytes(1400), windows(5u32)),
            four("64 KiB", "1 MiB", "1,400 bytes", "0.5 s")
        );
        assert_eq!(
            (part(0.25), percents([0.01, 0.1, 0.25]), times(2.0), times(4)),
            four("quarter", "1, 10 or 25 %", "twice", "four times")
        );
        assert_eq!(capital("four fifths"), "Four fifths");
    }

    fn four(one: &str, two: &str, three: &str, four: &str) -> (String, String, String, String) {
        (one.into(), two.into(), three.into(), four.into())
    }
}

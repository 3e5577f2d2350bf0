//! The texts of headers: time limits, and messages about a status.

use std::fmt::Write as _;

/// Largest number in a `grpc-timeout`: eight digits.
const MOST: u64 = 99_999_999;

/// Units of `grpc-timeout`, with their length in nanoseconds.
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60 * 1_000_000_000),
    (b'H', 3600 * 1_000_000_000),
];

/// The value of `grpc-timeout` for a time limit in nanoseconds, such as `150m` for 150 ms. It is rounded up
/// if eight digits are not enough.
pub fn timeout(ns: u64) -> String {
    let exact = UNITS.iter().rev().find(|(_, length)| ns.is_multiple_of(*length) && ns / length <= MOST);
    let rounded = || UNITS.iter().find(|(_, length)| ns.div_ceil(*length) <= MOST);
    let (unit, length) = exact.filter(|_| ns > 0).or_else(rounded).copied().unwrap_or((b'H', UNITS[5].1));
    format!("{}{}", ns.div_ceil(length), char::from(unit))
}

/// Reads the value of `grpc-timeout`, in nanoseconds. `None` if it is not valid.
pub fn read_timeout(value: &[u8]) -> Option<u64> {
    let (unit, digits) = value.split_last()?;
    let (_, length) = UNITS.iter().find(|(known, _)| known == unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some(number.saturating_mul(*length))
}

/// Encodes a text for `grpc-message`: bytes other than printable ASCII, and `%`, become `%` and two digits.
pub fn encode_message(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("a string has room"),
        }
    }
    encoded
}

/// Decodes a `grpc-message`. Nothing is refused: wrong escapes stay as they are, and bytes that are not UTF-8
/// are replaced.
pub fn decode_message(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&first, others)) = rest.split_first() {
        rest = others;
        match (first, escaped(others)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that these two hexadecimal digits encode.
fn escaped(digits: &[u8]) -> Option<u8> {
    let digit = |place: usize| char::from(*digits.get(place)?).to_digit(16);
    Some((digit(0)? * 16 + digit(1)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_have_at_most_eight_digits() {
        for (ns, text) in [
            (0, "0n"),
            (1, "1n"),
            (1_500, "1500n"),
            (2_000, "2u"),
            (150_000_000, "150m"),
            (3_000_000_000, "3S"),
            (3_600_000_000_000, "1H"),
            (99_999_999, "99999999n"),
            (100_000_001, "100001u"),
            (10_000_000_001_001, "10000001m"),
        ] {
            assert_eq!(timeout(ns), text, "{ns}");
            let read = read_timeout(text.as_bytes()).expect(text);
            assert!(read >= ns && read - ns < 1_000_000, "{text}");
        }
        let longest = timeout(u64::MAX);
        assert!(longest.len() <= 9 && read_timeout(longest.as_bytes()).is_some(), "{longest}");
    }

    #[test]
    fn wrong_time_limits_are_not_read() {
        for wrong in ["", "5", "S", "123456789S", "5s", "-1S", "1.5S", " 1S"] {
            assert_eq!(read_timeout(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn messages_survive_their_encoding() {
        for (text, encoded) in
            [("", ""), ("too late", "too late"), ("100 %", "100 %25"), ("ä\n", "%C3%A4%0A"), ("~", "~")]
        {
            assert_eq!(encode_message(text), encoded);
            assert_eq!(decode_message(encoded.as_bytes()), text);
        }
        for (odd, text) in [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%c3%a4", "ä"), ("%+1", "%+1")] {
            assert_eq!(decode_message(odd.as_bytes()), text, "{odd}");
        }
        assert_eq!(decode_message(b"%FF"), "\u{fffd}");
    }
}

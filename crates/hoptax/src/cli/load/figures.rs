//! Formats numbers for people.

use hoptax_format::histogram::LOWEST;

/// Nanoseconds in a readable unit. Values below [`LOWEST`] are 0, because histograms cannot distinguish them
/// from zero.
pub(in crate::cli) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < LOWEST as f64 => "0".to_owned(),
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// Formats a round time without trailing zeros: `2.5 ms`.
pub(super) fn round(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", (value * 1000.0).round() / 1000.0)
}

/// Bytes in a readable unit.
pub(in crate::cli) fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} B"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.2} KiB", bytes / 1024.0),
        bytes if bytes < 1024.0 * 1024.0 * 1024.0 => format!("{:.2} MiB", bytes / 1024.0 / 1024.0),
        bytes => format!("{:.2} GiB", bytes / 1024.0 / 1024.0 / 1024.0),
    }
}

/// Formats a number with one decimal, and with commas between thousands: `1,234.5`.
pub(super) fn decimals(value: f64) -> String {
    let tenths = (value * 10.0).round() as u64;
    format!("{}.{}", thousands(tenths / 10), tenths % 10)
}

/// Formats a number with commas between thousands: `1,234,567`.
pub(in crate::cli) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with at most four characters and a letter: `950`, `12.3k`, `4.56M`.
pub(in crate::cli) fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value < 999.5 => return format!("{value:.0}"),
        value if value < 999_500.0 => (value / 1e3, "k"),
        value if value < 999_500_000.0 => (value / 1e6, "M"),
        value => (value / 1e9, "G"),
    };
    match value {
        value if value < 9.995 => format!("{value:.2}{unit}"),
        value if value < 99.95 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}

/// Formats a share as a percentage. `0 %` always means none and `100 %` always means all, because no other
/// share is rounded to `0 %` or `100 %`.
pub(super) fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) => "0 %".to_owned(),
        (part, whole) if part >= whole => "100 %".to_owned(),
        (part, whole) => {
            let share = 100.0 * part as f64 / whole as f64;
            format!("{:.2} %", share.clamp(0.01, 99.99))
        }
    }
}

/// Cuts `text` to at most `width` characters. If the text was longer, it ends with an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => {
            let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
            short.push('…');
            short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
        assert_eq!(decimals(12_345.67), "12,345.7");
        assert_eq!(
            [63.0, 350.0, 1_500.0, 2_340_000.0, 61e9].map(time),
            ["0", "350 ns", "1.5 µs", "2.34 ms", "61.00 s"].map(str::to_owned)
        );
        assert_eq!([10.0, 2048.0, 3.5e6].map(size), ["10 B", "2.00 KiB", "3.34 MiB"].map(str::to_owned));
        assert_eq!(
            [0.0, 999.4, 999.6, 9_996.0, 123_456.0, 999_999.0, 2e9].map(short),
            ["0", "999", "1.00k", "10.0k", "123k", "1.00M", "2.00G"].map(str::to_owned)
        );
    }

    #[test]
    fn round_times_have_no_trailing_zeros() {
        assert_eq!(
            [500.0, 1_250.0, 3.15e6, 1e9, 2e10].map(round),
            ["500 ns", "1.25 µs", "3.15 ms", "1 s", "20 s"].map(str::to_owned)
        );
    }

    #[test]
    fn only_none_is_0_percent_and_only_all_is_100_percent() {
        assert_eq!(percent(0, 10), "0 %");
        assert_eq!(percent(1, 1_000_000), "0.01 %");
        assert_eq!(percent(999_999, 1_000_000), "99.99 %");
        assert_eq!(percent(10, 10), "100 %");
        assert_eq!(percent(1, 8), "12.50 %");
    }
}

//! Formats numbers for people to read, with at most three significant digits.

use hoptax_stats::Estimate;

/// A unit that a value and its interval share, so that they are easy to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// The size of the unit, in the base unit. Values are divided by it.
    divisor: f64,
    pub(crate) unit: &'static str,
}

impl Scale {
    /// Chooses the unit for a time in µs.
    pub(crate) fn of_us(us: f64) -> Self {
        match us.abs() {
            us if us < 1000.0 => Self { divisor: 1.0, unit: "µs" },
            us if us < 1e6 => Self { divisor: 1e3, unit: "ms" },
            _ => Self { divisor: 1e6, unit: "s" },
        }
    }

    /// Chooses the unit for a throughput in requests/s.
    pub(crate) fn of_throughput(per_second: f64) -> Self {
        match per_second {
            _ if per_second < 2000.0 => Self::plain(),
            _ => Self { divisor: 1e3, unit: "k" },
        }
    }

    /// Chooses the unit for a number of bytes. The number may be negative.
    pub(crate) fn of_bytes(bytes: f64) -> Self {
        match bytes.abs() {
            bytes if bytes < 1024.0 => Self { divisor: 1.0, unit: "B" },
            bytes if bytes < 1024.0 * 1024.0 => Self { divisor: 1024.0, unit: "KiB" },
            bytes if bytes < 1024.0 * 1024.0 * 1024.0 => Self { divisor: 1024.0 * 1024.0, unit: "MiB" },
            _ => Self { divisor: 1024.0 * 1024.0 * 1024.0, unit: "GiB" },
        }
    }

    pub(crate) fn plain() -> Self {
        Self { divisor: 1.0, unit: "" }
    }

    /// The unit for shares, which are shown in per cent.
    pub(crate) fn percent() -> Self {
        Self { divisor: 0.01, unit: "%" }
    }

    /// The size of the unit, in the base unit.
    pub(crate) fn one(self) -> f64 {
        self.divisor
    }

    /// Formats a value in this unit, without the unit's name.
    pub(crate) fn number(self, value: f64) -> String {
        number(value / self.divisor)
    }

    pub(crate) fn value(self, value: f64) -> String {
        match self.unit {
            "" => self.number(value),
            unit => format!("{} {unit}", self.number(value)),
        }
    }

    /// Formats an interval without its unit: `38–44`, or `−3 to 5` if a dash could be mistaken for a minus
    /// sign.
    pub(crate) fn interval(self, low: f64, high: f64) -> String {
        let between = if low < 0.0 || high < 0.0 { " to " } else { "–" };
        let (low, high) = ends(low / self.divisor, high / self.divisor);
        format!("{low}{between}{high}")
    }

    /// Formats an estimate in this unit. If three digits would put it outside of its own interval, it gets
    /// the interval's decimals.
    pub(crate) fn estimate(self, estimate: &Estimate) -> String {
        let value = estimate.estimate / self.divisor;
        let rounded = (value / step(value)).round() * step(value);
        let text = match estimate.interval().map(|(low, high)| (low / self.divisor, high / self.divisor)) {
            Some((low, high)) if !(low..=high).contains(&rounded) => ends(value, value + high - low).0,
            _ => number(value),
        };
        if self.unit.is_empty() { text } else { format!("{text} {}", self.unit) }
    }

    /// Formats the interval of an estimate. Returns `one trial` or `no interval` if there is none.
    pub(crate) fn interval_of(self, estimate: &Estimate) -> String {
        match estimate.interval() {
            Some((low, high)) => self.interval(low, high),
            None if estimate.trials > 1 => "no interval".into(),
            None => "one trial".into(),
        }
    }
}

/// A number up to this size is zero with a rounding error.
const ROUNDING: f64 = 1e-9;

/// Formats the ends of an interval. The width of the interval determines the number of decimals, so that
/// rounding moves an end by at most 5 % of the width. If the width is zero, both ends are formatted like any
/// other number. An interval that excludes zero does so after rounding too.
fn ends(low: f64, high: f64) -> (String, String) {
    let width = high - low;
    if width <= 0.0 || !width.is_finite() {
        return (nonzero(low), nonzero(high));
    }
    // A step of 1 in the last decimal is at most a tenth of the width. Rounding moves an end by at most half
    // a step. More than three decimals do not help.
    let mut decimals = (-(width / 10.0).log10().floor()).clamp(0.0, 3.0) as usize;
    // Above zero if the interval excludes zero.
    let nearest = low.max(-high);
    if nearest > ROUNDING && nearest <= 0.5 * 10_f64.powi(-(decimals as i32)) {
        decimals = first_decimal(nearest);
    }
    let rounded = |end: f64| {
        let text = format!("{:.decimals$}", end.abs());
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let nothing = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        let sign = if end < 0.0 && !nothing { "−" } else { "" };
        let whole = grouped(whole.parse().unwrap_or(f64::NAN));
        match (nothing, fraction) {
            (true, _) => "0".to_string(),
            (false, "") => format!("{sign}{whole}"),
            (false, fraction) => format!("{sign}{whole}.{fraction}"),
        }
    };
    (rounded(low), rounded(high))
}

/// Formats a number with three significant digits, thousands separators and a real minus sign.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match decimals(size) {
        0 if size > 0.0 => return grouped(value),
        digits => digits,
    };
    let text = format!("{size:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    if value < 0.0 && text != "0" { format!("−{text}") } else { text }
}

/// Formats a number like [`number`], but shows only zero as zero.
pub(crate) fn nonzero(value: f64) -> String {
    let text = number(value);
    if text != "0" || value.abs() <= ROUNDING {
        return text;
    }
    let (sign, decimals) = (if value < 0.0 { "−" } else { "" }, first_decimal(value.abs()));
    format!("{sign}{:.decimals$}", value.abs())
}

/// The decimal with the first digit of a number below one.
fn first_decimal(size: f64) -> usize {
    (-size.log10().floor()).clamp(0.0, 12.0) as usize
}

/// Number of decimals of [`number`].
fn decimals(size: f64) -> usize {
    match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size == 0.0 => 0,
        _ => 2,
    }
}

/// The step to which [`number`] rounds.
fn step(value: f64) -> f64 {
    10_f64.powi(-(decimals(value.abs()) as i32))
}

/// Formats a whole number with thousands separators.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("−{text}") } else { text }
}

/// Formats a number of bytes with a suitable unit.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        _ if bytes < 1024.0 => format!("{} B", number(bytes)),
        _ if bytes < 1024.0 * 1024.0 => format!("{} KiB", number(bytes / 1024.0)),
        _ if bytes < 1024.0 * 1024.0 * 1024.0 => format!("{} MiB", number(bytes / (1024.0 * 1024.0))),
        _ => format!("{} GiB", number(bytes / (1024.0 * 1024.0 * 1024.0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.123, "0.12"),
            (1.5, "1.5"),
            (1.999, "2"),
            (12.34, "12.3"),
            (99.96, "100"),
            (714.4, "714"),
            (41_234.0, "41,234"),
            (1_234_567.0, "1,234,567"),
            (-12.34, "−12.3"),
            (-1234.0, "−1,234"),
            (-0.001, "0"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn an_estimate_is_within_its_own_interval() {
        let of = |estimate, low, high| {
            Scale::of_us(estimate).estimate(&Estimate {
                estimate,
                low: Some(low),
                high: Some(high),
                trials: 9,
            })
        };
        assert_eq!(of(13.35, 13.313, 13.386), "13.350 µs", "13.3 is below the interval");
        assert_eq!(of(13.35, 13.2, 13.5), "13.3 µs");
        assert_eq!(of(-812.46, -812.5, -812.42), "−812.460 µs");
        assert_eq!(Scale::plain().estimate(&Estimate::bare(1000.4, 1)), "1,000");
    }

    #[test]
    fn times_in_their_unit() {
        assert_eq!(Scale::of_us(714.0).value(714.0), "714 µs");
        assert_eq!(Scale::of_us(1930.0).value(1930.0), "1.93 ms");
        assert_eq!(Scale::of_us(1930.0).interval(1800.0, 2060.0), "1.80–2.06");
        assert_eq!(Scale::of_us(4.0).interval(-3.0, 5.0), "−3.0 to 5.0");
        assert_eq!(Scale::of_us(2.1e6).value(2.1e6), "2.1 s");
        assert_eq!(Scale::percent().value(0.321), "32.1 %");
        assert_eq!(Scale::of_throughput(1876.0).value(1876.0), "1,876");
        assert_eq!(Scale::of_throughput(47_840.0).value(47_840.0), "47.8 k");
    }

    #[test]
    fn ends_of_intervals_have_decimals_to_match_their_width() {
        for (low, high, text) in [
            (8.93, 26.1, "9–26"),
            (-2.75, 47.5, "−3 to 48"),
            (9.41, 10.5, "9.4–10.5"),
            (722.4, 1159.2, "722–1,159"),
            (-0.04, 60.0, "0 to 60"),
            (0.04, 60.0, "0.04–60.00"),
            (-60.0, -0.5, "−60.0 to −0.5"),
            (0.002, 0.002, "0.002–0.002"),
            (1000.0, 1000.0, "1,000–1,000"),
        ] {
            assert_eq!(Scale::plain().interval(low, high), text);
        }
        for low in [-1234.5, -0.3, 0.0, 7.77, 54_321.0] {
            for width in [0.05, 0.7, 3.0, 99.0, 4321.0] {
                let (told, _) = ends(low, low + width);
                let told: f64 = told.replace('−', "-").replace(',', "").parse().expect("a number");
                assert!((told - low).abs() <= 0.05 * width + 1e-9, "{told} for {low}, {width} wide");
            }
        }
    }

    #[test]
    fn a_printed_interval_excludes_zero_exactly_if_the_interval_does() {
        let mut random = hoptax_format::random::Random::new(13);
        let parse = |text: &str| text.replace('−', "-").replace(',', "").parse::<f64>().expect("a number");
        for _ in 0..2000 {
            let width = 10_f64.powf(8.0 * random.unit() - 4.0);
            let low = width * (3.0 * random.unit() - 2.0) * 10_f64.powf(-4.0 * random.unit());
            let (told_low, told_high) = ends(low, low + width);
            let told = parse(&told_low) > 0.0 || parse(&told_high) < 0.0;
            assert_eq!(
                told,
                low > 0.0 || low + width < 0.0,
                "{told_low} {told_high} for {low}, {width} wide"
            );
        }
    }

    #[test]
    fn bytes_in_their_unit() {
        assert_eq!(bytes(765.0), "765 B");
        assert_eq!(bytes(12.0 * 1024.0 * 1024.0), "12 MiB");
    }
}

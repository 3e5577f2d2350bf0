//! Prints values with units as plans have them: `250ms`, `1000/s`, `64KiB`, `1%`. hoptax-plan parses them.

use hoptax_format::spec::{Arrivals, Rate};
use std::time::Duration;

/// Units of time with their lengths in nanoseconds, the longest first.
pub const TIME_UNITS: [(&str, f64); 6] =
    [("h", 3.6e12), ("m", 6e10), ("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];

/// Units of size with their lengths in bytes. Only the first four are used to show sizes. They are sorted,
/// longest first.
pub const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

/// Default of `jitter` without an argument: each request is moved by up to ±10 % of the interval between
/// requests.
pub const DEFAULT_JITTER: f64 = 0.1;

/// Shows a duration in the largest unit that needs no more than three decimals: `1.5s`, `250ms`, `0s`.
pub fn show_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos() as f64;
    if duration.is_zero() {
        return "0s".to_owned();
    }
    for (unit, length) in TIME_UNITS {
        let value = nanoseconds / length;
        let rounded = (value * 1000.0).round() / 1000.0;
        if value >= 1.0 && (rounded * length).round() == nanoseconds {
            return format!("{rounded}{unit}");
        }
    }
    format!("{}ns", duration.as_nanos())
}

/// Shows a rate, given in requests per second.
pub fn show_rate(per_second: f64) -> String {
    let rounded = (per_second * 1000.0).round() / 1000.0;
    if rounded == per_second {
        return format!("{per_second}/s");
    }
    for (seconds, unit) in [(60.0, "m"), (3600.0, "h")] {
        let value: f64 = per_second * seconds;
        if (value - value.round()).abs() < 1e-6 {
            return format!("{}/{unit}", value.round());
        }
    }
    format!("{per_second}/s")
}

/// Shows a size in the largest unit that divides it without remainder: `64KiB`, `1000B`.
pub fn show_size(bytes: u64) -> String {
    let (unit, length) = SIZE_UNITS[..4]
        .iter()
        .find(|(_, length)| bytes >= *length && bytes.is_multiple_of(*length))
        .unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / length)
}

/// Shows a share as a percentage: `1%`.
pub fn show_share(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

/// Shows arrivals in plan syntax.
pub fn show_arrivals(arrivals: Arrivals) -> String {
    match arrivals {
        Arrivals::Constant => "constant".to_owned(),
        Arrivals::Jitter(share) if share == DEFAULT_JITTER => "jitter".to_owned(),
        Arrivals::Jitter(share) => format!("jitter({})", show_share(share)),
        Arrivals::Poisson => "poisson".to_owned(),
    }
}

/// Shows sizes in plan syntax.
pub fn show_sizes(sizes: &[(f64, u64)]) -> String {
    match sizes {
        [(_, only)] => format!("{only}B"),
        several => {
            let part = |(share, size): &(f64, u64)| format!("{} {size}B", show_share(*share));
            format!("choice({})", several.iter().map(part).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Shows a rate, or stages, in plan syntax.
pub fn show_pace(rate: &Rate) -> String {
    let stages = match rate {
        Rate::Fixed(rate) => return show_rate(*rate),
        Rate::Stages(stages) => stages,
    };
    let mut ended = 0.0;
    let words = stages.iter().map(|stage| {
        let time = show_duration(Duration::from_nanos(stage.for_ns));
        let begins_where_it_ended = stage.from == std::mem::replace(&mut ended, stage.to);
        let to = show_rate(stage.to);
        if stage.from == stage.to {
            format!("{to} for {time}")
        } else if begins_where_it_ended {
            format!("ramp to {to} over {time}")
        } else {
            format!("ramp from {} to {to} over {time}", show_rate(stage.from))
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A number with thousands separators. A fraction is kept.
pub fn grouped(rate: f64) -> String {
    let text = rate.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

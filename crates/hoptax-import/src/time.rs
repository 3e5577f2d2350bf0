//! Times in logs, as seconds since 1970.

use std::time::{Duration, UNIX_EPOCH};

/// `27/Nov/2026:20:25:44 +0000`, as in the common log format.
pub(crate) fn common(text: &str) -> Option<f64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let (day, rest) = text.split_once('/')?;
    let (month, rest) = rest.split_once('/')?;
    let (year, rest) = rest.split_once(':')?;
    let (clock, zone) = rest.split_once(' ').unwrap_or((rest, "+0000"));
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Some(utc(&format!("{year}-{month:02}-{day:0>2}"), clock)? - offset(zone)?)
}

/// `2026-11-27T20:25:44.123Z`, ISO 8601.
pub(crate) fn iso(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', ' ', 't'])?;
    let end = rest.find(['Z', 'z', '+', '-', ' ']).unwrap_or(rest.len());
    Some(utc(date, &rest[..end])? - offset(rest[end..].trim())?)
}

/// Seconds since 1970 of a date and a time of day without an offset.
fn utc(date: &str, clock: &str) -> Option<f64> {
    let time = humantime::parse_rfc3339_weak(&format!("{date} {clock}")).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

/// Any of the forms that logs contain: the two above, or seconds or milliseconds since 1970.
pub(crate) fn any(text: &str) -> Option<f64> {
    match text.trim().parse::<f64>() {
        Ok(number) => epoch(number),
        Err(_) => iso(text.trim()).or_else(|| common(text.trim())),
    }
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, as seconds.
pub(crate) fn epoch(number: f64) -> Option<f64> {
    // 10¹¹ seconds are in the year 5138, 10¹¹ milliseconds in 1973.
    let divisor = [1.0, 1e3, 1e6, 1e9].into_iter().find(|divisor| number / divisor < 1e11)?;
    (number > 0.0).then_some(number / divisor)
}

/// `2026-11-27 20:25:44 UTC`.
pub(crate) fn shown(seconds: f64) -> String {
    let since = Duration::from_secs(seconds.max(0.0) as u64);
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

/// Seconds east of Greenwich: `Z`, `+0100`, `+01:00` or nothing.
fn offset(zone: &str) -> Option<f64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") || zone.eq_ignore_ascii_case("utc") {
        return Some(0.0);
    }
    let (sign, digits) = zone.split_at_checked(1)?;
    let digits: String = digits.chars().filter(|letter| *letter != ':').collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes: f64 = if minutes.is_empty() { 0.0 } else { minutes.parse().ok()? };
    let seconds = hours.parse::<f64>().ok()? * 3600.0 + minutes * 60.0;
    match sign {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_moment_is_the_same_number() {
        let moment = 1_795_811_144.0;
        for text in [
            "27/Nov/2026:20:25:44 +0000",
            "[27/Nov/2026:21:25:44 +0100]",
            "2026-11-27T20:25:44Z",
            "2026-11-27T15:25:44.000-05:00",
            "2026-11-27 20:25:44",
            "1795811144",
            "1795811144000",
        ] {
            assert_eq!(any(text), Some(moment), "{text}");
        }
        assert_eq!(any("1795811144.250"), Some(moment + 0.25));
        assert_eq!(shown(moment), "2026-11-27 20:25:44 UTC");
        for text in ["", "-", "27/Nov/2026", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "99:99:99"] {
            assert_eq!(any(text), None, "{text}");
        }
    }
}

//! Times in logs, as seconds since 1970.

/// `27/Nov/2026:20:25:44 +0000`, as in the common log format.
pub(crate) fn common(text: &str) -> Option<f64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let (day, rest) = text.split_once('/')?;
    let (month, rest) = rest.split_once('/')?;
    let (year, rest) = rest.split_once(':')?;
    let (clock, zone) = rest.split_once(' ').unwrap_or((rest, "+0000"));
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let days = days(year.parse().ok()?, month, day.parse().ok()?)?;
    Some(days as f64 * 86_400.0 + of_day(clock)? - offset(zone)?)
}

/// `2026-11-27T20:25:44.123Z`, ISO 8601.
pub(crate) fn iso(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split('-');
    let days = days(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)?;
    let rest = rest.strip_prefix(['T', ' ', 't'])?;
    let end = rest.find(['Z', 'z', '+', '-', ' ']).unwrap_or(rest.len());
    Some(days as f64 * 86_400.0 + of_day(&rest[..end])? - offset(rest[end..].trim())?)
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
    let whole = seconds.floor() as i64;
    let (days, rest) = (whole.div_euclid(86_400), whole.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

fn of_day(clock: &str) -> Option<f64> {
    let mut parts = clock.split(':');
    let (hours, minutes, seconds): (f64, f64, f64) =
        (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let fits = hours < 24.0 && minutes < 60.0 && seconds < 61.0;
    (fits && parts.next().is_none()).then_some(hours * 3600.0 + minutes * 60.0 + seconds)
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

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // Day of the year of the first of each month, from March: 0, 31, 61, 92, …
    Some(year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// The date that is this many days after 1970-01-01.
fn civil(number: i64) -> (i64, i64, i64) {
    let mut year = 1970 + number / 366;
    while days(year + 1, 1, 1).is_some_and(|next| next <= number) {
        year += 1;
    }
    let month =
        (1..=12).rev().find(|month| days(year, *month, 1).is_some_and(|first| first <= number)).unwrap_or(1);
    (year, month, number - days(year, month, 1).unwrap_or(number) + 1)
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
        for text in ["", "-", "27/Nov/2026", "2026-13-01T00:00:00Z", "99:99:99"] {
            assert_eq!(any(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (date, number) in
            [("1970-01-01", 0), ("1972-02-29", 789), ("2000-03-01", 11_017), ("2100-03-01", 47_541)]
        {
            assert_eq!(iso(&format!("{date}T00:00:00Z")), Some(f64::from(number) * 86_400.0), "{date}");
            assert!(shown(f64::from(number) * 86_400.0).starts_with(date), "{date}");
        }
    }
}

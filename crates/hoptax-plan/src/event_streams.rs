//! Limits of the built-in upstream's server-sent events, for plans and for `hoptax upstream`.

use crate::calls::LONGEST_MESSAGE;
use crate::units::{UnitError, show_size};
use hoptax_format::messages::{ENDLESS, Stamp};
use hoptax_record::plan::UpstreamEvents;

/// Maximum number of events of a response that ends.
pub const MOST_EVENTS: u32 = 1_000_000;
/// Maximum number of events of a write, and of writes of an event.
pub const MOST_PER_WRITE: u32 = 1000;
/// Maximum length of the data of the events that are sent in one write, bytes.
pub const LONGEST_WRITE: u64 = 16 << 20;
/// The number of events of a response that does not end.
const ENDLESS_NAME: &str = "endless";

/// Reads a number of events. [`ENDLESS`] is written `endless`.
///
/// # Errors
/// If it is neither a number from 1 to [`MOST_EVENTS`] nor `endless`.
pub fn count(text: &str) -> Result<u32, UnitError> {
    if text == ENDLESS_NAME {
        return Ok(ENDLESS);
    }
    let count = text.parse::<u32>().ok().filter(|count| (1..=MOST_EVENTS).contains(count));
    count.ok_or_else(|| {
        let help = format!("use 1 to {MOST_EVENTS}, or {ENDLESS_NAME}");
        UnitError::new(format!("`{text}` is not a number of events"), help)
    })
}

/// A number of events as [`count`] reads it.
pub fn show_count(count: u32) -> String {
    if count == ENDLESS { ENDLESS_NAME.to_owned() } else { count.to_string() }
}

/// Checks whether the built-in upstream can send these events.
///
/// # Errors
/// If a number is zero or too large, the data have no room for a stamp, or two settings exclude each other.
pub fn check(events: &UpstreamEvents) -> Result<(), UnitError> {
    let UpstreamEvents { count, gap, bytes, per_write, split, heartbeat, .. } = events;
    self::count(&show_count(*count))?;
    let stamp = Stamp::TEXT_LENGTH as u32;
    if *bytes < stamp {
        return Err(UnitError::new(
            format!("an event of {bytes}B has no room for its number and its time"),
            format!("use at least {stamp}B"),
        ));
    }
    let limits = format!("use 1 to {MOST_PER_WRITE}");
    let is_possible = |number: &u32| (1..=MOST_PER_WRITE).contains(number);
    if !is_possible(per_write) {
        return Err(UnitError::new(format!("a write cannot have {per_write} events"), limits));
    }
    if !is_possible(split) {
        return Err(UnitError::new(format!("an event cannot be sent in {split} writes"), limits));
    }
    if split > bytes {
        return Err(UnitError::new(
            format!("an event of {bytes}B cannot be sent in {split} writes"),
            "use fewer writes or more bytes",
        ));
    }
    if *split > 1 && *per_write > 1 {
        return Err(UnitError::new(
            "a write cannot have several events and also a part of one",
            "leave out the number of events of a write, or the number of writes of an event",
        ));
    }
    check_write(*bytes, *per_write)?;
    if *count == ENDLESS && gap.is_zero() {
        return Err(UnitError::new(
            "endless events without a gap would fill the connection",
            "set the time between two writes, such as 100ms",
        ));
    }
    if heartbeat.is_some_and(|time| time.is_zero()) {
        return Err(UnitError::new(
            "the time until a comment is zero",
            "use a time such as 15s, or leave it out",
        ));
    }
    Ok(())
}

/// Checks the length of a write, which the upstream keeps in memory. `bytes` is the length of the data of an
/// event.
///
/// # Errors
/// If an event or the write is too long.
pub fn check_write(bytes: u32, per_write: u32) -> Result<(), UnitError> {
    let (bytes, per_write) = (u64::from(bytes), u64::from(per_write));
    for (length, most, what) in
        [(bytes, LONGEST_MESSAGE, "an event"), (bytes * per_write, LONGEST_WRITE, "a write")]
    {
        if length > most {
            let help = format!("use at most {}", show_size(most));
            return Err(UnitError::new(format!("{what} of {length}B is too long"), help));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusals;
    use std::time::Duration;

    const USUAL: UpstreamEvents = UpstreamEvents {
        count: 10,
        gap: Duration::from_millis(100),
        bytes: 64,
        first: Duration::ZERO,
        per_write: 1,
        split: 1,
        heartbeat: None,
    };

    #[test]
    fn numbers_of_events_are_read_as_they_are_shown() {
        for number in [1, 20, MOST_EVENTS, ENDLESS] {
            assert_eq!(count(&show_count(number)), Ok(number));
        }
        let wrong = ["0", "-1", "1000001", "many", ""];
        insta::assert_snapshot!(refusals(&wrong, |text| count(text).expect_err(text).to_string()));
    }

    #[test]
    fn impossible_events_are_refused() {
        let shortest = UpstreamEvents { bytes: 35, count: 1, gap: Duration::ZERO, ..USUAL };
        for right in [
            USUAL,
            shortest,
            UpstreamEvents { count: ENDLESS, per_write: 1000, ..USUAL },
            UpstreamEvents { split: 64, heartbeat: Some(Duration::from_secs(15)), ..USUAL },
        ] {
            assert_eq!(check(&right), Ok(()), "{right:?}");
        }
        let told = [
            UpstreamEvents { bytes: 34, ..USUAL },
            UpstreamEvents { count: 0, ..USUAL },
            UpstreamEvents { per_write: 0, ..USUAL },
            UpstreamEvents { split: 1001, ..USUAL },
            UpstreamEvents { split: 2, per_write: 2, ..USUAL },
            UpstreamEvents { split: 65, ..USUAL },
            UpstreamEvents { bytes: 1 << 20, per_write: 17, ..USUAL },
            UpstreamEvents { bytes: 5 << 20, ..USUAL },
            UpstreamEvents { count: ENDLESS, gap: Duration::ZERO, ..USUAL },
            UpstreamEvents { heartbeat: Some(Duration::ZERO), ..USUAL },
        ]
        .map(|wrong| check(&wrong).expect_err("impossible").to_string());
        insta::assert_snapshot!(told.join("\n"));
    }
}

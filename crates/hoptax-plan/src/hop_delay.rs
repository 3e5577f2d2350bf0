//! Limits of the known delays, warm-ups and faults of the built-in hop.

use crate::units::{UnitError, show_duration};
use crate::{HopDeadline, HopDelay, HopFaults, HopWarming};
use std::time::Duration;

/// Longest accepted delay. A longer delay is probably a typing error.
pub const LONGEST_HOP_DELAY: Duration = Duration::from_secs(60);

/// Largest accepted number of requests of a warm-up. A larger number is probably a typing error.
pub const MOST_WARMING_REQUESTS: u64 = 1_000_000_000;

/// Shortest accepted extra time of a warm-up. A shorter time is less than a run can measure.
pub const SHORTEST_WARMING: Duration = Duration::from_micros(1);

/// Longest accepted extra time of a warm-up. A longer time is probably a typing error.
pub const LONGEST_WARMING: Duration = Duration::from_secs(1);

/// Largest accepted number of events that a hop collects. A larger number is probably a typing error.
const MOST_BUNCHED: u32 = 1000;

/// Largest accepted number of times that a hop sends a request again.
const MOST_RETRIES: u32 = 100;

/// Checks that the share, the delays, the warm-up and the faults are in range.
///
/// # Errors
/// What is wrong, and how to fix it.
pub fn check_hop_delay(delay: &HopDelay) -> Result<(), UnitError> {
    if delay.share <= 0.0 || delay.share > 1.0 {
        return Err(UnitError::new(
            "`share` must be above 0% and at most 100%",
            "write a share above 0%, or remove `share` for 100%",
        ));
    }
    let longest = delay.inbound.max(delay.outbound).max(delay.message);
    if longest > LONGEST_HOP_DELAY {
        return Err(UnitError::new(
            format!("the delay {} is too long", show_duration(longest)),
            format!("write {} or less", show_duration(LONGEST_HOP_DELAY)),
        ));
    }
    delay.warming.as_ref().map_or(Ok(()), check_hop_warming)?;
    delay.faults.as_ref().map_or(Ok(()), check_hop_faults)
}

/// Checks that the faults have an effect and are in range.
///
/// # Errors
/// What is wrong, and how to fix it.
pub(crate) fn check_hop_faults(faults: &HopFaults) -> Result<(), UnitError> {
    if *faults == HopFaults::default() {
        return Err(UnitError::new(
            "the faults have no effect",
            format!(
                "write at least one of `drop`, `repeat`, `hold`, {}, {}",
                HopFaults::OF_CALLS,
                HopFaults::OF_STREAMS
            ),
        ));
    }
    let deadline = match faults.deadline {
        Some(HopDeadline::Replace(time)) => time,
        _ => Duration::ZERO,
    };
    if faults.deadline == Some(HopDeadline::Replace(Duration::ZERO)) {
        return Err(UnitError::new("the deadline is zero", "write a time such as 100ms, or drop"));
    }
    if faults.bunch == 1 || faults.bunch > MOST_BUNCHED {
        return Err(UnitError::new(
            format!("a bunch of {} is out of range", faults.bunch),
            format!("write 2 to {MOST_BUNCHED} events"),
        ));
    }
    let llm = faults.llm.unwrap_or_default();
    if llm.retry > MOST_RETRIES {
        return Err(UnitError::new(
            format!("{} retries are too many", llm.retry),
            format!("write {MOST_RETRIES} or fewer"),
        ));
    }
    let longest = faults.hold.max(deadline).max(faults.cut).max(llm.hold_first);
    if longest > LONGEST_HOP_DELAY {
        return Err(UnitError::new(
            format!("{} is too long", show_duration(longest)),
            format!("write {} or less", show_duration(LONGEST_HOP_DELAY)),
        ));
    }
    Ok(())
}

/// Checks that the number of requests and the extra time are in range.
///
/// # Errors
/// What is wrong, and how to fix it.
pub(crate) fn check_hop_warming(warming: &HopWarming) -> Result<(), UnitError> {
    if warming.requests == 0 || warming.requests > MOST_WARMING_REQUESTS {
        return Err(UnitError::new(
            format!("a warm-up of {} requests is out of range", warming.requests),
            format!("write 1 to {MOST_WARMING_REQUESTS} requests"),
        ));
    }
    if warming.extra < SHORTEST_WARMING || warming.extra > LONGEST_WARMING {
        let (shortest, longest) = (show_duration(SHORTEST_WARMING), show_duration(LONGEST_WARMING));
        return Err(UnitError::new(
            format!("the extra time {} of the warm-up is out of range", show_duration(warming.extra)),
            format!("write {shortest} to {longest}"),
        ));
    }
    Ok(())
}

//! The warm-up: fixed, or until each process has settled.

use super::reader::Reader;
use crate::raw::{Placed, RawWarmUp, Short, Time};
use crate::{UntilSettled, units};
use std::time::Duration;

/// Default time of unmeasured traffic before a trial.
const WARMUP: Duration = Duration::from_secs(2);

/// Default time of unmeasured traffic before the short trials of a plan without `trials`. This time is enough
/// to fill caches again, because the process has been warmed up after its start.
const SHORT_WARMUP: Duration = Duration::from_millis(50);

/// Default limit of a warm-up, as time under load. .NET and JVM gateways needed 3 to 30 s, depending on how
/// they were loaded.
const AT_MOST: Duration = Duration::from_secs(60);

/// The longest limit of a warm-up.
const LONGEST: Duration = Duration::from_secs(3600);

/// Reads the warm-up before each trial, and the limits of the warm-up after the start of a process. `timed`
/// is true if the plan has short trials.
pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Option<Placed<Short<RawWarmUp, Time>>>,
    timed: bool,
) -> (Duration, Option<UntilSettled>) {
    let each = if timed { SHORT_WARMUP } else { WARMUP };
    let default = UntilSettled { at_most: AT_MOST, overload_external: false };
    match typed {
        None => (each, Some(default)),
        Some(Placed { place, value: Short::Word(time) }) => {
            (reader.time(Some(Placed { place, value: time }), each), None)
        }
        Some(Placed { place, value: Short::Full(typed) }) => {
            if typed.at_most.is_none() && typed.overload_external.is_none() {
                reader.fault(
                    place,
                    "`warmup` is empty",
                    "add `at_most` or `overload_external`, or write a time such as 2s",
                );
            }
            let at_most = match typed.at_most {
                None => AT_MOST,
                Some(typed) => limit(reader, &typed),
            };
            (
                each,
                Some(UntilSettled { at_most, overload_external: typed.overload_external.unwrap_or(false) }),
            )
        }
    }
}

fn limit(reader: &mut Reader<'_>, typed: &Placed<Time>) -> Duration {
    let Some(at_most) = reader.unit(typed, units::duration) else { return AT_MOST };
    if at_most.is_zero() || at_most > LONGEST {
        reader.fault(
            typed.place,
            "`at_most` is out of range",
            "write a time above 0 and up to 1h, or `warmup: 0s` for none",
        );
    }
    at_most
}

//! The number of rounds: fixed, or `auto`.

use super::reader::Reader;
use crate::raw::{Placed, RawTrials, Short, TrialsText};
use crate::{AutoTrials, Trials, units};
use std::time::Duration;

/// Maximum number of rounds. More rounds would take weeks.
const MOST_TRIALS: u32 = 10_000;

/// Default number of rounds. With fewer rounds, intervals contain the true value just as often (see METHODOLOGY.md),
/// but they are much wider: Student's t is 12.7 for two rounds, 4.3 for three and 2.8 for five.
const DEFAULT: u32 = 5;

/// Default settings of `auto`. The maximum is 30 rounds. To halve the width of the interval again, 120 rounds would be
/// necessary.
const AUTO: AutoTrials =
    AutoTrials { within: 0.05, at_most: Duration::from_secs(600), least: DEFAULT, most: 30 };

/// Minimum number of rounds of `auto`. A single round does not show how much the results of rounds vary.
const FEWEST: u32 = 2;

pub(super) fn read(reader: &mut Reader<'_>, typed: Option<Placed<Short<RawTrials, TrialsText>>>) -> Trials {
    let Some(Placed { place, value }) = typed else { return Trials::Fixed(DEFAULT) };
    match value {
        Short::Word(word) if word.0 == "auto" => Trials::Auto(AUTO),
        Short::Word(word) => match word.0.parse() {
            Ok(value) => {
                let rounds = Placed { place, value };
                Trials::Fixed(reader.count(Some(&rounds), "trials", DEFAULT, MOST_TRIALS))
            }
            Err(_) => {
                reader.fault(
                    place,
                    format!("`{}` is not a number of rounds", word.0),
                    "write a whole number such as 5, `auto`, or { within: 5%, at_most: 10m }",
                );
                Trials::Fixed(DEFAULT)
            }
        },
        Short::Full(auto) => Trials::Auto(automatic(reader, auto)),
    }
}

fn automatic(reader: &mut Reader<'_>, typed: RawTrials) -> AutoTrials {
    let mut within = AUTO.within;
    if let Some(share) = &typed.within {
        within = reader.unit(share, units::share).unwrap_or(within);
        if within <= 0.0 {
            reader.fault(
                share.place,
                "`within` is zero",
                "write for example 5%; no interval has a width of zero",
            );
        }
    }
    let at_most = typed.at_most.as_ref().map(|time| time.place);
    let time = reader.time(typed.at_most, AUTO.at_most);
    if let (Some(place), true) = (at_most, time.is_zero()) {
        reader.fault(place, "`at_most` is zero", "write the longest time for all rounds, such as 10m");
    }
    let least = reader.count(typed.least.as_ref(), "least", AUTO.least, MOST_TRIALS);
    let most = reader.count(typed.most.as_ref(), "most", AUTO.most.max(least), MOST_TRIALS);
    if let Some(place) = typed.least.as_ref().map(|typed| typed.place)
        && least > 0
        && least < FEWEST
    {
        reader.fault(place, "`least` is 1", "write 2 or more; one round gives no interval");
    }
    if let Some(place) = typed.most.or(typed.least).map(|typed| typed.place)
        && most > 0
        && most < least
    {
        reader.fault(
            place,
            format!("`most` ({most}) is below `least` ({least})"),
            "swap the two, or remove one",
        );
    }
    AutoTrials { within, at_most: time, least, most }
}

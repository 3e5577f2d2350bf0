//! The number of rounds: as many as fit into a time, fixed, or `auto`.

use super::reader::Reader;
use crate::raw::{Placed, PrecisionText, RawTrials, Short, Time, TrialsText};
use crate::{AutoTrials, MOST_ROUNDS, Trials, units};
use std::time::Duration;

/// Default number of rounds. With fewer rounds, intervals are still correct (see METHODOLOGY.md), but they
/// are much wider: Student's t is 12.7 for two rounds, 4.3 for three rounds and 2.8 for five rounds.
const DEFAULT: u32 = 5;

/// Default settings of `auto`. The maximum is 30 rounds: an interval half as wide as that of 30 rounds needs
/// about four times as many rounds (120).
const AUTO: AutoTrials =
    AutoTrials { within: 0.05, within_us: None, at_most: Duration::from_secs(600), least: DEFAULT, most: 30 };

/// Minimum number of rounds of `auto`. A single round does not show how much the results of rounds vary.
const FEWEST: u32 = 2;

/// Default time limit of a plan without `trials`.
const TIME: Duration = Duration::from_secs(180);

/// Minimum number of rounds of a plan without `trials`, if the time allows. If rounds agree by luck, the run
/// stops too early. With at least 10 rounds, this reduces the coverage by at most two per cent (see
/// METHODOLOGY.md).
const FEWEST_TIMED: u32 = 10;

/// Settings of a plan without `trials`. Many short rounds give a precise result, so rounds continue until the
/// time is over or the result is precise enough.
const TIMED: AutoTrials =
    AutoTrials { within: 0.05, within_us: None, at_most: TIME, least: FEWEST_TIMED, most: MOST_ROUNDS };

/// Maximum of `restarts`.
const MOST_RESTARTS: u32 = 100;

/// What the user wrote about the number of rounds.
pub(super) struct Typed {
    pub(super) trials: Option<Placed<Short<RawTrials, TrialsText>>>,
    pub(super) time: Option<Placed<Time>>,
    pub(super) precision: Option<Placed<PrecisionText>>,
}

impl Typed {
    /// `trials` excludes `time` and `precision`. If the plan and `--set` arguments contain both, keeps only
    /// the keys of the last `--set` argument.
    pub(super) fn latest(
        trials: Option<Placed<Short<RawTrials, TrialsText>>>,
        time: Option<Placed<Time>>,
        precision: Option<Placed<PrecisionText>>,
    ) -> Self {
        let of_trials = trials.as_ref().map(|trials| trials.place.source);
        let of_limits =
            time.as_ref().map(|time| time.place.source).max(precision.as_ref().map(|one| one.place.source));
        match (of_trials, of_limits) {
            (Some(rounds), Some(limits)) if rounds > limits => Self { trials, time: None, precision: None },
            (Some(rounds), Some(limits)) if rounds < limits => Self { trials: None, time, precision },
            _ => Self { trials, time, precision },
        }
    }
}

/// Reads how often gateways are restarted between rounds. `None` if it depends on the gateway.
pub(super) fn restarts(
    reader: &mut Reader<'_>,
    typed: Option<Placed<u32>>,
    isolate: Option<&Placed<bool>>,
) -> Option<u32> {
    let Placed { place, value } = typed?;
    if value > MOST_RESTARTS {
        let help = format!("write {MOST_RESTARTS} or less");
        reader.fault(place, format!("`restarts` is too large: {value}"), help);
    }
    if isolate.is_some_and(|typed| typed.value) {
        let help = "remove `restarts`: `isolate: true` restarts gateways for each trial";
        reader.fault(place, "a plan with `isolate: true` cannot have `restarts`", help);
    }
    Some(value)
}

/// Reads the number of rounds. `timed` is true if the plan has neither `trials` nor `events`.
pub(super) fn read(reader: &mut Reader<'_>, typed: Typed, timed: bool) -> Trials {
    let Typed { trials, time, precision } = typed;
    if trials.is_some() {
        for (key, place) in [
            ("time", time.as_ref().map(|time| time.place)),
            ("precision", precision.as_ref().map(|precision| precision.place)),
        ] {
            let Some(place) = place else { continue };
            reader.fault(
                place,
                format!("`{key}` and `trials` both set the number of rounds"),
                "remove one of them; `trials: { within: 2%, at_most: 20m }` has both limits",
            );
        }
    }
    match trials {
        Some(trials) => typed_rounds(reader, trials),
        None if timed || time.is_some() || precision.is_some() => {
            Trials::Auto(within_time(reader, time, precision))
        }
        None => Trials::Fixed(DEFAULT),
    }
}

fn within_time(
    reader: &mut Reader<'_>,
    time: Option<Placed<Time>>,
    precision: Option<Placed<PrecisionText>>,
) -> AutoTrials {
    let place = time.as_ref().map(|time| time.place);
    let at_most = reader.time(time, TIMED.at_most);
    if let (Some(place), true) = (place, at_most.is_zero()) {
        reader.fault(place, "`time` is zero", "write the longest time for all rounds, such as 3m");
    }
    let mut timed = AutoTrials { at_most, ..TIMED };
    let Some(precision) = precision else { return timed };
    let is_share = precision.value.as_ref().trim_end().ends_with('%');
    let zero = if is_share {
        timed.within = reader.unit(&precision, units::share).unwrap_or(timed.within);
        timed.within <= 0.0
    } else if precision.value.as_ref().trim().parse::<f64>().is_ok() {
        reader.fault(precision.place, "`precision` needs a unit", "write for example 5us or 5%");
        false
    } else {
        let time = reader.unit(&precision, units::duration).map(|time| time.as_secs_f64() * 1e6);
        timed.within_us = time;
        time == Some(0.0)
    };
    if zero {
        reader.fault(
            precision.place,
            "`precision` is zero",
            "write for example 5us or 5%; no interval has a width of zero",
        );
    }
    timed
}

fn typed_rounds(
    reader: &mut Reader<'_>,
    Placed { place, value }: Placed<Short<RawTrials, TrialsText>>,
) -> Trials {
    match value {
        Short::Word(word) if word.0 == "auto" => Trials::Auto(AUTO),
        Short::Word(word) => match word.0.parse() {
            Ok(value) => {
                let rounds = Placed { place, value };
                Trials::Fixed(reader.count(Some(&rounds), "trials", DEFAULT, MOST_ROUNDS))
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
    let least = reader.count(typed.least.as_ref(), "least", AUTO.least, MOST_ROUNDS);
    let most = reader.count(typed.most.as_ref(), "most", AUTO.most.max(least), MOST_ROUNDS);
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
            "swap the two values, or remove one of them",
        );
    }
    AutoTrials { within, within_us: None, at_most: time, least, most }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "checked from the {} round on" ordinal(FEWEST_TIMED);
    BIAS "**{} unless the plan says otherwise.**" minutes(TIME);
}

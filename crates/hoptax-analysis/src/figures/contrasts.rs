//! Compares the time that a gateway adds between several places. A place is a generator or a host that sends
//! requests, or a load point.

use crate::trials::trial::Trial;
use hoptax_stats::{Drawn, Draws, Estimate, Rounds, Statistic, Units};
use std::collections::BTreeSet;

/// How much more a gateway adds at one place than at another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Contrast {
    /// Indices of the two places.
    pub(crate) pair: [usize; 2],
    /// Added time at each place, µs.
    pub(crate) added: [f64; 2],
    /// Added time at the second place − added time at the first place, µs, over the rounds that all places
    /// have.
    pub(crate) difference: Estimate,
}

/// Compares this statistic of the response times of every two places. Each place has its trials via the
/// gateway and its trials of direct. A draw takes whole rounds, so a disturbance that affects all places in a
/// round cancels.
pub(crate) fn contrasts(statistic: Statistic, places: &[[&[Trial<'_>]; 2]]) -> Vec<Contrast> {
    let rounds = |trials: &&[Trial<'_>]| -> BTreeSet<u32> {
        trials.iter().filter(|trial| !trial.response_time.is_empty()).map(Trial::round).collect()
    };
    let common = places.iter().flatten().map(rounds).reduce(|one, other| &one & &other).unwrap_or_default();
    let units = Units::new(common);
    let draws = Draws::of(units.count());
    let of_rounds = |trials: &[Trial<'_>]| {
        let in_units = trials.iter().filter_map(|one| Some((units.of(one.round())?, &one.response_time)));
        Rounds::new(units.count(), in_units)
    };
    let rounds: Vec<[Rounds; 2]> =
        places.iter().map(|[via, direct]| [of_rounds(via), of_rounds(direct)]).collect();
    let taxes: Vec<Option<Drawn<'_>>> = rounds
        .iter()
        .map(|[via, direct]| {
            let (via, direct) = (via.reader(statistic)?, direct.reader(statistic)?);
            Drawn::new(&units, draws, |drawn| Some(via.of(drawn)? - direct.of(drawn)?))
        })
        .collect();
    let pair = |first: usize, second: usize| {
        let (one, other) = (taxes[first].as_ref()?, taxes[second].as_ref()?);
        Some(Contrast {
            pair: [first, second],
            added: [one.whole(), other.whole()],
            difference: other.minus(one),
        })
    };
    (0..places.len()).flat_map(|second| (0..second).filter_map(move |first| pair(first, second))).collect()
}

//! Rates of open loops: steady rates, rates with stages, and sweeps over both kinds of rates.
//!
//! A list of plain rates is a sweep. A list of stages is one rate that changes. A list of lists of stages is
//! a sweep over rates that change.

use super::reader::Reader;
use crate::error::Place;
use crate::raw::{Placed, Rate as Typed, Short, StageText, Sweep};
use crate::{stages, units};
use hoptax_format::spec::{Rate, Stage};

/// One value of a sweep over rates: a rate, or a list of stages.
type Element = Short<Vec<Placed<StageText>>, Typed>;

/// Reads all rates of a sweep. Wrong rates are reported and left out.
pub(super) fn read(reader: &mut Reader<'_>, typed: &Sweep<Element>) -> Vec<Placed<Rate>> {
    let words: Vec<Placed<&str>> = typed
        .0
        .iter()
        .filter_map(|element| match &element.value {
            Short::Word(word) => Some(Placed { place: element.place, value: word.0.as_str() }),
            Short::Full(_) => None,
        })
        .collect();
    let staged = words.iter().filter(|word| stages::is_staged(word.value)).count();
    if words.len() < typed.0.len() {
        return lists(reader, &typed.0);
    }
    // A text with a comma is a complete rate that consists of several stages.
    let whole = words.iter().any(|word| word.value.contains(','));
    match staged {
        _ if whole => words.iter().filter_map(|word| read_one(reader, word)).collect(),
        0 => words.iter().filter_map(|word| read_one(reader, word)).collect(),
        _ if staged == words.len() => {
            let place = words[0].place;
            several(reader, place, &words).map(|value| Placed { place, value }).into_iter().collect()
        }
        _ => {
            let steady = words.iter().find(|word| !stages::is_staged(word.value)).unwrap_or(&words[0]);
            reader.fault(
                steady.place,
                format!("`{}` has no duration, but other entries of this list have one", steady.value),
                format!(
                    "for one rate with stages, write `{} for 10s`; to measure several rates with stages, \
                     write a list with one list of stages for each rate",
                    steady.value
                ),
            );
            Vec::new()
        }
    }
}

/// Reads a sweep that contains lists of stages. Each element is one rate.
fn lists(reader: &mut Reader<'_>, elements: &[Placed<Element>]) -> Vec<Placed<Rate>> {
    let mut rates = Vec::new();
    for Placed { place, value } in elements {
        let rate = match value {
            Short::Word(word) => {
                read_one(reader, &Placed { place: *place, value: word.0.as_str() }).map(|one| one.value)
            }
            Short::Full(list) if list.is_empty() => {
                reader.fault(
                    *place,
                    "the list of stages is empty",
                    "write stages, such as [100/s for 10s, ramp to 5000/s over 60s]",
                );
                None
            }
            Short::Full(list) => {
                let words: Vec<Placed<&str>> = list
                    .iter()
                    .map(|stage| Placed { place: stage.place, value: stage.value.0.as_str() })
                    .collect();
                several(reader, *place, &words)
            }
        };
        rates.extend(rate.map(|value| Placed { place: *place, value }));
    }
    rates
}

fn read_one(reader: &mut Reader<'_>, word: &Placed<&str>) -> Option<Placed<Rate>> {
    let rate = if stages::is_staged(word.value) {
        reader.unit(word, stages::pace)?
    } else {
        Rate::Fixed(reader.unit(word, units::rate)?)
    };
    Some(Placed { place: word.place, value: rate })
}

fn several(reader: &mut Reader<'_>, place: Place, words: &[Placed<&str>]) -> Option<Rate> {
    let mut understood: Vec<Stage> = Vec::new();
    for word in words {
        let before = understood.last().copied();
        understood.push(reader.unit(word, |text| stages::stage(text, before.as_ref()))?);
    }
    reader.accept(place, stages::check(&understood))?;
    Some(Rate::Stages(understood))
}

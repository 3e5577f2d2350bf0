//! Stacks of the gateways, recorded after the rounds.

use super::reader::Reader;
use crate::CpuProfile;
use crate::raw::{OnOffText, Placed, RawCpuProfile, Short};
use crate::units::{self, show_duration};
use std::time::Duration;

/// Maximum number of rounds of passes.
const MOST_PASSES: u32 = 100;

/// Shortest and longest measured time of a pass. A pass has slices of half a second.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Option<Placed<Short<RawCpuProfile, OnOffText>>>,
) -> Option<CpuProfile> {
    let default = CpuProfile::default();
    let Placed { place, value } = typed?;
    let typed = match value {
        Short::Word(word) if word.0 == "off" => return None,
        Short::Word(word) if word.0 == "on" => return Some(default),
        Short::Word(word) => {
            let help = "write on, off, or { passes: 6, for: 2s }";
            reader.fault(place, format!("unknown value `{}`", word.0), help);
            return None;
        }
        Short::Full(typed) => typed,
    };
    let passes = reader.count(typed.passes.as_ref(), "passes", default.passes, MOST_PASSES);
    let Some(typed) = typed.duration else { return Some(CpuProfile { passes, ..default }) };
    let duration = reader.unit(&typed, units::duration).unwrap_or(default.duration);
    if !(SHORTEST..=LONGEST).contains(&duration) {
        reader.fault(
            typed.place,
            format!("a pass of a profile cannot last {}", show_duration(duration)),
            format!("write a time from {} to {}", show_duration(SHORTEST), show_duration(LONGEST)),
        );
    }
    Some(CpuProfile { passes, duration })
}

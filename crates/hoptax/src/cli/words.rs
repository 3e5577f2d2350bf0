//! Options whose values are words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// The words of an option, each with its help and its meaning.
pub(super) type Words<T> = &'static [(&'static str, &'static str, T)];

/// Reads one of the words.
pub(super) fn word<T: Clone + Send + Sync + 'static>(all: Words<T>) -> impl TypedValueParser<Value = T> {
    let known = all.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(known).map(move |typed| {
        let found = all.iter().find(|(name, ..)| *name == typed);
        found.expect("other words are refused").2.clone()
    })
}

//! Features as the words that plans use, for a [`Change`](super::Change) that travels to another host.

use hoptax_plan::Feature;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(features: &[Feature], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(features.iter().map(Feature::to_string))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Feature>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    words.iter().map(|word| word.parse().map_err(D::Error::custom)).collect()
}

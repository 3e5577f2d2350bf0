//! Helpers of the conversions.

/// An unknown word in a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(pub(super) String);

pub(super) fn to_disk_all<'a, Ours: 'a, Kept: From<&'a Ours>>(all: &'a [Ours]) -> Vec<Kept> {
    all.iter().map(Kept::from).collect()
}

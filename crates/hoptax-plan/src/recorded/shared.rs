//! What the conversions share.

/// A word in a record that this hoptax does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(pub(super) String);

/// The form on disk of each.
pub(super) fn to_disk_all<'a, Ours: 'a, Kept: From<&'a Ours>>(all: &'a [Ours]) -> Vec<Kept> {
    all.iter().map(Kept::from).collect()
}

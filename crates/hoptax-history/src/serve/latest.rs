//! Caches the latest figures for scrapes.

use crate::Latest;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The latest figures, and when they were read.
#[derive(Debug, Default)]
pub(super) struct Cache(pub(super) Mutex<Option<(Instant, Arc<History>)>>);

#[derive(Debug)]
pub(super) struct History {
    pub(super) runs: u32,
    pub(super) pending: u32,
    pub(super) latest: Vec<Latest>,
}

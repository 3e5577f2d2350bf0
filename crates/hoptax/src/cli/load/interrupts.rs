//! Signals: the first signal ends the load early, and the second signal ends the process at once.

use anyhow::Context as _;
use hoptax_host::threads::interrupt_flag;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(super) const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Returns a flag that the first signal sets.
pub(super) fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    interrupt_flag(&SIGNALS).context("cannot install signal handlers")
}

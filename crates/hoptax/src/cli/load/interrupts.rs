//! Signals: the first ends the trial early, a second one the process at once.

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The signals that end a load early.
pub(super) const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Raises the flag that it returns at the first signal.
pub(super) fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // In this order: the shutdown looks at the flag before the same signal raises it.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .context("cannot watch for signals")?;
    }
    Ok(interrupt)
}

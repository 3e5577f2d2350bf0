//! Signals: the first signal ends the load early, and the second signal ends the process at once.

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(super) const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Returns a flag that the first signal sets.
pub(super) fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // The order of these two handlers matters. At the first signal, the shutdown handler must see that
        // the flag is not set yet. Then the second handler sets the flag.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .context("cannot install signal handlers")?;
    }
    Ok(interrupt)
}

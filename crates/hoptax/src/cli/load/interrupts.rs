//! Signals: the first ends the trial early, a second one the process at once.

use super::live;
use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Raises the flag that it returns at the first signal.
pub(super) fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the shutdown looks at the flag before the same signal raises it.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .context("cannot watch for signals")?;
    }
    Ok(interrupt)
}

/// As [`watch`], where a live view may hold the terminal: it is given back before the process ends or stops (Ctrl-Z). That
/// is more than a signal handler may do, and takes a thread.
pub(super) fn watch_beside_a_view() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGTSTP]).context("cannot watch for signals")?;
    let raised = Arc::clone(&interrupt);
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGTSTP {
                let was_shown = live::leave();
                // Returns when the process is continued.
                let _ = emulate_default_handler(signal);
                if was_shown {
                    let _ = live::enter();
                }
            } else if raised.swap(true, Ordering::Relaxed) {
                live::leave();
                std::process::exit(128 + signal);
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)
        .context("cannot watch for signals")?;
    Ok(interrupt)
}

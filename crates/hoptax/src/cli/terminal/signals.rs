//! Signals while a view may hold the terminal: it is given back before the process ends or stops.

use super::leave;
use super::screen::{resume, suspend};
use anyhow::Context as _;
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Raises the flag that it returns at the first of these `signals`; at a second one, whichever, it gives the terminal back and
/// ends the process. Ctrl-Z gives it back, too, until the process is continued in the foreground. That is more than a signal
/// handler may do, and takes a thread.
///
/// # Errors
/// If they cannot be watched for.
pub(in crate::cli) fn watch_beside_a_view(signals: &[i32]) -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let watched = signals.iter().copied().chain([SIGTSTP, SIGCONT]);
    let mut signals = Signals::new(watched).context("cannot watch for signals")?;
    let raised = Arc::clone(&interrupt);
    let watch = move || {
        for signal in signals.forever() {
            match signal {
                SIGTSTP => {
                    suspend();
                    // Returns when the process is continued, of which the next signal tells.
                    let _ = emulate_default_handler(signal);
                }
                SIGCONT => resume(),
                _ if raised.swap(true, Ordering::Relaxed) => {
                    leave();
                    std::process::exit(128 + signal);
                }
                _ => {}
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)
        .context("cannot watch for signals")?;
    Ok(interrupt)
}

//! Signals during a view: restores the terminal before the process ends or is suspended.

use super::leave;
use super::screen::{resume, suspend};
use anyhow::Context as _;
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns a flag that the first of these `signals` sets. A second signal restores the terminal and ends the
/// process. Ctrl-Z restores the terminal until the process continues in the foreground. A separate thread
/// handles these signals, because a signal handler may not write to the terminal. Fails if the signal
/// handlers cannot be installed.
pub(in crate::cli) fn watch_during_view(signals: &[i32]) -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let watched = signals.iter().copied().chain([SIGTSTP, SIGCONT]);
    let mut signals = Signals::new(watched).context("cannot install signal handlers")?;
    let raised = Arc::clone(&interrupt);
    let watch = move || {
        for signal in signals.forever() {
            match signal {
                SIGTSTP => {
                    suspend();
                    // This suspends the process, and returns when SIGCONT continues it.
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
        .context("cannot start the thread for signals")?;
    Ok(interrupt)
}

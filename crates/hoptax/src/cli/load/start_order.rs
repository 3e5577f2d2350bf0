//! The order to begin, for a part of a load. It comes on standard input, after the load spec and a zero byte:
//! one line with the moment at which all parts begin, in nanoseconds of this machine's monotonic clock.

use std::io::{self, BufRead as _};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// Waits for the order on a thread of its own. If standard input ends before, or the line is no number, the
/// channel closes.
pub(super) fn listen() -> Receiver<u64> {
    let (sender, start) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).is_ok()
            && let Ok(at_ns) = line.trim().parse()
        {
            // Sending fails if the load has ended already.
            let _ = sender.send(at_ns);
        }
    });
    start
}

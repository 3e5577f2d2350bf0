//! The order to begin, for a part of a load. It is one line on standard input, after the load spec and a zero
//! byte. It contains the moment at which all parts begin, in nanoseconds of this machine's monotonic clock.

use std::io::{self, BufRead as _};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// Waits for the order on a separate thread. If standard input ends before the order arrives, or the line is
/// not a number, the channel closes.
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

//! The screen of a run. A thread updates the times on the board. The thread also draws the board on the
//! terminal that standard error is connected to.
//!
//! To disturb the measurement as little as possible, the thread avoids the CPUs of the generator's workers,
//! and draws only twice a second.

use crate::cli::side_thread::SideThread;
use crate::cli::terminal::screen::Drawing;
use crate::cli::terminal::{self, leave};
use hoptax_history::live::Board;
use hoptax_run::watch::Clock;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

mod draw;

/// Time between two frames, and time before the first frame. If a shorter run had a screen, the screen would
/// only flicker.
const FRAME: Duration = Duration::from_millis(500);

/// Starts a thread that updates `board` with `clock`. If `on_terminal` is true, the thread also draws the
/// board. When the returned value is dropped, the view closes. Fails if the thread cannot be started.
pub(super) fn start(
    board: Board,
    clock: Clock,
    on_terminal: bool,
    workers: &[u32],
) -> std::io::Result<SideThread<()>> {
    if on_terminal {
        terminal::release_on_panic();
    }
    SideThread::start("live", workers, move |stopped| {
        let mut drawing = on_terminal.then(Drawing::default);
        while next_frame(stopped) {
            clock.tick();
            // If the terminal is gone, drawing ends and the measurement continues.
            drawing = drawing.and_then(|drawing| drawing.draw(|frame| draw::draw(frame, &board.read())));
        }
        leave();
    })
}

/// Waits until the next frame is due. Returns false if the view is closed before that.
fn next_frame(stopped: &Receiver<()>) -> bool {
    stopped.recv_timeout(FRAME) == Err(RecvTimeoutError::Timeout)
}

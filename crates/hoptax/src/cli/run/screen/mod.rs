//! The screen of a run. A thread updates the times on the board. The thread also draws the board on the
//! terminal that standard error is connected to.
//!
//! To disturb the measurement as little as possible, the thread avoids the CPUs of the generator's workers,
//! and draws only twice a second.

use crate::cli::terminal::{self, enter, leave, screen};
use hoptax_history::live::Board;
use hoptax_host::cpus;
use hoptax_run::watch::Clock;
use ratatui_core::terminal::Terminal;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

mod draw;

/// Time between two frames, and time before the first frame. If a shorter run had a screen, the screen would
/// only flicker.
const FRAME: Duration = Duration::from_millis(500);

/// The view. When this value is dropped, the view closes.
#[derive(Debug)]
pub(super) struct View {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Starts a thread that updates `board` with `clock`. If `on_terminal` is true, the thread also draws the
    /// board. Fails if the thread cannot be started.
    pub(super) fn start(
        board: Board,
        clock: Clock,
        on_terminal: bool,
        workers: &[u32],
    ) -> std::io::Result<Self> {
        if on_terminal {
            terminal::release_on_panic();
        }
        let (stop, stopped) = mpsc::channel();
        let workers = workers.to_vec();
        let thread = thread::Builder::new().name("live".to_owned()).spawn(move || {
            cpus::keep_off(&workers);
            let mut drawing = on_terminal.then(Drawing::default);
            while next_frame(&stopped) {
                clock.tick();
                // If the terminal is gone, drawing ends and the measurement continues.
                drawing = drawing.and_then(|drawing| drawing.draw(&board));
            }
            leave();
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic has already been printed.
            let _ = thread.join();
        }
    }
}

/// Waits until the next frame is due. Returns false if the view is closed before that.
fn next_frame(stopped: &Receiver<()>) -> bool {
    stopped.recv_timeout(FRAME) == Err(RecvTimeoutError::Timeout)
}

/// Draws frames on the terminal. The view enters the alternate screen when it draws the first frame while the
/// process is in the foreground.
#[derive(Default)]
struct Drawing {
    terminal: Option<Terminal<screen::Ansi>>,
}

impl Drawing {
    /// Draws a frame. Returns `None` if drawing failed. No more frames are drawn then.
    fn draw(mut self, board: &Board) -> Option<Self> {
        enter().ok()?;
        let terminal = match &mut self.terminal {
            Some(terminal) => terminal,
            none => none.insert(Terminal::new(screen::Ansi::default()).ok()?),
        };
        if screen::was_reentered() {
            terminal.clear().ok()?;
        }
        let state = board.read();
        terminal.draw(|frame| draw::draw(frame, &state)).ok()?;
        Some(self)
    }
}

//! The screen of a run: a thread of its own keeps the board's times up to date, and draws it on the terminal of standard error.
//!
//! The thread stays off the CPUs that the generator's workers are pinned to, and draws twice a second: it shares the machine with
//! what is measured.

use crate::cli::terminal::{self, enter, leave, screen};
use crate::watch::Clock;
use hoptax_history::live::Board;
use hoptax_host::cpus;
use ratatui_core::terminal::Terminal;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

mod draw;

/// Between two frames, and before the first one: what is over sooner would only flicker.
const FRAME: Duration = Duration::from_millis(500);

/// A view that is shown until it is dropped.
#[derive(Debug)]
pub(super) struct View {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Keeps `board` up to date by its `clock`, and shows it where `on_terminal`.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(super) fn start(
        board: Board,
        clock: Clock,
        on_terminal: bool,
        workers: &[u32],
    ) -> std::io::Result<Self> {
        if on_terminal {
            terminal::give_back_on_panic();
        }
        let (stop, stopped) = mpsc::channel();
        let workers = workers.to_vec();
        let thread = thread::Builder::new().name("live".to_owned()).spawn(move || {
            cpus::keep_off(&workers);
            let mut drawing = on_terminal.then(Drawing::default);
            while goes_on(&stopped) {
                clock.tick();
                // A terminal that is gone is no reason to stop measuring.
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
            // If it panicked, that has been told.
            let _ = thread.join();
        }
    }
}

/// Waits for the next frame; whether there is one.
fn goes_on(stopped: &Receiver<()>) -> bool {
    stopped.recv_timeout(FRAME) == Err(RecvTimeoutError::Timeout)
}

/// The terminal, entered with the first frame in the foreground.
#[derive(Default)]
struct Drawing {
    terminal: Option<Terminal<screen::Ansi>>,
}

impl Drawing {
    /// Draws a frame; nothing is left to draw on when that fails.
    fn draw(mut self, board: &Board) -> Option<Self> {
        enter().ok()?;
        let terminal = match &mut self.terminal {
            Some(terminal) => terminal,
            none => none.insert(Terminal::new(screen::Ansi::default()).ok()?),
        };
        if screen::was_entered_anew() {
            terminal.clear().ok()?;
        }
        let state = board.read();
        terminal.draw(|frame| draw::draw(frame, &state)).ok()?;
        Some(self)
    }
}

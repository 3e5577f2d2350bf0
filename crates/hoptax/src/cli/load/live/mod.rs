//! The live view of a load. A thread draws the generator's progress on the terminal that standard error is
//! connected to.
//!
//! To disturb the generator as little as possible, the generator only sends its progress into a channel. The
//! thread avoids the CPUs of the workers and draws a few frames per second.

use super::args::OutputArgs;
use crate::cli::terminal::{self, enter, leave, screen};
use hoptax_format::clock;
use hoptax_format::spec::LoadSpec;
use hoptax_host::cpus;
use hoptax_load::Progress;
use model::Model;
use ratatui_core::terminal::Terminal;
use std::io::IsTerminal as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

mod draw;
mod model;

/// Time between two frames: one and a half windows.
const FRAME: Duration = Duration::from_millis(150);
/// Time before the first frame. If a shorter load had a view, the view would only flicker.
const FIRST_FRAME: Duration = Duration::from_millis(250);

/// True if the view must be shown: the user did not give `--no-live`, and the output goes to a terminal that
/// can show the view.
pub(super) fn is_wanted(args: &OutputArgs) -> bool {
    !args.no_live && terminal::can_show() && std::io::stdout().is_terminal()
}

/// The view. When this value is dropped, the view closes.
#[derive(Debug)]
pub(super) struct View {
    progress: Option<Sender<Progress>>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Starts the view of a load.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(url: &str, spec: &LoadSpec) -> std::io::Result<Self> {
        terminal::release_on_panic();
        let (progress, received) = mpsc::channel();
        let model = Model::new(url, spec);
        let workers = spec.cpus.clone();
        let thread = thread::Builder::new().name("live".to_owned()).spawn(move || {
            cpus::keep_off(&workers);
            show(model, &received);
            leave();
        })?;
        Ok(Self { progress: Some(progress), thread: Some(thread) })
    }

    /// The observer to pass to the generator. It sends the progress to the view.
    pub(super) fn observer(&self) -> impl FnMut(Progress) + use<> {
        let sender = self.progress.clone();
        move |progress| {
            // If the view has ended, sending fails and the measurement continues.
            let _ = sender.as_ref().map(|sender| sender.send(progress));
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.progress = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic has already been printed.
            let _ = thread.join();
        }
    }
}

/// Draws until the channel closes or the terminal is gone.
fn show(mut model: Model, received: &Receiver<Progress>) {
    let began = Instant::now();
    let mut terminal: Option<Terminal<screen::Ansi>> = None;
    let mut next = began + FIRST_FRAME;
    loop {
        match received.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(progress) => {
                model.update(progress);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => next = Instant::now() + FRAME,
        }
        if enter().is_err() {
            return;
        }
        if terminal.is_none() {
            terminal = Terminal::new(screen::Ansi::default()).ok();
        }
        let Some(terminal) = &mut terminal else { return };
        if screen::was_reentered() && terminal.clear().is_err() {
            return;
        }
        let now = clock::now();
        if terminal.draw(|frame| draw::draw(frame, &model, now)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
pub(super) use model::tests::spec as model_spec;

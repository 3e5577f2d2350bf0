//! The live view: a thread of its own draws on the terminal of standard error what the generator tells while it runs.
//!
//! The generator only sends what it tells into a channel. The view's thread stays off the CPUs that workers are pinned to,
//! and draws a few frames a second.

use super::args::OutputArgs;
use crate::cli::terminal::{self, enter, leave, screen};
use hoptax_host::cpus;
use hoptax_load::clock;
use hoptax_load::record::Progress;
use hoptax_load::spec::LoadSpec;
use model::Model;
use ratatui_core::terminal::Terminal;
use std::io::IsTerminal as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

mod draw;
mod model;

/// Between two frames: a window and a half.
const FRAME: Duration = Duration::from_millis(150);
/// What is over sooner than this, or fails, has no view: it would only flicker.
const PATIENCE: Duration = Duration::from_millis(250);

/// Whether there is somebody to look at a view, and a terminal that can show it.
pub(super) fn is_wanted(args: &OutputArgs) -> bool {
    !args.no_live && terminal::can_show() && std::io::stdout().is_terminal()
}

/// A view that is shown until it is dropped.
#[derive(Debug)]
pub(super) struct View {
    tell: Option<Sender<Progress>>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Starts the view of a load.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(super) fn start(url: &str, spec: &LoadSpec) -> std::io::Result<Self> {
        terminal::give_back_on_panic();
        let (tell, told) = mpsc::channel();
        let model = Model::new(url, spec);
        let workers = spec.cpus.clone();
        let thread = thread::Builder::new().name("live".to_owned()).spawn(move || {
            cpus::keep_off(&workers);
            show(model, &told);
            leave();
        })?;
        Ok(Self { tell: Some(tell), thread: Some(thread) })
    }

    /// What the generator shall tell.
    pub(super) fn observer(&self) -> impl FnMut(Progress) + use<> {
        let tell = self.tell.clone();
        move |told| {
            // A view that has gone is no reason to stop measuring.
            let _ = tell.as_ref().map(|tell| tell.send(told));
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, that has been told.
            let _ = thread.join();
        }
    }
}

/// Draws until nobody tells any more, or the terminal is gone.
fn show(mut model: Model, told: &Receiver<Progress>) {
    let began = Instant::now();
    let mut terminal: Option<Terminal<screen::Ansi>> = None;
    let mut next = began + PATIENCE;
    loop {
        match told.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(news) => {
                model.hear(news);
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
        if screen::was_entered_anew() && terminal.clear().is_err() {
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

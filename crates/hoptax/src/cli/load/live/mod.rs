//! The live view of a load. A thread draws the generator's progress on the terminal that standard error is
//! connected to.
//!
//! To disturb the generator as little as possible, the generator only sends its progress into a channel. The
//! thread avoids the CPUs of the workers and draws a few frames per second.

use super::args::OutputArgs;
use crate::cli::side_thread::SideThread;
use crate::cli::terminal::screen::Drawing;
use crate::cli::terminal::{self, leave};
use hoptax_format::clock;
use hoptax_format::spec::LoadSpec;
use hoptax_load::Progress;
use model::Model;
use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
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

/// Starts the view of a load. When the returned value is dropped, the view closes. Fails if the thread cannot
/// be started.
pub(super) fn start(url: &str, spec: &LoadSpec) -> std::io::Result<SideThread<Progress>> {
    terminal::release_on_panic();
    let model = Model::new(url, spec);
    SideThread::start("live", &spec.cpus, move |received| {
        show(model, received);
        leave();
    })
}

/// Draws until the channel closes or the terminal is gone.
fn show(mut model: Model, received: &Receiver<Progress>) {
    let mut drawing = Drawing::default();
    let mut next = Instant::now() + FIRST_FRAME;
    loop {
        match received.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(progress) => {
                model.update(progress);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => next = Instant::now() + FRAME,
        }
        let Some(drawn) = drawing.draw(|frame| draw::draw(frame, &model, clock::now())) else { return };
        drawing = drawn;
    }
}

#[cfg(test)]
pub(super) use model::tests::spec as model_spec;

//! What a generator that works for `hoptax run` tells on standard error: phases as they begin and, where somebody watches,
//! seconds. Each is a JSON document on a line of its own.

use hoptax_host::cpus;
use hoptax_load::clock;
use hoptax_load::record::{Phase, Progress, SecondLine};
use hoptax_load::seconds::Seconds;
use hoptax_load::spec::LoadSpec;
use serde::Serialize;
use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

/// Tells phases at once, on the generator's own thread: others time what they do by them.
pub(super) fn phases(progress: &Progress) {
    if let Progress::Phase(line) = progress {
        tell(line);
    }
}

fn tell<T: Serialize>(line: &T) {
    // Whoever listened is gone when this fails, and its death signal is on its way.
    let _ = serde_json::to_string(line).map(|line| writeln!(std::io::stderr(), "{line}"));
}

/// Tells phases, and seconds from a thread that stays off the workers' CPUs. When it is dropped, all has been told.
#[derive(Debug)]
pub(super) struct Teller {
    tell: Option<Sender<Progress>>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    /// Begins to tell of this load.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(super) fn start(spec: &LoadSpec) -> std::io::Result<Self> {
        let (tell, told) = mpsc::channel();
        let seconds = Seconds::new(spec.workers.min(spec.connections));
        let workers = spec.cpus.clone();
        let thread = thread::Builder::new().name("teller".to_owned()).spawn(move || {
            cpus::keep_off(&workers);
            add_up(seconds, &told, tell_second);
        })?;
        Ok(Self { tell: Some(tell), thread: Some(thread) })
    }

    /// What the generator shall tell.
    pub(super) fn observer(&self) -> impl FnMut(Progress) + use<> {
        let tell = self.tell.clone();
        move |progress| {
            phases(&progress);
            // A thread that has gone is no reason to stop measuring.
            let _ = tell.as_ref().map(|tell| tell.send(progress));
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tell_second(line: SecondLine) {
    tell(&line);
}

/// Adds up windows until nobody tells any more.
fn add_up(mut seconds: Seconds, told: &Receiver<Progress>, mut tell: impl FnMut(SecondLine)) {
    let mut began = None;
    for progress in told {
        match progress {
            Progress::Phase(line) if line.phase == Phase::Measuring => began = Some(line.at_ns),
            Progress::Phase(line) if line.phase == Phase::Draining => {
                let measured = line.at_ns.saturating_sub(began.unwrap_or_else(clock::now));
                seconds.end(measured).into_iter().for_each(&mut tell);
            }
            Progress::Phase(_) => {}
            Progress::Window { index, window } => seconds.add(index, &window).into_iter().for_each(&mut tell),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_load::record::{PhaseLine, WINDOW_NS, Window};

    #[test]
    fn the_last_second_is_as_long_as_it_was() {
        let (tell, told) = mpsc::channel();
        let phase = |phase, at_ns| Progress::Phase(PhaseLine { phase, at_ns });
        tell.send(phase(Phase::Connecting, 1)).expect("heard");
        tell.send(phase(Phase::Measuring, 7_000)).expect("heard");
        for index in 0..12 {
            let window = Window { sent: 1, ..Window::default() };
            tell.send(Progress::Window { index, window }).expect("heard");
        }
        tell.send(phase(Phase::Draining, 7_000 + clock::SECOND + WINDOW_NS * 3 / 2)).expect("heard");
        drop(tell);
        let mut lines = Vec::new();
        add_up(Seconds::new(1), &told, |line| lines.push((line.second, line.length_ns, line.sent)));
        assert_eq!(lines, [(0, clock::SECOND, 10), (1, WINDOW_NS * 3 / 2, 2)]);
    }
}

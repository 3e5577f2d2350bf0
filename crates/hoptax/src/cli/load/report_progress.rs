//! Reports the progress of a generator that `hoptax run` started. It prints lines of JSON to standard error.
//! There is a line at the beginning of each phase. If the run has a viewer, there is also a line for each
//! second.

use crate::cli::side_thread::SideThread;
use hoptax_format::clock;
use hoptax_format::record::{Phase, SecondLine};
use hoptax_format::seconds::Seconds;
use hoptax_format::spec::LoadSpec;
use hoptax_load::Progress;
use serde::Serialize;
use std::io::Write as _;
use std::sync::mpsc::Receiver;

/// Prints a phase at once, on the generator's thread, because `hoptax run` uses the arrival of this line to
/// time its samples.
pub(super) fn phase(progress: &Progress) {
    if let Progress::Phase(line) = progress {
        print(line);
    }
}

fn print<T: Serialize>(line: &T) {
    // Writing fails only if `hoptax run` has ended. The kernel then kills this process soon.
    let _ = serde_json::to_string(line).map(|line| writeln!(std::io::stderr(), "{line}"));
}

/// Starts a thread that prints the results of each second of the load `spec`. Fails if the thread cannot be
/// started.
pub(super) fn seconds(spec: &LoadSpec) -> std::io::Result<SideThread<Progress>> {
    let seconds = Seconds::new(spec.own_workers()).with_times(spec.part.is_some());
    let seconds = seconds.with_window_length(spec.window_length());
    SideThread::start("seconds", &spec.cpus, move |received| add_up(seconds, received, |line| print(&line)))
}

/// Adds up windows into seconds until the channel closes.
fn add_up(mut seconds: Seconds, received: &Receiver<Progress>, mut report: impl FnMut(SecondLine)) {
    let mut began = None;
    for progress in received {
        match progress {
            Progress::Phase(line) if line.phase == Phase::Measuring => began = Some(line.at_ns),
            Progress::Phase(line) if line.phase == Phase::Draining => {
                let measured = line.at_ns.saturating_sub(began.unwrap_or_else(clock::now));
                seconds.end(measured).into_iter().for_each(&mut report);
            }
            Progress::Phase(_) => {}
            Progress::Window { index, window } => {
                seconds.add(index, &window).into_iter().for_each(&mut report);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::record::{PhaseLine, WINDOW_NS, Window};
    use std::sync::mpsc;

    #[test]
    fn the_last_second_has_its_real_length() {
        let (sender, received) = mpsc::channel();
        let phase = |phase, at_ns| Progress::Phase(PhaseLine { phase, at_ns });
        sender.send(phase(Phase::Connecting, 1)).expect("sent");
        sender.send(phase(Phase::Measuring, 7_000)).expect("sent");
        for index in 0..12 {
            let window = Window { sent: 1, ..Window::default() };
            sender.send(Progress::Window { index, window }).expect("sent");
        }
        sender.send(phase(Phase::Draining, 7_000 + clock::SECOND + WINDOW_NS * 3 / 2)).expect("sent");
        drop(sender);
        let mut lines = Vec::new();
        add_up(Seconds::new(1), &received, |line| lines.push((line.second, line.length_ns, line.sent)));
        assert_eq!(lines, [(0, clock::SECOND, 10), (1, WINDOW_NS * 3 / 2, 2)]);
    }
}

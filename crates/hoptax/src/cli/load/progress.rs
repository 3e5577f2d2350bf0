//! Without a live view, one line on the terminal shows the current phase.

use hoptax_format::record::Phase;
use hoptax_format::spec::LoadSpec;
use hoptax_load::Progress;
use hoptax_plan::units;
use std::io::IsTerminal as _;
use std::time::Duration;

/// An observer that updates the line.
pub(super) fn line(spec: &LoadSpec) -> impl FnMut(Progress) {
    let measuring = match spec.requests {
        Some(requests) => format!("measuring {requests} requests"),
        None => format!("measuring for {}", units::show_duration(Duration::from_nanos(spec.duration_ns))),
    };
    let shown = std::io::stderr().is_terminal();
    move |progress| {
        let Progress::Phase(line) = progress else { return };
        if !shown {
            return;
        }
        let text = match line.phase {
            Phase::Connecting | Phase::Connected => "connecting",
            Phase::Warmup => "warming up",
            Phase::Measuring => &measuring,
            Phase::Draining => "",
        };
        let hint = if text.is_empty() { "" } else { " (Ctrl-C stops it early)" };
        eprint!("\r\x1b[2K{text}{hint}");
    }
}

//! Restricts a trial to its quiet windows.

use super::unfold::unfold;
use super::windows::Quiet;
use crate::trials::trial::Trial;
use hoptax_format::histogram::{WINDOW_DIGITS, empty};
use hoptax_format::record::WINDOW_NS;

/// Restricts the trial to its quiet windows. The result contains the requests, the time, the response times
/// and the gateway's CPU time of these windows. Figures that are not recorded by window (service times,
/// connects, path split, targets) are empty. `None` if no window is quiet, or if the histogram of a window
/// cannot be read.
pub(crate) fn restrict<'a>(trial: &Trial<'a>, quiet: &Quiet) -> Option<Trial<'a>> {
    let windows = &trial.load.windows;
    let mut response_time = empty(WINDOW_DIGITS);
    let (mut completed, mut measured_ns) = (0, 0);
    for number in quiet.numbers() {
        let window = windows.get(number)?;
        completed += window.completed;
        measured_ns += length(number, trial.load.measured_ns);
        if let Some(encoded) = &window.response_time {
            response_time.add(encoded.decode().ok()?).ok()?;
        }
    }
    let measured_ns = Some(measured_ns).filter(|measured| *measured > 0)?;
    let part = trial.part(completed, measured_ns, unfold(&response_time));
    Some(Trial { gateway_cpu_ns: gateway_cpu(trial, quiet), ..part })
}

/// The gateway's CPU time in the quiet windows. `None` if it was not recorded in all of these windows.
fn gateway_cpu(trial: &Trial<'_>, quiet: &Quiet) -> Option<u64> {
    let by_window = &trial.record.gateway.as_ref()?.cpu_ns_by_window;
    quiet.numbers().map(|number| by_window.get(number).copied()).sum()
}

/// Length of a window, ns. The last window of the measured time may be shorter than the others.
fn length(number: usize, measured_ns: u64) -> u64 {
    measured_ns.saturating_sub(number as u64 * WINDOW_NS).min(WINDOW_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_window_may_be_short() {
        assert_eq!(length(0, 250_000_000), WINDOW_NS);
        assert_eq!(length(2, 250_000_000), WINDOW_NS / 2);
        assert_eq!(length(3, 250_000_000), 0);
    }
}

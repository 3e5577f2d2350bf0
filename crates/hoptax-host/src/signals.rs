//! The actions of signals that children inherit.

use rustix::process::Signal;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The signals that ask a program to end.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Makes the children of this process start with the default action of each signal that asks a program to
/// end. Background jobs of a script, and programs under `nohup`, ignore some of these signals, and their
/// children inherit this. A child that ignores SIGINT does not end when hoptax interrupts it.
///
/// For this process nothing changes: the signal gets a handler that does nothing, and `exec` resets a signal
/// with a handler to its default action.
///
/// # Errors
/// If `/proc` cannot be read, or a handler cannot be installed.
pub fn unignore_for_children() -> io::Result<()> {
    let ignored = procfs::process::Process::myself()
        .and_then(|process| process.status())
        .map_err(|error| io::Error::other(format!("cannot read /proc/self/status: {error}")))?
        .sigign;
    for signal in ENDING {
        let number = signal.as_raw();
        if ignored & (1 << (number - 1)) != 0 {
            signal_hook::flag::register(number, Arc::new(AtomicBool::new(false)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::output_within;
    use std::process::Command;
    use std::time::Duration;

    /// Set in the process that ignores signals.
    const INNER: &str = "HOPTAX_TEST_IGNORES_SIGNALS";

    /// The signals that a new child ignores.
    fn ignored_by_a_child() -> u64 {
        let mut child = Command::new("grep");
        let output = output_within(child.args(["SigIgn", "/proc/self/status"]), Duration::from_secs(60));
        let text = String::from_utf8(output.expect("grep runs").stdout).expect("text");
        u64::from_str_radix(text.split_whitespace().nth(1).expect("a mask"), 16).expect("hexadecimal")
    }

    #[test]
    fn children_do_not_inherit_ignored_signals() {
        let bit = |signal: Signal| 1_u64 << (signal.as_raw() - 1);
        if std::env::var_os(INNER).is_some() {
            assert_ne!(ignored_by_a_child() & bit(Signal::INT), 0, "the shell's trap is inherited");
            unignore_for_children().expect("handlers");
            assert_eq!(ENDING.map(|signal| ignored_by_a_child() & bit(signal)), [0; 4]);
            return;
        }
        let mut again = Command::new("sh");
        again.args(["-c", "trap '' INT TERM HUP QUIT; exec \"$0\" --exact \"$1\""]);
        again.arg(std::env::current_exe().expect("this program"));
        again.arg("signals::tests::children_do_not_inherit_ignored_signals").env(INNER, "1");
        let output = output_within(&mut again, Duration::from_secs(120)).expect("it ends");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
    }
}

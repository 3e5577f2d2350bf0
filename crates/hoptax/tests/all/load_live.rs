//! The live view of `hoptax load`. It is shown on a terminal while the load runs. However the load ends, the
//! view must disappear.

use crate::load::Upstream;
use crate::support::terminal::{ENTERED, LEFT, Terminal};
use crate::support::{PATIENCE, retry_if_disturbed, wait_until};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn the_view_is_shown_and_the_summary_is_on_the_normal_screen() {
    let upstream = Upstream::start(&["--body", "64B"]);
    let mut terminal = Terminal::new(80, 24);
    let mut process = terminal.start(&["load", &upstream.url(), "-r", "500/s", "-d", "3s"]);
    wait_until("a second is shown", PATIENCE, || {
        ["last second", "p99"].iter().all(|part| terminal.seen().contains(part))
    });
    terminal.resize(30, 6);
    let (status, seen) = terminal.after(&mut process);
    assert!(status.success(), "{seen}");
    let (before, rest) = seen.split_once(ENTERED).expect("the alternate screen is entered");
    assert!(before.trim().is_empty(), "nothing comes before it: {before:?}");
    let (view, summary) = rest.split_once(LEFT).expect("and left");
    assert!(view.contains("last second") && view.contains("p99"), "{view}");
    assert!(summary.contains("Throughput") && summary.contains("200: "), "{summary}");
    assert!(!summary.contains(ENTERED), "{summary}");
}

#[test]
fn signals_end_it_and_restore_the_terminal() {
    let upstream = Upstream::start(&[]);
    for (signal, http) in [(Signal::INT, "1.1"), (Signal::TERM, "2")] {
        let mut terminal = Terminal::new(20, 5);
        let mut process = terminal.start(&["load", &upstream.url(), "-d", "1h", "--http", http]);
        wait_until("the view is drawn", PATIENCE, || terminal.seen().contains("p99"));
        kill_process(Pid::from_child(&process.0), signal).expect("it runs");
        let (status, seen) = terminal.after(&mut process);
        assert_eq!(status.code(), Some(0), "{seen}");
        let (_, summary) = seen.split_once(LEFT).expect("left");
        assert!(summary.contains("INTERRUPTED"), "{summary}");
    }
}

#[test]
fn short_and_failed_loads_show_no_view() {
    let upstream = Upstream::start(&[]);
    let url = upstream.url();
    for (args, wanted) in [
        (vec!["load", url.as_str(), "-n", "1"], "1 completed"),
        (vec!["load", url.as_str(), "-d", "400ms", "--no-live"], "completed"),
        (vec!["load", "http://127.0.0.1:1/", "-d", "1s", "--unix", "/nowhere"], "error: "),
    ] {
        // On a stalled machine, even a short load can last until the view is shown. Then the test is
        // repeated.
        retry_if_disturbed(|| {
            let mut terminal = Terminal::new(80, 24);
            let mut process = terminal.start(&args);
            let seen = terminal.after(&mut process).1;
            assert!(seen.contains(wanted), "{args:?}: {seen:?}");
            if seen.contains(ENTERED) { Err(format!("{args:?} has a view: {seen:?}")) } else { Ok(()) }
        });
    }
}

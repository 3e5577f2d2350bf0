//! The live view on a terminal: shown while the load runs, gone afterwards, however it ends.

use crate::load::{Ending, Upstream, until};
use crate::support::hoptax;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::Read as _;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";

/// A terminal, and everything that was written to it.
struct Terminal {
    /// Held open, so that the terminal stays and its modes can be asked for.
    slave: File,
    controller: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    fn new(columns: u16, rows: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudoterminal");
        grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("granted");
        let name = ptsname(&controller, Vec::new()).expect("a name").into_string().expect("text");
        let slave = File::options().read(true).write(true).open(name).expect("its other end");
        let controller = File::from(controller);
        let terminal = Self { slave, controller, seen: Arc::default(), reader: None };
        terminal.resize(columns, rows);
        terminal
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).expect("resized");
    }

    /// Starts `hoptax load` on this terminal.
    fn load(&mut self, args: &[&str]) -> Ending {
        let mut command = hoptax();
        command.arg("load").args(args).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let end = || self.slave.try_clone().expect("cloned");
        command.stdin(end()).stdout(end()).stderr(end());
        let process = Ending(command.spawn().expect("starts"));
        let (mut controller, seen) = (self.controller.try_clone().expect("cloned"), Arc::clone(&self.seen));
        self.reader = Some(std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = controller.read(&mut buffer) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        }));
        process
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// What was written to it in all, once the process has ended.
    fn after(mut self, process: &mut Ending) -> (ExitStatus, String) {
        let status = process.0.wait().expect("ends");
        let echoes = tcgetattr(&self.slave).expect("a terminal").local_modes.contains(LocalModes::ECHO);
        assert!(echoes, "what is typed is echoed again");
        // The last one to hold it: then the reader's end is reached.
        let (slave, reader) = (self.slave, self.reader.take());
        drop(slave);
        reader.expect("it was started").join().expect("it reads");
        let seen =
            String::from_utf8_lossy(&self.seen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        (status, seen)
    }
}

#[test]
fn the_view_is_shown_and_the_summary_stands_on_the_normal_screen() {
    let upstream = Upstream::start(&["--body", "64B"]);
    let mut terminal = Terminal::new(80, 24);
    let mut process = terminal.load(&[&upstream.url(), "-r", "1000/s", "-d", "1500ms"]);
    until("the view is drawn", || terminal.seen().contains("measuring"));
    terminal.resize(30, 6);
    let (status, seen) = terminal.after(&mut process);
    assert!(status.success(), "{seen}");
    let (before, rest) = seen.split_once(ENTERED).expect("the other screen is entered");
    assert!(before.trim().is_empty(), "nothing stands before it: {before:?}");
    let (view, summary) = rest.split_once(LEFT).expect("and left");
    assert!(view.contains("last second") && view.contains("p99"), "{view}");
    assert!(summary.contains("Throughput") && summary.contains("200: "), "{summary}");
    assert!(!summary.contains(ENTERED), "{summary}");
}

#[test]
fn signals_end_it_with_the_terminal_given_back() {
    let upstream = Upstream::start(&[]);
    for signal in [Signal::INT, Signal::TERM] {
        let mut terminal = Terminal::new(20, 5);
        let mut process = terminal.load(&[&upstream.url(), "-d", "1h"]);
        until("the view is drawn", || terminal.seen().contains("p99"));
        kill_process(Pid::from_child(&process.0), signal).expect("it runs");
        let (status, seen) = terminal.after(&mut process);
        assert_eq!(status.code(), Some(0), "{seen}");
        let (_, summary) = seen.split_once(LEFT).expect("left");
        assert!(summary.contains("INTERRUPTED"), "{summary}");
    }
}

#[test]
fn what_ends_at_once_and_what_fails_has_no_view() {
    let upstream = Upstream::start(&[]);
    let url = upstream.url();
    for (args, wanted) in [
        (vec![url.as_str(), "-n", "1"], "1 completed"),
        (vec![url.as_str(), "-d", "400ms", "--no-live"], "completed"),
        (vec!["http://127.0.0.1:1/", "-d", "1s", "--unix", "/nowhere"], "error: "),
    ] {
        let mut terminal = Terminal::new(80, 24);
        let mut process = terminal.load(&args);
        let (_, seen) = terminal.after(&mut process);
        assert!(seen.contains(wanted) && !seen.contains(ENTERED), "{args:?}: {seen:?}");
    }
}

//! A pseudo-terminal. It stores everything that is written to it.

use super::hoptax;
use crate::load::KilledOnDrop;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Escape sequence that enters the alternate screen.
pub(crate) const ENTERED: &str = "\x1b[?1049h";
/// Escape sequence that leaves the alternate screen.
pub(crate) const LEFT: &str = "\x1b[?1049l";

pub(crate) struct Terminal {
    /// This end is kept open, so that the terminal continues to exist and its modes can be read.
    slave: File,
    controller: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudoterminal");
        grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("granted");
        let name = ptsname(&controller, Vec::new()).expect("a name").into_string().expect("text");
        // The terminal must not become the controlling terminal of the tests. Otherwise closing it would send
        // SIGHUP to them.
        let modes = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = File::from(rustix::fs::open(name, modes, Mode::empty()).expect("its other end"));
        let controller = File::from(controller);
        let terminal = Self { slave, controller, seen: Arc::default(), reader: None };
        terminal.resize(columns, rows);
        terminal
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).expect("resized");
    }

    pub(crate) fn start(&mut self, args: &[&str]) -> KilledOnDrop {
        let mut command = hoptax();
        command.args(args);
        self.spawn(command)
    }

    pub(crate) fn spawn(&mut self, mut command: Command) -> KilledOnDrop {
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        command.env_remove("NO_COLOR");
        let end = || self.slave.try_clone().expect("cloned");
        command.stdin(end()).stdout(end()).stderr(end());
        let process = KilledOnDrop(command.spawn().expect("starts"));
        let (mut controller, seen) = (self.controller.try_clone().expect("cloned"), Arc::clone(&self.seen));
        self.reader = Some(std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = controller.read(&mut buffer) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        }));
        process
    }

    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until the process has ended. Returns its status and everything that was written to the terminal.
    pub(crate) fn after(mut self, process: &mut KilledOnDrop) -> (ExitStatus, String) {
        let status = process.0.wait().expect("ends");
        let echoes = tcgetattr(&self.slave).expect("a terminal").local_modes.contains(LocalModes::ECHO);
        assert!(echoes, "the terminal echoes again");
        // The reader ends when the last descriptor is closed.
        let (slave, reader) = (self.slave, self.reader.take());
        drop(slave);
        reader.expect("it was started").join().expect("it reads");
        let seen =
            String::from_utf8_lossy(&self.seen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        (status, seen)
    }
}

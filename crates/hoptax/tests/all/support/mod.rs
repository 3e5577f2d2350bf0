//! Helpers for all tests: the binary under test, temporary directories, retries, and notes about skipped
//! tests.

pub(crate) mod client;
pub(crate) mod haproxy;
pub(crate) mod hog;
pub(crate) mod messages;
pub(crate) mod nginx;
pub(crate) mod planted_pack;
pub(crate) mod proxy;
pub(crate) mod refusals;
pub(crate) mod server;
pub(crate) mod sockets;
pub(crate) mod streams;
pub(crate) mod terminal;
pub(crate) mod yaml;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) use hoptax_testing::{own_listener, own_loopback, unused_address};
pub(crate) use hoptax_testing::{retry_if_disturbed, retry_only_after_stall, skip, wait_for, wait_until};
pub(crate) use serde_json::Value as Json;

/// Time limit for any event, even on a busy machine. A test waits this long only if something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A command that runs the `hoptax` binary.
pub(crate) fn hoptax() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hoptax"))
}

/// Standard output of a command. Panics if it fails.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Runs a command and parses its output as JSON.
pub(crate) fn json(command: &mut Command) -> Json {
    let output = command.output().expect("it runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// A temporary directory.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    }
}

//! What the tests share: the binary under test, a place to write, repeated looks, and notes of what was skipped.

pub(crate) mod client;
pub(crate) mod hog;
mod notes;
pub(crate) mod planted_pack;
pub(crate) mod proxy;
mod retry;
pub(crate) mod server;
pub(crate) mod sockets;
pub(crate) mod terminal;
pub(crate) mod yaml;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) use notes::skip;
pub(crate) use retry::{eventually, unless_it_stood_still, wait_for, wait_until};
pub(crate) use serde_json::Value as Json;

/// Longer than anything takes, also on a machine that does other work. It is waited for in full only when something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The `hoptax` binary, ready to be given arguments.
pub(crate) fn hoptax() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hoptax"))
}

/// Runs a command that prints JSON.
pub(crate) fn json(command: &mut Command) -> Json {
    let output = command.output().expect("it runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// A directory of a test's own, gone when the test ends.
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

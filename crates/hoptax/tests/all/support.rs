//! What the tests share: the binary under test, a place to write, and a look at processes.

pub(crate) mod hog;
pub(crate) mod planted_pack;
pub(crate) mod proxy;
pub(crate) mod sockets;
pub(crate) mod terminal;
pub(crate) mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use serde_json::Value as Json;

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

/// What is measured may be off on a machine whose hypervisor takes the CPU away in bursts, and is so by chance: it is looked at
/// up to three times, and the last look counts. What a product does wrong is wrong in all of them.
pub(crate) fn looked_at<T>(mut look: impl FnMut() -> T, is_right: impl Fn(&T) -> bool) -> T {
    for _ in 0..2 {
        let seen = look();
        if is_right(&seen) {
            return seen;
        }
    }
    look()
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

/// Every process that descends from `root`.
pub(crate) fn processes_below(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("procfs").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name, in brackets, may hold anything: count from its end. Then come state and parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut to_visit = vec![root];
    while let Some(parent) = to_visit.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            found.push(child);
            to_visit.push(child);
        }
    }
    found
}

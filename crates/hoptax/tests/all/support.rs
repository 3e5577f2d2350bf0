//! What the tests share: the binary under test.

use std::process::Command;

/// The `hoptax` binary, ready to be given arguments.
#[allow(dead_code, reason = "each test module takes what it needs")]
pub(crate) fn hoptax() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hoptax"))
}

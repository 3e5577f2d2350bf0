//! The `hoptax` binary: what was typed goes to its verb, and what the verb says becomes the exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    hoptax::cli::main()
}

//! The `hoptax` binary: runs the command line and exits with its code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    hoptax::cli::main()
}

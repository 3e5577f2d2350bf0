//! The `hoptax` binary. See [`hoptax::cli`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    hoptax::cli::main()
}

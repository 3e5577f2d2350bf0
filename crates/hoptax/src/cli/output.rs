//! Prints the output of verbs to standard output or writes it to a file, and chooses the width of the output.

use anyhow::Context as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Width in columns if standard output is not a terminal, or if its width is unknown.
const WIDTH: u16 = 80;
/// Maximum width in columns. Longer lines are hard to read.
const WIDEST: u16 = 120;
/// Minimum width in columns. No table fits into fewer columns.
const NARROWEST: u16 = 40;

/// Number of columns to draw in. If `COLUMNS` is set (shells and CI set it), this is its value. Otherwise it
/// is the width of the terminal. The result is between [`NARROWEST`] and [`WIDEST`].
pub(super) fn columns() -> u16 {
    let typed = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    width(typed.filter(|columns| *columns > 0).or_else(columns_of_terminal))
}

/// Width of the terminal, if standard output is one.
#[cfg(unix)]
fn columns_of_terminal() -> Option<u16> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col)
}

/// Width of the terminal: unknown.
#[cfg(not(unix))]
fn columns_of_terminal() -> Option<u16> {
    None
}

/// Limits the width to draw in. Terminals that do not know their width report 0.
fn width(columns: Option<u16>) -> u16 {
    columns.filter(|columns| *columns > 0).map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDEST))
}

pub(super) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, content)
        .with_context(|| format!("cannot write {}; choose another file with --output", path.display()))
}

/// Prints to standard output. Returns no error if the reader closes the pipe early, as in `| head`.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::width;

    #[test]
    fn widths_stay_readable() {
        for (columns, drawn) in [(None, 80), (Some(0), 80), (Some(9), 40), (Some(72), 72), (Some(300), 120)] {
            assert_eq!(width(columns), drawn);
        }
    }
}

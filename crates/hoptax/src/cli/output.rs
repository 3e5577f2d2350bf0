//! Where verbs write what they made: standard output, as wide as it is, or a file.

use anyhow::Context as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Columns of a report that is not written to a terminal, or to one that does not tell its width.
const WIDTH: u16 = 80;
/// Columns beyond which lines are hard to read.
const WIDEST: u16 = 120;
/// Columns below which no table fits.
const NARROWEST: u16 = 40;

/// Columns to draw in, within what is readable: what `COLUMNS` says, as shells and CI do who know better, or else the width of
/// the terminal that standard output is.
pub(super) fn columns() -> u16 {
    let typed = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let seen = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    width(typed.filter(|columns| *columns > 0).or_else(seen))
}

/// The width to draw in where there are so many columns; 0 is what terminals say that know no width.
fn width(columns: Option<u16>) -> u16 {
    columns.filter(|columns| *columns > 0).map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDEST))
}

pub(super) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, content)
        .with_context(|| format!("cannot write {}; choose another file with --output", path.display()))
}

/// Prints; a reader that has seen enough (`| head`) is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the report to standard output"),
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

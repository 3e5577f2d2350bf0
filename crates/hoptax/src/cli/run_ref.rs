//! A run that the user names: the path of its directory, `latest`, or the name of a plan.

use hoptax_record::dir::newest;
use std::path::{Path, PathBuf};

/// The directory in which runs are looked for if the user names none. It is the default of `hoptax run`.
const RESULTS: &str = "results";
/// Names the newest run.
const LATEST: &str = "latest";

/// The directory of the run that `typed` names. `latest` and `ci` are looked for below `results`, and
/// `out/latest` and `out/ci` below `out`. An existing path is that path. If nothing is found, the result is
/// `typed`. The attempt to read it then fails with the right error.
pub(super) fn find(typed: &Path) -> PathBuf {
    match newest_of(typed) {
        Some(found) if !typed.exists() => {
            eprintln!("note: {} is {}", typed.display(), found.display());
            found
        }
        _ => typed.to_path_buf(),
    }
}

fn newest_of(typed: &Path) -> Option<PathBuf> {
    let name = typed.file_name()?.to_str()?;
    let below = typed.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(RESULTS));
    named(below, name)
}

/// The newest run below `below` whose plan has this name. If the name is `latest`, the newest of all runs.
pub(super) fn named(below: &Path, name: &str) -> Option<PathBuf> {
    newest(below, (name != LATEST).then_some(name))
}

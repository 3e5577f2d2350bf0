//! The files that a gateway's processes have open for writing.

use procfs::process::{FDPermissions, FDTarget, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Files that the processes have open for writing, with their sizes in bytes.
pub type Writing = BTreeMap<PathBuf, u64>;

/// Regular files that these processes have open for writing. Pipes, devices and deleted files are omitted.
pub(super) fn writing(processes: &BTreeSet<u32>) -> Writing {
    descriptors(processes)
        .filter_map(|(target, mode)| match target {
            FDTarget::Path(path) if mode.contains(FDPermissions::WRITE) => {
                let file = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((path, file.len()))
            }
            _ => None,
        })
        .collect()
}

/// Open file descriptors of these processes. Processes that have exited in the meantime are left out.
fn descriptors(processes: &BTreeSet<u32>) -> impl Iterator<Item = (FDTarget, FDPermissions)> {
    let of = |pid: &u32| Process::new(pid.cast_signed()).ok()?.fd().ok();
    let all: Vec<_> = processes.iter().filter_map(of).flatten().flatten().collect();
    all.into_iter().map(|one| (one.target.clone(), one.mode()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn finds_the_written_file_of_this_process() {
        let own = BTreeSet::from([std::process::id()]);
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(b"four").expect("written");
        let read_only = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
        let _open = std::fs::File::open(&read_only).expect("there");

        let writing = writing(&own);
        assert_eq!(writing.get(file.path()), Some(&4), "{writing:?}");
        assert!(!writing.contains_key(&*read_only), "{writing:?}");
    }
}

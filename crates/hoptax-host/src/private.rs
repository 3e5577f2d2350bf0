//! Directories that only their owner may read or enter.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use tempfile::Builder;

pub use tempfile::TempDir;

/// Permissions of the directories, independent of the umask.
const ONLY_OWNER: u32 = 0o700;

/// Creates a directory with a random name in `parent`. It is removed when it is dropped.
///
/// # Errors
/// If it cannot be created.
pub fn temporary(prefix: &str, parent: &Path) -> io::Result<TempDir> {
    Builder::new().prefix(prefix).permissions(Permissions::from_mode(ONLY_OWNER)).tempdir_in(parent)
}

/// Creates a directory with this name. An existing directory is accepted only if it belongs to this user, and
/// only this user may read or enter it.
///
/// # Errors
/// If it cannot be created, or if something else has its name.
pub fn create(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(ONLY_OWNER).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // In a shared directory such as /tmp, another user may have created this directory, or a link
            // with its name.
            let found = std::fs::symlink_metadata(directory)?;
            let is_ours = found.uid() == rustix::process::geteuid().as_raw();
            if found.is_dir() && is_ours && found.mode() & 0o077 == 0 {
                return Ok(());
            }
            Err(io::Error::new(error.kind(), "it must be a directory that only this user may enter"))
        }
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(directory: &Path) -> u32 {
        std::fs::symlink_metadata(directory).expect("there").mode() & 0o777
    }

    #[test]
    fn a_temporary_directory_is_private_and_removed() {
        let parent = tempfile::tempdir().expect("a directory");
        let made = temporary("hoptax-test-", parent.path()).expect("made");
        let path = made.path().to_owned();
        assert_eq!((mode(&path), path.parent()), (ONLY_OWNER, Some(parent.path())));
        drop(made);
        assert!(!path.exists());
        assert!(temporary("hoptax-test-", &path).is_err(), "the parent is missing");
    }

    #[test]
    fn an_existing_directory_is_used_only_if_nobody_else_may_enter_it() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("ours");
        create(&path).expect("made");
        create(&path).expect("it is ours");
        assert_eq!(mode(&path), ONLY_OWNER);
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
        let refused = create(&path).expect_err("others may enter it").to_string();
        assert!(refused.contains("only this user"), "{refused}");
        let (private, link) = (parent.path().join("private"), parent.path().join("link"));
        create(&private).expect("made");
        std::os::unix::fs::symlink(&private, &link).expect("linked");
        assert!(create(&link).is_err(), "a link");
        let file = parent.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert!(create(&file).is_err(), "a file");
    }
}

//! Remembers which Terraform configurations hoptax has applied, in one file for each directory, below the
//! data directory. So hoptax never destroys machines that somebody else has created, and finds machines that
//! a killed run has left.

use anyhow::{Context as _, bail};
use ring::digest::{SHA256, digest};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// The remembered state of one directory. While this value exists, no other hoptax can use the directory.
#[derive(Debug)]
pub(super) struct Applied {
    file: File,
    /// File for the output of `terraform`.
    pub(super) log: PathBuf,
    content: Option<Content>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// The directory of the configuration, for people who read the file.
    dir: PathBuf,
    /// When hoptax began to apply it, ns since the Unix epoch.
    applied_unix_ns: u64,
}

impl Applied {
    /// Opens the file of a directory. `dir` is absolute, without links. Fails if the file cannot be read, or
    /// another hoptax uses the directory.
    pub(super) fn open(home: &Path, dir: &Path) -> anyhow::Result<Self> {
        let name = digest(&SHA256, dir.as_os_str().as_encoded_bytes());
        let name: String = name.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let directory = super::command::directory(home)?;
        let path = directory.join(format!("terraform-{name}.json"));
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!(
                "another run uses the machines of {}. Wait until it has ended, or stop it",
                dir.display()
            ),
            Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
        let content = match text.trim() {
            "" => None,
            text => {
                Some(serde_json::from_str(text).with_context(|| format!("cannot read {}", path.display()))?)
            }
        };
        Ok(Self { file, log: directory.join(format!("terraform-{name}.log")), content })
    }

    /// Whether hoptax has applied the configuration and not destroyed it since.
    pub(super) fn is_ours(&self) -> bool {
        self.content.is_some()
    }

    /// Remembers that hoptax applies the configuration. Call this before applying it, so that the file exists
    /// even if hoptax is killed. Fails if the file cannot be written.
    pub(super) fn remember(&mut self, dir: &Path, now_unix_ns: u64) -> anyhow::Result<()> {
        let content = Content { dir: dir.to_owned(), applied_unix_ns: now_unix_ns };
        self.write(&serde_json::to_vec(&content)?)?;
        self.content = Some(content);
        Ok(())
    }

    /// Remembers that the machines are gone. Fails if the file cannot be written.
    pub(super) fn forget(&mut self) -> anyhow::Result<()> {
        self.content = None;
        self.write(&[])
    }

    fn write(&mut self, text: &[u8]) -> anyhow::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text)?;
        self.file.sync_all()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hoptax_applied_is_known_later() {
        let home = tempfile::tempdir().expect("a directory");
        let (dir, other) = (Path::new("/srv/infra"), Path::new("/srv/other"));
        let mut applied = Applied::open(home.path(), dir).expect("opens");
        assert!(!applied.is_ours());
        let refused = Applied::open(home.path(), dir).expect_err("in use").to_string();
        assert!(refused.contains("/srv/infra"), "{refused}");
        assert!(!Applied::open(home.path(), other).expect("another directory").is_ours());
        applied.remember(dir, 7).expect("written");
        assert!(applied.is_ours());
        drop(applied);
        let mut applied = Applied::open(home.path(), dir).expect("opens");
        assert!(applied.is_ours());
        applied.forget().expect("written");
        drop(applied);
        assert!(!Applied::open(home.path(), dir).expect("opens").is_ours());
    }
}

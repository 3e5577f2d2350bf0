//! The place of a run on a host: a lock, so that there is only one run at a time, and a directory for its
//! files.

use crate::protocol::message::RunId;
use hoptax_format::clock;
use hoptax_host::private::{self, TempDir};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Maximum time to wait until another run has ended. Its agent may be stopping its services.
const PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(50);

/// Name of the file that is locked.
const LOCK: &str = "lock";

/// The lock and the directory. When this value is dropped, the directory is removed, and the lock is
/// released. If the process is killed, the kernel releases the lock, and the next run removes the directory.
#[derive(Debug)]
pub(super) struct Place {
    directory: TempDir,
    _lock: File,
}

/// The content of the lock file.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    run: RunId,
    /// Process id of the run's first agent.
    pid: u32,
}

/// Why there is no place.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPlace {
    #[error("{0}")]
    Taken(String),
    #[error("cannot use {directory}: {error}. Set TMPDIR to use another directory")]
    Io { directory: PathBuf, error: io::Error },
}

impl Place {
    /// Takes the place of this user on this host for a run. Agents of the same run share it.
    pub(super) fn take(run: &RunId) -> Result<Self, NoPlace> {
        let name = format!("hoptax-agent-{}", rustix::process::geteuid().as_raw());
        Self::below(&std::env::temp_dir().join(name), run, PATIENCE)
    }

    fn below(base: &Path, run: &RunId, patience: Duration) -> Result<Self, NoPlace> {
        let io = |error| NoPlace::Io { directory: base.to_owned(), error };
        private::create(base).map_err(io)?;
        let deadline = clock::now() + patience.as_nanos() as u64;
        let lock = loop {
            match try_lock(base, run).map_err(io)? {
                Ok(lock) => break lock,
                Err(holder) if clock::now() > deadline => return Err(NoPlace::Taken(taken(holder))),
                Err(_) => thread::sleep(POLL),
            }
        };
        let directory = private::temporary("agent-", base).map_err(io)?;
        Ok(Self { directory, _lock: lock })
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Locks the file for a run. If another run holds it, returns its holder, if it is known.
fn try_lock(base: &Path, run: &RunId) -> io::Result<Result<File, Option<Holder>>> {
    let path = base.join(LOCK);
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    if is_locked(&file, FlockOperation::NonBlockingLockExclusive)? {
        // No agent runs, so the files here are from agents that were killed.
        remove_leftovers(base);
        let holder = Holder { run: run.clone(), pid: std::process::id() };
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(&holder).expect("only string keys"))?;
    }
    // The lock may be lost to another run for a moment while it changes from exclusive to shared.
    if !is_locked(&file, FlockOperation::NonBlockingLockShared)? {
        return Ok(Err(None));
    }
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    match serde_json::from_str::<Holder>(&text) {
        Ok(holder) if holder.run.id == run.id => Ok(Ok(file)),
        Ok(holder) => Ok(Err(Some(holder))),
        Err(_) => Ok(Err(None)),
    }
}

fn is_locked(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn remove_leftovers(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Says who uses the host.
fn taken(holder: Option<Holder>) -> String {
    let Some(Holder { run, pid }) = holder else {
        return "another run is starting on this host. Try again".to_owned();
    };
    let since = SystemTime::UNIX_EPOCH + Duration::from_nanos(run.started_unix_ns);
    format!(
        "another run uses this host: `{}` of {}, since {} (its agent here is process {pid}). Wait until it \
        ends, or stop it",
        run.name,
        run.runner,
        humantime::format_rfc3339_seconds(since)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn run(id: &str) -> RunId {
        RunId {
            id: id.into(),
            name: format!("run-{id}"),
            runner: "process 4711 on laptop".into(),
            started_unix_ns: 1_700_000_000 * clock::SECOND,
        }
    }

    #[test]
    fn agents_of_one_run_share_a_host_and_other_runs_are_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let base = scratch.path().join("agents");
        let take = |id: &str| Place::below(&base, &run(id), Duration::ZERO);
        let first = take("a").expect("free");
        let second = take("a").expect("the same run");
        assert_ne!(first.directory(), second.directory());
        drop(first);
        let refused = take("b").expect_err("the second agent of the run is there").to_string();
        assert!(refused.contains("`run-a`") && refused.contains("2023-11-14T22:13:20Z"), "{refused}");
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(second);
        let other = take("b").expect("the run has ended");
        assert!(take("a").is_err());
        drop(other);
    }

    #[test]
    fn what_killed_agents_left_is_removed_by_the_next_run() {
        let scratch = tempfile::tempdir().expect("a directory");
        let base = scratch.path().join("agents");
        private::create(&base).expect("made");
        let left = base.join("0123");
        std::fs::create_dir(&left).expect("made");
        std::fs::write(left.join("stderr.log"), "gone").expect("written");
        let place = Place::below(&base, &run("b"), Duration::ZERO).expect("free");
        assert!(!left.exists());
        let directory = place.directory().to_owned();
        assert!(directory.is_dir());
        drop(place);
        assert!(!directory.exists());
    }

    #[test]
    fn a_directory_of_others_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let open = scratch.path().join("open");
        std::fs::create_dir(&open).expect("made");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).expect("ours");
        let error = Place::below(&open, &run("a"), Duration::ZERO).expect_err("others may enter").to_string();
        assert!(error.contains("only this user"), "{error}");
    }
}

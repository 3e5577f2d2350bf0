//! The builds on disk.

use super::git;
use hoptax_host::guarded::{Guarded, Launch};
use hoptax_host::{logs, programs};
use hoptax_plan::GitBuild;
use hoptax_record::{Failure, Stage, digest};
use rustix::fs::FlockOperation;
use rustix::io::FdFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

const TREE: &str = "tree";
const LOG: &str = "build.log";
const OUTCOME: &str = "build.json";
const BEGUN: &str = "begun.json";
const USED: &str = "used";

/// Number of log lines that an error quotes.
const QUOTED_LINES: usize = 20;

/// Time between two looks at whether a build has ended or a signal has arrived.
const LOOK: Duration = Duration::from_millis(50);

/// Exit code of a command that SIGKILL ended: the kernel does this when memory runs out.
const KILLED: i32 = 128 + 9;

/// The builds of this user.
#[derive(Debug, Clone)]
pub struct Builds {
    directory: PathBuf,
    /// The `hoptax` binary, which acts as the guard of git and of build commands.
    guard: PathBuf,
}

/// Why there is no program of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildError {
    /// The build command failed, or did not leave the program. Another build of the same commit would fail
    /// too.
    DoesNotBuild(Failure),
    /// The build did not end, for a reason that has nothing to do with the commit, such as a full disk.
    Trouble(Failure),
    /// A signal arrived.
    Interrupted(Failure),
}

impl BuildError {
    /// What happened and what to do.
    pub fn failure(self) -> Failure {
        match self {
            Self::DoesNotBuild(failure) | Self::Trouble(failure) | Self::Interrupted(failure) => failure,
        }
    }
}

/// Outcome of a build, as `build.json` keeps it. While the build runs, `begun.json` has the same members.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Directory of the repository.
    pub repository: PathBuf,
    /// Full name of the commit.
    pub commit: String,
    /// The ref that led to the commit.
    pub reference: String,
    /// The build command.
    pub build: String,
    /// How long the build took, seconds.
    pub seconds: f64,
    /// How the build failed. Absent if it succeeded.
    pub failed: Option<String>,
}

/// A build on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Outcome of the build.
    pub built: Built,
    /// Size of all its files.
    pub bytes: u64,
    /// When a run last used the build.
    pub used: Option<SystemTime>,
    /// Whether the build ended.
    pub state: BuildState,
    directory: PathBuf,
}

/// Whether a build ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildState {
    /// It ended. [`Built::failed`] says how.
    Ended,
    /// A hoptax builds it at this moment.
    Running,
    /// It was interrupted.
    Interrupted,
}

impl Kept {
    /// Directory of the build.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Builds {
    /// The builds in the user's data directory.
    ///
    /// # Errors
    /// If neither `HOPTAX_HOME` nor `XDG_DATA_HOME` nor `HOME` is set.
    pub fn of_user() -> Result<Self, Failure> {
        let data = programs::data_directory().ok_or_else(|| {
            failure(
                "there is no directory for builds. Set HOPTAX_HOME to a directory".to_owned(),
                String::new(),
            )
        })?;
        let guard = std::env::current_exe()
            .map_err(|error| failure(format!("cannot find the hoptax program: {error}"), String::new()))?;
        Ok(Self::at(data.join("builds"), guard))
    }

    /// The builds in this directory. `guard` is the `hoptax` binary.
    pub fn at(directory: PathBuf, guard: PathBuf) -> Self {
        Self { directory: std::path::absolute(&directory).unwrap_or(directory), guard }
    }

    /// Path of the program of a finished build. Also notes that the build was used.
    ///
    /// # Errors
    /// If the commit is not built, or its build failed. The failure quotes the build's log.
    pub fn program(&self, git: &GitBuild) -> Result<PathBuf, BuildError> {
        let not_built =
            || trouble(failure(format!("{git} is not built; `hoptax run` builds it"), String::new()));
        let directory = self.directory_of(git).ok_or_else(not_built)?;
        let built = read(&directory).ok_or_else(not_built)?;
        let log = directory.join(LOG);
        if let Some(how) = built.failed {
            let message = format!("{git} does not build: `{}` {how}", git.build);
            return Err(BuildError::DoesNotBuild(failure(message, quoted(&log))));
        }
        let program = directory.join(TREE).join(&git.binary);
        let found = programs::find_in(&program.to_string_lossy(), &[]).ok_or_else(|| {
            let message = format!(
                "{git} was built, but `{}` is not a program in its work tree. Correct `binary` or `build` in \
                the plan",
                git.binary.display()
            );
            BuildError::DoesNotBuild(failure(message, quoted(&log)))
        })?;
        // The time is only shown, so an error is ignored.
        let _ = fs::write(directory.join(USED), "");
        Ok(found)
    }

    /// Builds the commit, unless this was done before. A build that failed is tried again. Returns the
    /// program's path.
    ///
    /// # Errors
    /// If the commit is unknown, its files cannot be written, or it does not build. The failure quotes the
    /// build's log.
    pub fn build(&self, git: &GitBuild, interrupted: &AtomicBool) -> Result<PathBuf, BuildError> {
        let unknown = || failure(format!("{git}: hoptax has not looked up this ref"), String::new());
        let directory = self.directory_of(git).ok_or_else(unknown).map_err(trouble)?;
        // Another hoptax may build the same commit at this moment.
        let lock =
            self.lock(&directory, interrupted).map_err(|error| not_written(&self.directory, &error))?;
        let Some(lock) = lock else { return Err(ended_early(git)) };
        if read(&directory).is_none_or(|built| built.failed.is_some()) {
            self.build_again(git, &directory, &lock, interrupted)?;
        }
        drop(lock);
        self.program(git)
    }

    /// True if a build of this commit has ended, whether it failed or not.
    pub fn has(&self, git: &GitBuild) -> bool {
        self.directory_of(git).is_some_and(|directory| read(&directory).is_some())
    }

    /// All builds on disk. The one that was used last comes first.
    ///
    /// # Errors
    /// If the directory cannot be read. A directory that does not exist has no builds.
    pub fn list(&self) -> io::Result<Vec<Kept>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut kept = Vec::new();
        for entry in entries {
            let directory = entry?.path();
            if directory.is_dir() {
                kept.push(self.kept(directory));
            }
        }
        kept.sort_by_key(|one| std::cmp::Reverse(one.used));
        Ok(kept)
    }

    fn kept(&self, directory: PathBuf) -> Kept {
        let ended = read(&directory);
        let state = match &ended {
            Some(_) => BuildState::Ended,
            None if self.is_locked(&directory) => BuildState::Running,
            None => BuildState::Interrupted,
        };
        let used = fs::metadata(directory.join(USED)).and_then(|file| file.modified()).ok();
        let built =
            ended.or_else(|| read_file(&directory.join(BEGUN))).unwrap_or_else(|| unknown(&directory));
        Kept { built, bytes: size(&directory), used, state, directory }
    }

    /// Deletes a build. Returns false and deletes nothing if a hoptax builds it at this moment.
    ///
    /// # Errors
    /// If its files cannot be deleted.
    pub fn remove(&self, kept: &Kept) -> io::Result<bool> {
        let Some(_lock) = self.try_lock(&kept.directory)? else { return Ok(false) };
        fs::remove_dir_all(&kept.directory)?;
        // A hoptax that waits for the lock notices that its file is gone; see `lock_opened`.
        fs::remove_file(lock_file(&kept.directory))?;
        Ok(true)
    }

    /// Directory of the build of this commit. `None` if the commit is unknown.
    fn directory_of(&self, git: &GitBuild) -> Option<PathBuf> {
        let commit = git.commit.as_deref()?;
        let repository = fs::canonicalize(&git.repository).unwrap_or_else(|_| git.repository.clone());
        let rest = digest(&format!("{}\n{}", repository.display(), git.build));
        Some(self.directory.join(format!("{}-{rest}", commit.get(..12).unwrap_or(commit))))
    }

    /// Waits until no other hoptax works on this build. The lock ends when the returned file is closed.
    /// `None` if a signal arrived first.
    fn lock(&self, directory: &Path, interrupted: &AtomicBool) -> io::Result<Option<File>> {
        while !interrupted.load(Ordering::Relaxed) {
            if let Some(lock) = self.try_lock(directory)? {
                return Ok(Some(lock));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// Locks this build. `None` if another hoptax has the lock.
    fn try_lock(&self, directory: &Path) -> io::Result<Option<File>> {
        fs::create_dir_all(&self.directory)?;
        let path = lock_file(directory);
        lock_opened(File::options().create(true).append(true).open(&path)?, &path)
    }

    fn is_locked(&self, directory: &Path) -> bool {
        let Ok(file) = File::open(lock_file(directory)) else { return false };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err()
    }

    #[cfg(test)]
    pub(super) fn lock_for_test(&self, kept: &Kept) -> File {
        let lock = self.lock(&kept.directory, &AtomicBool::new(false));
        lock.expect("locked").expect("not interrupted")
    }

    fn build_again(
        &self,
        git: &GitBuild,
        directory: &Path,
        lock: &File,
        interrupted: &AtomicBool,
    ) -> Result<(), BuildError> {
        let written = |error: io::Error| not_written(directory, &error);
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(written(error)),
            _ => fs::create_dir_all(directory).map_err(written)?,
        }
        let repository = fs::canonicalize(&git.repository).map_err(|error| {
            let message = format!("cannot find the repository {}: {error}", git.repository.display());
            trouble(failure(message, String::new()))
        })?;
        let mut built = Built {
            repository,
            commit: git.commit.clone().unwrap_or_default(),
            reference: git.reference.clone(),
            build: git.build.clone(),
            ..Built::default()
        };
        let write = |name: &str, built: &Built| {
            let text = serde_json::to_vec_pretty(built).expect("plain data");
            fs::write(directory.join(name), text).map_err(written)
        };
        write(BEGUN, &built)?;
        // The build's processes inherit the lock. If hoptax is killed, the lock ends when the guard has
        // killed the last of these processes.
        rustix::io::fcntl_setfd(lock, FdFlags::empty()).map_err(|error| written(error.into()))?;
        let began = Instant::now();
        let (log, tree) = (directory.join(LOG), directory.join(TREE));
        let run = |in_directory: &Path, words: &[&str]| {
            let ended = self.run(in_directory, words, &log, interrupted);
            // A signal may have ended the command. An interrupted clone, for example, removes the files that
            // the next command needs.
            if interrupted.load(Ordering::Relaxed) {
                return Err(ended_early(git));
            }
            ended.map_err(written)
        };
        let path = tree.to_string_lossy();
        let clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", ".", &path];
        let mut failed = run(&built.repository, &clone)?;
        if failed.is_none() {
            failed = run(&tree, &["git", "checkout", "--quiet", "--detach", &built.commit])?;
        }
        if let Some(code) = failed {
            let message = format!("cannot check out {git}: git exited with code {code}");
            return Err(trouble(failure(message, quoted(&log))));
        }
        let code = run(&tree, &["sh", "-c", &git.build])?;
        if code == Some(KILLED) {
            let message =
                format!("{git}: the kernel or a user killed `{}`; is there enough memory?", git.build);
            return Err(trouble(failure(message, quoted(&log))));
        }
        built.failed = code.map(|code| format!("exited with code {code}"));
        built.seconds = began.elapsed().as_secs_f64();
        write(OUTCOME, &built)
    }

    /// Runs a command to its end, under a guard. Its output is added to `log`. Returns its exit code, or
    /// `None` if it succeeded. A signal to hoptax, or the end of hoptax, ends the command with all its
    /// descendants.
    fn run(
        &self,
        directory: &Path,
        words: &[&str],
        log: &Path,
        interrupted: &AtomicBool,
    ) -> io::Result<Option<i32>> {
        let unset = git::OF_HOOKS.split(' ').flat_map(|variable| ["-u", variable]);
        let launch = Launch {
            program: "env".into(),
            arguments: unset.chain(words.iter().copied()).map(OsString::from).collect(),
            directory: Some(directory.to_owned()),
            stdout: Some(log.to_owned()),
            stderr: log.to_owned(),
            ..Launch::default()
        };
        let mut guarded = Guarded::start(&self.guard, &launch)?;
        let status = loop {
            if let Some(status) = guarded.ended() {
                break status;
            }
            if interrupted.load(Ordering::Relaxed) {
                guarded.kill();
                continue;
            }
            std::thread::sleep(LOOK);
        };
        Ok(if status.success() { None } else { Some(status.code().unwrap_or(KILLED)) })
    }
}

/// Locks an open lock file. `None` if another hoptax has the lock, or has removed the file since it was
/// opened: nobody else would see a lock on a removed file.
pub(super) fn lock_opened(file: File, path: &Path) -> io::Result<Option<File>> {
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        other => other?,
    }
    let own = file.metadata()?;
    let is_current = fs::metadata(path).is_ok_and(|now| (own.dev(), own.ino()) == (now.dev(), now.ino()));
    Ok(is_current.then_some(file))
}

fn read(directory: &Path) -> Option<Built> {
    read_file(&directory.join(OUTCOME))
}

fn read_file(file: &Path) -> Option<Built> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// A build that left nothing but its directory, whose name begins with the commit.
fn unknown(directory: &Path) -> Built {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    Built { commit: name.split('-').next().unwrap_or_default().to_owned(), ..Built::default() }
}

fn lock_file(directory: &Path) -> PathBuf {
    directory.with_extension("lock")
}

fn quoted(log: &Path) -> String {
    let lines: Vec<String> =
        logs::tail(log, QUOTED_LINES).into_iter().map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { String::new() } else { format!("{}:\n{}", log.display(), lines.concat()) }
}

fn failure(message: String, detail: String) -> Failure {
    Failure { stage: Stage::Missing, message, detail }
}

fn trouble(failure: Failure) -> BuildError {
    BuildError::Trouble(failure)
}

fn ended_early(git: &GitBuild) -> BuildError {
    let message = format!("{git}: interrupted by a signal before it was built");
    BuildError::Interrupted(failure(message, String::new()))
}

fn not_written(directory: &Path, error: &io::Error) -> BuildError {
    let message = format!(
        "cannot write builds to {}: {error}. Set HOPTAX_HOME to a directory that you can write to",
        directory.display()
    );
    trouble(failure(message, String::new()))
}

/// Size of all files below a directory. Links are not followed.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

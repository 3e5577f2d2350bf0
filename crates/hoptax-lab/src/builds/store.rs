//! The builds on disk.

use super::git;
use hoptax_host::{logs, programs};
use hoptax_plan::GitBuild;
use hoptax_record::{Failure, Stage, digest};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

const TREE: &str = "tree";
const LOG: &str = "build.log";
const OUTCOME: &str = "build.json";
const USED: &str = "used";

/// Number of log lines that an error quotes.
const QUOTED_LINES: usize = 20;

/// Time between two looks at whether a build has ended or a signal has arrived.
const LOOK: Duration = Duration::from_millis(20);

/// The builds of this user.
#[derive(Debug, Clone)]
pub struct Builds {
    directory: PathBuf,
}

/// Outcome of a build, as `build.json` keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    directory: PathBuf,
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
        Ok(Self::at(data.join("builds")))
    }

    /// The builds in this directory.
    pub fn at(directory: PathBuf) -> Self {
        Self { directory: std::path::absolute(&directory).unwrap_or(directory) }
    }

    /// Path of the program of a finished build. Also notes that the build was used.
    ///
    /// # Errors
    /// If the commit is not built, or its build failed. The failure quotes the build's log.
    pub fn program(&self, git: &GitBuild) -> Result<PathBuf, Failure> {
        let not_built = || failure(format!("{git} is not built; `hoptax run` builds it"), String::new());
        let directory = self.directory_of(git).ok_or_else(not_built)?;
        let built = read(&directory).ok_or_else(not_built)?;
        let log = directory.join(LOG);
        if let Some(how) = built.failed {
            return Err(failure(format!("{git} does not build: `{}` {how}", git.build), quoted(&log)));
        }
        let program = directory.join(TREE).join(&git.binary);
        let found = programs::find_in(&program.to_string_lossy(), &[]).ok_or_else(|| {
            let message = format!(
                "{git} was built, but `{}` is not a program in its work tree. Correct `binary` or `build` in the plan",
                git.binary.display()
            );
            failure(message, quoted(&log))
        })?;
        // The time is only shown, so an error is ignored.
        let _ = fs::write(directory.join(USED), "");
        Ok(found)
    }

    /// Builds the commit, unless this was done before. A build that failed is tried again. Returns the program's path.
    ///
    /// # Errors
    /// If the commit is unknown, its files cannot be written, or it does not build. The failure quotes the build's log.
    pub fn build(&self, git: &GitBuild, interrupted: &AtomicBool) -> Result<PathBuf, Failure> {
        let directory = self
            .directory_of(git)
            .ok_or_else(|| failure(format!("{git}: hoptax has not looked up this ref"), String::new()))?;
        // Another hoptax may build the same commit at this moment.
        let lock = self.lock(&directory).map_err(|error| not_written(&self.directory, &error))?;
        if read(&directory).is_none_or(|built| built.failed.is_some()) {
            self.build_again(git, &directory, interrupted)?;
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
            let Some(built) = read(&directory) else { continue };
            let used = fs::metadata(directory.join(USED)).and_then(|file| file.modified()).ok();
            kept.push(Kept { built, bytes: size(&directory), used, directory });
        }
        kept.sort_by_key(|one| std::cmp::Reverse(one.used));
        Ok(kept)
    }

    /// Deletes a build.
    ///
    /// # Errors
    /// If its files cannot be deleted.
    pub fn remove(&self, kept: &Kept) -> io::Result<()> {
        let _lock = self.lock(&kept.directory)?;
        fs::remove_dir_all(&kept.directory)?;
        fs::remove_file(lock_file(&kept.directory))
    }

    /// Directory of the build of this commit. `None` if the commit is unknown.
    fn directory_of(&self, git: &GitBuild) -> Option<PathBuf> {
        let commit = git.commit.as_deref()?;
        let repository = fs::canonicalize(&git.repository).unwrap_or_else(|_| git.repository.clone());
        let rest = digest(&format!("{}\n{}", repository.display(), git.build));
        Some(self.directory.join(format!("{}-{rest}", commit.get(..12).unwrap_or(commit))))
    }

    /// Waits until no other hoptax works on this build. The lock ends when the returned file is closed.
    fn lock(&self, directory: &Path) -> io::Result<File> {
        fs::create_dir_all(&self.directory)?;
        let file = File::create(lock_file(directory))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn build_again(&self, git: &GitBuild, directory: &Path, interrupted: &AtomicBool) -> Result<(), Failure> {
        let written = |error: io::Error| not_written(directory, &error);
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(written(error)),
            _ => fs::create_dir_all(directory).map_err(written)?,
        }
        let began = Instant::now();
        let log = directory.join(LOG);
        let tree = directory.join(TREE);
        check_out(git, &tree, &log)?;
        let mut build = Command::new("sh");
        build.arg("-c").arg(&git.build).current_dir(&tree);
        let failed = run(&mut build, &log, interrupted).map_err(written)?;
        if interrupted.load(Ordering::Relaxed) {
            return Err(failure(
                format!("{git}: interrupted by a signal before it was built"),
                String::new(),
            ));
        }
        let built = Built {
            repository: fs::canonicalize(&git.repository).unwrap_or_else(|_| git.repository.clone()),
            commit: git.commit.clone().unwrap_or_default(),
            reference: git.reference.clone(),
            build: git.build.clone(),
            seconds: began.elapsed().as_secs_f64(),
            failed,
        };
        let text = serde_json::to_vec_pretty(&built).expect("plain data");
        fs::write(directory.join(OUTCOME), text).map_err(written)
    }
}

/// Writes the commit's files to `tree`.
fn check_out(git: &GitBuild, tree: &Path, log: &Path) -> Result<(), Failure> {
    let never = AtomicBool::new(false);
    let repository = fs::canonicalize(&git.repository).map_err(|error| {
        failure(format!("cannot find the repository {}: {error}", git.repository.display()), String::new())
    })?;
    let mut clone = git::command(&repository);
    clone.args(["clone", "--quiet", "--shared", "--no-checkout", "."]).arg(tree);
    let commit = git.commit.as_deref().unwrap_or_default();
    let checked_out = match run(&mut clone, log, &never) {
        Ok(None) => {
            let mut checkout = git::command(tree);
            checkout.args(["checkout", "--quiet", "--detach", commit]);
            run(&mut checkout, log, &never)
        }
        other => other,
    };
    match checked_out {
        Ok(None) => Ok(()),
        Ok(Some(how)) => Err(failure(format!("cannot check out {git}: git {how}"), quoted(log))),
        Err(error) => Err(failure(format!("cannot run git: {error}. Install git"), String::new())),
    }
}

/// Runs a command to its end. Its output is added to `log`. Returns how the command failed, or `None` if it succeeded. A
/// signal ends the command.
fn run(command: &mut Command, log: &Path, interrupted: &AtomicBool) -> io::Result<Option<String>> {
    let file = File::options().create(true).append(true).open(log)?;
    let mut child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupted.load(Ordering::Relaxed) {
            child.kill()?;
        }
        std::thread::sleep(LOOK);
    };
    Ok(match (status.success(), status.code()) {
        (true, _) => None,
        (false, Some(code)) => Some(format!("exited with code {code}")),
        (false, None) => Some("was ended by a signal".to_owned()),
    })
}

fn read(directory: &Path) -> Option<Built> {
    serde_json::from_slice(&fs::read(directory.join(OUTCOME)).ok()?).ok()
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

fn not_written(directory: &Path, error: &io::Error) -> Failure {
    let message = format!(
        "cannot write builds to {}: {error}. Set HOPTAX_HOME to a directory that you can write to",
        directory.display()
    );
    failure(message, String::new())
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

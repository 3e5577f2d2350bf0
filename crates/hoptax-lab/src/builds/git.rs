//! Questions to git about a repository. The user's own `git` answers them, because it knows the user's
//! settings.

use hoptax_host::programs::output_within;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Variables that a git hook sets (`git rev-parse --local-env-vars`, without the user's settings). They would
/// make git look at the hook's repository instead of the named one.
pub(super) const OF_HOOKS: &str = "GIT_DIR GIT_WORK_TREE GIT_IMPLICIT_WORK_TREE GIT_INDEX_FILE \
    GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR GIT_PREFIX GIT_SHALLOW_FILE";

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The full name: 40 or 64 hexadecimal digits.
    pub name: String,
    /// First line of the message.
    pub subject: String,
}

/// Time limit for a command that only reads the repository.
const LIMIT: Duration = Duration::from_secs(600);

/// A git command in this directory.
pub(super) fn command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).stdin(Stdio::null());
    for variable in OF_HOOKS.split(' ') {
        command.env_remove(variable);
    }
    command
}

/// The full name of the commit that a branch, a tag or the start of a commit's name refers to.
///
/// # Errors
/// If git is not installed, the directory is not a repository, or it has no such commit. The message says so.
pub fn commit_of(repository: &Path, reference: &str) -> Result<String, String> {
    let words = ["rev-parse", "--verify", "--quiet", &format!("{reference}^{{commit}}")].map(str::to_owned);
    match output(repository, &words)? {
        Ok(name) => Ok(name.trim().to_owned()),
        Err(said) if said.is_empty() => Err(format!(
            "{} has no commit `{reference}`. Write a branch, a tag or a commit of this repository; `git \
             fetch` gets those of its remote",
            repository.display()
        )),
        Err(said) => Err(format!("git cannot look up `{reference}` in {}: {said}", repository.display())),
    }
}

/// The commits after `good` up to `bad`, oldest first. A merge counts as one commit. The commits of the
/// merged branch are left out, because they were never the state of this branch.
///
/// # Errors
/// If git fails, or `good` is not an ancestor of `bad`.
pub fn commits_between(repository: &Path, good: &str, bad: &str) -> Result<Vec<Commit>, String> {
    let is_ancestor = ["merge-base", "--is-ancestor", good, bad].map(str::to_owned);
    if output(repository, &is_ancestor)?.is_err() {
        return Err(format!(
            "{good} is not an ancestor of {bad}. Choose a good commit that the bad one builds on"
        ));
    }
    let words = ["log", "--first-parent", "--reverse", "--format=%H %s", &format!("{good}..{bad}"), "--"];
    let listed = output(repository, &words.map(str::to_owned))?;
    let listed = listed.map_err(|said| format!("git cannot list the commits: {said}"))?;
    let commit = |line: &str| {
        let (name, subject) = line.split_once(' ').unwrap_or((line, ""));
        Commit { name: name.to_owned(), subject: hoptax_record::printable(subject) }
    };
    Ok(listed.lines().map(commit).collect())
}

/// Runs git. The inner error is what git printed if it failed.
fn output(directory: &Path, words: &[String]) -> Result<Result<String, String>, String> {
    let done = output_within(command(directory).args(words), LIMIT);
    let done = done.map_err(|error| format!("cannot run git: {error}. Install git"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) })
}

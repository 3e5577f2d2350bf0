//! Programs that hoptax built from commits. They are kept by repository, commit and build command, so that
//! each commit is built once.
//!
//! Each build has a directory in the user's data directory:
//!
//! - `tree`: a clone of the repository with the commit checked out. It borrows the repository's objects, and
//!   the repository itself is not changed. The build leaves the program there.
//! - `build.log`: the output of git and of the build command.
//! - `begun.json`: the commit and the command of the build. It is written first.
//! - `build.json`: the outcome. If it is missing, the build did not end, and hoptax builds again.
//! - `used`: an empty file. Its modification time is the time at which a run last used the build.

mod git;
mod plan;
mod store;

pub use git::{Commit, commit_of, commits_between};
pub use plan::{prepare, refs_of};
pub use store::{BuildError, BuildState, Builds, Built, Kept};

#[cfg(test)]
mod tests;

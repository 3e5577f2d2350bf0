//! Builds of a small repository that the test creates.

use super::git;
use super::{Builds, commit_of, commits_between};
use hoptax_plan::GitBuild;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Runs git in a directory, independent of the user's settings.
fn git(directory: &Path, words: &[&str]) {
    let mut command = git::command(directory);
    command.args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]);
    let output = command.args(words).output().expect("git is installed");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with three commits: `one`, `broken` and `two`, each with a tag of that name. The build of `broken` fails.
fn repository(scratch: &Path) -> PathBuf {
    let directory = scratch.join("proxy");
    fs::create_dir(&directory).expect("made");
    git(&directory, &["init", "--quiet", "--initial-branch=main"]);
    for (name, script) in [
        ("one", "echo built >> ../count; mkdir bin; echo echo one > bin/proxy; chmod +x bin/proxy"),
        ("broken", "echo no compiler here >&2; exit 3"),
        ("two", "mkdir bin; echo echo two > bin/proxy; chmod +x bin/proxy"),
    ] {
        fs::write(directory.join("build.sh"), script).expect("written");
        git(&directory, &["add", "build.sh"]);
        git(&directory, &["commit", "--quiet", "-m", &format!("Add {name}")]);
        git(&directory, &["tag", name]);
    }
    directory
}

fn build_of(repository: &Path, reference: &str) -> GitBuild {
    GitBuild {
        repository: repository.to_owned(),
        reference: reference.to_owned(),
        commit: Some(commit_of(repository, reference).expect("a commit")),
        build: "sh build.sh".to_owned(),
        binary: "bin/proxy".into(),
    }
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn a_commit_is_built_once_and_kept() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let builds = Builds::at(scratch.path().join("builds"));
    let one = build_of(&repository, "one");
    let message = builds.program(&one).expect_err("not built").message;
    assert!(message.contains("is not built; `hoptax run` builds it"), "{message}");
    let program = builds.build(&one, &never()).expect("it builds");
    assert_eq!(builds.build(&one, &never()).expect("kept"), program);
    assert_eq!(builds.program(&one).expect("kept"), program);
    let counted = program.parent().and_then(Path::parent).and_then(Path::parent).expect("three levels");
    assert_eq!(fs::read_to_string(counted.join("count")).expect("built"), "built\n", "built once");
    let said = Command::new("sh").arg(&program).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "one\n");
    let other = GitBuild { build: "sh ./build.sh".to_owned(), ..one.clone() };
    assert_ne!(builds.build(&other, &never()).expect("it builds"), program, "another command");
    assert!(!repository.join(".git/worktrees").exists(), "the repository is not changed");

    let kept = builds.list().expect("read");
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|one| one.bytes > 100 && one.used.is_some() && one.built.failed.is_none()));
    builds.remove(&kept[0]).expect("removed");
    assert_eq!(builds.list().expect("read").len(), 1);
}

#[test]
fn the_log_of_a_build_that_fails_is_quoted() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let builds = Builds::at(scratch.path().join("builds"));
    let broken = build_of(&repository, "broken");
    for outcome in [builds.build(&broken, &never()), builds.program(&broken)] {
        let failure = outcome.expect_err("it does not build");
        assert!(failure.message.contains("does not build: `sh build.sh` exited with code 3"), "{failure:?}");
        assert!(failure.detail.contains("no compiler here"), "{failure:?}");
    }
    let elsewhere = GitBuild { binary: "bin/other".into(), ..build_of(&repository, "two") };
    let failure = builds.build(&elsewhere, &never()).expect_err("no such program");
    assert!(failure.message.contains("`bin/other` is not a program"), "{failure:?}");
}

#[test]
fn a_build_that_was_interrupted_is_not_kept() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let builds = Builds::at(scratch.path().join("builds"));
    let endless = GitBuild { build: "exec sleep 600".to_owned(), ..build_of(&repository, "one") };
    let failure = builds.build(&endless, &AtomicBool::new(true)).expect_err("interrupted");
    assert!(failure.message.contains("interrupted"), "{failure:?}");
    assert!(!builds.has(&endless) && builds.list().expect("read").is_empty());
}

#[test]
fn refs_are_looked_up_and_commits_listed() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let name = commit_of(&repository, "two").expect("a tag");
    assert_eq!(commit_of(&repository, "main").expect("a branch"), name);
    assert_eq!(commit_of(&repository, &name[..8]).expect("a short name"), name);
    let error = commit_of(&repository, "nothing").expect_err("no such ref");
    assert!(error.contains("has no commit `nothing`"), "{error}");
    let error = commit_of(scratch.path(), "main").expect_err("not a repository");
    assert!(error.contains("main"), "{error}");
    let subjects = |good: &str, bad: &str| -> Vec<String> {
        let commits = commits_between(&repository, good, bad).expect("listed");
        commits.into_iter().map(|commit| commit.subject).collect()
    };
    assert_eq!(subjects("one", "two"), ["Add broken", "Add two"]);
    let error = commits_between(&repository, "two", "one").expect_err("the wrong order");
    assert!(error.contains("two is not an ancestor of one"), "{error}");
}

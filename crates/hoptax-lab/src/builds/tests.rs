//! Builds of a small repository that the test creates.

use super::store::lock_opened;
use super::{BuildError, BuildState, Builds, commit_of, commits_between, git};
use hoptax_plan::GitBuild;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Runs git in a directory, independent of the user's settings.
fn git(directory: &Path, words: &[&str]) {
    let mut command = git::command(directory);
    command.args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]);
    let output = command.args(words).output().expect("git is installed");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with three commits: `one`, `broken` and `two`, each with a tag of that name. The build of
/// `broken` fails.
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

/// Builds in the scratch directory. Their guard only runs the command. Tests of the whole program use the
/// real guard.
fn builds(scratch: &Path) -> Builds {
    let guard = scratch.join("guard");
    let script = "#!/bin/sh\nuntil [ \"$1\" = -- ]; do shift; done\nshift\nexec \"$@\"\n";
    fs::write(&guard, script).expect("written");
    fs::set_permissions(&guard, fs::Permissions::from_mode(0o755)).expect("set");
    Builds::at(scratch.join("builds"), guard)
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

/// Waits for a condition. A process that another test starts at the same moment can hold this test's lock for
/// a while.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_commit_is_built_once_and_kept() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let builds = builds(scratch.path());
    let one = build_of(&repository, "one");
    let message = builds.program(&one).expect_err("not built").failure().message;
    assert!(message.contains("is not built"), "{message}");
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
    assert!(kept.iter().all(|one| one.state == BuildState::Ended));
    wait_until("it is removed", || builds.remove(&kept[0]).expect("removed"));
    assert_eq!(builds.list().expect("read").len(), 1);
}

#[test]
fn the_log_of_a_build_that_fails_is_quoted() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let builds = builds(scratch.path());
    let broken = build_of(&repository, "broken");
    for outcome in [builds.build(&broken, &never()), builds.program(&broken)] {
        let error = outcome.expect_err("it does not build");
        assert!(matches!(error, BuildError::DoesNotBuild(_)), "{error:?}");
        let failure = error.failure();
        assert!(failure.message.contains("exited with code 3"), "{failure:?}");
        assert!(failure.detail.contains("no compiler here"), "{failure:?}");
    }
    let elsewhere = GitBuild { binary: "bin/other".into(), ..build_of(&repository, "two") };
    let failure = builds.build(&elsewhere, &never()).expect_err("no such program").failure();
    assert!(failure.message.contains("`bin/other`"), "{failure:?}");
}

#[test]
fn trouble_of_the_machine_is_not_a_commit_that_does_not_build() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let builds = builds(scratch.path());
    let one = build_of(&repository, "one");
    let killed = GitBuild { build: "kill -9 $$".to_owned(), ..one.clone() };
    let unknown = GitBuild { commit: Some("0".repeat(40)), ..one.clone() };
    let no_guard = Builds::at(scratch.path().join("others"), scratch.path().join("nothing"));
    let outcomes =
        [builds.build(&killed, &never()), builds.build(&unknown, &never()), no_guard.build(&one, &never())];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(BuildError::Trouble(_))), "{outcome:?}");
    }
    let gone = GitBuild { repository: scratch.path().join("gone"), ..one };
    let error = builds.build(&gone, &never()).expect_err("no repository");
    assert!(matches!(&error, BuildError::Trouble(failure) if failure.message.contains("repository")));
}

#[test]
fn a_build_that_was_interrupted_is_listed_and_can_be_removed() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let builds = builds(scratch.path());
    let one = build_of(&repository, "one");
    builds.build(&one, &never()).expect("it builds");
    let kept = builds.list().expect("read").remove(0);
    fs::remove_file(kept.directory().join("build.json")).expect("there");
    let is_as_before = |state: BuildState| {
        let now = builds.list().expect("read").remove(0);
        now.state == state && now.bytes > 100 && now.built.commit == kept.built.commit
    };
    wait_until("it is interrupted", || is_as_before(BuildState::Interrupted));
    assert!(!builds.has(&one));
    fs::remove_file(kept.directory().join("begun.json")).expect("there");
    let short = builds.list().expect("read").remove(0).built.commit;
    assert!(short.len() == 12 && kept.built.commit.starts_with(&short), "{short}");

    let locked = builds.lock_for_test(&kept);
    assert_eq!(builds.list().expect("read")[0].state, BuildState::Running);
    assert!(!builds.remove(&kept).expect("no error"), "a hoptax builds it");
    let error = builds.build(&one, &AtomicBool::new(true)).expect_err("interrupted");
    assert!(matches!(error, BuildError::Interrupted(_)), "{error:?}");
    drop(locked);
    wait_until("it is removed", || builds.remove(&kept).expect("removed"));
    assert!(builds.list().expect("read").is_empty());
}

#[test]
fn a_lock_on_a_removed_file_does_not_count() {
    let scratch = tempfile::tempdir().expect("made");
    let path = scratch.path().join("build.lock");
    let open = || fs::File::options().create(true).append(true).open(&path).expect("opened");
    let waiting = open();
    let first = lock_opened(open(), &path).expect("locked").expect("free");
    assert!(lock_opened(open(), &path).expect("no error").is_none(), "the first one has it");
    fs::remove_file(&path).expect("there");
    drop(first);
    assert!(lock_opened(waiting, &path).expect("no error").is_none());
    assert!(lock_opened(open(), &path).expect("no error").is_some(), "a new file");
}

#[test]
fn refs_are_looked_up_and_commits_listed() {
    let scratch = tempfile::tempdir().expect("made");
    let repository = repository(scratch.path());
    let name = commit_of(&repository, "two").expect("a tag");
    assert_eq!(commit_of(&repository, "main").expect("a branch"), name);
    assert_eq!(commit_of(&repository, &name[..8]).expect("a short name"), name);
    let error = commit_of(&repository, "nothing").expect_err("no such ref");
    assert!(error.contains("`nothing`"), "{error}");
    let error = commit_of(scratch.path(), "main").expect_err("not a repository");
    assert!(error.contains("main"), "{error}");
    let subjects = |good: &str, bad: &str| -> Vec<String> {
        let commits = commits_between(&repository, good, bad).expect("listed");
        commits.into_iter().map(|commit| commit.subject).collect()
    };
    assert_eq!(subjects("one", "two"), ["Add broken", "Add two"]);
    let error = commits_between(&repository, "two", "one").expect_err("the wrong order");
    assert!(error.contains("ancestor"), "{error}");
}

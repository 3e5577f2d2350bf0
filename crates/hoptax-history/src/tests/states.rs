//! Tests of directories in every state, and of directories that are not runs.

use super::*;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

/// State and problem of the only run in a new history. `make` changes the run's directory before hoptax reads
/// it.
fn state_of(make: impl FnOnce(&Root, &Path)) -> (State, String) {
    let root = Root::new();
    let dir = root.put_steady("20260101T000000Z-a", 150);
    make(&root, &dir);
    let store = root.analysed();
    let run = one(&store, "20260101T000000Z-a");
    (run.state, run.problem.unwrap_or_default())
}

fn record(dir: &Path, change: impl FnOnce(&mut hoptax_record::RunRecord)) {
    let mut record = hoptax_record::dir::read_run(dir).expect("made");
    change(&mut record);
    fs::write(dir.join("run.json"), serde_json::to_string(&record).expect("JSON")).expect("written");
    age(dir);
}

fn append(path: &Path, text: &[u8]) {
    File::options().append(true).open(path).expect("there").write_all(text).expect("written");
}

#[test]
fn a_run_without_an_end_is_running_for_a_minute_then_killed() {
    let (state, problem) = state_of(|_, dir| record(dir, |record| record.ended = None));
    assert_eq!((state, &*problem), (State::Interrupted, "it was killed after 9 of 20 trials"));
    let root = Root::new();
    let dir = root.put_steady("20260101T000000Z-a", 150);
    record(&dir, |record| record.ended = None);
    append(&dir.join("trials.jsonl"), b"{\"half a li");
    let mut store = root.store();
    let run = one(&store, "20260101T000000Z-a");
    assert_eq!((run.state, run.trials, &run.problem), (State::Running, 9, &None));
    assert_eq!(analyse_all(&mut store), 0, "it is not at its end");
    let error = store.delete("20260101T000000Z-a").expect_err("it goes on");
    assert!(matches!(error, crate::HistoryError::Running { .. }), "{error}");
    age(&dir);
    store.refresh().expect("refreshed");
    let run = one(&store, "20260101T000000Z-a");
    assert_eq!(run.state, State::Interrupted);
    assert!(run.problem.expect("told").contains("truncated"));
    assert_eq!(analyse_all(&mut store), 1);
    assert!(one(&store, "20260101T000000Z-a").verdict.is_some(), "what was measured is there");
}

#[test]
fn a_run_that_is_starting_has_no_record_yet() {
    let root = Root::new();
    let dir = root.path().join("20260101T000000Z-a");
    fs::create_dir(&dir).expect("made");
    File::create(dir.join("trials.jsonl")).expect("made");
    assert_eq!(root.listed(), [("20260101T000000Z-a".into(), State::Running)]);
    age(&dir);
    assert_eq!(root.listed(), [("20260101T000000Z-a".into(), State::Broken)]);
}

#[test]
fn ends_are_told_apart() {
    let (state, problem) = state_of(|_, dir| {
        record(dir, |record| record.ended.as_mut().expect("made with one").interrupted = true);
    });
    assert_eq!((state, &*problem), (State::Interrupted, "it was interrupted after 9 of 20 trials"));
    let (state, problem) = state_of(|_, dir| {
        let failure = hoptax_analysis::fixture::failure(hoptax_record::Stage::Start, "no upstream");
        record(dir, |record| record.ended.as_mut().expect("made with one").failed = Some(failure));
    });
    assert_eq!((state, &*problem), (State::Interrupted, "it ended after 9 of 20 trials: no upstream"));
}

#[test]
fn damage_is_reported_and_the_rest_is_analysed() {
    let (state, problem) = state_of(|_, dir| {
        let trials = fs::read(dir.join("trials.jsonl")).expect("there");
        fs::write(dir.join("trials.jsonl"), &trials[..trials.len() - 30]).expect("written");
    });
    assert_eq!(state, State::Damaged);
    assert!(problem.contains("truncated"), "{problem}");
    let (state, problem) = state_of(|_, dir| append(&dir.join("trials.jsonl"), b"\xff\xfe garbage \0\n"));
    assert_eq!(state, State::Damaged);
    assert!(problem.contains("trials.jsonl line 10"), "{problem}");
    let (state, problem) = state_of(|_, dir| fs::remove_file(dir.join("trials.jsonl")).expect("there"));
    assert_eq!((state, &*problem), (State::Damaged, "trials.jsonl is missing"));
    let (state, problem) = state_of(|_, dir| {
        fs::remove_file(dir.join("trials.jsonl")).expect("there");
        fs::create_dir(dir.join("trials.jsonl")).expect("made");
    });
    assert_eq!((state, &*problem), (State::Damaged, "trials.jsonl is not a file"));
}

#[test]
fn unreadable_runs_are_broken_newer_or_foreign() {
    let replaced = |text: &str| state_of(|_, dir| fs::write(dir.join("run.json"), text).expect("written"));
    let (state, problem) = state_of(|_, dir| {
        let text = fs::read(dir.join("run.json")).expect("there");
        fs::write(dir.join("run.json"), &text[..text.len() / 2]).expect("written");
    });
    assert_eq!(state, State::Broken);
    assert!(problem.starts_with("run.json cannot be read"), "{problem}");
    assert_eq!(replaced("").0, State::Broken);
    assert_eq!(replaced("\0\0\0").0, State::Broken);
    assert_eq!(replaced(r#"{"schema": 3, "hoptax": "0.1.0"}"#).0, State::Broken);
    assert_eq!(replaced(r#"{"schema": 99, "hoptax": "9.9.9"}"#).0, State::Newer);
    for foreign in [r#"{"name": "another tool"}"#, "[]", "1", "null", r#""text""#] {
        assert_eq!(replaced(foreign).0, State::Foreign, "{foreign}");
    }
    let (state, problem) = state_of(|_, dir| {
        fs::remove_file(dir.join("run.json")).expect("there");
        fs::create_dir(dir.join("run.json")).expect("made");
    });
    assert_eq!((state, &*problem), (State::Broken, "run.json is not a file"));
    let (state, _) = state_of(|root, dir| {
        fs::rename(dir.join("run.json"), root.path().join("elsewhere")).expect("moved");
        symlink(root.path().join("elsewhere"), dir.join("run.json")).expect("made");
    });
    assert_eq!(state, State::Broken, "links are not followed");
    let (state, _) = state_of(|_, dir| {
        fs::remove_file(dir.join("run.json")).expect("there");
        let made = std::process::Command::new("mkfifo").arg(dir.join("run.json")).status().expect("mkfifo");
        assert!(made.success());
    });
    assert_eq!(state, State::Broken, "nobody waits for a pipe");
    let (state, problem) = state_of(|_, dir| fs::remove_file(dir.join("run.json")).expect("there"));
    assert_eq!((state, &*problem), (State::Broken, "run.json is missing"));
}

#[test]
fn absurd_figures_do_not_stop_the_scan() {
    let (state, _) = state_of(|_, dir| {
        record(dir, |record| {
            record.started_unix_ns = u64::MAX;
            record.ended.as_mut().expect("made with one").unix_ns = 0;
            record.trials_planned = u32::MAX;
            record.load.clear();
            record.contenders.clear();
        });
    });
    assert_eq!(state, State::Whole);
    let (state, _) = state_of(|_, dir| {
        record(dir, |record| {
            record.ended = None;
            record.plan.warmup = Duration::MAX;
        });
    });
    assert_eq!(state, State::Running);
}

#[test]
fn only_directories_that_look_like_runs_are_listed() {
    let root = Root::new();
    for plain in ["plain", "2026", ".20260101T000000Z-hidden", "20260101T000000Z"] {
        fs::create_dir(root.path().join(plain)).expect("made");
    }
    let hidden = root.put_steady(".hidden", 150);
    fs::write(root.path().join("20260101T000000Z-file"), "").expect("written");
    symlink(&hidden, root.path().join("latest")).expect("made");
    assert_eq!(root.listed(), []);
    fs::create_dir(root.path().join("20260101T000000Z-empty")).expect("made");
    symlink(&hidden, root.path().join("20260102T000000Z-link")).expect("made");
    symlink("/nowhere", root.path().join("20260103T000000Z-dangling")).expect("made");
    root.put_steady("renamed by hand, with a ü and a\nbreak", 150);
    let foreign = |id: &str| (id.to_owned(), State::Foreign);
    let mut listed = root.listed();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        listed,
        [
            foreign("20260101T000000Z-empty"),
            foreign("20260102T000000Z-link"),
            foreign("20260103T000000Z-dangling"),
            ("renamed by hand, with a ü and a\nbreak".into(), State::Whole),
        ]
    );
}

#[test]
fn a_name_that_is_not_utf8_is_shown_and_left_alone() {
    let root = Root::new();
    let dir = root.put_steady("20260101T000000Z-a", 150);
    let odd = root.path().join(OsStr::from_bytes(b"20260102T000000Z-\xff"));
    fs::rename(dir, &odd).expect("moved");
    root.put_steady("20260101T000000Z-b", 150);
    let mut store = root.store();
    assert_eq!(analyse_all(&mut store), 1);
    let listed = all(&store);
    assert_eq!(listed.len(), 2);
    assert_eq!(listed.iter().filter(|run| run.state == State::Whole).count(), 1);
    let shown = listed.iter().find(|run| run.state == State::Foreign).expect("listed");
    assert!(shown.problem.as_ref().is_some_and(|problem| problem.contains("UTF-8")));
    assert_eq!(store.path(&shown.id).expect("asked"), None);
    assert!(store.delete(&shown.id.clone()).is_err());
    assert!(odd.join("run.json").exists());
}

#[test]
fn missing_permissions_are_reported_until_fixed() {
    let root = Root::new();
    let dir = root.put_steady("20260101T000000Z-a", 150);
    let shut = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    shut(&dir.join("run.json"), 0o000);
    let may_all = File::open(dir.join("run.json")).is_ok();
    let mut store = root.store();
    if !may_all {
        assert_eq!(told(&store)[0].1, State::Broken);
    }
    shut(&dir.join("run.json"), 0o644);
    store.refresh().expect("refreshed");
    assert_eq!(told(&store)[0].1, State::Whole);
    shut(&dir, 0o000);
    store.refresh().expect("refreshed");
    if !may_all {
        assert_eq!(told(&store)[0].1, State::Broken);
    }
    shut(&dir, 0o755);
    store.refresh().expect("refreshed");
    assert_eq!(told(&store)[0].1, State::Whole);
}

#[test]
fn runs_of_older_versions_are_read() {
    let root = Root::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs/schema-1");
    let to = root.path().join("20251121T042811Z-quickstart");
    fs::create_dir(&to).expect("made");
    for name in ["run.json", "trials.jsonl"] {
        fs::copy(from.join(name), to.join(name)).expect("copied");
    }
    let mut store = root.store();
    assert_eq!(analyse_all(&mut store), 1);
    let run = one(&store, "20251121T042811Z-quickstart");
    assert_eq!((run.state, &*run.name, run.trials), (State::Whole, "quickstart", 6));
    assert!(run.verdict.is_some() && run.answer.is_some_and(|answer| answer.contains("nginx")));
}

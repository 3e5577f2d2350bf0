//! Tests of directories in every state, and of directories that are not runs.

use super::*;
use hoptax_analysis::fixture::failure;
use hoptax_record::Stage;
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

/// These states and problems, for a snapshot.
fn shown(states: &[(State, String)]) -> String {
    states.iter().map(|(state, problem)| format!("{state:?}: {problem}")).collect::<Vec<_>>().join("\n")
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
    let ended = |change: fn(&mut hoptax_record::Ended)| {
        state_of(|_, dir| record(dir, |record| change(record.ended.as_mut().expect("made with one"))))
    };
    let ends = [
        state_of(|_, dir| record(dir, |record| record.ended = None)),
        ended(|end| end.interrupted = true),
        ended(|end| end.failed = Some(failure(Stage::Start, "no upstream"))),
    ];
    insta::assert_snapshot!(shown(&ends));
}

#[test]
fn damage_is_reported_and_the_rest_is_analysed() {
    let damaged = |damage: fn(&Path)| state_of(|_, dir| damage(&dir.join("trials.jsonl")));
    let states = [
        damaged(|file| {
            let trials = fs::read(file).expect("there");
            fs::write(file, &trials[..trials.len() - 30]).expect("written");
        }),
        damaged(|file| append(file, b"\xff\xfe garbage \0\n")),
        damaged(|file| fs::remove_file(file).expect("there")),
        damaged(|file| {
            fs::remove_file(file).expect("there");
            fs::create_dir(file).expect("made");
        }),
    ];
    insta::assert_snapshot!(shown(&states));
}

#[test]
fn unreadable_runs_are_broken_newer_or_foreign() {
    let replaced = |text: &str| state_of(|_, dir| fs::write(dir.join("run.json"), text).expect("written"));
    let (state, problem) = state_of(|_, dir| {
        let text = fs::read(dir.join("run.json")).expect("there");
        fs::write(dir.join("run.json"), &text[..text.len() / 2]).expect("written");
    });
    assert!(state == State::Broken && problem.starts_with("run.json "), "{state:?}: {problem}");
    let (old, newer) = (r#"{"schema": 3, "hoptax": "0.1.0"}"#, r#"{"schema": 99, "hoptax": "9.9.9"}"#);
    let texts = ["", "\0\0\0", old, newer, r#"{"name": "another tool"}"#, "[]", "1", "null", r#""text""#];
    insta::assert_snapshot!(shown(&texts.map(replaced)));
    let states = [
        state_of(|_, dir| {
            fs::remove_file(dir.join("run.json")).expect("there");
            fs::create_dir(dir.join("run.json")).expect("made");
        }),
        // Links are not followed.
        state_of(|root, dir| {
            fs::rename(dir.join("run.json"), root.path().join("elsewhere")).expect("moved");
            symlink(root.path().join("elsewhere"), dir.join("run.json")).expect("made");
        }),
        // hoptax does not wait for a pipe.
        state_of(|_, dir| {
            fs::remove_file(dir.join("run.json")).expect("there");
            let made = std::process::Command::new("mkfifo").arg(dir.join("run.json")).status();
            assert!(made.expect("mkfifo").success());
        }),
        state_of(|_, dir| fs::remove_file(dir.join("run.json")).expect("there")),
    ];
    insta::assert_snapshot!(shown(&states));
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

//! Tests on made-up directories.

mod index;
mod scatter;
mod states;
mod trends;

use super::{Entry, Query, State, Store};
use hoptax_analysis::fixture::Run;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

struct Root(TempDir);

impl Root {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Adds a run whose last write is long ago, so that it does not count as in progress.
    fn put(&self, id: &str, run: &Run) -> PathBuf {
        let dir = self.path().join(id);
        fs::create_dir_all(&dir).expect("made");
        let lines = run.trials.iter().map(|trial| serde_json::to_string(trial).expect("JSON") + "\n");
        fs::write(dir.join("trials.jsonl"), lines.collect::<String>()).expect("written");
        let lines = run.starts.iter().map(|start| serde_json::to_string(start).expect("JSON") + "\n");
        let lines: String = lines.collect();
        if !lines.is_empty() {
            fs::write(dir.join("starts.jsonl"), lines).expect("written");
        }
        fs::write(dir.join("run.json"), serde_json::to_string_pretty(&run.record).expect("JSON"))
            .expect("written");
        age(&dir);
        dir
    }

    /// Adds a run without problems.
    fn put_steady(&self, id: &str, nginx_us: u64) -> PathBuf {
        self.put(id, &steady(nginx_us))
    }

    fn store(&self) -> Store {
        let mut store = Store::open(self.path()).expect("opened");
        store.refresh().expect("refreshed");
        store
    }

    /// The store after all runs were analysed.
    fn analysed(&self) -> Store {
        let mut store = self.store();
        analyse_all(&mut store);
        store
    }

    /// Id and state of each listed run, newest first.
    fn listed(&self) -> Vec<(String, State)> {
        told(&self.store())
    }
}

fn steady(nginx_us: u64) -> Run {
    let mut run = Run::steady(3, 100, &[("nginx", nginx_us)]);
    run.record.plan.name = "made-up".into();
    run
}

/// Sets the time of the files' last write to an hour ago.
fn age(dir: &Path) {
    for name in ["run.json", "trials.jsonl", "starts.jsonl"] {
        if let Ok(file) = File::options().append(true).open(dir.join(name)) {
            file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("ours");
        }
    }
}

fn told(store: &Store) -> Vec<(String, State)> {
    all(store).into_iter().map(|run| (run.id, run.state)).collect()
}

fn all(store: &Store) -> Vec<Entry> {
    store.list(&Query::default()).expect("listed").runs
}

fn one(store: &Store, id: &str) -> Entry {
    store.get(id).expect("asked").unwrap_or_else(|| panic!("{id} is not there"))
}

fn found(store: &Store, query: Query) -> Vec<String> {
    store.list(&query).expect("listed").runs.into_iter().map(|run| run.id).collect()
}

fn analyse_all(store: &mut Store) -> usize {
    let mut count = 0;
    while store.analyse_next().expect("analysed") {
        count += 1;
    }
    count
}

#[test]
fn a_run_is_listed_from_its_record_and_analysed_later() {
    let root = Root::new();
    root.put_steady("20260101T000000Z-made-up", 150);
    let mut store = root.store();
    let before = one(&store, "20260101T000000Z-made-up");
    assert_eq!((before.state, &before.problem, &*before.name), (State::Whole, &None, "made-up"));
    assert_eq!((before.trials, before.trials_planned, &before.verdict), (9, 20, &None));
    assert_eq!(before.loads, ["closed loop, 32 connections"]);
    let versions: Vec<_> =
        before.contenders.iter().map(|one| (&*one.label, one.version.as_deref())).collect();
    assert_eq!(versions, [("direct", Some("1.2.3")), ("nginx", Some("1.2.3"))]);
    assert_eq!(store.list(&Query::default()).expect("listed").pending, 1);
    assert_eq!(analyse_all(&mut store), 1);
    let after = one(&store, "20260101T000000Z-made-up");
    assert!(after.answer.as_ref().is_some_and(|answer| answer.contains("nginx")), "{after:?}");
    assert!(after.verdict.is_some());
    assert_eq!(Entry { verdict: None, over_budget: None, answer: None, ..after }, before);
    assert_eq!(store.list(&Query::default()).expect("listed").pending, 0);
}

#[test]
fn new_changed_and_removed_runs_are_noticed() {
    let root = Root::new();
    let first = root.put_steady("20260101T000000Z-a", 150);
    let mut store = root.analysed();
    root.put_steady("20260102T000000Z-b", 150);
    store.refresh().expect("refreshed");
    assert_eq!(all(&store).len(), 2);
    assert_eq!(analyse_all(&mut store), 1, "the first was analysed");
    let mut other = steady(150);
    other.record.plan.name = "renamed".into();
    root.put("20260101T000000Z-a", &other);
    store.refresh().expect("refreshed");
    assert_eq!(one(&store, "20260101T000000Z-a").name, "renamed");
    assert_eq!(analyse_all(&mut store), 1, "it changed");
    fs::remove_dir_all(first).expect("there");
    store.refresh().expect("refreshed");
    assert_eq!(told(&store), [("20260102T000000Z-b".into(), State::Whole)]);
    assert_eq!(
        store.trend_choices().expect("asked").len(),
        2,
        "figures of what is gone are gone: {:?}",
        store.trend_choices()
    );
}

#[test]
fn a_list_is_searched_by_words_tags_gateways_and_states() {
    let root = Root::new();
    root.put_steady("20260101T000000Z-a", 150);
    let mut other = Run::steady(2, 100, &[("Edge", 150)]);
    other.record.contenders[1].kind = "envoy".into();
    other.record.contenders[1].version = Some("1.31.0".into());
    other.record.ended.as_mut().expect("made with one").interrupted = true;
    root.put("20260102T000000Z-b", &other);
    let mut store = root.store();
    store.annotate("20260101T000000Z-a", Some(&["before-tuning".into()]), Some("Größer")).expect("written");
    let text = |text: &str| found(&store, Query { text: text.into(), ..Query::default() });
    let (a, b) = ("20260101T000000Z-a", "20260102T000000Z-b");
    assert_eq!(text(""), [b, a]);
    assert_eq!(text("NGINX"), [a]);
    assert_eq!(text("edge 1.31"), [b]);
    assert_eq!(text("edge nginx"), [""; 0]);
    assert_eq!((text("größer tuning"), text("%"), text("'")), (vec![a.into()], vec![], vec![]));
    let by = |query: Query| found(&store, query);
    assert_eq!(by(Query { tag: Some("before-tuning".into()), ..Query::default() }), [a]);
    assert_eq!(by(Query { tag: Some("before".into()), ..Query::default() }), [""; 0]);
    assert_eq!(by(Query { gateway: Some("envoy".into()), ..Query::default() }), [b]);
    assert_eq!(by(Query { gateway: Some("Edge".into()), ..Query::default() }), [b]);
    assert_eq!(by(Query { state: Some(State::Interrupted), ..Query::default() }), [b]);
    assert_eq!(by(Query { limit: 1, offset: 1, ..Query::default() }), [a]);
    let listing = store.list(&Query { text: "edge".into(), ..Query::default() }).expect("listed");
    assert_eq!((listing.total, listing.all), (1, 2));
}

#[test]
fn tags_and_notes_are_stored_in_the_run_directory() {
    let root = Root::new();
    let dir = root.put_steady("20260101T000000Z-a", 150);
    let mut store = root.store();
    let tagged =
        store.annotate("20260101T000000Z-a", Some(&["b".into(), "a".into()]), None).expect("written");
    assert_eq!((tagged.tags, &*tagged.note), (vec!["a".to_owned(), "b".into()], ""));
    let noted = store.annotate("20260101T000000Z-a", None, Some("a note")).expect("written");
    assert_eq!((noted.tags.len(), &*noted.note), (2, "a note"), "tags stay");
    store.rebuild().expect("rebuilt");
    assert_eq!(one(&store, "20260101T000000Z-a"), noted);
    assert_eq!(store.tags().expect("asked"), ["a", "b"]);
    analyse_all(&mut store);
    store.annotate("20260101T000000Z-a", Some(&[]), None).expect("written");
    assert!(one(&store, "20260101T000000Z-a").verdict.is_some(), "notes are no reason to analyse again");
    for (tags, note) in [(Some(vec!["a b".to_owned()]), None), (None, Some("x".repeat(10_001)))] {
        let error =
            store.annotate("20260101T000000Z-a", tags.as_deref(), note.as_deref()).expect_err("refused");
        assert!(matches!(error, super::HistoryError::Invalid(_)), "{error}");
    }
    fs::write(dir.join("notes.json"), "{").expect("written");
    store.refresh().expect("refreshed");
    let told = one(&store, "20260101T000000Z-a");
    assert!(told.problem.as_ref().is_some_and(|problem| problem.contains("notes")), "{told:?}");
    assert_eq!(told.state, State::Whole);
    let error = store.annotate("20260101T000000Z-a", None, Some("lost?")).expect_err("refused");
    assert!(error.to_string().contains("notes.json"), "{error}");
}

#[test]
fn delete_removes_a_run_and_nothing_else() {
    let root = Root::new();
    let elsewhere = Root::new();
    let kept = elsewhere.put_steady("20260101T000000Z-kept", 150);
    let dir = root.put_steady("20260101T000000Z-a", 150);
    std::os::unix::fs::symlink(&kept, dir.join("link")).expect("made");
    std::os::unix::fs::symlink(&kept, root.path().join("20260102T000000Z-link")).expect("made");
    fs::create_dir(root.path().join("plain")).expect("made");
    fs::create_dir(root.path().join("20260103T000000Z-empty")).expect("made");
    let mut store = root.store();
    let outside =
        format!("../{}/20260101T000000Z-kept", elsewhere.path().file_name().expect("one").to_string_lossy());
    for id in [
        "",
        ".",
        "..",
        "plain",
        "20260102T000000Z-link",
        "20260103T000000Z-empty",
        "nothing",
        &outside,
        &kept.to_string_lossy(),
        "20260101T000000Z-a/../plain",
        ".hoptax-history.sqlite",
    ] {
        assert!(store.delete(id).is_err(), "{id} was removed");
    }
    for id in ["", ".", "..", "plain", "20260102T000000Z-link", &outside, &kept.to_string_lossy(), "a\0b"] {
        assert_eq!(store.path(id).expect("asked"), None, "{id}");
    }
    assert_eq!(
        store.path("20260101T000000Z-a").expect("asked").map(|path| path.ends_with("20260101T000000Z-a")),
        Some(true)
    );
    store.delete("20260101T000000Z-a").expect("removed");
    assert!(!dir.exists() && kept.join("run.json").exists());
    assert_eq!(store.get("20260101T000000Z-a").expect("asked"), None);
    let left = fs::read_dir(root.path()).expect("there").flatten().map(|entry| entry.file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with(".removed")));
}

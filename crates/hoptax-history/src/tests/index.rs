//! Tests of the index with several processes, with unusable files, and without a file.

use super::*;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Barrier;

const FILE: &str = ".hoptax-history.sqlite";

#[test]
fn an_unusable_index_is_replaced() {
    let root = Root::new();
    root.put_steady("20260101T000000Z-a", 150);
    let whole = [("20260101T000000Z-a".to_owned(), State::Whole)];
    let index = root.path().join(FILE);
    for garbage in [
        &b"not a database, but longer than the header of a database, so that SQLite reads all of this text!!"
            [..],
        b"",
        b"x",
    ] {
        fs::write(&index, garbage).expect("written");
        assert_eq!(root.listed(), whole);
        assert_eq!(root.listed(), whole, "and it is kept");
        assert!(fs::metadata(&index).expect("there").len() > 4096, "on the disk");
    }
    let other = rusqlite::Connection::open(&index).expect("opened");
    for sql in [
        "PRAGMA user_version = 4711; CREATE TABLE more (a); DROP TABLE runs;",
        "DROP TABLE figures; DROP TABLE about",
        "UPDATE runs SET contenders = 'no JSON', state = 'odd'",
    ] {
        other.execute_batch(sql).expect("changed");
        assert_eq!(root.listed(), whole, "{sql}");
    }
    let stale = "UPDATE about SET hoptax = '0.0.1'; UPDATE runs SET name = 'stale'";
    other.execute_batch(stale).expect("changed");
    assert_eq!(one(&root.store(), "20260101T000000Z-a").name, "made-up", "another hoptax made it");
}

#[test]
fn an_index_damaged_while_in_use_is_replaced() {
    let root = Root::new();
    for day in 1..=9 {
        root.put_steady(&format!("2026010{day}T000000Z-a"), 150);
    }
    let mut store = root.analysed();
    let path = root.path().join(FILE);
    let mut second = root.store();
    let length = fs::metadata(&path).expect("there").len();
    fs::write(&path, vec![0xa5; length as usize]).expect("spoilt");
    assert_eq!((all(&store).len(), all(&second).len()), (9, 9));
    store.refresh().expect("refreshed");
    second.refresh().expect("refreshed");
    assert_eq!(analyse_all(&mut second), 9);
    assert!(all(&store).iter().all(|run| run.verdict.is_some()), "both have the same one");
    drop(store);
    assert_eq!(root.listed().len(), 9);
}

#[test]
fn a_truncated_or_overwritten_index_is_replaced() {
    let root = Root::new();
    for day in 1..=9 {
        root.put_steady(&format!("2026010{day}T000000Z-a"), 150);
    }
    drop(root.analysed());
    let good = fs::read(root.path().join(FILE)).expect("there");
    for page in 0..good.len() / 4096 {
        let mut bad = good.clone();
        bad[page * 4096..page * 4096 + 2000].fill(0xff);
        for (kind, bytes) in [("overwritten", &bad[..]), ("cut", &good[..page * 4096 + 7])] {
            fs::write(root.path().join(FILE), bytes).expect("spoilt");
            let store = root.store();
            let listing = store.list(&Query::default()).expect("listed");
            assert_eq!((listing.runs.len(), listing.all), (9, 9), "{kind} at page {page}");
            store.trend_choices().expect("asked");
            store.tags().expect("asked");
            let now = all(&store).into_iter().map(|run| run.id);
            assert!(now.eq(listing.runs.into_iter().map(|run| run.id)), "{kind} at page {page}");
        }
    }
}

#[test]
fn without_write_access_the_index_is_in_memory() {
    let root = Root::new();
    root.put_steady("20260101T000000Z-a", 150);
    // Create a directory with the name of the index file, so that not even root can write the file.
    fs::create_dir(root.path().join(FILE)).expect("made");
    let mut store = root.store();
    assert_eq!(told(&store).len(), 1);
    assert_eq!(analyse_all(&mut store), 1);
    store.rebuild().expect("rebuilt");
    assert_eq!(told(&store).len(), 1);
    fs::remove_dir(root.path().join(FILE)).expect("there");
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o555)).expect("ours");
    assert_eq!(root.listed().len(), 1);
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let _ = fs::remove_file(root.path().join(FILE));
    std::os::unix::fs::symlink("/dev/null", root.path().join(FILE)).expect("made");
    assert_eq!(root.listed().len(), 1);
    assert!(root.path().join(FILE).is_symlink(), "a link is neither followed nor removed");
}

#[test]
fn several_processes_get_the_same_result() {
    let root = Root::new();
    for number in 0..40 {
        root.put_steady(&format!("20260101T0000{number:02}Z-a"), 150);
    }
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                let store = root.analysed();
                // A run is visible completely or not at all.
                for run in all(&store) {
                    assert_eq!((run.contenders.len(), run.trials), (2, 9));
                }
                assert_eq!(all(&store).len(), 40);
            });
        }
    });
    let store = root.store();
    assert_eq!(store.list(&Query::default()).expect("listed").pending, 0);
    assert!(store.trend_choices().expect("asked").iter().all(|choice| choice.runs == 40));
}

#[test]
fn an_analysis_that_crashes_is_not_tried_forever() {
    let root = Root::new();
    root.put_steady("20260101T000000Z-a", 150);
    let store = root.store();
    let index = rusqlite::Connection::open(root.path().join(FILE)).expect("opened");
    for _ in 0..3 {
        let begun = crate::table::begin_analysis(&index, "20260101T000000Z-a").expect("begun");
        assert!(begun.is_some());
    }
    assert!(crate::table::begin_analysis(&index, "20260101T000000Z-a").expect("asked").is_none());
    let run = one(&store, "20260101T000000Z-a");
    assert!(run.problem.expect("told").contains("three times"));
    assert_eq!(store.list(&Query::default()).expect("listed").pending, 0);
}

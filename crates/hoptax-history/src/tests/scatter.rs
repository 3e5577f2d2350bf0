//! Tests of what earlier runs show about the scatter of separate runs.

use super::*;
use crate::learned_shares;
use hoptax_analysis::fixture::{closed_point, via};
use hoptax_record::Shares;

/// A change of a made-up run.
type Change = fn(&mut Run);

/// A run on this day of January 2026 whose figures scatter.
fn night(day: u64) -> Run {
    let mut run = Run::closed(32);
    for round in 0..10 {
        let jitter = u64::from(round % 2);
        run.direct(round, 5_000, 5_000 + jitter);
        run.push(via("nginx", round).all_at_us(10_000 + 100 * (day % 2) + jitter));
    }
    run.record.plan.name = "nightly".into();
    run.record.started_unix_ns = (1_767_225_600 + (day - 1) * 86_400) * 1_000_000_000;
    run
}

fn id(day: u64) -> String {
    format!("202601{day:02}T000000Z-nightly")
}

impl Root {
    /// Adds a run for each of these days, after a change.
    fn nights(&self, days: impl IntoIterator<Item = u64>, change: impl Fn(&mut Run)) -> &Self {
        for day in days {
            let mut run = night(day);
            change(&mut run);
            self.put(&id(day), &run);
        }
        self
    }

    /// The shares that the directory shows for `night(1)`, and the number of runs.
    fn learned(&self) -> Option<(Shares, u32)> {
        let record = night(1).record;
        learned_shares(self.path(), &record.plan, &record.environment).expect("read")
    }

    fn runs_learned(&self) -> Option<u32> {
        self.learned().map(|(_, runs)| runs)
    }
}

fn as_is(_: &mut Run) {}

#[test]
fn eight_runs_teach_and_seven_do_not() {
    let root = Root::new();
    root.nights(1..=7, as_is);
    assert_eq!(root.learned(), None);
    assert!(!root.path().join(".hoptax-history.sqlite").exists(), "nothing is read");
    root.nights([8], as_is);
    let (shares, runs) = root.learned().expect("eight");
    let origin = hoptax_record::Origin::History {
        plan: "nightly".into(),
        since: "2026-01-01".into(),
        date: "2026-01-08".into(),
        runs: 8,
    };
    assert_eq!((runs, &shares.origin), (8, &origin));
    assert!((0.02..0.06).contains(&shares.times), "{shares:?}");
    assert_eq!(root.learned(), Some((shares, runs)), "from the index");
}

#[test]
fn runs_of_another_plan_or_machine_do_not_teach() {
    let others: [(&str, Change); 8] = [
        ("name", |run| run.record.plan.name = "other".into()),
        ("load", |run| run.record.plan.load = vec![closed_point(33, 1)]),
        ("target", |run| run.record.plan.targets[0].path = "/other".into()),
        ("kernel", |run| run.record.environment.kernel = "Linux 6.2.0".into()),
        ("CPU", |run| run.record.environment.cpu = "Other CPU".into()),
        ("CPUs", |run| run.record.environment.cpus = 4),
        ("hypervisor", |run| run.record.environment.hypervisor = Some("KVM".into())),
        ("hosts", |run| run.record.hosts = [("edge".into(), hoptax_record::RunHost::default())].into()),
    ];
    let root = Root::new();
    root.nights(1..=7, as_is);
    for ((what, change), day) in others.into_iter().zip((8..).step_by(2)) {
        root.nights([day, day + 1], change);
        assert_eq!(root.learned(), None, "{what}");
    }
    root.nights([31], as_is);
    assert_eq!(root.runs_learned(), Some(8));
}

#[test]
fn settings_that_change_no_figure_may_differ() {
    let root = Root::new();
    root.nights(1..=7, as_is).nights([8], |run| {
        run.record.plan.seed = Some(8);
        run.record.plan.trials = hoptax_plan::Trials::Fixed(9);
        run.record.environment.host = "bench-2".into();
    });
    assert_eq!(root.runs_learned(), Some(8));
}

#[test]
fn only_runs_with_the_same_versions_are_compared() {
    let root = Root::new();
    let newer = |run: &mut Run| run.record.contenders[1].version = Some("1.26.0".into());
    root.nights(1..=8, as_is).nights(9..=12, newer);
    assert_eq!(root.runs_learned(), Some(8));
    root.nights(13..=15, newer);
    assert_eq!(root.runs_learned(), Some(8), "seven newer ones are too few");
    root.nights(16..=17, newer);
    assert_eq!(root.runs_learned(), Some(9));
}

#[test]
fn void_interrupted_and_unfinished_runs_do_not_teach() {
    let unbelievable: [(&str, Change); 4] = [
        ("void", |run| run.trials.iter_mut().for_each(|trial| trial.host.foreign = 0.9)),
        ("interrupted", |run| run.record.ended.as_mut().expect("it ended").interrupted = true),
        ("killed", |run| run.record.ended = None),
        ("one round", |run| run.trials.retain(|trial| trial.round == 0)),
    ];
    let root = Root::new();
    root.nights(1..=7, as_is);
    for (what, change) in unbelievable {
        root.nights([8], change);
        assert_eq!(root.learned(), None, "{what}");
        root.nights([8], as_is);
        assert_eq!(root.runs_learned(), Some(8), "{what}: the index follows");
    }
}

#[test]
fn each_run_is_analysed_once_and_a_start_analyses_twelve() {
    let root = Root::new();
    root.nights(1..=31, as_is);
    assert_eq!(
        [root.runs_learned(), root.runs_learned(), root.runs_learned()],
        [Some(12), Some(24), Some(31)]
    );
    let index = rusqlite::Connection::open(root.path().join(".hoptax-history.sqlite")).expect("opened");
    let samples = || {
        let count = index.query_row("SELECT count(*) FROM scatter", [], |row| row.get::<_, u32>(0));
        count.expect("counted")
    };
    assert_eq!(samples(), 31);
    // Only a run that changed is analysed again, so that these samples remain without effect.
    index.execute_batch("UPDATE scatter SET sample = 'null' WHERE run % 2 = 0").expect("changed");
    assert!(root.runs_learned().is_some_and(|runs| runs < 20));
    fs::remove_dir_all(root.path().join(id(1))).expect("there");
    assert_eq!((all(&root.store()).len(), samples()), (30, 30), "a deleted run is forgotten");
}

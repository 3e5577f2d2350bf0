use super::*;
use hoptax_record::LedgerDelta;
use std::collections::BTreeMap;
use std::time::Duration;

fn pack(more: &str) -> Pack {
    let text = format!(
        "name: mine\nsummary: a test\nbinary: mine\nversion: {{ command: [\"{{{{ binary }}}}\", -v], pattern: 'v(.+)' }}\n\
         start: [\"{{{{ binary }}}}\"]\nready: {{ path: / }}\nstop: {{ grace: 2s }}\n{more}"
    );
    hoptax_lab::packs::parse("packs/mine", text, BTreeMap::new()).expect("a pack")
}

/// A gateway that does everything right.
fn look(workers: u32, access_log: bool) -> Look {
    let listening = ["127.0.0.1:4000", "127.0.0.1:4001"].map(|text| text.parse().expect("an address"));
    Look {
        setup: Setup { workers, access_log },
        otherwise: None,
        connections: 32,
        opened: 32,
        sent: 10_000,
        completed: 9_990,
        ledger: LedgerDelta {
            requests: 10_000,
            connections: 40,
            http_version: [("1.1".to_owned(), 10_000)].into(),
            ..LedgerDelta::default()
        },
        log_bytes: if access_log { 800_000 } else { 300 },
        grown: vec!["logs/mine/access.log".into()],
        listening: listening.into(),
        stopped_in: Duration::from_millis(100),
        left: 0,
    }
}

fn all() -> Vec<Look> {
    vec![look(1, false), look(2, false), look(1, true)]
}

/// One whose workers are kept busy, on a machine of two CPUs.
fn strain(workers: u32) -> Strain {
    Strain {
        workers,
        compressed: true,
        used: 0.93 * f64::from(workers),
        wanted: Some(f64::from(workers)),
        idle: 0.9 / f64::from(workers),
        stolen: 0.0,
        cpus: 2,
        machine: 2,
        busy_threads: workers,
        processes: 1 + workers,
        threads: 1 + workers,
    }
}

fn strains() -> Vec<Strain> {
    vec![strain(1), strain(2)]
}

/// The checks that found something.
fn found(looks: &[Look]) -> Vec<(&'static str, Verdict)> {
    found_with(looks, &strains())
}

fn found_with(looks: &[Look], strains: &[Strain]) -> Vec<(&'static str, Verdict)> {
    let items = rules::judge(&pack("access_log: file\n"), looks, strains, None);
    items.iter().filter(|item| item.verdict != Verdict::Ok).map(|item| (item.check, item.verdict)).collect()
}

/// A thing done to every look.
fn with(change: impl Fn(&mut Look)) -> Vec<Look> {
    let mut looks = all();
    looks.iter_mut().for_each(change);
    looks
}

#[test]
fn a_gateway_that_does_everything_right_is_ok() {
    assert_eq!(found(&all()), []);
    let items = rules::judge(&pack("access_log: file\n"), &all(), &strains(), None);
    assert!(items.iter().all(|item| !item.evidence.is_empty() && item.advice.is_empty()), "{items:#?}");
}

#[test]
fn each_fault_is_found_by_its_own_check_alone() {
    use Verdict::{NotEqualised, Wrong};
    type Change = fn(&mut Look);
    let table: [(Change, &str, Verdict); 11] = [
        (|look| look.ledger.connections = 10_000, "upstream connections", NotEqualised),
        (
            |look| look.ledger.http_version = [("1.0".to_owned(), 10_000)].into(),
            "upstream HTTP version",
            NotEqualised,
        ),
        (|look| look.ledger.requests = 20_000, "extra requests", NotEqualised),
        (|look| look.ledger.requests = 32, "extra requests", NotEqualised),
        (|look| look.opened = 5_000, "client connections", NotEqualised),
        (|look| look.log_bytes = 1_600_000, "access log off", NotEqualised),
        (|look| look.log_bytes = 300, "access log on", NotEqualised),
        (
            |look| {
                look.listening.insert("0.0.0.0:80".parse().expect("an address"));
            },
            "listens on loopback",
            Wrong,
        ),
        (|look| look.stopped_in = Duration::from_secs(2), "stops", Wrong),
        (|look| look.left = 1, "stops", Wrong),
        (
            |look| {
                look.otherwise = Some(Failure {
                    stage: Stage::Verify,
                    message: "it answers otherwise than direct: status 404".into(),
                    detail: String::new(),
                });
            },
            "answers",
            Wrong,
        ),
    ];
    for (change, check, verdict) in table {
        assert_eq!(found(&with(change)), [(check, verdict)]);
    }
}

/// What comes of the check `workers`, for one and for two of them.
fn workers(one: Strain, two: Strain) -> Vec<Verdict> {
    found_with(&all(), &[one, two])
        .into_iter()
        .map(|(check, verdict)| {
            assert_eq!(check, "workers");
            verdict
        })
        .collect()
}

#[test]
fn more_cpus_at_once_than_workers_are_found_whatever_the_threads() {
    let one = Strain { used: 1.6, wanted: Some(1.9), idle: 0.1, busy_threads: 1, ..strain(1) };
    assert_eq!(workers(one, strain(2)), [Verdict::NotEqualised]);
    let pool = Strain { busy_threads: 32, threads: 200, ..strain(1) };
    assert_eq!(workers(pool, strain(2)), [], "threads that take turns on one CPU");
    let held = Strain { used: 0.7, wanted: Some(9.0), idle: 0.0, cpus: 1, ..strain(1) };
    assert_eq!(workers(held, strain(2)), [], "it may run on one CPU alone");
}

#[test]
fn a_second_worker_that_is_not_there_is_found() {
    let same = Strain { workers: 2, ..strain(1) };
    assert_eq!(workers(strain(1), same.clone()), [Verdict::NotEqualised]);
    let idle = Strain { processes: 3, ..same };
    assert_eq!(workers(strain(1), idle), [], "chance gave all connections to one of them");
}

#[test]
fn where_others_took_the_cpus_what_it_wanted_tells_or_nothing_is_said() {
    let crowded = Strain { used: 0.5, wanted: Some(1.8), idle: 0.0, ..strain(1) };
    assert_eq!(workers(crowded.clone(), strain(2)), [Verdict::NotEqualised], "it computes with two");
    let calls = Strain { compressed: false, ..crowded };
    assert_eq!(workers(calls, strain(2)), [Verdict::NotLookedAt], "it may have waited in the kernel");
    let between = Strain { used: 0.5, wanted: Some(1.3), idle: 0.0, ..strain(1) };
    assert_eq!(workers(between, strain(2)), [Verdict::NotLookedAt]);
    let waiting = Strain { used: 0.3, wanted: Some(0.4), idle: 1.2, ..strain(1) };
    assert_eq!(workers(waiting, strain(2)), [Verdict::NotLookedAt], "something else was waited for");
    let modest = Strain { used: 0.5, wanted: Some(0.97), idle: 0.0, ..strain(1) };
    assert_eq!(workers(modest, strain(2)), [], "no second thread ever waited for a CPU");
    let starved = Strain { used: 0.17, wanted: Some(0.83), idle: 0.0, ..strain(1) };
    assert_eq!(workers(starved.clone(), strain(2)), [], "there is one thread that could");
    let starved = Strain { busy_threads: 2, ..starved };
    assert_eq!(workers(starved, strain(2)), [Verdict::NotLookedAt], "two that hardly ran say nothing");
    let halved = Strain { used: 1.0, wanted: Some(1.2), idle: 0.0, busy_threads: 2, ..strain(1) };
    assert_eq!(workers(halved.clone(), strain(2)), []);
    let halved = Strain { stolen: 0.8, ..halved };
    assert_eq!(workers(halved, strain(2)), [Verdict::NotLookedAt], "it may have wanted what was stolen, too");
    let shared = Strain { compressed: false, busy_threads: 2, wanted: Some(1.03), ..strain(1) };
    assert_eq!(workers(shared, strain(2)), [Verdict::NotLookedAt], "each had half of what there was to do");
    let unknown = Strain { wanted: None, idle: 0.0, ..strain(1) };
    assert_eq!(workers(unknown, strain(2)), [Verdict::NotLookedAt]);
}

#[test]
fn what_a_pack_cannot_is_not_looked_at_and_no_fault() {
    let pack = pack("unsupported: { access_log: it has none, workers: one alone }\n");
    assert_eq!(setups(&pack), [Setup { workers: 1, access_log: false }]);
    let items = rules::judge(&pack, &[look(1, false)], &[strain(1)], None);
    let skipped: Vec<_> = items.iter().filter(|item| item.verdict == Verdict::NotLookedAt).collect();
    assert_eq!(skipped.len(), 1, "{items:#?}");
    assert_eq!(
        (skipped[0].check, skipped[0].evidence.as_str()),
        ("access log on", "access_log: it has none")
    );
}

#[test]
fn a_gateway_that_does_not_start_is_told_with_its_reason() {
    let setup = Setup { workers: 1, access_log: false };
    let message = "mine exited with code 0 before it was ready".to_owned();
    let failure = Failure { stage: Stage::Start, message, detail: String::new() };
    let items = rules::judge(&pack("access_log: file\n"), &[], &[], Some(&(setup, failure)));
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].verdict, Verdict::Wrong);
    assert_eq!(
        items[0].evidence,
        "1 worker, access log off: mine exited with code 0 before it was ready (`start` is at packs/mine/gateway.yaml:5)"
    );
}

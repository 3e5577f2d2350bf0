use super::*;
use crate::record::LedgerDelta;
use std::collections::BTreeMap;
use std::time::Duration;

fn pack(more: &str) -> Pack {
    let text = format!(
        "name: mine\nsummary: a test\nbinary: mine\nversion: {{ command: [\"{{{{ binary }}}}\", -v], pattern: 'v(.+)' }}\n\
         start: [\"{{{{ binary }}}}\"]\nready: {{ path: / }}\nstop: {{ grace: 2s }}\n{more}"
    );
    Pack::parse("packs/mine", text, BTreeMap::new()).expect("a pack")
}

/// A gateway that does everything right.
fn look(workers: u32, access_log: bool) -> Look {
    let listening = ["127.0.0.1:4000", "127.0.0.1:4001"].map(|text| text.parse().expect("an address"));
    Look {
        setup: Setup { workers, access_log },
        otherwise: None,
        processes: 1 + workers,
        threads: 1 + workers,
        busy_threads: Some(workers),
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
        sent_in_all: 20_000,
        log_bytes: if access_log { 1_600_000 } else { 300 },
        grown: vec!["logs/mine/access.log".into()],
        listening: listening.into(),
        stopped_in: Duration::from_millis(100),
        left: 0,
    }
}

fn all() -> Vec<Look> {
    vec![look(1, false), look(2, false), look(1, true)]
}

/// The checks that found something.
fn found(looks: &[Look]) -> Vec<(&'static str, Verdict)> {
    let items = rules::judge(&pack("access_log: file\n"), looks, None);
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
    let items = rules::judge(&pack("access_log: file\n"), &all(), None);
    assert!(items.iter().all(|item| !item.evidence.is_empty() && item.advice.is_empty()), "{items:#?}");
}

#[test]
fn each_fault_is_found_by_its_own_check_alone() {
    use Verdict::{NotEqualised, Wrong};
    type Change = fn(&mut Look);
    let table: [(Change, &str, Verdict); 13] = [
        (|look| look.busy_threads = Some(2), "workers", NotEqualised),
        (|look| (look.busy_threads, look.processes, look.threads) = (Some(1), 2, 2), "workers", NotEqualised),
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

#[test]
fn where_chance_gave_all_to_one_worker_the_second_one_counts_by_being_there() {
    let mut looks = all();
    looks[1].busy_threads = Some(1);
    assert_eq!(found(&looks), []);
}

#[test]
fn what_a_pack_cannot_is_not_looked_at_and_no_fault() {
    let pack = pack("unsupported: { access_log: it has none, workers: one alone }\n");
    assert_eq!(setups(&pack), [Setup { workers: 1, access_log: false }]);
    let items = rules::judge(&pack, &[look(1, false)], None);
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
    let items = rules::judge(&pack("access_log: file\n"), &[], Some(&(setup, failure)));
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].verdict, Verdict::Wrong);
    assert_eq!(
        items[0].evidence,
        "1 worker, access log off: mine exited with code 0 before it was ready (`start` is at packs/mine/gateway.yaml:5)"
    );
}

use super::*;
use hoptax_record::LedgerDelta;
use std::collections::BTreeMap;
use std::time::Duration;

fn pack(more: &str) -> Pack {
    let text = format!(
        "name: mine\nsummary: a test\nbinary: mine\nversion: {{ command: [\"{{{{ binary }}}}\", -v], \
         pattern: 'v(.+)' }}\n\
         start: [\"{{{{ binary }}}}\"]\nready: {{ path: / }}\nstop: {{ grace: 2s }}\n{more}"
    );
    hoptax_lab::packs::parse("packs/mine", text, BTreeMap::new()).expect("a pack")
}

fn observation(workers: u32, access_log: bool) -> Observation {
    let listening = ["127.0.0.1:4000", "127.0.0.1:4001"].map(|text| text.parse().expect("an address"));
    Observation {
        setup: Setup { workers, access_log },
        upstream_http: HttpVersion::Http11,
        differs: None,
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

fn all() -> Vec<Observation> {
    vec![observation(1, false), observation(2, false), observation(1, true)]
}

/// CPU use of a gateway with busy workers, on a machine with two CPUs.
fn cpu_use(workers: u32) -> CpuUse {
    CpuUse {
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

fn cpu_uses() -> Vec<CpuUse> {
    vec![cpu_use(1), cpu_use(2)]
}

fn found(observations: &[Observation]) -> Vec<(&'static str, Verdict)> {
    found_with(observations, &cpu_uses())
}

fn found_with(observations: &[Observation], cpu_uses: &[CpuUse]) -> Vec<(&'static str, Verdict)> {
    let items = rules::judge(&pack("access_log: file\n"), observations, cpu_uses, None);
    items.iter().filter(|item| item.verdict != Verdict::Ok).map(|item| (item.check, item.verdict)).collect()
}

fn with(change: impl Fn(&mut Observation)) -> Vec<Observation> {
    let mut observations = all();
    observations.iter_mut().for_each(change);
    observations
}

#[test]
fn a_gateway_that_does_everything_right_is_ok() {
    assert_eq!(found(&all()), []);
    let items = rules::judge(&pack("access_log: file\n"), &all(), &cpu_uses(), None);
    assert!(items.iter().all(|item| !item.evidence.is_empty() && item.advice.is_empty()), "{items:#?}");
}

#[test]
fn each_fault_is_found_by_exactly_one_check() {
    use Verdict::{NotEqualised, Wrong};
    type Change = fn(&mut Observation);
    let table: [(Change, &str, Verdict); 11] = [
        (|observation| observation.ledger.connections = 10_000, "upstream connections", NotEqualised),
        (
            |observation| observation.ledger.http_version = [("1.0".to_owned(), 10_000)].into(),
            "upstream HTTP version",
            NotEqualised,
        ),
        (|observation| observation.ledger.requests = 20_000, "extra requests", NotEqualised),
        (|observation| observation.ledger.requests = 32, "extra requests", NotEqualised),
        (|observation| observation.opened = 5_000, "client connections", NotEqualised),
        (|observation| observation.log_bytes = 1_600_000, "access log off", NotEqualised),
        (|observation| observation.log_bytes = 300, "access log on", NotEqualised),
        (
            |observation| {
                observation.listening.insert("0.0.0.0:80".parse().expect("an address"));
            },
            "listens on loopback",
            Wrong,
        ),
        (|observation| observation.stopped_in = Duration::from_secs(2), "stops", Wrong),
        (|observation| observation.left = 1, "stops", Wrong),
        (
            |observation| {
                observation.differs = Some(Failure {
                    stage: Stage::Verify,
                    message: "its answer differs from direct: status 404".into(),
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
fn the_upstream_must_be_asked_over_http2_if_that_is_required() {
    let over = |versions: &[&str]| {
        let versions: BTreeMap<_, _> = versions.iter().map(|one| ((*one).to_owned(), 5_000)).collect();
        let observations = with(|observation| {
            observation.upstream_http = HttpVersion::Http2;
            observation.ledger.http_version = versions.clone();
        });
        found(&observations)
    };
    assert_eq!(over(&["2"]), []);
    for spoken in [&["1.1"][..], &["1.1", "2"]] {
        assert_eq!(over(spoken), [("upstream HTTP version", Verdict::NotEqualised)], "{spoken:?}");
    }
}

/// Verdicts of the check `workers` that are not ok. `one` is the CPU use with one worker, and `two` with two
/// workers.
fn workers(one: CpuUse, two: CpuUse) -> Vec<Verdict> {
    found_with(&all(), &[one, two])
        .into_iter()
        .map(|(check, verdict)| {
            assert_eq!(check, "workers");
            verdict
        })
        .collect()
}

#[test]
fn using_more_cpus_than_workers_is_found_regardless_of_threads() {
    let one = CpuUse { used: 1.6, wanted: Some(1.9), idle: 0.1, busy_threads: 1, ..cpu_use(1) };
    assert_eq!(workers(one, cpu_use(2)), [Verdict::NotEqualised]);
    let pool = CpuUse { busy_threads: 32, threads: 200, ..cpu_use(1) };
    assert_eq!(workers(pool, cpu_use(2)), [], "threads that take turns on one CPU");
    let held = CpuUse { used: 0.7, wanted: Some(9.0), idle: 0.0, cpus: 1, ..cpu_use(1) };
    assert_eq!(workers(held, cpu_use(2)), [], "it is allowed on one CPU only");
}

#[test]
fn a_missing_second_worker_is_found() {
    let same = CpuUse { workers: 2, ..cpu_use(1) };
    assert_eq!(workers(cpu_use(1), same.clone()), [Verdict::NotEqualised]);
    let idle = CpuUse { processes: 3, ..same };
    assert_eq!(workers(cpu_use(1), idle), [], "chance gave all connections to one of them");
}

#[test]
fn on_a_crowded_machine_the_cpus_wanted_decide_or_the_check_is_inconclusive() {
    let crowded = CpuUse { used: 0.5, wanted: Some(1.8), idle: 0.0, ..cpu_use(1) };
    assert_eq!(
        workers(crowded.clone(), cpu_use(2)),
        [Verdict::NotEqualised],
        "it wanted two CPUs while compressing"
    );
    let calls = CpuUse { compressed: false, ..crowded };
    assert_eq!(
        workers(calls, cpu_use(2)),
        [Verdict::NotLookedAt],
        "without compression it may have waited in system calls"
    );
    let between = CpuUse { used: 0.5, wanted: Some(1.3), idle: 0.0, ..cpu_use(1) };
    assert_eq!(workers(between, cpu_use(2)), [Verdict::NotLookedAt]);
    let waiting = CpuUse { used: 0.3, wanted: Some(0.4), idle: 1.2, ..cpu_use(1) };
    assert_eq!(workers(waiting, cpu_use(2)), [Verdict::NotLookedAt], "the gateway was not the bottleneck");
    let modest = CpuUse { used: 0.5, wanted: Some(0.97), idle: 0.0, ..cpu_use(1) };
    assert_eq!(workers(modest, cpu_use(2)), [], "no second thread ever waited for a CPU");
    let starved = CpuUse { used: 0.17, wanted: Some(0.83), idle: 0.0, ..cpu_use(1) };
    assert_eq!(workers(starved.clone(), cpu_use(2)), [], "only one thread was busy");
    let starved = CpuUse { busy_threads: 2, ..starved };
    assert_eq!(
        workers(starved, cpu_use(2)),
        [Verdict::NotLookedAt],
        "two threads that hardly ran are inconclusive"
    );
    let halved = CpuUse { used: 1.0, wanted: Some(1.2), idle: 0.0, busy_threads: 2, ..cpu_use(1) };
    assert_eq!(workers(halved.clone(), cpu_use(2)), []);
    let halved = CpuUse { stolen: 0.8, ..halved };
    assert_eq!(
        workers(halved, cpu_use(2)),
        [Verdict::NotLookedAt],
        "it may have wanted the stolen CPU time too"
    );
    let shared = CpuUse { compressed: false, busy_threads: 2, wanted: Some(1.03), ..cpu_use(1) };
    assert_eq!(workers(shared, cpu_use(2)), [Verdict::NotLookedAt], "the threads may have shared the work");
    let unknown = CpuUse { wanted: None, idle: 0.0, ..cpu_use(1) };
    assert_eq!(workers(unknown, cpu_use(2)), [Verdict::NotLookedAt]);
}

#[test]
fn what_a_pack_does_not_support_is_skipped_and_not_a_fault() {
    let pack = pack("unsupported: { access_log: it has none, workers: one alone }\n");
    assert_eq!(setups(&pack), [Setup { workers: 1, access_log: false }]);
    let items = rules::judge(&pack, &[observation(1, false)], &[cpu_use(1)], None);
    let skipped: Vec<_> = items.iter().filter(|item| item.verdict == Verdict::NotLookedAt).collect();
    let [item] = skipped[..] else { panic!("{items:#?}") };
    assert!(item.check == "access log on" && item.evidence.ends_with("it has none"), "{item:?}");
}

#[test]
fn a_gateway_that_does_not_start_is_reported_with_its_reason() {
    let setup = Setup { workers: 1, access_log: false };
    let message = "mine exited with code 0 before it was ready".to_owned();
    let failure = Failure { stage: Stage::Start, message, detail: String::new() };
    let items = rules::judge(&pack("access_log: file\n"), &[], &[], Some(&(setup, failure)));
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].verdict, Verdict::Wrong);
    insta::assert_snapshot!(items[0].evidence);
}

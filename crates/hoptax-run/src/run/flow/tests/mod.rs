//! Tests of the flow of a run when something is missing, wrong, killed or interrupted. All services and
//! traffic are fakes.

use super::*;
use crate::run::Contents;
use crate::run::traffic::{FirstLoaded, Loaded, Recorded, StackRecording, Usage};
use hoptax_format::llm::{Api, Leave};
use hoptax_format::record as load;
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::LoadSpec;
use hoptax_host::profile::{Folded, Span};
use hoptax_lab::fake::{self, FAKE_BEGAN_NS, FakeDriver, Script};
use hoptax_lab::first_requests::{FirstAnswers, FirstRequests};
use hoptax_lab::{Observed, Profiling};
use hoptax_plan::{Body, LlmRequest, Plan, UntilSettled, Upstream, UpstreamLlm};
use hoptax_record::dir::Run as ReadRun;
use hoptax_record::profile::PassKind;
use hoptax_record::start::StartRecord;
use hoptax_record::{Environment, IgnoredHeader, Link, LlmCounts, RoleUsage};
use hoptax_servers::ledger::InstanceCounts;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

const UPSTREAM: u16 = 1;
const HOP_L4: u16 = 4;
const HOP_L7: u16 = 7;

/// Fake traffic: logs each call and returns at once.
#[derive(Default)]
struct FakeTraffic {
    log: Rc<RefCell<Vec<String>>>,
    loads: usize,
    /// The host that each load came from.
    origins: Vec<Option<String>>,
    /// Port of a gateway that fails verification.
    answers_wrong: Option<u16>,
    /// True if direct gives no right answer, so that every verification fails.
    direct_is_wrong: bool,
    /// Headers that verification of each gateway leaves out.
    ignored_headers: Vec<IgnoredHeader>,
    interrupt_at_load: Option<usize>,
    nothing_completes: bool,
    nothing_is_due: bool,
    /// Port of a gateway that never answers its first requests rightly.
    never_ready: Option<u16>,
    /// Length of the windows of each load.
    windows_ns: Vec<Option<u64>>,
    /// Kills a gateway: its port, the number of connections that kill it, and how to kill it.
    kills: Option<(u16, u32, Rc<Cell<bool>>)>,
    /// Port of a gateway that becomes faster after this many loads.
    fast_after: Option<(u16, usize)>,
    /// Port of a gateway that generates code while it runs.
    generates_code: Option<u16>,
}

/// A recording of three samples.
struct FakeRecording;

impl StackRecording for FakeRecording {
    fn finish(self: Box<Self>, spans: &[Span]) -> Result<Recorded, Failure> {
        let stacks = Folded { samples: 3, slices: vec![Vec::new(); spans.len()], ..Folded::default() };
        Ok(Recorded { stacks, profiler: "fake".into(), sees_kernel: true })
    }
}

fn port(address: &Address) -> u16 {
    match address {
        Address::Tcp(address) => address.port(),
        Address::Unix(path) => panic!("no service of these tests listens on {}", path.display()),
    }
}

impl Traffic for FakeTraffic {
    fn link(&mut self, message_bytes: u64) -> Option<Link> {
        self.log.borrow_mut().push(format!("link {message_bytes}"));
        Some(Link { message_bytes, bytes_per_second: 1e9 })
    }

    fn verify(
        &mut self,
        _: &Requests,
        _: Duration,
        _: &[Address],
        gateway: &Address,
        _: &Change,
    ) -> Result<Verified, Failure> {
        self.log.borrow_mut().push(format!("verify {}", port(gateway)));
        match self.answers_wrong {
            wrong if self.direct_is_wrong || wrong == Some(port(gateway)) => Err(Failure {
                stage: Stage::Verify,
                message: "its answer differs".into(),
                detail: "200 against 404".into(),
            }),
            _ => Ok(Verified { ignored_headers: self.ignored_headers.clone(), ..Verified::default() }),
        }
    }

    fn first_requests(
        &mut self,
        asked: &FirstRequests,
        _: Option<Watched>,
        _: Option<&mut dyn Service>,
        _: &AtomicBool,
    ) -> FirstLoaded {
        let port = port(asked.address());
        self.log.borrow_mut().push(format!("first {port} × {}", asked.count));
        let began_ns = FAKE_BEGAN_NS + 500;
        let listening_ns = Some(FAKE_BEGAN_NS + 1_000);
        let mut answers =
            FirstAnswers { began_ns, listening_ns, wrong_answers: 2, ..FirstAnswers::default() };
        if self.never_ready == Some(port) {
            answers.failed = Some("it gave no right answer".into());
        } else {
            answers.ready_ns = Some(FAKE_BEGAN_NS + 3_000);
            answers.response_times_ns = (1..=asked.count as u64).collect();
        }
        FirstLoaded { answers, ..FirstLoaded::default() }
    }

    fn record_stacks(
        &mut self,
        gateway: Watched,
        kind: PassKind,
        _: &Profiling,
    ) -> Result<Box<dyn StackRecording>, Failure> {
        self.log.borrow_mut().push(format!("record {kind:?} of {}", gateway.pid));
        Ok(Box::new(FakeRecording))
    }

    fn load(
        &mut self,
        from: Option<&str>,
        spec: &LoadSpec,
        _: &WatchedRoles,
        interrupted: &AtomicBool,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded {
        self.origins.push(from.map(str::to_owned));
        self.log.borrow_mut().push(format!("load {}", port(&spec.addresses[0])));
        report(TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, at_ns: clock::now() }));
        self.windows_ns.push(spec.window_ns);
        self.loads += 1;
        if self.interrupt_at_load == Some(self.loads) {
            interrupted.store(true, Ordering::Relaxed);
        }
        if let Some((victim, connections, killed)) = &self.kills
            && (*victim, *connections) == (port(&spec.addresses[0]), spec.connections)
        {
            killed.set(true);
        }
        let mut record = record(if self.nothing_completes { 0 } else { 100 });
        if self.nothing_is_due {
            record.counts = load::Counts::default();
        }
        let mut usage = Usage::default();
        if let Some((port_of_cold, after)) = self.fast_after {
            let load = format!("load {port_of_cold}");
            let loads = self.log.borrow().iter().filter(|line| **line == load).count();
            let is_slow = port_of_cold == port(&spec.addresses[0]) && loads <= after;
            // Some scatter, so that intervals have a width.
            let us = if is_slow { 128 } else { 28 } * 1000 + loads as u64 % 3 * 100;
            usage.gateway = Some(RoleUsage { cpu_ns: us * record.counts.completed, ..RoleUsage::default() });
        }
        if self.generates_code == Some(port(&spec.addresses[0])) {
            usage.gateway.get_or_insert_default().generates_code = true;
        }
        Loaded { record: Some(record), usage, ..Loaded::default() }
    }
}

/// A load of one second, without windows and response times.
fn record(completed: u64) -> LoadRecord {
    let made = hoptax_analysis::fixture::via(DIRECT, 0).0.load_record.expect("measured");
    let timeouts = 100 - completed;
    LoadRecord {
        started_unix_ns: 0,
        started_ns: 0,
        counts: load::Counts { scheduled: 100, completed, ok: completed, timeouts, ..Default::default() },
        completed_in_time: completed,
        lifetime: load::Lifetime { sent: 100, completed, opened: 1 },
        connections: load::Connections::default(),
        bytes: load::Bytes::default(),
        histograms: load::Histograms::default(),
        cpu: load::GeneratorCpu::default(),
        windows: Vec::new(),
        ..made
    }
}

fn clock_id(boot_id: &str) -> hoptax_format::stamp::ClockId {
    hoptax_format::stamp::ClockId { boot_id: boot_id.into(), offset_ns: 0 }
}

struct Scene {
    driver: FakeDriver,
    traffic: FakeTraffic,
    plan: Plan,
    out: tempfile::TempDir,
}

impl Scene {
    /// Two hops, one load point, two rounds. Nothing fails.
    fn new() -> Self {
        let hop = |label: &str, kind| Gateway { label: label.into(), kind: GatewayKind::Hop(kind) };
        let mut plan = fake::plan(vec![hop("hop-l4", HopKind::L4), hop("hop-l7", HopKind::L7)], 1);
        plan.trials = hoptax_plan::Trials::Fixed(2);
        let script = |port, version: &str| Script {
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], port))],
            facts: Facts { version: Some(version.into()), ..Facts::default() },
            ..Script::default()
        };
        let mut driver =
            FakeDriver::new([("hop-l4", script(HOP_L4, "4.0")), ("hop-l7", script(HOP_L7, "7.0"))]);
        // The ledger is read before and after each of the eight trials. It grows by 100 requests between two
        // readings.
        let ledger = |reading: u64| Ledger {
            instances: vec![InstanceCounts {
                requests: reading.div_ceil(2) * 100,
                ..InstanceCounts::default()
            }],
            clock: Some(clock_id("the upstream's")),
            requests_only: false,
        };
        driver.upstream = Script {
            ledgers: (0..16).map(|reading| Ok(ledger(reading))).collect(),
            ..script(UPSTREAM, "1.0")
        };
        let traffic = FakeTraffic { log: driver.log(), ..FakeTraffic::default() };
        Self { driver, traffic, plan, out: tempfile::tempdir().expect("a directory") }
    }

    fn script(&mut self, label: &str) -> &mut Script {
        self.driver.gateways.get_mut(label).expect("one of the two")
    }

    fn run<'a>(plan: &'a Plan, interrupted: &'a AtomicBool) -> Run<'a> {
        Run {
            plan,
            plan_text: String::new(),
            command: Vec::new(),
            contents: Contents::default(),
            seed: 7,
            cpus: hoptax_plan::CpuSets::default(),
            environment: Environment::default(),
            hosts: BTreeMap::new(),
            look: &|_| None,
            shares: hoptax_record::Shares::BUILT_IN,
            look_at_others: &|_| BTreeMap::new(),
            interrupted,
        }
    }

    fn play(&mut self) -> (Outcome, ReadRun, Vec<String>) {
        let interrupted = AtomicBool::new(false);
        let run = Self::run(&self.plan, &interrupted);
        let mut dir = RunDir::create(self.out.path(), "scene").expect("a run directory");
        let outcome =
            run.run(&mut dir, &mut self.driver, &mut self.traffic, &mut Silent).expect("the disk works");
        let read = ReadRun::read(dir.path()).expect("readable");
        // Leave out checks and readings of the ledger.
        let log = self.driver.log();
        let is_relevant = |line: &&String| !line.starts_with("check") && !line.starts_with("ledger");
        let lines = log.borrow().iter().filter(is_relevant).cloned().collect();
        (outcome, read, lines)
    }
}

mod deaths;
mod profiles;
mod restarts;
mod second_looks;
mod starts;
mod vantages;

struct Silent;
impl Progress for Silent {}

/// What happens in a scene with this change.
fn played(change: impl FnOnce(&mut Scene)) -> (Outcome, ReadRun, Vec<String>) {
    let mut scene = Scene::new();
    change(&mut scene);
    scene.play()
}

fn labels(run: &ReadRun) -> Vec<&str> {
    run.trials.iter().map(|trial| trial.contender.as_str()).collect()
}

#[test]
fn starts_verifies_measures_and_stops_in_this_order() {
    let (outcome, run, journal) = Scene::new().play();
    assert_eq!(journal[..5], ["start upstream", "start hop-l4", "verify 4", "start hop-l7", "verify 7"]);
    assert_eq!(journal[5..13].iter().filter(|line| line.starts_with("load")).count(), 8);
    assert_eq!(journal[13..], ["stop hop-l4", "stop hop-l7", "stop upstream"]);
    assert_eq!(outcome.measured, 8);
    let (first, second) = (&labels(&run)[..4], &labels(&run)[4..]);
    for round in [first, second] {
        assert_eq!((round[0], round[3]), (DIRECT, DIRECT));
    }
    let ended = run.record.ended.expect("it ended");
    assert!(!ended.interrupted && ended.failed.is_none());
    assert_eq!(run.record.contenders[1].version.as_deref(), Some("4.0"));
    assert!(
        run.trials.iter().all(|trial| trial.ledger.as_ref().is_some_and(|ledger| ledger.requests == 100))
    );
    assert!(run.trials.iter().all(|trial| trial.upstream_clock == Some(clock_id("the upstream's"))));
}

#[test]
fn tokens_that_clients_have_left_belong_to_their_trial() {
    let mut scene = Scene::new();
    let Upstream::BuiltIn(upstream) = &mut scene.plan.upstream else { panic!("made with ours") };
    upstream.llm = Some(UpstreamLlm::default());
    let leave = Some(Leave::AfterTokens(5));
    scene.plan.targets[0].stream = LlmRequest::usual(Api::OpenAi).tokens(20, Duration::ZERO, leave);
    // Right after each of the eight trials, half of its ten streams are still sent.
    let ledger = |reading: u64| {
        let begun = reading.div_ceil(3) * 10;
        let ended = if reading % 3 == 1 { begun - 5 } else { begun };
        let (streams, tokens) = (begun, ended * 20);
        let llm = Some(LlmCounts { requests: begun, streams, ended, tokens, ..LlmCounts::default() });
        let instances = vec![InstanceCounts { llm, ..InstanceCounts::default() }];
        Ledger { instances, clock: None, requests_only: false }
    };
    scene.driver.upstream.ledgers = (0..24).map(|reading| Ok(ledger(reading))).collect();
    let (_, run, _) = scene.play();
    let tokens = |trial: &TrialRecord| Some(trial.ledger.as_ref()?.llm.as_ref()?.tokens);
    assert_eq!(run.trials.iter().map(tokens).collect::<Vec<_>>(), [Some(200); 8]);
}

/// Logs all events of a run.
#[derive(Default)]
struct LogProgress(Vec<String>);

impl Progress for LogProgress {
    fn begun(&mut self, trials: usize, _: Duration) {
        self.0.push(format!("begun {trials}"));
    }
    fn preparing(&mut self, what: &str) {
        self.0.push(what.to_owned());
    }
    fn prepared(&mut self, run: &RunRecord) {
        self.0.push(format!("prepared {}", run.contenders.len()));
    }
    fn failed(&mut self, label: &str, _: &Failure) {
        self.0.push(format!("failed {label}"));
    }
    fn trial(&mut self, number: usize, _: &Slot, _: &str) {
        self.0.push(format!("trial {number}"));
    }
    fn update(&mut self, update: &TrialUpdate) {
        let TrialUpdate::Phase(line) = update else { panic!("the fake traffic reports only phases") };
        self.0.push(format!("{:?}", line.phase));
    }
    fn pausing(&mut self) {
        self.0.push("pausing".into());
    }
    fn recorded(&mut self, trial: &TrialRecord) {
        self.0.push(format!("recorded {}", trial.sequence));
    }
    fn started(&mut self, start: &StartRecord) {
        self.0.push(format!("started {}", start.sequence));
    }
}

#[test]
fn progress_is_reported_in_order() {
    let mut scene = Scene::new();
    scene.plan.pause = Duration::from_nanos(1);
    scene.script("hop-l4").start_fails = Some("no".into());
    let interrupted = AtomicBool::new(false);
    let run = Scene::run(&scene.plan, &interrupted);
    let mut dir = RunDir::create(scene.out.path(), "scene").expect("a run directory");
    let mut log = LogProgress::default();
    run.run(&mut dir, &mut scene.driver, &mut scene.traffic, &mut log).expect("the disk works");
    let begin = ["begun 8", "starting upstream", "starting hop-l4", "failed hop-l4", "starting hop-l7"];
    assert_eq!(log.0[..5], begin);
    assert_eq!(log.0[5..7], ["verifying hop-l7 against direct", "prepared 3"]);
    assert_eq!(log.0[7..12], ["trial 0", "Measuring", "recorded 0", "pausing", "trial 1"]);
    assert_eq!(log.0.last().map(String::as_str), Some("recorded 7"));
}

#[test]
fn a_gateway_that_does_not_start_fails_its_trials_and_the_run_continues() {
    let (outcome, run, _) = played(|scene| scene.script("hop-l4").start_fails = Some("no".into()));
    assert_eq!(outcome.measured, 6);
    let failed: Vec<_> = run.trials.iter().filter(|trial| trial.failed.is_some()).collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|trial| trial.contender == "hop-l4" && trial.load_record.is_none()));
    let why = run.record.contenders[1].failed.as_ref().expect("noted");
    assert_eq!((why.stage, why.detail.as_str()), (Stage::Start, "its last log line"));
}

#[test]
fn a_gateway_that_answers_wrong_is_stopped_and_not_measured() {
    let (outcome, run, journal) = played(|scene| scene.traffic.answers_wrong = Some(HOP_L7));
    assert_eq!(outcome.measured, 6, "direct and the other hop");
    assert_eq!(journal[5], "stop hop-l7", "stopped at once, not at the end");
    assert_eq!(run.record.contenders[2].failed.as_ref().map(|failure| failure.stage), Some(Stage::Verify));
}

#[test]
fn headers_that_were_not_compared_are_recorded() {
    let mut scene = Scene::new();
    let header = IgnoredHeader { name: "age".into(), direct: Some("1".into()), gateway: None, reason: None };
    scene.traffic.ignored_headers = vec![header.clone()];
    let (_, run, _) = scene.play();
    assert_eq!(run.record.contenders[1].ignored_headers, [header]);
    assert_eq!(run.record.contenders[0].ignored_headers, [], "direct is not compared with itself");
}

#[test]
fn an_upstream_that_does_not_start_measures_nothing() {
    let (outcome, run, journal) = played(|scene| scene.driver.upstream.start_fails = Some("no".into()));
    assert_eq!((outcome.measured, run.trials.len()), (0, 0));
    assert_eq!(journal, ["start upstream"]);
    assert!(outcome.ended.failed.is_some());
}

#[test]
fn without_a_right_answer_of_direct_nothing_is_measured() {
    let (outcome, run, journal) = played(|scene| scene.traffic.direct_is_wrong = true);
    assert_eq!((outcome.measured, run.trials.len()), (0, 0));
    assert!(outcome.ended.failed.is_some());
    assert_eq!(
        journal.iter().filter(|line| line.starts_with("start")).count(),
        2,
        "upstream and first gateway: {journal:?}"
    );
    assert!(!journal.iter().any(|line| line.starts_with("load")), "{journal:?}");
}

#[test]
fn without_any_gateway_to_measure_nothing_is_measured() {
    let mut scene = Scene::new();
    scene.script("hop-l4").start_fails = Some("no".into());
    scene.traffic.answers_wrong = Some(HOP_L7);
    let (outcome, run, journal) = scene.play();
    assert_eq!((outcome.measured, run.trials.len()), (0, 0));
    assert!(outcome.ended.failed.is_some());
    assert!(run.record.contenders[1..].iter().all(|contender| contender.failed.is_some()));
    assert!(!journal.iter().any(|line| line.starts_with("load")), "{journal:?}");
}

#[test]
fn a_signal_keeps_the_current_trial_and_begins_no_other() {
    let (outcome, run, journal) = played(|scene| scene.traffic.interrupt_at_load = Some(3));
    assert_eq!(run.trials.len(), 3);
    assert!(outcome.ended.interrupted);
    assert_eq!(journal.iter().filter(|line| line.starts_with("stop")).count(), 3);
}

#[test]
fn a_trial_interrupted_before_its_measured_time_is_dropped() {
    let mut scene = Scene::new();
    scene.traffic.interrupt_at_load = Some(1);
    scene.traffic.nothing_is_due = true;
    let (outcome, run, _) = scene.play();
    assert_eq!(run.trials.len(), 0, "{:?}", run.trials);
    assert!(outcome.ended.interrupted && outcome.ended.failed.is_none());
}

#[test]
fn the_loopback_is_measured_once_if_bodies_are_large() {
    let (_, run, journal) = Scene::new().play();
    assert!(run.record.link.is_none() && journal.iter().all(|line| !line.starts_with("link")), "{journal:?}");
    let mut scene = Scene::new();
    let Upstream::BuiltIn(upstream) = &mut scene.plan.upstream else { panic!("it is ours") };
    upstream.body = Body::Size(LARGE_BODY);
    let (_, run, journal) = scene.play();
    assert_eq!(run.record.link.map(|link| link.message_bytes), Some(LARGE_BODY));
    assert_eq!(journal[..3], ["start upstream", "link 65536", "start hop-l4"]);
}

#[test]
fn gateway_counters_and_log_are_recorded_as_growth_during_a_trial() {
    let mut scene = Scene::new();
    let at = |log_bytes, refused| Observed {
        log_bytes: Some(log_bytes),
        counters: std::collections::BTreeMap::from([("refused".to_owned(), refused)]),
    };
    // The size of the log and the value of the counter, before and after each of the two trials.
    scene.script("hop-l7").observed = vec![at(10, 1.0), at(110, 4.0), at(500, 4.0), at(501, 4.0)];
    let (_, run, _) = scene.play();
    let recorded = |contender: &str| -> Vec<_> {
        let of = run.trials.iter().filter(|trial| trial.contender == contender);
        of.map(|trial| (trial.gateway_log_bytes, trial.gateway_counters.get("refused").copied())).collect()
    };
    assert_eq!(recorded("hop-l7"), [(Some(100), Some(3.0)), (Some(1), Some(0.0))]);
    assert_eq!(recorded("hop-l4"), [(None, None), (None, None)]);
    assert!(recorded(DIRECT).iter().all(|recorded| *recorded == (None, None)));
}

#[test]
fn isolated_gateways_run_only_during_their_own_trials() {
    let (outcome, _, journal) = played(|scene| scene.plan.isolate = true);
    assert_eq!(outcome.measured, 8);
    // The gateway is started once for verification, and once for each of the two trials.
    assert_eq!(journal.iter().filter(|line| *line == "start hop-l4").count(), 3);
    assert_eq!(journal.iter().filter(|line| *line == "stop hop-l4").count(), 3);
    let mut up = 0i32;
    for line in &journal {
        up += i32::from(line.starts_with("start hop")) - i32::from(line.starts_with("stop hop"));
        assert!((0..=1).contains(&up), "two gateways at once: {journal:?}");
    }
}

#[test]
fn a_trial_without_a_single_answer_has_failed() {
    let (outcome, run, _) = played(|scene| scene.traffic.nothing_completes = true);
    assert_eq!(outcome.measured, 0);
    let failure = run.trials[0].failed.as_ref().expect("failed");
    assert!(failure.message.contains("100 timeouts"), "{failure:?}");
    assert!(run.trials[0].load_record.is_some(), "its counts are kept");
}

fn spec_of(plan: &Plan, slot: &Slot) -> LoadSpec {
    let interrupted = AtomicBool::new(false);
    let run = Run { contents: Contents::read(plan).expect("readable"), ..Scene::run(plan, &interrupted) };
    load_spec(&run, slot, vec![SocketAddr::from(([127, 0, 0, 1], 8080))])
}

#[test]
fn the_generators_spec_has_every_key_of_the_plan() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("ids.txt"), "1\n2\n").expect("written");
    std::fs::write(directory.path().join("raw.bin"), [0xff, 0]).expect("written");
    let text = r#"
gateways: []
target:
  - { name: read, weight: 3, path: "/{{line ids.txt}}", headers: { host: echo.com } }
  - { name: write, method: POST, body: { text: "{{seq}}" }, expect: { status: 200 } }
  - { name: raw, method: PUT, body: { file: raw.bin } }
load:
  - { loop: open, rate: [10/s for 1s, ramp to 30/s over 2s], connections: 2, keepalive: 5, retry: idle-close,
      http: 1.0 }
timeout: { connect: 1s, first_byte: 2s, total: 3s }
sources: [127.0.0.2]
path_split: on
"#;
    let context = hoptax_plan::Context { cpus: 1, known: Vec::new(), directory: directory.path().to_owned() };
    let plan = hoptax_plan::parse("x.yaml", text, &[], &context).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = spec_of(&plan, &schedule::schedule(0, 1, 1, 7)[0]);
    let names: Vec<(&str, u32)> = spec.targets.iter().map(|it| (it.name.as_str(), it.weight)).collect();
    assert_eq!(names, [("read", 3), ("write", 1), ("raw", 1)]);
    let host = |index: usize| spec.targets[index].headers[0].1.as_str();
    assert_eq!((host(0), host(1)), ("echo.com", "127.0.0.1:8080"));
    assert_eq!((&spec.targets[1].body[..], spec.targets[1].body_is_template), (&b"{{seq}}"[..], true));
    assert_eq!((&spec.targets[2].body[..], spec.targets[2].body_is_template), (&[0xff, 0][..], false));
    assert_eq!(spec.targets[1].checks, [hoptax_format::spec::Check::Status(vec![(200, 200)])]);
    assert_eq!(spec.files["ids.txt"], "1\n2\n");
    assert_eq!(spec.duration_ns, 3 * clock::SECOND);
    assert_eq!(
        (spec.requests_per_connection, spec.http),
        (Some(5), hoptax_format::spec::HttpVersion::Http10)
    );
    assert_eq!(spec.retry, hoptax_format::spec::Retry::IdleClose);
    assert_eq!(plan.versions(), [spec.http], "verified with the same version as measured");
    assert_eq!(spec.sources, [std::net::IpAddr::from([127, 0, 0, 2])]);
    assert!(spec.stamps);
    let timeouts = spec.timeouts;
    assert_eq!(
        [timeouts.connect_ns, timeouts.first_byte_ns, timeouts.total_ns],
        [1, 2, 3].map(|seconds| seconds * clock::SECOND)
    );
    let hoptax_format::spec::Shape::Open { rate, .. } = &spec.shape else { panic!("an open loop") };
    assert_eq!(rate.mean(), (10.0 + 2.0 * 20.0) / 3.0);
}

#[test]
fn ages_of_messages_need_the_built_in_upstream() {
    let same_clock = |upstream: &str| {
        let target = "target: { grpc: { service: a, method: B, kind: server-stream } }";
        let load = "load: [{ loop: closed, connections: 1, http: 2 }]";
        let plan = fake::parsed(&format!("gateways: []\n{target}\n{load}\n{upstream}"));
        let spec = spec_of(&plan, &schedule::schedule(0, 1, 1, 7)[0]);
        spec.targets[0].stream.expect("a stream").same_clock
    };
    assert!(same_clock(""));
    assert!(!same_clock("upstream: { url: \"http://127.0.0.1:9\" }\n"));
}

#[test]
fn every_contender_of_a_round_gets_the_same_arrivals() {
    let scene = Scene::new();
    let slots = schedule::schedule(2, 1, 2, 7);
    let seed = |slot| spec_of(&scene.plan, slot).seed;
    assert!(slots[..4].iter().all(|slot| seed(slot) == seed(&slots[0])));
    assert_ne!(seed(&slots[0]), seed(&slots[4]), "rounds differ");
    assert!(!spec_of(&scene.plan, &slots[0]).stamps, "path_split is off");
}

#[test]
fn a_step_of_a_search_has_its_own_rate_and_duration() {
    use hoptax_format::spec::{Rate, Shape};
    use hoptax_record::{SearchStep, StepPurpose};
    let text = "gateways: []\nload: [{ loop: open, connections: 2, duration: 3s, search: { from: 100/s, to: \
        900/s } }]\n";
    let plan = fake::parsed(text);
    for (purpose, seconds) in [(StepPurpose::Search, 3), (StepPurpose::Confirm, 6)] {
        let step = Some(SearchStep { number: 4, rate: 321.0, purpose });
        let slot = Slot { step, ..schedule::schedule(0, 1, 1, 7)[0] };
        let spec = spec_of(&plan, &slot);
        let Shape::Open { rate: Rate::Fixed(rate), .. } = spec.shape else { panic!("{:?}", spec.shape) };
        assert_eq!((rate, spec.duration_ns), (321.0, seconds * clock::SECOND));
        let mut closed = plan.clone();
        closed.load[0].shape = Shape::Closed;
        let spec = spec_of(&closed, &slot);
        assert_eq!((spec.connections, spec.duration_ns), (321, seconds * clock::SECOND));
    }
}

#[test]
fn a_websocket_is_verified_by_its_handshake() {
    use hoptax_format::messages::StreamSpec;
    let stream = StreamSpec { carrier: Carrier::WebSocket, ..StreamSpec::grpc(StreamKind::BothWays, 2, 0) };
    let plain = || TargetSpec::only("GET", "/", Vec::new(), Vec::new());
    let socket = TargetSpec { stream: Some(stream), ..plain() };
    assert_eq!(default_status(&socket), Some(Check::Status(vec![(101, 101)])));
    assert_eq!(default_status(&plain()), Some(Check::Status(vec![(200, 399)])));
    let target = |stream| Target { stream, ignore_headers: vec!["age".into()], ..Target::get("/") };
    assert_eq!(ignored_headers(&target(Some(stream))), ["age", "sec-websocket-extensions"]);
    assert_eq!(ignored_headers(&target(None)), ["age"]);
}

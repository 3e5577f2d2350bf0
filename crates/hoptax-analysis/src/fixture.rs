//! Generated runs for tests, with known histograms. A trial has 1,000 requests in one second unless the test
//! says otherwise.
#![allow(missing_docs, clippy::must_use_candidate, reason = "for tests alone")]

pub mod features;
pub mod hosts;
mod planted;
pub mod profiles;
mod records;
pub mod starts;

use crate::{Analysis, analyse};
use hoptax_format::clock::{MILLISECOND, SECOND};
use hoptax_format::histogram::{Encoded, TRIAL_DIGITS, WINDOW_DIGITS, empty, empty_of_counts};
use hoptax_format::record::{
    Bytes, Cause, Connections, Counts, GeneratorCpu, Histograms, Lifetime, LoadRecord, Occupancy,
    RECORD_SCHEMA, Silence, StampTally, TargetRecord, TlsTally, WINDOW_NS, Window,
};
use hoptax_format::spec::{Arrivals, Rate, Shape};
use hoptax_format::stamp::ClockId;
use hoptax_plan::{
    AccessLog, Body, BuiltInUpstream, CpuPlan, Delay, LoadPoint, PathSplit, Plan, Profile, Target, Timeouts,
    Trials, Upstream,
};
use hoptax_record::RunRecord;
use hoptax_record::start::StartRecord;
use hoptax_record::{
    Contender, DIRECT, DirectTrial, Ended, Environment, Failure, GeneratorTrial, HostUsage, LedgerDelta,
    RoleUsage, SCHEMA, Stage, Stolen, TrialRecord,
};
use records::{ledger, load_record, record};
use std::collections::BTreeMap;
use std::time::Duration;

pub const REQUESTS: u64 = 1000;

pub struct Run {
    pub record: RunRecord,
    pub trials: Vec<TrialRecord>,
    /// Starts. A run has either starts or trials.
    pub starts: Vec<StartRecord>,
}

pub fn closed_point(connections: u32, seconds: u64) -> LoadPoint {
    LoadPoint::closed(connections, Duration::from_secs(seconds))
}

pub fn open_point(rate: f64, connections: u32, seconds: u64) -> LoadPoint {
    let shape = Shape::Open { rate: Rate::Fixed(rate), arrivals: Arrivals::Jitter(0.1) };
    LoadPoint { shape, ..closed_point(connections, seconds) }
}

/// A load point with stages, given in the notation of plans.
pub fn staged_point(stages: &str, connections: u32) -> LoadPoint {
    let rate = hoptax_plan::stages::pace(stages).expect("stages");
    let Rate::Stages(stages) = &rate else { panic!("they change") };
    let seconds = stages.iter().map(|stage| stage.for_ns).sum::<u64>() / SECOND;
    LoadPoint {
        shape: Shape::Open { rate, arrivals: Arrivals::Jitter(0.1) },
        ..closed_point(connections, seconds)
    }
}

/// A search from 500/s to 20,000/s with the objective p99 < 10 ms.
pub fn searched_point() -> LoadPoint {
    let search = hoptax_plan::Search {
        objectives: vec![hoptax_plan::Objective::at_bound(Duration::from_millis(10))],
        from: 500.0,
        to: 20_000.0,
        precision: 0.05,
        confirm: Duration::from_secs(2),
    };
    LoadPoint { search: Some(search), ..open_point(500.0, 8, 1) }
}

pub fn failure(stage: Stage, message: &str) -> Failure {
    Failure { stage, message: message.into(), detail: "last line of a log".into() }
}

impl Run {
    /// A run with one load point, a closed loop, and no contender except direct.
    pub fn closed(connections: u32) -> Self {
        Self::with_load(vec![closed_point(connections, 1)])
    }

    pub fn with_load(load: Vec<LoadPoint>) -> Self {
        let mut run = Self { record: record(load), trials: Vec::new(), starts: Vec::new() };
        run.contender(DIRECT, None);
        run
    }

    /// A run with one load point, a closed loop, and several targets. Each target is given by name and
    /// weight.
    pub fn mix(targets: &[(&str, u32)]) -> Self {
        let mut run = Self::closed(8);
        let target = |(name, weight): &(&str, u32)| Target {
            name: (*name).into(),
            weight: *weight,
            ..Target::get(&format!("/{name}"))
        };
        run.record.plan.targets = targets.iter().map(target).collect();
        run
    }

    /// A run in which all rounds are alike. Each gateway is given as (label, response time in µs).
    pub fn steady(rounds: u32, direct_us: u64, gateways: &[(&str, u64)]) -> Self {
        let mut run = Self::closed(32);
        for (label, _) in gateways {
            run.contender(label, None);
        }
        for round in 0..rounds {
            // Rounds differ a little, as they do on a quiet machine.
            let jitter = u64::from(round % 2);
            run.direct(round, direct_us, direct_us + jitter);
            for (label, response_us) in gateways {
                run.push(via(label, round).all_at_us(response_us + jitter));
            }
        }
        run
    }

    pub fn contender(&mut self, label: &str, failed: Option<Failure>) -> &mut Self {
        if self.record.contenders.iter().all(|known| known.label != label) {
            self.record.contenders.push(Contender {
                label: label.into(),
                kind: if label == DIRECT { String::new() } else { label.into() },
                version: Some("1.2.3".into()),
                workers: Some(1),
                settings: Vec::new(),
                counters: Vec::new(),
                rendered: BTreeMap::new(),
                address_note: None,
                ignored_headers: Vec::new(),
                found_process: None,
                cached: None,
                bodies: Vec::new(),
                warm_ups: Vec::new(),
                deaths: Vec::new(),
                failed,
            });
        }
        self
    }

    /// Adds a trial. Also adds its contender if the run does not have it yet.
    pub fn push(&mut self, mut trial: MadeTrial) -> &mut Self {
        self.contender(&trial.0.contender, None);
        trial.0.sequence = self.trials.len() as u32;
        self.trials.push(trial.0);
        self
    }

    /// Adds the two direct trials of a round at load point 0.
    pub fn direct(&mut self, round: u32, first_us: u64, last_us: u64) -> &mut Self {
        self.push(via(DIRECT, round).first().all_at_us(first_us))
            .push(via(DIRECT, round).last().all_at_us(last_us))
    }

    pub fn analyse(&self) -> Analysis {
        analyse(&self.record, &self.trials, &self.starts)
    }
}

/// A trial under construction.
pub struct MadeTrial(pub TrialRecord);

/// A trial of `contender` in `round`, at load point 0.
pub fn via(contender: &str, round: u32) -> MadeTrial {
    let gateway = (contender != DIRECT).then(|| RoleUsage {
        cpu_ns: 15_000_000,
        processes: 2,
        threads: 2,
        rss_bytes_max: 12 << 20,
        pss_bytes_max: Some(8 << 20),
        ..RoleUsage::default()
    });
    MadeTrial(TrialRecord {
        schema: SCHEMA,
        round,
        sequence: 0,
        contender: contender.into(),
        load: 0,
        direct: None,
        step: None,
        failed: None,
        load_record: Some(load_record()),
        generator: None,
        generators: Vec::new(),
        gateway,
        upstream: Some(RoleUsage { cpu_ns: 5_000_000, ..RoleUsage::default() }),
        host: HostUsage { idle: 0.4, ..HostUsage::default() },
        ledger: Some(ledger(REQUESTS)),
        upstream_clock: None,
        network: None,
        hosts: BTreeMap::new(),
        gateway_log_bytes: None,
        gateway_counters: BTreeMap::new(),
        events: Vec::new(),
        cpu_round_trips: Vec::new(),
        set_aside: None,
    })
    .all_at_us(200)
}

impl MadeTrial {
    fn load(&mut self) -> &mut LoadRecord {
        self.0.load_record.as_mut().expect("made with one")
    }

    pub fn first(mut self) -> Self {
        self.0.direct = Some(DirectTrial::First);
        self
    }

    pub fn last(mut self) -> Self {
        self.0.direct = Some(DirectTrial::Last);
        self
    }

    pub fn at_load(mut self, load: u32) -> Self {
        self.0.load = load;
        self
    }

    /// Sets the time at which the measured time began, s. Without it, all trials begin at the same time.
    pub fn at_s(mut self, seconds: f64) -> Self {
        self.load().started_ns = (seconds * SECOND as f64) as u64;
        self
    }

    /// Gives all requests the same response time.
    pub fn all_at_us(self, response_us: u64) -> Self {
        self.response_times_us(std::iter::repeat_n(response_us, REQUESTS as usize))
    }

    pub fn response_times_us(mut self, times: impl Iterator<Item = u64>) -> Self {
        let encoded = encode(times);
        self.load().histograms.service_time = encoded.clone();
        self.load().histograms.response_time = encoded;
        self
    }

    /// Adds a target of a mix with `requests` requests, all with the same response time.
    pub fn target(mut self, name: &str, requests: u64, response_us: u64) -> Self {
        let times = encode(std::iter::repeat_n(response_us, requests as usize));
        self.load().targets.push(TargetRecord {
            name: name.into(),
            scheduled: requests,
            completed: requests,
            ok: requests,
            failed: 0,
            response_time: times.clone(),
            service_time: times,
        });
        self
    }

    /// Divides the requests between these generators. All requests of a generator have the same response
    /// time.
    pub fn generators_us(mut self, generators: &[(&str, u64)]) -> Self {
        let each = REQUESTS / generators.len() as u64;
        let all = generators.iter().flat_map(|(_, time)| std::iter::repeat_n(*time, each as usize));
        let connections = 8 / generators.len() as u64;
        let whole = self.load().clone();
        let one = |(host, time): &(&str, u64)| {
            let mut part = whole.clone();
            part.completed_in_time = each;
            part.counts =
                Counts { scheduled: each, sent: each, completed: each, ok: each, ..Counts::default() };
            part.connections.asked = connections;
            part.lifetime.opened = connections;
            part.histograms.response_time = encode(std::iter::repeat_n(*time, each as usize));
            GeneratorTrial::new(host, &part, None)
        };
        self.0.generators = generators.iter().map(one).collect();
        self.response_times_us(all)
    }

    /// Changes a generator of the trial.
    pub fn of_generator(mut self, index: usize, change: impl FnOnce(&mut GeneratorTrial)) -> Self {
        change(&mut self.0.generators[index]);
        self
    }

    pub fn failed_check(mut self, check: &str, count: u64) -> Self {
        let counts = &mut self.load().counts;
        counts.ok -= count;
        counts.failed_checks.insert(check.into(), count);
        self
    }

    /// Adds `handshakes` TLS handshakes that each take `handshake_us`. Of these, `resumed` are resumed
    /// sessions.
    pub fn tls(mut self, handshakes: u64, resumed: u64, handshake_us: u64) -> Self {
        let load = self.load();
        load.histograms.tls_handshake = Some(encode(std::iter::repeat_n(handshake_us, handshakes as usize)));
        load.tls = Some(TlsTally {
            handshakes,
            resumed,
            versions: BTreeMap::from([("TLSv1.3".into(), handshakes)]),
            ..TlsTally::default()
        });
        self
    }

    /// Adds timestamps to all responses, with these times on the request path and on the response path.
    pub fn paths_us(mut self, request_us: u64, response_us: u64) -> Self {
        let all = |time_us| Some(encode(std::iter::repeat_n(time_us, REQUESTS as usize)));
        let histograms = &mut self.load().histograms;
        (histograms.request_path, histograms.response_path) = (all(request_us), all(response_us));
        self.stamps(REQUESTS, 0, 0)
    }

    pub fn stamps(mut self, used: u64, missing: u64, impossible: u64) -> Self {
        self.load().stamps = Some(StampTally { used, missing, impossible, clock: None });
        self
    }

    /// Sets the clocks of generator and upstream. They matter only for responses with timestamps.
    pub fn clocks(mut self, generator: ClockId, upstream: ClockId) -> Self {
        self.load().stamps.as_mut().expect("stamped").clock = Some(generator);
        self.0.upstream_clock = Some(upstream);
        self
    }

    pub fn send_lag_us(mut self, lag_us: u64) -> Self {
        self.load().histograms.send_lag = encode(std::iter::repeat_n(lag_us, REQUESTS as usize));
        self
    }

    pub fn step(mut self, rate: f64) -> Self {
        let purpose = hoptax_record::StepPurpose::Search;
        self.0.step = Some(hoptax_record::SearchStep { number: self.0.round, rate, purpose });
        self
    }

    /// Sets the number of requests completed in the trial's one second.
    pub fn throughput(mut self, completed: u64) -> Self {
        let load = self.load();
        load.completed_in_time = completed;
        load.bytes.body = completed * 1024;
        self
    }

    /// Sets the number of requests that were due. Requests that were not completed count as unsent.
    pub fn scheduled(mut self, scheduled: u64) -> Self {
        let load = self.load();
        load.counts.scheduled = scheduled;
        load.counts.unsent = scheduled.saturating_sub(load.counts.completed);
        self
    }

    pub fn gateway_cpu_us(mut self, used_us: u64) -> Self {
        self.0.gateway.as_mut().expect("a gateway").cpu_ns = used_us * 1000;
        self
    }

    /// Sets how long the gateway waited for a CPU, µs.
    pub fn gateway_waits_us(mut self, waits_us: u64) -> Self {
        self.0.gateway.as_mut().expect("made with one").waiting_ns = Some(waits_us * 1000);
        self
    }

    /// Sets the CPU use of the generator's busiest worker, as per cent of the measured time.
    pub fn generator_busy(mut self, percent: u64) -> Self {
        self.load().cpu.busiest_worker_ns = SECOND / 100 * percent;
        self
    }

    pub fn ledger_requests(mut self, requests: u64) -> Self {
        self.0.ledger = Some(ledger(requests));
        self
    }

    /// Removes the CPU and memory figures and the upstream's ledger.
    pub fn unwatched(mut self) -> Self {
        self.0.gateway = None;
        self.0.upstream = None;
        self.0.ledger = None;
        self
    }

    pub fn errors(mut self, resets: u64) -> Self {
        let counts = &mut self.load().counts;
        counts.scheduled += resets;
        counts.sent += resets;
        counts.resets += resets;
        counts.errors.insert("connection reset by peer".into(), resets);
        counts.causes.insert(Cause::ResetBeforeResponse, resets);
        self
    }

    /// Changes the status of `count` responses from 200 to `status`.
    pub fn status(mut self, status: u16, count: u64) -> Self {
        let counts = &mut self.load().counts;
        *counts.status.get_mut(&200).expect("made with 200") -= count;
        counts.status.insert(status, count);
        if !(200..400).contains(&status) {
            counts.ok -= count;
        }
        self
    }

    /// Sets the number of responses of each connection.
    pub fn responses(mut self, responses: &[u64]) -> Self {
        let mut counts = empty_of_counts();
        responses.iter().for_each(|count| counts.record(*count).expect("in range"));
        self.load().occupancy = Some(Occupancy {
            responses: Encoded::new(&counts),
            unanswered: responses.iter().filter(|count| **count == 0).count() as u64,
            busy_ns: 0,
            waited: 0,
            silence: Silence::default(),
            longest_turn_ns: 0,
        });
        self
    }

    /// Makes the trial `trial_ns` long. It begins with a silence of `silence_ns`, in which requests wait.
    pub fn silent(mut self, silence_ns: u64, trial_ns: u64) -> Self {
        self = self.responses(&[10]);
        self.load().measured_ns = trial_ns;
        self.load().occupancy.as_mut().expect("just set").silence = Silence { at_ns: 0, for_ns: silence_ns };
        self
    }

    pub fn established(mut self, established: u64) -> Self {
        self.load().connections.established = established;
        self
    }

    pub fn host(mut self, steal: f64, foreign: f64) -> Self {
        self.0.host.steal = steal;
        self.0.host.foreign = foreign;
        self
    }

    /// Sets the CPU time that the hypervisor took from one CPU in each window, ms.
    pub fn stolen_ms(mut self, by_window: &[u64]) -> Self {
        let taken: Vec<u64> = by_window.iter().map(|ms| ms * MILLISECOND).collect();
        let ns_by_cpu =
            if taken.iter().any(|ns| *ns > 0) { BTreeMap::from([(0, taken)]) } else { BTreeMap::new() };
        self.0.host.stolen = Some(Stolen { before: 0, after: 0, ns_by_cpu });
        self
    }

    /// Sets the windows, and the figures of the whole trial, from the response times in each window, ns.
    pub fn windows_ns(mut self, windows: &[Vec<u64>]) -> Self {
        let histogram = |digits: u8, times: &mut dyn Iterator<Item = u64>| {
            let mut histogram = empty(digits);
            times.for_each(|time| histogram.saturating_record(time));
            Encoded::new(&histogram)
        };
        let window = |times: &Vec<u64>| {
            let completed = times.len() as u64;
            let encoded = || histogram(WINDOW_DIGITS, &mut times.iter().copied());
            let response_time = (completed > 0).then(encoded);
            Window { sent: completed, completed, ok: completed, response_time, ..Window::default() }
        };
        let load = self.load();
        load.measured_ns = windows.len() as u64 * WINDOW_NS;
        load.completed_in_time = windows.iter().map(|times| times.len() as u64).sum();
        load.windows = windows.iter().map(window).collect();
        let whole = histogram(TRIAL_DIGITS, &mut windows.iter().flatten().copied());
        load.histograms.service_time = whole.clone();
        load.histograms.response_time = whole;
        self
    }

    /// Like [`Self::windows_ns`], with times in µs.
    pub fn windows_us(self, windows: &[Vec<u64>]) -> Self {
        let ns: Vec<Vec<u64>> =
            windows.iter().map(|times| times.iter().map(|time| time * 1000).collect()).collect();
        self.windows_ns(&ns)
    }

    pub fn failed(mut self, message: &str) -> Self {
        self.0.failed = Some(failure(Stage::Trial, message));
        self
    }

    /// Removes all answers from the trial: 50 requests were sent, and all connections were reset.
    pub fn nothing_completed(mut self) -> Self {
        let load = self.load();
        load.counts = Counts { scheduled: 50, sent: 50, resets: 50, ..Counts::default() };
        load.completed_in_time = 0;
        load.lifetime.completed = 0;
        load.bytes = Bytes::default();
        load.windows.iter_mut().for_each(|window| window.completed = 0);
        self.response_times_us(std::iter::empty())
    }
}

/// Identity of a clock, from the ID of a boot and an offset.
pub fn clock_id(boot_id: &str, offset_ns: i64) -> ClockId {
    ClockId { boot_id: boot_id.into(), offset_ns }
}

fn encode(times_us: impl Iterator<Item = u64>) -> Encoded {
    let mut histogram = empty(TRIAL_DIGITS);
    for time in times_us {
        histogram.record(time * 1000).expect("in range");
    }
    Encoded::new(&histogram)
}

/// A typical run. It has three load points, gateways with figures that scatter, one gateway that did not
/// start, and one finding.
pub fn sample() -> Run {
    use hoptax_record::Setting;
    let mut run = Run::with_load(vec![closed_point(1, 5), closed_point(32, 5), open_point(1000.0, 8, 5)]);
    let mut random = hoptax_format::random::Random::new(3);
    let gateways = [
        (DIRECT, 0.0, 0.0),
        ("hop-l4", 11.0, 7.0),
        ("hop-l7", 19.0, 12.0),
        ("nginx", 38.0, 18.0),
        ("haproxy", 31.0, 16.0),
    ];
    for round in 0..5 {
        for load in 0..3u32 {
            for (label, added, cpu) in gateways {
                let ends = if label == DIRECT { 2 } else { 1 };
                for end in 0..ends {
                    let base = [70.0, 620.0, 130.0][load as usize] + added * [1.0, 9.0, 1.3][load as usize];
                    let base = base * (1.0 + 0.02 * random.unit());
                    let times: Vec<u64> = (0..REQUESTS)
                        .map(|_| (base * (0.8 + 0.25 * random.exponential().powf(1.2))) as u64)
                        .collect();
                    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
                    let connections = [1.0, 32.0, 8.0][load as usize];
                    let throughput = if load == 2 {
                        1000.0
                    } else {
                        connections * 1e6 / mean * (1.0 + 0.01 * random.unit())
                    };
                    let mut trial = via(label, round)
                        .at_load(load)
                        .response_times_us(times.into_iter())
                        .throughput(throughput as u64)
                        .send_lag_us(6)
                        .generator_busy(if load == 1 { 91 } else { 30 });
                    for window in &mut trial.0.load_record.as_mut().expect("made with one").windows {
                        window.completed = (throughput / 10.0 * (0.97 + 0.06 * random.unit())) as u64;
                    }
                    if label != DIRECT {
                        trial =
                            trial.gateway_cpu_us((cpu * throughput * (1.0 + 0.05 * random.unit())) as u64);
                    } else {
                        trial = if end == 0 { trial.first() } else { trial.last() };
                    }
                    run.push(trial);
                }
            }
        }
    }
    run.contender("envoy", Some(failure(Stage::Missing, "envoy is not installed; `make demo` installs it")));
    for contender in &mut run.record.contenders {
        if contender.label == "nginx" {
            contender.settings = vec![Setting {
                setting: "keepalive 256".into(),
                reason: "pooled connections to the upstream, as every other gateway has".into(),
            }];
        }
    }
    run.record.trials_planned = run.trials.len() as u32;
    run
}

//! The flow of a run: start services, verify each gateway, measure trials, stop services.

mod processes;
mod warm_ups;

use super::contents;
use super::deaths::Deaths;
use super::events::{self, EventRunner, RouteCheck};
use super::inputs::Run;
use super::progress::Progress;
use super::starts::{Participation, Starts};
use super::traffic::{Traffic, TrialUpdate, WatchedRoles};
use super::trial::{self, load_spec};
use super::warm_up::Settled;
use crate::schedule::{self, Contender, Director, Slot};
use hoptax_format::grpc::Status;
use hoptax_format::messages::{Carrier, StreamKind};
use hoptax_format::record::{Phase, PhaseLine};
use hoptax_format::spec::{Check, TargetSpec};
use hoptax_format::{Address, clock};
use hoptax_host::Watched;
use hoptax_host::probe::fitness::Moment;
use hoptax_lab::features::{self, Change};
use hoptax_lab::verify::Requests;
use hoptax_lab::{Driver, Facts, Service};
use hoptax_plan::{Gateway, GatewayKind, HopKind, Start, Target, Upstream, units};
use hoptax_record::dir::{DirError, RunDir};
use hoptax_record::plan::Action;
use hoptax_record::{
    Contender as ContenderRecord, DIRECT, DeathDuring, Ended, Failure, Leg, RunHost, RunRecord, SCHEMA,
    Stage, TrialRecord, Verified, WarmUp,
};
use hoptax_servers::ledger::Ledger;
use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum size of a body for which the run measures the bandwidth of the loopback. For smaller bodies, the
/// cost per request dominates. A loopback of a few GB/s moves 64 KiB in about 20 µs, and a gateway takes
/// about the same time for a request.
const LARGE_BODY: u64 = 64 << 10;

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of trials, of gateways and of direct, that were measured without a failure.
    pub measured: usize,
    /// How the run ended, as in the run record.
    pub ended: Ended,
}

impl Run<'_> {
    /// Starts all services, measures every case in every round, and stops all services. Even if the run
    /// fails, each finished trial is on disk, and all services are stopped.
    ///
    /// # Errors
    /// If the run directory cannot be written.
    pub fn run(
        &self,
        dir: &mut RunDir,
        driver: &mut dyn Driver,
        traffic: &mut dyn Traffic,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, DirError> {
        let mut director = schedule::director(self.plan, self.seed);
        let planned = schedule::planned_starts(self.plan).unwrap_or(director.planned());
        progress.begun(planned, schedule::estimate(self.plan));
        let mut record = self.record(planned);
        dir.write_run(&record)?;

        progress.preparing("starting upstream");
        let mut flow = match driver.start_upstream() {
            Ok(upstream) => Flow {
                run: self,
                upstream,
                gateways: Vec::new(),
                reloads: vec![false; self.plan.gateways.len()],
                is_warm: vec![false; self.plan.gateways.len() + 1],
                warm_ups: Vec::new(),
                settled: vec![Settled::default(); self.plan.gateways.len() + 1],
                starts: vec![0; self.plan.gateways.len()],
                deaths: Deaths::new(self.plan.gateways.len()),
                driver,
                traffic,
                progress,
            },
            Err(failure) => {
                progress.failed("upstream", &failure);
                return end(dir, &mut record, 0, false, Some(failure));
            }
        };
        record.contenders[0].version = flow.upstream.facts().version.clone();
        record.contenders[0].found_process = flow.upstream.facts().found_process.clone();
        record.contenders[0].address_note = flow.upstream.facts().address_note.clone();
        record.link = self.largest_body().and_then(|bytes| flow.traffic.link(bytes));
        record.legs = flow.legs();
        let hopeless = flow.start_gateways(&mut record);
        dir.write_run(&record)?;
        if let Some(failure) = hopeless {
            drop(flow);
            return end(dir, &mut record, 0, self.is_interrupted(), Some(failure));
        }
        flow.progress.prepared(&record);
        flow.warm_up_all();
        flow.note_warm_ups(&mut record);

        let measured = match self.plan.start {
            Some(start) => flow.measure_starts(start, dir, &mut record),
            None => flow.measure(&mut *director, dir, &mut record),
        };
        // Warm-ups and deaths in passes say nothing about trials, so they are not recorded. A failed pass
        // says why it failed.
        flow.note_warm_ups(&mut record);
        flow.deaths.record(&mut record.contenders);
        // Passes follow only after all rounds, and not in a run that had to stop early.
        let measured = match measured {
            Ok((measured, None)) => {
                let number = director.planned();
                let passed = flow.explain_tails(number, dir).and_then(|()| flow.profile(number, dir));
                passed.map(|()| (measured, None))
            }
            stopped => stopped,
        };
        let interrupted = self.is_interrupted();
        if !interrupted {
            for (leg, again) in record.legs.iter_mut().zip(flow.legs()) {
                leg.at_end = again.at_start;
            }
        }
        drop(flow);
        if self.plan.start.is_none() {
            record.trials_planned = director.planned() as u32;
        }
        record.host_at_end = (self.look)(Moment::End);
        for (name, look) in (self.look_at_others)(Moment::End) {
            record.hosts.entry(name).or_default().at_end = Some(look);
        }
        record.stopped = director.stopped();
        match measured {
            Ok((measured, failed)) => end(dir, &mut record, measured, interrupted, failed),
            Err(error) => {
                // Writing a trial failed, for example because the disk is full. Try to write this failure
                // anyway, because that may still work.
                let failure = Failure::new(Stage::Trial, format!("{error}; earlier trials are kept"));
                let _ = end(dir, &mut record, 0, interrupted, Some(failure));
                Err(error)
            }
        }
    }

    /// The hosts, with the checks before the first trial.
    fn hosts_at_start(&self) -> BTreeMap<String, RunHost> {
        let mut hosts = self.hosts.clone();
        for (name, look) in (self.look_at_others)(Moment::Start) {
            hosts.entry(name).or_default().at_start = Some(look);
        }
        hosts
    }

    /// Size of the largest request or response body. `None` if this size is less than [`LARGE_BODY`].
    fn largest_body(&self) -> Option<u64> {
        let (sent, answered) = (self.contents.largest(), contents::response_body(self.plan));
        sent.max(answered).filter(|&bytes| bytes >= LARGE_BODY)
    }

    fn record(&self, trials: usize) -> RunRecord {
        let direct = contender(DIRECT, String::new(), None);
        let gateways = self.plan.gateways.iter().map(|gateway| {
            let (kind, workers) = match &gateway.kind {
                GatewayKind::Pack { pack, workers, .. } => (pack.clone(), Some(*workers)),
                GatewayKind::Hop(HopKind::L4) => ("hop-l4".to_owned(), None),
                GatewayKind::Hop(HopKind::L7)
                | GatewayKind::DelayingHop(_)
                | GatewayKind::ForwardingHop { .. } => ("hop-l7".to_owned(), None),
                GatewayKind::Http2Hop { .. } => ("hop-h2".to_owned(), None),
                GatewayKind::External { .. } => ("external".to_owned(), None),
            };
            contender(&gateway.label, kind, workers)
        });
        RunRecord {
            schema: SCHEMA,
            hoptax: env!("CARGO_PKG_VERSION").to_owned(),
            plan: self.plan.clone(),
            plan_text: self.plan_text.clone(),
            command: self.command.clone(),
            seed: self.seed,
            contenders: std::iter::once(direct).chain(gateways).collect(),
            load: self.plan.load.clone(),
            trials_planned: trials as u32,
            stopped: None,
            environment: self.environment.clone(),
            host_at_start: (self.look)(Moment::Start),
            host_at_end: None,
            link: None,
            hosts: self.hosts_at_start(),
            legs: Vec::new(),
            shares: self.shares.clone(),
            started_unix_ns: clock::unix(),
            ended: None,
        }
    }
}

fn contender(label: &str, kind: String, workers: Option<u32>) -> ContenderRecord {
    ContenderRecord { label: label.to_owned(), kind, workers, ..ContenderRecord::default() }
}

fn end(
    dir: &RunDir,
    record: &mut RunRecord,
    measured: usize,
    interrupted: bool,
    failed: Option<Failure>,
) -> Result<Outcome, DirError> {
    let ended = Ended { unix_ns: clock::unix(), interrupted, failed };
    record.ended = Some(ended.clone());
    dir.write_run(record)?;
    Ok(Outcome { measured, ended })
}

/// A run after its upstream has started. When this value is dropped, all services stop, the gateways first.
struct Flow<'a> {
    run: &'a Run<'a>,
    gateways: Vec<GatewayState>,
    /// For each gateway of the plan, true if it can reload. Set when the gateway is started.
    reloads: Vec<bool>,
    upstream: Box<dyn Service>,
    /// For direct and each gateway, true if its process was warmed up since its last start. Direct is first,
    /// and means the upstream.
    is_warm: Vec<bool>,
    /// Warm-ups that are not in the record of the run yet, with the index of their contender.
    warm_ups: Vec<(usize, WarmUp)>,
    /// For direct and each gateway, the last warm-up of its process.
    settled: Vec<Settled>,
    /// For each gateway, the number of its starts after the first one.
    starts: Vec<u32>,
    deaths: Deaths,
    driver: &'a mut dyn Driver,
    traffic: &'a mut dyn Traffic,
    progress: &'a mut dyn Progress,
}

/// State of a gateway.
enum GatewayState {
    /// The gateway was started and verified.
    Up(Box<dyn Service>),
    /// The gateway was verified, and does not run now. It is started again for its next trial. With `isolate`
    /// or `start`, a gateway runs only during its own trials or starts. Without these options, the gateway
    /// has died.
    Stopped,
    /// The gateway could not be started or verified, and is not measured any more.
    Failed(Failure),
}

impl Flow<'_> {
    /// Measures the network between the hosts of the run.
    fn legs(&mut self) -> Vec<Leg> {
        if self.run.hosts.len() < 2 {
            return Vec::new();
        }
        self.progress.preparing("measuring the network between the hosts");
        self.traffic.legs(self.run.contents.messages(self.run.plan))
    }

    /// Starts and verifies the gateways. Returns the reason if the run cannot have a result: direct itself
    /// gives no right answer, or no gateway can be measured.
    fn start_gateways(&mut self, record: &mut RunRecord) -> Option<Failure> {
        for (index, gateway) in self.run.plan.gateways.iter().enumerate() {
            if self.run.is_interrupted() {
                return None;
            }
            let contender = &mut record.contenders[index + 1];
            let state = match self.start(gateway).and_then(|service| self.verify(service, &gateway.label)) {
                Ok((service, verified)) => {
                    note_facts(contender, service.facts());
                    contender.ignored_headers = verified.ignored_headers;
                    contender.bodies = verified.bodies;
                    contender.cached = verified.cached;
                    self.reloads[index] = service.controller().is_some_and(|one| one.can_reload());
                    let stops = self.run.plan.isolate || self.run.plan.start.is_some();
                    if stops { GatewayState::Stopped } else { GatewayState::Up(service) }
                }
                Err(failure) => {
                    contender.failed = Some(failure.clone());
                    if failure.stage == Stage::Verify && !self.direct_is_right() {
                        self.progress.failed(DIRECT, &failure);
                        return Some(failure);
                    }
                    self.progress.failed(&gateway.label, &failure);
                    GatewayState::Failed(failure)
                }
            };
            self.gateways.push(state);
        }
        let mut failures = self.gateways.iter().map(|state| match state {
            GatewayState::Failed(failure) => Some(failure.clone()),
            GatewayState::Up(_) | GatewayState::Stopped => None,
        });
        failures.next().flatten().filter(|_| failures.all(|failed| failed.is_some()))
    }

    /// Verifies direct against itself.
    fn direct_is_right(&mut self) -> bool {
        let (requests, timeout) = (self.requests(), self.run.plan.timeout.total);
        let (direct, change) = (self.upstream.endpoints(), &self.upstream.facts().change);
        self.traffic.verify(&requests, timeout, &direct, &direct[0], change).is_ok()
    }

    fn start(&mut self, gateway: &Gateway) -> Result<Box<dyn Service>, Failure> {
        self.progress.preparing(&format!("starting {}", gateway.label));
        self.driver.start_gateway(gateway, &self.upstream.endpoints())
    }

    /// Verifies a gateway. Also returns what was left out of its comparison with direct.
    fn verify(
        &mut self,
        mut service: Box<dyn Service>,
        label: &str,
    ) -> Result<(Box<dyn Service>, Verified), Failure> {
        self.progress.preparing(&format!("verifying {label} against direct"));
        let (direct, via) = (self.upstream.endpoints(), Address::from(service.addresses()[0]));
        let requests = self.requests();
        let change = &service.facts().change;
        match self.traffic.verify(&requests, self.run.plan.timeout.total, &direct, &via, change) {
            Ok(verified) => Ok((service, verified)),
            Err(failure) => {
                service.stop();
                let gateway = self.run.plan.gateways.iter().find(|gateway| gateway.label == label);
                let runs_already =
                    gateway.is_some_and(|one| matches!(one.kind, GatewayKind::External { .. }));
                Err(if runs_already { about_external(failure, &direct[0]) } else { failure })
            }
        }
    }

    /// Measures the slots one after the other until the schedule ends, a signal arrives, or the upstream
    /// dies. Returns the number of good trials. If the run had to stop early, also returns the reason.
    fn measure(
        &mut self,
        director: &mut dyn Director,
        dir: &mut RunDir,
        record: &mut RunRecord,
    ) -> Result<(usize, Option<Failure>), DirError> {
        let (mut measured, mut number, mut restarts) = (0, 0, 0);
        let mut last: Option<TrialRecord> = None;
        self.plan_restarts(director, record);
        let mut begun = clock::now();
        while !self.run.is_interrupted() {
            director.set_elapsed(Duration::from_nanos(clock::now().saturating_sub(begun)));
            let Some(slot) = director.next(last.take().as_ref()) else {
                let looked = clock::now();
                let steps = if director.can_measure_again() { self.look_again(number) } else { Vec::new() };
                self.note_warm_ups(record);
                if steps.is_empty() {
                    break;
                }
                // The time that this check took does not count as time of the rounds.
                begun += clock::now().saturating_sub(looked);
                dir.write_run(record)?;
                director.measure_again(steps);
                continue;
            };
            if director.restarts() > restarts {
                restarts = director.restarts();
                let looked = clock::now();
                let steps = self.restart_gateways(number, record);
                director.note_steps(steps);
                dir.write_run(record)?;
                begun += clock::now().saturating_sub(looked);
            }
            if number > 0 {
                self.run.pause(self.progress);
            }
            let label = match slot.contender {
                Contender::Direct(_) => DIRECT,
                Contender::Gateway(index) => &self.run.plan.gateways[index].label,
            };
            self.progress.planned(director.planned());
            self.progress.trial(number, &slot, label);
            let Some(trial) = self.trial(number, &slot, label) else { break };
            number += 1;
            self.count_answers(&slot, &trial);
            dir.append(&trial)?;
            self.progress.recorded(&trial);
            match &trial.failed {
                None => measured += 1,
                Some(failure) => self.progress.failed(label, failure),
            }
            if let Err(failure) = self.upstream.check() {
                self.progress.failed("upstream", &failure);
                return Ok((measured, Some(failure)));
            }
            last = Some(trial);
        }
        Ok((measured, None))
    }

    /// Measures starts of the gateways that were verified. Returns the number of good starts. If the run had
    /// to stop early, also returns the reason. Gateways that were left out have a failure in the record.
    fn measure_starts(
        &mut self,
        start: Start,
        dir: &mut RunDir,
        record: &mut RunRecord,
    ) -> Result<(usize, Option<Failure>), DirError> {
        let part = |(state, can_reload): (&GatewayState, &bool)| match state {
            GatewayState::Failed(failure) => Participation::Out(failure.clone()),
            _ => Participation::In { reloads: start.reload && *can_reload, failures: 0 },
        };
        let starts = Starts {
            run: self.run,
            requests: self.requests(),
            gateways: self.gateways.iter().zip(&self.reloads).map(part).collect(),
            upstream: &mut *self.upstream,
            driver: self.driver,
            traffic: self.traffic,
            progress: self.progress,
        };
        record.trials_planned = starts.planned(start) as u32;
        let result = starts.measure(start, dir)?;
        for (index, failure) in result.left_out {
            record.contenders[index + 1].failed = Some(failure);
        }
        Ok((result.measured, result.failed))
    }

    /// Measures one trial. Returns `None` if a signal arrived before the measured time of the trial.
    fn trial(&mut self, number: usize, slot: &Slot, label: &str) -> Option<TrialRecord> {
        let mut service = match slot.contender {
            Contender::Direct(_) => {
                self.warm_up_upstream(number);
                None
            }
            Contender::Gateway(index) => match self.take_warm(index, slot.load, number) {
                Ok(service) => Some((index, service)),
                Err(_) if self.run.is_interrupted() => return None,
                Err(failure) => return Some(trial::not_measured(number, slot, label, failure)),
            },
        };
        let (gateway, watched) = match &service {
            Some((_, service)) => (Some(service.endpoints()), service.process()),
            None => (None, None),
        };
        let addresses = gateway.unwrap_or_else(|| self.upstream.endpoints());
        let before = service.as_mut().map(|(_, service)| service.observe()).unwrap_or_default();
        let measured = service.as_ref().map_or(&self.upstream, |(_, service)| service);
        let change = measured.facts().change.clone();
        let events = self.event_runner(slot, service.as_ref().map(|(index, service)| (*index, &**service)));
        let mut trial = self.load(number, slot, label, addresses, &change, watched, events);
        if let Some((index, mut service)) = service {
            trial.start = self.starts[index];
            trial::note_observed(&mut trial, &before, &service.observe());
            if let Err(failure) = trial::note_used_elsewhere(&mut trial, &*service) {
                self.progress.failed(label, &failure);
            }
            if trial.events.iter().any(|event| matches!(event.event.action, Action::RestartGateway)) {
                self.is_warm[index + 1] = false;
                self.starts[index] += 1;
            }
            let death = self.put_back(index, service, DeathDuring::Trial, number, slot.load);
            trial.failed = explained(trial.failed, death);
        }
        if trial.failed.is_some() {
            trial.failed = explained(trial.failed, self.upstream.check().err());
        }
        // If a signal ended the trial before its measured time, the trial has no data.
        let has_data = trial.load_record.as_ref().is_some_and(|record| record.counts.scheduled > 0);
        (has_data || !self.run.is_interrupted()).then_some(trial)
    }

    /// Prepares the events of the plan for a trial. Returns `None` if the trial has no events.
    fn event_runner(&self, slot: &Slot, gateway: Option<(usize, &dyn Service)>) -> Option<EventRunner> {
        let plan = self.run.plan;
        let described = gateway.map(|(index, _)| &plan.gateways[index]);
        let label = described.map(|gateway| gateway.label.as_str());
        let events: Vec<_> = plan.events.iter().filter(|event| event.concerns(label)).cloned().collect();
        if events.is_empty() || slot.step.is_some() {
            return None;
        }
        let loaded_prefix = described.and_then(|gateway| features::asked_route(gateway.features()));
        let route = gateway.zip(loaded_prefix).map(|((_, service), loaded_prefix)| RouteCheck {
            asker: self.traffic.route_asker(plan.load[slot.load].from.as_deref()),
            address: service.addresses()[0],
            requests: self.requests(),
            change: service.facts().change.clone(),
            loaded_prefix,
        });
        let controller = gateway.and_then(|(_, service)| service.controller());
        Some(EventRunner { events, gateway: controller, upstream: self.upstream.controller(), route })
    }

    /// The requests that verify each gateway before anything is measured.
    fn requests(&self) -> Requests {
        let tls = self.upstream.facts().change.tls.is_some();
        let direct = units::host_header_of(tls, &self.upstream.endpoints()[0]);
        let mut targets = self.run.contents.targets(&self.run.plan.targets, &direct);
        if !sends_other_status(&self.run.plan.upstream) {
            targets.iter_mut().for_each(|target| target.checks.extend(default_status(target)));
        }
        contents::with_one_message(&mut targets);
        Requests {
            targets,
            files: self.run.contents.files.clone(),
            versions: self.run.plan.versions(),
            varies: self.run.plan.targets.iter().map(varies).collect(),
            ignored_headers: self.run.plan.targets.iter().map(ignored_headers).collect(),
            direct: self.upstream.facts().change.clone(),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a trial needs all of these, and only a trial needs them")]
    fn load(
        &mut self,
        number: usize,
        slot: &Slot,
        label: &str,
        addresses: Vec<Address>,
        change: &Change,
        gateway: Option<Watched>,
        events: Option<EventRunner>,
    ) -> TrialRecord {
        let mut spec = load_spec(self.run, slot, addresses);
        change.apply(&mut spec);
        let watched = WatchedRoles { upstream: self.upstream.process(), gateway };
        let distances = self.cpu_distances();
        let before = self.ledger_before();
        let Self { traffic, progress, .. } = self;
        let (interrupted, from) = (self.run.interrupted, self.run.plan.load[slot.load].from.as_deref());
        let mut load =
            |report: &mut dyn FnMut(TrialUpdate)| traffic.load(from, &spec, &watched, interrupted, report);
        let (loaded, results) = match events {
            None => (load(&mut |update| progress.update(&update)), Vec::new()),
            Some(runner) => std::thread::scope(|scope| {
                let (sender, begun) = std::sync::mpsc::channel();
                let running = scope.spawn(move || runner.run(&begun));
                let loaded = load(&mut |update| {
                    if matches!(update, TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, .. })) {
                        // Sending fails if all events have already been carried out.
                        let _ = sender.send(clock::now());
                    }
                    progress.update(&update);
                });
                drop(sender);
                (loaded, running.join().expect("an event does not panic"))
            }),
        };
        let events = events::records(results, loaded.record.as_ref());
        let upstream_clock = before.as_ref().and_then(|ledger| ledger.as_ref().ok()?.clock.clone());
        let after = self.ledger_after(before.as_ref());
        let delta = trial::ledger_delta(before, after);
        let cpu_round_trips = trial::round_trips(&distances, &self.cpu_distances());
        TrialRecord {
            upstream_clock,
            events,
            cpu_round_trips,
            ..trial::record(number, slot, label, loaded, delta)
        }
    }

    /// The upstream's ledger before a load. Tokens of verification can be on their way.
    fn ledger_before(&self) -> Option<anyhow::Result<Ledger>> {
        self.settled_ledger(Some(&Ok(Ledger::default())), trial::rest_of_verification(self.run.plan))
    }

    /// The upstream's ledger after a load. If clients leave streams of tokens, a gateway may keep reading
    /// them. Their tokens belong to this load, and not to the next one.
    fn ledger_after(&self, before: Option<&anyhow::Result<Ledger>>) -> Option<anyhow::Result<Ledger>> {
        self.settled_ledger(before, trial::longest_rest(self.run.plan))
    }

    /// The upstream's ledger, when all streams of tokens since `before` have ended or this time has passed.
    fn settled_ledger(
        &self,
        before: Option<&anyhow::Result<Ledger>>,
        longest: Duration,
    ) -> Option<anyhow::Result<Ledger>> {
        let until = clock::now() + longest.as_nanos() as u64;
        loop {
            let after = self.upstream.ledger();
            let is_over = clock::now() >= until || self.run.is_interrupted();
            if is_over || !trial::is_sending_tokens(before, after.as_ref()) {
                return after;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How far the roles' CPUs are from each other now: two CPUs, and the round trip between them in ns.
    fn cpu_distances(&mut self) -> Vec<([u32; 2], f64)> {
        let pairs = self.run.cpu_pairs();
        let measured = pairs
            .into_iter()
            .filter_map(|[one, other]| Some(([one, other], self.traffic.cpu_round_trip_ns(one, other)?)));
        measured.collect()
    }
}

/// True if the plan's upstream is set up to send a status that is no success by default.
fn sends_other_status(upstream: &Upstream) -> bool {
    matches!(upstream, Upstream::BuiltIn(built_in) if !(200..400).contains(&built_in.status))
}

/// True if the body of a response differs each time. The messages of a server's stream have times.
fn varies(target: &Target) -> bool {
    target.varies || target.stream.is_some_and(|stream| stream.kind == StreamKind::ServerStream)
}

/// Names of the headers that are not compared with direct's. A gateway may agree on other extensions of a
/// WebSocket than direct does, which a finding reports.
fn ignored_headers(target: &Target) -> Vec<String> {
    let is_socket = target.stream.is_some_and(|stream| stream.carrier == Carrier::WebSocket);
    let extensions = is_socket.then(|| hoptax_format::websocket::EXTENSIONS.to_owned());
    target.ignore_headers.iter().cloned().chain(extensions).collect()
}

/// The check of the status that a target has by default.
fn default_status(target: &TargetSpec) -> Option<Check> {
    let statuses = match target.stream.map(|stream| stream.carrier) {
        Some(Carrier::WebSocket) => (101, 101),
        _ => (200, 399),
    };
    let (own, default) = match target.grpc {
        true => (Check::Grpc(Vec::new()), Check::Grpc(vec![Status::Ok])),
        false => (Check::Status(Vec::new()), Check::Status(vec![statuses])),
    };
    let is_own = |check: &Check| std::mem::discriminant(check) == std::mem::discriminant(&own);
    (!target.checks.iter().any(is_own)).then_some(default)
}

/// If a service died, the death of the service is the cause of the failure. The generator's failure then
/// becomes a detail of this cause.
fn explained(failure: Option<Failure>, death: Option<Failure>) -> Option<Failure> {
    let Some(death) = death else { return failure };
    let quoted = failure.map(|failure| format!("{}\n{}\n", failure.message, failure.detail));
    Some(Failure { detail: quoted.unwrap_or_default().trim_start().to_owned() + &death.detail, ..death })
}

/// Adds the usual cause to the failed verification of a gateway that hoptax did not configure.
fn about_external(failure: Failure, upstream: &Address) -> Failure {
    let is_status = |status: u16| failure.message.contains(&format!("status {status} instead of"));
    let cause = match is_status(429) || is_status(503) {
        true => "If its rate limit rejected the request, write in the target: expect: { rate_limit: 1000/s }"
            .into(),
        false => format!("hoptax did not configure it: it must forward to the plan's upstream, {upstream}"),
    };
    Failure { message: format!("{}. {cause}", failure.message), ..failure }
}

fn note_facts(contender: &mut ContenderRecord, facts: &Facts) {
    contender.version.clone_from(&facts.version);
    contender.workers = facts.workers.or(contender.workers);
    contender.settings.clone_from(&facts.settings);
    contender.counters.clone_from(&facts.counters);
    contender.rendered.clone_from(&facts.rendered);
    contender.found_process.clone_from(&facts.found_process);
    contender.address_note.clone_from(&facts.address_note);
}

mod profiles;
mod tails;
#[cfg(test)]
mod tests;

#[cfg(test)]
hoptax_pages::stated! {
    FINDINGS "once per run if that is {} or more" bytes(LARGE_BODY);
}

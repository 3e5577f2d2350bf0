//! The run under examination, as the checks see it.

use crate::hosts::vantage;
use crate::starts::Starts;
use crate::trials::trial::Trial;
use hoptax_format::messages::{Carrier, StreamSpec};
use hoptax_plan::{BuiltInUpstream, Gateway, LlmFailureKind, Upstream, UpstreamEvents};
use hoptax_record::report::{Case, NoiseFloor, SlowFigures};
use hoptax_record::start::StartRecord;
use hoptax_record::{HostLook, Placement, Role, RunRecord, TrialRecord};

/// Status of an accepted WebSocket over HTTP/1.
const SWITCHING_PROTOCOLS: u16 = 101;

/// A run, and the results that the checks need.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// Every case, with its valid trials.
    pub cases: &'a [(Case, Vec<Trial<'a>>)],
    /// All trials, also those of searches.
    pub records: &'a [TrialRecord],
    /// The noise floor of each load point.
    pub noise_floor: &'a [NoiseFloor],
    /// How the CPUs of the roles were placed.
    pub placements: &'a [Placement],
    /// The starts of a run that measured starts.
    pub starts: &'a [StartRecord],
    /// The figures of these starts.
    pub of_starts: &'a [Starts],
    /// Why slow requests took longer, of a run that explained them.
    pub slow: &'a [SlowFigures],
}

/// The checks of a host.
pub(super) struct Looks<'a> {
    /// The host in words. Absent in a run on one host.
    pub(super) host: Option<String>,
    /// Before the first trial.
    pub(super) start: Option<&'a HostLook>,
    /// After the last trial.
    pub(super) end: Option<&'a HostLook>,
}

impl Looks<'_> {
    /// The host at the beginning of a sentence: `The host`, or `Host edge (gateway)`.
    pub(super) fn named(&self) -> String {
        self.host.as_ref().map_or_else(|| "The host".into(), |host| host.replacen('h', "H", 1))
    }
}

impl<'a> Subject<'a> {
    /// Time limit of a request, ns.
    pub(super) fn timeout_ns(&self) -> u64 {
        u64::try_from(self.run.plan.timeout.total.as_nanos()).unwrap_or(u64::MAX)
    }

    /// True if the plan's events caused all rejections in these trials. The report shows such rejections with
    /// the figures of the events.
    pub(super) fn rejects_by_events_only(&self, trials: &[Trial<'_>]) -> bool {
        let timeout = self.timeout_ns();
        !trials.is_empty() && trials.iter().all(|trial| trial.rejects_by_events_only(timeout))
    }

    /// True if a response with this status is a rejection: the status is outside of 200 to 399, the plan's
    /// upstream does not send it, and no target expects it.
    pub(super) fn is_rejection(&self, status: u16) -> bool {
        let plan = &self.run.plan;
        let sent = matches!(&plan.upstream, Upstream::BuiltIn(upstream) if sends(upstream, status));
        let opened = status == SWITCHING_PROTOCOLS && self.has_websockets();
        let expected = sent || opened || plan.targets.iter().any(|target| target.expects_status(status));
        !(200..400).contains(&status) && !expected
    }

    /// What carries the messages of the plan's streams. If targets differ, the carrier of the first stream.
    pub(super) fn carrier(&self) -> Carrier {
        let mut streams = self.run.plan.targets.iter().filter_map(|target| target.stream);
        streams.next().map_or_else(Carrier::default, |stream| stream.carrier)
    }

    /// The event streams and WebSockets of the plan.
    fn streams(&self) -> impl Iterator<Item = StreamSpec> {
        let streams = self.run.plan.targets.iter().filter_map(|target| target.stream);
        streams.filter(|stream| !stream.carrier.is_grpc())
    }

    /// True if a target is an event stream or a WebSocket, or a stream whose messages have a schedule. An
    /// exchange then takes about as long as its schedule.
    pub(super) fn has_scheduled_streams(&self) -> bool {
        let mut calls = self.run.plan.targets.iter().filter_map(|target| target.stream);
        calls.any(|stream| !stream.carrier.is_grpc() || stream.every_ns > 0)
    }

    /// True if a target is a WebSocket. Over HTTP/1, each has a connection of its own.
    pub(super) fn has_websockets(&self) -> bool {
        self.streams().any(|stream| stream.carrier == Carrier::WebSocket)
    }

    /// True if a target is a request to a language model. Its response takes the time that the model takes.
    pub(super) fn has_language_model(&self) -> bool {
        self.run.plan.targets.iter().any(|target| target.llm.is_some())
    }

    /// True if a target is an event stream.
    pub(super) fn has_events(&self) -> bool {
        self.streams().any(|stream| stream.carrier == Carrier::Events)
    }

    /// True if an event stream or a WebSocket has no known number of messages, or the client leaves early.
    /// The length of an exchange then says nothing about a gateway.
    pub(super) fn has_open_ended_streams(&self) -> bool {
        self.streams().any(|stream| stream.to_receive().is_none() || is_left(stream))
    }

    /// True if all targets are event streams or WebSockets that the client ends.
    pub(super) fn has_only_endless_streams(&self) -> bool {
        let endless = self.streams().filter(|stream| stream.is_endless() || is_left(*stream)).count();
        endless > 0 && endless == self.run.plan.targets.len()
    }

    /// Longest time between two messages of an event stream or a WebSocket by its schedule, ns. 0 if it is
    /// not known.
    pub(super) fn longest_silence_ns(&self) -> u64 {
        self.streams().map(|stream| stream.every_ns).max().unwrap_or(0)
    }

    /// How long the longest event stream or WebSocket lasts by its schedule, ns. If one ends with the load,
    /// `u64::MAX`.
    pub(super) fn longest_stream_ns(&self) -> u64 {
        let of_upstream = match &self.run.plan.upstream {
            Upstream::BuiltIn(upstream) => match (&upstream.llm, &upstream.events) {
                (Some(llm), _) if self.has_language_model() => {
                    Some(llm.first_token.mean() + llm.length(llm.tokens))
                }
                (_, events) => events.as_ref().map(UpstreamEvents::length),
            },
            Upstream::Running(_) => None,
        };
        let length = |stream: StreamSpec| match (stream.is_endless(), stream.carrier, of_upstream) {
            (true, ..) => u64::MAX,
            (false, Carrier::Events, Some(length)) => u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
            (false, ..) => stream.length_ns(),
        };
        self.streams().map(length).max().unwrap_or(0)
    }

    /// A machine in words, by name and roles during a load: `host edge (gateway)`. If `machine` is absent, it
    /// is the first machine that sends this load. `None` in a run on one host.
    pub(super) fn host_in_words(&self, load: usize, machine: Option<&str>) -> Option<String> {
        let hosts = &self.run.hosts;
        let name = match machine {
            Some(name) => hosts.get_key_value(name)?.0,
            None => vantage::generators(self.run, load).first().copied()?,
        };
        let roles = vantage::roles(self.run, load, name);
        Some(format!("host {name} ({})", Role::names(&roles, ", ")))
    }

    /// Words for a place in a sentence: ` on host edge (gateway)`. Empty in a run on one host.
    pub(super) fn on_host(&self, load: usize, machine: Option<&str>) -> String {
        self.host_in_words(load, machine).map_or(String::new(), |host| format!(" on {host}"))
    }

    /// A host in words, with its roles in any load.
    fn host_of_run(&self, name: &str) -> Option<String> {
        let host = self.run.hosts.get(name)?;
        Some(format!("host {name} ({})", Role::names(&host.roles, ", ")))
    }

    /// The checks of each host. In a run on one host, its name is absent.
    pub(super) fn looks(&self) -> Vec<Looks<'a>> {
        let run = self.run;
        let generators = Looks {
            host: vantage::first_generator(run).and_then(|name| self.host_of_run(name)),
            start: run.host_at_start.as_ref(),
            end: run.host_at_end.as_ref(),
        };
        let others = run.hosts.iter().map(|(name, host)| Looks {
            host: self.host_of_run(name),
            start: host.at_start.as_ref(),
            end: host.at_end.as_ref(),
        });
        std::iter::once(generators).chain(others).collect()
    }

    pub(super) fn measured(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.cases.iter().filter(|(case, _)| case.trials > 0).map(|(case, trials)| (case, trials.as_slice()))
    }

    pub(super) fn gateways(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.measured().filter(|(case, _)| !case.is_direct())
    }

    pub(super) fn gateway(&self, label: &str) -> Option<&'a Gateway> {
        self.run.plan.gateways.iter().find(|gateway| gateway.label == label)
    }

    /// Pairs of a gateway's case and direct's case at the same load point. A pair is left out if one of its
    /// cases was not measured.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Measured<'a>, Measured<'a>)> {
        self.gateways().filter_map(|via| Some((via, self.direct(via.0.load.index)?)))
    }

    pub(super) fn direct(&self, load: usize) -> Option<Measured<'a>> {
        self.measured().find(|(case, _)| case.is_direct() && case.load.index == load)
    }
}

/// True if the client leaves a stream of tokens on purpose.
fn is_left(stream: StreamSpec) -> bool {
    stream.tokens.is_some_and(|tokens| tokens.leave.is_some())
}

/// True if the upstream sends this status, always or as a failure of its language model.
fn sends(upstream: &BuiltInUpstream, status: u16) -> bool {
    let mut failures = upstream.llm.iter().flat_map(|llm| &llm.failures);
    let is_failure = failures.any(|failure| match failure.kind {
        LlmFailureKind::RateLimit => status == 429,
        LlmFailureKind::ServerError => status == 500,
        LlmFailureKind::Overloaded => matches!(status, 503 | 529),
        LlmFailureKind::ErrorEvent | LlmFailureKind::Cut | LlmFailureKind::Silence => false,
    });
    is_failure || upstream.status == status
}

pub(super) type Measured<'a> = (&'a Case, &'a [Trial<'a>]);

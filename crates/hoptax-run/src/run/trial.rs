//! Load spec and record of one trial. All functions are pure.

use super::inputs::Run;
use super::traffic::Loaded;
use crate::schedule::{Contender, Slot};
use hoptax_format::Address;
use hoptax_format::random::Random;
use hoptax_format::record::{Cause, LoadRecord};
use hoptax_format::spec::{LoadSpec, Rate, Shape, Timeouts};
use hoptax_lab::{Observed, Service, counters};
use hoptax_plan::{LlmFailureKind, LoadPoint, PathSplit, Plan, Upstream, UpstreamLlm, units};
use hoptax_record::{CpuRoundTrip, Failure, LedgerDelta, SCHEMA, Stage, StepPurpose, TrialRecord};
use hoptax_servers::ledger::Ledger;
use std::time::Duration;

/// Mixed into the seed, so that the arrivals do not use the same random numbers as other random choices. The
/// bytes spell "arrival".
const ARRIVALS: u64 = 0x0061_7272_6976_616c;

/// The generator's load spec for this slot. At the same load point of a round, all contenders get the same
/// arrivals.
pub fn load_spec(run: &Run<'_>, slot: &Slot, addresses: Vec<impl Into<Address>>) -> LoadSpec {
    let addresses: Vec<Address> = addresses.into_iter().map(Into::into).collect();
    let (plan, cpus) = (run.plan, run.cpus.generator.clone());
    let LoadPoint {
        mut shape,
        mut connections,
        streams,
        mut duration,
        requests,
        requests_per_connection,
        retry,
        http,
        from: _,
        search,
        left_out: _,
    } = plan.load[slot.load].clone();
    // Each step of a search has its own rate, or its own number of connections in a closed loop. A confirming
    // step also has its own duration.
    if let (Some(step), Some(search)) = (slot.step, search) {
        match &mut shape {
            Shape::Open { rate, .. } => *rate = Rate::Fixed(step.rate),
            Shape::Closed => connections = step.rate as u32,
        }
        if step.purpose == StepPurpose::Confirm {
            duration = search.confirm;
        }
    }
    let warmup_ns = nanoseconds(warmup(plan, &shape, connections));
    let arrivals = u64::from(slot.round) << 32 | slot.load as u64;
    let mut targets = run.contents.targets(&plan.targets, &units::host_header_of(false, &addresses[0]));
    // hoptax-remote corrects this if the generator is on another host than the upstream.
    let same_clock = matches!(plan.upstream, Upstream::BuiltIn(_));
    targets.iter_mut().filter_map(|target| target.stream.as_mut()).for_each(|it| it.same_clock = same_clock);
    LoadSpec {
        files: run.contents.files.clone(),
        sources: plan.sources.clone(),
        http,
        streams,
        requests_per_connection,
        retry,
        shape,
        connections,
        warmup_ns,
        duration_ns: nanoseconds(duration),
        requests,
        timeouts: Timeouts {
            connect_ns: nanoseconds(plan.timeout.connect),
            first_byte_ns: nanoseconds(plan.timeout.first_byte),
            total_ns: nanoseconds(plan.timeout.total),
        },
        workers: (cpus.len() as u32).clamp(1, connections),
        shares_cpus: cpus.iter().any(|cpu| run.cpus.upstream.contains(cpu) || run.cpus.gateway.contains(cpu)),
        cpus,
        seed: Random::stream(run.seed ^ ARRIVALS, arrivals).next_u64(),
        stamps: plan.path_split == PathSplit::On,
        ..LoadSpec::closed(addresses, targets)
    }
}

/// Longest warm-up that is chosen only so that each connection gets a request.
const EACH_CONNECTION_ONCE: Duration = Duration::from_secs(2);

/// Warm-up before a trial. Unless the plan has a fixed warm-up, it lasts until each connection of an open
/// loop has had a request, because the first request on a connection costs a gateway more than the others.
fn warmup(plan: &Plan, shape: &Shape, connections: u32) -> Duration {
    match (plan.until_settled, shape) {
        (Some(_), Shape::Open { rate: Rate::Fixed(rate), .. }) => {
            let each_once = (f64::from(connections) / rate).min(EACH_CONNECTION_ONCE.as_secs_f64());
            plan.warmup.max(Duration::from_secs_f64(each_once))
        }
        _ => plan.warmup,
    }
}

/// The record of a measured trial.
pub(super) fn record(
    number: usize,
    slot: &Slot,
    label: &str,
    loaded: Loaded,
    ledger: Result<Option<LedgerDelta>, Failure>,
) -> TrialRecord {
    let Loaded { record, usage, generators, failed } = loaded;
    // In a search, a trial without any answers is a valid result for its rate.
    let must_answer = record.as_ref().filter(|_| slot.step.is_none());
    let nothing_completed = must_answer.and_then(nothing_answered);
    let (ledger, ledger_failed) = match ledger {
        Ok(ledger) => (ledger, None),
        Err(failure) => (None, Some(failure)),
    };
    TrialRecord {
        failed: failed.or(ledger_failed).or(nothing_completed),
        load_record: record,
        generator: usage.generator,
        generators,
        gateway: usage.gateway,
        upstream: usage.upstream,
        host: usage.host,
        network: usage.network,
        hosts: usage.hosts,
        ledger,
        ..blank(number, slot, label)
    }
}

/// The failure of a load without a single answer. `None` if there was one.
pub(super) fn nothing_answered(record: &LoadRecord) -> Option<Failure> {
    let counts = &record.counts;
    let causes = counts.errors.iter().map(|(cause, count)| format!("{count} × {cause}"));
    let of = |cause: Cause| counts.causes.get(&cause).copied().unwrap_or(0);
    let closed = of(Cause::ClosedBeforeResponse) + of(Cause::ResetBeforeResponse);
    let usual = if closed > 0 && closed == counts.resets {
        ". Each connection ended before the first byte of a response: the service may serve another host \
         (the target's header `host`), or expect TLS, HTTP/2 or the PROXY protocol"
    } else if of(Cause::NotHttp2) > 0 {
        ". The service does not speak HTTP/2 there: write http: 1.1, or switch on HTTP/2 in the service"
    } else {
        ""
    };
    (counts.completed == 0).then(|| Failure {
        stage: Stage::Trial,
        message: format!(
            "none of {} requests was answered: {} timeouts, {} connect errors, {} resets, {} bad \
            responses{usual}",
            counts.scheduled, counts.timeouts, counts.connect_errors, counts.resets, counts.bad_responses
        ),
        detail: causes.collect::<Vec<_>>().join("\n"),
    })
}

/// The distances of CPUs before and after a trial, for the pairs of CPUs that have both.
pub(super) fn round_trips(before: &[([u32; 2], f64)], after: &[([u32; 2], f64)]) -> Vec<CpuRoundTrip> {
    let later = |cpus| after.iter().find(|(of, _)| *of == cpus).map(|(_, ns)| *ns);
    let both =
        |&(cpus, before_ns): &([u32; 2], f64)| Some(CpuRoundTrip { cpus, before_ns, after_ns: later(cpus)? });
    before.iter().filter_map(both).collect()
}

/// Adds the growth of the gateway's own counters and log during the trial to the record.
pub(super) fn note_observed(trial: &mut TrialRecord, before: &Observed, after: &Observed) {
    trial.gateway_log_bytes = match (before.log_bytes, after.log_bytes) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before)),
        _ => None,
    };
    trial.gateway_counters = counters::growth(&before.counters, &after.counters);
}

/// Adds CPU time and memory of a gateway that runs elsewhere to the record, if somebody monitors it for
/// hoptax. Fails if they are not known. The trial itself is good.
pub(super) fn note_used_elsewhere(trial: &mut TrialRecord, service: &dyn Service) -> Result<(), Failure> {
    let Some(record) = &trial.load_record else { return Ok(()) };
    match service.used(record.started_ns, record.started_ns + record.measured_ns) {
        Some(Ok(usage)) => trial.gateway = Some(usage),
        Some(Err(reason)) => {
            let message = format!("its CPU time and memory in this trial are not known: {reason}");
            return Err(Failure::new(Stage::Trial, message));
        }
        None => {}
    }
    Ok(())
}

/// The record of a trial that was not measured because its gateway had failed.
pub(super) fn not_measured(number: usize, slot: &Slot, label: &str, failure: Failure) -> TrialRecord {
    TrialRecord { failed: Some(failure), ..blank(number, slot, label) }
}

fn blank(number: usize, slot: &Slot, label: &str) -> TrialRecord {
    TrialRecord {
        schema: SCHEMA,
        round: slot.round,
        sequence: number as u32,
        contender: label.to_owned(),
        load: slot.load as u32,
        direct: match slot.contender {
            Contender::Direct(which) => Some(which),
            Contender::Gateway(_) => None,
        },
        step: slot.step,
        ..TrialRecord::default()
    }
}

/// Longest time after a load in which the upstream may still send tokens to a gateway whose clients have
/// left. Zero if no client leaves a stream of tokens.
pub(super) fn longest_rest(plan: &Plan) -> Duration {
    /// Streams begin and end a little later via a gateway.
    const LATER: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(10);
    let mut tokens = plan.targets.iter().filter_map(|target| target.stream?.tokens);
    match &plan.upstream {
        Upstream::BuiltIn(upstream) if tokens.any(|tokens| tokens.leave.is_some()) => {
            let before = |model: &UpstreamLlm| upstream.delay.mean().saturating_add(model.first_token.mean());
            let length = |model: &UpstreamLlm| before(model).saturating_add(model.length(model.tokens));
            upstream.llm.as_ref().map_or(Duration::ZERO, length).saturating_add(LATER).min(MOST)
        }
        _ => Duration::ZERO,
    }
}

/// Longest time before a load in which streams of verification may still get tokens. Zero if the upstream
/// sends none, or if some of its streams never end.
pub(super) fn rest_of_verification(plan: &Plan) -> Duration {
    let Upstream::BuiltIn(upstream) = &plan.upstream else { return Duration::ZERO };
    let Some(model) = &upstream.llm else { return Duration::ZERO };
    let is_silent = model.failures.iter().any(|failure| failure.kind == LlmFailureKind::Silence);
    if is_silent { Duration::ZERO } else { Duration::from_secs(1) }
}

/// True if streams of tokens that began between two readings of the upstream's ledger have not ended.
pub(super) fn is_sending_tokens(
    before: Option<&anyhow::Result<Ledger>>,
    after: Option<&anyhow::Result<Ledger>>,
) -> bool {
    let (Some(Ok(before)), Some(Ok(after))) = (before, after) else { return false };
    after.since(before).llm.is_some_and(|llm| {
        let broken = |kind: LlmFailureKind| llm.failures.get(kind.name()).copied().unwrap_or(0);
        let broken = broken(LlmFailureKind::Cut) + broken(LlmFailureKind::ErrorEvent);
        llm.streams > llm.ended + llm.left + broken
    })
}

/// The upstream's counts between two readings of its ledger. `None` if the upstream has no ledger.
pub(super) fn ledger_delta(
    before: Option<anyhow::Result<Ledger>>,
    after: Option<anyhow::Result<Ledger>>,
) -> Result<Option<LedgerDelta>, Failure> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
    let unreadable = |error: anyhow::Error| Failure {
        stage: Stage::Trial,
        message: "cannot read the upstream's ledger. Is the upstream still running?".to_owned(),
        detail: format!("{error:#}"),
    };
    let before = before.map_err(unreadable)?;
    Ok(Some(after.map_err(unreadable)?.since(&before)))
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

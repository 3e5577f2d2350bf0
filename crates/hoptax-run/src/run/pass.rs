//! Order, load and record of profiling passes. All functions are pure.

use super::traffic::{Recorded, Usage};
use super::trial::nanoseconds;
use hoptax_format::clock::MILLISECOND;
use hoptax_format::random::Random;
use hoptax_format::record::{LoadRecord, WINDOW_NS};
use hoptax_format::spec::{LoadSpec, Rate, Shape};
use hoptax_host::profile::Span;
use hoptax_lab::Profiling;
use hoptax_plan::{CpuProfile, Plan};
use hoptax_record::profile::{PassKind, PassRecord, Slice};
use hoptax_record::{Failure, RoleUsage};
use std::time::Duration;

/// Number of windows in a slice. With 499 samples per second, a gateway that uses a third of a CPU has about
/// 80 samples in half a second.
const WINDOWS: usize = 5;

/// Shortest warm-up of a pass. It hides the start of the profiler.
const WARMUP_NS: u64 = 500 * MILLISECOND;

/// Waiting threads are profiled once in this number of rounds. Users ask about them less often, and recording
/// switches costs more than recording samples.
const WAITING_EVERY: u32 = 2;

/// Mixed into the seed, so that the order does not use the same random numbers as other random choices. The
/// bytes spell "profile".
const ORDER: u64 = 0x0070_726f_6669_6c65;

/// One pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) round: u32,
    /// Index of the gateway in the plan.
    pub(super) gateway: usize,
    /// Index of the load point in the plan.
    pub(super) load: usize,
    pub(super) kind: PassKind,
}

/// All passes of a run, in order. Each round has every gateway at every load point that rounds measure, in
/// random order.
pub(super) fn order(plan: &Plan, asked: CpuProfile, seed: u64) -> Vec<Turn> {
    let loads: Vec<usize> = (0..plan.load.len()).filter(|load| plan.load[*load].is_in_rounds()).collect();
    let mut random = Random::stream(seed, ORDER);
    let mut turns = Vec::new();
    for round in 0..asked.passes {
        let kinds = [PassKind::Cpu, PassKind::Waiting];
        let kinds = &kinds[..if round.is_multiple_of(WAITING_EVERY) { 2 } else { 1 }];
        let mut of_round = Vec::new();
        for gateway in 0..plan.gateways.len() {
            for &load in &loads {
                of_round.extend(kinds.iter().map(|&kind| Turn { round, gateway, load, kind }));
            }
        }
        random.shuffle(&mut of_round);
        turns.append(&mut of_round);
    }
    turns
}

/// Changes the load of a trial to that of a pass. A load with stages keeps its duration.
pub(super) fn fit(spec: &mut LoadSpec, duration: Duration) {
    spec.requests = None;
    spec.warmup_ns = spec.warmup_ns.max(WARMUP_NS);
    if !matches!(spec.shape, Shape::Open { rate: Rate::Stages(_), .. }) {
        spec.duration_ns = nanoseconds(duration);
    }
}

/// The slices of the measured time of a load. A last part that is shorter than a window is left out.
pub(super) fn spans(record: &LoadRecord) -> Vec<Span> {
    spans_of(record.started_ns, record.measured_ns, record.windows.len())
}

fn spans_of(started_ns: u64, measured_ns: u64, windows: usize) -> Vec<Span> {
    let windows = windows.min((measured_ns / WINDOW_NS) as usize);
    let at = |window: usize| started_ns + window as u64 * WINDOW_NS;
    let begins = (0..windows).step_by(WINDOWS);
    begins.map(|begin| Span { from_ns: at(begin), to_ns: at((begin + WINDOWS).min(windows)) }).collect()
}

/// The record of a pass.
pub(super) fn record(
    turn: Turn,
    label: &str,
    profiling: &Profiling,
    load: &LoadRecord,
    usage: Usage,
    recorded: Recorded,
) -> PassRecord {
    let Recorded { stacks, profiler, sees_kernel } = recorded;
    let slice = |(index, span): (usize, Span)| {
        let windows = index * WINDOWS..index * WINDOWS + ((span.to_ns - span.from_ns) / WINDOW_NS) as usize;
        let cpu = |usage: &RoleUsage| Some(usage.cpu_ns_by_window.get(windows.clone())?.iter().sum::<u64>());
        Slice {
            length_ns: span.to_ns - span.from_ns,
            requests: load.windows[windows.clone()].iter().map(|window| window.completed).sum(),
            cpu_ns: usage.gateway.as_ref().and_then(cpu),
            stacks: stacks.slices[index].clone(),
        }
    };
    let slices = spans(load).into_iter().enumerate().map(slice).collect();
    let hosts = usage.hosts.into_iter().filter_map(|(name, host)| Some((name, host.usage?)));
    PassRecord {
        host: Some(usage.host),
        hosts: hosts.collect(),
        callers: profiling.callers,
        symbols: profiling.symbols.clone(),
        profiler,
        sees_kernel,
        lost: stacks.lost,
        samples: stacks.samples,
        frames: stacks.frames,
        stacks: stacks.stacks,
        slices,
        ..blank(turn, label)
    }
}

/// The record of a pass that could not be made.
pub(super) fn failed(turn: Turn, label: &str, failure: Failure) -> PassRecord {
    PassRecord { failed: Some(failure), ..blank(turn, label) }
}

fn blank(turn: Turn, label: &str) -> PassRecord {
    let Turn { round, load, kind, .. } = turn;
    PassRecord { round, contender: label.to_owned(), load: load as u32, kind, ..PassRecord::default() }
}

#[cfg(test)]
hoptax_pages::stated! {
    PLAN "slices of {} of all passes are the batches" windows(WINDOWS as u64);
    PLAN "Every {} one also records where threads wait" ordinal(WAITING_EVERY);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::LoadPoint;
    use std::collections::BTreeSet;

    fn plan() -> Plan {
        let mut plan = hoptax_lab::fake::plan(Vec::new(), 50);
        let gateway = |label: &str| hoptax_plan::Gateway {
            label: label.into(),
            kind: hoptax_plan::GatewayKind::Hop(hoptax_plan::HopKind::L7),
        };
        plan.gateways = vec![gateway("a"), gateway("b")];
        let point = LoadPoint::closed(2, Duration::from_secs(1));
        let left_out = LoadPoint { left_out: Some("too many connections".into()), ..point.clone() };
        plan.load = vec![point.clone(), left_out, point];
        plan
    }

    #[test]
    fn each_round_has_every_case_once_and_some_rounds_record_waiting() {
        let asked = CpuProfile { passes: 3, duration: Duration::from_secs(1) };
        let turns = order(&plan(), asked, 4);
        assert_eq!(turns, order(&plan(), asked, 4), "a seed always gives the same order");
        assert_ne!(turns, order(&plan(), asked, 5));
        for round in 0..3 {
            let of = |kind: PassKind| {
                let of_round = turns.iter().filter(|turn| turn.round == round && turn.kind == kind);
                of_round.map(|turn| (turn.gateway, turn.load)).collect::<Vec<_>>()
            };
            let (cpu, waiting) = (of(PassKind::Cpu), of(PassKind::Waiting));
            let distinct: BTreeSet<_> = cpu.iter().copied().collect();
            assert_eq!((cpu.len(), distinct), (4, [(0, 0), (0, 2), (1, 0), (1, 2)].into()));
            assert_eq!(waiting.len(), if round == 1 { 0 } else { 4 });
        }
    }

    #[test]
    fn slices_have_whole_windows() {
        let lengths = |windows, measured_ns| {
            let spans = spans_of(1_000, measured_ns, windows);
            spans.iter().map(|span| span.to_ns - span.from_ns).collect::<Vec<_>>()
        };
        assert_eq!(lengths(12, 12 * WINDOW_NS), [5 * WINDOW_NS, 5 * WINDOW_NS, 2 * WINDOW_NS]);
        assert_eq!(lengths(12, 11 * WINDOW_NS + 5), [5 * WINDOW_NS, 5 * WINDOW_NS, WINDOW_NS]);
        assert_eq!(spans_of(1_000, 5 * WINDOW_NS, 5)[0].from_ns, 1_000);
        assert!(lengths(0, 0).is_empty());
    }
}

//! Why slow requests were slow: what the scheduler did meanwhile.
//!
//! For each request beyond p99, and for as many near the median, each nanosecond of the response time gets
//! one cause ([`explain`]). [`tails`] then divides the extra time of the slow requests between the causes.

mod cast;
mod figures;
mod timeline;
mod walk;

#[cfg(test)]
mod tests;

pub use figures::tails;

use cast::{Busy, Cast, Outputs};
use hoptax_format::clock::MILLISECOND;
use hoptax_format::moments::{Moment, Moments};
use hoptax_record::Role;
use hoptax_record::tail::{
    CpuLane, Doing, Lane, SlowRequest, SwitchTrace, TailCause, TailGroup, TailPass, TailSlice,
};
use std::collections::BTreeMap;
use timeline::{IDLE, Timeline};
use walk::Evidence;

/// Share of the requests that are slow.
const SLOW: f64 = 0.01;

/// Maximum number of slow requests of a pass. If there are more, evenly spaced ones are explained.
const MOST_SLOW: usize = 500;

/// Length of a slice, ns.
const SLICE_NS: u64 = 500 * MILLISECOND;

/// Number of the slowest requests of a pass that are recorded with all their pieces.
const SLOWEST: usize = 10;

/// Maximum number of threads of a role that the picture of a request shows.
const MOST_LANES: usize = 4;

/// Explains the slow requests of a pass. The load can have `concurrency` requests in flight. `disturbed` has
/// the times in which the hypervisor took CPU time, ns on the clock of the moments. Returns `blank` with
/// the results filled in.
pub fn explain(
    trace: &SwitchTrace,
    moments: &Moments,
    concurrency: u32,
    disturbed: &[(u64, u64)],
    blank: TailPass,
) -> TailPass {
    let timeline = Timeline::new(trace);
    let cast = Cast::new(trace, moments);
    let (outputs, busy) = (Outputs::new(moments), Busy::new(moments, concurrency));
    let has_gateway = !trace.gateway.is_empty();
    let evidence = Evidence { timeline: &timeline, cast: &cast, outputs: &outputs, busy: &busy, has_gateway };
    let (first, last) = timeline.extent().unwrap_or((u64::MAX, 0));
    let seen = |one: &&Moment| one.scheduled >= first && one.completed <= last;
    let mut order: Vec<&Moment> = moments.requests.iter().filter(seen).collect();
    order.sort_by_key(|one| (one.response_time(), one.scheduled));
    let mut pass = TailPass {
        recorder: trace.recorder.clone(),
        requests: order.len() as u64,
        left_out: moments.left_out,
        lost: trace.lost,
        ..blank
    };
    let slow = (order.len() as f64 * SLOW) as usize;
    if slow == 0 {
        return pass;
    }
    let (middle, tail) = (order.len() / 2, order.len() - slow);
    pass.p50_ns = order[middle].response_time();
    pass.p99_ns = order[tail - 1].response_time();
    let usual = middle - slow / 2..middle - slow / 2 + slow;
    let mut sums = Sums { evidence: &evidence, causes: BTreeMap::new(), start: first, slices: Vec::new() };
    for one in spaced(&order[tail..]) {
        sums.add(one, |slice| &mut slice.slow);
    }
    for one in spaced(&order[usual]) {
        sums.add(one, |slice| &mut slice.usual);
    }
    pass.slowest = order.iter().rev().take(SLOWEST.min(slow)).map(|one| sums.whole(one)).collect();
    pass.slices = std::mem::take(&mut sums.slices);
    for (index, slice) in pass.slices.iter_mut().enumerate() {
        let begin = first + index as u64 * SLICE_NS;
        slice.disturbed = disturbed.iter().any(|(from, to)| *from < begin + SLICE_NS && *to > begin);
    }
    pass.causes = sums.into_causes();
    pass
}

/// At most [`MOST_SLOW`] of these requests, evenly spaced.
fn spaced<'a>(all: &'a [&'a Moment]) -> impl Iterator<Item = &'a Moment> {
    let count = all.len().min(MOST_SLOW);
    (0..count).map(move |index| all[index * all.len() / count])
}

/// The causes of requests, added up by slice.
struct Sums<'a> {
    evidence: &'a Evidence<'a>,
    causes: BTreeMap<TailCause, u32>,
    /// Start of the first slice.
    start: u64,
    slices: Vec<TailSlice>,
}

impl Sums<'_> {
    fn index(&mut self, cause: TailCause) -> u32 {
        let next = self.causes.len() as u32;
        *self.causes.entry(cause).or_insert(next)
    }

    fn add(&mut self, one: &Moment, group: fn(&mut TailSlice) -> &mut TailGroup) {
        let slice = ((one.completed - self.start) / SLICE_NS) as usize;
        if self.slices.len() <= slice {
            self.slices.resize_with(slice + 1, TailSlice::default);
        }
        for (cause, ns) in walk::explain(self.evidence, one) {
            let index = self.index(cause);
            let times = &mut group(&mut self.slices[slice]).ns;
            match times.iter_mut().find(|(known, _)| *known == index) {
                Some((_, sum)) => *sum += ns,
                None => times.push((index, ns)),
            }
        }
        group(&mut self.slices[slice]).requests += 1;
    }

    /// A request with its causes, and with what threads and CPUs did meanwhile.
    fn whole(&mut self, one: &Moment) -> SlowRequest {
        let pieces = walk::explain(self.evidence, one);
        let pieces = pieces.into_iter().map(|(cause, ns)| (self.index(cause), ns)).collect();
        let Evidence { timeline, cast, .. } = self.evidence;
        let (from, to) = (one.scheduled, one.completed);
        let lane = |role: Role, thread: u32| {
            let spans = timeline.spans(thread, from, to);
            let spans: Vec<(u64, u64, Doing)> =
                spans.iter().map(|span| (span.from - from, span.to - from, span.doing)).collect();
            let awake = spans.iter().any(|(_, _, doing)| *doing != Doing::Asleep);
            awake.then(|| Lane { role, thread: cast.name(thread), spans })
        };
        let lanes_of = |role: Role| {
            let threads = cast.threads(role).iter().filter_map(move |thread| lane(role, *thread));
            threads.take(MOST_LANES).collect::<Vec<_>>()
        };
        let roles = [Role::Generator, Role::Gateway, Role::Upstream];
        let on_cpu = |cpu: u32| {
            let held = timeline.holders(cpu, from, to).into_iter().filter(|run| run.2 != IDLE);
            let spans = held.map(|(begin, end, thread)| (begin - from, end - from, cast.name(thread)));
            CpuLane { cpu, spans: spans.collect() }
        };
        SlowRequest {
            moment: *one,
            pieces,
            lanes: roles.into_iter().flat_map(lanes_of).collect(),
            cpus: timeline.cpus().map(on_cpu).collect(),
        }
    }

    fn into_causes(self) -> Vec<TailCause> {
        let mut causes: Vec<(TailCause, u32)> = self.causes.into_iter().collect();
        causes.sort_unstable_by_key(|(_, index)| *index);
        causes.into_iter().map(|(cause, _)| cause).collect()
    }
}

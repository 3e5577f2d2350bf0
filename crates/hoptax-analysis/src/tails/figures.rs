//! Divides the extra time of slow requests between its causes. The extra time is the time that they take
//! longer than requests near the median.

use hoptax_record::report::{Load, SlowCause, SlowFigures};
use hoptax_record::tail::{Holder, TailCause, TailKind, TailPass};
use hoptax_record::{Role, RunRecord};
use hoptax_stats::Slices;
use std::collections::BTreeMap;

/// Number of slowest requests of a case.
const SLOWEST: usize = 10;

/// Largest share of disturbed slices that are left out. A slice is disturbed if the hypervisor took CPU time
/// in it: the interrupted thread then seems to run. If more slices are disturbed, all count.
const MOST_DISTURBED: f64 = 0.5;

/// Nanoseconds in a microsecond.
const MICROSECOND: f64 = 1e3;

/// The slow requests of a run: by load point, then direct and the gateways in the plan's order.
pub fn tails(run: &RunRecord, passes: &[TailPass]) -> Vec<SlowFigures> {
    let mut cases = Vec::new();
    for load in Load::all(&run.load) {
        for contender in &run.contenders {
            let is_of_case =
                |pass: &&TailPass| pass.load as usize == load.index && pass.contender == contender.label;
            let of_case: Vec<&TailPass> = passes.iter().filter(is_of_case).collect();
            if !of_case.is_empty() {
                cases.push(figures(contender.label.clone(), load.clone(), &of_case));
            }
        }
    }
    cases
}

fn figures(contender: String, load: Load, passes: &[&TailPass]) -> SlowFigures {
    let good: Vec<&TailPass> = passes.iter().copied().filter(|pass| pass.failed.is_none()).collect();
    let failures = || passes.iter().filter_map(|pass| pass.failed.as_ref());
    let sums = Sums::of(&good);
    let causes = sums.causes();
    let mut slowest: Vec<_> = good
        .iter()
        .flat_map(|pass| pass.slowest.iter().map(|one| (one.clone(), pass.causes.clone())))
        .collect();
    slowest.sort_by_key(|(one, _)| std::cmp::Reverse(one.moment.response_time()));
    slowest.truncate(SLOWEST);
    let p50s: Vec<f64> = good.iter().map(|pass| pass.p50_ns as f64).collect();
    SlowFigures {
        contender,
        load,
        passes: good.len() as u32,
        failed: failures().count() as u32,
        failure: failures().next_back().map(|failure| failure.message.clone()),
        recorder: good.first().map(|pass| pass.recorder.clone()).unwrap_or_default(),
        requests: good.iter().map(|pass| pass.requests).sum(),
        left_out: good.iter().map(|pass| pass.left_out).sum(),
        p50_us: hoptax_stats::of_mean(&p50s).map(in_us),
        slow_requests: sums.slow.iter().sum::<f64>() as u64,
        lost: good.iter().map(|pass| pass.lost).sum(),
        disturbed: sums.disturbed,
        slow_us: Slices::new(sums.pairs(&sums.slow)).per_request(&sums.slow_ns()).map(in_us),
        usual_us: sums.usual_us(),
        causes,
        sentence: String::new(),
        slowest,
    }
}

fn in_us(one: hoptax_stats::Estimate) -> hoptax_stats::Estimate {
    let us = |ns: f64| ns / MICROSECOND;
    hoptax_stats::Estimate {
        estimate: us(one.estimate),
        low: one.low.map(us),
        high: one.high.map(us),
        trials: one.trials,
    }
}

/// Causes with the same key are added up in the answer. If a thread waits for a CPU, the key names who has
/// that CPU, not who waits.
type Key = (TailKind, Option<Role>, Option<String>);

fn key(cause: &TailCause) -> Key {
    match (&cause.kind, &cause.holder) {
        (TailKind::Waiting, Some(Holder::Role(role))) => (cause.kind, None, Some(role.name().to_owned())),
        (TailKind::Waiting, Some(Holder::Other(name))) => (cause.kind, None, Some(name.clone())),
        (TailKind::Nobody | TailKind::Connection | TailKind::Unknown, _) => (cause.kind, None, None),
        _ => (cause.kind, cause.role, None),
    }
}

/// Sums of all passes, by slice.
#[derive(Default)]
struct Sums {
    /// Share of the slices in which the hypervisor took CPU time.
    disturbed: f64,
    /// The pass of each slice.
    pass: Vec<u32>,
    /// Number of slow requests in each slice, and of requests near the median.
    slow: Vec<f64>,
    usual: Vec<f64>,
    /// For each cause, its time in the slow requests and in those near the median, for each slice, ns.
    by_cause: BTreeMap<Key, (Vec<f64>, Vec<f64>)>,
}

impl Sums {
    fn of(passes: &[&TailPass]) -> Self {
        let all = || passes.iter().flat_map(|pass| &pass.slices);
        let count = all().count();
        let disturbed = all().filter(|slice| slice.disturbed).count();
        let quiet = disturbed as f64 <= MOST_DISTURBED * count as f64;
        let mut sums = Self { disturbed: disturbed as f64 / count.max(1) as f64, ..Self::default() };
        for pass in passes {
            for slice in pass.slices.iter().filter(|slice| !(quiet && slice.disturbed)) {
                let index = sums.pass.len();
                sums.pass.push(pass.sequence);
                sums.slow.push(slice.slow.requests as f64);
                sums.usual.push(slice.usual.requests as f64);
                let both = slice.slow.ns.iter().map(|time| (time, true));
                for (&(cause, ns), is_slow) in both.chain(slice.usual.ns.iter().map(|time| (time, false))) {
                    let Some(cause) = pass.causes.get(cause as usize) else { continue };
                    let none = || (vec![0.0; count], vec![0.0; count]);
                    let (slow, usual) = sums.by_cause.entry(key(cause)).or_insert_with(none);
                    if is_slow { slow[index] += ns as f64 } else { usual[index] += ns as f64 }
                }
            }
        }
        sums
    }

    fn pairs(&self, amounts: &[f64]) -> Vec<(u32, f64)> {
        self.pass.iter().copied().zip(amounts.iter().copied()).collect()
    }

    fn slow_ns(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.pass.len()];
        for (slow, _) in self.by_cause.values() {
            sum.iter_mut().zip(slow).for_each(|(sum, ns)| *sum += ns);
        }
        sum
    }

    fn usual_us(&self) -> Option<f64> {
        let requests: f64 = self.usual.iter().sum();
        let ns: f64 = self.by_cause.values().flat_map(|(_, usual)| usual).sum();
        (requests > 0.0).then(|| ns / requests / MICROSECOND)
    }

    /// The extra time that a cause took in the slow requests of each slice, ns. The mean time in requests
    /// near the median is subtracted for each slow request.
    fn more(&self, (slow, usual): &(Vec<f64>, Vec<f64>)) -> Vec<f64> {
        let requests: f64 = self.usual.iter().sum();
        let each = if requests > 0.0 { usual.iter().sum::<f64>() / requests } else { 0.0 };
        slow.iter().zip(&self.slow).map(|(ns, requests)| ns - each * requests).collect()
    }

    fn causes(&self) -> Vec<SlowCause> {
        let mut whole = vec![0.0; self.pass.len()];
        for times in self.by_cause.values() {
            whole.iter_mut().zip(self.more(times)).for_each(|(sum, ns)| *sum += ns);
        }
        let slices = Slices::new(self.pairs(&whole));
        let mean = |times: &[f64], requests: &[f64]| {
            times.iter().sum::<f64>() / requests.iter().sum::<f64>().max(1.0) / MICROSECOND
        };
        let cause = |((kind, role, holder), times): (&Key, &(Vec<f64>, Vec<f64>))| {
            Some(SlowCause {
                kind: *kind,
                role: *role,
                holder: holder.clone(),
                share: slices.per_request(&self.more(times))?,
                slow_us: mean(&times.0, &self.slow),
                usual_us: mean(&times.1, &self.usual),
            })
        };
        let mut causes: Vec<SlowCause> = self.by_cause.iter().filter_map(cause).collect();
        causes.sort_by(|one, other| other.share.estimate.total_cmp(&one.share.estimate));
        causes
    }
}

//! Results per target, for loads with several targets.

use super::times::Times;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, Encoded, TRIAL_DIGITS};
use hoptax_format::record::TargetRecord;

/// Results of one worker for each target. Each target needs two histograms of 216 KiB. If there is a single
/// target, this list is empty, because the results of the target are the results of the trial.
#[derive(Debug, Default)]
pub(crate) struct Targets(Vec<Target>);

#[derive(Debug)]
struct Target {
    scheduled: u64,
    completed: u64,
    ok: u64,
    failed: u64,
    response_time: Histogram<u64>,
    service_time: Histogram<u64>,
}

impl Targets {
    pub(super) fn new(targets: usize) -> Self {
        let empty = || histogram::empty(TRIAL_DIGITS);
        let new = || Target {
            scheduled: 0,
            completed: 0,
            ok: 0,
            failed: 0,
            response_time: empty(),
            service_time: empty(),
        };
        Self(if targets > 1 { (0..targets).map(|_| new()).collect() } else { Vec::new() })
    }

    #[inline]
    pub(super) fn scheduled(&mut self, target: u32) {
        if let Some(target) = self.0.get_mut(target as usize) {
            target.scheduled += 1;
        }
    }

    #[inline]
    pub(super) fn completed(&mut self, times: Times, now: u64, ok: bool) {
        if let Some(target) = self.0.get_mut(times.target as usize) {
            target.completed += 1;
            target.ok += u64::from(ok);
            target.record(times, now);
        }
    }

    pub(super) fn ended_by_client(&mut self, target: u32, ok: bool) {
        if let Some(target) = self.0.get_mut(target as usize) {
            target.completed += 1;
            target.ok += u64::from(ok);
        }
    }

    pub(super) fn failed(&mut self, times: Times, now: u64, timeout: bool) {
        if let Some(target) = self.0.get_mut(times.target as usize) {
            target.failed += 1;
            if timeout {
                target.record(times, now);
            }
        }
    }

    pub(super) fn add(&mut self, others: Self) {
        if self.0.is_empty() {
            self.0 = others.0;
            return;
        }
        for (mine, theirs) in self.0.iter_mut().zip(others.0) {
            mine.scheduled += theirs.scheduled;
            mine.completed += theirs.completed;
            mine.ok += theirs.ok;
            mine.failed += theirs.failed;
            for (mine, theirs) in [
                (&mut mine.response_time, &theirs.response_time),
                (&mut mine.service_time, &theirs.service_time),
            ] {
                mine.add(theirs).expect("all have the same bounds");
            }
        }
    }

    pub(crate) fn records<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<TargetRecord> {
        let record = |(target, name): (&Target, &str)| TargetRecord {
            name: name.to_owned(),
            scheduled: target.scheduled,
            completed: target.completed,
            ok: target.ok,
            failed: target.failed,
            response_time: Encoded::new(&target.response_time),
            service_time: Encoded::new(&target.service_time),
        };
        self.0.iter().zip(names).map(record).collect()
    }
}

impl Target {
    fn record(&mut self, times: Times, now: u64) {
        self.response_time.saturating_record(now.saturating_sub(times.scheduled));
        if let Some(sent) = times.sent {
            self.service_time.saturating_record(now.saturating_sub(sent));
        }
    }
}

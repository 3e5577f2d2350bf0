//! Combines the reports of several generators about one load, as if one generator had sent it. This module
//! does no I/O.

use hoptax_format::record::{Phase, PhaseLine, SecondLine};
use hoptax_format::seconds;
use hoptax_host::probe::RecentTree;
use hoptax_run::{TrialUpdate, Used};
use std::collections::BTreeMap;

/// Turns the updates of several generators into updates of the whole load. All moments are on our clock.
#[derive(Debug)]
pub(super) struct Together {
    /// The phase of each generator; absent before its first one.
    phases: Vec<Option<Phase>>,
    /// The last phase that was reported.
    reported: Option<Phase>,
    /// The latest end of a measured time so far.
    ended_ns: u64,
    /// Seconds that some generators have not reported yet, by number.
    seconds: BTreeMap<u64, Vec<SecondLine>>,
    used: Vec<Option<Used>>,
}

impl Together {
    pub(super) fn new(generators: usize) -> Self {
        Self {
            phases: vec![None; generators],
            reported: None,
            ended_ns: 0,
            seconds: BTreeMap::new(),
            used: vec![None; generators],
        }
    }

    /// Whether all generators have opened their connections, and none has begun to send.
    pub(super) fn are_connected(&self) -> bool {
        self.phases.iter().all(|phase| *phase == Some(Phase::Connected))
    }

    /// Adds an update of a generator. Returns the updates of the load that follow from it.
    pub(super) fn add(&mut self, generator: usize, update: TrialUpdate) -> Vec<TrialUpdate> {
        match update {
            TrialUpdate::Phase(line) => self.phase(generator, line),
            TrialUpdate::Second(line) => self.second(line),
            TrialUpdate::Used(used) => {
                self.used[generator] = Some(used);
                vec![TrialUpdate::Used(self.used())]
            }
        }
    }

    /// All generators have ended. Returns the seconds that some of them have not reported, because they ended
    /// early.
    pub(super) fn end(self) -> impl Iterator<Item = TrialUpdate> {
        self.seconds.into_values().filter_map(|lines| seconds::together(&lines).map(TrialUpdate::Second))
    }

    /// A phase begins when the first generator reports it. Only [`Phase::Draining`] begins when the last
    /// generator reports it, because until then requests are still sent.
    fn phase(&mut self, generator: usize, PhaseLine { phase, at_ns }: PhaseLine) -> Vec<TrialUpdate> {
        self.phases[generator] = Some(phase);
        let report = |at_ns| TrialUpdate::Phase(PhaseLine { phase, at_ns });
        if phase == Phase::Draining {
            self.ended_ns = self.ended_ns.max(at_ns);
            let is_last = self.phases.iter().all(|phase| *phase == Some(Phase::Draining));
            return is_last.then(|| report(self.ended_ns)).into_iter().collect();
        }
        if phase == Phase::Connected || self.reported >= Some(phase) {
            return Vec::new();
        }
        self.reported = Some(phase);
        vec![report(at_ns)]
    }

    fn second(&mut self, line: SecondLine) -> Vec<TrialUpdate> {
        let number = line.second;
        let lines = self.seconds.entry(number).or_default();
        lines.push(line);
        if lines.len() < self.phases.len() {
            return Vec::new();
        }
        let lines = self.seconds.remove(&number).unwrap_or_default();
        seconds::together(&lines).map(TrialUpdate::Second).into_iter().collect()
    }

    /// What the roles use. The steal is the largest one of all hosts with generators.
    fn used(&self) -> Used {
        let sum = |one: Option<RecentTree>, other: Option<RecentTree>| match (one, other) {
            (Some(one), Some(other)) => {
                Some(RecentTree { cpus: one.cpus + other.cpus, rss_bytes: one.rss_bytes + other.rss_bytes })
            }
            (one, other) => one.or(other),
        };
        self.used.iter().flatten().fold(Used::default(), |all, used| Used {
            generator: sum(all.generator, used.generator),
            gateway: all.gateway.or(used.gateway),
            upstream: all.upstream.or(used.upstream),
            steal: all.steal.max(used.steal),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::clock::SECOND;

    fn phase(phase: Phase, at_ns: u64) -> TrialUpdate {
        TrialUpdate::Phase(PhaseLine { phase, at_ns })
    }

    fn second(number: u64, sent: u64) -> TrialUpdate {
        TrialUpdate::Second(SecondLine {
            second: number,
            length_ns: SECOND,
            sent,
            completed: sent,
            ok: sent,
            failed: 0,
            p50_ns: None,
            p99_ns: None,
            response_time: None,
        })
    }

    #[test]
    fn each_phase_is_reported_once() {
        use Phase::{Connected, Connecting, Draining, Measuring, Warmup};
        let mut both = Together::new(2);
        for (generator, begun, at_ns, expected) in [
            (0, Connecting, 10, Some(10)),
            (1, Connecting, 11, None),
            (0, Connected, 12, None),
            (1, Connected, 15, None),
            (1, Warmup, 20, Some(20)),
            (1, Measuring, 30, Some(30)),
            // Its lines arrive late.
            (0, Warmup, 20, None),
            (0, Measuring, 31, None),
            (0, Draining, 90, None),
            (1, Draining, 80, Some(90)),
        ] {
            assert!(!both.are_connected());
            let expected: Vec<_> = expected.map(|at_ns| phase(begun, at_ns)).into_iter().collect();
            assert_eq!(both.add(generator, phase(begun, at_ns)), expected, "{begun:?} of {generator}");
            if (generator, begun) == (1, Connected) {
                assert!(both.are_connected());
                both.phases[0] = Some(Connecting);
            }
        }
    }

    #[test]
    fn a_second_is_reported_when_all_have_reported_it() {
        let mut both = Together::new(2);
        assert_eq!(both.add(0, second(0, 5)), []);
        assert_eq!(both.add(0, second(1, 6)), []);
        assert_eq!(both.add(1, second(0, 7)), [second(0, 12)]);
        assert_eq!(both.end().collect::<Vec<_>>(), [second(1, 6)]);
    }

    #[test]
    fn resources_of_generators_are_added_and_services_are_sampled_once() {
        let tree = |cpus| Some(RecentTree { cpus, rss_bytes: 100 });
        let mut both = Together::new(2);
        let one = Used { generator: tree(0.5), gateway: tree(0.3), upstream: None, steal: 0.1 };
        assert_eq!(both.add(0, TrialUpdate::Used(one.clone())), [TrialUpdate::Used(one.clone())]);
        let other = Used { generator: tree(0.25), upstream: tree(0.2), ..Used::default() };
        let generator = Some(RecentTree { cpus: 0.75, rss_bytes: 200 });
        let expected = Used { generator, upstream: tree(0.2), ..one };
        assert_eq!(both.add(1, TrialUpdate::Used(other)), [TrialUpdate::Used(expected)]);
    }
}

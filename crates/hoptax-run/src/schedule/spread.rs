//! Spreads the rounds of a run over several processes of the gateways that are restarted.
//!
//! All processes get the same number of rounds, because a process with most of the rounds would decide the
//! figure alone. If the number of rounds is not known beforehand, the first process decides it: its rounds
//! end when a run with a single process would have ended, or when its share of the time or of the rounds is
//! over.

/// Minimum number of rounds of a process. Its warm-up takes as long as many rounds, and a single round does
/// not show how rounds scatter within the process.
pub(super) const LEAST_EACH: u32 = 2;

/// The processes of a run whose number of rounds is not known beforehand.
#[derive(Debug)]
pub(super) struct Spread {
    /// Number of processes of the run.
    processes: u32,
    /// Number of restarts so far.
    restarts: u32,
    /// Number of rounds before the current process.
    before: u32,
    /// Number of rounds of each process, once the first one has had its rounds.
    each: Option<u32>,
}

impl Spread {
    /// A run that is spread over this many processes.
    pub(super) fn over(processes: u32) -> Self {
        Self { processes: processes.max(1), restarts: 0, before: 0, each: None }
    }

    /// Number of restarts so far.
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// True if another process is to follow.
    fn is_open(&self) -> bool {
        self.restarts + 1 < self.processes
    }

    /// Number of processes of the run.
    pub(super) fn processes(&self) -> u32 {
        self.processes
    }

    /// True if the last process has had as many rounds as the others. Then the run can end.
    pub(super) fn is_complete(&self, rounds: u32) -> bool {
        !self.is_open() && self.each.is_none_or(|each| rounds - self.before >= each)
    }

    /// True if the caller must check whether the run has enough rounds. Otherwise, the answer would change
    /// nothing.
    pub(super) fn needs_look(&self, rounds: u32) -> bool {
        self.is_complete(rounds) || self.each.is_none()
    }

    /// Ends the rounds of the first process after this many rounds of the run.
    pub(super) fn first_has_enough(&mut self, rounds: u32) {
        if self.restarts == 0 {
            self.each.get_or_insert(rounds.max(LEAST_EACH));
        }
    }

    /// Called before each round. Moves on to the next process if the current one has had its rounds. `rounds`
    /// is the number of rounds so far, and `left` the number that still fits. `passed` is the share of the
    /// time limit or of the maximum number of rounds that is used up, 0 to 1.
    pub(super) fn begin_round(&mut self, rounds: u32, passed: f64, left: u32) {
        if passed * f64::from(self.processes) >= 1.0 {
            self.first_has_enough(rounds);
        }
        let has_enough = self.each.is_some_and(|each| rounds - self.before >= each);
        if self.is_open() && has_enough && left >= LEAST_EACH {
            (self.restarts, self.before) = (self.restarts + 1, rounds);
        }
    }
}

/// Number of restarts before this round of a run with a known number of rounds.
pub(super) fn restarts_before(round: u32, rounds: u32, processes: u32) -> u32 {
    let processes = processes.min(rounds / LEAST_EACH).max(1);
    (u64::from(round) * u64::from(processes) / u64::from(rounds.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of rounds of each process.
    fn sizes(processes: impl Iterator<Item = u32>) -> Vec<usize> {
        let processes: Vec<u32> = processes.collect();
        processes.chunk_by(|one, other| one == other).map(<[u32]>::len).collect()
    }

    #[test]
    fn a_known_number_of_rounds_is_divided_equally() {
        let of = |rounds: u32| sizes((0..rounds).map(|round| restarts_before(round, rounds, 4)));
        assert_eq!(of(40), [10, 10, 10, 10]);
        assert_eq!(of(10), [3, 2, 3, 2]);
        assert_eq!(of(8), [2, 2, 2, 2]);
        assert_eq!((of(7), of(5), of(3), of(1)), (vec![3, 2, 2], vec![3, 2], vec![3], vec![1]));
        assert_eq!(sizes((0..9).map(|round| restarts_before(round, 9, 1))), [9]);
    }

    /// A run of at most `most` rounds. The first process has enough after `narrow` rounds.
    fn open_ended(processes: u32, narrow: u32, most: u32) -> Vec<usize> {
        let mut spread = Spread::over(processes);
        sizes((0..most).map(|round| {
            if round >= narrow {
                spread.first_has_enough(round);
            }
            spread.begin_round(round, f64::from(round) / f64::from(most), most - round);
            spread.restarts()
        }))
    }

    #[test]
    fn an_unknown_number_of_rounds_is_divided_by_the_first_process() {
        assert_eq!(open_ended(4, 100, 100), [25, 25, 25, 25], "its share of the time is over");
        assert_eq!(open_ended(4, 10, 100), [10, 10, 10, 70], "a run with one process would have ended");
        assert_eq!(open_ended(4, 100, 9), [3, 3, 3], "no process gets a single round");
        assert_eq!((open_ended(4, 100, 3), open_ended(1, 5, 20)), (vec![3], vec![20]));
        assert_eq!(open_ended(4, 0, 12), [2, 2, 2, 6]);
    }
}

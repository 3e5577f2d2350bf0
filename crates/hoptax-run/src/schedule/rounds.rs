//! Rounds in shuffled order, and the director for a fixed number of rounds.

use super::slot::{Contender, Director, Slot};
use super::spread::restarts_before;
use hoptax_format::random::Random;
use hoptax_record::{DirectTrial, TrialRecord};

/// A fixed number of rounds.
pub(super) struct Rounds {
    planned: usize,
    slots: std::vec::IntoIter<Slot>,
    rounds: u32,
    processes: u32,
    /// Round of the last slot that was returned.
    round: u32,
}

impl Rounds {
    /// The slots of this many rounds.
    pub(super) fn new(slots: Vec<Slot>, rounds: u32) -> Self {
        Self { planned: slots.len(), slots: slots.into_iter(), rounds, processes: 1, round: 0 }
    }
}

impl Director for Rounds {
    fn planned(&self) -> usize {
        self.planned
    }

    fn next(&mut self, _: Option<&TrialRecord>) -> Option<Slot> {
        let slot = self.slots.next()?;
        self.round = slot.round;
        Some(slot)
    }

    fn spread_over(&mut self, processes: u32) {
        self.processes = processes;
    }

    fn restarts(&self) -> u32 {
        restarts_before(self.round, self.rounds, self.processes)
    }
}

/// The stream of random numbers for the order. Other random choices with the same seed use other streams. The
/// bytes spell "order".
const ORDER: u64 = 0x006f_7264_6572;

/// Generates rounds, one at a time. A round measures the load points one after the other, in random order. At
/// each load point, it measures direct, then each gateway once in random order, then direct again.
pub(super) struct RoundMaker {
    random: Random,
    gateways: usize,
    /// Indices of the load points in the plan.
    loads: Vec<usize>,
    round: u32,
}

impl RoundMaker {
    pub(super) fn new(gateways: usize, loads: &[usize], seed: u64) -> Self {
        Self { random: Random::stream(seed, ORDER), gateways, loads: loads.to_vec(), round: 0 }
    }

    /// Measures only these load points from the next round on.
    pub(super) fn keep_only(&mut self, loads: &[usize]) {
        self.loads = loads.to_vec();
    }

    /// Indices of the load points that the next round measures.
    pub(super) fn loads(&self) -> &[usize] {
        &self.loads
    }

    /// Number of rounds made so far.
    pub(super) fn made(&self) -> u32 {
        self.round
    }

    /// Number of slots of the next round.
    pub(super) fn size(&self) -> usize {
        self.loads.len() * (self.gateways + 2)
    }

    /// The slots of the next round, in order.
    pub(super) fn next_round(&mut self) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(self.loads.len() * (self.gateways + 2));
        let mut positions: Vec<usize> = (0..self.loads.len()).collect();
        self.random.shuffle(&mut positions);
        for position in positions {
            let mut order: Vec<usize> = (0..self.gateways).collect();
            self.random.shuffle(&mut order);
            let slot =
                |contender| Slot { round: self.round, load: self.loads[position], contender, step: None };
            slots.push(slot(Contender::Direct(DirectTrial::First)));
            slots.extend(order.into_iter().map(Contender::Gateway).map(slot));
            slots.push(slot(Contender::Direct(DirectTrial::Last)));
        }
        self.round += 1;
        slots
    }
}

/// All slots of a run of `trials` rounds, in order.
pub fn schedule(gateways: usize, load_points: usize, trials: u32, seed: u64) -> Vec<Slot> {
    let loads: Vec<usize> = (0..load_points).collect();
    let mut rounds = RoundMaker::new(gateways, &loads, seed);
    (0..trials).flat_map(|_| rounds.next_round()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn order(gateways: usize, load_points: usize, trials: u32, seed: u64) -> String {
        let mut text = String::new();
        for slot in schedule(gateways, load_points, trials, seed) {
            let who = match slot.contender {
                Contender::Direct(DirectTrial::First) => "first".to_owned(),
                Contender::Direct(DirectTrial::Last) => "last\n".to_owned(),
                Contender::Gateway(index) => index.to_string(),
            };
            text += &match slot.contender {
                Contender::Direct(DirectTrial::First) => format!("{}.{} {who}", slot.round, slot.load),
                _ => format!(" {who}"),
            };
        }
        text
    }

    #[test]
    fn a_seed_always_gives_the_same_order() {
        assert_eq!(
            order(3, 2, 3, 42),
            "0.1 first 1 0 2 last\n\
             0.0 first 2 1 0 last\n\
             1.1 first 1 0 2 last\n\
             1.0 first 0 2 1 last\n\
             2.0 first 0 2 1 last\n\
             2.1 first 0 1 2 last\n"
        );
    }

    #[test]
    fn another_seed_gives_another_order() {
        assert_eq!(schedule(5, 3, 4, 1), schedule(5, 3, 4, 1));
        assert_ne!(schedule(5, 3, 4, 1), schedule(5, 3, 4, 2));
    }

    #[test]
    fn each_round_has_every_case_once_between_two_direct_trials() {
        for (gateways, load_points, trials, seed) in [(0, 1, 1, 0), (1, 1, 3, 1), (4, 3, 5, 2), (7, 6, 2, 3)]
        {
            let slots = schedule(gateways, load_points, trials, seed);
            assert_eq!(slots.len(), trials as usize * load_points * (gateways + 2));
            let distinct: BTreeSet<_> =
                slots.iter().map(|slot| (slot.round, slot.load, slot.contender)).collect();
            assert_eq!(distinct.len(), slots.len());
            assert!(slots.is_sorted_by_key(|slot| slot.round));
            for block in slots.chunks(gateways + 2) {
                assert!(block.iter().all(|slot| (slot.round, slot.load) == (block[0].round, block[0].load)));
                assert_eq!(block[0].contender, Contender::Direct(DirectTrial::First));
                assert_eq!(block[gateways + 1].contender, Contender::Direct(DirectTrial::Last));
            }
        }
    }

    #[test]
    fn each_gateway_comes_first_about_equally_often() {
        let mut first = [0u32; 4];
        for slots in schedule(4, 1, 4000, 9).chunks(6) {
            if let Contender::Gateway(index) = slots[1].contender {
                first[index] += 1;
            }
        }
        assert!(first.iter().all(|&count| (900..1100).contains(&count)), "{first:?}");
    }
}

//! The order of the turns of a run that measures starts. It depends only on the seed.

use hoptax_format::random::Random;
use hoptax_record::start::StartTraffic;

/// The stream of random numbers for the order. The bytes spell "starts".
const STARTS: u64 = 0x7374_6172_7473;

/// The traffic of the two turns of each contender in a round.
pub(super) const TRAFFIC: [StartTraffic; 2] = [StartTraffic::OneByOne, StartTraffic::Load];

/// One turn of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Number of the round, from 0.
    pub(super) round: u32,
    /// Index of the gateway in the plan. `None` for direct.
    pub(super) contender: Option<usize>,
    pub(super) traffic: StartTraffic,
}

/// All turns of all rounds, in order. Each round shuffles its turns, so that slow changes of the machine
/// affect all contenders alike.
pub(super) fn all(gateways: usize, rounds: u32, seed: u64) -> impl Iterator<Item = Turn> {
    let mut random = Random::stream(seed, STARTS);
    (0..rounds).flat_map(move |round| {
        let contenders = || std::iter::once(None).chain((0..gateways).map(Some));
        let turns =
            TRAFFIC.iter().flat_map(|traffic| contenders().map(move |contender| (contender, *traffic)));
        let turn = |(contender, traffic)| Turn { round, contender, traffic };
        let mut turns: Vec<Turn> = turns.map(turn).collect();
        random.shuffle(&mut turns);
        turns
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_each_turn_once_in_an_order_of_its_own() {
        let turns: Vec<Turn> = all(2, 20, 7).collect();
        assert_eq!(turns.len(), 20 * 6);
        let mut orders = std::collections::BTreeSet::new();
        for (round, turns) in turns.chunks(6).enumerate() {
            assert!(turns.iter().all(|turn| turn.round as usize == round));
            let mut order: Vec<_> = turns.iter().map(|turn| (turn.contender, turn.traffic)).collect();
            orders.insert(order.clone());
            order.sort_unstable();
            order.dedup();
            assert_eq!(order.len(), 6);
        }
        assert!(orders.len() > 10, "{orders:?}");
        assert!(all(2, 20, 7).eq(turns.iter().copied()), "the seed fixes the order");
        assert!(!all(2, 20, 8).eq(turns.iter().copied()));
    }
}

//! Draws rounds with replacement for the bootstrap (B. Efron, "Bootstrap Methods: Another Look at the
//! Jackknife", 1979). A draw is a list of counts: how often it contains each round.

use super::rounds::MOST_UNITS;
use hoptax_format::random::Random;
use std::sync::OnceLock;

/// Up to this number of rounds, every possible draw is used, weighted by its probability. With more rounds,
/// draws are random. There are `C(2n − 1, n)` draws of `n` rounds: 1,716 for seven.
const EXACT_UP_TO: usize = 7;

/// Number of random draws if there are more than [`EXACT_UP_TO`] rounds. A standard error from `B` draws
/// itself has a relative error of `1 / √(2B)`, here 1.6 % (Efron and Tibshirani, "An Introduction to the
/// Bootstrap", 1993, chapter 6).
const DRAWS: usize = 2000;

/// Seed of the random draws for more than [`EXACT_UP_TO`] rounds. It never changes. The same trials therefore
/// always give the same report, and all figures from the same rounds use the same draws.
const SEED: u64 = 0x0064_7261_7773;

/// The draws for each number of rounds. A report computes hundreds of figures from the same draws, so they
/// are generated only once.
static GENERATED: [OnceLock<Draws>; MOST_UNITS + 1] = [const { OnceLock::new() }; MOST_UNITS + 1];

/// Draws with replacement. From `n` rounds, each draw picks `n` rounds.
#[derive(Debug, Clone)]
pub struct Draws {
    rounds: usize,
    counts: Vec<u64>,
    /// The probability of each draw. The probabilities add up to 1.
    probabilities: Vec<f64>,
}

impl Draws {
    /// The draws for this number of rounds. For zero rounds there are no draws.
    ///
    /// # Panics
    /// If there are more than [`MOST_UNITS`] rounds.
    pub fn of(rounds: usize) -> &'static Self {
        GENERATED[rounds].get_or_init(|| Self::new(rounds))
    }

    fn new(rounds: usize) -> Self {
        let mut draws = Self { rounds, counts: Vec::new(), probabilities: Vec::new() };
        match rounds {
            0 => {}
            1..=EXACT_UP_TO => draws.every(),
            _ => draws.some(),
        }
        draws
    }

    /// The number of rounds (or batches of rounds) in each draw.
    pub fn units(&self) -> usize {
        self.rounds
    }

    /// Returns each draw with its probability. A draw is a list with the number of times that each round was
    /// drawn.
    pub fn iter(&self) -> impl Iterator<Item = (&[u64], f64)> {
        self.counts.chunks(self.rounds.max(1)).zip(self.probabilities.iter().copied())
    }

    /// Adds all possible draws: every way in which `n` counts can add up to `n`. Their probabilities follow
    /// the multinomial distribution.
    fn every(&mut self) {
        let mut counts = vec![0; self.rounds];
        self.fill(&mut counts, 0, self.rounds as u64);
    }

    fn fill(&mut self, counts: &mut [u64], at: usize, left: u64) {
        if at + 1 == counts.len() {
            counts[at] = left;
            self.counts.extend_from_slice(counts);
            let n = counts.len() as u64;
            let ways = counts.iter().fold(factorial(n), |ways, &count| ways / factorial(count));
            self.probabilities.push(ways / (n as f64).powi(n as i32));
            return;
        }
        for count in 0..=left {
            counts[at] = count;
            self.fill(counts, at + 1, left - count);
        }
    }

    fn some(&mut self) {
        let mut random = Random::stream(SEED, self.rounds as u64);
        self.counts = vec![0; self.rounds * DRAWS];
        for draw in self.counts.chunks_mut(self.rounds) {
            for _ in 0..self.rounds {
                draw[random.below(self.rounds as u64) as usize] += 1;
            }
        }
        self.probabilities = vec![1.0 / DRAWS as f64; DRAWS];
    }
}

/// `n!`, exact up to 18.
fn factorial(n: u64) -> f64 {
    (1..=n).map(|factor| factor as f64).product()
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "Up to {} rounds all possible draws are enumerated" word(EXACT_UP_TO);
    METHODOLOGY "Beyond that there are {} draws from a fixed seed" number(DRAWS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_draws_of_two_rounds() {
        let draws = Draws::of(2);
        let all: Vec<(&[u64], f64)> = draws.iter().collect();
        assert_eq!(all, [(&[0, 2][..], 0.25), (&[1, 1][..], 0.5), (&[2, 0][..], 0.25)]);
    }

    #[test]
    fn draws_have_the_right_size_and_draw_rounds_equally_often() {
        for (rounds, number) in [(1, 1), (3, 10), (5, 126), (7, 1716), (8, DRAWS), (30, DRAWS)] {
            let draws = Draws::of(rounds);
            assert_eq!(draws.iter().count(), number);
            assert!(draws.iter().all(|(counts, _)| counts.iter().sum::<u64>() == rounds as u64));
            let sum: f64 = draws.iter().map(|(_, probability)| probability).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{rounds}: {sum}");
            for round in 0..rounds {
                let mean: f64 = draws.iter().map(|(counts, p)| counts[round] as f64 * p).sum();
                // The number of times that a draw contains a given round has a variance below 1. The
                // allowance is five standard errors of the mean of 2,000 draws.
                let error = if rounds <= EXACT_UP_TO { 1e-9 } else { 5.0 / (DRAWS as f64).sqrt() };
                assert!((mean - 1.0).abs() < error, "{rounds}: {mean}");
            }
        }
        assert_eq!(Draws::of(0).iter().count(), 0);
    }

    #[test]
    fn are_the_same_every_time() {
        assert_eq!(Draws::new(9).counts, Draws::new(9).counts);
    }
}

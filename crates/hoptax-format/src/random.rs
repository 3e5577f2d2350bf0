//! Reproducible random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", 2014). [`from_system`] returns numbers that nobody can guess.
//!
//! The algorithm is implemented here because a recorded seed must give the same order and the same arrivals
//! in every future version of hoptax. General libraries do not promise this.

/// A stream of 64-bit numbers that depends only on its seed.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Creates the stream for `seed`.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Creates the stream for `seed` and `index`. Streams with different indexes are unrelated.
    #[inline]
    pub fn stream(seed: u64, index: u64) -> Self {
        Self { state: mix(seed ^ mix(index.wrapping_add(GOLDEN_GAMMA))) }
    }

    /// Returns the next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// Returns a number that is uniformly distributed in `[0, 1)`, with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        to_unit(self.next_u64())
    }

    /// Returns an exponentially distributed number with mean 1, `-ln(1 - u)`: the gap between two arrivals of
    /// a Poisson process.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(-self.unit()).ln_1p()
    }

    /// Returns a number that is uniformly distributed in `0..bound` (Lemire's multiply-and-shift; the bias is
    /// below `bound / 2^64`).
    ///
    /// # Panics
    /// If `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range contains no number");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Shuffles `items` (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Returns a number from the operating system's generator, for seeds, names and tokens that nobody may guess.
/// A number that is made from the clock and a process id can be guessed.
///
/// # Panics
/// If the system returns no random numbers. No Linux since 3.17 does that.
pub fn from_system() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system returns random numbers");
    u64::from_ne_bytes(bytes)
}

/// Returns a number in `[0, 1)` that depends only on `seed` and `index`, for callers that keep no state.
#[inline]
pub fn unit_at(seed: u64, index: u64) -> f64 {
    to_unit(mix(seed ^ mix(index.wrapping_mul(GOLDEN_GAMMA))))
}

#[inline]
fn to_unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reproduces_the_published_sequence() {
        // The first outputs of the reference implementation of SplitMix64 in C, for the seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn exponential_has_mean_one() {
        let mut random = Random::new(7);
        let mean = (0..100_000).map(|_| random.exponential()).sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "mean {mean}");
    }

    #[test]
    fn shuffle_keeps_every_item_and_depends_on_the_seed() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
}

//! Random choices for each request: the delay of its response, and whether it fails.

use hoptax_format::random::Random;
use hoptax_plan::{BuiltInUpstream, Delay};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(super) struct Behaviour {
    delay: Delay,
    failures: f64,
    random: Random,
}

impl Behaviour {
    /// The instances share a seed, but each uses its own random stream.
    pub(super) fn new(settings: &BuiltInUpstream, seed: u64, instance: u64) -> Self {
        Self {
            delay: settings.delay.clone(),
            failures: settings.failures,
            random: Random::stream(seed, instance),
        }
    }

    pub(super) fn delay_ns(&mut self) -> u64 {
        draw(&self.delay, &mut self.random)
    }

    pub(super) fn fails(&mut self) -> bool {
        self.failures > 0.0 && self.random.unit() < self.failures
    }
}

/// Draws a delay.
pub(super) fn draw(delay: &Delay, random: &mut Random) -> u64 {
    match delay {
        Delay::Fixed(delay) => nanoseconds(*delay),
        Delay::Uniform { from, to } => {
            let (from, to) = (nanoseconds(*from), nanoseconds(*to));
            from + random.below(to.saturating_sub(from).saturating_add(1))
        }
        Delay::Exponential { mean } => (nanoseconds(*mean) as f64 * random.exponential()) as u64,
        Delay::Choice(choices) => {
            let mut left = random.unit();
            for (share, delay) in choices {
                if left < *share {
                    return nanoseconds(*delay);
                }
                left -= share;
            }
            // Because of rounding, the shares may sum to slightly less than 1. The last choice then covers
            // the remainder.
            choices.last().map_or(0, |(_, delay)| nanoseconds(*delay))
        }
    }
}

fn nanoseconds(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::clock::MILLISECOND;

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn draws(delay: Delay) -> Vec<u64> {
        let mut behaviour = Behaviour { delay, failures: 0.0, random: Random::stream(5, 0) };
        (0..100_000).map(|_| behaviour.delay_ns()).collect()
    }

    fn mean_ms(draws: &[u64]) -> f64 {
        draws.iter().map(|&ns| ns as f64).sum::<f64>() / draws.len() as f64 / MILLISECOND as f64
    }

    #[test]
    fn draws_the_configured_delays() {
        assert!(draws(Delay::Fixed(milliseconds(2))).iter().all(|&ns| ns == 2 * MILLISECOND));
        let uniform = draws(Delay::Uniform { from: milliseconds(1), to: milliseconds(3) });
        assert!(uniform.iter().all(|ns| (MILLISECOND..=3 * MILLISECOND).contains(ns)));
        assert!((mean_ms(&uniform) - 2.0).abs() < 0.02);
        assert!((mean_ms(&draws(Delay::Exponential { mean: milliseconds(2) })) - 2.0).abs() < 0.04);
        let choice = draws(Delay::Choice(vec![(0.9, milliseconds(0)), (0.1, milliseconds(10))]));
        assert!((mean_ms(&choice) - 1.0).abs() < 0.05);
        assert!(choice.iter().all(|&ns| ns == 0 || ns == 10 * MILLISECOND));
    }
}

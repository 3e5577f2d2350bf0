//! Models that generate request times with a known true tax.

use super::What;
use hoptax_format::random::Random;
use std::f64::consts::TAU;

const REQUESTS: usize = 500;
/// Time that the gateway adds to each request, µs.
const ADDED_US: f64 = 20.0;
/// Throughput of the gateway ÷ throughput of direct.
const RATIO: f64 = 0.7;
/// Median of direct's response times, µs.
const MIDDLE_US: f64 = 100.0;

/// One round: the request times of both direct trials and of the gateway's trial, ns, and the throughput of
/// the gateway and of direct.
pub(super) struct Round {
    pub(super) direct: Vec<u64>,
    pub(super) via: Vec<u64>,
    pub(super) throughput: [f64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum World {
    Skewed,
    Tail,
    Correlated,
    Bursts,
    Bimodal,
    Edge,
    BadRounds,
    Drift,
    Unequal,
}

impl World {
    pub(super) const ALL: [Self; 9] = [
        Self::Skewed,
        Self::Tail,
        Self::Correlated,
        Self::Bursts,
        Self::Bimodal,
        Self::Edge,
        Self::BadRounds,
        Self::Drift,
        Self::Unequal,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Skewed => "skewed (lognormal, σ = 1)",
            Self::Tail => "exponential tail",
            Self::Correlated => "correlated (AR(1), φ = 0.95)",
            Self::Bursts => "bursts: 1 window in 20 at 5×",
            Self::Bimodal => "bimodal: 3 % at 10×",
            Self::Edge => "bimodal: 1 % at 10×",
            Self::BadRounds => "3 rounds in 10 at 1.5× (all alike)",
            Self::Drift => "each round ±10 % (all alike), each trial ±3 %",
            Self::Unequal => "as above, but trials of the gateway ±10 %",
        }
    }

    /// The true figure: the figure of infinitely many rounds.
    pub(super) fn truth(self, what: What) -> f64 {
        let statistic = match what {
            What::Added(statistic) => statistic,
            What::Ratio => return RATIO,
        };
        // The gateway's times are direct's times plus the added time, so each percentile grows by the added
        // time. `Unequal` is the exception: both distributions are lognormal, and direct and the gateway
        // differ in the total scatter of rounds, trials and requests.
        let of = |trial: f64| {
            let sigma = (ROUND * ROUND + trial * trial + REQUEST * REQUEST).sqrt();
            let z = if statistic.quantile() == Some(0.99) { 2.326_347_874 } else { 0.0 };
            MIDDLE_US * (sigma * z).exp()
        };
        ADDED_US + if self == Self::Unequal { of(NOISY_TRIAL) - of(QUIET_TRIAL) } else { 0.0 }
    }

    /// Generates a round. Request times are generated only if `what` needs them.
    pub(super) fn round(self, random: &mut Random, what: What) -> Round {
        let shared = self.of_round(random);
        if what == What::Ratio {
            // The throughput of one trial. A slower server answers fewer requests.
            let mut rate = |via| 1.0 / (shared * self.of_trial(random, via) * (0.02 * normal(random)).exp());
            let (first, last, via) = (rate(false), rate(false), rate(true));
            return Round {
                direct: Vec::new(),
                via: Vec::new(),
                throughput: [RATIO * via, (first + last) / 2.0],
            };
        }
        let (mut direct, via) =
            (self.trial(random, shared, false, 0.0), self.trial(random, shared, true, ADDED_US));
        direct.extend(self.trial(random, shared, false, 0.0));
        Round { direct, via, throughput: [1.0, 1.0] }
    }

    /// Generates the request times of three gateways in one round, ns. Each adds [`ADDED_US`] to each
    /// request. The fourth list has the times of the third gateway if it adds 10 µs more.
    pub(super) fn gateways(self, random: &mut Random) -> [Vec<u64>; 4] {
        let shared = self.of_round(random);
        let trial = |random: &mut Random| self.trial(random, shared, false, ADDED_US);
        let [one, two, three] = [(); 3].map(|()| trial(random));
        let slower = three.iter().map(|time| time + 10_000).collect();
        [one, two, three, slower]
    }

    /// Generates the request times of one trial, ns. `shared` is the factor of the round.
    fn trial(self, random: &mut Random, shared: f64, via: bool, added_us: f64) -> Vec<u64> {
        let factor = MIDDLE_US * shared * self.of_trial(random, via);
        // Rounds the time like a histogram with three digits.
        let kept = |time: f64| ((time * factor + added_us) * 10.0).round() as u64 * 100;
        self.times(random).into_iter().map(kept).collect()
    }

    /// A factor for the times of all trials of a round. A factor above 1 makes the times longer.
    fn of_round(self, random: &mut Random) -> f64 {
        match self {
            Self::BadRounds if random.unit() < 0.3 => 1.5,
            Self::Drift | Self::Unequal => (ROUND * normal(random)).exp(),
            _ => 1.0,
        }
    }

    /// A factor for the times of one trial. A factor above 1 makes the times longer.
    fn of_trial(self, random: &mut Random, via: bool) -> f64 {
        match self {
            Self::Drift => (0.03 * normal(random)).exp(),
            Self::Unequal => ((if via { NOISY_TRIAL } else { QUIET_TRIAL }) * normal(random)).exp(),
            _ => 1.0,
        }
    }

    /// The times of a trial's requests, relative to their median.
    fn times(self, random: &mut Random) -> Vec<f64> {
        let mut lognormal =
            |sigma: f64| (0..REQUESTS).map(|_| (sigma * normal(random)).exp()).collect::<Vec<f64>>();
        match self {
            Self::Skewed => lognormal(1.0),
            Self::Tail => (0..REQUESTS).map(|_| 0.3 + random.exponential()).collect(),
            Self::Correlated => correlated(random),
            Self::Bursts => {
                let mut times = lognormal(0.2);
                for window in times.chunks_mut(REQUESTS / 20) {
                    if random.unit() < 0.05 {
                        window.iter_mut().for_each(|time| *time *= 5.0);
                    }
                }
                times
            }
            Self::Bimodal => mixed(lognormal(0.2), random, 0.03),
            Self::Edge => mixed(lognormal(0.2), random, 0.01),
            Self::BadRounds => lognormal(0.3),
            Self::Drift | Self::Unequal => lognormal(REQUEST),
        }
    }
}

const ROUND: f64 = 0.1;
const REQUEST: f64 = 0.5;
const NOISY_TRIAL: f64 = 0.1;
const QUIET_TRIAL: f64 = 0.02;

/// Correlated times: each time depends on the one before it. Their logarithms are an autoregressive process
/// of order 1.
fn correlated(random: &mut Random) -> Vec<f64> {
    const PHI: f64 = 0.95;
    let mut state = normal(random);
    let mut next = || {
        state = PHI * state + (1.0 - PHI * PHI).sqrt() * normal(random);
        (0.5 * state).exp()
    };
    (0..REQUESTS).map(|_| next()).collect()
}

/// Multiplies a share of the times by ten.
fn mixed(mut times: Vec<f64>, random: &mut Random, share: f64) -> Vec<f64> {
    times.iter_mut().filter(|_| random.unit() < share).for_each(|time| *time *= 10.0);
    times
}

/// A random value with a standard normal distribution, from G. E. P. Box and M. E. Muller, "A Note on the
/// Generation of Random Normal Deviates", 1958.
pub(super) fn normal(random: &mut Random) -> f64 {
    let radius = (2.0 * random.exponential()).sqrt();
    radius * (TAU * random.unit()).cos()
}

#[cfg(test)]
hoptax_pages::stated! {
    SIMULATIONS "direct and gateways): {} requests per trial, direct twice per round" number(REQUESTS);
}

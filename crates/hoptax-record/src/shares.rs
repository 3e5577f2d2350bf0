//! How much figures scatter from run to run on a machine, beyond what the rounds of a run show.

use crate::Environment;
use serde::{Deserialize, Serialize};

/// Shares of scatter. Each is half of a 95 % interval, as a share of the figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// All times and CPU times of a run.
    pub times: f64,
    /// Times of each process of a runtime that compiles while it runs, in addition to `times`.
    pub times_jit: f64,
    /// Throughput of a closed loop, and its ratio to direct's throughput.
    pub throughput: f64,
    /// CPU time of each process, where two processes of a run are compared.
    pub cpu: f64,
    /// Where the shares come from.
    pub origin: Origin,
}

/// Where shares of scatter come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// The shares of hoptax.
    BuiltIn,
    /// `hoptax calibrate` measured them on this machine.
    Calibrated {
        /// Day, UTC: `2026-11-28`.
        date: String,
        /// Number of runs.
        runs: u32,
    },
    /// Earlier runs of one plan on this machine, which were in the same directory.
    History {
        /// Name of the plan.
        plan: String,
        /// Day of the first run, UTC.
        since: String,
        /// Day of the last run, UTC.
        date: String,
        /// Number of runs.
        runs: u32,
    },
}

/// The properties of a machine for which shares of scatter are valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    cpu: String,
    hypervisor: Option<String>,
    kernel: String,
    cpus: u32,
}

impl Machine {
    /// The machine of a run.
    pub fn of(environment: &Environment) -> Self {
        let Environment { cpu, hypervisor, kernel, cpus, .. } = environment.clone();
        Self { cpu, hypervisor, kernel, cpus }
    }
}

impl Shares {
    /// The shares of a machine that was not calibrated. They come from 40 runs of nginx, Envoy and Spring
    /// Cloud Gateway on one kind of rented machine (`records/2026-11-27-vm-runs`).
    pub const BUILT_IN: Self = Self {
        // With this share, 152 of 160 intervals of nginx and Envoy contain the mean of all runs.
        times: 0.06,
        // With this share, 38 of 40 intervals of Spring Cloud Gateway contain the mean of all runs.
        times_jit: 0.1,
        // With this share, 184 of 189 intervals of ten gateways contain the mean of all runs.
        throughput: 0.025,
        // `times` already contains a part of this scatter. Without this share, one of two equal nginx seems
        // to take more CPU time in 4 of 21 runs; with it, in 1 run.
        cpu: 0.02,
        origin: Origin::BuiltIn,
    };

    /// True if nothing was measured on the machine.
    pub fn is_built_in(&self) -> bool {
        self.origin == Origin::BuiltIn
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self::BUILT_IN
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "(JVM, Node), {} of its figure are added" percent(Shares::BUILT_IN.times_jit);
    METHODOLOGY "of a run are compared, {} of the CPU time of each are" percent(Shares::BUILT_IN.cpu);
    METHODOLOGY "its ratio to direct's get {}, memory" percent(Shares::BUILT_IN.throughput);
    METHODOLOGY "`figure ± √(h² + ({} · figure)²)`" percent(Shares::BUILT_IN.times);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_they_were_written() {
        let day = || "2026-11-28".to_owned();
        let origins = [
            Origin::BuiltIn,
            Origin::Calibrated { date: day(), runs: 12 },
            Origin::History { plan: "nightly".into(), since: day(), date: day(), runs: 11 },
        ];
        for origin in origins {
            let shares = Shares { times: 0.03, origin, ..Shares::BUILT_IN };
            let text = serde_json::to_string(&shares).expect("written");
            assert_eq!(serde_json::from_str::<Shares>(&text).expect("read"), shares);
        }
    }
}

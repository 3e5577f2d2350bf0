//! Deaths of gateways during a run, and what follows from them.
//!
//! hoptax restarts a dead gateway before the gateway's next trial, so that a death costs one trial. If the
//! gateway dies twice in the same case, hoptax leaves out the rest of this case, and continues with the other
//! cases.

use hoptax_record::{Contender, DEATHS_IN_CASE, Death, DeathDuring, Failure};

/// Number of failed starts in a row after which hoptax does not start a gateway any more.
const FAILED_STARTS: u32 = 3;

/// The deaths of all gateways of a run.
pub(super) struct Deaths(Vec<OfGateway>);

#[derive(Default)]
struct OfGateway {
    deaths: Vec<Death>,
    /// Number of failed starts since the last successful one.
    failed_starts: u32,
}

impl Deaths {
    /// An empty list of deaths for this many gateways.
    pub(super) fn new(gateways: usize) -> Self {
        Self((0..gateways).map(|_| OfGateway::default()).collect())
    }

    /// Adds a death in, or before, the trial with this number. `load` is the load point whose load the
    /// gateway had.
    pub(super) fn add(
        &mut self,
        gateway: usize,
        during: DeathDuring,
        trial: usize,
        load: Option<usize>,
        failure: Failure,
    ) {
        let load = load.map(|load| load as u32);
        let death = Death { during, trial: trial as u32, load, failure, started_again: None };
        self.0[gateway].deaths.push(death);
    }

    /// Why the rest of this case is left out. `None` if the case is measured.
    pub(super) fn left_out(&self, gateway: usize, load: usize) -> Option<Failure> {
        let mut of_case = self.during(gateway, DeathDuring::Trial).filter(|(at, _)| *at == Some(load));
        let (_, first) = of_case.next()?;
        of_case.nth(DEATHS_IN_CASE - 2).map(|_| first.failure.clone())
    }

    /// The load points whose load killed the gateway while it was warmed up, in the order of the deaths.
    pub(super) fn in_warm_ups(&self, gateway: usize) -> Vec<usize> {
        self.during(gateway, DeathDuring::WarmUp).filter_map(|(load, _)| load).collect()
    }

    fn during(&self, gateway: usize, during: DeathDuring) -> impl Iterator<Item = (Option<usize>, &Death)> {
        let deaths = self.0[gateway].deaths.iter().filter(move |death| death.during == during);
        deaths.map(|death| (death.load.map(|load| load as usize), death))
    }

    /// Notes that the gateway was started before the trial with this number.
    pub(super) fn started(&mut self, gateway: usize, trial: usize) {
        let of = &mut self.0[gateway];
        of.failed_starts = 0;
        for death in &mut of.deaths {
            death.started_again.get_or_insert(trial as u32);
        }
    }

    /// Notes that the gateway did not start. Returns true if hoptax should not try again.
    pub(super) fn start_failed(&mut self, gateway: usize) -> bool {
        let of = &mut self.0[gateway];
        of.failed_starts += 1;
        of.failed_starts >= FAILED_STARTS
    }

    /// Copies the deaths into the record of the run. `contenders` begins with direct.
    pub(super) fn record(&self, contenders: &mut [Contender]) {
        for (contender, of) in contenders.iter_mut().skip(1).zip(&self.0) {
            contender.deaths.clone_from(&of.deaths);
        }
    }
}

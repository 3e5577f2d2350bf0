//! The hosts of a run, and the network between them.

use hoptax_analysis as analysis;
use hoptax_record::RunHost;
use hoptax_record::report::{HostFigures, Hosts, LegFigures, SameLoad};
use std::collections::BTreeMap;

/// `None` if the run has only one host.
pub(crate) fn hosts(
    hosts: &BTreeMap<String, RunHost>,
    network: &analysis::Network,
    same_loads: &[SameLoad],
) -> Option<Hosts> {
    (!hosts.is_empty()).then(|| Hosts {
        hosts: hosts.iter().map(|(name, one)| host(name, one)).collect(),
        legs: network.legs.iter().map(leg).collect(),
        same_way: network.same_way,
        splits: network.splits.clone(),
        same_loads: same_loads.to_vec(),
    })
}

fn host(name: &str, one: &RunHost) -> HostFigures {
    HostFigures {
        name: name.to_owned(),
        roles: one.roles.clone(),
        address: one.address,
        environment: one.environment.clone(),
        clock_uncertainty_us: one.clock_uncertainty_ns as f64 / 1e3,
        at_start: one.at_start.clone(),
        at_end: one.at_end.clone(),
    }
}

/// Converts the figures of a leg for a document.
pub fn leg(one: &analysis::LegFigures) -> LegFigures {
    LegFigures {
        from: one.leg.from.clone(),
        to: one.leg.to.clone(),
        address: one.leg.address,
        round_trip_us: one.round_trip_us,
        least_us: one.least_us,
        bytes_per_second: one.there,
        bytes_per_second_back: one.back,
        failed: one.failed().map(str::to_owned),
    }
}

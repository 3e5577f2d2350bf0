//! The hosts of a run, and the network between them.

use super::estimate;
use super::figures::difference;
use crate::model::Model;
use hoptax_analysis as analysis;
use hoptax_record::RunHost;
use hoptax_record::report::{HostFigures, Hosts, LegFigures, SameLoad, Split, View};

/// `None` if the run has only one host.
pub(super) fn hosts(model: &Model) -> Option<Hosts> {
    let network = &model.network;
    (!model.hosts.is_empty()).then(|| Hosts {
        hosts: model.hosts.iter().map(|(name, one)| host(name, one)).collect(),
        legs: network.legs.iter().map(leg).collect(),
        same_way: network.same_way,
        splits: network.splits.iter().map(split).collect(),
        same_loads: model.same_loads.iter().map(same_load).collect(),
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

/// A leg.
pub fn leg(one: &analysis::LegFigures) -> LegFigures {
    LegFigures {
        from: one.leg.from.clone(),
        to: one.leg.to.clone(),
        address: one.leg.address,
        round_trip_us: one.round_trip_us.map(estimate),
        least_us: one.least_us,
        bytes_per_second: one.there,
        bytes_per_second_back: one.back,
        failed: one.failed().map(str::to_owned),
    }
}

fn split(one: &analysis::Split) -> Split {
    Split {
        case: one.case.clone(),
        gateway: one.gateway.clone(),
        load: one.load,
        added_p50_us: estimate(one.added_p50_us),
        wire_us: estimate(one.wire_us),
        gateway_us: estimate(one.gateway_us),
    }
}

fn same_load(one: &analysis::SameLoad) -> SameLoad {
    let view = |one: &analysis::View| View {
        case: one.case.clone(),
        gateway: one.gateway.clone(),
        load: one.load,
        from: one.from.clone(),
        direct_p50_us: one.direct_p50_us.map(estimate),
        added_p50_us: difference(one.added_p50_us),
        more_us: one.more_us.map(estimate),
    };
    SameLoad { label: one.label.clone(), views: one.views.iter().map(view).collect() }
}

//! Gateways compared with each other.

use super::load::load;
use hoptax_analysis as analysis;
use hoptax_record::report::{GatewayPair, PairDifference, PairVerdict, Version, Versions};

pub(super) fn pair(one: &analysis::GatewayPair) -> GatewayPair {
    let difference = &one.difference;
    GatewayPair {
        load: load(&one.load),
        first: one.first.clone(),
        second: one.second.clone(),
        metric: one.metric,
        difference: PairDifference {
            estimate: difference.estimate,
            low: difference.low,
            high: difference.high,
        },
        p_value: one.p_value,
        rounds: difference.trials,
        verdict: match one.distinguishable {
            true => PairVerdict::Distinguishable,
            false => PairVerdict::NotDistinguishable,
        },
    }
}

pub(super) fn versions(one: &analysis::Versions) -> Versions {
    let version = |one: &analysis::Version| Version {
        gateway: one.gateway.clone(),
        name: one.name.clone(),
        commit: one.commit.clone(),
    };
    Versions {
        load: load(&one.load),
        name: one.name.clone(),
        versions: one.versions.iter().map(version).collect(),
        changes: one.changes.iter().map(pair).collect(),
    }
}

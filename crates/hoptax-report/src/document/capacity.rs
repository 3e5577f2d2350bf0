//! Searches for a capacity.

use super::figures::estimate;
use super::load::load;
use hoptax_analysis as analysis;
use hoptax_record::report::Capacity;

pub(super) fn capacity(one: &analysis::Capacity) -> Capacity {
    Capacity {
        load: load(&one.load),
        gateway: one.gateway.clone(),
        slo: one.slo.clone(),
        rate: one.rate.map(estimate),
        below: one.below,
        at_least: one.at_least,
        limited_by: one.limited_by,
        broken: one.broken.clone(),
        confirmed: one.confirmed,
        of_direct: one.of_direct.map(estimate),
        failed: one.failed.clone(),
        steps: one.steps.clone(),
    }
}

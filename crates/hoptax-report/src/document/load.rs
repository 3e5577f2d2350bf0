//! Load points.

use hoptax_analysis as analysis;
use hoptax_record::report::Load;

pub(crate) fn load(one: &analysis::Load) -> Load {
    Load {
        index: one.index,
        label: one.label.clone(),
        kind: one.kind,
        connections: one.connections,
        rate: one.rate,
        stages: one.stages.clone(),
        arrivals: one.arrivals,
        duration_s: one.duration_s,
        requests: one.requests,
        requests_per_connection: one.requests_per_connection,
        retry: one.retry,
        http: one.http,
        from: one.from.clone(),
        search: one.search.clone(),
    }
}

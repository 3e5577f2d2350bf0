//! Findings: mistakes that hoptax looks for in every run. Each finding has a file with its rule, its check
//! and its tests.

mod abort_ignored;
mod abuse_guard;
mod amplification;
mod balance;
mod bandwidth_bound;
mod cached_answers;
#[cfg(test)]
mod clean;
mod clock;
mod connections_recycled;
mod connections_short;
mod connections_unserved;
mod cpus_moved;
mod deadline_changed;
mod delayed_ack;
mod different_work;
mod errors;
mod event_failed;
mod events_bunched;
mod extension_differs;
mod failed_checks;
mod false_end;
mod few_quiet_windows;
mod few_samples;
mod finding;
mod first_event_held;
mod frames_changed;
mod gateway_died;
mod generator_saturated;
mod generators_disagree;
mod grpc_failed;
mod head_of_line;
mod herd;
mod hidden_limit;
mod host_changed;
mod host_noisy;
mod host_unfit;
mod impossible;
mod keepalive_lost;
mod limit_exceeded;
mod listen_overflow;
mod logging_unequal;
mod long_prompts;
mod memory_growing;
mod messages_differ;
mod no_backpressure;
mod not_distinguishable;
mod not_ready;
mod not_settled;
mod page;
mod ports_exhausted;
mod protocol_downgraded;
mod queued;
mod quiet_differs;
mod rate_limit;
mod rate_missed;
mod redirected;
mod rejections_counted;
mod request_altered;
mod retries_after_abort;
mod retries_multiply;
mod shared_cpus;
mod silence;
mod still_warming;
mod stream_buffered;
mod stream_workers_full;
mod streams_capped;
mod streams_refused;
mod subject;
mod table;
mod tail_of_the_machine;
mod throttled;
mod tokens;
mod trailers_lost;
mod tunnel_cut;
mod tunnel_refused;
mod unasked;
mod unpinned_version;
mod unsteady;
mod upstream_http_version;
mod upstream_not_multiplexed;
mod upstream_not_reused;
mod upstream_saturated;
mod usage_altered;
mod window_stalled;
mod workers_starved;
mod workers_unequal;

use finding::{
    MANY, about, about_run, connections, duration_in_words, evidence, is_chance, is_more, most_in_flight,
    percent, percent_or_none, time_in_words, with_host,
};
pub use hoptax_record::report::{Concerns, Figures, Finding, Rule, Severity};
pub use host_noisy::of_passes;
pub use page::page;
use subject::Measured;
pub use subject::Subject;
pub use table::{examine, rules};
pub use workers_unequal::BEYOND;

#[cfg(test)]
mod tests {
    use super::Finding;
    pub(super) use crate::fixture::*;

    pub(super) fn raised(run: &Run, code: &str) -> Vec<Finding> {
        run.analyse().findings.into_iter().filter(|finding| finding.code == code).collect()
    }

    /// What reports print of findings, for snapshots.
    pub(super) fn texts(findings: &[Finding]) -> String {
        let text = |one: &Finding| {
            let of = one.case.as_deref().unwrap_or("the run");
            format!("{} {} of {of}\n{}\n=> {}\n", one.severity.name(), one.code, one.message, one.advice)
        };
        findings.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

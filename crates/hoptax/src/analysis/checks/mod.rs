//! Findings: the mistakes that a run is examined for. One file per finding: its code, its rule, its evidence, its
//! advice, its tests.

mod amplification;
mod balance;
mod bandwidth_bound;
#[cfg(test)]
mod clean;
mod clock;
mod connections_short;
mod different_work;
mod errors;
mod event_failed;
mod failed_checks;
mod few_quiet_windows;
mod few_samples;
mod generator_saturated;
mod herd;
mod hidden_limit;
mod host_changed;
mod host_noisy;
mod host_unfit;
mod impossible;
mod keepalive_lost;
mod listen_overflow;
mod logging_unequal;
mod memory_growing;
mod not_distinguishable;
mod ports_exhausted;
mod quiet_differs;
mod rate_missed;
mod rejections_counted;
mod rules;
mod shared_cpus;
mod throttled;
mod unasked;
mod unpinned_version;
mod unsteady;
mod upstream_http_version;
mod upstream_not_reused;
mod upstream_saturated;
mod workers_unequal;

pub use rules::{Rule, page, rules};
pub use workers_unequal::BEYOND;

use super::case::Case;
use super::noise::NoiseFloor;
use super::trial::Trial;
use crate::plan::Gateway;
use crate::record::RunRecord;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// How grave a finding is; the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Do not believe this case.
    Void,
    /// Believe it with this in mind.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A doubt about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Names the rule.
    pub code: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// [`Case::case`] of the case in doubt; absent where it is about the whole run.
    pub case: Option<String>,
    /// The numbers that raised it.
    pub evidence: BTreeMap<&'static str, Value>,
    /// What was seen and why it matters.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// What is examined.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// Every case with its good trials.
    pub cases: &'a [(Case, Vec<Trial<'a>>)],
    /// One per load point.
    pub noise_floor: &'a [NoiseFloor],
}

impl<'a> Subject<'a> {
    /// After this long a request is given up, ns.
    fn timeout_ns(&self) -> u64 {
        u64::try_from(self.run.plan.timeout.total.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether what a gateway answered without success is the doing of the plan's events alone, which are told by themselves.
    fn rejects_by_events_only(&self, trials: &[Trial<'_>]) -> bool {
        let timeout = self.timeout_ns();
        !trials.is_empty() && trials.iter().all(|trial| trial.rejects_by_events_only(timeout))
    }

    /// The cases that were measured.
    fn measured(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.cases.iter().filter(|(case, _)| case.trials > 0).map(|(case, trials)| (case, trials.as_slice()))
    }

    /// Each gateway's case that was measured.
    fn gateways(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.measured().filter(|(case, _)| !case.is_direct())
    }

    /// The gateway of this label as the plan has it.
    fn gateway(&self, label: &str) -> Option<&'a Gateway> {
        self.run.plan.gateways.iter().find(|gateway| gateway.label == label)
    }

    /// Each gateway's case beside direct's of the same load point, where both were measured.
    fn pairs(&self) -> impl Iterator<Item = (Measured<'a>, Measured<'a>)> {
        self.gateways().filter_map(|via| Some((via, self.direct(via.0.load.index)?)))
    }

    /// Direct at a load point, if it was measured there.
    fn direct(&self, load: usize) -> Option<Measured<'a>> {
        self.measured().find(|(case, _)| case.is_direct() && case.load.index == load)
    }
}

/// A case with its good trials.
type Measured<'a> = (&'a Case, &'a [Trial<'a>]);

/// A rule: looks at a run and raises what it doubts.
pub type Check = fn(&Subject<'_>) -> Vec<Finding>;

/// Every rule.
pub fn all() -> Vec<Check> {
    vec![
        errors::check,
        event_failed::check,
        failed_checks::check,
        rejections_counted::check,
        connections_short::check,
        rate_missed::check,
        generator_saturated::check,
        host_noisy::check,
        host_unfit::check,
        host_changed::check,
        few_quiet_windows::check,
        quiet_differs::check,
        shared_cpus::check,
        throttled::check,
        listen_overflow::check,
        ports_exhausted::check,
        hidden_limit::check,
        workers_unequal::check,
        logging_unequal::check,
        bandwidth_bound::check,
        clock::check,
        few_samples::check,
        not_distinguishable::check,
        keepalive_lost::check,
        upstream_not_reused::check,
        upstream_http_version::check,
        upstream_saturated::check,
        different_work::check,
        amplification::check,
        balance::check,
        unsteady::check,
        impossible::check,
        herd::check,
        memory_growing::check,
        unpinned_version::check,
        unasked::check,
    ]
}

/// Applies every rule; the gravest findings first.
pub fn examine(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = all().iter().flat_map(|check| check(subject)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Numbers by name.
fn evidence<const N: usize>(members: [(&'static str, Value); N]) -> BTreeMap<&'static str, Value> {
    members.into_iter().collect()
}

/// A share in words, with as many digits as it needs to differ from zero and one.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent >= 99.95 && share < 1.0 => format!("{percent:.2} %"),
        _ if percent >= 10.0 => format!("{percent:.0} %"),
        _ if percent >= 0.1 => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{Run, via};

    /// The findings of one rule.
    pub(super) fn raised(run: &Run, code: &str) -> Vec<Finding> {
        run.analyse().findings.into_iter().filter(|finding| finding.code == code).collect()
    }

    #[test]
    fn the_gravest_come_first_and_cases_carry_their_codes() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.push(via("nginx", 3).status(500, 999)).push(via("nginx", 4).status(500, 999));
        run.push(via("nginx", 5).status(500, 999)).push(via("nginx", 6).status(500, 999));
        let analysis = run.analyse();
        assert!(analysis.findings.windows(2).all(|pair| pair[0].severity <= pair[1].severity));
        assert_eq!(analysis.findings[0].code, "rejections-counted");
        assert!(analysis.case("nginx", 0).expect("measured").findings.contains(&"rejections-counted"));
        assert!(!analysis.case("direct", 0).expect("measured").findings.contains(&"rejections-counted"));
    }

    #[test]
    fn shares_in_words() {
        let words = [0.0004, 0.0123, 0.345, 0.9999, 1.0].map(percent);
        assert_eq!(words, ["0.04 %", "1.2 %", "34 %", "99.99 %", "100 %"]);
    }
}

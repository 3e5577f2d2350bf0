//! `hoptax history changes`.

use super::draw::plain;
use super::format::Format;
use super::open::{History, as_error, json, unknown};
use crate::cli::exit::{BadInput, Exit};
use crate::cli::help;
use crate::cli::output::{columns, print};
use hoptax_history::{CaseChange, Cause, TrendChoice};
use hoptax_plan::Metric;
use hoptax_record::DIRECT;
use hoptax_report::wrapped;

/// The metrics of gateways that are examined unless the user chooses one. They are those that decide a
/// comparison.
const EXAMINED: [Metric; 11] = [
    Metric::AddedP50,
    Metric::AddedP99,
    Metric::ThroughputRatio,
    Metric::CpuUsPerRequest,
    Metric::AddedMessageP50,
    Metric::AddedMessageP99,
    Metric::AddedAgeP50,
    Metric::AddedAgeP99,
    Metric::CpuUsPerMessage,
    Metric::Ready,
    Metric::Settled,
];

#[derive(Debug, Default, clap::Args)]
#[command(
    after_help = "Exit status: 0 examined; 2 the command line is wrong; 3 worse, with --fail-on worse."
)]
pub(super) struct Args {
    /// Name of the plan [default: every plan]
    #[arg(value_name = "PLAN")]
    name: Option<String>,

    /// Label of the gateway, or `direct` [default: all]
    #[arg(long, value_name = "LABEL")]
    gateway: Option<String>,

    /// Load point, by its label or a part of the label [default: all]
    #[arg(long, value_name = "LOAD")]
    load: Option<String>,

    /// Metric [default: the taxes that decide a comparison, the times of starts, capacities, and medians of
    /// direct]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,

    /// Only changes whose first run is among the newest N runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,

    /// Exit 3 if a change has this verdict and direct did not change too
    #[arg(long, value_enum, value_name = "VERDICT")]
    fail_on: Option<FailOn>,

    #[arg(long, value_enum, default_value = "terminal", help = help::FORMAT)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// A figure is worse than before
    Worse,
}

/// The JSON output.
#[derive(Debug, serde::Serialize)]
struct Found {
    /// Number of cases that were examined.
    cases: usize,
    /// The changes, newest first.
    changes: Vec<CaseChange>,
}

impl Args {
    pub(super) fn run(self, history: &mut History) -> anyhow::Result<Exit> {
        let choices = history.cases(self.name.as_deref())?;
        let cases = self.cases(&choices)?;
        let metric = self.metric(&cases)?;
        let mut changes = Vec::new();
        for case in &cases {
            let metrics = metric.map_or_else(|| examined(case), |metric| vec![metric]);
            changes.extend(history.store.changes(case, &metrics).map_err(as_error)?);
        }
        changes.retain(|one| self.last.is_none_or(|last| one.change.runs_since <= last));
        // Ids begin with the time.
        changes.sort_by(|one, other| other.change.after.cmp(&one.change.after));
        let found = Found { cases: cases.len(), changes };
        match self.format {
            Format::Terminal => print(&terminal(&found, columns()))?,
            Format::Json => print(&json(&found)?)?,
        }
        let fails = self.fail_on.is_some() && found.changes.iter().any(is_regression);
        Ok(if fails { Exit::OverBudget } else { Exit::Success })
    }

    /// The cases to examine. Fails with [`BadInput`] if no case matches the options.
    fn cases<'c>(&self, choices: &'c [TrendChoice]) -> Result<Vec<&'c TrendChoice>, BadInput> {
        let mut cases: Vec<&TrendChoice> = choices.iter().collect();
        if let Some(label) = &self.gateway {
            cases.retain(|case| case.gateway == *label);
            if cases.is_empty() {
                let labels = choices.iter().map(|case| &*case.gateway);
                return Err(unknown("no run measured a gateway with the label", label, labels));
            }
        }
        if let Some(typed) = &self.load {
            let known: Vec<&TrendChoice> = cases.clone();
            cases.retain(|case| case.load.to_lowercase().contains(&typed.to_lowercase()));
            if cases.is_empty() {
                let loads = known.iter().map(|case| &*case.load);
                return Err(unknown("no load point matches", typed, loads));
            }
        }
        Ok(cases)
    }

    fn metric(&self, cases: &[&TrendChoice]) -> Result<Option<Metric>, BadInput> {
        let Some(typed) = &self.metric else { return Ok(None) };
        let is_measured = |metric: &Metric| cases.iter().any(|case| case.metrics.contains(metric));
        let known: Vec<Metric> = Metric::ALL.into_iter().filter(is_measured).collect();
        match known.iter().find(|metric| metric.is_called(typed)) {
            Some(metric) => Ok(Some(*metric)),
            None => {
                let names = known.iter().map(|metric| metric.name());
                Err(unknown("these cases have no metric", typed, names))
            }
        }
    }
}

/// The metrics of a case that are examined by default.
fn examined(case: &TrendChoice) -> Vec<Metric> {
    let has = |metric: &Metric| case.metrics.contains(metric);
    let taxes = EXAMINED.into_iter().filter(has);
    // The headline of tokens.
    let content = [Metric::AddedFirstMessageP50].into_iter().filter(|_| has(&Metric::AddedFirstEventP50));
    match case.gateway != DIRECT && (has(&Metric::AddedP50) || has(&Metric::Ready)) {
        true => taxes.chain(content.filter(has)).collect(),
        // Direct has no tax. A search has no response times; its throughput is the capacity.
        false => {
            let of_messages = [Metric::MessageP50, Metric::AgeP50].into_iter().filter(has);
            [Metric::P50, Metric::Throughput].into_iter().find(has).into_iter().chain(of_messages).collect()
        }
    }
}

/// True if a change is for the worse, and the gateway may have caused it.
fn is_regression(one: &CaseChange) -> bool {
    one.change.worse && matches!(one.change.cause, Cause::Gateway | Cause::Unclear)
}

/// Draws the changes, with the two runs around each.
fn terminal(found: &Found, width: u16) -> String {
    let width = usize::from(width);
    if found.changes.is_empty() {
        let text = format!(
            "No change in {} {}. A change needs three runs before it and three after it.",
            found.cases,
            if found.cases == 1 { "case" } else { "cases" }
        );
        return wrapped(&text, width);
    }
    let one = |CaseChange { name, gateway, load, metric, change, .. }: &CaseChange| {
        let mut text = wrapped(&plain(&format!("{} of {gateway} in {name}: {load}", metric.name())), width);
        let mut line = |words: &str| {
            let words = wrapped(&plain(words), width - 2);
            words.lines().for_each(|line| text += &format!("  {line}\n"));
        };
        line(&change.in_words(*metric));
        for (what, run, version) in [
            ("before", &change.before, &change.version_before),
            ("after", &change.after, &change.version_after),
        ] {
            line(&format!("{what} {run} {}", version.as_deref().unwrap_or_default()));
        }
        if !change.changed.is_empty() {
            line(&format!("changed: {}", change.changed.join(", ")));
        }
        text
    };
    found.changes.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_history::Change;

    fn change(worse: bool, cause: Cause) -> CaseChange {
        CaseChange {
            name: "nightly".into(),
            gateway: "nginx".into(),
            load: "closed loop, 8 connections".into(),
            metric: Metric::AddedP50,
            unit: "us".into(),
            change: Change {
                before: "20261122T132754Z-nightly".into(),
                version_before: Some("1.24".into()),
                after: "20261123T132754Z-nightly".into(),
                version_after: None,
                from: 104.0,
                to: 126.0,
                p_value: 1e-5,
                worse,
                cause,
                changed: vec!["nginx 1.24 → unknown".into(), "kernel \u{1b}[31m".into()],
                runs_since: 4,
            },
        }
    }

    #[test]
    fn only_changes_for_the_worse_that_direct_does_not_share_are_regressions() {
        assert!(is_regression(&change(true, Cause::Gateway)) && is_regression(&change(true, Cause::Unclear)));
        assert!(!is_regression(&change(true, Cause::Machine)));
        assert!(!is_regression(&change(false, Cause::Gateway)));
    }

    #[test]
    fn each_kind_of_case_has_its_metrics() {
        let of = |gateway: &str, metrics: &[Metric]| {
            examined(&TrendChoice {
                name: "nightly".into(),
                gateway: gateway.into(),
                load: "8".into(),
                metrics: metrics.to_vec(),
                runs: 6,
            })
        };
        let gateway = [Metric::AddedP50, Metric::CpuUsPerRequest, Metric::P50, Metric::Throughput];
        assert_eq!(of("nginx", &gateway), [Metric::AddedP50, Metric::CpuUsPerRequest]);
        assert_eq!(of("direct", &[Metric::P50, Metric::Throughput]), [Metric::P50]);
        assert_eq!(of("nginx", &[Metric::ThroughputRatio, Metric::Throughput]), [Metric::Throughput]);
        assert_eq!(of("yarp", &Metric::STARTS), [Metric::Ready, Metric::Settled]);
        let of_streams = [Metric::AddedP50, Metric::AddedAgeP50, Metric::CpuUsPerMessage];
        assert_eq!(of("nginx", &[&of_streams[..], &[Metric::AddedGapP50]].concat()), of_streams);
        let of_tokens = [Metric::AddedP50, Metric::AddedFirstMessageP50, Metric::AddedFirstEventP50];
        assert_eq!(of("nginx", &of_tokens), of_tokens[..2]);
        assert_eq!(of("nginx", &of_tokens[..2]), [Metric::AddedP50], "these are no tokens");
        let of_direct = [Metric::P50, Metric::Throughput, Metric::MessageP50, Metric::GapP50];
        assert_eq!(of("direct", &of_direct), [Metric::P50, Metric::MessageP50]);
    }
}

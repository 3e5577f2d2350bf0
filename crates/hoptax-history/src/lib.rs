//! The history of all runs below one directory: which runs there are, and how figures changed over time.
//!
//! All data comes from the run directories. The index, an SQLite file beside them, makes listing, search and
//! trends fast. You can delete the index at any time; hoptax then builds it again.
#![forbid(unsafe_code)]

mod basis;
mod changes;
mod columns;
mod error;
mod figures;
mod index;
mod latest;
pub mod live;
mod notes;
mod read;
mod scan;
mod scatter;
pub mod serve;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod trend;

pub use error::HistoryError;
pub use latest::Latest;
pub use scatter::learned_shares;
pub use store::Store;

use hoptax_plan::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a run directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RunState")]
pub enum State {
    /// The run ended normally, and its files are complete.
    Whole,
    /// The run is in progress. It has not ended, and it wrote to its directory within the last minutes.
    Running,
    /// The run failed, was stopped by a signal, or was killed. The trials that it measured before are kept.
    Interrupted,
    /// A part of the run cannot be read: a line is truncated, or a file is missing.
    Damaged,
    /// The run cannot be read.
    #[default]
    Broken,
    /// A newer version of hoptax wrote the run.
    Newer,
    /// The directory does not contain a run of hoptax.
    Foreign,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Whole,
        Self::Running,
        Self::Interrupted,
        Self::Damaged,
        Self::Broken,
        Self::Newer,
        Self::Foreign,
    ];

    /// Name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Damaged => "damaged",
            Self::Broken => "broken",
            Self::Newer => "newer",
            Self::Foreign => "foreign",
        }
    }
}

/// A run in the list of runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Id of the run. It is the name of the run directory, which is directly below the history's directory.
    pub id: String,
    /// State of the run directory.
    pub state: State,
    /// Description of the problem with the run. Absent if there is no problem.
    pub problem: Option<String>,
    /// Name of the plan. Empty if it cannot be read.
    pub name: String,
    /// Start of the run, Unix seconds. Absent if unknown.
    pub started_unix: Option<i64>,
    /// Duration of the run, seconds. Absent if unknown.
    pub took_s: Option<f64>,
    /// Version of hoptax that measured the run.
    pub hoptax: String,
    /// Direct and the gateways, with their versions. The version of direct is the version of the upstream.
    pub contenders: Vec<Contender>,
    /// Descriptions of the load points.
    pub loads: Vec<String>,
    /// Number of recorded trials, or of recorded starts if `starts` is true.
    pub trials: u32,
    /// Number of planned trials or starts.
    pub trials_planned: u32,
    /// Whether the run measured starts of gateways instead of trials.
    pub starts: bool,
    /// Verdict of the report: `believable`, `warnings` or `void`. Absent until the run is analysed.
    pub verdict: Option<String>,
    /// Whether a budget of the plan was exceeded, so that `hoptax run` exited with 3. Absent until the run is
    /// analysed.
    pub over_budget: Option<bool>,
    /// The answer of the report, in one sentence. Absent until the run is analysed, and if the report has no
    /// answer.
    pub answer: Option<String>,
    /// Tags of the run, sorted.
    pub tags: Vec<String>,
    /// Note on the run. Empty if there is no note.
    pub note: String,
}

/// Direct or a gateway of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contender {
    /// `direct` or the gateway's label.
    pub label: String,
    /// Name of the pack, kind of the built-in hop, or `external`. Empty for direct.
    pub kind: String,
    /// Version. Absent if unknown.
    pub version: Option<String>,
}

/// A query for the list of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    /// Words to search for, in upper or lower case. Each word must occur in the id, the name, a gateway, a
    /// version, a tag or the note.
    pub text: String,
    /// Return only runs with this tag.
    pub tag: Option<String>,
    /// Return only runs with a gateway that has this label or this kind.
    pub gateway: Option<String>,
    /// Return only runs in this state.
    pub state: Option<State>,
    /// Maximum number of runs to return; 0 means 100.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub limit: u32,
    /// Number of runs to skip.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub offset: u32,
}

/// One page of the list of runs, newest run first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Listing {
    /// Number of runs that match the query.
    pub total: u32,
    /// Number of run directories.
    pub all: u32,
    /// Number of runs that are not analysed yet. Their figures are missing in trends.
    pub pending: u32,
    /// The runs of this page.
    pub runs: Vec<Entry>,
}

/// A query for a trend.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct TrendQuery {
    /// The plan's name.
    pub name: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// Description of the load point, as in the list of trends.
    pub load: String,
    /// The metric.
    pub metric: Metric,
}

/// A metric of a case over time, oldest run first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    /// Unit of the values, as in JSON reports.
    pub unit: String,
    /// One point for each run that measured the metric, oldest run first.
    pub points: Vec<Point>,
    /// Places where the level of the metric changed, oldest first.
    pub changes: Vec<Change>,
}

/// The value of a metric in one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Id of the run.
    pub id: String,
    /// Start of the run, Unix seconds.
    pub started_unix: i64,
    /// The estimate, or a bound.
    pub estimate: f64,
    /// Present if `estimate` is only a bound.
    pub bound: Option<Bound>,
    /// Lower and upper end of the 95 % interval. Absent if there is only one trial, or if an end is not
    /// known.
    pub interval: Option<(f64, f64)>,
    /// Verdict of the run's report: `believable`, `warnings` or `void`.
    pub verdict: String,
    /// Version of the gateway. Absent if unknown. For direct, this is the version of hoptax.
    pub version: Option<String>,
    /// Descriptions of the changes since the previous point, such as `nginx 1.22.1 → 1.26.0`, `hoptax 0.1.0 →
    /// 0.2.0` or `host`. Empty if nothing changed.
    pub changed: Vec<String>,
}

/// Direction of a bound, for a figure that is not known exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The figure is at least this large, for example the capacity of a gateway that is limited by the
    /// machine.
    AtLeast,
    /// The figure is at most this large.
    AtMost,
}

impl Bound {
    /// Sign in front of the bound.
    pub fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => "≥ ",
            Self::AtMost => "≤ ",
        }
    }
}

/// A change of a metric's level between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Id of the last run before the change.
    pub before: String,
    /// Version of the gateway in that run. Absent if unknown.
    pub version_before: Option<String>,
    /// Id of the first run after the change.
    pub after: String,
    /// Version of the gateway in that run. Absent if unknown.
    pub version_after: Option<String>,
    /// Mean of the runs since the change before this one. Runs with narrow intervals count more.
    pub from: f64,
    /// Mean of the runs until the next change.
    pub to: f64,
    /// Probability of such a difference if the level is the same.
    pub p_value: f64,
    /// Whether the change is for the worse.
    pub worse: bool,
    /// What caused the change.
    pub cause: Cause,
    /// Descriptions of what else changed between the two runs, as in `changed` of a point.
    pub changed: Vec<String>,
    /// Number of runs from the first run after the change to the newest.
    pub runs_since: u32,
}

/// What caused a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The gateway, because direct did not change there.
    Gateway,
    /// The machine or the upstream, because direct changed there too.
    Machine,
    /// The plan, because it changed there.
    Plan,
    /// hoptax, because direct changed there too, and so did the version of hoptax.
    Hoptax,
    /// Not known. Direct has no such figure, has too few runs, or may have changed too; or several things
    /// changed.
    Unclear,
}

impl Cause {
    /// The cause in a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Gateway => "the gateway",
            Self::Machine => "the machine: direct changed too",
            Self::Plan => "the plan: it changed too",
            Self::Hoptax => "hoptax: direct changed too, with its version",
            Self::Unclear => "unclear",
        }
    }
}

/// A change of one metric of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseChange {
    /// The plan's name.
    pub name: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// Description of the load point.
    pub load: String,
    /// The metric.
    pub metric: Metric,
    /// Unit of `from` and `to`.
    pub unit: String,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

/// A case that has trends.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrendChoice {
    /// The plan's name.
    pub name: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// Description of the load point.
    pub load: String,
    /// Metrics with a value in at least one run.
    pub metrics: Vec<Metric>,
    /// Number of runs that measured the case.
    pub runs: u32,
}

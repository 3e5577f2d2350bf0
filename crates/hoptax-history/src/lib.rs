//! The history of all runs below one directory: which runs there are, and how figures changed over time.
//!
//! All data comes from the run directories. The index, an SQLite file beside them, makes listing, search and trends
//! fast. You can delete the index at any time; hoptax then builds it again.
#![forbid(unsafe_code)]

mod columns;
mod error;
mod figures;
mod index;
mod latest;
pub mod live;
mod notes;
mod read;
mod scan;
pub mod serve;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod trend;

pub use error::HistoryError;
pub use latest::Latest;
pub use store::Store;

use hoptax_plan::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a run directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RunState")]
pub enum State {
    /// Measured to its end.
    Whole,
    /// Not ended yet, and written to within the last minutes.
    Running,
    /// Stopped by a signal or killed; what was measured so far is kept.
    Interrupted,
    /// Partly unreadable: a truncated line, or a missing file.
    Damaged,
    /// Unreadable.
    Broken,
    /// Written by a newer hoptax.
    Newer,
    /// Not a run of hoptax.
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

/// A run in the list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Id: the name of its directory, directly below the history's directory.
    pub id: String,
    /// State of the run directory.
    pub state: State,
    /// What is wrong with the run, in words; absent if nothing is.
    pub problem: Option<String>,
    /// The plan's name; empty if it cannot be read.
    pub name: String,
    /// Start, Unix seconds; absent if unknown.
    pub started_unix: Option<i64>,
    /// Duration, seconds; absent if unknown.
    pub took_s: Option<f64>,
    /// Version of hoptax that measured the run.
    pub hoptax: String,
    /// Direct and the gateways with their versions; direct's version is the upstream's.
    pub contenders: Vec<Contender>,
    /// Load points in words.
    pub loads: Vec<String>,
    /// Number of trials recorded.
    pub trials: u32,
    /// Number of trials planned.
    pub trials_planned: u32,
    /// `believable`, `warnings` or `void`; absent until the run is analysed.
    pub verdict: Option<String>,
    /// The report's answer, one sentence; absent until the run is analysed, and if the report has none.
    pub answer: Option<String>,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// The note; empty if there is none.
    pub note: String,
}

/// Direct or a gateway of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contender {
    /// `direct` or the gateway's label.
    pub label: String,
    /// Pack, hop kind or `external`; empty for direct.
    pub kind: String,
    /// Version; absent if unknown.
    pub version: Option<String>,
}

/// A query for the list of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    /// Words that must all occur in the id, the name, a gateway, a version, a tag or the note. Upper and lower case are
    /// the same.
    pub text: String,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only runs with a gateway of this label or kind.
    pub gateway: Option<String>,
    /// Only runs in this state.
    pub state: Option<State>,
    /// Maximum number of runs to return; 0 means 100.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub limit: u32,
    /// How many runs to skip.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub offset: u32,
}

/// One page of the list, newest first.
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
    /// The load point in words, as in a run's list of load points.
    pub load: String,
    /// The metric.
    pub metric: Metric,
}

/// A metric of a case over time, oldest run first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    /// Unit of the values, as in JSON reports.
    pub unit: String,
    /// One point for each run that measured the metric.
    pub points: Vec<Point>,
}

/// The value of one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Id of the run.
    pub id: String,
    /// Start of the run, Unix seconds.
    pub started_unix: i64,
    /// The estimate.
    pub estimate: f64,
    /// 95 % interval; absent with a single trial.
    pub interval: Option<(f64, f64)>,
    /// The run's verdict.
    pub verdict: String,
    /// Version of the gateway, absent if unknown; for direct the version of hoptax.
    pub version: Option<String>,
    /// Changes since the previous point, in words (`nginx 1.22.1 → 1.26.0`, `hoptax 0.1.0 → 0.2.0`, `host`);
    /// empty if nothing changed.
    pub changed: Vec<String>,
}

/// A case that has trends.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrendChoice {
    /// The plan's name.
    pub name: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The load point in words.
    pub load: String,
    /// Metrics with a value in at least one run.
    pub metrics: Vec<Metric>,
    /// Number of runs that measured the case.
    pub runs: u32,
}

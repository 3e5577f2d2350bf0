//! The history of every run below one directory: what there is, how its figures went over time.
//!
//! The run directories stay the truth. The index beside them (SQLite) only makes it quick to list, search and draw trends; it can
//! be thrown away at any time, and is made anew.
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

/// Whether a directory holds a run that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RunState")]
pub enum State {
    /// It went to its end.
    Whole,
    /// It has no end yet and was written to a moment ago.
    Running,
    /// It was ended by a signal, or killed: what was measured is there.
    Interrupted,
    /// Some of it cannot be read: a line cut short, a file missing.
    Damaged,
    /// Nothing of it can be read.
    Broken,
    /// Written by a later hoptax.
    Newer,
    /// No run of hoptax.
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

    /// As it is written in JSON.
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

/// A run as it stands in the list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Name of its directory, by which it is asked for: one component below the history's directory.
    pub id: String,
    /// Whether it can be shown.
    pub state: State,
    /// What is wrong with it, in words; absent where nothing is.
    pub problem: Option<String>,
    /// The plan's name; empty where it cannot be read.
    pub name: String,
    /// Start, Unix seconds.
    pub started_unix: Option<i64>,
    /// For how long it went on, seconds.
    pub took_s: Option<f64>,
    /// Version of hoptax.
    pub hoptax: String,
    /// Direct's upstream and the gateways, with their versions.
    pub contenders: Vec<Contender>,
    /// Its load points in words.
    pub loads: Vec<String>,
    /// Trials recorded.
    pub trials: u32,
    /// Trials planned.
    pub trials_planned: u32,
    /// Whether it is to be believed: `believable`, `warnings`, `void`; absent until it was analysed.
    pub verdict: Option<String>,
    /// Its answer in a sentence; absent until it was analysed, and where there is none.
    pub answer: Option<String>,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// A note.
    pub note: String,
}

/// Direct or a gateway of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contender {
    /// `direct` or the gateway's label.
    pub label: String,
    /// Pack, hop kind or `external`; empty for direct.
    pub kind: String,
    /// Its version, where it is known.
    pub version: Option<String>,
}

/// What is asked of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    /// Words that all must occur, whatever their case: in the id, the name, a gateway, a version, a tag or the note.
    pub text: String,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only runs with a gateway of this label or kind.
    pub gateway: Option<String>,
    /// Only runs in this state.
    pub state: Option<State>,
    /// How many at most; 0 is 100.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub limit: u32,
    /// How many are passed over.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub offset: u32,
}

/// A part of the list, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Listing {
    /// How many fit the query.
    pub total: u32,
    /// How many directories there are.
    pub all: u32,
    /// Runs that still have to be analysed before their figures stand in trends.
    pub pending: u32,
    /// Those asked for.
    pub runs: Vec<Entry>,
}

/// What is asked of a trend.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct TrendQuery {
    /// The plan's name.
    pub name: String,
    /// Direct or the gateway's label.
    pub gateway: String,
    /// The load point in words, as runs tell it.
    pub load: String,
    /// The metric.
    pub metric: Metric,
}

/// How a metric of a case went over time, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    /// Unit in which values stand: that of [`Metric`] in JSON reports.
    pub unit: String,
    /// One point per run that measured it.
    pub points: Vec<Point>,
}

/// One run's value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// The run.
    pub id: String,
    /// Its start, Unix seconds.
    pub started_unix: i64,
    /// The estimate.
    pub estimate: f64,
    /// Its interval; absent where one trial gave none.
    pub interval: Option<(f64, f64)>,
    /// The run's verdict.
    pub verdict: String,
    /// Version of the gateway (of hoptax, for direct).
    pub version: Option<String>,
    /// What changed since the point before, in words (`nginx 1.22.1 → 1.26.0`, `hoptax 0.1.0 → 0.2.0`, `host`); empty where
    /// nothing did.
    pub changed: Vec<String>,
}

/// Which trends there are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrendChoice {
    /// The plan's name.
    pub name: String,
    /// Direct or the gateway's label.
    pub gateway: String,
    /// The load point in words.
    pub load: String,
    /// Metrics of which at least one run has a value.
    pub metrics: Vec<Metric>,
    /// How many runs measured the case.
    pub runs: u32,
}

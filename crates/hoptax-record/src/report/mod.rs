//! Documents for programs: the JSON of reports, comparisons and gates.
//!
//! These types are stable interfaces (`docs/reference/json.md`). The crate hoptax-report fills them from an
//! analysis, so that a change of the analysis changes no document. Members are serialised in the order of
//! declaration; absent members are `null`.

mod budgets;
mod capacity;
mod cases;
mod comparison;
mod figures;
mod findings;
mod load;
mod prices;
mod summary;
mod taxes;

pub use budgets::{Budget, Change, Gate, Outcome};
pub use capacity::{Capacity, Confirmed, Limit, Step};
pub use cases::{
    Bytes, Case, Connections, Cpu, Event, FailedTrial, Ledger, Memory, Path, Quiet, Stretch, Target, Tls,
};
pub use comparison::{Comparison, Obstacle, Row, Verdict};
pub use figures::{Contrast, Difference, Estimate, Latency, Throughput};
pub use findings::{Finding, Rule, Severity};
pub use load::{Load, LoadSearch, LoadStage};
pub use prices::{Beyond, Price, PriceList, Prices};
pub use summary::Summary;
pub use taxes::{NoiseFloor, NoiseFloors, Tax};

use super::{Contender, Environment, HostLook, Stopped};
use serde::Serialize;

/// The JSON report: the output of `hoptax report --format json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this document.
    pub schema: u32,
    /// The plan's name.
    pub name: String,
    /// Whether the run was interrupted or killed before its last trial.
    pub interrupted: bool,
    /// Version of hoptax that measured the run.
    pub hoptax: String,
    /// Start, RFC 3339, UTC.
    pub started: String,
    /// End, RFC 3339, UTC; absent if the run was killed.
    pub ended: Option<String>,
    /// Seed of the order and the arrivals.
    pub seed: u64,
    /// The command line.
    pub command: Vec<String>,
    /// The plan as typed.
    pub plan_text: String,
    /// Rounds requested; with `trials: auto`, rounds started; 0 if every load point is a search.
    pub rounds: u32,
    /// Why `trials: auto` started no further round; absent for a fixed number of rounds.
    pub stopped: Option<Stopped>,
    /// Method and path requested; with several targets, each with its share.
    pub target: String,
    /// Settings of gateways: `equalised` or `stock`.
    pub profile: &'static str,
    /// Number of trials planned, including direct.
    pub trials_planned: u32,
    /// Number of trials recorded.
    pub trials_recorded: usize,
    /// The machine.
    pub environment: Environment,
    /// Fitness of the machine.
    pub host: HostLooks,
    /// Direct and the gateways, with versions, settings and failures.
    pub contenders: Vec<Contender>,
    /// The gateway that adds least, or that there is no clear winner; absent if there is no choice.
    pub answer: Option<String>,
    /// One or two sentences per gateway, smallest tax first.
    pub summary: Vec<Summary>,
    /// Prices of features; without rows unless a gateway is measured with and without features.
    pub prices: PriceList,
    /// Difference between the two direct trials of a round.
    pub noise_floor: NoiseFloors,
    /// Every contender at every load point.
    pub cases: Vec<Case>,
    /// Results of searches: by load point, then contender, then objective.
    pub capacity: Vec<Capacity>,
    /// Findings, most severe first.
    pub findings: Vec<Finding>,
    /// Budgets.
    pub budget: Vec<Budget>,
    /// Notes on the records: unreadable lines, an upstream without a ledger.
    pub notes: Vec<String>,
}

/// Fitness of the host before the first trial and after the last.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HostLooks {
    /// Before the first trial; absent in older runs.
    pub at_start: Option<HostLook>,
    /// After the last trial; absent in older runs, and if the run did not get there.
    pub at_end: Option<HostLook>,
}

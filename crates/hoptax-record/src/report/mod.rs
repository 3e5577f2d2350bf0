//! Documents for programs: the JSON report, the JSON of comparisons and of gates.
//!
//! These types are stable interfaces (`docs/reference/json.md`), and nothing computes with them: `report` fills them in from
//! an analysis, so that a refactor of the analysis changes no document. Members are serialised in the order in which they are
//! declared. Absent members are `null`.

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

/// The JSON report: what `hoptax report --format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this document.
    pub schema: u32,
    /// The plan's name.
    pub name: String,
    /// Whether the run ended before its last trial: by a signal, or because it was killed.
    pub interrupted: bool,
    /// Version of hoptax that measured.
    pub hoptax: String,
    /// Start, RFC 3339, UTC.
    pub started: String,
    /// End, RFC 3339, UTC; absent if the run was killed.
    pub ended: Option<String>,
    /// Seed of the order and the arrivals.
    pub seed: u64,
    /// The command line.
    pub command: Vec<String>,
    /// The plan as it was typed.
    pub plan_text: String,
    /// Rounds requested; with `trials: auto` the rounds begun; 0 if every load point is searched.
    pub rounds: u32,
    /// Why there was no further round; absent if their number was fixed.
    pub stopped: Option<Stopped>,
    /// Method and path requested; of several targets each with its share.
    pub target: String,
    /// Settings of gateways: `equalised` or `stock`.
    pub profile: &'static str,
    /// Trials planned, direct ones included.
    pub trials_planned: u32,
    /// Trials recorded.
    pub trials_recorded: usize,
    /// The machine.
    pub environment: Environment,
    /// How fit the machine was.
    pub host: HostLooks,
    /// Direct and the gateways, with versions, settings and failures.
    pub contenders: Vec<Contender>,
    /// Which gateway adds least, or that there is no clear winner; absent if there is no choice.
    pub answer: Option<String>,
    /// One sentence or two per gateway, the least tax first.
    pub summary: Vec<Summary>,
    /// What features cost; without rows if no gateway with features has a sibling without.
    pub prices: PriceList,
    /// How far direct differs from itself.
    pub noise_floor: NoiseFloors,
    /// Every contender at every load point.
    pub cases: Vec<Case>,
    /// The highest rates that were searched for: by load point, then contender, then objective.
    pub capacity: Vec<Capacity>,
    /// Doubts, the gravest first.
    pub findings: Vec<Finding>,
    /// Budgets.
    pub budget: Vec<Budget>,
    /// Notes on the records themselves: lines that could not be read, an upstream without a ledger.
    pub notes: Vec<String>,
}

/// How fit the host was: what a run saw before its first trial and after its last.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HostLooks {
    /// Before the first trial; absent in older runs.
    pub at_start: Option<HostLook>,
    /// After the last; absent in older runs, and if the run did not get there.
    pub at_end: Option<HostLook>,
}

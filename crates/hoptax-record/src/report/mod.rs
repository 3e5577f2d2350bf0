//! The JSON documents that other programs read: reports, comparisons, and the output of `hoptax gate`.
//!
//! These types are stable interfaces (`docs/reference/json.md`, and its JSON Schema, which
//! `python/tests/test_schema.py` checks). hoptax-analysis returns these types, and declares its own types
//! only for data that the documents do not contain. Members are serialised in the order in which they are
//! declared. Absent members are `null`.

mod budgets;
mod capacity;
mod cases;
mod comparison;
mod figures;
mod findings;
mod hosts;
mod load;
mod pairs;
mod prices;
mod profiles;
mod series;
mod slow;
mod starts;
mod summary;
mod tail;
mod taxes;
mod warm_ups;

pub use budgets::{BudgetResult, ChangeResult, Gate, Outcome, WouldDecide};
pub use capacity::{Capacity, Confirmed, Limit, Step};
pub use cases::{
    Bytes, Case, Connections, Cpu, EventFigures, FailedTrial, GeneratorFigures, Ledger, Memory, MessageTimes,
    Messages, Path, QuietFigures, Spread, Stretch, TargetFigures, Tls, Tokens, Waits,
};
pub use comparison::{Comparison, Obstacle, Row, Verdict};
pub use figures::{Contrast, Difference, Estimate, Latency, Throughput};
pub use findings::{Concerns, Figures, Finding, Rule, Severity};
pub use hosts::{HostFigures, Hosts, LegFigures, SameLoad, Split, View};
pub use load::{Load, LoadSearch, LoadStage};
pub use pairs::{GatewayPair, Version, Versions};
pub use prices::{Beyond, Price, PriceList, Prices};
pub use profiles::{
    FrameChange, FrameFigures, MissingSymbols, ModuleChange, ModuleFigures, Profile, ProfileDifference,
    ProfiledCase,
};
pub use series::Series;
pub use slow::{SlowCause, SlowFigures};
pub use starts::{CurvePoint, FirstRequests, StartFigures, StartMedian, StartUnderLoad};
pub use summary::Summary;
pub use tail::Tail;
pub use taxes::{NoiseFloor, NoiseFloors, Tax};
pub use warm_ups::{Fall, WarmUpFigures};

use super::plan::Replacement;
use super::{Contender, Environment, HostLook, Placement, Shares, Stopped};
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
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// End of the run, RFC 3339, UTC; absent if the run was killed.
    pub ended: Option<String>,
    /// Seed for the random order of the trials and for the random arrival times of requests.
    pub seed: u64,
    /// The command line.
    pub command: Vec<String>,
    /// The text of the plan, as the user wrote it.
    pub plan_text: String,
    /// Number of rounds that the plan requests. With `trials: auto`, the number of rounds that were started.
    /// 0 if every load point is a search.
    pub rounds: u32,
    /// Why `trials: auto` started no further round; absent for a fixed number of rounds.
    pub stopped: Option<Stopped>,
    /// Method and path of the requests. If there are several targets, the method, path and share of each.
    pub target: String,
    /// Settings of the gateways.
    pub profile: super::plan::Profile,
    /// Number of planned trials, including the trials of direct.
    pub trials_planned: u32,
    /// Number of recorded trials.
    pub trials_recorded: usize,
    /// The machine.
    pub environment: Environment,
    /// Results of the checks of the machine.
    pub host: HostLooks,
    /// The hosts of the run, and the network between them. Left out if the run has only one host.
    /// `environment` and `host` are those of the generator's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Hosts>,
    /// Direct and the gateways, with versions, settings and failures.
    pub contenders: Vec<Contender>,
    /// A sentence that names the gateway with the smallest tax, or says that there is no clear winner. Absent
    /// if there are no gateways to choose from.
    pub answer: Option<String>,
    /// One or two sentences about each gateway. The gateway with the smallest tax comes first.
    pub summary: Vec<Summary>,
    /// Prices of features. The list has rows only if a gateway was measured both with and without features.
    pub prices: PriceList,
    /// Every two gateways, compared in each metric: by load point, then in the plan's order.
    pub pairs: Vec<GatewayPair>,
    /// Versions of gateways, with the changes between successive versions: by load point, then in the plan's
    /// order. Absent if the plan has no list of versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Versions>,
    /// How long each process took to warm up. Empty with a fixed warm-up, and for older runs.
    pub warm_ups: Vec<WarmUpFigures>,
    /// How much separate runs scatter on this machine. Left out if the shares of hoptax hold.
    #[serde(skip_serializing_if = "Shares::is_built_in")]
    pub scatter: Shares,
    /// How the CPUs of the roles were placed. Left out if they are not pinned to different CPUs, and for
    /// older runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_placements: Vec<Placement>,
    /// What starts and reloads of each gateway cost, in the order of the contenders. Empty for runs that
    /// measure trials.
    pub starts: Vec<StartFigures>,
    /// Profiles of the gateways, by load point. Left out if the plan has no `cpu_profile`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// Profiles of CPU time, compared. Left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profile_differences: Vec<ProfileDifference>,
    /// Why slow requests took longer than those at the median, by load point. Left out if the plan has no
    /// `tail`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowFigures>,
    /// Difference between the two direct trials of a round.
    pub noise_floor: NoiseFloors,
    /// Every contender at every load point.
    pub cases: Vec<Case>,
    /// Results of capacity searches, sorted by load point, then by contender, then by objective.
    pub capacity: Vec<Capacity>,
    /// Findings, most severe first.
    pub findings: Vec<Finding>,
    /// Budgets.
    pub budget: Vec<BudgetResult>,
    /// Gateways that replaced others, because those were not installed. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replacements: Vec<Replacement>,
    /// Notes on the records, for example that lines are unreadable or that the upstream has no ledger.
    pub notes: Vec<String>,
}

/// Results of the checks of the host, before the first trial and after the last trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HostLooks {
    /// Before the first trial; absent in older runs.
    pub at_start: Option<HostLook>,
    /// After the last trial; absent in older runs, and if the run ended before its last trial.
    pub at_end: Option<HostLook>,
}

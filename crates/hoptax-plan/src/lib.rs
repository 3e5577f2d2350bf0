//! Reads plans from YAML, checks them, and defines the types that the rest of the program uses for plans.
//!
//! `raw` mirrors the YAML. `meaning` converts it to the types below, or to errors that show a line, a column
//! and a fix. Code outside this crate does not need to know YAML, units or defaults.
#![forbid(unsafe_code)]

mod budget;
mod de;
mod error;
mod event;
mod feature;
mod fixing;
mod gateway;
mod hop_delay;
mod host;
mod image;
mod load_point;
mod meaning;
mod node;
mod objective;
mod parse;
mod plan;
mod raw;
pub mod recorded;
pub mod selector;
pub mod stages;
mod target;
pub mod units;
mod upstream;

pub use budget::{Budget, LoadSelector};
pub use error::{PlanError, PlanErrors};
pub use event::{Action, Event};
pub use feature::{DEFAULT_RATE_LIMIT, Feature, JwtAlgorithm, MOST_CONSUMERS, MOST_ROUTES, RoutePosition};
pub use gateway::{Gateway, GatewayKind, PackInfo, variant_name};
pub use hop_delay::{
    HopDelay, HopDelayHow, HopWarming, HopWarmingFall, LONGEST_HOP_DELAY, LONGEST_WARMING,
    MOST_WARMING_REQUESTS, SHORTEST_WARMING,
};
pub use hoptax_record::{Metric, Quantity};
pub use host::{Host, HostKind, is_plain_word, kubectl, shown_words};
pub use image::check_image;
pub use load_point::{LoadPoint, Search};
pub use objective::{Figure, Objective, REACHED, Term};
pub use parse::{
    BudgetContext, Context, LoadError, TEMPLATE, load, load_budget, load_targets, parse, parse_answer,
    parse_budget, parse_targets, read_as,
};
pub use plan::{Plan, Trials};
pub use raw::schema;
pub use target::{Target, Targets};
pub use upstream::{Answer, BuiltInUpstream, Delay, Upstream};

// Types that are the same in a plan and on disk are defined only once, in `hoptax_record`.
pub use hoptax_record::plan::{
    Access, AccessLog, AutoTrials, Body, CertificateFiles, CpuPlan, CpuProfile, CpuSets, GitBuild, HopKind,
    Idle, Imported, LOCAL, LedgerSource, Listen, PackDriver, PathSplit, Pods, Profile, ProgramSource,
    ProgramVersion, Prometheus, ProxyForm, Pull, Replacement, Resolve, Roles, Running, Start, Terraform,
    TerraformReach, Timeouts, TlsAccess, Toleration, UntilSettled, WatchedPods, Workload, WorkloadKind,
};

#[cfg(test)]
mod tests;

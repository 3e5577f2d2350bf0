//! What a run under way shows, on the terminal and in a browser: one state, written by the flow and read by whoever draws.
//!
//! It is a view and nothing else: no figure of a report is made of it.

use hoptax_analysis::Severity;
use hoptax_load::record::Phase;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of the state's JSON.
pub const SCHEMA: u32 = 1;

/// Everything that is shown of a run under way.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Live")]
pub struct State {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run directory's name.
    pub run: String,
    /// The plan's name.
    pub name: String,
    /// What it is about.
    pub stage: Stage,
    /// The same in words: `starting nginx`, `nginx: same answer as direct?`; empty where the trial says it.
    pub doing: String,
    /// Trials that have ended.
    pub trials_done: u32,
    /// Trials that are known to come, those that have ended included.
    pub trials_planned: u32,
    /// Whether more may come: with `trials: auto` and in searches.
    pub open_ended: bool,
    /// Rounds in words: `2/5`, `2 of 5 to 30`.
    pub round: String,
    /// Seconds since the run began.
    pub elapsed_s: f64,
    /// Seconds that are left; at least, where the run is open-ended.
    pub left_s: f64,
    /// The trial under way; absent before the first one.
    pub trial: Option<Trial>,
    /// What each role uses, over the last second.
    pub cpu: Vec<Role>,
    /// Share of the host's CPU time that the hypervisor took over the last second, 0 to 1.
    pub steal: Option<f64>,
    /// What the trials until now came to, by load point, direct first.
    pub cases: Vec<Case>,
    /// What the trials until now give reason to doubt, the gravest first.
    pub findings: Vec<Finding>,
    /// What could not be measured, once per contender and reason.
    pub failures: Vec<Failure>,
}

/// What a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Services are being started and verified.
    Preparing,
    /// A trial is under way.
    Measuring,
    /// Quiet until the next trial.
    Pausing,
    /// Services are down and the report is made; what is shown stays as it is.
    Ended,
}

/// A trial under way.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// Number, from 1.
    pub number: u32,
    /// Direct or the gateway's label.
    pub gateway: String,
    /// The load point in words; of a step of a search with its rate.
    pub load: String,
    /// What the generator is doing: `starting`, `connecting`, `warmup`, `measuring`, `draining`.
    pub phase: TrialPhase,
    /// Seconds since the measured time began.
    pub elapsed_s: f64,
    /// Length of the measured time, seconds.
    pub duration_s: f64,
    /// Requests due per second, in an open loop.
    pub due: Option<f64>,
    /// The measured time, second by second.
    pub seconds: Vec<Second>,
}

/// Phases of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialPhase {
    /// The generator is being started.
    Starting,
    /// Connections are being opened.
    Connecting,
    /// Traffic that is thrown away.
    Warmup,
    /// The measured time.
    Measuring,
    /// What is in flight is waited for.
    Draining,
}

impl From<Phase> for TrialPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Connecting => Self::Connecting,
            Phase::Warmup => Self::Warmup,
            Phase::Measuring => Self::Measuring,
            Phase::Draining => Self::Draining,
        }
    }
}

/// One second of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Second {
    /// Responses per second.
    pub rate: f64,
    /// Failures per second: timeouts, errors, and responses that were no success.
    pub failed: f64,
    /// Median response time, microseconds; absent where nothing was answered.
    pub p50_us: Option<f64>,
    /// Its 99th percentile, microseconds.
    pub p99_us: Option<f64>,
}

/// A role of the trial under way.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Role {
    /// `generator`, `gateway`, `upstream`.
    pub role: String,
    /// CPUs' worth of time that it used: 0.5 is half of one.
    pub cpus: f64,
    /// Resident memory, bytes.
    pub memory_bytes: u64,
}

/// What trials of one case came to until now: medians over its trials, no estimate. Where a load point is searched, its steps
/// have rates of their own, and the latest one stands for all.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Case {
    /// Direct or the gateway's label.
    pub gateway: String,
    /// The load point in words.
    pub load: String,
    /// Trials that came out well.
    pub trials: u32,
    /// Responses per second.
    pub rate: Option<f64>,
    /// Median response time, microseconds.
    pub p50_us: Option<f64>,
    /// Its 99th percentile, microseconds.
    pub p99_us: Option<f64>,
    /// What the gateway added to the median of direct in the same rounds, microseconds; absent for direct.
    pub added_p50_us: Option<f64>,
}

/// A doubt.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// How grave it is.
    #[schemars(with = "String")]
    pub severity: Severity,
    /// Its code, as `hoptax findings` explains it.
    pub code: String,
    /// The case; absent where it is about the whole run.
    pub case: Option<String>,
    /// What was found.
    pub message: String,
}

impl From<&hoptax_analysis::Finding> for Finding {
    fn from(finding: &hoptax_analysis::Finding) -> Self {
        Self {
            severity: finding.severity,
            code: finding.code.to_owned(),
            case: finding.case.clone(),
            message: finding.message.clone(),
        }
    }
}

/// Something that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failure {
    /// Whose.
    pub label: String,
    /// Why.
    pub message: String,
}

/// The state as its writer and its readers share it.
#[derive(Debug, Clone)]
pub struct Board(Arc<Mutex<State>>);

impl Board {
    /// A board that shows this.
    pub fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// What it shows now.
    pub fn read(&self) -> State {
        self.lock().clone()
    }

    /// Changes what it shows.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A writer that panicked left a state that can still be shown.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

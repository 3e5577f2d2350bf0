//! State of the run in progress. The run updates the state, and the views on the terminal and in browsers show it.
//!
//! Reports do not use any figure of this state.

use hoptax_analysis::Severity;
use hoptax_load::record::Phase;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of the state's JSON.
pub const SCHEMA: u32 = 1;

/// State of the run in progress.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Live")]
pub struct State {
    /// Version of this document.
    pub schema: u32,
    /// Name of the run directory.
    pub run: String,
    /// The plan's name.
    pub name: String,
    /// Current stage.
    pub stage: Stage,
    /// What the run is doing, in words: `starting nginx`, `verifying nginx against direct`; empty if the trial
    /// shows it.
    pub doing: String,
    /// Number of trials that have ended.
    pub trials_done: u32,
    /// Number of trials planned so far, those that have ended included.
    pub trials_planned: u32,
    /// Whether more trials may follow: with `trials: auto` and in searches.
    pub open_ended: bool,
    /// Rounds in words: `2/5`, `2 of 5 to 30`.
    pub round: String,
    /// Seconds since the run began.
    pub elapsed_s: f64,
    /// Seconds left; a lower bound if the run is open-ended.
    pub left_s: f64,
    /// The current trial; absent before the first one.
    pub trial: Option<Trial>,
    /// CPU and memory of each role, over the last second.
    pub cpu: Vec<Role>,
    /// Share of the host's CPU time that the hypervisor took over the last second, 0 to 1; absent if unknown.
    pub steal: Option<f64>,
    /// Results so far, by load point, direct first.
    pub cases: Vec<Case>,
    /// Findings so far, most severe first.
    pub findings: Vec<Finding>,
    /// What could not be measured, once per contender and reason.
    pub failures: Vec<Failure>,
}

/// Stages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Services are starting, or being verified.
    Preparing,
    /// A trial is in progress.
    Measuring,
    /// The pause before the next trial.
    Pausing,
    /// Services are stopped and the report is written. The state no longer changes.
    Ended,
}

/// The current trial.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// Number, from 1.
    pub number: u32,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The load point in words; for a step of a search with its rate.
    pub load: String,
    /// Phase of the generator: `starting`, `connecting`, `warmup`, `measuring`, `draining`.
    pub phase: TrialPhase,
    /// Seconds since the measured time began.
    pub elapsed_s: f64,
    /// Length of the measured time, seconds.
    pub duration_s: f64,
    /// Requests due per second; absent in a closed loop.
    pub due: Option<f64>,
    /// The measured time, second by second.
    pub seconds: Vec<Second>,
}

/// Phases of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialPhase {
    /// The generator is starting.
    Starting,
    /// Connections are being opened.
    Connecting,
    /// Traffic before the measured time; it is not counted.
    Warmup,
    /// The measured time.
    Measuring,
    /// The generator waits for requests in flight.
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
    /// Failures per second: timeouts, errors, and unsuccessful responses.
    pub failed: f64,
    /// Median response time, µs; absent without responses.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response time, µs; absent without responses.
    pub p99_us: Option<f64>,
}

/// Resources of a role during the current trial.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Role {
    /// `generator`, `gateway` or `upstream`.
    pub role: String,
    /// CPUs in use: 0.5 is half of one CPU.
    pub cpus: f64,
    /// Resident memory, bytes.
    pub memory_bytes: u64,
}

/// Results of one case so far: medians over its trials, not estimates. In a search, each step has its own rate,
/// and the latest step is shown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Case {
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The load point in words.
    pub load: String,
    /// Number of successful trials.
    pub trials: u32,
    /// Responses per second; absent before the first trial.
    pub rate: Option<f64>,
    /// Median response time, µs; absent before the first trial.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response time, µs; absent before the first trial.
    pub p99_us: Option<f64>,
    /// Median response time minus direct's in the same rounds, µs; absent for direct.
    pub added_p50_us: Option<f64>,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Severity.
    #[schemars(with = "String")]
    pub severity: Severity,
    /// Code; `hoptax findings` explains it.
    pub code: String,
    /// The case; absent if the finding is about the whole run.
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

/// A contender that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failure {
    /// Label of the contender.
    pub label: String,
    /// Why it could not be measured.
    pub message: String,
}

/// The state, shared between its writer and its readers.
#[derive(Debug, Clone)]
pub struct Board(Arc<Mutex<State>>);

impl Board {
    /// A board with this state.
    pub fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// A copy of the current state.
    pub fn read(&self) -> State {
        self.lock().clone()
    }

    /// Changes the state.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state can still be shown if the writer has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

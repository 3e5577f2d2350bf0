//! State of the run in progress. The run updates the state, and the views on the terminal and in browsers
//! show it.
//!
//! Reports do not use any figure of this state.

use hoptax_analysis::Severity;
use hoptax_format::record::Phase;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of the state's JSON.
pub const SCHEMA: u32 = 1;

/// State of the run in progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Live")]
pub struct State {
    /// Version of this document.
    pub schema: u32,
    /// Name of the run directory.
    pub run: String,
    /// The plan's name.
    pub name: String,
    /// Current stage of the run.
    pub stage: Stage,
    /// Current activity, such as `starting nginx` or `verifying nginx against direct`. Empty if `trial`
    /// describes the current activity.
    pub doing: String,
    /// Number of trials that have ended, or of starts if `starts` is true.
    pub trials_done: u32,
    /// Number of trials or starts that are planned so far. This includes those that have ended.
    pub trials_planned: u32,
    /// Whether the run measures starts of gateways instead of trials.
    pub starts: bool,
    /// Whether the run can add more trials. True with `trials: auto`, and if the plan has a search.
    pub open_ended: bool,
    /// Number of the current round and number of planned rounds, such as `2/5` or `2 of 5 to 30`.
    pub round: String,
    /// Seconds since the run began.
    pub elapsed_s: f64,
    /// Estimated seconds until the run ends. If `open_ended` is true, the run can take longer.
    pub left_s: f64,
    /// The current trial. Absent before the first trial.
    pub trial: Option<Trial>,
    /// Trials that have ended at the current load point, in the order of the run. Empty unless the trials of
    /// this load point are too short for figures by second.
    pub rounds: Vec<Round>,
    /// CPU and memory use of each role, over the last second.
    pub cpu: Vec<Role>,
    /// Steal: the share of the host's CPU time that the hypervisor took during the last second, 0 to 1.
    /// Absent if unknown.
    pub steal: Option<f64>,
    /// Results so far, sorted by load point. At each load point, direct comes first.
    pub cases: Vec<LiveCase>,
    /// Findings so far, most severe first.
    pub findings: Vec<Finding>,
    /// Contenders that could not be measured. There is one entry for each contender and reason.
    pub failures: Vec<Failure>,
}

/// Stages of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// hoptax starts or verifies services.
    #[default]
    Preparing,
    /// A trial is in progress.
    Measuring,
    /// The run pauses before the next trial.
    Pausing,
    /// The services are stopped, and the report is written. The state does not change any more.
    Ended,
}

/// The current trial.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// Number of the trial, starting with 1.
    pub number: u32,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// Description of the load point. For a step of a search, it includes the rate of the step.
    pub load: String,
    /// Phase of the generator: `starting`, `connecting`, `warmup`, `measuring`, `draining`.
    pub phase: TrialPhase,
    /// Seconds since the measured time began.
    pub elapsed_s: f64,
    /// Length of the measured time, seconds.
    pub duration_s: f64,
    /// Requests that are due per second. Absent in a closed loop.
    pub due: Option<f64>,
    /// Figures of each second of the measured time so far.
    pub seconds: Vec<Second>,
    /// Whether the trials of this load point are too short for figures by second. If so, `rounds` has their
    /// figures.
    pub by_round: bool,
}

/// A contender's trial that has ended at the current load point.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Round {
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// Number of the round, starting with 1.
    pub round: u32,
    /// Figures of the whole trial.
    #[serde(flatten)]
    pub figures: Second,
}

impl State {
    /// Figures of the current case in the order of time: of each second of the trial, or of each trial if
    /// trials are short.
    pub fn course(&self) -> Vec<Second> {
        let Some(trial) = &self.trial else { return Vec::new() };
        match trial.by_round {
            false => trial.seconds.clone(),
            true => {
                let own = self.rounds.iter().filter(|round| round.gateway == trial.gateway);
                own.map(|round| round.figures).collect()
            }
        }
    }
}

/// Phases of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialPhase {
    /// The generator is starting.
    Starting,
    /// The generator opens connections.
    Connecting,
    /// The generator sends traffic that is not counted.
    Warmup,
    /// The generator sends traffic, and the trial is measured.
    Measuring,
    /// The generator sends no more requests, and waits for the responses to requests in flight.
    Draining,
}

impl From<Phase> for TrialPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Connecting | Phase::Connected => Self::Connecting,
            Phase::Warmup => Self::Warmup,
            Phase::Measuring => Self::Measuring,
            Phase::Draining => Self::Draining,
        }
    }
}

/// One second of a trial, or one short trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Second {
    /// Responses per second.
    pub rate: f64,
    /// Failures per second: timeouts, errors, and unsuccessful responses.
    pub failed: f64,
    /// Median response time, µs. Absent if there were no responses.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response time, µs. Absent if there were no responses.
    pub p99_us: Option<f64>,
}

/// CPU and memory that a role uses.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Role {
    /// `generator`, `gateway` or `upstream`.
    pub role: String,
    /// Number of CPUs in use. For example, 0.5 is half of one CPU.
    pub cpus: f64,
    /// Resident memory, bytes.
    pub memory_bytes: u64,
}

/// Results of one case so far. The figures are medians over the trials of the case, not the estimates of the
/// report. In a search, each step has its own rate, so the figures are those of the latest step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LiveCase {
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// Description of the load point.
    pub load: String,
    /// Number of successful trials.
    pub trials: u32,
    /// Responses per second. Absent if no trial measured them.
    pub rate: Option<f64>,
    /// Median of the times that the report's answer compares, usually response times, µs. Absent if no trial
    /// measured them.
    pub p50_us: Option<f64>,
    /// 99th percentile of the same times, µs. Absent if no trial measured them.
    pub p99_us: Option<f64>,
    /// Added time, µs: the median of the gateway minus the median of direct in the same rounds. Absent for
    /// direct, in searches, and while one of the medians is missing.
    pub added_p50_us: Option<f64>,
    /// Half of the width of the 95 % interval that a report of the trials so far would give the added median,
    /// µs. It is updated now and then. Absent for direct, in searches, and before the second round.
    pub added_p50_half_width_us: Option<f64>,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Severity of the finding.
    #[schemars(with = "String")]
    pub severity: Severity,
    /// Code of the finding. `hoptax findings` explains each code.
    pub code: String,
    /// Name of the case. Absent if the finding is about the whole run.
    pub case: Option<String>,
    /// Description of the finding.
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

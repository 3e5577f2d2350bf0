//! Starts of gateways: what a run with `start` measures instead of trials. Each line of `starts.jsonl` is one
//! [`StartRecord`].

use super::{Failure, HostUsage, RoleUsage};
use hoptax_format::clock::MILLISECOND;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Length of a [`StartWindow`], ns. At 1,000 requests per second it holds ten responses.
pub const START_WINDOW_NS: u64 = 10 * MILLISECOND;

/// Number of requests that are sent one after the other, on one connection, right after a start.
pub const FIRST_REQUESTS: usize = 1000;

/// One start or reload of a gateway, or the same traffic to direct, which shows what generator and upstream
/// add.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// Position among all starts of the run, from 0.
    pub sequence: u32,
    /// Number of the round, from 0. Each round has every kind of start of every contender, in random order.
    pub round: u32,
    /// `direct`, or the gateway's label.
    pub contender: String,
    /// What was done to the gateway.
    pub kind: StartKind,
    /// The traffic that followed.
    pub traffic: StartTraffic,
    /// Monotonic time at which the gateway's process was created, or the reload began, ns. For direct, the
    /// time at which the first request was sent.
    pub began_ns: u64,
    /// Time from `began_ns` until a connection was accepted, ns. Absent for reloads and for direct.
    pub listening_ns: Option<u64>,
    /// Time from `began_ns` until the first right answer had arrived, ns. Absent if there was none.
    pub ready_ns: Option<u64>,
    /// Number of wrong answers before the first right one, and of connections that ended without an answer.
    #[serde(default)]
    pub wrong_answers: u32,
    /// CPU time and memory of the gateway when it was ready. Absent for direct.
    pub at_ready: Option<UsedAtReady>,
    /// Response times of the first requests, in order, ns. The first one is the request with the first right
    /// answer; its time includes the connect. Empty if `traffic` is [`StartTraffic::Load`].
    #[serde(default)]
    pub response_times_ns: Vec<u64>,
    /// Results of the load. Absent if `traffic` is [`StartTraffic::OneByOne`].
    pub load: Option<StartLoad>,
    /// CPU use of the host from `began_ns` to the end of the traffic.
    #[serde(default)]
    pub host: HostUsage,
    /// CPU use of the other machines that the requests pass, by name: the gateway's, and the upstream's if
    /// there was a load. Empty if all roles are on one machine, and in older runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostUsage>,
    /// Why the start could not be measured. Absent if it was.
    pub failed: Option<Failure>,
}

impl StartRecord {
    /// The machines that the requests of this start pass, each with its name and its CPU use. The name is
    /// absent for the generator's machine.
    pub fn machines(&self) -> impl Iterator<Item = (Option<&str>, &HostUsage)> {
        let others = self.hosts.iter().map(|(name, usage)| (Some(name.as_str()), usage));
        std::iter::once((None, &self.host)).chain(others)
    }
}

/// What was done to a gateway before its traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartKind {
    /// Nothing: the traffic went directly to the upstream, which had run for some time.
    Direct,
    /// The gateway's process was started.
    #[default]
    Start,
    /// The running gateway reloaded its configuration.
    Reload,
}

/// The traffic after a start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartTraffic {
    /// [`FIRST_REQUESTS`] requests on one connection, each sent after the answer to the one before.
    #[default]
    OneByOne,
    /// The load of the plan.
    Load,
}

/// Resources that a gateway had used when it was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedAtReady {
    /// CPU time since the start of its processes, ns. For a reload, since the reload.
    pub cpu_ns: u64,
    /// Sum of the resident sets (RSS) of its processes, bytes.
    pub rss_bytes: u64,
}

/// Results of the load after a start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartLoad {
    /// Time from `began_ns` of the start to the first moment at which a request was due, ns.
    pub after_ns: u64,
    /// Duration of the load, ns.
    pub measured_ns: u64,
    /// Number of scheduled requests.
    pub scheduled: u64,
    /// Number of requests with a right answer.
    pub ok: u64,
    /// Number of requests that timed out.
    pub timeouts: u64,
    /// Number of requests that failed in another way, or got a wrong answer.
    pub errors: u64,
    /// Number of requests without an answer when the load ended.
    #[serde(default)]
    pub unanswered: u64,
    /// Windows of [`START_WINDOW_NS`], without gaps, from the start of the load. A request belongs to the
    /// window in which its answer ended.
    pub windows: Vec<StartWindow>,
    /// Resources that the gateway used during the load. Absent for direct.
    pub usage: Option<RoleUsage>,
}

/// The answers that ended in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StartWindow {
    /// Number of answers.
    pub completed: u64,
    /// Number of requests that failed, timed out or got a wrong answer.
    pub failed: u64,
    /// Median response time, ns; 0 if there was no answer.
    pub p50_ns: u64,
    /// Mean response time, ns; 0 if there was no answer.
    pub mean_ns: u64,
}

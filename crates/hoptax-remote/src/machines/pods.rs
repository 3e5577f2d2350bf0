//! Pods as `kubectl get pods --output=json` prints them. All functions are pure.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A pod that is not being removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) name: String,
    /// Number of the pod in its Job; 0 in a Deployment.
    pub(super) index: u32,
    pub(super) address: Option<IpAddr>,
    pub(super) state: State,
}

/// The state of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Its container runs.
    Ready,
    /// It may become ready. The text is what it waits for; empty if Kubernetes does not report it.
    Waits(String),
    /// It becomes ready only if something changes: for example, an image cannot be pulled.
    Stuck(String),
    /// It will not become ready.
    Failed(String),
}

/// Reasons for a container to wait that do not go away by themselves.
const HOPELESS: [&str; 6] = [
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
];

/// Reasons that may go away with another attempt.
const STUCK: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[serde(default)]
    state: ContainerState,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Reason>,
    terminated: Option<Reason>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reason {
    reason: Option<String>,
    message: Option<String>,
    exit_code: Option<i32>,
}

/// Reads pods. Those that are being removed are left out. They are in the order of their numbers. Fails if
/// the text is not a list of pods.
pub(super) fn read(text: &str) -> serde_json::Result<Vec<Pod>> {
    let list: List = serde_json::from_str(text)?;
    let items = list.items.into_iter().filter(|item| item.metadata.deletion_timestamp.is_none());
    let mut pods: Vec<Pod> = items.map(pod).collect();
    pods.sort_by_key(|pod| pod.index);
    Ok(pods)
}

fn pod(item: Item) -> Pod {
    let Item { metadata, status } = item;
    Pod {
        index: metadata.annotations.get(INDEX).and_then(|index| index.parse().ok()).unwrap_or(0),
        address: status.pod_ip.as_ref().and_then(|address| address.parse().ok()),
        state: state(&status),
        name: metadata.name,
    }
}

fn state(status: &Status) -> State {
    let text = |reason: &Option<String>, message: &Option<String>| {
        let parts = [reason.as_deref(), message.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    };
    let containers = || status.container_statuses.iter().map(|one| &one.state);
    for waiting in containers().filter_map(|state| state.waiting.as_ref()) {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        if HOPELESS.contains(&reason) {
            return State::Failed(text(&waiting.reason, &waiting.message));
        }
        if STUCK.contains(&reason) {
            return State::Stuck(text(&waiting.reason, &waiting.message));
        }
    }
    if matches!(status.phase.as_str(), "Failed" | "Succeeded") {
        let ended = containers().find_map(|state| state.terminated.as_ref());
        let why = match ended {
            Some(ended) => {
                let code = ended.exit_code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
                format!("its container has ended{code}: {}", text(&ended.reason, &ended.message))
            }
            None => text(&status.reason, &status.message),
        };
        return State::Failed(why.trim_end_matches(": ").to_owned());
    }
    let condition = |kind: &str| status.conditions.iter().find(|one| one.kind == kind);
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return State::Ready;
    }
    let unscheduled = condition("PodScheduled").filter(|one| one.status == "False");
    let waiting = containers().find_map(|state| state.waiting.as_ref());
    State::Waits(match (unscheduled, waiting) {
        (Some(one), _) => one.message.clone().unwrap_or_default(),
        (None, Some(waiting)) => text(&waiting.reason, &waiting.message),
        (None, None) => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(status: serde_json::Value) -> State {
        let text = json!({ "items": [{ "metadata": { "name": "a" }, "status": status }] }).to_string();
        read(&text).expect("pods").remove(0).state
    }

    #[test]
    fn pods_are_in_order_and_leaving_ones_are_left_out() {
        let pod = |name: &str, index: &str| {
            json!({
                "metadata": { "name": name, "annotations": { INDEX: index } },
                "status": { "phase": "Running", "podIP": "10.1.0.7", "conditions": [{ "type": "Ready", "status": "True" }] },
            })
        };
        let mut leaving = pod("c", "0");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let pods =
            read(&json!({ "items": [pod("b", "1"), leaving, pod("a", "0")] }).to_string()).expect("pods");
        let names: Vec<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.index)).collect();
        assert_eq!(names, [("a", 0), ("b", 1)]);
        assert_eq!((pods[0].address, &pods[0].state), ("10.1.0.7".parse().ok(), &State::Ready));
    }

    #[test]
    fn each_state_says_why() {
        let waiting =
            |reason: &str| json!({ "state": { "waiting": { "reason": reason, "message": "because" } } });
        let in_phase = |container| one(json!({ "phase": "Pending", "containerStatuses": [container] }));
        let waits = in_phase(waiting("ContainerCreating"));
        assert_eq!(waits, State::Waits("ContainerCreating: because".into()));
        let stuck = in_phase(waiting("ImagePullBackOff"));
        assert_eq!(stuck, State::Stuck("ImagePullBackOff: because".into()));
        let failed = in_phase(waiting("ErrImageNeverPull"));
        assert_eq!(failed, State::Failed("ErrImageNeverPull: because".into()));
        let unscheduled =
            json!([{ "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available" }]);
        let waits = one(json!({ "phase": "Pending", "conditions": unscheduled }));
        assert_eq!(waits, State::Waits("0/1 nodes are available".into()));
        assert_eq!(one(json!({})), State::Waits(String::new()));
        let ended = json!({ "state": { "terminated": { "reason": "StartError", "message": "no sleep", "exitCode": 128 } } });
        let failed = one(json!({ "phase": "Failed", "containerStatuses": [ended] }));
        let why = "its container has ended (exit code 128): StartError: no sleep";
        assert_eq!(failed, State::Failed(why.into()));
        let evicted = one(json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }));
        assert_eq!(evicted, State::Failed("Evicted: low on memory".into()));
    }
}

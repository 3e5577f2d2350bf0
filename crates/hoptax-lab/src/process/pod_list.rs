//! The pods of a gateway that runs in a Kubernetes cluster, as the user's `kubectl` lists them.

use hoptax_host::programs::output_within;
use hoptax_plan::WatchedPods;
use hoptax_plan::units::show_duration;
use serde::Deserialize;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time limit for a list of pods.
const ANSWER: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct List {
    items: Vec<Pod>,
}

#[derive(Deserialize)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(rename = "deletionTimestamp")]
    deletion: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Spec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
pub(super) struct Container {
    pub(super) name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Status {
    phase: String,
}

/// `kubectl`, for the namespace of the pods.
pub(super) fn kubectl(watched: &WatchedPods) -> Vec<String> {
    hoptax_plan::kubectl(watched.context.as_deref(), watched.namespace.as_deref())
}

/// The command that lists the pods.
pub(super) fn list(watched: &WatchedPods) -> Vec<String> {
    let mut words = kubectl(watched);
    words.extend(["get".into(), "pods".into(), format!("--selector={}", watched.selector)]);
    words
}

/// The pods that run.
pub(super) fn running(watched: &WatchedPods) -> Result<Vec<Pod>, String> {
    let words = list(watched);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["--output=json", "--request-timeout=20s"])
        .stdin(Stdio::null())
        .process_group(0);
    let output = output_within(&mut command, ANSWER).map_err(|error| match error.kind() {
        ErrorKind::TimedOut => format!("`{}` did not end within {}", words.join(" "), show_duration(ANSWER)),
        _ => format!("cannot start kubectl: {error}. Install it, or use prometheus"),
    })?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed: {}", words.join(" "), why.trim()));
    }
    let list: List = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`{}` printed no list of pods: {error}", words.join(" ")))?;
    let runs = |pod: &Pod| pod.metadata.deletion.is_none() && pod.status.phase == "Running";
    Ok(list.items.into_iter().filter(runs).collect())
}

/// The container of a pod that is watched.
pub(super) fn container<'a>(watched: &'a WatchedPods, pod: &'a Pod) -> Result<&'a str, String> {
    let names: Vec<&str> = pod.spec.containers.iter().map(|one| one.name.as_str()).collect();
    match (&watched.container, names.as_slice()) {
        (Some(name), names) if names.contains(&name.as_str()) => Ok(name),
        (None, [only]) => Ok(only),
        (wanted, names) => {
            let wanted = wanted.as_ref().map(|name| format!("no container `{name}`, but "));
            Err(format!(
                "pod {} has {}the containers {}. Write one of them as `container`",
                pod.metadata.name,
                wanted.unwrap_or_default(),
                names.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_must_be_named_if_there_are_several() {
        let pod = |names: &[&str]| Pod {
            metadata: Metadata { name: "edge-0".into(), deletion: None },
            spec: Spec { containers: names.iter().map(|name| Container { name: (*name).into() }).collect() },
            status: Status::default(),
        };
        let watched = |container: Option<&str>| WatchedPods {
            selector: "app=edge".into(),
            container: container.map(str::to_owned),
            namespace: Some("mesh".into()),
            context: None,
        };
        assert_eq!(container(&watched(None), &pod(&["a"])), Ok("a"));
        assert_eq!(container(&watched(Some("b")), &pod(&["a", "b"])), Ok("b"));
        let wrong = |name: Option<&str>, pod: Pod| container(&watched(name), &pod).expect_err("refused");
        insta::assert_snapshot!([wrong(None, pod(&["a", "b"])), wrong(Some("c"), pod(&["a"]))].join("\n"));
        assert_eq!(list(&watched(None)).join(" "), "kubectl --namespace=mesh get pods --selector=app=edge");
    }
}

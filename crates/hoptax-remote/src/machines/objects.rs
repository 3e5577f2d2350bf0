//! The objects of Kubernetes that hoptax creates. All functions are pure.
//!
//! A Job of generators ends by itself: its pods sleep for a limited time, and the cluster stops them at
//! `activeDeadlineSeconds` and removes the Job `ttlSecondsAfterFinished` later. A Deployment has no such
//! limit. So the Deployment and its Service belong to the lease: a Job without pods, which ends like a Job of
//! generators. When the cluster removes the lease, it also removes the objects that belong to it.

use hoptax_plan::{BuiltInUpstream, Plan, Pull, Toleration, Upstream, Workload, WorkloadKind};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Name of the container in each pod.
pub(super) const CONTAINER: &str = "hoptax";

/// Labels that hoptax sets on all objects.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const RUN: &str = "hoptax.io/run";
const HOST: &str = "hoptax.io/host";
const PLAN: &str = "hoptax.io/plan";

/// Annotations of all objects but pods: which process has created them.
pub(super) const FROM: &str = "hoptax.io/from";
pub(super) const PROCESS: &str = "hoptax.io/process";

/// Time for which a finished Job remains, so that users can inspect its pods, s.
const AFTER_END_S: u64 = 60;

/// User and group of the container. The image need not know them.
const USER: u32 = 65532;

/// Maximum lengths of the host's name within an object's name, and of a label. Names of pods have up to 63
/// characters, up to 17 of them added by Kubernetes.
const HOST_PART: usize = 20;
const LABEL: usize = 63;

/// The objects of one host.
#[derive(Debug, Clone)]
pub(super) struct Objects<'a> {
    pub(super) plan: &'a Plan,
    /// The host's name in the plan.
    pub(super) host: &'a str,
    pub(super) workload: &'a Workload,
    /// Path of hoptax in the image; `None` if the image has a shell instead.
    pub(super) hoptax: Option<&'a str>,
    /// Identifies the run: eight hexadecimal digits.
    pub(super) run: &'a str,
    pub(super) origin: &'a Origin,
}

/// The process that creates the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// User and machine: `alice@laptop`.
    pub(super) from: String,
    /// Id of the process, and when it was started.
    pub(super) process: String,
}

/// Selects the objects of one run.
pub(super) fn of_run(run: &str) -> String {
    format!("{MANAGED_BY}=hoptax,{RUN}={run}")
}

/// Selects the objects of one host of one run.
pub(super) fn of_host(run: &str, host: &str) -> String {
    format!("{},{HOST}={}", of_run(run), label(host))
}

/// Selects the objects of all runs of a plan.
pub(super) fn of_plan(plan: &str) -> String {
    format!("{MANAGED_BY}=hoptax,{PLAN}={}", label(plan))
}

/// The run that an object belongs to.
pub(super) fn run_of(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][RUN].as_str()
}

impl Objects<'_> {
    /// Name of the Job, or of the Deployment.
    pub(super) fn name(&self) -> String {
        format!("hoptax-{}-{}", self.run, part(self.host, HOST_PART))
    }

    /// Name of the Service.
    pub(super) fn service(&self) -> Option<String> {
        let WorkloadKind::Deployment { service } = &self.workload.kind else { return None };
        let usual = || format!("hoptax-{}-{}", part(&self.plan.name, HOST_PART), part(self.host, HOST_PART));
        Some(service.clone().unwrap_or_else(usual))
    }

    /// What is created first: a Job of generators, or the lease of a Deployment.
    pub(super) fn first(&self) -> Value {
        let mut spec = json!({
            "activeDeadlineSeconds": self.seconds(),
            "ttlSecondsAfterFinished": AFTER_END_S,
            "completionMode": "Indexed",
            // A lost pod is not replaced, because the new pod would have another name. The other pods remain.
            "backoffLimitPerIndex": 0,
            "template": self.template("Never"),
        });
        let (name, pods) = match self.workload.kind {
            WorkloadKind::Job { parallelism } => (self.name(), parallelism),
            WorkloadKind::Deployment { .. } => (format!("{}-lease", self.name()), 0),
        };
        spec["parallelism"] = pods.into();
        spec["completions"] = pods.max(1).into();
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": self.metadata(&name, None), "spec": spec })
    }

    /// What is created second: a Deployment and its Service, which belong to the lease with this identity.
    pub(super) fn second(&self, lease: &str) -> Option<Value> {
        let service = self.service()?;
        let selector = json!({ RUN: self.run, HOST: label(self.host) });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.metadata(&self.name(), Some(lease)),
            "spec": {
                "replicas": 1,
                "strategy": { "type": "Recreate" },
                "selector": { "matchLabels": selector },
                "template": self.template("Always"),
            },
        });
        let ports = self.ports();
        let mut spec = json!({ "selector": selector });
        match ports.is_empty() {
            // A Service without ports has no address; its name leads to the pod.
            true => spec["clusterIP"] = "None".into(),
            false => spec["ports"] = ports.into(),
        }
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&service, Some(lease)),
            "spec": spec,
        });
        Some(json!({ "apiVersion": "v1", "kind": "List", "items": [deployment, service] }))
    }

    /// The upstream's ports, if the plan fixes them and the upstream is on this host.
    fn ports(&self) -> Vec<Value> {
        let Upstream::BuiltIn(BuiltInUpstream { port: Some(first), instances, .. }) = &self.plan.upstream
        else {
            return Vec::new();
        };
        if self.plan.roles.upstream != self.host {
            return Vec::new();
        }
        let port = |index: u32| json!({ "name": format!("http-{index}"), "port": u32::from(*first) + index });
        (0..*instances).map(port).collect()
    }

    fn seconds(&self) -> u64 {
        self.workload.at_most.as_secs()
    }

    fn labels(&self) -> Map<String, Value> {
        let labels = [
            (MANAGED_BY, "hoptax".to_owned()),
            (RUN, self.run.to_owned()),
            (HOST, label(self.host)),
            (PLAN, label(&self.plan.name)),
        ];
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
    }

    fn metadata(&self, name: &str, lease: Option<&str>) -> Value {
        let mut metadata = json!({
            "name": name,
            "labels": self.labels(),
            "annotations": { FROM: self.origin.from, PROCESS: self.origin.process },
        });
        if let Some(uid) = lease {
            let name = format!("{}-lease", self.name());
            metadata["ownerReferences"] =
                json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid }]);
        }
        metadata
    }

    /// The template of the pods. They satisfy the strictest rules for pods of clusters (`restricted`).
    fn template(&self, restart: &str) -> Value {
        let Workload { image, pull, requests, limits, labels, annotations, .. } = self.workload;
        let mut own = text_map(labels);
        own.extend(self.labels());
        let seconds = self.seconds().to_string();
        let command = match self.hoptax {
            Some(path) => json!([path, "agent", "--wait", format!("{seconds}s")]),
            None => json!(["sleep", seconds]),
        };
        let mut container = json!({
            "name": CONTAINER,
            "image": image,
            "command": command,
            "resources": { "requests": text_map(requests), "limits": text_map(limits) },
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            // For the agent's directory. An image may have no `/tmp`, and its own file system may be slow.
            "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
        });
        if let Some(pull) = pull {
            container["imagePullPolicy"] = match pull {
                Pull::Always => "Always",
                Pull::IfNotPresent => "IfNotPresent",
                Pull::Never => "Never",
            }
            .into();
        }
        let secrets = self.workload.pull_secrets.iter().map(|name| json!({ "name": name }));
        let spec = json!({
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
            // The first process of the pod then reaps the processes that agents leave behind, and a signal
            // ends it.
            "shareProcessNamespace": true,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "imagePullSecrets": secrets.collect::<Vec<_>>(),
            "nodeSelector": text_map(&self.workload.node_selector),
            "tolerations": self.workload.tolerations.iter().map(toleration).collect::<Vec<_>>(),
            // Generators on one node would share its CPUs and its network.
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { RUN: self.run } },
            }],
            "containers": [container],
            "volumes": [{ "name": "tmp", "emptyDir": {} }],
        });
        json!({ "metadata": { "labels": own, "annotations": text_map(annotations) }, "spec": spec })
    }
}

fn text_map(pairs: &BTreeMap<String, String>) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect()
}

fn toleration(toleration: &Toleration) -> Value {
    let Toleration { key, value, effect } = toleration;
    let operator = if value.is_some() { "Equal" } else { "Exists" };
    let mut object = Map::from_iter([("operator".to_owned(), Value::from(operator))]);
    for (name, text) in [("key", key), ("value", value), ("effect", effect)] {
        object.extend(text.iter().map(|text| (name.to_owned(), Value::from(text.clone()))));
    }
    object.into()
}

/// A name as the value of a label.
fn label(name: &str) -> String {
    let cut: String = name.chars().take(LABEL).collect();
    cut.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

/// A name as a part of an object's name.
fn part(name: &str, length: usize) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let text: String = name.chars().map(plain).take(length).collect();
    text.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_lab::fake;
    use std::time::Duration;

    fn workload(kind: WorkloadKind) -> Workload {
        Workload {
            kind,
            image: "hoptax:1".into(),
            pull: Some(Pull::Never),
            pull_secrets: vec!["key".into()],
            requests: BTreeMap::from([("cpu".into(), "2".into())]),
            limits: BTreeMap::new(),
            node_selector: BTreeMap::from([("pool".into(), "load".into())]),
            tolerations: vec![
                Toleration { key: Some("load".into()), value: None, effect: Some("NoSchedule".into()) },
                Toleration { key: Some("a".into()), value: Some("b".into()), effect: None },
            ],
            labels: BTreeMap::from([("app".into(), "load".into())]),
            annotations: BTreeMap::from([("sidecar.istio.io/inject".into(), "false".into())]),
            at_most: Duration::from_secs(3600),
            namespace: None,
            context: None,
        }
    }

    fn with<T>(
        kind: WorkloadKind,
        plan: &Plan,
        hoptax: Option<&str>,
        ask: impl FnOnce(&Objects<'_>) -> T,
    ) -> T {
        let origin = Origin { from: "alice@laptop".into(), process: "7 99".into() };
        let workload = workload(kind);
        let host = "Load_clients.of.the.first.site";
        ask(&Objects { plan, host, workload: &workload, hoptax, run: "0a1b2c3d", origin: &origin })
    }

    #[test]
    fn generators_are_a_job_that_ends_by_itself() {
        let plan = fake::plan(Vec::new(), 1);
        let job = with(WorkloadKind::Job { parallelism: 3 }, &plan, None, |objects| {
            assert_eq!((objects.second("uid"), objects.service()), (None, None));
            objects.first()
        });
        assert_eq!(job["metadata"]["name"], "hoptax-0a1b2c3d-load-clients-of-the");
        assert_eq!(job["metadata"]["labels"]["hoptax.io/host"], "Load_clients.of.the.first.site");
        assert_eq!(job["metadata"]["annotations"]["hoptax.io/from"], "alice@laptop");
        let spec = &job["spec"];
        assert_eq!((&spec["parallelism"], &spec["completions"]), (&3.into(), &3.into()));
        assert_eq!(spec["activeDeadlineSeconds"], 3600);
        assert_eq!(spec["completionMode"], "Indexed");
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["containers"][0]["command"], json!(["sleep", "3600"]));
        assert_eq!(pod["containers"][0]["resources"]["requests"], json!({ "cpu": "2" }));
        assert_eq!(pod["restartPolicy"], "Never");
        assert_eq!(pod["nodeSelector"], json!({ "pool": "load" }));
        let any = json!({ "operator": "Exists", "key": "load", "effect": "NoSchedule" });
        let equal = json!({ "operator": "Equal", "key": "a", "value": "b" });
        assert_eq!(pod["tolerations"], json!([any, equal]));
        let labels = &spec["template"]["metadata"]["labels"];
        assert_eq!((&labels["app"], &labels["hoptax.io/run"]), (&"load".into(), &"0a1b2c3d".into()));
    }

    #[test]
    fn a_deployment_and_its_service_belong_to_a_lease() {
        let plan = fake::plan(Vec::new(), 1);
        let kind = || WorkloadKind::Deployment { service: None };
        let (lease, objects) =
            with(kind(), &plan, Some("/hoptax"), |objects| (objects.first(), objects.second("u-1")));
        assert_eq!(lease["spec"]["parallelism"], 0);
        let objects = objects.expect("two objects");
        let [deployment, service] = objects["items"].as_array().expect("a list").as_slice() else {
            panic!("{objects}")
        };
        for object in [deployment, service] {
            let owner = &object["metadata"]["ownerReferences"][0];
            assert_eq!((&owner["uid"], &owner["name"]), (&"u-1".into(), &lease["metadata"]["name"]));
        }
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["command"], json!(["/hoptax", "agent", "--wait", "3600s"]));
        let selector = &deployment["spec"]["selector"]["matchLabels"];
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        for (key, value) in selector.as_object().expect("labels") {
            assert_eq!(&labels[key], value);
        }
        assert_eq!((&service["spec"]["selector"], &service["spec"]["clusterIP"]), (selector, &"None".into()));
    }

    #[test]
    fn a_fixed_port_of_the_upstream_is_a_port_of_the_service() {
        let mut plan = fake::plan(Vec::new(), 1);
        let Upstream::BuiltIn(built_in) = plan.upstream.clone() else { panic!("built in") };
        plan.upstream = Upstream::BuiltIn(BuiltInUpstream { port: Some(8080), instances: 2, ..built_in });
        let service = |plan: &Plan| {
            let kind = WorkloadKind::Deployment { service: Some("up".into()) };
            with(kind, plan, None, |objects| objects.second("u").expect("objects"))["items"][1].clone()
        };
        assert_eq!(service(&plan)["spec"]["clusterIP"], "None", "the upstream is elsewhere");
        plan.roles.upstream = "Load_clients.of.the.first.site".into();
        let service = service(&plan);
        assert_eq!(service["metadata"]["name"], "up");
        let ports = json!([{ "name": "http-0", "port": 8080 }, { "name": "http-1", "port": 8081 }]);
        assert_eq!((&service["spec"]["ports"], &service["spec"]["clusterIP"]), (&ports, &Value::Null));
    }

    #[test]
    fn selectors_find_what_the_labels_say() {
        let expected = "app.kubernetes.io/managed-by=hoptax,hoptax.io/run=0a1b2c3d,hoptax.io/host=edge";
        assert_eq!(of_host("0a1b2c3d", "edge"), expected);
        let expected = format!("{MANAGED_BY}=hoptax,{PLAN}={}", "a".repeat(63));
        assert_eq!(of_plan(&format!("{}-", "a".repeat(70))), expected);
        assert_eq!((label("edge_"), part("Edge_1.b-", 8)), ("edge".into(), "edge-1-b".into()));
    }
}

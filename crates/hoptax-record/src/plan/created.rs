//! Machines that hoptax looks up or creates before a run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Machines of a Terraform configuration. Their names and addresses are outputs of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terraform {
    /// Directory of the configuration.
    pub dir: PathBuf,
    /// Output that says how to reach the machines.
    pub reach: TerraformReach,
    /// Output with the address at which other hosts reach the machine; absent if no other host connects to
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// User to log in as; absent if `ssh` or the output says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether hoptax applies the configuration if outputs are missing.
    #[serde(default)]
    pub apply: bool,
    /// Whether hoptax destroys the machines after the run, if it created them.
    #[serde(default)]
    pub destroy: bool,
    /// Name or path of the program; absent if hoptax chooses `terraform` or `tofu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// An output of a Terraform configuration that says how to reach machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TerraformReach {
    /// Its value is a name for `ssh`, or a list of names.
    Ssh(String),
    /// Its value is a command, as a text or as a list of words. hoptax appends the words of the command to
    /// run on the machine.
    Command(String),
}

/// Pods that hoptax creates for a run and removes after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// What creates the pods.
    pub kind: WorkloadKind,
    /// Image of the container.
    pub image: String,
    /// When the node pulls the image; absent if Kubernetes decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<Pull>,
    /// Names of secrets with credentials for the image's registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<String>,
    /// Resources that each pod reserves: `cpu`, `memory`, …, each with its quantity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    /// Upper limits of the resources of each pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Labels of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The cluster removes everything after this time, even if hoptax cannot.
    pub at_most: Duration,
    /// Namespace of the pods; absent if the context says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Context of the user's configuration of `kubectl`; absent for the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// What creates pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// An indexed Job.
    Job {
        /// Number of pods.
        parallelism: u32,
    },
    /// A Deployment with one pod, and a Service that leads to it.
    Deployment {
        /// Name of the Service; absent if hoptax chooses one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<String>,
    },
}

/// When a node pulls an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PullText")]
pub enum Pull {
    /// For each pod.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

/// A taint of nodes that pods tolerate, in the words of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toleration {
    /// Key of the taint; absent for all taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Value of the taint; absent for all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint: `NoSchedule`, `PreferNoSchedule` or `NoExecute`; absent for all effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// Pods of a gateway that already runs in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedPods {
    /// Selects the pods by their labels.
    pub selector: String,
    /// The container whose CPU time and memory count; absent if each pod has one container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Namespace of the pods; absent if the context says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Context of the user's configuration of `kubectl`; absent for the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

//! Hosts that hoptax looks up or creates: machines of Terraform, pods of Kubernetes. Also pods that it
//! watches.

use super::forms::one_of;
use super::{Ordered, Placed, Sweep, Text, Time};
use crate::Pull;
use schemars::JsonSchema;
use serde::Deserialize;

/// Machines of a Terraform or OpenTofu configuration.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "terraform")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTerraform {
    /// Directory of the configuration. A relative path starts from the plan's directory.
    pub(crate) dir: Placed<String>,
    /// Names of outputs of the configuration.
    pub(crate) outputs: Placed<RawOutputs>,
    /// User to log in as. Default: what the output or the configuration of `ssh` says.
    pub(crate) user: Option<Placed<String>>,
    /// Whether hoptax applies the configuration if one of the outputs is missing. Default: false.
    pub(crate) apply: Option<bool>,
    /// Whether hoptax destroys the machines after the run, if it created them. Default: never.
    pub(crate) destroy: Option<Placed<RawDestroy>>,
    /// Name or path of the program. Default: terraform, or tofu if there is no terraform.
    pub(crate) program: Option<Placed<String>>,
}

/// When hoptax destroys machines that it created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Destroy")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawDestroy {
    /// When the run has ended, also if it failed.
    After,
    /// Never.
    Never,
}

/// Names of outputs. Give exactly one of `ssh` and `command`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "outputs", transform = one_of("ssh command"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawOutputs {
    /// Output with a name or an address for `ssh`, or with a list of them. With a list, each machine runs a
    /// generator.
    pub(crate) ssh: Option<Placed<String>>,
    /// Output with a command, as a text or a list of words. hoptax appends the words of the command to run on
    /// the machine.
    pub(crate) command: Option<Placed<String>>,
    /// Output with the IP address at which the other hosts reach the machine.
    pub(crate) address: Option<Placed<String>>,
}

/// Pods: running ones, or pods that hoptax creates for the run. Give exactly one of `pod`, `job` and
/// `deployment`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "kubernetes", transform = one_of("pod job deployment"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawKubernetes {
    /// Name of a running pod. With a list of pods, each runs a generator. hoptax runs `kubectl exec`.
    pub(crate) pod: Option<Sweep<Text>>,
    /// Container of the running pod. Default: the one that `kubectl` chooses.
    pub(crate) container: Option<Placed<String>>,
    /// Pods that hoptax creates as an indexed Job, and removes after the run.
    pub(crate) job: Option<Placed<RawWorkload>>,
    /// A pod that hoptax creates as a Deployment with a Service, and removes after the run.
    pub(crate) deployment: Option<Placed<RawWorkload>>,
    /// Namespace of the pods. Default: that of the context.
    pub(crate) namespace: Option<Placed<String>>,
    /// Context of the configuration of `kubectl`. Default: the current one.
    pub(crate) context: Option<Placed<String>>,
}

/// Pods that hoptax creates.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "workload")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWorkload {
    /// Image of the container. It needs `sleep` and a shell, or the host's key `hoptax`: the path of hoptax
    /// in the image.
    pub(crate) image: Placed<String>,
    /// When the node pulls the image. Default: Kubernetes decides by the image's tag.
    pub(crate) pull: Option<Pull>,
    /// Names of secrets with credentials for the registry. Default: none.
    pub(crate) pull_secrets: Option<Vec<Placed<Text>>>,
    /// Only for a job: number of pods. Each runs a generator. Default: 1.
    pub(crate) parallelism: Option<Placed<u32>>,
    /// Only for a deployment: name of the Service. Default: a name that contains the names of the plan and of
    /// the host.
    pub(crate) service: Option<Placed<String>>,
    /// Resources that each pod reserves, such as { cpu: 2, memory: 1Gi }. Default: none.
    pub(crate) requests: Option<Ordered<Placed<Text>>>,
    /// Upper limits of the resources of each pod. Default: none.
    pub(crate) limits: Option<Ordered<Placed<Text>>>,
    /// Labels that a node must have. Default: none.
    pub(crate) node_selector: Option<Ordered<Placed<Text>>>,
    /// Taints of nodes that the pods tolerate. Default: none.
    pub(crate) tolerations: Option<Vec<Placed<RawToleration>>>,
    /// Further labels of the pods. Default: none.
    pub(crate) labels: Option<Ordered<Placed<Text>>>,
    /// Annotations of the pods, such as { sidecar.istio.io/inject: "false" }. Default: none.
    pub(crate) annotations: Option<Ordered<Placed<Text>>>,
    /// The cluster removes everything after this time, even if hoptax was killed. Default: 6h.
    pub(crate) at_most: Option<Placed<Time>>,
}

/// A taint of nodes that pods tolerate.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "toleration")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawToleration {
    /// Key of the taint. Default: every key.
    pub(crate) key: Option<Placed<String>>,
    /// Value of the taint. Default: every value.
    pub(crate) value: Option<Placed<String>>,
    /// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Default: every effect.
    pub(crate) effect: Option<Placed<String>>,
}

/// Pods of a gateway that runs in a cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "watched-pods")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWatchedPods {
    /// Selects the pods by their labels, as `kubectl get pods --selector` does: app=edge.
    pub(crate) selector: Placed<String>,
    /// Container whose CPU time and memory count. Required if the pods have several containers.
    pub(crate) container: Option<Placed<String>>,
    /// Namespace of the pods. Default: that of the context.
    pub(crate) namespace: Option<Placed<String>>,
    /// Context of the configuration of `kubectl`. Default: the current one.
    pub(crate) context: Option<Placed<String>>,
}

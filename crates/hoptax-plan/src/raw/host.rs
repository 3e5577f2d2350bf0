//! Hosts and roles.

use super::created::{RawKubernetes, RawTerraform};
use super::{HostAddress, Placed, Short, Sweep, Text};
use schemars::JsonSchema;
use serde::Deserialize;

/// A command: a text, or a list of words.
pub(crate) type RawCommand = Short<Vec<Placed<Text>>, Text>;

/// A host: a machine, a container, a pod or a network namespace on which hoptax runs a role. Give exactly one
/// of `ssh`, `command`, `commands`, `docker`, `kubernetes` and `terraform`. Only the host `local`, the
/// machine that runs hoptax, has none of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "host")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHost {
    /// Name of the machine, as the user's `ssh` knows it. With a list of machines, each runs a generator.
    pub(crate) ssh: Option<Sweep<Text>>,
    /// Command to which hoptax appends the words of the command to run on the host, such as `ip netns exec
    /// app`. It is a text with words and quotes as in a shell, or a list of words.
    pub(crate) command: Option<Placed<RawCommand>>,
    /// A list of commands, one for each machine of the host. Each machine runs a generator.
    #[schemars(with = "Option<Vec<RawCommand>>")]
    pub(crate) commands: Option<Placed<Vec<Placed<RawCommand>>>>,
    /// Name or id of a running container. hoptax runs `docker exec`.
    pub(crate) docker: Option<Placed<String>>,
    /// Pods: running ones, or pods that hoptax creates for the run.
    pub(crate) kubernetes: Option<Placed<RawKubernetes>>,
    /// Machines of a Terraform or OpenTofu configuration.
    pub(crate) terraform: Option<Placed<RawTerraform>>,
    /// IP address at which the other hosts reach this host. Required if a gateway or the built-in upstream
    /// runs on it and another role runs on this machine or on another host.
    pub(crate) address: Option<Placed<HostAddress>>,
    /// Path of the program hoptax on the host. Default: hoptax copies itself there.
    pub(crate) hoptax: Option<Placed<String>>,
}

/// The host of each role: a name from `hosts`, or `local`, the machine that runs hoptax.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "roles")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRoles {
    /// Host of the generator. If the host has several machines, each of them runs a generator. Default:
    /// local.
    pub(crate) generator: Option<Placed<String>>,
    /// Host of the gateways. Default: local.
    pub(crate) gateway: Option<Placed<String>>,
    /// Host of the built-in upstream. Default: local.
    pub(crate) upstream: Option<Placed<String>>,
}

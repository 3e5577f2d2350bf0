//! The hosts of a plan, and the roles that they have.

use super::created::{Terraform, Workload, WorkloadKind};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Name of the host that runs hoptax. Plans need not declare it.
pub const LOCAL: &str = "local";

/// A host of a plan: one machine, or several machines with the same role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Unique name in this plan.
    pub name: String,
    /// How hoptax reaches the host.
    pub kind: HostKind,
    /// IP address at which the other hosts reach it; absent if no other host connects to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Path of the program hoptax on the host; absent if hoptax copies itself there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hoptax: Option<String>,
}

impl Host {
    /// The machine that runs hoptax, without an address.
    pub fn local() -> Self {
        Self { name: LOCAL.to_owned(), kind: HostKind::Local, address: None, hoptax: None }
    }

    /// The name of each machine of this host. A single machine has the name of the host. Several are numbered
    /// from 1: `clients-1`, `clients-2`.
    pub fn machine_names(&self) -> Vec<String> {
        match self.kind.machines() {
            1 => vec![self.name.clone()],
            several => (1..=several).map(|number| format!("{}-{number}", self.name)).collect(),
        }
    }
}

/// How hoptax reaches a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// The machine that runs hoptax.
    Local,
    /// One or more machines, by the names that the user's `ssh` knows.
    Ssh(Vec<String>),
    /// Words of a command, to which hoptax appends the words of the command to run on the host.
    Command(Vec<String>),
    /// One or more machines, with the words of such a command for each machine.
    Commands(Vec<Vec<String>>),
    /// Name or id of a running container.
    Docker(String),
    /// A container of one or more running pods.
    Kubernetes(Pods),
    /// Machines of a Terraform configuration.
    Terraform(Terraform),
    /// Pods that hoptax creates for the run.
    Workload(Workload),
}

impl HostKind {
    /// Number of machines. Machines of Terraform count as one until they are known.
    pub fn machines(&self) -> usize {
        match self {
            Self::Ssh(names) => names.len(),
            Self::Commands(commands) => commands.len(),
            Self::Kubernetes(pods) => pods.pods.len(),
            Self::Workload(Workload { kind: WorkloadKind::Job { parallelism }, .. }) => *parallelism as usize,
            _ => 1,
        }
    }

    /// False if hoptax must first look up the machines, or create them.
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Terraform(_) | Self::Workload(_))
    }

    /// Whether hoptax finds the address of the host itself.
    pub fn has_own_address(&self) -> bool {
        match self {
            Self::Terraform(terraform) => terraform.address.is_some(),
            Self::Workload(_) => self.machines() == 1,
            _ => false,
        }
    }
}

/// Running pods. `kubectl` chooses a container, namespace or context that is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pods {
    /// Names of the pods.
    pub pods: Vec<String>,
    /// Container of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Namespace of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Context of the user's configuration of `kubectl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// The name of each role's host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Host of the generator. If the host has several machines, each of them runs a generator.
    pub generator: String,
    /// Host of the gateways.
    pub gateway: String,
    /// Host of the upstream. It is [`LOCAL`] if the upstream already runs.
    pub upstream: String,
}

impl Default for Roles {
    /// All roles are on the machine that runs hoptax.
    fn default() -> Self {
        let local = || LOCAL.to_owned();
        Self { generator: local(), gateway: local(), upstream: local() }
    }
}

impl Roles {
    /// The roles, each with its name and the name of its host.
    pub fn each(&self) -> [(&'static str, &str); 3] {
        [("generator", &self.generator), ("gateway", &self.gateway), ("upstream", &self.upstream)]
    }

    /// True if all roles are on the machine that runs hoptax.
    pub fn is_local(&self) -> bool {
        self.each().iter().all(|(_, host)| *host == LOCAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn several_machines_are_numbered() {
        let of = |kind| Host { kind, ..Host { name: "clients".into(), ..Host::local() } }.machine_names();
        assert_eq!(of(HostKind::Ssh(words("a"))), ["clients"]);
        assert_eq!(of(HostKind::Ssh(words("a b"))), ["clients-1", "clients-2"]);
        assert_eq!(of(HostKind::Commands(vec![words("a"), words("b")])), ["clients-1", "clients-2"]);
        assert_eq!(Host::local().machine_names(), ["local"]);
    }
}

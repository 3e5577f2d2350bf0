//! Conversions of hosts.

use super::kept;
use crate::{Host, HostKind};

impl From<&Host> for kept::Host {
    fn from(host: &Host) -> Self {
        let Host { name, kind, address, hoptax } = host.clone();
        let kind = match kind {
            HostKind::Local => kept::HostKind::Local,
            HostKind::Ssh(names) => kept::HostKind::Ssh(names),
            HostKind::Command(words) => kept::HostKind::Command(words),
            HostKind::Commands(commands) => kept::HostKind::Commands(commands),
            HostKind::Docker(container) => kept::HostKind::Docker(container),
            HostKind::Kubernetes(pods) => kept::HostKind::Kubernetes(pods),
            HostKind::Terraform(terraform) => kept::HostKind::Terraform(terraform),
            HostKind::Workload(workload) => kept::HostKind::Workload(workload),
        };
        Self { name, kind, address, hoptax }
    }
}

impl From<kept::Host> for Host {
    fn from(host: kept::Host) -> Self {
        let kept::Host { name, kind, address, hoptax } = host;
        let kind = match kind {
            kept::HostKind::Local => HostKind::Local,
            kept::HostKind::Ssh(names) => HostKind::Ssh(names),
            kept::HostKind::Command(words) => HostKind::Command(words),
            kept::HostKind::Commands(commands) => HostKind::Commands(commands),
            kept::HostKind::Docker(container) => HostKind::Docker(container),
            kept::HostKind::Kubernetes(pods) => HostKind::Kubernetes(pods),
            kept::HostKind::Terraform(terraform) => HostKind::Terraform(terraform),
            kept::HostKind::Workload(workload) => HostKind::Workload(workload),
        };
        Self { name, kind, address, hoptax }
    }
}

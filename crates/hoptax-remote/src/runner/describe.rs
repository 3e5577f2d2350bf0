//! Describes the hosts of a plan without a run: `hoptax hosts`.

use super::host_ref::HostRef;
use super::hosts::Hosts;
use crate::protocol::offset::Offset;
use anyhow::anyhow;
use hoptax_host::probe::fitness::Moment;
use hoptax_plan::shown_words;
use hoptax_record::{Environment, HostLook, Role};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// A host of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct HostDescription {
    /// Name in the plan.
    pub name: String,
    /// Its roles.
    pub roles: Vec<Role>,
    /// Address at which the other hosts reach it.
    pub address: Option<IpAddr>,
    /// The command that leads to its agent. Absent for the machine that runs hoptax.
    pub command: Option<String>,
    /// The machine.
    pub environment: Environment,
    /// How much its clock is ahead of ours. Absent for the machine that runs hoptax.
    pub clock: Option<Offset>,
    /// Whether it is fit for measurements. Absent if the host does not report it.
    pub look: Option<HostLook>,
}

impl Hosts {
    /// Describes each host. `results` is the directory for results on our own host.
    ///
    /// # Errors
    /// If a host is lost.
    pub fn describe(&self, results: &Path) -> anyhow::Result<Vec<HostDescription>> {
        let mut hosts: BTreeMap<&str, HostDescription> = BTreeMap::new();
        let generators = self.all_generators().into_iter().map(|host| (Role::Generator, host));
        for (role, host) in
            generators.chain([(Role::Gateway, &self.gateway), (Role::Upstream, &self.upstream)])
        {
            match hosts.get_mut(host.name()) {
                Some(known) => known.roles.push(role),
                None => {
                    let look = self.look_at(host, Moment::Start, results);
                    hosts.insert(host.name(), describe(role, host, look)?);
                }
            }
        }
        Ok(hosts.into_values().collect())
    }
}

fn describe(role: Role, host: &HostRef, look: Option<HostLook>) -> anyhow::Result<HostDescription> {
    let known = host.known()?;
    let (command, clock) = match host.remote() {
        None => (None, None),
        Some(host) => {
            let link = host.link().map_err(|failure| anyhow!(failure.message))?;
            (Some(shown_words(host.command()).join(" ")), Some(link.offset()))
        }
    };
    Ok(HostDescription {
        name: host.name().to_owned(),
        roles: vec![role],
        address: known.address,
        command,
        environment: known.environment,
        clock,
        look,
    })
}

//! Finds and creates the machines of a plan's hosts, and removes them.

use super::cluster::Remover;
use super::setup::Setup;
use super::terraform::Directory;
use super::{kubernetes, terraform};
use anyhow::{anyhow, bail};
use hoptax_plan::{Host, HostKind, Plan};

/// The hosts of a plan, which can all be reached. Dropping this value removes what was created for them,
/// except for machines that the plan keeps.
#[derive(Debug, Default)]
pub struct Up {
    hosts: Vec<Host>,
    directories: Vec<Directory>,
    removers: Vec<Remover>,
}

/// Finds the machines of a plan's hosts. Creates those that hoptax must create, and waits until commands can
/// be run on them.
///
/// The hosts of other kinds are returned as they are. If an error or a signal ends this early, what was
/// created is removed.
///
/// # Errors
/// If `terraform` or `kubectl` fails, outputs are missing, pods do not become ready, or a signal arrives.
pub fn up(setup: &Setup<'_>) -> anyhow::Result<Up> {
    let mut up = Up::default();
    let found = up.find(setup);
    match found {
        Ok(hosts) => {
            up.hosts = hosts;
            Ok(up)
        }
        // A failure to remove says which machines remain, so it must not be lost.
        Err(error) => match up.end(setup.progress) {
            Ok(()) => Err(error),
            Err(remain) => Err(anyhow!("{error:#}\n{remain:#}")),
        },
    }
}

/// Removes what earlier runs of this plan have left: after `kill -9`, or because `terraform` or `kubectl`
/// failed. Returns one line for each thing that was removed.
///
/// # Errors
/// If something cannot be removed, or a run still uses it.
pub fn down(setup: &Setup<'_>) -> anyhow::Result<Vec<String>> {
    // Both are tried, even if one fails.
    let (pods, machines) = (kubernetes::down(setup), terraform::down(setup));
    match (pods, machines) {
        (Ok(pods), Ok(machines)) => Ok(pods.into_iter().chain(machines).collect()),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        (Err(first), Err(second)) => Err(anyhow!("{first:#}\n{second:#}")),
    }
}

impl Up {
    /// The hosts in the order of the plan. Their kinds are [known](HostKind::is_known), and each has its
    /// address.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A copy of `plan` with these hosts. `plan` may have changed since the hosts were found, because they
    /// are found only once.
    pub fn located(&self, plan: &Plan) -> Plan {
        Plan { hosts: self.hosts.clone(), ..plan.clone() }
    }

    /// Removes what was created, except for machines that the plan keeps, and waits until it is gone.
    ///
    /// # Errors
    /// If something cannot be removed. The error says what remains, and how to remove it.
    pub fn end(&mut self, progress: &dyn Fn(&str)) -> anyhow::Result<()> {
        let mut errors = kubernetes::end(&mut self.removers);
        errors.extend(terraform::end(&mut self.directories, progress));
        if errors.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
        bail!("{}. To try again: hoptax hosts down PLAN", texts.join("\n"));
    }

    fn find(&mut self, setup: &Setup<'_>) -> anyhow::Result<Vec<Host>> {
        let mut found = terraform::up(setup, &mut self.directories)?;
        found.extend(kubernetes::up(setup, &mut self.removers)?);
        let plan = setup.plan;
        let of_plan = |host: &Host| {
            let known = found.iter().find(|one| one.name == host.name);
            known.unwrap_or(host).clone()
        };
        let hosts: Vec<Host> = plan.hosts.iter().map(of_plan).collect();
        for (role, name) in plan.roles.each() {
            let machines = hosts.iter().find(|host| host.name == name).map_or(1, |host| host.kind.machines());
            if role != "generator" && machines > 1 {
                bail!("host {name}: it is {machines} machines, but the {role} needs one");
            }
        }
        check_machines(&hosts)?;
        Ok(hosts)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Err(error) = self.end(&|line| eprintln!("{line}")) {
            eprintln!("error: {error:#}");
        }
    }
}

/// Refuses a machine that belongs to two hosts. Its CPU time would count twice.
fn check_machines(hosts: &[Host]) -> anyhow::Result<()> {
    for (index, host) in hosts.iter().enumerate() {
        let commands = hoptax_plan::commands(&host.kind);
        let is_same = |other: &&Host| {
            other.kind != HostKind::Local
                && hoptax_plan::commands(&other.kind).iter().any(|one| commands.contains(one))
        };
        if let Some(other) = hosts[..index].iter().find(is_same) {
            bail!(
                "the hosts {} and {} are the same machine. Keep one of them, and give it both roles",
                other.name,
                host.name
            );
        }
    }
    Ok(())
}

//! Properties of a run that may explain why its figures differ from those of another run.

use hoptax_plan::{GatewayKind, Plan};
use hoptax_record::plan::Idle;
use hoptax_record::{Environment, RunRecord, digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Description of a change between two runs: the parts of the plan that all cases share are different.
pub(super) const PLAN: &str = "plan";

/// Properties that may explain why the figures of two runs differ. The versions of programs are not included,
/// because [`Entry`](super::Entry) contains them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Basis {
    /// The machines, by the name of the host in the plan. The generator's machine, or the only one, has an
    /// empty name.
    pub(super) machines: BTreeMap<String, Machine>,
    /// Digest of the parts of the plan that all cases share.
    pub(super) plan: String,
    /// Digest of each gateway's configuration, by label.
    pub(super) gateways: BTreeMap<String, String>,
}

/// A machine of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// Host name of the machine. A machine that hoptax creates has another host name each time, so for such a
    /// machine this is the name in the plan.
    pub(super) host: String,
    /// Other properties, by name.
    pub(super) properties: BTreeMap<String, String>,
}

impl Basis {
    pub(super) fn of(record: &RunRecord) -> Self {
        let first = Machine::of(&record.plan, &record.plan.roles.generator, &record.environment);
        let mut machines = BTreeMap::from([(String::new(), first)]);
        // The first generator's machine is described above.
        let generators = [record.plan.roles.generator.clone(), format!("{}-1", record.plan.roles.generator)];
        for (name, host) in record.hosts.iter().filter(|(name, _)| !generators.contains(name)) {
            machines.insert(name.clone(), Machine::of(&record.plan, name, &host.environment));
        }
        Self {
            machines,
            plan: digest(&digest_input(&record.plan)),
            gateways: record
                .contenders
                .iter()
                .map(|one| (one.label.clone(), configured(record, one)))
                .collect(),
        }
    }
}

impl Machine {
    fn of(plan: &Plan, name: &str, environment: &Environment) -> Self {
        let properties = [
            ("kernel", environment.kernel.clone()),
            ("CPU", environment.cpu.clone()),
            ("CPUs", environment.cpus.to_string()),
            ("governor", environment.governor.clone().unwrap_or_default()),
            ("hypervisor", environment.hypervisor.clone().unwrap_or_default()),
            ("idle CPUs", format!("{:?}", environment.idle.unwrap_or(Idle::Sleep)).to_lowercase()),
        ];
        let created = plan.hosts.iter().find(|host| {
            !host.kind.is_known() && (host.name == name || host.machine_names().iter().any(|one| one == name))
        });
        Self {
            host: created.map_or_else(|| environment.host.clone(), |host| host.name.clone()),
            properties: properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

/// Digest of everything in a plan that can change a figure. Two runs with the same digest measured the same
/// gateways under the same load.
pub(super) fn digest_of_plan(plan: &Plan) -> String {
    digest(&without(plan, &["seed", "trials", "budget", "cpu_profile", "tail"]))
}

/// The parts of a plan that all cases share, as text. Gateways and load points are left out, because they
/// belong to single cases. Process ids are left out, because they change in every run.
fn digest_input(plan: &Plan) -> String {
    without(plan, &["name", "seed", "trials", "budget", "gateways", "load"])
}

/// A plan without these members and without process ids, as text.
fn without(plan: &Plan, left_out: &[&str]) -> String {
    let mut plan = serde_json::to_value(plan).unwrap_or_default();
    if let Some(members) = plan.as_object_mut() {
        members.retain(|name, _| !left_out.contains(&&**name));
    }
    if let Some(running) = plan.pointer_mut("/upstream/running").and_then(serde_json::Value::as_object_mut) {
        running.remove("pid");
    }
    plan.to_string()
}

/// Digest of a gateway's configuration, which consists of the gateway's settings in the plan and its rendered
/// files. hoptax does not know the configuration of an external gateway.
fn configured(record: &RunRecord, one: &hoptax_record::Contender) -> String {
    let planned = record.plan.gateways.iter().find(|gateway| gateway.label == one.label);
    let kind = planned.map(|gateway| match &gateway.kind {
        GatewayKind::External { .. } => "external".to_owned(),
        kind => serde_json::to_string(kind).unwrap_or_default(),
    });
    digest(&format!("{kind:?} {:?} {:?}", one.workers, one.rendered))
}

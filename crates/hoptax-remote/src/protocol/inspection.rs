//! What a host has for a plan: its gateways, its limits and its profiler.

use hoptax_host::profile::Profiler;
use hoptax_lab::limits::Limits;
use hoptax_lab::packs::{Pack, PackSet, Versions, binary};
use hoptax_plan::{GatewayKind, PackDriver, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a host has for a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// The gateways of the plan that start from packs, by label.
    pub gateways: BTreeMap<String, Program>,
    /// The limits of the host.
    pub limits: Limits,
    /// Whether recorded stacks contain the kernel's part; an error if no stacks can be recorded. Absent if
    /// the plan records no stacks.
    pub profiler: Option<Result<bool, String>>,
}

/// A gateway's program on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Name of the gateway in messages.
    pub name: String,
    /// One line for each way to install what is missing. Empty if nothing is missing.
    pub how_to_install: Vec<String>,
    /// The program, if it is known without starting the gateway.
    pub path: Option<PathBuf>,
    /// The version that the program reports.
    pub version: Option<String>,
}

impl Inspection {
    /// Inspects our own host. `versions`: also asks the programs for their versions, which may take seconds.
    pub fn here(plan: &Plan, packs: &PackSet, versions: bool) -> Self {
        let mut gateways = BTreeMap::new();
        for gateway in &plan.gateways {
            let GatewayKind::Pack { pack, driver, .. } = &gateway.kind else { continue };
            let Some(pack) = packs.get(pack) else { continue };
            gateways.insert(gateway.label.clone(), program(pack, driver, versions));
        }
        let profiler = plan.cpu_profile.is_some().then(|| {
            Profiler::find().map(|profiler| profiler.sees_kernel()).map_err(|error| error.to_string())
        });
        Self { gateways, limits: Limits::now(), profiler }
    }

    /// Whether something of this gateway is missing.
    pub fn is_missing(&self, label: &str) -> bool {
        self.gateways.get(label).is_some_and(|program| !program.how_to_install.is_empty())
    }

    /// The gateways of a plan that are missing, each with the ways to install it.
    pub fn missing(&self, plan: &Plan) -> BTreeMap<&str, &[String]> {
        let programs = plan.gateways.iter().filter_map(|gateway| self.gateways.get(&gateway.label));
        let missing = programs.filter(|program| !program.how_to_install.is_empty());
        missing.map(|program| (program.name.as_str(), program.how_to_install.as_slice())).collect()
    }
}

fn program(pack: &Pack, driver: &PackDriver, versions: bool) -> Program {
    let how_to_install = binary::missing(pack, driver);
    let path = match driver {
        PackDriver::Process if how_to_install.is_empty() => binary::find(pack),
        PackDriver::Version(version) if how_to_install.is_empty() => binary::of_version(pack, version).ok(),
        _ => None,
    };
    let version = path.as_ref().filter(|_| versions).and_then(|path| {
        let mut known = Versions::load();
        let version = known.of(pack, path).ok().flatten();
        known.save();
        version
    });
    Program { name: binary::name_of(pack, driver), how_to_install, path, version }
}

//! What `run`, `check` and `render` share: naming a plan, overriding parts of it, reading it.

use super::exit::BadInput;
use hoptax_lab::descriptors;
use hoptax_lab::packs::PackSet;
use hoptax_plan::{self as plan, Plan, units};
use std::path::PathBuf;

/// A plan as it is named on the command line.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanSource {
    /// The plan, a YAML file; `hoptax init` writes one to start from
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,

    /// Override a part of the plan, as in `trials=1` or `load.0.duration=2s`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,

    /// Folder of gateway packs that are added to the built-in ones, or replace those of the same name
    #[arg(long, value_name = "DIR")]
    pub(crate) packs: Option<PathBuf>,
}

impl PlanSource {
    /// Reads the plan; gives it with the text it came from.
    ///
    /// # Errors
    /// [`BadInput`] if there is no such file, or it has mistakes.
    pub(crate) fn load(&self) -> anyhow::Result<(Plan, String)> {
        let known = self.packs()?.infos();
        Ok(plan::load(&self.plan, &self.sets, cpus(), known).map_err(BadInput::from)?)
    }

    /// The packs that the plan can name.
    ///
    /// # Errors
    /// [`BadInput`] if the folder of `--packs` cannot be read, or a pack in it is wrong.
    pub(crate) fn packs(&self) -> anyhow::Result<PackSet> {
        Ok(PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?)
    }
}

/// Of which gateways of a plan, where not all of them.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Only {
    /// Take these gateways alone, by their labels (`nginx,nginx.key-auth`); direct is always there. Prices of features need the
    /// gateway without them too
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',')]
    only: Vec<String>,
}

impl Only {
    /// Leaves out all other gateways, and budgets that name one of those.
    ///
    /// # Errors
    /// [`BadInput`] if the plan has no such gateway.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Result<(), BadInput> {
        if self.only.is_empty() {
            return Ok(());
        }
        let labels: Vec<String> = plan.gateways.iter().map(|gateway| gateway.label.clone()).collect();
        if let Some(unknown) = self.only.iter().find(|label| !labels.contains(label)) {
            let near = units::nearest(unknown, labels.iter().map(String::as_str));
            let help = near.map_or_else(
                || format!("it has {}", labels.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(BadInput(format!("--only: there is no gateway `{unknown}` in the plan; {help}")));
        }
        let stays = |label: &String| self.only.contains(label);
        plan.gateways.retain(|gateway| stays(&gateway.label));
        plan.budget.retain(|budget| {
            let names_another = |label: &Option<String>| {
                label.as_ref().is_some_and(|label| labels.contains(label) && !stays(label))
            };
            !names_another(&budget.gateway) && !names_another(&budget.against)
        });
        Ok(())
    }
}

/// Looks whether the plan's connections fit into the descriptors that processes may hold; gives a sentence for each
/// gateway that cannot hold them.
///
/// # Errors
/// [`BadInput`] if the generator or the built-in upstream cannot hold them: then nothing can be measured.
pub(crate) fn fits(plan: &Plan, packs: &PackSet) -> anyhow::Result<Vec<String>> {
    Ok(descriptors::check(plan, packs, descriptors::limit()).map_err(|error| BadInput(error.to_string()))?)
}

/// CPUs of this machine, whether or not this process may use them all: a plan may pin to any.
fn cpus() -> u32 {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let last =
        online.and_then(|list| hoptax_host::cpus::parse_list(&list)).and_then(|cpus| cpus.last().copied());
    last.map_or_else(
        || std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        |last| last + 1,
    )
}

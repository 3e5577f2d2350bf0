//! The plan on the command line, and the options that change the plan. Several verbs share this code.

use super::exit::BadInput;
use super::help;
#[cfg(target_os = "linux")]
use hoptax_lab::limits::{self, Limits, LoadLimits, RoleLimits};
use hoptax_lab::packs::PackSet;
#[cfg(target_os = "linux")]
use hoptax_lab::packs::binary;
use hoptax_load::names;
use hoptax_plan::{
    self as plan, BuiltInUpstream, Gateway, GatewayKind, LOCAL, Listen, Plan, Resolve, Upstream, units,
};
use hoptax_run::Contents;
use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanSource {
    #[arg(value_name = "PLAN", help = help::PLAN)]
    pub(crate) plan: PathBuf,

    #[arg(long = "set", value_name = "KEY=VALUE", help = help::SET)]
    pub(crate) sets: Vec<String>,

    #[arg(long, value_name = "DIR", help = help::PACKS)]
    pub(crate) packs: Option<PathBuf>,
}

impl PlanSource {
    /// Reads the plan, and returns it with its text. Fails with [`BadInput`] if there is no such file, or if
    /// the plan has mistakes.
    pub(crate) fn load(&self) -> anyhow::Result<(Plan, String)> {
        let known = self.packs()?.infos();
        Ok(plan::load(&self.plan, &self.sets, cpus(), known).map_err(BadInput::from)?)
    }

    /// The packs that the plan can use. Fails with [`BadInput`] if the directory of `--packs` cannot be read,
    /// or a pack in it is wrong.
    pub(crate) fn packs(&self) -> anyhow::Result<PackSet> {
        Ok(PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?)
    }
}

/// The plan that `hoptax init` writes, with its text. It measures gateways that hoptax contains. Fails with
/// [`BadInput`] if a change of `--set` is wrong.
#[cfg(target_os = "linux")]
pub(crate) fn template(sets: &[String], packs: &PackSet) -> anyhow::Result<(Plan, String)> {
    let context = plan::Context { cpus: cpus(), known: packs.infos(), directory: PathBuf::new() };
    let mut plan =
        plan::parse("the built-in plan", plan::TEMPLATE, sets, &context).map_err(BadInput::from)?;
    plan.name = "built-in".to_owned();
    Ok((plan, plan::TEMPLATE.to_owned()))
}

/// Chooses some gateways of the plan.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Only {
    /// Measure only direct and these gateways of the plan, by label, such as nginx,nginx.key-auth
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',')]
    only: Vec<String>,
}

impl Only {
    /// Also chooses these gateways, by label.
    #[cfg(target_os = "linux")]
    pub(crate) fn add(&mut self, labels: Vec<String>) {
        self.only.extend(labels);
    }

    /// Removes all gateways that `--only` does not name from the plan, and the budgets that refer to them.
    /// Fails with [`BadInput`] if `--only` names a label that no gateway of the plan has.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Result<(), BadInput> {
        if self.only.is_empty() {
            return Ok(());
        }
        let labels: Vec<String> = plan.gateways.iter().map(|gateway| gateway.label.clone()).collect();
        if let Some(unknown) = self.only.iter().find(|label| !labels.contains(label)) {
            let near = units::nearest(unknown, labels.iter().map(String::as_str));
            let help = near.map_or_else(
                || format!("its gateways are {}", labels.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(BadInput(format!("--only: the plan has no gateway `{unknown}`; {help}")));
        }
        let is_kept = |label: &String| self.only.contains(label);
        plan.gateways.retain(|gateway| is_kept(&gateway.label));
        plan.budget.retain(|budget| {
            let names_removed = |label: &Option<String>| {
                label.as_ref().is_some_and(|label| labels.contains(label) && !is_kept(label))
            };
            !names_removed(&budget.gateway) && !names_removed(&budget.against)
        });
        Ok(())
    }
}

/// Decides which of the plan's replacements are measured, and removes the gateways that are not. Returns a
/// line for each decision.
#[cfg(target_os = "linux")]
pub(crate) fn replace_missing(plan: &mut Plan, packs: &PackSet) -> Vec<String> {
    if plan.roles.gateway != LOCAL {
        // The programs of another host are unknown until hoptax asks that host.
        return plan.replace_missing(|_| false);
    }
    plan.replace_missing(|gateway| match &gateway.kind {
        GatewayKind::Pack { pack, driver, .. } => {
            packs.get(pack).is_some_and(|pack| !binary::missing(pack, driver).is_empty())
        }
        _ => false,
    })
}

/// The plan will run on another machine, whose programs are unknown here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn replace_missing(plan: &mut Plan, _packs: &PackSet) -> Vec<String> {
    plan.replace_missing(|_| false);
    Vec::new()
}

/// Leaves out the load points whose connections do not fit into this machine's limits. Returns a line for
/// each of them. Fails with [`BadInput`] if no load point fits.
#[cfg(target_os = "linux")]
pub(crate) fn fits(plan: &mut Plan, packs: &PackSet) -> anyhow::Result<Vec<String>> {
    match plan.is_local() {
        true => fits_into(plan, packs, RoleLimits::on_one_machine(Limits::now())),
        // `hoptax run` asks the hosts for their limits.
        false => Ok(Vec::new()),
    }
}

/// Leaves out the load points whose connections do not fit into these limits. Returns a line for each of
/// them. Fails with [`BadInput`] if no load point fits.
#[cfg(target_os = "linux")]
pub(crate) fn fits_into(
    plan: &mut Plan,
    packs: &PackSet,
    limits: impl Into<LoadLimits>,
) -> anyhow::Result<Vec<String>> {
    Ok(limits::leave_out(plan, packs, limits).map_err(|error| BadInput(error.to_string()))?)
}

/// The plan will run on another machine, whose limits are unknown here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn fits(_plan: &mut Plan, _packs: &PackSet) -> anyhow::Result<Vec<String>> {
    Ok(Vec::new())
}

/// Warnings about a plan that can run, but perhaps not as its author expects.
pub(crate) fn doubts(plan: &Plan) -> impl Iterator<Item = String> {
    unknown_port(plan).into_iter().chain(unequal_files(plan))
}

/// Notes about running services of the plan whose names have several addresses here. Each note lists the
/// addresses, and says which of them a run uses.
pub(crate) fn names_of_several(plan: &Plan) -> Vec<String> {
    let upstream = match &plan.upstream {
        Upstream::Running(running) => Some((&running.url, running.access.resolve)),
        Upstream::BuiltIn(_) => None,
    };
    let gateways = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::External { url, access, .. } => Some((url, access.resolve)),
        _ => None,
    });
    let note = |(url, resolve): (&String, Resolve)| {
        let origin = units::origin(url).ok()?;
        let mut found = names::resolve(&origin.host, origin.port).ok()?;
        let is_ipv4 = found[0].is_ipv4();
        found.retain(|address| address.is_ipv4() == is_ipv4);
        let all: Vec<String> = found.iter().map(ToString::to_string).collect();
        let which = match resolve {
            Resolve::All => "a run uses those that accept connections in turn; resolve: first keeps one",
            Resolve::First => "a run uses the first that accepts connections",
        };
        (all.len() > 1)
            .then(|| format!("{} has {} addresses ({}): {which}", origin.host, all.len(), all.join(", ")))
    };
    upstream.into_iter().chain(gateways).filter_map(note).collect()
}

/// A warning if a request takes lines from files of different length.
fn unequal_files(plan: &Plan) -> Option<String> {
    if plan.files.len() < 2 {
        return None;
    }
    // If a file cannot be read, the run fails with that error.
    let contents = Contents::read(plan).ok()?;
    hoptax_format::template::unequal_files(&contents.targets(&plan.targets, ""), &contents.files)
}

/// A warning if the plan has a gateway that already runs, which cannot know the port of the built-in
/// upstream.
fn unknown_port(plan: &Plan) -> Option<String> {
    let Upstream::BuiltIn(BuiltInUpstream { port: None, listen, .. }) = &plan.upstream else { return None };
    let (what, key) = match listen {
        Listen::Ports => ("the kernel chooses the port of the upstream", "port: 8080"),
        Listen::Unix(None) => ("hoptax chooses the socket of the upstream", "listen: \"unix:/run/app.sock\""),
        Listen::Unix(Some(_)) => return None,
    };
    let is_external = |one: &&Gateway| matches!(one.kind, GatewayKind::External { .. });
    let label = &plan.gateways.iter().find(is_external)?.label;
    Some(format!(
        "`{label}` already runs, but {what}, so `{label}` cannot forward to it. Set `upstream: {{ {key} }}` \
         to the one that `{label}` forwards to"
    ))
}

/// Number of CPUs of this machine. The number includes CPUs that this process may not use, because a plan can
/// name any CPU.
fn cpus() -> u32 {
    last_cpu().map_or_else(
        || std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        |last| last + 1,
    )
}

/// The highest number of a CPU that is online.
#[cfg(target_os = "linux")]
fn last_cpu() -> Option<u32> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    hoptax_host::cpus::parse_list(&online)?.last().copied()
}

#[cfg(not(target_os = "linux"))]
fn last_cpu() -> Option<u32> {
    None
}

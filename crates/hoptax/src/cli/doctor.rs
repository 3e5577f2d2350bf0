//! `hoptax doctor`.

mod diagnosis;
mod draw;
mod plan_fit;

use super::exit::{BadInput, Exit};
use super::load::paint::Paint;
use super::plan_source::PlanSource;
use diagnosis::{Diagnosis, PlanDiagnosis, SCHEMA};
use hoptax_host::probe::fitness::{self, SAMPLED, Snapshot, whole};
use hoptax_lab::packs::{PackSet, binary};
use hoptax_record::{Fitness, FitnessStatus};
use std::io::{self, Write};
use std::path::PathBuf;

/// Say whether this machine is fit to be measured on, and what to do where it is not.
///
/// Looks at CPUs, clocks, limits, memory and the network for some two seconds, and changes nothing. With a plan it also says
/// whether that plan fits here.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 fit, with or without warnings; 1 something is bad; 2 the plan or the command \
    line is wrong."
)]
pub(super) struct Args {
    /// A plan that shall be run here
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Override a part of the plan, as in `trials=1` or `load.0.duration=2s`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "plan")]
    sets: Vec<String>,
    /// Folder of gateway packs that are added to the built-in ones, or replace those of the same name
    #[arg(long, value_name = "DIR")]
    packs: Option<PathBuf>,
    /// Where run directories would be made: is there room?
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        // A plan with mistakes is told at once, and not after two seconds.
        let plan = match self.plan {
            Some(plan) => {
                let source = PlanSource { plan, sets: self.sets, packs: self.packs };
                Some(source.load()?.0)
            }
            None => None,
        };
        let host = fitness::here(&self.out);
        let before = Snapshot::take(&host.root);
        std::thread::sleep(SAMPLED);
        let after = Snapshot::take(&host.root);
        let look = whole(&host, before.as_ref().zip(after.as_ref()));
        let mut items = look.items;
        items.push(gateways(&packs));
        let plan =
            plan.map(|plan| PlanDiagnosis { items: plan_fit::items(&plan, &packs, &host), name: plan.name });
        let all = items.iter().chain(plan.iter().flat_map(|plan| &plan.items));
        let diagnosis = Diagnosis {
            schema: SCHEMA,
            hoptax: env!("CARGO_PKG_VERSION"),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            at_unix_ns: look.at_unix_ns,
            fit: all.into_iter().all(|item| item.status != FitnessStatus::Bad),
            items,
            plan,
        };
        let mut out = io::stdout();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&diagnosis)?)?;
        } else {
            let paint = Paint::on(&out);
            write!(out, "{}", draw::text(&diagnosis, paint))?;
        }
        Ok(if diagnosis.fit { Exit::Success } else { Exit::Failed })
    }
}

/// Which of the packs' gateways are installed, and in which versions.
fn gateways(packs: &PackSet) -> Fitness {
    let installed = packs.iter().filter_map(|pack| {
        let version = binary::version(pack, &binary::find(pack)?).ok().flatten();
        Some(format!("{} {}", pack.name(), version.as_deref().unwrap_or("of unknown version")))
    });
    let installed: Vec<String> = installed.collect();
    let item = |status, seen: String, message: &str, advice: Option<&str>| Fitness {
        name: "gateways".into(),
        status,
        seen,
        message: message.into(),
        advice: advice.map(str::to_owned),
    };
    if installed.is_empty() {
        let message = "Of the gateways that hoptax has packs for, none is installed.";
        let advice =
            "`hoptax gateways` says how to install each; the built-in hops and external ones need nothing.";
        return item(FitnessStatus::Warning, "none".into(), message, Some(advice));
    }
    item(FitnessStatus::Good, installed.join(", "), "", None)
}

//! `hoptax doctor`.

mod diagnosis;
pub(super) mod draw;
mod plan_fit;

use super::exit::{BadInput, Exit};
use super::help;
use super::paint::Paint;
use super::plan_source::{PlanSource, replace_missing};
use diagnosis::{Diagnosis, PlanDiagnosis, SCHEMA};
use hoptax_host::probe::StallWatch;
use hoptax_host::probe::fitness::{self, SAMPLED, Snapshot, whole};
use hoptax_lab::packs::{PackSet, Versions, binary};
use hoptax_record::{Fitness, FitnessStatus};
use std::io::{self, Write};
use std::path::PathBuf;

/// Check if this machine is fit to measure, and how to fix it
///
/// Takes about two seconds and changes nothing. With a plan, it also checks that this machine can run the
/// plan.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 fit; 1 at least one check is bad; 2 wrong plan or command line.")]
pub(super) struct Args {
    /// Also check that this machine can run this plan
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "plan", help = help::SET)]
    sets: Vec<String>,
    #[arg(long, value_name = "DIR", help = help::PACKS)]
    packs: Option<PathBuf>,
    #[arg(long, value_name = "DIR", default_value = "results", help = help::OUT)]
    out: PathBuf,
    #[arg(long, help = help::JSON)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        // Read the plan before the checks, so that mistakes in the plan are reported at once.
        let plan = match self.plan {
            Some(plan) => {
                let source = PlanSource { plan, sets: self.sets, packs: self.packs };
                let mut plan = source.load()?.0;
                replace_missing(&mut plan, &packs);
                Some(plan)
            }
            None => None,
        };
        let host = fitness::here(&self.out);
        let before = Snapshot::take(&host.root);
        let watch = StallWatch::begin();
        std::thread::sleep(SAMPLED);
        let stalls = watch.map(StallWatch::finish);
        let after = Snapshot::take(&host.root);
        let look = whole(&host, before.as_ref().zip(after.as_ref()), stalls.as_deref());
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

/// The installed gateways and their versions.
fn gateways(packs: &PackSet) -> Fitness {
    let mut versions = Versions::load();
    let installed = packs.iter().filter_map(|pack| {
        let version = versions.of(pack, &binary::find(pack)?).ok().flatten();
        Some(format!("{} {}", pack.name(), version.as_deref().unwrap_or("(version unknown)")))
    });
    let installed: Vec<String> = installed.collect();
    versions.save();
    let item = |status, seen: String, message: &str, advice: Option<&str>| Fitness {
        name: "gateways".into(),
        status,
        seen,
        message: message.into(),
        advice: advice.map(str::to_owned),
    };
    if installed.is_empty() {
        let message = "No gateway is installed.";
        let advice = "Install one: `hoptax gateways NAME` shows how. The built-in hops and external gateways \
            need no installation.";
        return item(FitnessStatus::Warning, "none".into(), message, Some(advice));
    }
    item(FitnessStatus::Good, installed.join(", "), "", None)
}

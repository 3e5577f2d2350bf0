//! `hoptax conform`.

use super::exit::{BadInput, Exit};
use anyhow::Context as _;
use hoptax_lab::conformance::{self, CASES};
use hoptax_lab::packs::{PackSet, binary};
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Driver as _, Service};
use hoptax_plan::{self as plan, Gateway, GatewayKind, PackDriver, Plan};
use std::path::PathBuf;
use std::time::Duration;

/// For each answer; nothing is loaded meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// Look whether gateways pass on what they are given, as direct does: bodies, headers, statuses, chunks.
///
/// Each gateway is started with its pack's settings and asked 22 requests. What it answers otherwise than direct must be listed by
/// its pack under `differences`, and what is listed must be seen; else the exit code is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Packs to look at; all that are installed when none is named
    #[arg(value_name = "GATEWAY")]
    gateways: Vec<String>,
    /// Folder of gateway packs that are added to the built-in ones, or replace those of the same name
    #[arg(long, value_name = "DIR")]
    packs: Option<PathBuf>,
}

/// Where rendered files and logs lie meanwhile.
struct Workplace(PathBuf);

impl Workplace {
    fn new() -> anyhow::Result<Self> {
        let name = format!("hoptax-conform-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        if let Some(unknown) = self.gateways.iter().find(|name| packs.get(name).is_none()) {
            let known = packs.names().join(", ");
            return Err(BadInput(format!("there is no pack `{unknown}`; there are {known}")).into());
        }
        let names: Vec<String> = match self.gateways.is_empty() {
            true => packs
                .iter()
                .filter(|pack| binary::find(pack).is_some())
                .map(|pack| pack.name().to_owned())
                .collect(),
            false => self.gateways,
        };
        let plan = plan_for(&names)?;
        let workplace = Workplace::new()?;
        let mut driver = ProcessDriver::new(&plan, packs.clone(), &workplace.0)?;
        let mut upstream = driver.start_upstream().map_err(|failure| told(&failure))?;
        let mut exit = Exit::Success;
        for gateway in &plan.gateways {
            let outcome = look(&mut driver, gateway, upstream.as_ref(), &packs);
            match outcome {
                Ok(true) => {}
                Ok(false) => exit = Exit::Failed,
                Err(error) => {
                    println!("{}: {error:#}", gateway.label);
                    exit = Exit::Failed;
                }
            }
        }
        upstream.stop();
        Ok(exit)
    }
}

/// Whether a gateway does what its pack says; tells what it does.
fn look(
    driver: &mut ProcessDriver,
    gateway: &Gateway,
    upstream: &dyn Service,
    packs: &PackSet,
) -> anyhow::Result<bool> {
    let mut service =
        driver.start_gateway(gateway, upstream.addresses()).map_err(|failure| told(&failure))?;
    let seen = conformance::observe(upstream.addresses()[0], service.addresses()[0], PATIENCE);
    let version = service.facts().version.clone().unwrap_or_default();
    service.stop();
    let seen = seen?;
    let GatewayKind::Pack { pack, .. } = &gateway.kind else { return Ok(true) };
    let listed = &packs.get(pack).context("it was there")?.manifest().differences;
    let differences = seen.iter().filter_map(|seen| Some((seen.case, seen.difference.as_ref()?)));
    let differences: Vec<_> = differences.collect();
    println!(
        "{} {version}: {} cases, {} as direct",
        gateway.label,
        seen.len(),
        seen.len() - differences.len()
    );
    for (case, what) in differences {
        let known = listed.iter().find(|known| known.case == case && known.what == *what);
        let reason = known.map_or_else(String::new, |known| format!(" ({})", known.reason));
        println!("  {case}: {what}{reason}");
    }
    let wrong = conformance::mismatches(&seen, listed);
    for mismatch in &wrong {
        println!("  otherwise than listed: {mismatch}");
    }
    Ok(wrong.is_empty())
}

fn told(failure: &hoptax_record::Failure) -> anyhow::Error {
    anyhow::anyhow!("{}\n{}", failure.message, failure.detail)
}

/// A plan of these gateways; its load is never run.
fn plan_for(names: &[String]) -> anyhow::Result<Plan> {
    debug_assert_eq!(CASES.len(), 22, "the help says how many");
    let mut plan = plan::parse(
        "conform",
        "gateways: []\nload: [{ loop: closed, connections: 10, duration: 1s }]\n",
        &[],
        &plan::Context { cpus: 1, known: Vec::new(), directory: PathBuf::new() },
    )
    .map_err(|errors| anyhow::anyhow!("{errors}"))?;
    plan.gateways = names
        .iter()
        .map(|name| Gateway {
            label: name.clone(),
            kind: GatewayKind::Pack {
                pack: name.clone(),
                workers: 1,
                features: Vec::new(),
                instances: None,
                driver: PackDriver::Process,
            },
        })
        .collect();
    Ok(plan)
}

//! `hoptax conform`.

use super::exit::{BadInput, Exit};
use super::help;
use anyhow::Context as _;
use hoptax_lab::conformance::{self, CASES};
use hoptax_lab::packs::{Pack, PackSet, binary};
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Driver as _, Service};
use hoptax_plan::{self as plan, Gateway, GatewayKind, PackDriver, Plan};
use std::path::PathBuf;
use std::time::Duration;

/// Time limit for each response. It is long enough for any gateway, because the gateway has no other load.
const PATIENCE: Duration = Duration::from_secs(30);

/// Check that gateways forward bodies, headers, statuses and chunks unchanged, compared with direct
///
/// Sends each gateway 22 requests. Every difference from direct must be listed in the pack under
/// `differences`, and every listed difference must occur. Otherwise the exit status is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Packs to check [default: all that are installed]
    #[arg(value_name = "GATEWAY")]
    gateways: Vec<String>,
    #[arg(long, value_name = "DIR", help = help::PACKS)]
    packs: Option<PathBuf>,
}

/// Temporary directory for rendered files and logs.
struct WorkDir(PathBuf);

impl WorkDir {
    fn new() -> anyhow::Result<Self> {
        let name = format!("hoptax-conform-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| {
            format!("cannot create {}; set TMPDIR to a directory that is writable", path.display())
        })?;
        Ok(Self(path))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        if let Some(unknown) = self.gateways.iter().find(|name| packs.get(name).is_none()) {
            let known = packs.names().join(", ");
            return Err(BadInput(format!("there is no pack `{unknown}`; the packs are {known}")).into());
        }
        let names: Vec<String> = match self.gateways.is_empty() {
            true => packs
                .iter()
                .filter(|pack| binary::find(pack).is_some())
                .map(|pack| pack.name().to_owned())
                .collect(),
            false => self.gateways,
        };
        let plan = plan_for(&names, &packs)?;
        let work_dir = WorkDir::new()?;
        let mut driver = ProcessDriver::new(&plan, packs.clone(), &work_dir.0)?;
        let mut upstream = driver.start_upstream().map_err(|failure| as_error(&failure))?;
        let mut exit = Exit::Success;
        for gateway in &plan.gateways {
            let outcome = check(&mut driver, gateway, upstream.as_ref(), &packs);
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

/// Checks one gateway and prints the result. Returns true if the gateway behaves as its pack says.
fn check(
    driver: &mut ProcessDriver,
    gateway: &Gateway,
    upstream: &dyn Service,
    packs: &PackSet,
) -> anyhow::Result<bool> {
    let mut service =
        driver.start_gateway(gateway, &upstream.endpoints()).map_err(|failure| as_error(&failure))?;
    let facts = service.facts();
    let (direct, via) = (upstream.addresses()[0], service.addresses()[0]);
    let seen = conformance::observe(direct, via, &facts.change, PATIENCE);
    let version = facts.version.clone().unwrap_or_default();
    service.stop();
    let seen = seen?;
    let GatewayKind::Pack { pack, .. } = &gateway.kind else { return Ok(true) };
    let listed = &packs.get(pack).context("the pack is no longer there")?.manifest().differences;
    let differences = seen.iter().filter_map(|seen| Some((seen.case, seen.difference.as_ref()?)));
    let differences: Vec<_> = differences.collect();
    println!(
        "{} {version}: {} cases, {} same as direct",
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
        println!("  not as listed in the pack: {mismatch}");
    }
    Ok(wrong.is_empty())
}

fn as_error(failure: &hoptax_record::Failure) -> anyhow::Error {
    anyhow::anyhow!("{}\n{}", failure.message, failure.detail)
}

/// Builds a plan with these gateways. The plan must contain a load, but this load is never sent.
fn plan_for(names: &[String], packs: &PackSet) -> anyhow::Result<Plan> {
    debug_assert_eq!(CASES.len(), 22, "the help of this verb states the number of requests");
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
                features: packs.get(name).map(Pack::required_features).unwrap_or_default(),
                instances: None,
                driver: PackDriver::Process,
            },
        })
        .collect();
    Ok(plan)
}

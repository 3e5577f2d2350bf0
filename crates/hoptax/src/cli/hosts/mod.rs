//! `hoptax hosts`.

mod bandwidth;

use super::doctor::draw;
use super::exit::Exit;
use super::help;
use super::paint::{Ink, Paint};
use super::plan_source::PlanSource;
use super::run::catch_signals;
use super::run::found::{connect, home};
use hoptax_analysis::LegFigures;
use hoptax_record::{Fitness, FitnessStatus, Leg, Role};
use hoptax_remote::machines::{self, Setup};
use hoptax_remote::protocol::{Inspection, Offset, Program};
use hoptax_remote::runner::HostDescription;
use hoptax_report::document;
use hoptax_run::Contents;
use hoptax_stats::Estimate;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Show the hosts of a plan: machine, clock, fitness, network
///
/// Like a run, copies hoptax to hosts, creates machines and pods, and removes them. Measures the network, and
/// no gateway.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Exit status: 0 all hosts are reached and have the plan's gateways; 1 a host cannot be \
    reached, lacks a gateway, or a check is bad; 2 wrong plan or command line."
)]
pub(super) struct Args {
    #[command(flatten)]
    source: Option<PlanSource>,
    #[arg(long, value_name = "DIR", default_value = "results", help = help::OUT)]
    out: PathBuf,
    #[arg(long, help = help::JSON)]
    json: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Down(Down),
    Bandwidth(bandwidth::Args),
}

/// Remove the machines and pods that hoptax created for a plan and that a run has left
///
/// These are machines of Terraform with `destroy: never`, and what remains after `kill -9` or an error. Never
/// removes what somebody else has created, or what a run in progress uses.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 nothing remains; 1 something cannot be removed, or a run in progress uses \
    it; 2 the plan or the command line is wrong."
)]
struct Down {
    #[command(flatten)]
    source: PlanSource,
}

/// Version of the JSON document.
const SCHEMA: u32 = 1;

/// A host, with its gateways and limits.
struct Found {
    host: HostDescription,
    /// The programs of the plan's gateways, if the host runs them.
    gateways: Vec<Program>,
    limits: Inspection,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match (self.verb, self.source) {
            (Some(Verb::Down(down)), _) => down.run(),
            (Some(Verb::Bandwidth(args)), _) => args.run(),
            (None, source) => describe(&source.expect("clap requires a plan"), &self.out, self.json),
        }
    }
}

impl Down {
    fn run(self) -> anyhow::Result<Exit> {
        let (plan, _) = self.source.load()?;
        let interrupted = AtomicBool::new(false);
        let progress = |line: &str| eprintln!("{line}");
        let setup = Setup { plan: &plan, home: &home()?, interrupted: &interrupted, progress: &progress };
        let gone = machines::down(&setup)?;
        let mut out = io::stdout();
        match gone.is_empty() {
            true => writeln!(out, "nothing remains of runs of this plan")?,
            false => gone.iter().try_for_each(|what| writeln!(out, "removed {what}"))?,
        }
        Ok(Exit::Success)
    }
}

/// Describes the hosts of a plan.
fn describe(source: &PlanSource, results: &Path, is_json: bool) -> anyhow::Result<Exit> {
    let (plan, _) = source.load()?;
    let mut out = io::stdout();
    let interrupted = Arc::default();
    if plan.hosts.iter().any(|host| !host.kind.is_known()) {
        catch_signals(&interrupted)?;
    }
    let connected = connect(&plan, &interrupted)?;
    let Some(hosts) = &connected.hosts else {
        let what = "all roles of the plan are on this machine: `hoptax doctor PLAN` checks it";
        match is_json {
            true => writeln!(out, "{}", json!({ "schema": SCHEMA, "hosts": [], "legs": [] }))?,
            false => writeln!(out, "{what}")?,
        }
        return Ok(Exit::Success);
    };
    let mut inspected = hosts.inspect(&plan, &source.packs()?, true)?;
    let found: Vec<Found> = hosts
        .describe(results)?
        .into_iter()
        .map(|host| {
            let limits = inspected.remove(&host.name).unwrap_or_default();
            let is_gateway = host.roles.contains(&Role::Gateway);
            let gateways = limits.gateways.values().filter(|_| is_gateway).cloned().collect();
            Found { host, gateways, limits }
        })
        .collect();
    let legs = hosts.legs(&plan, Contents::read(&plan)?.messages(&plan));
    let network_figures: Vec<LegFigures> = legs.iter().map(LegFigures::new).collect();
    if is_json {
        let all: Vec<Value> = found.iter().map(of_host).collect();
        let legs: Vec<_> = network_figures.iter().map(document::leg).collect();
        let whole = json!({ "schema": SCHEMA, "hosts": all, "legs": legs });
        writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
    } else {
        let paint = Paint::on(&out);
        let all = found.iter().map(|one| text(one, paint)).chain([network(&network_figures, paint)]);
        write!(out, "{}", all.collect::<Vec<_>>().join("\n"))?;
    }
    let is_reached = |leg: &LegFigures| leg.failed().is_none();
    let is_good = found.iter().all(Found::is_good) && network_figures.iter().all(is_reached);
    connected.end()?;
    Ok(if is_good { Exit::Success } else { Exit::Failed })
}

impl Found {
    fn is_good(&self) -> bool {
        let bad = |item: &&Fitness| item.status == FitnessStatus::Bad;
        self.gateways.iter().all(|one| one.how_to_install.is_empty())
            && self.host.look.iter().flat_map(|look| &look.items).find(bad).is_none()
    }
}

/// The host in text: one line for each subject.
fn text(found: &Found, paint: Paint) -> String {
    let Found { host, gateways, limits } = found;
    let at = host.address.map_or_else(String::new, |address| format!(", {address}"));
    let mut lines =
        vec![paint.ink(Ink::Strong, format!("{}: {}{at}", host.name, Role::names(&host.roles, ", ")))];
    let mut line = |subject: &str, what: String| lines.push(format!("  {subject:<10} {what}"));
    line("reached by", host.command.clone().unwrap_or_else(|| "this process".to_owned()));
    let machine = &host.environment;
    let memory = format!("{:.1} GiB", machine.memory_bytes as f64 / f64::from(1 << 30));
    line(
        "machine",
        format!("{}, {}, {} × {}, {memory}", machine.host, machine.kernel, machine.cpus, machine.cpu),
    );
    line("clock", host.clock.map_or_else(|| "the clock of this process".to_owned(), clock));
    let ports = limits.limits.ports.map_or_else(|| "unknown".to_owned(), |ports| ports.to_string());
    line("limits", format!("{} open files, {ports} local ports", limits.limits.descriptors));
    for gateway in gateways {
        line("gateway", program(gateway));
    }
    let items = host.look.iter().flat_map(|look| &look.items);
    let remarks: Vec<&Fitness> =
        items.filter(|item| matches!(item.status, FitnessStatus::Bad | FitnessStatus::Warning)).collect();
    match (&host.look, remarks.is_empty()) {
        (None, _) => line("fitness", "unknown: the host did not answer".to_owned()),
        (_, true) => line("fitness", "good".to_owned()),
        _ => {}
    }
    let names = remarks.iter().map(|item| item.name.len()).max().unwrap_or(0);
    let remarks: String = remarks.into_iter().map(|item| draw::one(item, names, paint)).collect();
    lines.join("\n") + "\n" + &remarks
}

/// The network between the hosts: one line for each leg.
fn network(legs: &[LegFigures], paint: Paint) -> String {
    let heading =
        "network: median round trip with its interval; bandwidth of one measurement, without an interval";
    let mut lines = vec![paint.ink(Ink::Strong, heading)];
    for one in legs {
        let Leg { from, to, .. } = &one.leg;
        let what = match (one.failed(), &one.round_trip_us) {
            (Some(failed), _) => failed.to_owned(),
            (None, None) => "not measured".to_owned(),
            (None, Some(round_trip)) => {
                let rate = |bytes: Option<f64>| {
                    bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{:.0} MB/s", bytes / 1e6))
                };
                let (there, back) = (rate(one.there), rate(one.back));
                format!("round trip {}, {there} there, {back} back", interval(round_trip))
            }
        };
        let leg = if one.is_between_hosts() { format!("{from} → {to}") } else { format!("within {from}") };
        lines.push(format!("  {leg:<20} {what}"));
    }
    lines.join("\n") + "\n"
}

/// A time with its 95 % interval.
fn interval(time: &Estimate) -> String {
    let estimate = time.estimate;
    match (time.low, time.high) {
        (Some(low), Some(high)) => format!("{estimate:.1} µs ({low:.1}–{high:.1})"),
        _ => format!("{estimate:.1} µs (no interval)"),
    }
}

fn clock(offset: Offset) -> String {
    if offset == Offset::default() {
        return "the same as here".to_owned();
    }
    let uncertainty = offset.uncertainty_ns as f64 / 1e6;
    format!("known to ± {uncertainty:.3} ms")
}

fn program(gateway: &Program) -> String {
    if !gateway.how_to_install.is_empty() {
        return format!("{} is not installed: {}", gateway.name, gateway.how_to_install.join("; "));
    }
    let version = gateway.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
    let path = gateway.path.as_ref().map_or_else(String::new, |path| format!(" ({})", path.display()));
    format!("{}{version}{path}", gateway.name)
}

fn of_host(found: &Found) -> Value {
    let Found { host, gateways, limits } = found;
    json!({
        "name": host.name,
        "roles": host.roles,
        "address": host.address,
        "command": host.command,
        "environment": host.environment,
        "clock": host.clock.map(|offset| json!({
            "offset_ns": offset.ns,
            "uncertainty_ns": offset.uncertainty_ns,
        })),
        "limits": limits.limits,
        "gateways": gateways,
        "fitness": host.look,
    })
}

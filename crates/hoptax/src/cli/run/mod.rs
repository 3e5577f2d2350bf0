//! `hoptax run`: measures a plan and prints a report.

pub(super) mod found;
mod others;
pub(super) mod quiet;
mod screen;
mod serve;
mod watch;
mod words;
pub(super) mod world;

use super::exit::{BadInput, Exit, OnInconclusive};
use super::plan_source::{Only, PlanSource, doubts, fits_into};
use super::report::{for_terminal, is_coloured};
use super::{help, terminal};
use anyhow::Context;
use found::{Connected, Found, connect};
use hoptax_format::random;
use hoptax_lab::builds;
use hoptax_lab::packs::PackSet;
use hoptax_plan::{GatewayKind, Plan};
use hoptax_record::dir::{Run as ReadRun, RunDir};
use hoptax_record::start::StartRecord;
use hoptax_record::{DIRECT, Failure, TrialRecord};
use hoptax_remote::runner::{Hosts, Setup};
use hoptax_report::{self as report, Model};
use hoptax_run::{Contents, Outcome, Run};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use world::{World, this_program};

/// Measure gateways and report what each costs compared with direct
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 measured, and all budgets hold; 1 could not run; 2 wrong plan or command \
    line; 3 a budget is exceeded; 4 a `void` finding; 5 a budget is inconclusive."
)]
pub(super) struct Args {
    #[command(flatten)]
    source: PlanSource,
    #[command(flatten)]
    only: Only,
    #[arg(long, value_name = "DIR", default_value = "results", help = help::OUT)]
    out: PathBuf,
    /// Leave out gateways that are not installed; without this, a missing gateway is an error
    #[arg(long)]
    skip_missing: bool,
    #[arg(long, help = help::ACCEPT_VOID)]
    accept_void: bool,
    #[arg(long, value_enum, value_name = "OUTCOME", default_value = "fail", help = help::INCONCLUSIVE)]
    inconclusive: OnInconclusive,
    #[arg(long, help = help::NO_LIVE)]
    no_live: bool,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

/// A plan that can run now.
struct Prepared<'a> {
    plan: &'a Plan,
    plan_text: String,
    seed: u64,
    packs: &'a PackSet,
    connected: &'a Connected,
    /// Set by a signal during the preparation.
    early: &'a AtomicBool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        self.run_with(|_| Ok(()))
    }

    /// Also chooses these gateways, as `--only` does.
    pub(super) fn choose(&mut self, labels: Vec<String>) {
        self.only.add(labels);
    }

    /// Runs the plan after a change. Fails if the change fails or the run cannot be made.
    pub(super) fn run_with(
        self,
        change: impl FnOnce(&mut Plan) -> Result<(), BadInput>,
    ) -> anyhow::Result<Exit> {
        let (mut plan, plan_text) = self.source.load()?;
        self.only.apply(&mut plan)?;
        change(&mut plan)?;
        let packs = PackSet::load(self.source.packs.as_deref())?;
        // Draw a missing seed here, before the upstream is started. Then the recorded seed also determines
        // the delays and failures of the upstream.
        let seed = *plan.seed.get_or_insert_with(|| random::from_system() >> 32);
        let early = Arc::new(AtomicBool::new(false));
        if has_long_preparation(&plan) {
            catch_signals(&early)?;
        }
        let connected = connect(&plan, &early)?;
        if !self.prepare(&mut plan, &packs, connected.hosts.as_ref(), &early)? {
            eprintln!("interrupted; nothing was measured");
            return Ok(Exit::Failed);
        }
        let prepared =
            Prepared { plan: &plan, plan_text, seed, packs: &packs, connected: &connected, early: &early };
        let exit = self.measure(prepared)?;
        // Removing machines may take minutes, or fail. So the report comes first.
        connected.end()?;
        Ok(exit)
    }

    /// Builds the commits of the plan, and checks that the machines have what the plan needs. Prints notes
    /// and warnings. Returns false if a signal arrived.
    fn prepare(
        &self,
        plan: &mut Plan,
        packs: &PackSet,
        hosts: Option<&Hosts>,
        early: &Arc<AtomicBool>,
    ) -> anyhow::Result<bool> {
        let found = Found::look(hosts, plan, packs)?;
        for note in plan.replace_missing(|gateway| found.gateways.is_missing(&gateway.label)) {
            eprintln!("note: {note}");
        }
        for warning in fits_into(plan, packs, found.limits.clone())?.into_iter().chain(doubts(plan)) {
            eprintln!("warning: {warning}");
        }
        for pack in never_run(plan, packs) {
            eprintln!(
                "note: nobody has run the pack {pack} with the real gateway: its gateway.yaml has no \
                `last_run_for_real`"
            );
        }
        let unbuilt = build_commits(plan, early)?;
        if early.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if !self.skip_missing {
            all_built(&unbuilt)?;
            found.all_installed(plan)?;
        }
        found.can_profile(plan)?;
        for warning in others::warnings(Path::new("/proc"), std::process::id()) {
            eprintln!("warning: {warning}");
        }
        Ok(true)
    }

    /// Measures the plan in a new run directory, and reports.
    fn measure(&self, prepared: Prepared<'_>) -> anyhow::Result<Exit> {
        let service = self.serve.read()?;
        let dir = RunDir::create(&self.out, &prepared.plan.name)?;
        let viewers =
            watch::Viewers { screen: !self.no_live && terminal::can_show(), served: service.is_some() };
        let interrupted = if viewers.screen {
            terminal::watch_during_view(&SIGNALS)?
        } else {
            watch_signals().context("cannot install signal handlers")?
        };
        // A signal may have arrived during the preparation.
        interrupted.fetch_or(prepared.early.load(Ordering::Relaxed), Ordering::Relaxed);
        let setup = Setup {
            plan: &prepared.connected.located(prepared.plan),
            packs: prepared.packs,
            exe: &this_program().inspect_err(|_| dir.abandon())?,
            run_directory: dir.path(),
            interrupted: Arc::clone(&interrupted),
            live: viewers.need_seconds(),
        };
        let world = World::new(prepared.connected.hosts.as_ref(), setup);
        let world = world.inspect_err(|_| dir.abandon())?;
        self.measure_in(world, dir, prepared, &interrupted, viewers, service)
    }

    /// Runs the plan in its world, with its viewers, and reports.
    fn measure_in(
        &self,
        mut world: World,
        mut dir: RunDir,
        prepared: Prepared<'_>,
        interrupted: &AtomicBool,
        viewers: watch::Viewers,
        service: Option<serve::Service>,
    ) -> anyhow::Result<Exit> {
        let Prepared { plan, plan_text, seed, connected, .. } = prepared;
        let hosts = connected.hosts.as_ref();
        let run = Run {
            plan,
            plan_text,
            command: std::env::args().collect(),
            contents: Contents::read(plan)?,
            seed,
            cpus: world.cpus.clone(),
            environment: world.environment.clone(),
            hosts: world.hosts.clone(),
            shares: world.shares(plan, &self.out),
            look: &|moment| world::look(hosts, moment, &self.out),
            look_at_others: &|moment| world::look_at_others(hosts, moment, &self.out),
            interrupted,
        };
        let name = dir.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The program's own threads stay off the generator's CPUs.
        let own_cpus = std::mem::take(&mut world.busy);
        let mut watch = watch::Watch::new(&name, plan, viewers);
        let serve = |service: serve::Service| service.start(&self.out, watch.board(), &own_cpus);
        // Keep the server in a variable, because it must live until the report is written.
        let _server = service.map(serve).transpose().inspect_err(|_| dir.abandon())?;
        watch.show(&own_cpus).context("cannot start the live view; leave it out with --no-live")?;
        let outcome = run.run(&mut dir, &mut *world.driver, &mut *world.traffic, &mut watch);
        watch.finish();
        for failure in hosts.iter().flat_map(|hosts| hosts.collect_files(dir.path())) {
            eprintln!("warning: {}", failure.message);
        }
        let path = dir.path().display();
        let outcome = outcome.with_context(|| {
            format!("the run ended early; to see what was measured: hoptax report {path}")
        })?;
        self.report(&dir, &outcome)
    }

    /// Analyses the run directory, writes the report files into it, and prints the terminal report.
    fn report(&self, dir: &RunDir, outcome: &Outcome) -> anyhow::Result<Exit> {
        let run = ReadRun::read(dir.path())?;
        if run.trials.is_empty() && run.starts.is_empty() {
            let path = dir.path().display();
            eprintln!("error: nothing was measured; see the logs and rendered configurations in {path}");
            return Ok(Exit::Failed);
        }
        let model = Model::of(&run);
        let text = for_terminal(&model, is_coloured());
        // Print the report first, because printing needs no disk space. Check errors of printing later, so
        // that the files are written even if the pipe is closed.
        let printed = writeln!(std::io::stdout(), "{text}");
        let html = report::html(&model).context("cannot draw the HTML report")?;
        dir.write_file("report.html", html.as_bytes())?;
        dir.write_file("report.md", report::markdown(&model).as_bytes())?;
        for file in report::profile_files(&model.whole_profiles).into_iter().chain(report::tail_files(&model))
        {
            dir.write_file(&file.name, &file.content)?;
        }
        let also_printed =
            writeln!(std::io::stdout(), "Report: {}", dir.path().join("report.html").display());
        match printed.and(also_printed) {
            // If the reader of our output closes the pipe before the end of the report, the result of the run
            // does not change.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            other => other.context("cannot print the report; read report.html in the run directory")?,
        }
        if outcome.measured == 0 || outcome.ended.failed.is_some() {
            return Ok(Exit::Failed);
        }
        if no_gateway_measured(&run) {
            eprintln!("error: no gateway could be measured, only direct; the failures above say why");
            return Ok(Exit::Failed);
        }
        Ok(Exit::of(report::Verdict::of(&model, self.accept_void), self.inconclusive))
    }
}

/// True if the run has gateways and was not interrupted, but no trial and no start of any gateway succeeded.
fn no_gateway_measured(run: &ReadRun) -> bool {
    let interrupted = run.record.ended.as_ref().is_none_or(|ended| ended.interrupted);
    let measured = |trial: &TrialRecord| trial.contender != DIRECT && trial.failed.is_none();
    let started = |start: &StartRecord| start.contender != DIRECT && start.failed.is_none();
    let is_any = run.trials.iter().any(measured) || run.starts.iter().any(started);
    !interrupted && run.record.contenders.len() > 1 && !is_any
}

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Returns a flag that the first signal sets. The run then ends early and prints a report. The second signal
/// ends the process.
pub(super) fn watch_signals() -> std::io::Result<Arc<AtomicBool>> {
    hoptax_host::threads::interrupt_flag(&SIGNALS)
}

/// Whether hoptax builds commits or creates machines before the run. If so, a signal must stop and undo this
/// work.
fn has_long_preparation(plan: &Plan) -> bool {
    !builds::refs_of(plan).is_empty() || plan.hosts.iter().any(|host| !host.kind.is_known())
}

/// Makes signals set this flag instead of ending the process.
pub(super) fn catch_signals(flag: &Arc<AtomicBool>) -> anyhow::Result<()> {
    for signal in SIGNALS {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot install signal handlers")?;
    }
    Ok(())
}

/// Names of the plan's packs that were written from documentation and never run.
fn never_run<'a>(plan: &'a Plan, packs: &PackSet) -> BTreeSet<&'a str> {
    let packs_of_plan = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::Pack { pack, .. } => Some(pack.as_str()),
        _ => None,
    });
    packs_of_plan
        .filter(|name| packs.get(name).is_some_and(|pack| pack.manifest().last_run_for_real.is_none()))
        .collect()
}

/// Builds the commits that the plan names. A signal sets `interrupted`, and ends the build. Returns the
/// labels of the gateways that do not build, with the reasons.
pub(super) fn build_commits(
    plan: &mut Plan,
    interrupted: &Arc<AtomicBool>,
) -> anyhow::Result<Vec<(String, Failure)>> {
    let mut report = |what: &str| eprintln!("{what}");
    Ok(builds::prepare(plan, &mut report, interrupted).map_err(BadInput)?)
}

fn all_built(unbuilt: &[(String, Failure)]) -> anyhow::Result<()> {
    let one = |(label, failure): &(String, Failure)| {
        format!("  {label}: {}\n{}", failure.message, failure.detail.trim_end())
    };
    let reasons: Vec<String> = unbuilt.iter().map(one).collect();
    anyhow::ensure!(
        unbuilt.is_empty(),
        "these gateways do not build:\n{}\nhelp: correct `build` in the plan, or leave them out with \
        --skip-missing",
        reasons.join("\n")
    );
    Ok(())
}

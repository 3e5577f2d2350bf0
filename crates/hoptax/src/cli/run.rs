//! `hoptax run`: measures a plan and prints a report.

mod screen;
mod serve;
mod watch;
mod words;

use super::exit::{BadInput, Exit};
use super::help;
use super::plan_source::{Only, PlanSource, fits, replace_missing, unknown_port};
use super::report::{for_terminal, is_coloured};
use super::terminal;
use crate::run::{Contents, LocalTraffic, Outcome, Run};
use anyhow::Context;
use hoptax_host::idle::Polling;
use hoptax_host::probe;
use hoptax_host::profile::Profiler;
use hoptax_lab::builds;
use hoptax_lab::packs::{PackSet, binary};
use hoptax_lab::process::ProcessDriver;
use hoptax_load::clock;
use hoptax_load::random::Random;
use hoptax_plan::recorded::{self, Run as ReadRun};
use hoptax_plan::{GatewayKind, Idle, Plan};
use hoptax_record::dir::RunDir;
use hoptax_record::start::StartRecord;
use hoptax_record::{DIRECT, Failure, TrialRecord};
use hoptax_report::{self as report, Model};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure the gateways of a plan and report what each one costs compared with direct
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 measured, and all budgets hold; 1 could not run; 2 the plan or the command line is \
    wrong; 3 a budget is exceeded; 4 measured, but a `void` finding says that the result cannot be trusted."
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
    #[arg(long, help = help::NO_LIVE)]
    no_live: bool,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        self.run_with(|_| Ok(()))
    }

    /// Also chooses these gateways, as `--only` does.
    pub(super) fn choose(&mut self, labels: Vec<String>) {
        self.only.add(labels);
    }

    /// Runs the plan after a change.
    ///
    /// # Errors
    /// If the change fails or the run cannot be made.
    pub(super) fn run_with(
        self,
        change: impl FnOnce(&mut Plan) -> Result<(), BadInput>,
    ) -> anyhow::Result<Exit> {
        let (mut plan, plan_text) = self.source.load()?;
        self.only.apply(&mut plan)?;
        change(&mut plan)?;
        let packs = PackSet::load(self.source.packs.as_deref())?;
        // Draw a missing seed here, before the upstream is started. Then the recorded seed also determines the delays
        // and failures of the upstream.
        let seed = *plan.seed.get_or_insert_with(|| Random::new(clock::unix()).next_u64() >> 32);
        for note in replace_missing(&mut plan, &packs) {
            eprintln!("note: {note}");
        }
        for warning in fits(&mut plan, &packs)?.into_iter().chain(unknown_port(&plan)) {
            eprintln!("warning: {warning}");
        }
        for pack in never_run(&plan, &packs) {
            eprintln!(
                "note: nobody has run the pack {pack} with the real gateway: its gateway.yaml has no `last_run_for_real`"
            );
        }
        let building = Arc::new(AtomicBool::new(false));
        let unbuilt = build_commits(&mut plan, &building)?;
        if building.load(Ordering::Relaxed) {
            eprintln!("interrupted; nothing was measured");
            return Ok(Exit::Failed);
        }
        if !self.skip_missing {
            all_built(&unbuilt)?;
            all_installed(&plan, &packs)?;
        }
        if plan.cpu_profile.is_some() {
            can_profile()?;
        }
        let service = self.serve.read()?;
        let polling = polling(&plan)?;
        let mut dir = RunDir::create(&self.out, &plan.name)?;
        let viewers =
            watch::Viewers { screen: !self.no_live && terminal::can_show(), served: service.is_some() };
        let interrupted = if viewers.screen {
            terminal::watch_during_view(&SIGNALS)?
        } else {
            watch_signals().context("cannot install signal handlers")?
        };
        // A signal since the builds.
        interrupted.fetch_or(building.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut driver = ProcessDriver::new(&plan, packs, dir.path())?
            .with_interrupt(Arc::clone(&interrupted))
            .with_idle(&plan, if polling.is_some() { Idle::Poll } else { Idle::Sleep });
        let look = |moment| Some(probe::fitness::at(moment, &self.out));
        let run = Run {
            plan: &plan,
            plan_text,
            command: std::env::args().collect(),
            contents: Contents::read(&plan)?,
            seed,
            cpus: driver.cpus().clone(),
            environment: probe::environment(if polling.is_some() { Idle::Poll } else { Idle::Sleep }),
            hosts: BTreeMap::new(),
            look: &look,
            look_at_others: &|_| BTreeMap::new(),
            interrupted: &interrupted,
        };
        let traffic = LocalTraffic::new()
            .context("cannot find the running hoptax program; was its file moved or removed?")?;
        let mut traffic = traffic.watched(viewers.need_seconds());
        let name = dir.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The program's own threads stay off the generator's CPUs, unless only the gateway's CPUs would be left.
        let own_cpus =
            if run.cpus.generator == run.cpus.upstream { Vec::new() } else { run.cpus.generator.clone() };
        let mut watch = watch::Watch::new(&name, &plan, viewers);
        // Keep the server in a variable, because it must live until the report is written.
        let serve = |service: serve::Service| service.start(&self.out, watch.board(), &own_cpus);
        let served = service.map(serve).transpose();
        if served.is_err() {
            dir.abandon();
        }
        let _server = served?;
        watch.show(&own_cpus).context("cannot start the live view; leave it out with --no-live")?;
        let outcome = run.run(&mut dir, &mut driver, &mut traffic, &mut watch);
        watch.finish();
        let path = dir.path().display();
        let outcome = outcome.with_context(|| {
            format!("the run ended early; to see what was measured: hoptax report {path}")
        })?;
        self.report(&dir, &outcome)
    }

    /// Analyses the run directory, writes the report files into it, and prints the terminal report.
    fn report(&self, dir: &RunDir, outcome: &Outcome) -> anyhow::Result<Exit> {
        let run = recorded::read(dir.path())?;
        if run.trials.is_empty() && run.starts.is_empty() {
            let path = dir.path().display();
            eprintln!("error: nothing was measured; see the logs and rendered configurations in {path}");
            return Ok(Exit::Failed);
        }
        let model = Model::of(&run);
        let text = for_terminal(&model, is_coloured());
        // Print the report first, because printing needs no disk space. Check errors of printing later, so that the
        // files are written even if the pipe is closed.
        let printed = writeln!(std::io::stdout(), "{text}");
        let html = report::html(&model).context("cannot draw the HTML report")?;
        dir.write_file("report.html", html.as_bytes())?;
        dir.write_file("report.md", report::markdown(&model).as_bytes())?;
        for file in report::profile_files(&model.profiles) {
            dir.write_file(&file.name, &file.content)?;
        }
        let also_printed =
            writeln!(std::io::stdout(), "Report: {}", dir.path().join("report.html").display());
        match printed.and(also_printed) {
            // If the reader of our output closes the pipe before the end of the report, the result of the run does not
            // change.
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
        Ok(report::Verdict::of(&model, self.accept_void).into())
    }
}

/// Checks before the run that stacks can be recorded after it.
fn can_profile() -> anyhow::Result<()> {
    let profiler = Profiler::find()?;
    if !profiler.sees_kernel() {
        eprintln!(
            "note: profiles will lack the kernel's functions and the reasons for waiting, because \
             kernel.perf_event_paranoid is above 1; run as root to see them"
        );
    }
    Ok(())
}

/// Makes idle CPUs poll until the returned value is dropped, if the plan wants it and this user may do it. Without a
/// wish in the plan, a failure is not an error: the run then measures with CPUs that sleep, and records so.
pub(super) fn polling(plan: &Plan) -> anyhow::Result<Option<Polling>> {
    match plan.idle {
        Some(Idle::Sleep) => Ok(None),
        None => Ok(Polling::begin().ok()),
        Some(Idle::Poll) => Polling::begin()
            .map(Some)
            .context("idle CPUs cannot be made to poll (`idle: poll`); run as root, or write `idle: auto`"),
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

/// Returns a flag that the first signal sets. The run then ends early and prints a report. The second signal ends the
/// process.
pub(super) fn watch_signals() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // The order of these two handlers matters. At the first signal, the shutdown handler runs before the flag is
        // set, so the shutdown handler does nothing.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
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

/// Builds the commits that the plan names. A signal sets `interrupted`, and ends the build. Returns the labels of the
/// gateways that do not build, with the reasons.
fn build_commits(plan: &mut Plan, interrupted: &Arc<AtomicBool>) -> anyhow::Result<Vec<(String, Failure)>> {
    if !builds::refs_of(plan).is_empty() {
        for signal in SIGNALS {
            signal_hook::flag::register(signal, Arc::clone(interrupted))
                .context("cannot install signal handlers")?;
        }
    }
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
        "these gateways do not build:\n{}\nhelp: correct `build` in the plan, or leave them out with --skip-missing",
        reasons.join("\n")
    );
    Ok(())
}

fn all_installed(plan: &Plan, packs: &PackSet) -> anyhow::Result<()> {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for gateway in &plan.gateways {
        let GatewayKind::Pack { pack, driver, .. } = &gateway.kind else { continue };
        let Some(pack) = packs.get(pack) else { continue };
        let how = binary::missing(pack, driver);
        if !how.is_empty() {
            missing.insert(binary::name_of(pack, driver), how.join("\n    "));
        }
    }
    let missing: Vec<String> = missing.iter().map(|(name, how)| format!("  {name}\n    {how}")).collect();
    anyhow::ensure!(
        missing.is_empty(),
        "these gateways are not installed:\n{}\nhelp: install them, or leave them out with --skip-missing. If one is \
         installed in another place, add its directory to PATH. If one runs already, name it as `external`",
        missing.join("\n")
    );
    Ok(())
}

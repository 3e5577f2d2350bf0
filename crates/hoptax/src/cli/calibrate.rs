//! `hoptax calibrate`: measures how much separate runs scatter on this machine.

use super::exit::{BadInput, Exit};
use super::help;
use super::output::print;
use super::plan_source::{PlanSource, fits, replace_missing, template};
use super::run::quiet::measure_quietly;
use super::run::world::shares_of;
use super::run::{build_commits, watch_signals};
use anyhow::Context as _;
use hoptax_analysis::{Learned, RunFigures, learn, leave_one_out};
use hoptax_host::kept_shares;
use hoptax_lab::packs::PackSet;
use hoptax_plan::{Plan, Trials, units};
use hoptax_record::dir::Run as ReadRun;
use hoptax_record::{Environment, Machine, Origin, RunRecord, Shares};
use hoptax_remote::protocol::Inspection;
use hoptax_run::schedule::estimate_of_rounds;
use hoptax_stats::LEAST_RUNS;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Fewer runs than this show nothing, and more take hours.
const RUNS: RangeInclusive<u32> = LEAST_RUNS as u32..=200;
/// Each run has at least this number of rounds. A run of few rounds shows its own chance, not how runs
/// scatter.
const LEAST_ROUNDS: u32 = 8;

/// Measure how much separate runs scatter on this machine
///
/// Runs a plan several times, with new gateways each time. Later runs on this machine use the result, until
/// as many runs of their plan are in the results directory. After Ctrl-C, four or more runs count.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 the result is kept; 1 too few runs count, or could not run; 2 wrong \
    plan or command line.")]
pub(super) struct Args {
    /// Plan with the gateways that you measure [default: hop-l4 and hop-l7, which hoptax contains]
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    #[arg(long = "set", value_name = "KEY=VALUE", help = help::SET)]
    sets: Vec<String>,
    #[arg(long, value_name = "DIR", help = help::PACKS)]
    packs: Option<PathBuf>,
    /// Number of runs, 4 to 200
    #[arg(long, value_name = "N", default_value = "12")]
    runs: u32,
    /// Time for all runs together, in a plan without `trials`
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = units::duration)]
    time: Duration,
    /// Measure nothing: use the runs of one plan in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["plan", "sets", "packs", "runs", "time", "out"])]
    from: Option<PathBuf>,
    /// Directory in which hoptax creates `calibrate-PLAN` for the runs
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
}

/// The runs so far.
#[derive(Default)]
struct Measured {
    figures: Vec<RunFigures>,
    environment: Option<Environment>,
    directory: PathBuf,
    /// Day of the last run, UTC.
    date: String,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let file = kept_shares::file()
            .ok_or_else(|| BadInput("no directory for the result: set HOME or HOPTAX_HOME".into()))?;
        // A wrong file must not end half an hour of measurements.
        kept_shares::read(&file, &Environment::default())?;
        let measured = match &self.from {
            Some(directory) => earlier(directory)?,
            None => self.measure()?,
        };
        self.keep(measured, &file)
    }

    /// Measures the runs.
    fn measure(&self) -> anyhow::Result<Measured> {
        let (mut plan, plan_text, packs) = self.load()?;
        is_possible(&plan, self.runs).map_err(BadInput)?;
        is_enough(&plan, self.runs, self.time).map_err(BadInput)?;
        for note in replace_missing(&mut plan, &packs) {
            eprintln!("note: {note}");
        }
        for warning in fits(&mut plan, &packs)? {
            eprintln!("warning: {warning}");
        }
        let interrupted = watch_signals().context("cannot install signal handlers")?;
        if let Some((label, failure)) = build_commits(&mut plan, &interrupted)?.into_iter().next() {
            anyhow::bail!("`{label}` does not build: {}\n{}", failure.message, failure.detail.trim_end());
        }
        all_installed(&plan, &packs)?;
        self.repeat(plan, &plan_text, &packs, &interrupted)
    }

    /// Keeps the result of the runs, and prints it.
    fn keep(&self, measured: Measured, file: &Path) -> anyhow::Result<Exit> {
        let count = measured.figures.len();
        if count == 0 {
            anyhow::bail!("no complete run in {}; nothing is kept", measured.directory.display());
        }
        let Some((learned, environment)) = learn(&measured.figures).zip(measured.environment) else {
            eprintln!(
                "error: too few of {count} runs count: at least {LEAST_RUNS} must have no `void` finding, \
                 and CPUs at the same distance. Nothing is kept. The runs are in {}",
                measured.directory.display()
            );
            return Ok(Exit::Failed);
        };
        let before = shares_of(&environment);
        let origin = Origin::Calibrated { date: measured.date, runs: learned.counted.len() as u32 };
        let shares = Shares { origin, ..learned.shares.clone() };
        kept_shares::write(file, &environment, &shares)?;
        print(&result(&before, &learned, leave_one_out(&measured.figures), count, file))?;
        Ok(Exit::Success)
    }

    /// The plan with its text, and the packs.
    fn load(&self) -> anyhow::Result<(Plan, String, PackSet)> {
        if let Some(plan) = &self.plan {
            let source =
                PlanSource { plan: plan.clone(), sets: self.sets.clone(), packs: self.packs.clone() };
            let (plan, text) = source.load()?;
            return Ok((plan, text, source.packs()?));
        }
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        let (plan, text) = template(&self.sets, &packs)?;
        Ok((plan, text, packs))
    }

    /// Runs the plan again and again, until all runs are measured or a signal arrives.
    fn repeat(
        &self,
        mut plan: Plan,
        plan_text: &str,
        packs: &PackSet,
        interrupted: &Arc<AtomicBool>,
    ) -> anyhow::Result<Measured> {
        // Profiles and budgets would not change the result. Each run has an order of trials of its own, so
        // that an order that favours one gateway does not repeat.
        (plan.budget, plan.cpu_profile, plan.tail, plan.seed) = (Vec::new(), None, None, None);
        let (begin, mut overhead) = (Instant::now(), Duration::ZERO);
        let shortest = estimate_of_rounds(&plan, LEAST_ROUNDS).saturating_sub(estimate_of_rounds(&plan, 0));
        let directory = self.out.join(format!("calibrate-{}", plan.name));
        let mut measured = Measured { directory, ..Measured::default() };
        for number in 0..self.runs {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            let rounds = rounds(self.time, begin.elapsed(), overhead, self.runs - number).max(shortest);
            if let Trials::Auto(auto) = &mut plan.trials {
                auto.at_most = rounds;
            }
            eprintln!("run {} of {} …", number + 1, self.runs);
            let began = Instant::now();
            let run = measure_quietly(&plan, plan_text, packs, &measured.directory, interrupted);
            if interrupted.load(Ordering::Relaxed) {
                eprintln!("interrupted; the unfinished run does not count");
                break;
            }
            let run = match run {
                Err(error) if measured.figures.len() >= LEAST_RUNS => {
                    eprintln!("warning: {error:#}; the runs before this one count");
                    break;
                }
                run => run?,
            };
            overhead = began.elapsed().saturating_sub(rounds);
            measured.add(run);
        }
        Ok(measured)
    }
}

impl Measured {
    fn add(&mut self, run: ReadRun) {
        let figures = RunFigures::new(&run.record, &run.trials);
        if figures.is_empty() {
            let path = run.path.display();
            eprintln!("warning: no figure of this run counts; see hoptax report {path}");
        }
        self.figures.push(figures);
        let started = UNIX_EPOCH + Duration::from_nanos(run.record.started_unix_ns);
        let started = humantime::format_rfc3339_seconds(started).to_string();
        self.date = started.split('T').next().unwrap_or_default().to_owned();
        self.environment = Some(run.record.environment);
    }
}

/// The complete runs in a directory, oldest first. Fails if a run cannot be read, or the runs are of several
/// plans or machines.
fn earlier(directory: &Path) -> anyhow::Result<Measured> {
    let unreadable = |error| BadInput(format!("--from: cannot read {}: {error}", directory.display()));
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.join("run.json").is_file()).collect();
    paths.sort_unstable();
    let (mut measured, mut first) =
        (Measured { directory: directory.to_owned(), ..Measured::default() }, None::<RunRecord>);
    for path in paths {
        let run = ReadRun::read(&path)?;
        if run.record.ended.as_ref().is_none_or(|ended| ended.interrupted || ended.failed.is_some()) {
            continue;
        }
        let first = first.get_or_insert_with(|| run.record.clone());
        if !is_alike(first, &run.record) {
            let message = format!(
                "--from: {} has another plan or machine than the first run; use a directory with runs of one \
                 plan",
                path.display()
            );
            return Err(BadInput(message).into());
        }
        measured.add(run);
    }
    Ok(measured)
}

/// True if both runs measured the same gateways under the same load on the same machine.
fn is_alike(one: &RunRecord, other: &RunRecord) -> bool {
    let labels = |run: &RunRecord| run.contenders.iter().map(|one| one.label.clone()).collect::<Vec<_>>();
    one.load == other.load
        && labels(one) == labels(other)
        && Machine::of(&one.environment) == Machine::of(&other.environment)
}

/// Fails if a gateway of the plan is not installed.
fn all_installed(plan: &Plan, packs: &PackSet) -> anyhow::Result<()> {
    let found = Inspection::here(plan, packs, false);
    let one = |(name, ways): (&str, &[String])| format!("  {name}\n    {}", ways.join("\n    "));
    let missing: Vec<String> = found.missing(plan).into_iter().map(one).collect();
    anyhow::ensure!(
        missing.is_empty(),
        "these gateways are not installed:\n{}\nhelp: install them, or remove them from the plan",
        missing.join("\n")
    );
    Ok(())
}

/// Time for the rounds of the next run, if `left` runs remain. Everything else in a run takes `overhead`.
fn rounds(time: Duration, elapsed: Duration, overhead: Duration, left: u32) -> Duration {
    (time.saturating_sub(elapsed) / left.max(1)).saturating_sub(overhead)
}

/// Checks that each run has the time for enough rounds. A plan with `trials` says how many it has.
fn is_enough(plan: &Plan, runs: u32, time: Duration) -> Result<(), String> {
    if !matches!(plan.trials, Trials::Auto(_)) {
        return Ok(());
    }
    let needed = estimate_of_rounds(plan, LEAST_ROUNDS).saturating_mul(runs);
    if needed <= time {
        return Ok(());
    }
    let minutes = needed.as_secs().div_ceil(60);
    Err(format!(
        "--time: {runs} runs of this plan, each with {LEAST_ROUNDS} rounds and its warm-ups, need {minutes} \
         minutes; write --time {minutes}m, or fewer --runs"
    ))
}

/// Checks that the plan can show how runs scatter on this machine.
fn is_possible(plan: &Plan, runs: u32) -> Result<(), String> {
    if !RUNS.contains(&runs) {
        return Err(format!("--runs: write a number from {} to {}", RUNS.start(), RUNS.end()));
    }
    if !plan.is_local() {
        return Err(
            "a calibration measures this machine only; remove `roles` and `from` from the plan".into()
        );
    }
    if plan.start.is_some() {
        return Err("a plan with `start` has no rounds; remove `start`, or use another plan".into());
    }
    if plan.gateways.is_empty() {
        return Err("the plan has no gateway; add one, or leave out PLAN".into());
    }
    if plan.load.iter().all(|point| point.search.is_some()) {
        return Err("the plan only searches for the capacity; add a load point with a fixed load".into());
    }
    Ok(())
}

/// What was learned, and where it is kept.
fn result(
    before: &Shares,
    learned: &Learned,
    proof: Option<(usize, usize)>,
    count: usize,
    file: &Path,
) -> String {
    let mut text = String::from("Scatter of separate runs that no round shows (half of a 95 % interval):\n");
    let after = &learned.shares;
    for (name, before, after) in [
        ("times and CPU time", before.times, after.times),
        ("more if it compiles while it runs", before.times_jit, after.times_jit),
        ("throughput in closed loops", before.throughput, after.throughput),
        ("CPU time between two gateways", before.cpu, after.cpu),
    ] {
        let _ = writeln!(text, "  {name:<34} {:>5.1} %   before: {:.1} %", 100.0 * after, 100.0 * before);
    }
    let runs = learned.counted.len();
    let _ = write!(text, "\nFrom {runs} runs");
    if runs < count {
        let _ = write!(text, " of {count}: the others have `void` findings, or CPUs at another distance");
    }
    let file = file.display();
    text.push('.');
    if let Some((held, all)) = proof {
        let _ = write!(
            text,
            "\n{held} of {all} intervals ({:.1} %) contain the mean of all runs. For each run, the other \
             runs gave the shares.",
            100.0 * held as f64 / all as f64
        );
    }
    let _ = writeln!(
        text,
        "\nKept for this machine in {file}. Later runs use it until as many runs of their plan are in the \
         results directory."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_lab::fake::parsed as plan;

    #[test]
    fn runs_share_the_time_that_is_left() {
        let s = Duration::from_secs;
        assert_eq!(rounds(s(1800), s(0), s(0), 12), s(150));
        assert_eq!(rounds(s(1800), s(200), s(30), 10), s(130), "each run also takes 30 s for other things");
        assert_eq!(rounds(s(60), s(100), s(30), 3), s(0));
    }

    #[test]
    fn too_little_time_for_enough_rounds_is_refused() {
        let plan = plan("gateways: [hop-l4, hop-l7]\nload: [{ loop: closed, connections: 1 }]\ntime: 1m");
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert_eq!(is_enough(&plan, 12, minutes(30)), Ok(()));
        let error = is_enough(&plan, 40, minutes(7)).expect_err("ten seconds per run are too few");
        let advice = error.rsplit_once("--time ").and_then(|(_, rest)| rest.split_once('m'));
        let (needed, _) = advice.expect("it says what to write");
        assert_eq!(is_enough(&plan, 40, minutes(needed.parse().expect("minutes"))), Ok(()));
    }

    #[test]
    fn impossible_calibrations_are_refused() {
        let load = "load: [{ loop: closed, connections: 1 }]";
        let good = plan(&format!("gateways: [hop-l7]\n{load}"));
        assert_eq!(is_possible(&good, 12), Ok(()));
        let mut without = good.clone();
        without.gateways.clear();
        let mut starts = good.clone();
        starts.start = Some(hoptax_plan::Start { times: 1, duration: Duration::from_secs(1), reload: false });
        let told = [(&good, 3), (&good, 201), (&without, 12), (&starts, 12)]
            .map(|(plan, runs)| is_possible(plan, runs).expect_err("refused") + "\n")
            .concat();
        insta::assert_snapshot!(told);
    }

    #[test]
    fn the_result_says_what_was_learned_and_where_it_is() {
        let shares = Shares { times: 0.031, ..Shares::BUILT_IN };
        let learned = Learned { shares, counted: (0..9).collect() };
        let file = Path::new("/data/scatter.json");
        let text = result(&Shares::BUILT_IN, &learned, Some((19, 20)), 12, file);
        insta::assert_snapshot!(text);
    }
}

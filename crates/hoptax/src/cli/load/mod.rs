//! `hoptax load`: sends one load to one URL. `hoptax run` starts this verb with `--spec` or `--watched-spec`
//! as its generator.

use super::exit::{BadInput, Exit};
use super::terminal;
use anyhow::Context as _;
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::{LoadSpec, Rate, Shape};
use hoptax_load::Progress;
use hoptax_load::{LoadError, Watch};
use std::io::Write as _;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

mod args;
mod causes;
mod csv;
mod doubts;
pub(super) mod figures;
mod interrupts;
mod json;
mod limits;
mod live;
mod outcome;
mod output;
mod progress;
mod report_progress;
pub(super) mod spectrum;
mod start_order;
mod summary;
mod to_spec;
mod url;
mod values;

pub(super) use args::Args;

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if let Some(file) = self.spec.as_ref().or(self.watched_spec.as_ref()) {
            let (spec, goes_on) = to_spec::read_spec(file)?;
            let start = (goes_on && spec.part.is_some()).then(start_order::listen);
            let interrupt = interrupts::watch()?;
            return generate(&spec, &interrupt, start.as_ref(), self.watched_spec.is_some());
        }
        let mut spec = to_spec::spec(&self)?;
        if let Some(note) = hoptax_format::template::unequal_files(&spec.targets, &spec.files) {
            eprintln!("note: {note}");
        }
        let limits = limits::of(&spec, self.limits.fail_above, &[&self.limits.max, &self.limits.min]);
        limits::check(&limits, &spec).map_err(BadInput)?;
        let files = output::Files::open(&self.output)?;
        // The summary computes the figures of each stage from the windows.
        spec.windows |= matches!(spec.shape, Shape::Open { rate: Rate::Stages(_), .. });
        let url = self.url.as_deref().unwrap_or_default();
        let record = if live::is_wanted(&self.output) {
            spec.windows = true;
            let interrupt = terminal::watch_during_view(&interrupts::SIGNALS)?;
            let view =
                live::start(url, &spec).context("cannot start the live view; leave it out with --no-live")?;
            // The view is dropped at the end of this block, so that it leaves the screen before anything else
            // is printed.
            hoptax_load::run(&spec, &interrupt, Watch::Windows, view.observer())
        } else {
            hoptax_load::run(&spec, &*interrupts::watch()?, Watch::Phases, progress::line(&spec))
        };
        let record = record.map_err(|error| match error {
            // The user typed options instead of a load spec, so the message must not mention a spec.
            LoadError::Spec(wrong) => BadInput(wrong).into(),
            other => as_error(other),
        })?;
        let outcome = outcome::LoadOutcome::new(url, &spec, &record, &limits)?;
        files.write(&outcome)?;
        Ok(verdict(&record, &outcome.limits))
    }
}

/// The exit code. It is [`Exit::Failed`] if no request completed and the user did not interrupt the load, and
/// [`Exit::OverBudget`] if a limit is exceeded.
fn verdict(record: &LoadRecord, limits: &[limits::Judged]) -> Exit {
    let is_answered = record.counts.completed > 0 || record.completed_in_time > 0 || record.interrupted;
    if !is_answered {
        let text = record.counts.errors.iter().max_by_key(|(_, count)| **count);
        let text = text.map_or("no request was due in the measured time", |(text, _)| text.as_str());
        let cause = record.counts.causes.iter().max_by_key(|(_, count)| **count);
        let advice = cause.map_or("", |(cause, _)| doubts::advice_on(*cause));
        eprintln!("error: no request completed: {text}. {advice}");
        return Exit::Failed;
    }
    let mut exit = Exit::Success;
    for limit in limits.iter().filter(|limit| !limit.kept) {
        let hint = if limit.implied { "; set another limit with --fail-above" } else { "" };
        eprintln!("error: limit exceeded: {}{hint}", limit.text);
        exit = Exit::OverBudget;
    }
    exit
}

/// Converts an error of the load engine. An error in the input becomes [`BadInput`].
fn as_error(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Spec(_) | LoadError::Descriptors { .. } | LoadError::Pin { .. } => {
            BadInput(error.to_string()).into()
        }
        other => other.into(),
    }
}

/// Runs as the generator of `hoptax run` (`--spec` and `--watched-spec`). If the parent process dies, the
/// kernel kills this process. For a part of a load, `start` receives the moment at which all parts begin.
fn generate(
    spec: &LoadSpec,
    interrupt: &AtomicBool,
    start: Option<&Receiver<u64>>,
    is_watched: bool,
) -> anyhow::Result<Exit> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("cannot ask the kernel to stop this process when its parent dies")?;
    anyhow::ensure!(rustix::process::getppid() == parent, "the process that started this one has ended");
    let record = if is_watched {
        let seconds = report_progress::seconds(spec)
            .context("cannot start the thread that reports the figures of each second")?;
        let mut observe = seconds.observer();
        load(spec, interrupt, Watch::Windows, start, move |progress| {
            report_progress::phase(&progress);
            observe(progress);
        })
    } else {
        load(spec, interrupt, Watch::Phases, start, |progress| report_progress::phase(&progress))
    };
    let record = record.map_err(as_error)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &record).context("cannot write the load record")?;
    writeln!(out).context("cannot write the load record")?;
    Ok(Exit::Success)
}

fn load(
    spec: &LoadSpec,
    interrupt: &AtomicBool,
    watch: Watch,
    start: Option<&Receiver<u64>>,
    observe: impl FnMut(Progress),
) -> Result<LoadRecord, LoadError> {
    match start {
        Some(start) => hoptax_load::run_part(spec, interrupt, watch, start, observe),
        None => hoptax_load::run(spec, interrupt, watch, observe),
    }
}

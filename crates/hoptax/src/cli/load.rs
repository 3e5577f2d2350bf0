//! `hoptax load`: one load point against one URL, for people (a live view, a summary), for scripts (`--json`, `--csv`), for
//! other tools (`--hgrm`, `--fortio`), and for `hoptax run`, which starts this verb with `--spec` wherever the generator
//! shall run.

use super::exit::{BadInput, Exit};
use super::terminal;
use anyhow::Context as _;
use hoptax_load::record::LoadRecord;
use hoptax_load::spec::{LoadSpec, Rate, Shape};
use hoptax_load::{LoadError, Watch};
use std::io::Write as _;
use std::sync::atomic::AtomicBool;

mod args;
mod causes;
mod csv;
mod doubts;
pub(super) mod figures;
mod interrupts;
mod json;
mod live;
mod made;
mod output;
pub(super) mod paint;
mod progress;
pub(super) mod spectrum;
mod summary;
mod tell;
mod to_spec;
mod url;
mod values;

pub(super) use args::Args;

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if let Some(file) = self.spec.as_ref().or(self.watched_spec.as_ref()) {
            let spec = to_spec::read_spec(file)?;
            let interrupt = interrupts::watch()?;
            return carry_out(&spec, &interrupt, self.watched_spec.is_some());
        }
        let mut spec = to_spec::spec(&self)?;
        let files = output::Files::open(&self.output)?;
        // A summary of stages is made from their windows.
        spec.windows |= matches!(spec.shape, Shape::Open { rate: Rate::Stages(_), .. });
        let url = self.url.as_deref().unwrap_or_default();
        let record = if live::is_wanted(&self.output) {
            spec.windows = true;
            let interrupt = terminal::watch_beside_a_view(&interrupts::SIGNALS)?;
            let view = live::View::start(url, &spec).context("cannot start the live view")?;
            // The view is gone when the record is there: what is written next belongs onto the normal screen.
            hoptax_load::run(&spec, &interrupt, Watch::Windows, view.observer())
        } else {
            hoptax_load::run(&spec, &*interrupts::watch()?, Watch::Phases, progress::line(&spec))
        };
        let record = record.map_err(|error| match error {
            // Who typed flags has written no load spec.
            LoadError::Spec(wrong) => BadInput(wrong).into(),
            other => told(other),
        })?;
        files.write(&made::Made { url, spec: &spec, record: &record })?;
        Ok(verdict(&record))
    }
}

/// A load that nobody answered is a failure, unless it was cut short.
fn verdict(record: &LoadRecord) -> Exit {
    if record.counts.completed > 0 || record.completed_in_time > 0 || record.interrupted {
        return Exit::Success;
    }
    let cause = record.counts.errors.iter().max_by_key(|(_, count)| **count);
    let cause = cause.map_or("no request was due in the measured time", |(text, _)| text.as_str());
    eprintln!("error: no request completed: {cause}");
    Exit::Failed
}

/// An error of the engine: what was asked for wrongly ends with [`Exit::BadInput`].
fn told(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Spec(_) | LoadError::Descriptors { .. } | LoadError::Pin { .. } => {
            BadInput(error.to_string()).into()
        }
        other => other.into(),
    }
}

/// `--spec` and `--watched-spec`: the generator of a run. It does not outlive the process that started it.
fn carry_out(spec: &LoadSpec, interrupt: &AtomicBool, is_watched: bool) -> anyhow::Result<Exit> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("cannot tie this process's life to its parent's")?;
    anyhow::ensure!(rustix::process::getppid() == parent, "the process that started this one is gone");
    let record = if is_watched {
        let teller = tell::Teller::start(spec).context("cannot start the thread that tells seconds")?;
        hoptax_load::run(spec, interrupt, Watch::Windows, teller.observer())
    } else {
        hoptax_load::run(spec, interrupt, Watch::Phases, |progress| tell::phases(&progress))
    };
    let record = record.map_err(told)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &record).context("cannot write the load record")?;
    writeln!(out).context("cannot write the load record")?;
    Ok(Exit::Success)
}

//! `hoptax lint`.

use super::exit::{BadInput, Exit};
use super::help;
use crate::lint::{self, Report};
use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use hoptax_lab::packs::PackSet;
use hoptax_load::random;
use hoptax_record::Failure;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Check that gateway packs use equivalent settings, by starting each gateway and observing it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 all gateways are equalised; 1 a gateway could not be checked; 2 a pack or \
    the command line is wrong; 3 a gateway is not equalised."
)]
pub(super) struct Args {
    /// Packs to check
    #[arg(value_name = "PACK", required = true)]
    names: Vec<String>,
    #[arg(long, help = help::JSON)]
    json: bool,
    #[arg(long, value_name = "DIR", help = help::PACKS)]
    packs: Option<PathBuf>,
    /// Keep rendered configurations and logs in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// The working directory. It is removed at the end, unless the user chose it with `--keep`.
struct WorkDir {
    path: PathBuf,
    keep: bool,
}

impl WorkDir {
    /// # Errors
    /// If the user chose a directory that is not empty, or that cannot be read. Gateways append to logs, so
    /// an old error would look current.
    fn new(keep: Option<&Path>) -> Result<Self, BadInput> {
        keep.map_or(Ok(()), must_be_empty)?;
        let drawn = random::from_system();
        let path = keep
            .map_or_else(|| std::env::temp_dir().join(format!("hoptax-lint-{drawn:016x}")), Path::to_owned);
        Ok(Self { path, keep: keep.is_some() })
    }
}

fn must_be_empty(directory: &Path) -> Result<(), BadInput> {
    let shown = directory.display();
    match std::fs::read_dir(directory).map(|mut entries| entries.next()) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(BadInput(format!(
            "--keep: `{shown}` is not empty, and its logs would mix with the new logs. Choose another \
             directory, or remove this one"
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BadInput(format!("--keep: cannot use `{shown}` as a directory: {error}"))),
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        if let Some(unknown) = self.names.iter().find(|name| packs.get(name).is_none()) {
            let known = packs.names().join(", ");
            return Err(BadInput(format!("there is no pack `{unknown}`; the packs are {known}")).into());
        }
        let work_dir = WorkDir::new(self.keep.as_deref())?;
        let exe = std::env::current_exe()
            .context("cannot find the running hoptax program; was its file moved or removed?")?;
        let (mut reports, mut failures) = (Vec::new(), Vec::new());
        for name in &self.names {
            if io::stderr().is_terminal() {
                eprintln!("{name}: starting the gateway and sending requests …");
            }
            match lint::lint(name, &packs, &exe, &work_dir.path) {
                Ok(report) => reports.push(report),
                Err(failure) => failures.push((name, failure)),
            }
        }
        let mut out = io::stdout();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&reports)?)?;
        } else {
            for report in &reports {
                writeln!(out, "{}", text(report))?;
            }
        }
        for (name, Failure { message, detail, .. }) in &failures {
            eprintln!("error: {name}: {message}");
            detail.lines().for_each(|line| eprintln!("    {line}"));
        }
        Ok(match reports.iter().all(|report| report.equalised) {
            _ if !failures.is_empty() => Exit::Failed,
            true => Exit::Success,
            false => Exit::OverBudget,
        })
    }
}

/// A heading, the table of checks, and the advice.
fn text(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["CHECK", "", "SEEN"]);
    for item in &report.checks {
        table.add_row([item.check, item.verdict.words(), &item.evidence]);
    }
    let version = report.version.as_deref().unwrap_or("version unknown");
    let outcome = if report.equalised { "equalised" } else { "not equalised" };
    let mut text = format!("{} {version}: {outcome}\n{table}\n", report.pack);
    report.log.lines().for_each(|line| text += &format!("    {line}\n"));
    for item in report.checks.iter().filter(|item| !item.advice.is_empty()) {
        text += &format!("help: {}: {}\n", item.check, item.advice);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_or_empty_directory_is_kept() {
        let scratch = tempfile::tempdir().expect("a directory");
        let new = scratch.path().join("new");
        assert!(WorkDir::new(Some(scratch.path())).is_ok() && WorkDir::new(Some(&new)).is_ok());
        let old = scratch.path().join("stderr.log");
        std::fs::write(&old, "an old error").expect("written");
        let refused = |path: &Path| WorkDir::new(Some(path)).err().expect("refused").to_string();
        let error = refused(scratch.path());
        let shown = scratch.path().display().to_string();
        assert!(error.contains(&shown) && error.contains("is not empty"), "{error}");
        let error = refused(&old);
        assert!(error.contains("cannot use") && error.contains("stderr.log"), "{error}");
        assert!(old.is_file(), "nothing is removed");
    }
}

//! Output of a load: to the screen and to files.

use super::args::OutputArgs;
use super::outcome::LoadOutcome;
use super::{csv, json, summary};
use crate::cli::exit::BadInput;
use crate::cli::paint::Paint;
use anyhow::Context as _;
use hoptax_format::spec::{HttpVersion, Verify};
use hoptax_report::foreign;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Format of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Summary,
    Json,
    Csv,
}

/// Files to write. They are opened before the load starts, so that the user learns of a wrong path at once,
/// and not after an hour of load.
#[derive(Debug)]
pub(super) struct Files {
    format: Format,
    output: Option<Target>,
    hgrm: Option<Target>,
    fortio: Option<Target>,
}

#[derive(Debug)]
struct Target {
    path: PathBuf,
    file: File,
}

impl Files {
    /// Opens the files without changing their content.
    ///
    /// # Errors
    /// If a file cannot be written, two files are the same, or `--output` is given without `--json` or
    /// `--csv`.
    pub(super) fn open(args: &OutputArgs) -> Result<Self, BadInput> {
        let format = match (args.json, args.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Summary,
        };
        if let (Some(file), Format::Summary) = (&args.output, format) {
            return Err(BadInput(format!(
                "--output {} needs a format; add --json or --csv, or redirect the text summary with `> {}`",
                file.display(),
                file.display()
            )));
        }
        let typed = [("--output", &args.output), ("--hgrm", &args.hgrm), ("--fortio", &args.fortio)];
        let mut taken: Vec<(&str, &Path)> = Vec::new();
        for (flag, path) in typed.iter().filter_map(|(flag, path)| Some((*flag, path.as_deref()?))) {
            if let Some((other, _)) = taken.iter().find(|(_, other)| *other == path) {
                return Err(BadInput(format!(
                    "{other} and {flag} both write {}; name different files",
                    path.display()
                )));
            }
            taken.push((flag, path));
        }
        let open = |(flag, path): (&str, &Option<PathBuf>)| {
            path.as_ref().map(|path| Target::open(flag, path)).transpose()
        };
        Ok(Self { format, output: open(typed[0])?, hgrm: open(typed[1])?, fortio: open(typed[2])? })
    }

    /// Writes the files, and prints to standard output.
    ///
    /// # Errors
    /// If something cannot be written.
    pub(super) fn write(self, load: &LoadOutcome<'_>) -> anyhow::Result<()> {
        let mut document = Vec::new();
        match self.format {
            Format::Summary => {}
            Format::Json => {
                let case = json::LoadResults::new(load).context("cannot decode the histograms")?;
                serde_json::to_writer_pretty(&mut document, &case)?;
                document.push(b'\n');
            }
            Format::Csv => csv::write(load, &mut document)?,
        }
        let on_screen = self.format == Format::Summary || self.output.is_some();
        if let Some(file) = self.output {
            file.write(&document)?;
            document.clear();
        }
        for (file, draw) in
            [(self.hgrm, hgrm as fn(&LoadOutcome<'_>) -> anyhow::Result<String>), (self.fortio, fortio)]
        {
            let Some(file) = file else { continue };
            file.write(draw(load)?.as_bytes())?;
        }
        let mut out = std::io::stdout().lock();
        if on_screen {
            let paint = Paint::on(&out);
            document = summary::Summary::new(load, paint)?.to_string().into_bytes();
        }
        out.write_all(&document).and_then(|()| out.flush()).context("cannot write to standard output")
    }
}

fn hgrm(load: &LoadOutcome<'_>) -> anyhow::Result<String> {
    Ok(foreign::hgrm(&load.record.histograms.response_time.decode()?))
}

fn fortio(load: &LoadOutcome<'_>) -> anyhow::Result<String> {
    let (spec, record) = (load.spec, load.record);
    Ok(foreign::fortio(&foreign::Facts {
        labels: "hoptax",
        url: load.url,
        started_unix_ns: record.started_unix_ns,
        shape: &spec.shape,
        requests: spec.requests,
        duration: Duration::from_nanos(spec.duration_ns),
        measured_ns: record.measured_ns,
        completed: record.completed_in_time,
        connections: spec.connections,
        opened: record.lifetime.opened,
        counts: &record.counts,
        response_time: &record.histograms.response_time.decode()?,
        connect: &record.histograms.connect.decode()?,
        http10: spec.http == HttpVersion::Http10,
        keep_alive_off: spec.requests_per_connection == Some(1),
        insecure: spec.tls.as_ref().is_some_and(|tls| tls.verify == Verify::Nothing),
        timeout_ns: spec.timeouts.total_ns,
    })?)
}

impl Target {
    fn open(flag: &str, path: &Path) -> Result<Self, BadInput> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| {
            BadInput(format!("{flag}: cannot write {}: {error}; choose another file", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn write(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        // Pipes and terminals cannot be truncated.
        let is_file = self.file.metadata().is_ok_and(|found| found.is_file());
        let truncated = if is_file { self.file.set_len(0) } else { Ok(()) };
        truncated
            .and_then(|()| self.file.write_all(bytes))
            .with_context(|| format!("cannot write {}; is the disk full?", self.path.display()))
    }
}

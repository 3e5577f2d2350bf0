//! Where results go: the screen, and files that are opened before the load begins.

use super::args::OutputArgs;
use super::made::Made;
use super::paint::Paint;
use super::{csv, json, summary};
use crate::cli::exit::BadInput;
use anyhow::Context as _;
use hoptax_load::spec::{HttpVersion, Verify};
use hoptax_report::foreign;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which document is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Summary,
    Json,
    Csv,
}

/// Files that results go to. They are opened before the load begins: an hour's load shall not end in a mistyped path.
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
    /// Opens the files, and leaves what they hold.
    ///
    /// # Errors
    /// If one cannot be written, two are the same, or nothing goes to one.
    pub(super) fn open(args: &OutputArgs) -> Result<Self, BadInput> {
        let format = match (args.json, args.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Summary,
        };
        if let (Some(file), Format::Summary) = (&args.output, format) {
            return Err(BadInput(format!(
                "--output {} needs --json or --csv to say what is written there; for the summary write `> {}`",
                file.display(),
                file.display()
            )));
        }
        let typed = [("--output", &args.output), ("--hgrm", &args.hgrm), ("--fortio", &args.fortio)];
        let mut taken: Vec<(&str, &Path)> = Vec::new();
        for (flag, path) in typed.iter().filter_map(|(flag, path)| Some((*flag, path.as_deref()?))) {
            if let Some((other, _)) = taken.iter().find(|(_, other)| *other == path) {
                return Err(BadInput(format!(
                    "{other} and {flag} both write {}; name two files",
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

    /// Writes what was asked for.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(self, made: &Made<'_>) -> anyhow::Result<()> {
        let mut document = Vec::new();
        match self.format {
            Format::Summary => {}
            Format::Json => {
                let case = json::Case::new(made).context("cannot read the histograms back")?;
                serde_json::to_writer_pretty(&mut document, &case)?;
                document.push(b'\n');
            }
            Format::Csv => csv::write(made, &mut document)?,
        }
        let on_screen = self.format == Format::Summary || self.output.is_some();
        if let Some(file) = self.output {
            file.write(&document)?;
            document.clear();
        }
        for (file, draw) in
            [(self.hgrm, hgrm as fn(&Made<'_>) -> anyhow::Result<String>), (self.fortio, fortio)]
        {
            let Some(file) = file else { continue };
            file.write(draw(made)?.as_bytes())?;
        }
        let mut out = std::io::stdout().lock();
        if on_screen {
            let paint = Paint::on(&out);
            document = summary::Summary::new(made, paint)?.to_string().into_bytes();
        }
        out.write_all(&document).and_then(|()| out.flush()).context("cannot write to standard output")
    }
}

fn hgrm(made: &Made<'_>) -> anyhow::Result<String> {
    Ok(foreign::hgrm(&made.record.histograms.response_time.decode()?))
}

fn fortio(made: &Made<'_>) -> anyhow::Result<String> {
    let (spec, record) = (made.spec, made.record);
    Ok(foreign::fortio(&foreign::Facts {
        labels: "hoptax",
        url: made.url,
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
            BadInput(format!("{flag}: cannot write {}: {error}; choose another place", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn write(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        // Of pipes and terminals there is nothing to cut off.
        let is_file = self.file.metadata().is_ok_and(|found| found.is_file());
        let cut = if is_file { self.file.set_len(0) } else { Ok(()) };
        cut.and_then(|()| self.file.write_all(bytes))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

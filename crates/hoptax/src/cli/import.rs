//! `hoptax import`.

use super::exit::{BadInput, Exit};
use super::words::{Words, word};
use anyhow::Context as _;
use hoptax_import::{Importer, Kind, Options};
use hoptax_plan::units;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Turn an access log, HAR, curl commands or OpenAPI into a plan
///
/// The built-in upstream answers with the log's statuses, sizes and times. Credentials, cookies and values in
/// queries are not copied.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to read, packed with gzip or not; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What the files contain [default: detected]
    #[arg(long, value_name = "KIND", value_parser = word(KINDS))]
    from: Option<Kind>,
    /// Format of the log: combined, common, vhost_combined, envoy, json, or a format string of nginx, Apache
    /// or Envoy [default: detected]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Number of targets; rarer kinds become one target per method
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    top: u16,
    /// Only requests to this host [default: all in logs, the most frequent in HAR files]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Copy values in queries
    #[arg(long)]
    keep_queries: bool,
    /// Copy request bodies of HAR files, and not only their size
    #[arg(long)]
    keep_bodies: bool,
    /// Multiply the log's rate by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    scale: f64,
    /// Compress the time of the log into one trial of this length
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    time: Duration,
    /// Write only a file of targets, for `hoptax load --targets`
    #[arg(long)]
    targets: bool,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the output file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

const KINDS: Words<Kind> = &[
    ("log", "Access log", Kind::Log),
    ("har", "HTTP archive of a browser", Kind::Har),
    ("curl", "curl command lines", Kind::Curl),
    ("openapi", "OpenAPI 3 document", Kind::OpenApi),
];

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if self.time < Duration::from_millis(100) {
            return Err(BadInput("--time: a trial needs 100ms or more".into()).into());
        }
        let mut importer = Importer::new(Options {
            format: self.format.clone(),
            top: self.top.into(),
            keep_queries: self.keep_queries,
            keep_bodies: self.keep_bodies,
            scale: self.scale,
            seconds: self.time.as_secs_f64(),
            host: self.host.as_ref().map(|host| host.to_ascii_lowercase()),
        });
        for file in &self.files {
            read(&mut importer, file, self.from)?;
        }
        let text = if self.targets { importer.targets() } else { importer.plan() };
        let text = text.map_err(|error| BadInput(error.to_string()))?;
        let summary = importer.summary().map_err(|error| BadInput(error.to_string()))?;
        match &self.output {
            None => io::stdout().lock().write_all(text.as_bytes())?,
            Some(path) => write(path, &text, self.force)?,
        }
        let mut err = io::stderr().lock();
        for note in importer.notes() {
            writeln!(err, "note: {note}")?;
        }
        if let Some(path) = &self.output {
            let next = if self.targets { "hoptax load URL --targets" } else { "hoptax check" };
            writeln!(err, "{summary}wrote {}; next: {next} {}", path.display(), path.display())?;
        }
        Ok(Exit::Success)
    }
}

fn read(importer: &mut Importer, file: &Path, kind: Option<Kind>) -> anyhow::Result<()> {
    let outcome = if file == Path::new("-") {
        importer.read("standard input", kind, io::stdin().lock())
    } else {
        let opened =
            File::open(file).map_err(|error| BadInput(format!("cannot read {}: {error}", file.display())))?;
        if opened.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(BadInput(format!("{} is a directory. Name its log files", file.display())).into());
        }
        importer.read(
            &file.file_name().map_or_else(|| file.to_string_lossy(), |name| name.to_string_lossy()),
            kind,
            opened,
        )
    };
    Ok(outcome.map_err(|error| BadInput(error.to_string()))?)
}

fn write(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let name = path.display();
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{name} already exists; name another file, or overwrite it with --force");
            return Err(BadInput(message).into());
        }
        opened => opened.with_context(|| {
            format!("cannot write {name}; check that its directory exists and is writable")
        })?,
    };
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {name}"))
}

fn factor(typed: &str) -> Result<f64, String> {
    let factor: f64 = typed
        .trim_end_matches(['x', '×'])
        .parse()
        .map_err(|_| "write a number such as 2 or 0.5".to_owned())?;
    if factor.is_finite() && factor > 0.0 {
        Ok(factor)
    } else {
        Err("the factor must be above zero".to_owned())
    }
}

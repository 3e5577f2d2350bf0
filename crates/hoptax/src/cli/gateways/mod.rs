//! `hoptax gateways`.

mod page;

use super::exit::{BadInput, Exit};
use super::help;
use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use hoptax_lab::docker::Container;
use hoptax_lab::packs::manifest::LastRun;
use hoptax_lab::packs::{Pack, PackError, PackSet, Versions, binary};
use hoptax_plan::units::nearest;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// List the gateways with packs, or show one: start, features, traps
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Pack to show [default: list all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[arg(long, help = help::JSON)]
    json: bool,
    /// Print the Markdown page of the pack, or the index page
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write the pages of all packs and the index page to this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "markdown", "name", "write"])]
    pages: Option<PathBuf>,
    /// Copy the pack to a subdirectory of this directory, to build its gateway or derive a pack
    #[arg(long, value_name = "DIR", requires = "name", conflicts_with_all = ["json", "markdown"])]
    write: Option<PathBuf>,
    #[arg(long, value_name = "DIR", help = help::PACKS)]
    packs: Option<PathBuf>,
}

/// One gateway. Part of the stable interface.
#[derive(Debug, Serialize)]
struct Row<'a> {
    name: &'a str,
    summary: &'a str,
    homepage: Option<&'a str>,
    installed: bool,
    /// Path of the installed program.
    binary: Option<PathBuf>,
    /// Absent if the gateway is not installed, or if its version cannot be read.
    version: Option<String>,
    features: &'a [String],
    unsupported: &'a BTreeMap<String, String>,
    last_run_for_real: Option<&'a LastRun>,
    install: &'a BTreeMap<String, String>,
    /// The image that `driver: docker` starts.
    docker_image: Option<&'a str>,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        let one = self.name.as_deref().map(|name| named(&packs, name)).transpose()?;
        let mut out = io::stdout();
        match (one, &self.pages, &self.write) {
            (_, Some(directory), _) => write_pages(&packs, directory)?,
            (Some(pack), _, Some(directory)) => {
                let folder = pack.write(directory).with_context(|| {
                    format!("cannot write to {}; choose another directory with --write", directory.display())
                })?;
                writeln!(out, "{}", folder.display())?;
            }
            (Some(pack), _, _) if self.markdown => write!(out, "{}", page::page(pack))?,
            (None, _, _) if self.markdown => write!(out, "{}", page::index(packs.iter()))?,
            (Some(pack), _, _) if !self.json => write!(out, "{}\n{}", here(pack)?, page::page(pack))?,
            (one, _, _) => {
                let shown = packs.iter().filter(|pack| one.is_none_or(|one| one.name() == pack.name()));
                let rows = rows(shown).map_err(BadInput::from)?;
                match self.json {
                    true => writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?,
                    false => {
                        let (run, never_run): (Vec<_>, Vec<_>) =
                            rows.into_iter().partition(|row| row.last_run_for_real.is_some());
                        writeln!(out, "{}", table(&packs, &run))?;
                        if !never_run.is_empty() {
                            writeln!(out, "\nNobody has run these packs with the real gateway:\n")?;
                            writeln!(out, "{}", table(&packs, &never_run))?;
                        }
                        writeln!(
                            out,
                            "\n`hoptax gateways NAME` shows one: how it starts, features, settings, known \
                            traps"
                        )?;
                    }
                }
            }
        }
        Ok(Exit::Success)
    }
}

fn named<'a>(packs: &'a PackSet, name: &str) -> Result<&'a Pack, BadInput> {
    packs.get(name).ok_or_else(|| {
        let help = match nearest(name, packs.names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the packs are {}", packs.names().join(", ")),
        };
        BadInput(format!("there is no pack `{name}`; {help}"))
    })
}

fn write_pages(packs: &PackSet, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| {
        format!("cannot create {}; choose another directory with --pages", directory.display())
    })?;
    let index = std::iter::once(("README".to_owned(), page::index(packs.iter())));
    for (name, text) in index.chain(packs.iter().map(|pack| (pack.name().to_owned(), page::page(pack)))) {
        let file = directory.join(format!("{name}.md"));
        std::fs::write(&file, text).with_context(|| {
            format!("cannot write {}; choose another directory with --pages", file.display())
        })?;
    }
    Ok(())
}

/// Describes the installed program and the container image of the gateway on this machine.
fn here(pack: &Pack) -> anyhow::Result<String> {
    let mut versions = Versions::load();
    let row = row(pack, &mut versions).map_err(BadInput::from)?;
    versions.save();
    let process = match (&row.binary, &row.version) {
        (Some(binary), Some(version)) => format!("version {version}, {}", binary.display()),
        (Some(binary), None) => format!("version unknown, {}", binary.display()),
        (None, _) => match binary::lacking(pack) {
            Some(places) => format!("not installed: there is no {}", places.join(" or ")),
            None => {
                let binary = &pack.manifest().binary;
                format!("not installed: there is no `{binary}` in the directories of PATH")
            }
        },
    };
    let docker = match pack.manifest().docker.as_ref().map(|_| Container::find(pack, None)) {
        Some(Ok(container)) => format!("{}, {}", container.image, container.id),
        Some(Err(reason)) => reason,
        None => "the pack names no image".to_owned(),
    };
    Ok(format!("On this machine\n  process  {process}\n  docker   {docker}\n"))
}

fn rows<'p>(packs: impl Iterator<Item = &'p Pack>) -> Result<Vec<Row<'p>>, PackError> {
    let mut versions = Versions::load();
    let rows = packs.map(|pack| row(pack, &mut versions)).collect();
    versions.save();
    rows
}

fn row<'p>(pack: &'p Pack, versions: &mut Versions) -> Result<Row<'p>, PackError> {
    let manifest = pack.manifest();
    let binary = binary::find(pack);
    let version = match &binary {
        Some(binary) => versions.of(pack, binary)?,
        None => None,
    };
    Ok(Row {
        name: pack.name(),
        summary: &manifest.summary,
        homepage: manifest.homepage.as_deref(),
        installed: binary.is_some(),
        binary,
        version,
        features: &manifest.features,
        unsupported: &manifest.unsupported,
        last_run_for_real: manifest.last_run_for_real.as_ref(),
        install: &manifest.install,
        docker_image: manifest.docker.as_ref().map(|docker| docker.image.as_str()),
    })
}

fn table(packs: &PackSet, rows: &[Row<'_>]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["NAME", "INSTALLED", "FEATURES", "LAST REAL RUN", "STARTS AS"]);
    for (row, pack) in rows.iter().filter_map(|row| Some((row, packs.get(row.name)?))) {
        let installed = match (&row.version, row.installed) {
            (Some(version), _) => version.clone(),
            (None, true) => "version unknown".to_owned(),
            (None, false) => "no".to_owned(),
        };
        table.add_row([
            row.name.to_owned(),
            installed,
            row.features.len().to_string(),
            page::last_run(pack),
            page::starts_as(pack).to_owned(),
        ]);
    }
    table
}

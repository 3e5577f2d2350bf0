//! `hoptax gateways`.

use super::{BadInput, Exit};
use crate::lab::packs::manifest::LastRun;
use crate::lab::packs::{Pack, PackError, PackSet, binary};
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// List the gateways that plans can name: installed or not, version, features.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A directory of packs that adds to the built-in ones, or stands in for those of the same name
    #[arg(long, value_name = "DIR")]
    packs: Option<PathBuf>,
}

/// One gateway; part of the stable interface.
#[derive(Debug, Serialize)]
struct Row<'a> {
    name: &'a str,
    summary: &'a str,
    homepage: Option<&'a str>,
    installed: bool,
    /// Where it is installed.
    binary: Option<PathBuf>,
    /// Absent as well where it could not be read.
    version: Option<String>,
    features: &'a [String],
    unsupported: &'a BTreeMap<String, String>,
    last_run_for_real: Option<&'a LastRun>,
    install: &'a BTreeMap<String, String>,
    /// Every way to come by it, building it among them.
    #[serde(skip)]
    how: Vec<String>,
}

impl From<PackError> for BadInput {
    fn from(error: PackError) -> Self {
        Self(error.to_string())
    }
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        let rows = packs.iter().map(row).collect::<Result<Vec<_>, _>>().map_err(BadInput::from)?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&rows)?);
        } else {
            println!("{}", table(&rows));
        }
        Ok(Exit::Success)
    }
}

fn row(pack: &Pack) -> Result<Row<'_>, PackError> {
    let manifest = pack.manifest();
    let binary = binary::find(pack);
    let version = match &binary {
        Some(binary) => binary::version(pack, binary)?,
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
        how: binary::how_to_install(pack),
    })
}

fn table(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["NAME", "INSTALLED", "VERSION", "FEATURES", "LAST RUN FOR REAL", "HOW TO INSTALL"]);
    for row in rows {
        let last = row.last_run_for_real.map(|last| format!("{} on {}", last.version, last.date));
        // One way is enough on the screen; `--json` tells all.
        let how = row.how.first().cloned();
        let version =
            row.version.clone().unwrap_or_else(|| if row.installed { "unknown" } else { "" }.into());
        table.add_row([
            row.name.to_owned(),
            if row.installed { "yes" } else { "no" }.to_owned(),
            version,
            if row.features.is_empty() { "none".to_owned() } else { row.features.join(", ") },
            last.unwrap_or_else(|| "never".to_owned()),
            if row.installed { String::new() } else { how.unwrap_or_default() },
        ]);
    }
    table
}

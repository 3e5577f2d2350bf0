//! `hoptax generate schema`.

use crate::cli::exit::Exit;
use std::io::{self, Write};

/// Print the JSON Schema of plans
///
/// For editors: save it as schema.json next to the plan, and start the plan with `# yaml-language-server:
/// $schema=schema.json`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let text = serde_json::to_string_pretty(&hoptax_plan::schema())?;
        writeln!(io::stdout(), "{text}")?;
        Ok(Exit::Success)
    }
}

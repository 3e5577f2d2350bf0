//! `hoptax generate`.

mod completions;
mod man;
mod reference;
mod schema;

use super::exit::Exit;
use clap::Command;

/// Generate the plan schema, completions, manual and reference pages
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    Reference(reference::Args),
}

impl Args {
    /// Generates from `program`, the whole command line of hoptax.
    pub(super) fn run(self, program: Command) -> anyhow::Result<Exit> {
        match self.what {
            What::Schema(args) => args.run(),
            What::Completions(args) => args.run(program),
            What::Man(args) => args.run(program),
            What::Reference(args) => args.run(program),
        }
    }
}

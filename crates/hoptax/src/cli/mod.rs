//! The command line: one verb per file, and what all of them share.

use clap::{CommandFactory as _, Parser, Subcommand};
use std::io;
use std::process::ExitCode;

mod bandwidth;
mod check;
mod compare;
mod completions;
mod conform;
mod doctor;
mod exit;
mod findings;
mod gate;
mod gateways;
mod guard;
mod history;
mod hop;
mod init;
mod lint;
mod load;
mod man;
mod output;
mod plan_source;
mod reference;
mod render;
mod report;
mod run;
mod schema;
mod serve;
mod terminal;
mod upstream;

pub use exit::{BadInput, Exit};

/// What does this hop cost? Measures API gateways, reverse proxies and sidecars against direct.
#[derive(Debug, Parser)]
#[command(name = "hoptax", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Args),
    Load(Box<load::Args>),
    Report(report::Args),
    Compare(compare::Args),
    Gate(gate::Args),
    History(history::Args),
    Serve(serve::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Init(init::Args),
    Gateways(gateways::Args),
    Lint(lint::Args),
    Findings(findings::Args),
    Conform(conform::Args),
    Render(render::Args),
    Upstream(upstream::Args),
    Hop(hop::Args),
    Bandwidth(bandwidth::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(hide = true)]
    Guard(guard::Args),
    #[command(hide = true)]
    Reference(reference::Args),
}

/// Runs the verb that was typed.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Run(args) => args.run(),
        Verb::Load(args) => args.run(),
        Verb::Report(args) => args.run(),
        Verb::Compare(args) => args.run(),
        Verb::Gate(args) => args.run(),
        Verb::History(args) => args.run(),
        Verb::Serve(args) => args.run(),
        Verb::Check(args) => args.run(),
        Verb::Doctor(args) => args.run(),
        Verb::Init(args) => args.run(),
        Verb::Gateways(args) => args.run(),
        Verb::Lint(args) => args.run(),
        Verb::Findings(args) => args.run(),
        Verb::Conform(args) => args.run(),
        Verb::Render(args) => args.run(),
        Verb::Upstream(args) => args.run(),
        Verb::Hop(args) => args.run(),
        Verb::Bandwidth(args) => args.run(),
        Verb::Schema(args) => args.run(),
        Verb::Completions(args) => args.run(Cli::command()),
        Verb::Man(args) => args.run(Cli::command()),
        Verb::Guard(args) => args.run(),
        Verb::Reference(args) => args.run(Cli::command()),
    };
    outcome.unwrap_or_else(|error| tell(&error)).into()
}

fn tell(error: &anyhow::Error) -> Exit {
    // Who reads our output and stops, as `head` does, has what was wanted.
    if error.chain().any(is_broken_pipe) {
        return Exit::Failed;
    }
    eprintln!("error: {}", causes(error));
    if error.is::<BadInput>() { Exit::BadInput } else { Exit::Failed }
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The error and its causes, each once: many a message quotes its cause already.
fn causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.is_empty() {
            cause
        } else if told.contains(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let full = || anyhow::anyhow!("No space left on device");
        assert_eq!(causes(&full().context("cannot write a")), "cannot write a: No space left on device");
        let quoted =
            full().context("cannot write a: No space left on device; free some").context("it ended early");
        assert_eq!(causes(&quoted), "it ended early: cannot write a: No space left on device; free some");
    }
}

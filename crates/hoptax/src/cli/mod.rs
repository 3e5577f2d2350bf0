//! The command line. Each verb has a file, and this file contains the code that verbs share. On other systems
//! than Linux, the verbs that measure or start something are missing.

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::io;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod agent;
#[cfg(target_os = "linux")]
mod bisect;
#[cfg(target_os = "linux")]
mod builds;
#[cfg(target_os = "linux")]
mod calibrate;
mod check;
mod compare;
#[cfg(target_os = "linux")]
mod doctor;
mod draw;
mod exit;
mod findings;
mod gate;
#[cfg(target_os = "linux")]
mod gateways;
mod generate;
mod grouped_help;
#[cfg(target_os = "linux")]
mod guard;
mod help;
mod history;
#[cfg(target_os = "linux")]
mod hop;
#[cfg(target_os = "linux")]
mod hosts;
mod import;
mod init;
#[cfg(target_os = "linux")]
mod lint;
#[cfg(target_os = "linux")]
mod load;
mod output;
mod paint;
mod plan_source;
#[cfg(target_os = "linux")]
mod profile;
#[cfg(target_os = "linux")]
mod render;
mod report;
mod results_dir;
#[cfg(target_os = "linux")]
mod run;
mod run_ref;
mod serve;
#[cfg(target_os = "linux")]
mod side_thread;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod upstream;
mod usage_error;
mod words;

pub use exit::{BadInput, Exit};

/// Measure what an API gateway, reverse proxy or sidecar costs, compared with sending the same traffic
/// directly
#[derive(Debug, Parser)]
#[command(name = "hoptax", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// The commands, in the order of the help ([`grouped_help`]).
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one value")]
enum Verb {
    Init(init::Args),
    #[cfg(target_os = "linux")]
    Doctor(doctor::Args),
    #[cfg(target_os = "linux")]
    Run(run::Args),
    Report(report::Args),
    Compare(compare::Args),
    Check(check::Args),
    Import(Box<import::Args>),
    #[cfg(target_os = "linux")]
    Hosts(hosts::Args),
    #[cfg(target_os = "linux")]
    Load(Box<load::Args>),
    #[cfg(target_os = "linux")]
    Profile(profile::Args),
    #[cfg(target_os = "linux")]
    Bisect(Box<bisect::Args>),
    #[cfg(target_os = "linux")]
    Calibrate(calibrate::Args),
    Gate(gate::Args),
    History(history::Args),
    Serve(serve::Args),
    Findings(findings::Args),
    #[cfg(target_os = "linux")]
    Gateways(gateways::Args),
    #[cfg(target_os = "linux")]
    Builds(builds::Args),
    #[cfg(target_os = "linux")]
    Lint(lint::Args),
    #[cfg(target_os = "linux")]
    Render(render::Args),
    #[cfg(target_os = "linux")]
    Upstream(upstream::Args),
    #[cfg(target_os = "linux")]
    Hop(hop::Args),
    Generate(generate::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Guard(guard::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Agent(agent::Args),
    #[command(hide = true)]
    Draw(draw::Args),
}

/// The whole command line of hoptax.
fn program() -> Command {
    grouped_help::grouped(Cli::command())
}

/// Parses the command line and runs the verb.
pub fn main() -> ExitCode {
    // This must precede any thread or child. If it fails, children also ignore the signals that hoptax was
    // started to ignore.
    #[cfg(target_os = "linux")]
    let _ = hoptax_host::signals::unignore_for_children();
    let parsed = program().try_get_matches().and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let verb = match parsed {
        Ok(cli) => cli.verb,
        Err(error) => return usage_error::report(&error, program()),
    };
    let outcome = match verb {
        Verb::Init(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Doctor(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Run(args) => args.run(),
        Verb::Report(args) => args.run(),
        Verb::Compare(args) => args.run(),
        Verb::Check(args) => args.run(),
        Verb::Import(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Hosts(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Load(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Profile(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Bisect(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Calibrate(args) => args.run(),
        Verb::Gate(args) => args.run(),
        Verb::History(args) => args.run(),
        Verb::Serve(args) => args.run(),
        Verb::Findings(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Gateways(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Builds(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Lint(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Render(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Upstream(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Hop(args) => args.run(),
        Verb::Generate(args) => args.run(program()),
        #[cfg(target_os = "linux")]
        Verb::Guard(args) => args.run(),
        #[cfg(target_os = "linux")]
        Verb::Agent(args) => args.run(),
        Verb::Draw(args) => args.run(),
    };
    outcome.unwrap_or_else(|error| print_error(&error)).into()
}

fn print_error(error: &anyhow::Error) -> Exit {
    // If the reader of our output has closed the pipe, print no error. For example, `head` closes the pipe
    // when it has read enough.
    if error.chain().any(is_broken_pipe) {
        return Exit::Failed;
    }
    eprintln!("error: {}", with_causes(error));
    if error.is::<BadInput>() { Exit::BadInput } else { Exit::Failed }
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The error and its causes. A cause that the text already quotes is left out.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        if text.is_empty() {
            cause
        } else if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_printed_once() {
        let full = || anyhow::anyhow!("full");
        assert_eq!(with_causes(&full().context("not written")), "not written: full");
        let quoted = full().context("not written: full; free some").context("ended");
        assert_eq!(with_causes(&quoted), "ended: not written: full; free some");
    }
}

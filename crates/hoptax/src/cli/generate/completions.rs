//! `hoptax generate completions`.

use crate::cli::exit::Exit;
use clap::Command;
use clap_complete::Shell;
use std::io;

/// Print the completion script of a shell
///
/// bash: `hoptax generate completions bash > ~/.local/share/bash-completion/completions/hoptax`.
/// zsh: `hoptax generate completions zsh > _hoptax`, in a directory of `$fpath`.
/// fish: `hoptax generate completions fish > ~/.config/fish/completions/hoptax.fish`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    /// Prints the script for `program`, the whole command line of hoptax.
    pub(super) fn run(self, program: Command) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut without_hidden(&program), "hoptax", &mut script);
        io::Write::write_all(&mut io::stdout(), &script)?;
        Ok(Exit::Success)
    }
}

/// The command line without the hidden verbs, because clap_complete would offer the hidden verbs too.
fn without_hidden(program: &Command) -> Command {
    let verbs = program.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("hoptax")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(program.get_arguments().cloned())
        .subcommands(verbs)
}

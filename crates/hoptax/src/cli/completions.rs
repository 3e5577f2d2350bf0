//! `hoptax completions`.

use super::exit::Exit;
use clap::Command;
use clap_complete::Shell;
use std::io;

/// Print what a shell needs to complete verbs, options and their values.
///
/// bash: `hoptax completions bash > ~/.local/share/bash-completion/completions/hoptax`;
/// zsh: into a file `_hoptax` in a folder of `$fpath`;
/// fish: `hoptax completions fish > ~/.config/fish/completions/hoptax.fish`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    /// `whole` is the command line of hoptax.
    pub(super) fn run(self, whole: Command) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown(&whole), "hoptax", &mut script);
        io::Write::write_all(&mut io::stdout(), &script)?;
        Ok(Exit::Success)
    }
}

/// The command line without the verbs that only hoptax itself calls: shells would offer them.
fn shown(whole: &Command) -> Command {
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("hoptax")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(whole.get_arguments().cloned())
        .subcommands(verbs)
}

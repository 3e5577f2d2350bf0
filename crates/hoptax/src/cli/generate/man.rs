//! `hoptax generate man`.

use crate::cli::exit::{BadInput, Exit};
use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;
use hoptax_plan::units::nearest;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Print the manual page of hoptax or of one command
///
/// To read it: `hoptax generate man | man -l -`. To install all pages: `hoptax generate man --output
/// ~/.cargo/share/man/man1`. `man` finds them there if `~/.cargo/bin` is in `PATH`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the page of this command, such as `run` or `history-list` [default: the page of hoptax]
    #[arg(value_name = "COMMAND")]
    verb: Option<String>,
    /// Write all pages, of hoptax and of every command, to this directory
    #[arg(short, long, value_name = "DIR", conflicts_with = "verb")]
    output: Option<PathBuf>,
}

impl Args {
    /// Prints or writes the pages of `program`, the whole command line of hoptax.
    pub(super) fn run(self, program: Command) -> anyhow::Result<Exit> {
        let pages = pages(program);
        match self.output {
            Some(folder) => {
                let failed =
                    format!("cannot write to {}; choose another directory with --output", folder.display());
                fs::create_dir_all(&folder).context(failed.clone())?;
                for page in &pages {
                    fs::write(folder.join(format!("{}.1", name(page))), rendered(page)?)
                        .context(failed.clone())?;
                }
            }
            None => io::stdout().write_all(&rendered(find(&pages, self.verb.as_deref())?)?)?,
        }
        Ok(Exit::Success)
    }
}

/// The commands that have a manual page: hoptax, its visible verbs, and the verbs below these verbs.
fn pages(program: Command) -> Vec<Command> {
    let mut command = program.disable_help_subcommand(true);
    command.build();
    let mut pages = vec![command];
    let mut next = 0;
    while let Some(page) = pages.get(next) {
        let verbs: Vec<Command> =
            page.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
        pages.extend(verbs);
        next += 1;
    }
    pages
}

/// Name of a page: `hoptax-run` for the verb `run`.
fn name(page: &Command) -> &str {
    page.get_display_name().unwrap_or_else(|| page.get_name())
}

fn find<'p>(pages: &'p [Command], verb: Option<&str>) -> Result<&'p Command, BadInput> {
    let Some(verb) = verb else { return Ok(&pages[0]) };
    let of_page = |page| name(page).strip_prefix("hoptax-").unwrap_or_default();
    pages[1..].iter().find(|page| of_page(page) == verb).ok_or_else(|| {
        let verbs: Vec<&str> = pages[1..].iter().map(of_page).collect();
        let help = match nearest(verb, verbs.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the commands are {}", verbs.join(", ")),
        };
        BadInput(format!("there is no command `{verb}`; {help}"))
    })
}

fn rendered(page: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(page.clone()).render(&mut text)?;
    Ok(text)
}

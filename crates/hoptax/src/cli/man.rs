//! `hoptax man`.

use super::exit::{BadInput, Exit};
use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;
use hoptax_plan::units::nearest;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Print the manual page, of hoptax or of one verb.
///
/// To read it: `hoptax man | man -l -`. To install all pages: `hoptax man --output ~/.cargo/share/man/man1`, where
/// `man` looks if `~/.cargo/bin` is in `PATH`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The verb, as in `run` or `history-list`; hoptax as a whole if left out.
    verb: Option<String>,
    /// Write the pages of hoptax and of every verb into this directory.
    #[arg(short, long, value_name = "DIR", conflicts_with = "verb")]
    output: Option<PathBuf>,
}

impl Args {
    /// `whole` is the command line of hoptax.
    pub(super) fn run(self, whole: Command) -> anyhow::Result<Exit> {
        let pages = pages(whole);
        match self.output {
            Some(folder) => {
                let there =
                    format!("cannot write into {}; choose another directory with --output", folder.display());
                fs::create_dir_all(&folder).context(there.clone())?;
                for page in &pages {
                    fs::write(folder.join(format!("{}.1", name(page))), drawn(page)?)
                        .context(there.clone())?;
                }
            }
            None => io::stdout().write_all(&drawn(wanted(&pages, self.verb.as_deref())?)?)?,
        }
        Ok(Exit::Success)
    }
}

/// The command and each verb that is shown, verbs of verbs among them.
fn pages(whole: Command) -> Vec<Command> {
    let mut command = whole.disable_help_subcommand(true);
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

/// `hoptax-run` for the verb `run`, as manual pages of verbs are named.
fn name(page: &Command) -> &str {
    page.get_display_name().unwrap_or_else(|| page.get_name())
}

fn wanted<'p>(pages: &'p [Command], verb: Option<&str>) -> Result<&'p Command, BadInput> {
    let Some(verb) = verb else { return Ok(&pages[0]) };
    let of_page = |page| name(page).strip_prefix("hoptax-").unwrap_or_default();
    pages[1..].iter().find(|page| of_page(page) == verb).ok_or_else(|| {
        let verbs: Vec<&str> = pages[1..].iter().map(of_page).collect();
        let meant = nearest(verb, verbs.iter().copied());
        let meant = meant.map_or(String::new(), |name| format!("did you mean `{name}`? "));
        BadInput(format!("there is no verb `{verb}`; {meant}There is {}", verbs.join(", ")))
    })
}

fn drawn(page: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(page.clone()).render(&mut text)?;
    Ok(text)
}

//! `hoptax reference`: the page of the command line, made of what the verbs say of themselves.

use super::exit::Exit;
use clap::{Arg, Command};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// What stands above the verbs.
const HEAD: &str = "# The command line

Every command with every option, as `hoptax help COMMAND` tells them. `make docs` makes this page of the program itself, and a
test holds it to that.

| exit status | means |
| --- | --- |
| 0 | done: measured, within every budget, nothing that forbids belief |
| 1 | could not run, or no gateway could be measured |
| 2 | the plan or the command line is wrong; what was wrong, where, and how to mend it is said before anything starts |
| 3 | a budget was breached, or a comparison came out worse where that was asked about |
| 4 | measured, but a `void` [finding](findings.md) says not to believe it |

Durations, rates, sizes and shares carry [units](plan.md#units). `-h` is a short help, `--help` a long one.
";

/// Print the page of the command line: docs/reference/cli.md.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the description of the JSON interface of `hoptax serve` instead: docs/reference/openapi.json.
    #[arg(long)]
    openapi: bool,
}

impl Args {
    /// `whole` is the command line of hoptax.
    pub(super) fn run(self, whole: Command) -> anyhow::Result<Exit> {
        match self.openapi {
            true => writeln!(io::stdout(), "{:#}", hoptax_history::serve::openapi())?,
            false => write!(io::stdout(), "{}", page(whole))?,
        }
        Ok(Exit::Success)
    }
}

/// The page: an index of the verbs that are shown, and a section for each.
fn page(mut program: Command) -> String {
    program.build();
    // `help` is clap's own and says nothing that the head does not.
    let is_shown = |verb: &&mut Command| !verb.is_hide_set() && verb.get_name() != "help";
    let mut verbs: Vec<&mut Command> = program.get_subcommands_mut().filter(is_shown).collect();
    let mut page = format!("{HEAD}\n| command | what |\n| --- | --- |\n");
    for verb in &verbs {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| [`hoptax {0}`](#hoptax-{0}) | {1} |", verb.get_name(), cell(&about));
    }
    for verb in &mut verbs {
        section(&mut page, verb, &format!("hoptax {}", verb.get_name()));
    }
    page
}

/// One verb, called by this name: what it does, how it is typed, its arguments and options by heading. Verbs of its own follow.
fn section(page: &mut String, verb: &mut Command, name: &str) {
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = verb.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = writeln!(
        page,
        "\n{} `{name}`\n\n{}\n\n```text\n{}\n```",
        if name.matches(' ').count() > 1 { "###" } else { "##" },
        ended(&about),
        usage.trim()
    );
    let mut headings: Vec<Option<&str>> = Vec::new();
    let shown: Vec<&Arg> = verb.get_arguments().filter(|arg| is_of_its_own(arg)).collect();
    for heading in shown.iter().map(|arg| heading(arg)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for title in headings {
        let _ = writeln!(page, "\n| {} | what |\n| --- | --- |", title.unwrap_or("option"));
        for arg in shown.iter().filter(|arg| heading(arg) == title) {
            let _ = writeln!(page, "| `{}` | {} |", typed(arg), cell(&said(arg)));
        }
    }
    if let Some(after) = verb.get_after_long_help().or(verb.get_after_help()) {
        let _ = writeln!(page, "\n{after}");
    }
    for own in verb.get_subcommands_mut().filter(|own| !own.is_hide_set()) {
        let name = format!("{name} {}", own.get_name());
        section(page, own, &name);
    }
}

/// Help and version are every verb's.
fn is_of_its_own(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

/// The table in which an argument stands; positional ones have their own.
fn heading(arg: &Arg) -> Option<&str> {
    if arg.is_positional() { Some("argument") } else { arg.get_help_heading() }
}

/// How it is typed: `-c, --connections <N>`.
fn typed(arg: &Arg) -> String {
    let mut form: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
    form.extend(arg.get_long().map(|long| format!("--{long}")));
    let mut words = vec![form.join(", ")];
    if arg.get_action().takes_values() {
        match arg.get_value_names() {
            Some(names) => words.extend(names.iter().map(|name| format!("<{name}>"))),
            None => words.push(format!("<{}>", arg.get_id())),
        }
    }
    words.join(" ").trim_start().to_owned()
}

/// What help says of it, with its values and its default.
fn said(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    if !arg.get_action().takes_values() {
        return help.trim().to_owned();
    }
    // Where clap does not know the default, help says it itself, at its end.
    let (help, default) = match help.trim().split_once(" [default: ") {
        Some((help, default)) => (help, Some(format!(" [default: {default}"))),
        None => (help.trim(), None),
    };
    format!("{help}{}{}", values(arg), default.unwrap_or_else(|| known_default(arg)))
}

/// The words that it takes, where these are few: `: a (help), b`.
fn values(arg: &Arg) -> String {
    let words = arg.get_possible_values();
    let shown = words.iter().filter(|word| !word.is_hide_set()).map(|word| match word.get_help() {
        Some(help) => format!("`{}` ({help})", word.get_name()),
        None => format!("`{}`", word.get_name()),
    });
    let shown: Vec<String> = shown.collect();
    let is_told = !shown.is_empty() && !arg.is_hide_possible_values_set();
    if is_told { format!(": {}", shown.join(", ")) } else { String::new() }
}

/// The default that clap knows.
fn known_default(arg: &Arg) -> String {
    let defaults: Vec<_> = arg.get_default_values().iter().map(|default| default.to_string_lossy()).collect();
    let is_told = !defaults.is_empty() && !arg.is_hide_default_value_set();
    if is_told { format!(" [default: `{}`]", defaults.join(" ")) } else { String::new() }
}

/// A text in one line of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A sentence ends with a full stop; clap takes that of a single paragraph away.
fn ended(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ':', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::builder::PossibleValue;

    fn program() -> Command {
        let how = clap::builder::PossibleValuesParser::new([
            PossibleValue::new("fast").help("At once"),
            PossibleValue::new("slow"),
        ]);
        let go = Command::new("go")
            .about("Go there")
            .arg(Arg::new("where").value_name("PLACE").required(true).help("Where to | from"))
            .arg(
                Arg::new("how")
                    .help("The way")
                    .long("how")
                    .short('w')
                    .value_name("HOW")
                    .value_parser(how)
                    .default_value("slow"),
            )
            .arg(Arg::new("quiet").long("quiet").action(clap::ArgAction::SetTrue).help("Say nothing"))
            .arg(Arg::new("far").long("far").value_parser(["yes", "no"]).help("How far [default: no]"))
            .arg(Arg::new("secret").long("secret").hide(true));
        let (up, down) = (Command::new("up").about("Climb"), Command::new("down").hide(true));
        let walk =
            Command::new("walk").about("Walk").disable_help_subcommand(true).subcommand(up).subcommand(down);
        Command::new("hoptax").subcommand(go).subcommand(walk).subcommand(Command::new("inner").hide(true))
    }

    #[test]
    fn a_verb_is_told_with_what_it_takes() {
        let page = page(program());
        assert!(page.contains("| [`hoptax go`](#hoptax-go) | Go there |\n"), "{page}");
        assert!(page.contains("```text\nhoptax go [OPTIONS] <PLACE>\n```"), "{page}");
        assert!(
            page.contains("| argument | what |\n| --- | --- |\n| `<PLACE>` | Where to \\| from |\n"),
            "{page}"
        );
        assert!(
            page.contains("| `-w, --how <HOW>` | The way: `fast` (At once), `slow` [default: `slow`] |\n"),
            "{page}"
        );
        assert!(page.contains("| `--far <far>` | How far: `yes`, `no` [default: no] |\n"), "{page}");
        assert!(page.contains("| `--quiet` | Say nothing |\n"), "{page}");
        assert!(page.contains("### `hoptax walk up`\n\nClimb.\n\n```text\nhoptax walk up\n```"), "{page}");
        assert!(!page.contains("hoptax walk down"), "{page}");
    }

    #[test]
    fn what_is_hidden_and_what_is_everywhere_is_left_out() {
        let page = page(program());
        for absent in ["secret", "inner", "--help <", "`-V, --version`", "## `hoptax help`"] {
            assert!(!page.contains(absent), "{absent}: {page}");
        }
    }
}

//! `hoptax reference`: prints docs/reference/cli.md, built from the help of the verbs.

use super::exit::Exit;
use clap::{Arg, Command};
use std::fmt::Write as _;
use std::io::{self, Write as _};

const HEAD: &str = "# The command line

All commands and options. `hoptax help COMMAND` prints the same. `make docs` generates this page from the program, and a test
checks that it is up to date.

| exit status | meaning |
| --- | --- |
| 0 | success: every case was measured, all budgets hold, no `void` finding |
| 1 | the command could not run, or no gateway could be measured |
| 2 | the plan or the command line is wrong; the error says where, why and how to fix it, and nothing was started |
| 3 | a budget or a limit of `hoptax load` is exceeded, a comparison or a change is worse (with `--fail-on worse`), or a pack is not equalised (`hoptax lint`) |
| 4 | measured, but a `void` [finding](findings.md) says that the result cannot be trusted |

Durations, rates, sizes and shares have [units](plan.md#units). `-h` prints short help, `--help` prints all of it.
";

/// Print the reference page of the command line, docs/reference/cli.md
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the OpenAPI document of the JSON interface of `hoptax serve` instead, docs/reference/openapi.json
    #[arg(long)]
    openapi: bool,
}

impl Args {
    /// Prints the page of `program`, the whole command line of hoptax.
    pub(super) fn run(self, program: Command) -> anyhow::Result<Exit> {
        match self.openapi {
            true => writeln!(io::stdout(), "{:#}", hoptax_history::serve::openapi())?,
            false => write!(io::stdout(), "{}", page(program))?,
        }
        Ok(Exit::Success)
    }
}

/// The page: an index of the visible verbs, and a section for each.
fn page(mut program: Command) -> String {
    program.build();
    // clap adds the verb `help`. The page does not list this verb, because the introduction of the page explains it.
    let is_shown = |verb: &&mut Command| !verb.is_hide_set() && verb.get_name() != "help";
    let mut verbs: Vec<&mut Command> = program.get_subcommands_mut().filter(is_shown).collect();
    let mut page = format!("{HEAD}\n| command | description |\n| --- | --- |\n");
    for verb in &verbs {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| [`hoptax {0}`](#hoptax-{0}) | {1} |", verb.get_name(), cell(&about));
    }
    for verb in &mut verbs {
        section(&mut page, verb, &format!("hoptax {}", verb.get_name()));
    }
    page
}

/// Writes the section of one verb: description, usage, arguments, and options by heading. Then writes the sections of
/// the verbs below this verb.
fn section(page: &mut String, verb: &mut Command, name: &str) {
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = verb.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = writeln!(
        page,
        "\n{} `{name}`\n\n{}\n\n```text\n{}\n```",
        if name.matches(' ').count() > 1 { "###" } else { "##" },
        with_full_stop(&about),
        usage.trim()
    );
    let mut headings: Vec<Option<&str>> = Vec::new();
    let shown: Vec<&Arg> = verb.get_arguments().filter(|arg| is_shown(arg)).collect();
    for heading in shown.iter().map(|arg| heading(arg)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for title in headings {
        let _ = writeln!(page, "\n| {} | description |\n| --- | --- |", title.unwrap_or("option"));
        for arg in shown.iter().filter(|arg| heading(arg) == title) {
            let _ = writeln!(page, "| `{}` | {} |", usage_of(arg), cell(&description(arg)));
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

/// True if the page lists this option. The page does not list hidden options. It also does not list `--help` and
/// `--version`, because every verb has these two options.
fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

/// Title of the table that lists the argument.
fn heading(arg: &Arg) -> Option<&str> {
    if arg.is_positional() { Some("argument") } else { arg.get_help_heading() }
}

/// The syntax of the argument, such as `-c, --connections <N>`.
fn usage_of(arg: &Arg) -> String {
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

/// Help text of the argument, with its values and its default.
fn description(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    if !arg.get_action().takes_values() {
        return help.trim().to_owned();
    }
    // If clap does not know the default, the help text ends with the default.
    let (help, default) = match help.trim().split_once(" [default: ") {
        Some((help, default)) => (help, Some(format!(" [default: {default}"))),
        None => (help.trim(), None),
    };
    format!("{help}{}{}", values(arg), default.unwrap_or_else(|| known_default(arg)))
}

/// The possible values, such as `: a (help), b`. Empty if the argument has no fixed set of values.
fn values(arg: &Arg) -> String {
    let words = arg.get_possible_values();
    let shown = words.iter().filter(|word| !word.is_hide_set()).map(|word| match word.get_help() {
        Some(help) => format!("`{}` ({help})", word.get_name()),
        None => format!("`{}`", word.get_name()),
    });
    let shown: Vec<String> = shown.collect();
    let is_visible = !shown.is_empty() && !arg.is_hide_possible_values_set();
    if is_visible { format!(": {}", shown.join(", ")) } else { String::new() }
}

fn known_default(arg: &Arg) -> String {
    let defaults: Vec<_> = arg.get_default_values().iter().map(|default| default.to_string_lossy()).collect();
    let is_visible = !defaults.is_empty() && !arg.is_hide_default_value_set();
    if is_visible { format!(" [default: `{}`]", defaults.join(" ")) } else { String::new() }
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The text with a full stop at the end. clap removes this full stop from short help.
fn with_full_stop(text: &str) -> String {
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
    fn a_verb_is_listed_with_its_arguments_and_options() {
        let page = page(program());
        assert!(page.contains("| [`hoptax go`](#hoptax-go) | Go there |\n"), "{page}");
        assert!(page.contains("```text\nhoptax go [OPTIONS] <PLACE>\n```"), "{page}");
        assert!(
            page.contains("| argument | description |\n| --- | --- |\n| `<PLACE>` | Where to \\| from |\n"),
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
    fn hidden_verbs_and_common_options_are_left_out() {
        let page = page(program());
        for absent in ["secret", "inner", "--help <", "`-V, --version`", "## `hoptax help`"] {
            assert!(!page.contains(absent), "{absent}: {page}");
        }
    }
}

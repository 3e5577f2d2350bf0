//! `hoptax generate reference`: pages of docs/reference. docs/reference/cli.md is built from the help of the
//! commands.

use crate::cli::exit::Exit;
use clap::{Arg, Command};
use hoptax_analysis::checks;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};

const HEAD: &str = "# The command line

All commands and options. `hoptax help COMMAND` prints the same, and the command's exit
statuses. `make docs` generates this page.

| exit status | meaning |
| --- | --- |
| 0 | success: every case was measured, all budgets hold, no `void` finding |
| 1 | the command could not run, no gateway could be measured, or the machine or a host is not fit (`hoptax doctor`, `hoptax hosts`) |
| 2 | the plan or the command line is wrong; the error says where, why and how to fix it, and nothing was started |
| 3 | a budget or a limit of `hoptax load` is exceeded, a comparison or a change is worse (with `--fail-on worse`), or a pack is not fair or not correct (`hoptax lint`) |
| 4 | measured, but a `void` [finding](findings.md) says that the result cannot be trusted |
| 5 | no budget is exceeded, but one is inconclusive (`hoptax run`, `hoptax gate`) |

Durations, rates, sizes and shares have [units](plan.md#units). `-h` prints short help, `--help` prints all of it.
";

/// Start of the paragraph of a command's help that explains its exit statuses. The page leaves this paragraph
/// out, because its table has all exit statuses.
const EXIT_STATUS: &str = "Exit status:";

/// If at least this many commands describe an argument or option in the same words, the page describes it
/// only once.
const SEVERAL: usize = 2;

/// Print a generated page of hoptax's documentation
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Page to print
    #[arg(value_enum, default_value_t = Page::Cli)]
    page: Page,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Page {
    /// Commands and options: docs/reference/cli.md
    Cli,
    /// Findings: docs/reference/findings.md
    Findings,
    /// OpenAPI document of the JSON interface of `hoptax serve`: docs/reference/openapi.json
    Openapi,
}

impl Args {
    /// Prints the page of `program`, the whole command line of hoptax.
    pub(super) fn run(self, program: Command) -> anyhow::Result<Exit> {
        let text = match self.page {
            Page::Cli => page(program),
            Page::Findings => checks::page(&checks::rules()),
            Page::Openapi => format!("{:#}\n", hoptax_history::serve::openapi()),
        };
        io::stdout().write_all(text.as_bytes())?;
        Ok(Exit::Success)
    }
}

/// The page: an index of the visible verbs, and a section for each.
fn page(mut program: Command) -> String {
    program.build();
    // clap adds the verb `help`. The page does not list this verb, because the introduction of the page
    // explains it.
    let is_shown = |verb: &&mut Command| !verb.is_hide_set() && verb.get_name() != "help";
    let mut verbs: Vec<&mut Command> = program.get_subcommands_mut().filter(is_shown).collect();
    let links = verbs.iter().map(|verb| format!("[`{0}`](#hoptax-{0})", verb.get_name()));
    let mut page = format!("{HEAD}\nCommands: {}\n", links.collect::<Vec<_>>().join(", "));
    let common = common(&verbs);
    if !common.is_empty() {
        let _ = writeln!(page, "\n## Common options\n");
        for line in &common {
            let _ = writeln!(page, "{line}");
        }
    }
    for verb in &mut verbs {
        section(&mut page, verb, &format!("hoptax {}", verb.get_name()), &common);
    }
    page
}

/// The lines of arguments and options that several commands have in common, sorted. The page describes them
/// once.
fn common(verbs: &[&mut Command]) -> Vec<String> {
    fn count(verb: &Command, commands: &mut BTreeMap<String, usize>) {
        for arg in verb.get_arguments().filter(|arg| is_shown(arg)) {
            *commands.entry(line(arg)).or_default() += 1;
        }
        for own in verb.get_subcommands().filter(|own| !own.is_hide_set()) {
            count(own, commands);
        }
    }
    let mut commands = BTreeMap::new();
    for verb in verbs {
        count(verb, &mut commands);
    }
    commands.into_iter().filter(|(_, count)| *count >= SEVERAL).map(|(line, _)| line).collect()
}

/// An argument or option with its description, as an item of a list.
fn line(arg: &Arg) -> String {
    format!("- `{}`: {}", usage_of(arg), one_line(&description(arg)))
}

/// Writes the section of one verb: description, usage, arguments, and options by heading. Then writes the
/// sections of the verbs below this verb.
fn section(page: &mut String, verb: &mut Command, name: &str, common: &[String]) {
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = verb.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).trim();
    let level = if name.matches(' ').count() > 1 { "###" } else { "##" };
    let _ = writeln!(page, "\n{level} `{name}`\n\n{}", with_full_stop(&about));
    // The lists below show positional arguments, but not that an option is required.
    if usage.contains("--") {
        let _ = writeln!(page, "\n```text\n{usage}\n```");
    }
    let shown: Vec<&Arg> = verb.get_arguments().filter(|arg| is_shown(arg)).collect();
    let (shared, own): (Vec<&Arg>, Vec<&Arg>) =
        shown.into_iter().partition(|arg| common.contains(&line(arg)));
    let mut headings: Vec<Option<&str>> = Vec::new();
    for heading in own.iter().map(|arg| heading(arg)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for title in headings {
        let _ = match title {
            Some(title) => writeln!(page, "\n{title}:\n"),
            None => writeln!(page),
        };
        for arg in own.iter().filter(|arg| heading(arg) == title) {
            let _ = writeln!(page, "{}", line(arg));
        }
    }
    if !shared.is_empty() {
        let names: Vec<String> = shared.iter().map(|arg| format!("`{}`", name_of(arg))).collect();
        let _ = writeln!(page, "\n[Common](#common-options): {}", names.join(", "));
    }
    if let Some(after) = verb.get_after_long_help().or(verb.get_after_help()) {
        let after = after.to_string();
        for paragraph in after.split("\n\n").filter(|paragraph| !paragraph.starts_with(EXIT_STATUS)) {
            let _ = writeln!(page, "\n{paragraph}");
        }
    }
    for own in verb.get_subcommands_mut().filter(|own| !own.is_hide_set()) {
        let name = format!("{name} {}", own.get_name());
        section(page, own, &name, common);
    }
}

/// True if the page lists this option. The page does not list hidden options. It also does not list `--help`
/// and `--version`, because every verb has these two options.
fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

/// Title of the list that has the argument. Positional arguments and options without a title come first.
fn heading(arg: &Arg) -> Option<&str> {
    arg.get_help_heading()
}

/// The shortest name of the argument, such as `--set` or `<PLAN>`.
fn name_of(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| usage_of(arg), |long| format!("--{long}"))
}

/// The syntax of the argument, such as `-c, --connections <N>`.
fn usage_of(arg: &Arg) -> String {
    let mut form: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
    form.extend(arg.get_long().map(|long| format!("--{long}")));
    let mut words = vec![form.join(", ")];
    if arg.get_action().takes_values() {
        let is_optional = arg.is_positional() && !arg.is_required_set();
        let shown = |name: &str| if is_optional { format!("[{name}]") } else { format!("<{name}>") };
        match arg.get_value_names() {
            Some(names) => words.extend(names.iter().map(|name| shown(name.as_str()))),
            None => words.push(shown(arg.get_id().as_str())),
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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text with a full stop at the end. clap removes this full stop from short help.
fn with_full_stop(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ':', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}

//! The help of hoptax, which lists commands in groups: clap has headings for options, but not for commands.

use clap::Command;
use clap::builder::Styles;
use std::fmt::Write as _;

/// The commands in the order of the help. The first group is for somebody who has just installed hoptax.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start here", &["init", "doctor", "run", "report", "compare"]),
    ("Plans", &["check", "import", "hosts"]),
    ("More measurements", &["load", "profile", "bisect", "calibrate"]),
    ("Results", &["gate", "history", "serve", "findings"]),
    ("Gateways", &["gateways", "builds", "lint", "render"]),
    ("Built-in servers", &["upstream", "hop"]),
    ("Shells, editors and pages", &["generate", "help"]),
];

/// Width of the names of the commands.
const NAMES: usize = 10;

/// The command line, with the help that lists its commands in groups.
pub(super) fn grouped(program: Command) -> Command {
    let list = list(&program);
    let styles = Styles::default();
    let header = styles.get_header();
    program.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}\n"
    ))
}

fn list(program: &Command) -> String {
    let styles = Styles::default();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut list = String::new();
    for (title, names) in GROUPS {
        let about = |name: &str| match program.find_subcommand(name) {
            Some(verb) => verb.get_about().map(ToString::to_string),
            None => (name == "help").then(|| "Print the help of hoptax or of one command".to_owned()),
        };
        let lines: Vec<String> = names
            .iter()
            .filter_map(|name| Some(format!("  {literal}{name:<NAMES$}{literal:#}{}\n", about(name)?)))
            .collect();
        // Other systems than Linux have no built-in servers.
        if !lines.is_empty() {
            let _ = writeln!(list, "{header}{title}:{header:#}\n{}", lines.concat());
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::super::program;
    use super::*;

    #[test]
    fn the_help_lists_every_visible_command_once_and_first_those_that_a_new_user_needs() {
        let help = program().render_help().to_string();
        let listed = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let listed: Vec<&str> = listed.filter(|name| !name.is_empty() && !name.starts_with('-')).collect();
        let program = program();
        let visible = program.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
        assert_eq!(
            listed,
            visible.chain(["help"]).collect::<Vec<_>>(),
            "the order of `Verb` and of the groups"
        );
        let (first, _) = help.split_once("\n\nPlans:\n").expect("a second group");
        let (_, first) = first.split_once("\nStart here:\n").expect("a first group");
        assert_eq!(first.lines().count(), 5, "{first}");
        assert!(help.contains("\nOptions:\n  -h, --help"), "{help}");
    }

    #[test]
    fn the_help_fits_a_terminal_of_80_columns() {
        for line in program().render_help().to_string().lines().skip(2) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

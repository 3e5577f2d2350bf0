//! `hoptax generate completions` and `hoptax generate man`. Shells and `man` must accept their output.

use crate::support::{Scratch, hoptax, refusals, skip, succeed};
use std::path::Path;
use std::process::{Command, Output};

fn printed(arguments: &[&str]) -> String {
    succeed(hoptax().args(arguments))
}

/// Output of a program. If the program is not installed, notes a skip and returns `None`.
fn said(program: &str, arguments: &[&str], file: &Path) -> Option<Output> {
    let said = Command::new(program).args(arguments).arg(file).env("MANWIDTH", "80").output().ok();
    if said.is_none() {
        skip(format!("{program} is not installed"));
    }
    said
}

fn verbs() -> Vec<String> {
    verbs_of(&[])
}

fn verbs_of(verb: &[&str]) -> Vec<String> {
    let help = printed(&[verb, &["--help"]].concat());
    // The help of hoptax lists its commands in groups.
    let (_, list) =
        help.split_once("Commands:\n").or_else(|| help.split_once("Start here:\n")).expect("a list");
    let lines = list.lines().take_while(|line| !["Options:", "Arguments:"].contains(line));
    let verbs = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    verbs
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .filter(|verb| verb != "help")
        .collect()
}

#[test]
fn shells_take_their_completions() {
    let scratch = Scratch::new();
    let verbs = verbs();
    assert!(verbs.len() > 10, "{verbs:?}");
    for (shell, check) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-execute"])] {
        let script = printed(&["generate", "completions", shell]);
        for verb in &verbs {
            assert!(script.contains(verb.as_str()), "{shell} does not know {verb}");
        }
        assert!(script.contains("--format") || script.contains("-l format"), "{shell} knows no options");
        let file = scratch.file(&format!("hoptax.{shell}"), &script);
        if let Some(output) = said(shell, check, &file) {
            assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn bash_completes_verbs_formats_and_files() {
    let scratch = Scratch::new();
    let script = scratch.file("hoptax.bash", &printed(&["generate", "completions", "bash"]));
    let complete = |words: &str, last: usize| {
        let asked = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; _hoptax hoptax \"${{COMP_WORDS[{last}]}}\" \
             \"${{COMP_WORDS[{last}-1]}}\"; echo \"${{COMPREPLY[*]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["-c", &asked]).output().expect("bash is there");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(complete("hoptax rep", 1), "report");
    assert_eq!(complete("hoptax guar", 1), "", "internal commands are not offered");
    assert_eq!(complete("hoptax report --format fo", 3), "fortio");
    assert!(complete("hoptax report --", 2).contains("--output"));
}

#[test]
fn manual_pages_render() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("man1");
    printed(&["generate", "man", "--output", &folder.to_string_lossy()]);
    let verbs = verbs();
    let pages = std::fs::read_dir(&folder).expect("made").count();
    let own: Vec<String> = ["builds", "generate", "history", "hosts"]
        .into_iter()
        .flat_map(|verb| verbs_of(&[verb]).into_iter().map(move |one| format!("{verb}-{one}")))
        .collect();
    assert!(own.len() > 6, "{own:?}");
    assert_eq!(pages, verbs.len() + own.len() + 1);
    let verbs: Vec<String> = own.into_iter().chain(verbs).collect();
    for name in verbs.iter().map(|verb| format!("hoptax-{verb}")).chain(["hoptax".to_owned()]) {
        let page = folder.join(format!("{name}.1"));
        let text = std::fs::read_to_string(&page).expect("a page");
        assert!(text.contains(&format!(".TH {name} 1")) && text.contains(".SH SYNOPSIS"), "{text}");
        if let Some(output) = said("man", &["--warnings", "-E", "UTF-8", "-l"], &page) {
            let (shown, errors) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if shown.contains("NAME") {
                assert!(shown.contains("SYNOPSIS") && shown.contains("OPTIONS"), "{shown}");
                assert!(errors.is_empty(), "{name}: {errors}");
            } else {
                // In some containers, `man` does nothing but print that manual pages were removed.
                skip("man is not installed");
            }
        }
        if let Some(output) = said("mandoc", &["-Tlint", "-Werror"], &page) {
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
    assert_eq!(
        printed(&["generate", "man"]),
        std::fs::read_to_string(folder.join("hoptax.1")).expect("a page")
    );
    assert_eq!(
        printed(&["generate", "man", "run"]),
        std::fs::read_to_string(folder.join("hoptax-run.1")).expect("a page")
    );
    insta::assert_snapshot!(refusals::refusals(&["generate", "man"], &[&["repotr"]]));
}

//! Reports in the formats of other tools, with one file per case. This module chooses the cases and their
//! files.

use crate::cli::exit::{BadInput, Exit};
use crate::cli::output::{print, write_file};
use anyhow::Context as _;
use hoptax_analysis::Pooled;
use hoptax_plan::units::nearest;
use hoptax_record::dir::Run;
use hoptax_report::foreign;
use hoptax_report::formats::DrawCase;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[derive(Debug)]
pub(super) struct Document {
    pub(super) format: &'static str,
    pub(super) ending: &'static str,
    pub(super) draw: DrawCase,
}

/// Writes the document of one case to a file or to standard output, or the documents of all cases to a
/// directory.
pub(super) fn each(
    run: &Run,
    document: &Document,
    case: Option<&str>,
    output: Option<&Path>,
) -> anyhow::Result<Exit> {
    let cases = measured(run)?;
    let typed = case.map(|typed| chosen(&cases, typed)).transpose()?;
    match (typed, &cases[..], output) {
        (Some(case), _, output) => one(run, document, case, output)?,
        (None, [only], None) => one(run, document, only, None)?,
        (None, several, Some(folder)) => all(run, document, several, folder)?,
        (None, several, None) => {
            return Err(BadInput(format!(
                "--format {} writes one file for each of the {} cases; name a directory with --output, or \
                one case with --case: {}",
                document.format,
                several.len(),
                names(several)
            ))
            .into());
        }
    }
    Ok(Exit::Success)
}

/// The cases that were measured. Fails with [`BadInput`] if no case was measured.
pub(super) fn measured(run: &Run) -> Result<Vec<Pooled>, BadInput> {
    let cases = Pooled::all(&run.record, &run.trials);
    if cases.is_empty() {
        return Err(BadInput(format!(
            "{}: the run has no measured case (searches for capacity are not cases); `hoptax report {}` \
            shows what the run has",
            run.path.display(),
            run.path.display()
        )));
    }
    Ok(cases)
}

/// The case with the name `typed`. If a gateway has only one case, its label is accepted too.
fn chosen<'c>(cases: &'c [Pooled], typed: &str) -> Result<&'c Pooled, BadInput> {
    if let Some(case) = cases.iter().find(|case| case.case.eq_ignore_ascii_case(typed.trim())) {
        return Ok(case);
    }
    let of_gateway: Vec<&Pooled> = cases.iter().filter(|case| case.gateway == typed.trim()).collect();
    match of_gateway[..] {
        [only] => Ok(only),
        [] => {
            let known = cases.iter().flat_map(|case| [case.case.as_str(), case.gateway.as_str()]);
            let meant =
                nearest(typed, known).map_or(".".to_owned(), |name| format!("; did you mean `{name}`?"));
            Err(BadInput(format!(
                "--case: the run has no measured case `{typed}`{meant} The cases are {}",
                names(cases)
            )))
        }
        _ => {
            let of_gateway: Vec<Pooled> = of_gateway.into_iter().cloned().collect();
            Err(BadInput(format!(
                "--case: the gateway `{typed}` has several cases; choose one: {}",
                names(&of_gateway)
            )))
        }
    }
}

/// Names of some cases, for an error message.
fn names(cases: &[Pooled]) -> String {
    const MOST: usize = 6;
    let names: Vec<String> = cases.iter().take(MOST).map(|case| format!("`{}`", case.case)).collect();
    let more = cases.len().saturating_sub(MOST);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}

fn one(run: &Run, document: &Document, case: &Pooled, output: Option<&Path>) -> anyhow::Result<()> {
    let text = (document.draw)(&run.record, case)?;
    match output {
        Some(path) if path.is_dir() => {
            let path = path.display();
            Err(BadInput(format!("--output {path} is a directory; with --case, name a file")).into())
        }
        Some(path) => write_file(path, &text),
        None => print(&text),
    }
}

fn all(run: &Run, document: &Document, cases: &[Pooled], folder: &Path) -> anyhow::Result<()> {
    if folder.is_file() {
        return Err(BadInput(format!(
            "--output {} is a file, but --format {} writes one file per case; name a directory, or choose \
            one case with --case",
            folder.display(),
            document.format
        ))
        .into());
    }
    fs::create_dir_all(folder).with_context(|| {
        format!("cannot create {}; choose another directory with --output", folder.display())
    })?;
    let mut taken = BTreeSet::new();
    for case in cases {
        let name = unique_name(&mut taken, &foreign::file_name(&case.case));
        let text = (document.draw)(&run.record, case)?;
        write_file(&folder.join(format!("{name}.{}", document.ending)), &text)?;
    }
    eprintln!("{} files in {}", cases.len(), folder.display());
    Ok(())
}

/// Makes a name unique. If another case already has this name, a number is appended.
fn unique_name(taken: &mut BTreeSet<String>, name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or_default();
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::fixture;

    #[test]
    fn file_names_are_unique() {
        let mut taken = BTreeSet::new();
        let names: Vec<String> =
            ["a", "a", "a-2", "a"].iter().map(|name| unique_name(&mut taken, name)).collect();
        assert_eq!(names, ["a", "a-2", "a-2-2", "a-3"]);
    }

    #[test]
    fn a_case_is_found_by_its_name_or_its_gateway() {
        let run = fixture::Run::steady(2, 100, &[("nginx", 150)]);
        let cases = Pooled::all(&run.record, &run.trials);
        for typed in ["nginx", "nginx, closed loop, 32 connections", "NGINX, closed loop, 32 connections "] {
            assert_eq!(chosen(&cases, typed).expect(typed).gateway, "nginx");
        }
        let error = chosen(&cases, "ngnix").expect_err("no such case").0;
        insta::assert_snapshot!(error);
    }
}

//! The directory that contains the run directories. The user gives it as an argument or with `--root`.

use super::exit::BadInput;
use super::help;
use std::path::PathBuf;

/// The results directory if the user gives none. The default of `hoptax run` is the same.
const DEFAULT: &str = "results";

/// Results directory as typed: an argument, or `--root` (the older form).
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ResultsDir {
    #[arg(value_name = "DIR", help = help::RESULTS_DIR)]
    dir: Option<PathBuf>,

    #[arg(long, global = true, value_name = "DIR", help = help::ROOT)]
    root: Option<PathBuf>,
}

impl ResultsDir {
    /// The directory that the user typed. Absent if the user typed none. Fails with [`BadInput`] if the user
    /// typed both forms. clap cannot check this, because DIR precedes a sub-verb and `--root` can follow the
    /// sub-verb.
    pub(super) fn typed(&self) -> Result<Option<PathBuf>, BadInput> {
        match (&self.dir, &self.root) {
            (Some(dir), Some(root)) => Err(BadInput(format!(
                "the results directory is given twice: `{}` and --root {}\nhelp: leave out --root",
                dir.display(),
                root.display()
            ))),
            (dir, root) => Ok(dir.clone().or_else(|| root.clone())),
        }
    }

    /// The directory that the user typed, or `results` if the user typed none. Fails with [`BadInput`] if the
    /// user typed both forms, or if there is no such directory.
    pub(super) fn existing(&self) -> Result<PathBuf, BadInput> {
        existing(self.typed()?.unwrap_or_else(|| DEFAULT.into()))
    }
}

/// Returns `root` if it is a directory. Fails with [`BadInput`] if `root` is not a directory.
pub(super) fn existing(root: PathBuf) -> Result<PathBuf, BadInput> {
    if root.is_dir() {
        return Ok(root);
    }
    let shown = root.display();
    let what = if root.exists() { "is not a directory" } else { "does not exist" };
    Err(BadInput(format!(
        "the results directory {shown} {what}\nhelp: name the directory that contains your run directories, \
         or measure first: hoptax run PLAN"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        results: ResultsDir,
    }

    fn typed(arguments: &[&str]) -> Result<Option<PathBuf>, BadInput> {
        Typed::parse_from(std::iter::once(&"serve").chain(arguments)).results.typed()
    }

    #[test]
    fn both_forms_name_the_directory_and_together_they_are_an_error() {
        assert_eq!(typed(&[]).expect("nothing is typed"), None);
        assert_eq!(typed(&["a"]).expect("one form"), Some("a".into()));
        assert_eq!(typed(&["--root", "b"]).expect("one form"), Some("b".into()));
        let error = typed(&["a", "--root", "b"]).expect_err("two forms").0;
        insta::assert_snapshot!(error);
    }

    #[test]
    fn a_missing_directory_is_an_error_that_says_what_to_do() {
        let error = existing("/nowhere".into()).expect_err("it does not exist").0;
        insta::assert_snapshot!(error);
    }
}

//! `hoptax init`.

use super::exit::{BadInput, Exit};
use anyhow::Context as _;
use hoptax_plan as plan;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// Schema of plans for editors, in the directory of the plan.
const SCHEMA: &str = "hoptax.schema.json";

/// Write a commented plan to start from, and its schema for editors
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File to write
    #[arg(value_name = "FILE", default_value = "hoptax.yaml")]
    file: PathBuf,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let name = self.file.display();
        if self.file.is_dir() {
            return Err(
                BadInput(format!("{name} is a directory; name a file, as in {name}/hoptax.yaml")).into()
            );
        }
        let mut options = OpenOptions::new();
        options.write(true);
        // `create_new` checks for the file and creates the file in one step. Therefore hoptax does not
        // overwrite a file that another program creates at the same moment.
        if self.force {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        let mut file = match options.open(&self.file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let message =
                    format!("{name} already exists; name another file, or overwrite it with --force");
                return Err(BadInput(message).into());
            }
            opened => opened.with_context(|| {
                format!("cannot write {name}; check that its directory exists and is writable")
            })?,
        };
        // This comment must be the first line of the file.
        let text = format!("# yaml-language-server: $schema={SCHEMA}\n{}", plan::TEMPLATE);
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write {name}"))?;
        let schema = self.file.with_file_name(SCHEMA);
        let content = serde_json::to_string_pretty(&plan::schema())? + "\n";
        std::fs::write(&schema, content).with_context(|| format!("cannot write {}", schema.display()))?;
        let hoptax = program(std::env::args_os().next());
        let schema = schema.display();
        writeln!(
            std::io::stdout(),
            "wrote {name} and {schema}; next: {hoptax} check {name}, then {hoptax} run {name}"
        )?;
        Ok(Exit::Success)
    }
}

/// The command that starts hoptax again. `called` is the first word of the current command line. A user who
/// has just unpacked hoptax calls `./hoptax`, which is not on PATH.
fn program(called: Option<OsString>) -> String {
    let called = called.and_then(|called| called.into_string().ok());
    called.filter(|called| called.starts_with('.')).unwrap_or_else(|| "hoptax".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_on_the_path_is_named_as_it_was_called() {
        let of = |called: &str| program(Some(called.into()));
        assert_eq!([of("./hoptax"), of("../bin/hoptax")], ["./hoptax", "../bin/hoptax"]);
        assert_eq!([of("hoptax"), of("/home/me/.cache/uv/x/bin/hoptax"), program(None)], ["hoptax"; 3]);
    }
}

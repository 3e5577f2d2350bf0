//! Reads machines of a Terraform configuration.

use super::reader::Reader;
use crate::raw::{Placed, RawDestroy, RawOutputs, RawTerraform};
use crate::{HostKind, Terraform, TerraformReach};
use std::path::{Path, PathBuf};

/// Reads the machines of the host `host`. If they are wrong, records an error and returns `None`.
pub(super) fn host(reader: &mut Reader<'_>, host: &str, typed: &RawTerraform) -> Option<HostKind> {
    let before = reader.faults.len();
    let RawOutputs { ssh, command, address } = &typed.outputs.value;
    let reach = match (ssh, command) {
        (Some(ssh), None) => Some(TerraformReach::Ssh(output(reader, ssh))),
        (None, Some(command)) => Some(TerraformReach::Command(output(reader, command))),
        (Some(_), Some(command)) => {
            let help = "remove `command`, because a host is reached in one way";
            reader.fault(command.place, format!("the host `{host}` has outputs for ssh and command"), help);
            None
        }
        (None, None) => {
            let message = format!("no output says how to reach the host `{host}`");
            let help = "add the name of an output, such as outputs: { ssh: edge_ip }";
            reader.fault(typed.outputs.place, message, help);
            None
        }
    };
    let address = address.as_ref().map(|address| output(reader, address));
    if let (Some(user), Some(_)) = (&typed.user, command) {
        reader.fault(user.place, "`user` is only for ssh", "remove it, or write it into the command");
    }
    let destroy = typed.destroy.as_ref().is_some_and(|destroy| destroy.value == RawDestroy::After);
    let apply = typed.apply.unwrap_or(false);
    if let Some(typed) = typed.destroy.as_ref().filter(|_| destroy && !apply) {
        let message = "hoptax destroys only what it has created, and `apply` is not true";
        reader.fault(typed.place, message, "add apply: true, or remove `destroy`");
    }
    let user = typed.user.as_ref().map(|user| user_name(reader, user));
    let program = typed.program.as_ref().map(|program| {
        if program.value.is_empty() || program.value.starts_with('-') {
            let message = format!("`{}` is not a program", program.value.escape_debug());
            reader.fault(program.place, message, "write terraform, tofu, or a path");
        }
        program.value.clone()
    });
    let dir = directory(reader, &typed.dir);
    let is_right = reader.faults.len() == before;
    let reach = reach.filter(|_| is_right)?;
    Some(HostKind::Terraform(Terraform { dir, reach, address, user, apply, destroy, program }))
}

/// Checks the name of an output.
fn output(reader: &mut Reader<'_>, name: &Placed<String>) -> String {
    let text = &name.value;
    let starts = |letter: char| letter.is_alphabetic() || letter == '_';
    if !text.starts_with(starts)
        || !text.chars().all(|letter| letter.is_alphanumeric() || "_-".contains(letter))
    {
        let message = format!("`{}` is not the name of an output", text.escape_debug());
        reader.fault(name.place, message, "write a name that `terraform output` prints");
    }
    text.clone()
}

fn user_name(reader: &mut Reader<'_>, name: &Placed<String>) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if name.value.is_empty() || name.value.starts_with('-') || !name.value.chars().all(allowed) {
        let message = format!("`{}` is not the name of a user", name.value.escape_debug());
        reader.fault(name.place, message, "write the user of the machine's image, such as ubuntu or admin");
    }
    name.value.clone()
}

/// Checks that the directory exists and has a configuration.
fn directory(reader: &mut Reader<'_>, typed: &Placed<String>) -> PathBuf {
    let path = reader.context.directory.join(&typed.value);
    match std::fs::read_dir(&path) {
        Ok(entries) => {
            if !entries.flatten().any(|entry| is_configuration(&entry.path())) {
                let message = format!("{} contains no configuration of Terraform", path.display());
                reader.fault(typed.place, message, "give the directory of your *.tf files");
            }
        }
        Err(error) => {
            let message = format!("cannot read the directory {}: {error}", path.display());
            let help = format!(
                "check the path; a relative path starts from the directory of {}",
                reader.sources.file
            );
            reader.fault(typed.place, message, help);
        }
    }
    path
}

fn is_configuration(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    [".tf", ".tf.json", ".tofu", ".tofu.json"].iter().any(|end| name.ends_with(end))
}

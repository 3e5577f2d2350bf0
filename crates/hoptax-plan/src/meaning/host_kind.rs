//! Reads how hoptax reaches a host.

use super::reader::Reader;
use super::{kubernetes, terraform, words};
use crate::error::Place;
use crate::raw::{Placed, RawCommand, RawHost, Short, Sweep, Text};
use crate::{HostKind, LOCAL};

/// The keys of a host that say how hoptax reaches it.
const KINDS: &str =
    "ssh: NAME, command: WORDS, docker: CONTAINER, kubernetes: { pod: NAME } or terraform: { dir: PATH, … }";

/// Reads the kind of the host `name`. If there is none or it is wrong, records an error and returns `None`.
pub(super) fn read(reader: &mut Reader<'_>, name: &Placed<String>, typed: &RawHost) -> Option<HostKind> {
    let keys = keys(typed);
    if name.value == LOCAL {
        if let Some((key, place)) = keys.first() {
            let message = format!("`{LOCAL}` is the machine that runs hoptax, and has no `{key}`");
            reader.fault(*place, message, "remove it, or give the host another name");
        }
        return Some(HostKind::Local);
    }
    if let [_, (second, place), ..] = keys.as_slice() {
        let names: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
        let message = format!("the host `{}` has {}", name.value, names.join(" and "));
        reader.fault(*place, message, format!("remove `{second}`, because a host is reached in one way"));
        return None;
    }
    match typed {
        RawHost { ssh: Some(names), .. } => ssh(reader, names),
        RawHost { command: Some(typed), .. } => command(reader, typed).map(HostKind::Command),
        RawHost { commands: Some(typed), .. } => commands(reader, typed),
        RawHost { docker: Some(container), .. } => docker(reader, container),
        RawHost { kubernetes: Some(pods), .. } => kubernetes::host(reader, &name.value, pods),
        RawHost { terraform: Some(typed), .. } => terraform::host(reader, &name.value, &typed.value),
        _ => {
            let message = format!("nothing says how to reach the host `{}`", name.value);
            reader.fault(name.place, message, format!("add {KINDS}"));
            None
        }
    }
}

/// The keys of `typed` that say how to reach the host, with their places.
fn keys(typed: &RawHost) -> Vec<(&'static str, Place)> {
    let ssh = typed.ssh.as_ref().map(|names| names.0.first().map_or_else(Place::default, |name| name.place));
    let keys = [
        ("ssh", ssh),
        ("command", typed.command.as_ref().map(|typed| typed.place)),
        ("commands", typed.commands.as_ref().map(|typed| typed.place)),
        ("docker", typed.docker.as_ref().map(|typed| typed.place)),
        ("kubernetes", typed.kubernetes.as_ref().map(|typed| typed.place)),
        ("terraform", typed.terraform.as_ref().map(|typed| typed.place)),
    ];
    keys.into_iter().filter_map(|(key, place)| Some((key, place?))).collect()
}

fn ssh(reader: &mut Reader<'_>, typed: &Sweep<Text>) -> Option<HostKind> {
    let mut names: Vec<String> = Vec::new();
    for Placed { place, value: Text(name) } in &typed.0 {
        if !is_ssh_name(name) {
            let help = "write one name for each machine, and put options into ~/.ssh/config; a list of \
                        machines is [bench1, bench2]";
            reader.fault(*place, format!("`{}` is not a name for ssh", name.escape_debug()), help);
            return None;
        }
        if names.contains(name) {
            reader.fault(*place, format!("`{name}` appears twice"), "remove one of the two");
            return None;
        }
        names.push(name.clone());
    }
    Some(HostKind::Ssh(names))
}

/// True for `name`, `user@name`, an address, or `ssh://user@name:port`. A name must not look like an option.
fn is_ssh_name(name: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-@:/[]%".contains(letter);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(allowed)
}

fn commands(reader: &mut Reader<'_>, typed: &Placed<Vec<Placed<RawCommand>>>) -> Option<HostKind> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    for one in &typed.value {
        let words = command(reader, one)?;
        if commands.contains(&words) {
            reader.fault(one.place, format!("`{}` appears twice", words.join(" ")), "remove one of the two");
            return None;
        }
        commands.push(words);
    }
    if commands.is_empty() {
        let help = "write a list with a command for each machine: [ip netns exec c1, ip netns exec c2]";
        reader.fault(typed.place, "`commands` is empty", help);
        return None;
    }
    Some(HostKind::Commands(commands))
}

/// The words of a command.
fn command(reader: &mut Reader<'_>, typed: &Placed<RawCommand>) -> Option<Vec<String>> {
    let words = match &typed.value {
        Short::Word(text) => {
            reader.unit(&Placed { place: typed.place, value: text.clone() }, words::split)?
        }
        Short::Full(words) => words.iter().map(|word| word.value.0.clone()).collect(),
    };
    let mistake = match words.as_slice() {
        [] => Some(("`command` is empty", "write a command that runs the words after it: ip netns exec app")),
        [first, ..] if first.is_empty() => {
            Some(("the first word of the command is empty", "write the name of a program first"))
        }
        words if words.iter().any(|word| word.contains('\0')) => {
            Some(("the command contains a zero byte", "remove it"))
        }
        [.., program, agent] if agent == "agent" && program.ends_with("hoptax") => Some((
            "hoptax adds the words `hoptax agent` to the command itself",
            "remove the two words; the key `hoptax` sets the path of the program",
        )),
        _ => None,
    };
    if let Some((message, help)) = mistake {
        reader.fault(typed.place, message, help);
        return None;
    }
    Some(words)
}

fn docker(reader: &mut Reader<'_>, container: &Placed<String>) -> Option<HostKind> {
    let name = &container.value;
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) || !name.chars().all(allowed) {
        let message = format!("`{}` is not the name of a container", name.escape_debug());
        reader.fault(container.place, message, "write a name that `docker ps` prints");
        return None;
    }
    Some(HostKind::Docker(name.clone()))
}

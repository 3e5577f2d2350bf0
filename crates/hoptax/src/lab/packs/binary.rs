//! Whether a gateway is installed, and which version.

use super::{Pack, PackError};
use crate::lab::docker::{self, Container};
use crate::lab::render;
use crate::plan::PackDriver;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest time that a version command may take; some start a virtual machine first.
const VERSION_BOUND: Duration = Duration::from_secs(60);

/// Where daemons are that are not on every user's PATH.
const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Directories that are searched for gateways, in order: PATH, the tools directory, the system's directories of
/// daemons.
pub fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.extend(tools_directory());
    directories.extend(SYSTEM.map(PathBuf::from));
    directories
}

/// `$HOPTAX_HOME/tools/bin`, where HOPTAX_HOME is `$XDG_DATA_HOME/hoptax` or `~/.local/share/hoptax` unless set.
pub fn tools_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = set("HOPTAX_HOME")
        .or_else(|| set("XDG_DATA_HOME").map(|data| data.join("hoptax")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/hoptax")))?;
    Some(home.join("tools/bin"))
}

/// Absolute path of the pack's program, where it is installed with all that it needs.
pub fn find(pack: &Pack) -> Option<PathBuf> {
    find_in(&pack.manifest().binary, &search_path()).filter(|_| lacking(pack).is_none())
}

/// Places of a file that the pack needs and none of which has it, where its program is there.
pub fn lacking(pack: &Pack) -> Option<&[String]> {
    find_in(&pack.manifest().binary, &search_path())?;
    let mut needs = pack.manifest().needs.values();
    needs.find(|places| !places.iter().any(|place| Path::new(place).exists())).map(Vec::as_slice)
}

/// Where each file that the pack needs is; the first place that was thought of for one that is nowhere.
pub fn needed(pack: &Pack) -> BTreeMap<String, String> {
    let is_there = |place: &String| Path::new(place).exists();
    let needs = pack.manifest().needs.iter();
    needs
        .map(|(name, places)| {
            let place = &places[places.iter().position(is_there).unwrap_or(0)];
            (name.clone(), place.clone())
        })
        .collect()
}

fn find_in(binary: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    if binary.contains('/') {
        let path = std::path::absolute(binary).ok()?;
        return is_program(&path).then_some(path);
    }
    let found = directories.iter().map(|directory| directory.join(binary)).find(|path| is_program(path))?;
    std::path::absolute(found).ok()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Version as the program tells it; absent when it does not start, takes too long or says something else.
///
/// # Errors
/// If the pack's version command cannot be rendered.
pub fn version(pack: &Pack, binary: &Path) -> Result<Option<String>, PackError> {
    let command = render::version_command(pack, binary)?;
    let pattern = regex_lite::Regex::new(&pack.manifest().version.pattern).expect("checked with the pack");
    let said = output_of(&command, VERSION_BOUND).unwrap_or_default();
    let version = pattern.captures(&said).and_then(|groups| groups.get(1));
    Ok(version.map(|version| version.as_str().to_owned()))
}

/// What a command prints on both its outputs, whatever its exit code; nothing when it exceeds `bound`.
pub(crate) fn output_of(command: &[String], bound: Duration) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let (mut read, write) = std::io::pipe().ok()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(write.try_clone().ok()?)
        .stderr(write)
        .spawn()
        .ok()?;
    let (said, heard) = std::sync::mpsc::channel();
    // Ends when the command does: it holds the only writing end.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = read.read_to_end(&mut bytes);
        let _ = said.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    let text = heard.recv_timeout(bound).ok();
    if text.is_none() {
        let _ = child.kill();
    }
    let _ = child.wait();
    text
}

/// How to install the pack's gateway, one line per way; the last one goes without.
pub fn how_to_install(pack: &Pack) -> Vec<String> {
    let manifest = pack.manifest();
    let built = manifest.build.iter().map(|build| match build.needs.as_slice() {
        [] => "make gateways-extra".to_owned(),
        needs => format!("make gateways-extra, which needs {}", needs.join(", ")),
    });
    let mut ways: Vec<_> =
        built.chain(manifest.install.iter().map(|(with, how)| format!("{with}: {how}"))).collect();
    if let Some(docker) = &manifest.docker {
        let get = docker::how_to_get(pack, &docker.image);
        ways.push(format!("docker: {get}, and `driver: docker` in the plan"));
    }
    ways
}

/// What a gateway of this pack lacks on this machine, one line per way to mend it; empty: nothing.
pub fn missing(pack: &Pack, driver: &PackDriver) -> Vec<String> {
    match driver {
        PackDriver::Process if find(pack).is_some() => Vec::new(),
        PackDriver::Process => {
            let ways = how_to_install(pack);
            if ways.is_empty() { vec!["its pack does not say how to install it".to_owned()] } else { ways }
        }
        PackDriver::Docker { image } => Container::find(pack, image.as_deref()).err().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, "#!/bin/sh\necho hello\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        path
    }

    #[test]
    fn the_first_directory_with_a_program_of_that_name_wins() {
        let [first, second] = [tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made")];
        let directories = [first.path().to_owned(), second.path().to_owned()];
        script(first.path(), "gateway", 0o644);
        assert_eq!(find_in("gateway", &directories), None, "not executable");
        let later = script(second.path(), "gateway", 0o755);
        assert_eq!(find_in("gateway", &directories), Some(later.clone()));
        let earlier = script(first.path(), "gateway", 0o755);
        assert_eq!(find_in("gateway", &directories), Some(earlier));
        assert_eq!(find_in(later.to_str().expect("text"), &[]), Some(later));
        assert_eq!(find_in("/nowhere/gateway", &directories), None);
    }

    #[test]
    fn output_is_heard_from_both_streams_and_waiting_is_bounded() {
        let shell = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
        let bound = Duration::from_secs(20);
        assert_eq!(output_of(&shell("echo one; echo two >&2; exit 3"), bound).as_deref(), Some("one\ntwo\n"));
        assert_eq!(output_of(&shell("exec sleep 60"), Duration::from_millis(50)), None);
        assert_eq!(output_of(&["/nowhere/at-all".to_owned()], bound), None);
    }
}

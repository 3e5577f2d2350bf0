//! Finds out whether a gateway is installed, and its version.

use crate::builds::{BuildError, Builds};
use crate::docker::{self, Container};
use crate::pack::{Pack, PackError};
use crate::render;
use hoptax_host::programs::{find_in, output_until, search_path};
use hoptax_plan::{PackDriver, ProgramSource, ProgramVersion};
use hoptax_record::{Failure, Stage};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// URL of hoptax's repository. Only a checkout has the scripts that build gateways.
const SOURCES: &str = env!("CARGO_PKG_REPOSITORY");

/// Time limit for a version command. Some of these commands start a virtual machine first.
const VERSION_BOUND: Duration = Duration::from_secs(60);

/// A command that has printed a version and then nothing for this time is not waited for. Pipy 1.5 sometimes
/// prints its version and does not end.
const VERSION_QUIET: Duration = Duration::from_secs(1);

/// Absolute path of the pack's program; `None` if the program or a required file is missing.
pub fn find(pack: &Pack) -> Option<PathBuf> {
    find_in(&pack.manifest().binary, &search_path()).filter(|_| lacking(pack).is_none())
}

/// All possible paths of the first required file that is missing. `None` if no file is missing, or if the
/// program itself is not installed.
pub fn lacking(pack: &Pack) -> Option<&[String]> {
    find_in(&pack.manifest().binary, &search_path())?;
    let mut needs = pack.manifest().needs.values();
    needs.find(|places| !places.iter().any(|place| Path::new(place).exists())).map(Vec::as_slice)
}

/// The program's version. `None` if the program does not start, takes too long, or prints something that the
/// pack's pattern does not match.
///
/// # Errors
/// If the pack's version command cannot be rendered.
pub fn version(pack: &Pack, binary: &Path) -> Result<Option<String>, PackError> {
    let command = render::version_command(pack, binary)?;
    let pattern = regex_lite::Regex::new(&pack.manifest().version.pattern).expect("checked with the pack");
    let is_enough = |said: &str| pattern.is_match(said);
    let said = output_until(&command, VERSION_BOUND, VERSION_QUIET, is_enough).unwrap_or_default();
    let version = pattern.captures(&said).and_then(|groups| groups.get(1));
    Ok(version.map(|version| version.as_str().to_owned()))
}

/// The program of a version of the pack's gateway.
///
/// # Errors
/// If the program does not exist, is not built, or no installed program reports the version. The failure says
/// what to do.
pub fn of_version(pack: &Pack, version: &ProgramVersion) -> Result<PathBuf, Failure> {
    let fail = |message: String| Failure::new(Stage::Missing, message);
    match &version.source {
        ProgramSource::Git(git) => Builds::of_user()?.program(git).map_err(BuildError::failure),
        ProgramSource::Binary(path) => {
            // Without a `/`, the path would be looked up as a name.
            let full = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            find_in(&full.to_string_lossy(), &[]).ok_or_else(|| {
                fail(format!("{} is not a program. Correct `binary` in the plan", full.display()))
            })
        }
        ProgramSource::Installed => {
            let found = installed(pack).map_err(|error| fail(error.to_string()))?;
            let path = best(&found, &version.name).map(Path::to_owned);
            path.ok_or_else(|| fail(no_such_version(pack, &version.name, &found)))
        }
    }
}

/// The program that reports this version, or else the newest of its versions: `1.26` chooses 1.26.3 before
/// 1.26.1, but never 1.260.
fn best<'f>(found: &'f BTreeMap<PathBuf, String>, version: &str) -> Option<&'f Path> {
    let is_part = |reported: &str| {
        let rest = reported.strip_prefix(version);
        rest.is_some_and(|rest| rest.chars().next().is_none_or(|first| !first.is_ascii_alphanumeric()))
    };
    let candidates = found.iter().filter(|(_, reported)| is_part(reported));
    let newest = candidates.max_by_key(|(_, reported)| (*reported == version, order(reported)));
    newest.map(|(path, _)| path.as_path())
}

/// The parts of a version, in an order in which newer versions are greater: 1.9 < 1.10, and 1.26.0-rc1 <
/// 1.26.0.
fn order(version: &str) -> Vec<VersionPart> {
    let (release, label) =
        version.split_once(['-', '~']).map_or((version, None), |(one, two)| (one, Some(two)));
    let parts = |text: &str| -> Vec<VersionPart> {
        text.split(|char: char| !char.is_ascii_alphanumeric())
            .map(|part| part.parse().map_or_else(|_| VersionPart::Word(part.to_owned()), VersionPart::Number))
            .collect()
    };
    let mut all = parts(release);
    all.push(if label.is_some() { VersionPart::Label } else { VersionPart::End });
    all.extend(label.map(parts).into_iter().flatten());
    all
}

/// A part of a version.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart {
    /// A label follows, as in 1.26.0-rc1: older than the version without it.
    Label,
    /// The version has no label.
    End,
    Word(String),
    Number(u64),
}

fn no_such_version(pack: &Pack, version: &str, found: &BTreeMap<PathBuf, String>) -> String {
    let (name, binary) = (pack.name(), &pack.manifest().binary);
    let found: Vec<String> =
        found.iter().map(|(path, version)| format!("{version} ({})", path.display())).collect();
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    format!(
        "no installed {name} reports version {version}; installed: {found}. Install it as \
         `{binary}-{version}` in a directory of PATH, or write its path as `binary`"
    )
}

/// Versions that programs reported, by version command. A version command can take a second, and several
/// versions of a plan look at the same programs.
static REPORTED: Mutex<BTreeMap<Vec<String>, Option<String>>> = Mutex::new(BTreeMap::new());

/// [`version()`], asked once per process and program.
fn known_version(pack: &Pack, binary: &Path) -> Result<Option<String>, PackError> {
    let command = render::version_command(pack, binary)?;
    let known = || REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = known().get(&command).cloned() {
        return Ok(version);
    }
    let version = version(pack, binary)?;
    known().insert(command, version.clone());
    Ok(version)
}

/// The pack's installed programs with the versions that they report: programs with the pack's name, and with
/// that name followed by a number, such as `nginx-1.22`.
fn installed(pack: &Pack) -> Result<BTreeMap<PathBuf, String>, PackError> {
    let binary = &pack.manifest().binary;
    let mut paths: Vec<PathBuf> = find(pack).into_iter().collect();
    if !binary.contains('/') {
        let entries = search_path().into_iter().filter_map(|directory| std::fs::read_dir(directory).ok());
        let named = |name: &str| {
            let rest = name.strip_prefix(&**binary).map(|rest| rest.trim_start_matches('-'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        let files = entries.flatten().flatten().filter(|entry| entry.file_name().to_str().is_some_and(named));
        paths.extend(files.filter_map(|entry| find_in(&entry.path().to_string_lossy(), &[])));
    }
    let mut found = BTreeMap::new();
    for path in paths {
        // `/bin` may be a link to `/usr/bin`.
        let file = path.canonicalize().unwrap_or(path);
        if !found.contains_key(&file)
            && let Some(version) = known_version(pack, &file)?
        {
            found.insert(file, version);
        }
    }
    Ok(found)
}

/// How to install the pack's gateway: one line for each way. The line for docker is last.
pub fn how_to_install(pack: &Pack) -> Vec<String> {
    let manifest = pack.manifest();
    let built = manifest.build.iter().map(|build| {
        let needs = match build.needs.as_slice() {
            [] => String::new(),
            needs => format!(" (needs {})", needs.join(", ")),
        };
        format!("in a checkout of {SOURCES}: make gateways-extra{needs}")
    });
    let mut ways: Vec<_> =
        built.chain(manifest.install.iter().map(|(with, how)| format!("{with}: {how}"))).collect();
    if let Some(docker) = &manifest.docker {
        let get = docker::how_to_get(pack, &docker.image);
        ways.push(format!("docker: {get}, with `driver: docker` in the plan"));
    }
    ways
}

/// Name of a gateway in messages about what is missing: the pack's name, with the version that the plan
/// chooses.
pub fn name_of(pack: &Pack, driver: &PackDriver) -> String {
    let version = driver.version_name().map(|version| format!(" {version}"));
    format!("{}{}", pack.name(), version.unwrap_or_default())
}

/// How to install the missing parts of a gateway of this pack: one line for each way. Empty if nothing is
/// missing.
pub fn missing(pack: &Pack, driver: &PackDriver) -> Vec<String> {
    match driver {
        PackDriver::Process if find(pack).is_some() => Vec::new(),
        PackDriver::Process => {
            let ways = how_to_install(pack);
            if ways.is_empty() { vec!["its pack has no installation instructions".to_owned()] } else { ways }
        }
        PackDriver::Docker { image } => Container::find(pack, image.as_deref()).err().into_iter().collect(),
        // A run builds its commits before it looks for programs, and reports commits that do not build.
        PackDriver::Version(ProgramVersion { source: ProgramSource::Git(_), .. }) => Vec::new(),
        PackDriver::Version(version) => {
            of_version(pack, version).err().map(|failure| failure.message).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_matched_exactly_or_by_its_newest_part() {
        let reported =
            ["1.9.2", "1.26.1", "1.26.10", "1.26.3", "1.260", "1.27.0-rc2", "1.27.0-rc1", "2.0", "2.0.1"];
        let found: BTreeMap<PathBuf, String> = reported
            .iter()
            .enumerate()
            .map(|(number, version)| (PathBuf::from(format!("/bin/{number}")), (*version).to_owned()))
            .collect();
        for (version, expected) in [
            ("1.26", Some("1.26.10")),
            ("1.26.1", Some("1.26.1")),
            ("1.27.0", Some("1.27.0-rc2")),
            ("1.27", Some("1.27.0-rc2")),
            ("2.0", Some("2.0")),
            ("1", Some("1.260")),
            ("1.2", None),
            ("3", None),
        ] {
            let chosen = best(&found, version).map(|path| found[path].as_str());
            assert_eq!(chosen, expected, "{version}");
        }
        assert!(order("1.26.0") > order("1.26.0-rc1") && order("1.26.0.1") > order("1.26.0"));
    }
}

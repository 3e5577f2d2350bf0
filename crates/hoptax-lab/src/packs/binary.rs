//! Finds out whether a gateway is installed, and its version.

use crate::builds::Builds;
use crate::docker::{self, Container};
use crate::pack::{Pack, PackError};
use crate::render;
use hoptax_host::programs::{find_in, output_until, search_path};
use hoptax_plan::{PackDriver, ProgramSource, ProgramVersion};
use hoptax_record::{Failure, Stage};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where hoptax is developed. Only a checkout has the scripts that build gateways.
const SOURCES: &str = env!("CARGO_PKG_REPOSITORY");

/// Time limit for a version command. Some of these commands start a virtual machine first.
const VERSION_BOUND: Duration = Duration::from_secs(60);

/// A command that has printed a version and then nothing for this time is not waited for. Pipy 1.5 sometimes prints its
/// version and does not end.
const VERSION_QUIET: Duration = Duration::from_secs(1);

/// Absolute path of the pack's program; `None` if the program or a required file is missing.
pub fn find(pack: &Pack) -> Option<PathBuf> {
    find_in(&pack.manifest().binary, &search_path()).filter(|_| lacking(pack).is_none())
}

/// All possible paths of the first required file that is missing. `None` if no file is missing, or if the program
/// itself is not installed.
pub fn lacking(pack: &Pack) -> Option<&[String]> {
    find_in(&pack.manifest().binary, &search_path())?;
    let mut needs = pack.manifest().needs.values();
    needs.find(|places| !places.iter().any(|place| Path::new(place).exists())).map(Vec::as_slice)
}

/// The program's version. `None` if the program does not start, takes too long, or prints something that the pack's
/// pattern does not match.
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
/// If the program does not exist, is not built, or no installed program reports the version. The failure says what to do.
pub fn of_version(pack: &Pack, version: &ProgramVersion) -> Result<PathBuf, Failure> {
    let fail = |message: String| Failure { stage: Stage::Missing, message, detail: String::new() };
    match &version.source {
        ProgramSource::Git(git) => Builds::of_user()?.program(git),
        ProgramSource::Binary(path) => {
            // Without a `/`, the path would be looked up as a name.
            let full = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            find_in(&full.to_string_lossy(), &[]).ok_or_else(|| {
                fail(format!("{} is not a program. Correct `binary` in the plan", full.display()))
            })
        }
        ProgramSource::Installed => {
            let found = installed(pack).map_err(|error| fail(error.to_string()))?;
            let matches = |reported: &str| {
                reported
                    .strip_prefix(&*version.name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let path = found.iter().find(|(_, reported)| matches(reported)).map(|(path, _)| path.clone());
            path.ok_or_else(|| fail(no_such_version(pack, &version.name, &found)))
        }
    }
}

fn no_such_version(pack: &Pack, version: &str, found: &BTreeMap<PathBuf, String>) -> String {
    let (name, binary) = (pack.name(), &pack.manifest().binary);
    let found: Vec<String> =
        found.iter().map(|(path, version)| format!("{version} ({})", path.display())).collect();
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    format!(
        "no installed {name} reports version {version}; installed: {found}. Install it as `{binary}-{version}` in a \
         directory of PATH, or write its path as `binary`"
    )
}

/// The pack's installed programs with the versions that they report: programs with the pack's name, and with that name
/// followed by a number, such as `nginx-1.22`.
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
            && let Some(version) = version(pack, &file)?
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

/// Name of a gateway in messages about what is missing: the pack's name, with the version that the plan chooses.
pub fn name_of(pack: &Pack, driver: &PackDriver) -> String {
    let version = driver.version_name().map(|version| format!(" {version}"));
    format!("{}{}", pack.name(), version.unwrap_or_default())
}

/// How to install the missing parts of a gateway of this pack: one line for each way. Empty if nothing is missing.
pub fn missing(pack: &Pack, driver: &PackDriver) -> Vec<String> {
    match driver {
        PackDriver::Process if find(pack).is_some() => Vec::new(),
        PackDriver::Process => {
            let ways = how_to_install(pack);
            if ways.is_empty() { vec!["its pack has no installation instructions".to_owned()] } else { ways }
        }
        PackDriver::Docker { image } => Container::find(pack, image.as_deref()).err().into_iter().collect(),
        // A run builds its commits before it looks for programs, and reports what does not build.
        PackDriver::Version(ProgramVersion { source: ProgramSource::Git(_), .. }) => Vec::new(),
        PackDriver::Version(version) => {
            of_version(pack, version).err().map(|failure| failure.message).into_iter().collect()
        }
    }
}

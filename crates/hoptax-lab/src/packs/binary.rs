//! Finds out whether a gateway is installed, and its version.

use crate::docker::{self, Container};
use crate::pack::{Pack, PackError};
use crate::render;
use hoptax_host::programs::{find_in, output_of, search_path};
use hoptax_plan::PackDriver;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for a version command. Some of these commands start a virtual machine first.
const VERSION_BOUND: Duration = Duration::from_secs(60);

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
    let said = output_of(&command, VERSION_BOUND).unwrap_or_default();
    let version = pattern.captures(&said).and_then(|groups| groups.get(1));
    Ok(version.map(|version| version.as_str().to_owned()))
}

/// How to install the pack's gateway: one line for each way. The line for docker is last.
pub fn how_to_install(pack: &Pack) -> Vec<String> {
    let manifest = pack.manifest();
    let built = manifest.build.iter().map(|build| match build.needs.as_slice() {
        [] => "make gateways-extra".to_owned(),
        needs => format!("make gateways-extra (needs {})", needs.join(", ")),
    });
    let mut ways: Vec<_> =
        built.chain(manifest.install.iter().map(|(with, how)| format!("{with}: {how}"))).collect();
    if let Some(docker) = &manifest.docker {
        let get = docker::how_to_get(pack, &docker.image);
        ways.push(format!("docker: {get}, with `driver: docker` in the plan"));
    }
    ways
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
    }
}

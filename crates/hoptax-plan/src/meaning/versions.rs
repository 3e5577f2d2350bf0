//! Reads which versions of a gateway a plan measures. Each version becomes a gateway of its own, so that the
//! versions are measured in the same rounds.

use super::reader::Reader;
use crate::error::Place;
use crate::image::check_image;
use crate::raw::{Placed, RawDriver, RawGateway, RawGit, Sweep, Text};
use crate::{Gateway, GatewayKind, GitBuild, PackDriver, PackInfo, ProgramSource, ProgramVersion};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Maximum length of a label. Labels are used as names of directories.
const LONGEST_LABEL: usize = 64;

/// The keys that choose versions, with their places.
pub(super) fn keys(typed: &RawGateway) -> Vec<(&'static str, Place)> {
    let lists = [("image", &typed.image), ("version", &typed.version), ("binary", &typed.binary)];
    let lists = lists.into_iter().filter_map(|(key, list)| Some((key, first_place(list.as_ref()?))));
    lists.chain(typed.git.as_ref().map(|git| ("git", git.place))).collect()
}

/// True if the entry becomes several gateways.
pub(super) fn are_several(typed: &RawGateway) -> bool {
    let refs = typed.git.as_ref().map(|git| &git.value.refs);
    let lists = [typed.image.as_ref(), typed.version.as_ref(), typed.binary.as_ref(), refs];
    lists.into_iter().flatten().any(|list| list.0.len() > 1)
}

/// The versions of a gateway from a pack, each with its own label and driver. Any other gateway is returned
/// unchanged.
pub(super) fn expand(reader: &mut Reader<'_>, typed: &RawGateway, gateway: Gateway) -> Vec<Gateway> {
    if !matches!(gateway.kind, GatewayKind::Pack { .. }) {
        return vec![gateway];
    }
    let pack = reader.context.known.iter().find(|pack| pack.name == typed.name.value).cloned();
    let drivers = drivers(reader, typed, pack.as_ref());
    let several = drivers.len() > 1;
    let mut gateways = Vec::new();
    for (place, driver) in drivers {
        let mut one = gateway.clone();
        if let Some(name) = driver.version_name().filter(|_| several) {
            one.label = format!("{}-{}", gateway.label, file_name(name));
            if one.label.len() > LONGEST_LABEL {
                let message = format!("the label `{}` of this version is too long", one.label);
                reader.fault(place, message, "give the gateway a shorter `label`");
            }
        }
        if let GatewayKind::Pack { driver: chosen, .. } = &mut one.kind {
            *chosen = driver;
        }
        gateways.push(one);
    }
    gateways
}

/// One driver for each version, in the plan's order. There is always at least one.
fn drivers(reader: &mut Reader<'_>, typed: &RawGateway, pack: Option<&PackInfo>) -> Vec<(Place, PackDriver)> {
    let name = typed.name.place;
    if let Some(docker) = typed.driver.as_ref().filter(|driver| driver.value == RawDriver::Docker) {
        return containers(reader, typed, docker.place, pack);
    }
    if let Some(image) = &typed.image {
        let help = "add driver: docker, or remove `image`";
        reader.fault(first_place(image), "`image` needs `driver: docker`", help);
    }
    let mut keys = keys(typed);
    keys.retain(|(key, _)| *key != "image");
    if let [(first, _), (second, place), ..] = keys[..] {
        let message = format!("`{first}` and `{second}` both choose the program");
        reader.fault(place, message, "remove one of the two");
    }
    if let Some(versions) = &typed.version {
        return versions.0.iter().map(|one| (one.place, installed(reader, one))).collect();
    }
    if let Some(paths) = &typed.binary {
        return binaries(reader, paths);
    }
    match &typed.git {
        Some(git) => commits(reader, &git.value),
        None => vec![(name, PackDriver::Process)],
    }
}

/// The drivers of a gateway that starts in a container.
fn containers(
    reader: &mut Reader<'_>,
    typed: &RawGateway,
    docker: Place,
    pack: Option<&PackInfo>,
) -> Vec<(Place, PackDriver)> {
    if let Some(pack) = pack.filter(|pack| !pack.docker) {
        let message = format!("the pack `{}` cannot start in a container", pack.name);
        let help = "remove `driver`, or copy the pack and add `docker: { image: … }` to its gateway.yaml";
        reader.fault(docker, message, help);
    }
    for (key, place) in keys(typed).into_iter().filter(|(key, _)| ["binary", "git"].contains(key)) {
        let message =
            format!("`{key}` chooses a program, but `driver: docker` starts the program in an image");
        reader.fault(place, message, format!("remove `{key}`, or remove `driver: docker`"));
    }
    let images: Vec<(Place, String)> = match (&typed.version, &typed.image) {
        (Some(tags), images) => tagged(reader, tags, images.as_ref(), pack),
        (None, Some(images)) => images.0.iter().map(|one| (one.place, one.value.0.clone())).collect(),
        (None, None) => return vec![(docker, PackDriver::Docker { image: None })],
    };
    let driver = |(place, image): (Place, String)| {
        if let Err(help) = check_image(&image) {
            reader.fault(place, format!("`{image}` is not the name of an image"), help);
        }
        (place, PackDriver::Docker { image: Some(image) })
    };
    images.into_iter().map(driver).collect()
}

/// The plan's image or the pack's image, once with each of these tags.
fn tagged(
    reader: &mut Reader<'_>,
    tags: &Sweep<Text>,
    images: Option<&Sweep<Text>>,
    pack: Option<&PackInfo>,
) -> Vec<(Place, String)> {
    if let Some(second) = images.and_then(|images| images.0.get(1)) {
        let message = "`version` chooses the tag of one image, but `image` is a list";
        reader.fault(second.place, message, "remove `version`, and write each image with its tag");
    }
    let typed = images.map(|images| images.0[0].value.0.clone());
    let image = typed.or_else(|| pack?.image.clone()).unwrap_or_default();
    let name = without_tag(&image);
    tags.0.iter().map(|tag| (tag.place, format!("{name}:{}", tag.value.0))).collect()
}

/// An image's name without its tag and digest. A colon before the last `/` belongs to the registry's port.
fn without_tag(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

fn installed(reader: &mut Reader<'_>, version: &Placed<Text>) -> PackDriver {
    let name = version.value.0.trim().to_owned();
    if name.is_empty() || name.contains(char::is_whitespace) {
        let message = format!("`{}` is not a version", version.value.0);
        reader.fault(version.place, message, "write it as the program reports it, such as \"1.22.1\"");
    }
    PackDriver::Version(ProgramVersion { name, source: ProgramSource::Installed })
}

fn binaries(reader: &Reader<'_>, paths: &Sweep<Text>) -> Vec<(Place, PackDriver)> {
    let full = |one: &Placed<Text>| reader.context.directory.join(&one.value.0);
    let found: Vec<PathBuf> = paths.0.iter().map(full).collect();
    let names = differing_parts(&found);
    let driver = |((typed, path), name): ((&Placed<Text>, PathBuf), String)| {
        (typed.place, PackDriver::Version(ProgramVersion { name, source: ProgramSource::Binary(path) }))
    };
    paths.0.iter().zip(found).zip(names).map(driver).collect()
}

/// For each path, the last part that is different in all paths. If there is no such part, the numbers of the
/// paths, from 1.
fn differing_parts(paths: &[PathBuf]) -> Vec<String> {
    let from_last = |path: &PathBuf| -> Vec<String> {
        let normal = path.components().rev().filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            _ => None,
        });
        normal.collect()
    };
    let parts: Vec<Vec<String>> = paths.iter().map(from_last).collect();
    let shared = parts.iter().map(Vec::len).min().unwrap_or(0);
    let names = |depth: usize| parts.iter().map(|parts| parts[depth].clone()).collect::<Vec<String>>();
    let differ = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let found = (0..shared).map(names).find(differ);
    found.unwrap_or_else(|| (1..=paths.len()).map(|number| number.to_string()).collect())
}

fn commits(reader: &mut Reader<'_>, git: &RawGit) -> Vec<(Place, PackDriver)> {
    let RawGit { repository, refs, build, binary } = git;
    if repository.value.contains("://") {
        let message = format!("`{}` is not a directory", repository.value);
        reader.fault(repository.place, message, "clone the repository, and write the path of the clone");
    }
    if build.value.trim().is_empty() {
        reader.fault(build.place, "`build` is empty", "write a shell command, such as make");
    }
    if !stays_inside(Path::new(&binary.value)) {
        let message = format!("`{}` is not a path in the work tree", binary.value);
        reader.fault(binary.place, message, "write a path relative to the top of the repository: bin/proxy");
    }
    let directory = reader.context.directory.join(&repository.value);
    let mut drivers = Vec::new();
    for reference in &refs.0 {
        let name = reference.value.0.clone();
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
            let help = "write a branch, a tag or a commit";
            reader.fault(reference.place, format!("`{name}` is not a ref"), help);
        }
        let git = GitBuild {
            repository: directory.clone(),
            reference: name.clone(),
            commit: None,
            build: build.value.clone(),
            binary: binary.value.clone().into(),
        };
        let version = ProgramVersion { name, source: ProgramSource::Git(git) };
        drivers.push((reference.place, PackDriver::Version(version)));
    }
    drivers
}

/// True for a relative path that stays below the directory at which it starts.
fn stays_inside(path: &Path) -> bool {
    let mut parts = path.components().filter(|part| *part != Component::CurDir).peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn first_place(list: &Sweep<Text>) -> Place {
    list.0.first().map_or_else(Place::default, |first| first.place)
}

/// The name, with `-` instead of every character that a label cannot contain.
fn file_name(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect()
}

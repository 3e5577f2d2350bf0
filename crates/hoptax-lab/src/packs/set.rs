//! The available packs: the packs in the binary, and the packs in the user's directory.

#[cfg(target_os = "linux")]
use super::check;
use crate::pack::manifest::{Manifest, TlsUse};
use crate::pack::{MANIFEST, Pack, PackError};
use hoptax_plan::{PackInfo, PlanErrors, read_as, variant_name};
use hoptax_record::bounded;
use include_dir::{Dir, include_dir};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Folders with build results. Their files are not part of a pack.
const MADE: [&str; 2] = ["node_modules", "target"];

/// Maximum number of files of a pack. A folder with more files is not a pack.
const MOST_FILES: usize = 10_000;

// `gateways` is a link to the folder at the root of the repository. `cargo package` copies what it leads to.
static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/gateways");

/// Reads a pack from the texts of its files. `folder` is the pack's path, which ends with the pack's name.
///
/// # Errors
/// If `gateway.yaml` or a template is wrong or missing. The error contains the position.
pub fn parse(folder: &str, text: String, files: BTreeMap<String, String>) -> Result<Pack, PackError> {
    let pack = read(folder, text, files)?;
    // On systems where no gateway can be started, the templates do not matter.
    #[cfg(target_os = "linux")]
    check::check(&pack)?;
    Ok(pack)
}

/// Like [`parse`], but does not check the templates.
fn read(folder: &str, text: String, files: BTreeMap<String, String>) -> Result<Pack, PackError> {
    let file = format!("{folder}/{MANIFEST}");
    let manifest = manifest_of(&file, &text)?;
    let variant = manifest.variants.first().cloned();
    Ok(Pack { manifest, text, files, folder: folder.to_owned(), variant })
}

/// Parses `gateway.yaml` in the same way as a plan, so that errors have a line, a column and a caret.
fn manifest_of(file: &str, text: &str) -> Result<Manifest, PackError> {
    let named = |errors: PlanErrors| PackError {
        // The errors contain the position already.
        file: String::new(),
        line: None,
        message: errors.to_string(),
        help: None,
    };
    let mut manifest: Manifest = read_as(file, text).map_err(named)?;
    manifest.spread_reason();
    Ok(manifest)
}

/// All available packs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSet {
    packs: BTreeMap<String, Pack>,
    /// Packs in a selected variant, by `pack@variant`.
    variants: BTreeMap<String, Pack>,
}

impl PackSet {
    /// Loads the embedded packs and the packs in `directory`, which take precedence.
    ///
    /// # Errors
    /// If the directory cannot be read, or one of its packs is wrong. The error contains the position.
    pub fn load(directory: Option<&Path>) -> Result<Self, PackError> {
        let mut packs = BTreeMap::new();
        for folder in EMBEDDED.dirs() {
            let pack = embedded(folder)?;
            packs.insert(pack.name().to_owned(), pack);
        }
        if let Some(directory) = directory {
            for pack in read_directory(directory)? {
                packs.insert(pack.name().to_owned(), pack);
            }
        }
        let named = |pack: Pack| (variant_name(pack.name(), pack.variant().unwrap_or_default()), pack);
        let variants = packs.values().flat_map(Pack::variants).map(named).collect();
        Ok(Self { packs, variants })
    }

    /// The pack with this name, which can be `pack@variant`.
    pub fn get(&self, name: &str) -> Option<&Pack> {
        self.packs.get(name).or_else(|| self.variants.get(name))
    }

    /// Names of all packs, in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        self.packs.keys().map(String::as_str).collect()
    }

    /// All packs, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Pack> {
        self.packs.values()
    }

    /// The name, features and other facts of each pack that the plan parser needs.
    pub fn infos(&self) -> Vec<PackInfo> {
        let info = |pack: &Pack| PackInfo {
            name: pack.name().to_owned(),
            features: pack.manifest.features.clone(),
            unsupported: pack.manifest.unsupported.clone(),
            variants: pack.manifest.variants.clone(),
            http2: pack.manifest.http2,
            upstream_http2: pack.manifest.upstream_http2,
            always_tls: pack.manifest.tls == TlsUse::Always,
            intercepts: pack.manifest.intercept.is_some(),
            unix_upstream: pack.manifest.unix_upstream,
            proxy: pack.manifest.proxy.clone(),
            docker: pack.manifest.docker.is_some(),
            image: pack.manifest.docker.as_ref().map(|docker| docker.image.clone()),
            reloads: pack.manifest.reload.is_some(),
            has_metrics: pack.manifest.metrics.is_some(),
            grpc: pack.manifest.grpc,
            websocket: pack.manifest.websocket,
            llm: pack.manifest.llm.clone(),
            llm_variants: pack.manifest.llm_variants.clone(),
        };
        self.iter().map(info).collect()
    }
}

fn embedded(folder: &Dir<'_>) -> Result<Pack, PackError> {
    let shown = format!("gateways/{}", folder.path().display());
    let mut files = BTreeMap::new();
    let mut folders = vec![folder];
    while let Some(next) = folders.pop() {
        folders.extend(next.dirs());
        for file in next.files() {
            let name = file.path().strip_prefix(folder.path()).expect("below it");
            if let Some(text) = file.contents_utf8() {
                files.insert(name.to_string_lossy().into_owned(), text.to_owned());
            }
        }
    }
    // Tests already check the templates of the embedded packs, so the templates are not rendered here.
    // Rendering all of them would delay each start of hoptax by a second.
    assemble(&shown, files, read)
}

fn read_directory(directory: &Path) -> Result<Vec<Pack>, PackError> {
    let fail = |path: &Path, message: String, help: &str| PackError {
        file: path.display().to_string(),
        line: None,
        message,
        help: Some(help.to_owned()),
    };
    const WANTED: &str = "--packs needs a directory with one folder per pack, each with a gateway.yaml";
    if directory.join(MANIFEST).is_file() {
        let message = "this is a pack, not a directory of packs".to_owned();
        return Err(fail(directory, message, "pass --packs its parent directory"));
    }
    let entries = std::fs::read_dir(directory)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fail(directory, format!("cannot read it: {error}"), WANTED))?;
    let mut folders: Vec<PathBuf> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    let mut packs = Vec::new();
    for folder in folders {
        let files =
            read_files(&folder).map_err(|error| fail(&folder, format!("cannot read it: {error}"), WANTED))?;
        if files.contains_key(MANIFEST) {
            packs.push(assemble(&folder.display().to_string(), files, parse)?);
        } else if files
            .keys()
            .any(|name| !name.contains('/') && (name.ends_with(".yml") || name.ends_with(".yaml")))
        {
            let message = format!("there is no {MANIFEST} in this folder");
            return Err(fail(&folder, message, "a pack needs a file gateway.yaml"));
        }
    }
    if packs.is_empty() {
        return Err(fail(directory, "there is no pack in this directory".into(), WANTED));
    }
    Ok(packs)
}

/// Texts of all files below a folder, by their path in it. Files that are not text are skipped, because they
/// cannot be templates.
fn read_files(folder: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut count = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                // Skip links, because they may lead outside the folder or in circles. Also skip hidden files
                // such as `.git`.
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if !path.is_symlink() && !name.starts_with('.') && !MADE.contains(&name.as_ref()) {
                    folders.push(path);
                }
                continue;
            }
            if !path.is_file() {
                continue;
            }
            let name = path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
            count += 1;
            if count > MOST_FILES {
                return Err(std::io::Error::other(format!(
                    "it contains more than {MOST_FILES} files. Is it a pack?"
                )));
            }
            match bounded::read_text(&path, bounded::PACK_FILE) {
                Ok(text) => {
                    files.insert(name, text);
                }
                // The file is not text, but for example a program or an archive.
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                    if begins_as_text(&path)? {
                        return Err(std::io::Error::new(error.kind(), format!("{name}: {error}")));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(files)
}

fn begins_as_text(path: &Path) -> std::io::Result<bool> {
    let (bytes, _) = bounded::read_beginning(path, 1024)?;
    // The last character can be incomplete, because only the beginning of the file is read. This is not an
    // error.
    Ok(std::str::from_utf8(&bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
        && !bytes.contains(&0))
}

fn assemble(
    folder: &str,
    mut files: BTreeMap<String, String>,
    read: impl Fn(&str, String, BTreeMap<String, String>) -> Result<Pack, PackError>,
) -> Result<Pack, PackError> {
    let Some(text) = files.remove(MANIFEST) else {
        let message = format!("there is no {MANIFEST} in this folder");
        return Err(PackError { file: folder.to_owned(), line: None, message, help: None });
    };
    read(folder, text, files)
}

//! Versions of installed gateways, kept in a file between calls of hoptax, because some version commands take
//! longer than the rest of `hoptax gateways`. A run does not use kept versions.

use super::binary;
use crate::pack::{Pack, PackError};
use crate::render;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Kept versions. They are lost if the file cannot be read or written, and then the version commands run
/// again.
#[derive(Debug)]
pub struct Versions {
    file: Option<PathBuf>,
    /// The kept versions, by name of the pack.
    kept: BTreeMap<String, Kept>,
    is_changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    question: Question,
    version: String,
}

/// Everything that the answer of a version command depends on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    binary: PathBuf,
    command: Vec<String>,
    pattern: String,
    inode: u64,
    bytes: u64,
    /// When the file or its owner, mode or links last changed: seconds and nanoseconds since 1970. Programs
    /// cannot set this time.
    changed: (i64, i64),
}

impl Question {
    fn new(pack: &Pack, binary: &Path, file: &Metadata) -> Result<Self, PackError> {
        Ok(Self {
            binary: binary.to_owned(),
            command: render::version_command(pack, binary)?,
            pattern: pack.manifest().version.pattern.clone(),
            inode: file.ino(),
            bytes: file.size(),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

impl Versions {
    /// Reads the kept versions of this user: `$XDG_CACHE_HOME/hoptax/versions.json`, or
    /// `~/.cache/hoptax/versions.json`.
    pub fn load() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        Self::read(folder.map(|folder| folder.join("hoptax/versions.json")))
    }

    fn read(file: Option<PathBuf>) -> Self {
        let text = file.as_deref().and_then(|file| fs::read(file).ok());
        let kept = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Self { file, kept, is_changed: false }
    }

    /// The version of the pack's program, as [`binary::version`] returns it. The version command runs only if
    /// no version is kept, or if the program or the command has changed.
    ///
    /// # Errors
    /// If the pack's version command cannot be rendered.
    pub fn of(&mut self, pack: &Pack, binary: &Path) -> Result<Option<String>, PackError> {
        let Ok(file) = binary.metadata() else { return binary::version(pack, binary) };
        let question = Question::new(pack, binary, &file)?;
        if let Some(kept) = self.kept.get(pack.name()).filter(|kept| kept.question == question) {
            return Ok(Some(kept.version.clone()));
        }
        let version = binary::version(pack, binary)?;
        // A command that fails is tried again, because its cause may be outside the program.
        if let Some(version) = version.clone() {
            self.kept.insert(pack.name().to_owned(), Kept { question, version });
            self.is_changed = true;
        }
        Ok(version)
    }

    /// Writes the versions if there are new ones. An error is ignored.
    pub fn save(mut self) {
        self.kept.retain(|_, kept| kept.question.binary.exists());
        if let Some(file) = self.file.as_deref().filter(|_| self.is_changed) {
            let _ = write(file, &self.kept);
        }
    }
}

/// Replaces the file at once, because another hoptax may read it at the same time.
fn write(file: &Path, kept: &BTreeMap<String, Kept>) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let draft = file.with_extension(format!("{}.new", std::process::id()));
    fs::write(&draft, serde_json::to_vec_pretty(kept)?)?;
    fs::rename(&draft, file).inspect_err(|_| drop(fs::remove_file(&draft)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "name: mine\nsummary: a test\nbinary: mine\n\
                            version: { command: [sh, \"{{ binary }}\"], pattern: 'version (\\S+)' }\n\
                            start: [\"{{ binary }}\"]\nready: { path: / }\naccess_log: file\n";

    /// A script that prints its version and counts its calls in the file `calls` next to it.
    fn install(folder: &Path, version: &str) -> PathBuf {
        let (draft, path) = (folder.join("draft"), folder.join("mine"));
        fs::write(&draft, format!("echo >> {}/calls\necho version {version}\n", folder.display()))
            .expect("written");
        fs::rename(&draft, &path).expect("renamed");
        path
    }

    fn calls(folder: &Path) -> usize {
        fs::read_to_string(folder.join("calls")).unwrap_or_default().lines().count()
    }

    #[test]
    fn a_version_command_runs_once_for_each_program() {
        let scratch = tempfile::tempdir().expect("made");
        let folder = scratch.path();
        let file = Some(folder.join("cache/versions.json"));
        let pack = super::super::parse("packs/mine", MANIFEST.into(), BTreeMap::new()).expect("a pack");
        let ask = |program: &Path| {
            let mut versions = Versions::read(file.clone());
            let version = versions.of(&pack, program).expect("a good command");
            versions.save();
            version
        };
        let program = install(folder, "1.0");
        assert_eq!((ask(&program), calls(folder)), (Some("1.0".into()), 1));
        assert_eq!((ask(&program), calls(folder)), (Some("1.0".into()), 1), "kept");
        install(folder, "2.0");
        assert_eq!((ask(&program), calls(folder)), (Some("2.0".into()), 2), "another program");
        fs::write(folder.join("cache/versions.json"), "{").expect("written");
        assert_eq!((ask(&program), calls(folder)), (Some("2.0".into()), 3), "the file is spoilt");
        assert_eq!(Versions::read(None).of(&pack, &program).expect("a good command"), Some("2.0".into()));
        fs::remove_file(&program).expect("removed");
        assert_eq!(ask(&program), None);
    }

    #[test]
    fn a_version_that_cannot_be_read_is_not_kept() {
        let scratch = tempfile::tempdir().expect("made");
        let program = install(scratch.path(), "");
        let pack = super::super::parse("packs/mine", MANIFEST.into(), BTreeMap::new()).expect("a pack");
        let mut versions = Versions::read(None);
        assert_eq!(versions.of(&pack, &program).expect("a good command"), None);
        assert!(versions.kept.is_empty());
    }
}

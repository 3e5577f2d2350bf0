//! Tags and note of a run. They are stored in the run's directory, so that they remain if the index is
//! deleted.

use super::HistoryError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

pub(super) const FILE: &str = "notes.json";
/// Version of the file.
const SCHEMA: u32 = 1;
/// Maximum number of tags of a run.
const MOST_TAGS: usize = 20;
/// Maximum length of a tag, in characters.
const LONGEST_TAG: usize = 40;
/// Maximum length of a note, in characters.
const LONGEST_NOTE: usize = 10_000;
/// Maximum size of the file, in bytes. A file with the longest note is smaller, even if every character of
/// the note is escaped.
const MOST_BYTES: u64 = 1 << 20;

/// Tags and note of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notes {
    schema: u32,
    /// Sorted tags without duplicates.
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) note: String,
}

impl Default for Notes {
    fn default() -> Self {
        Self { schema: SCHEMA, tags: Vec::new(), note: String::new() }
    }
}

impl Notes {
    /// Reads the notes of a run directory. Returns empty notes if there is no file with notes. Fails if the
    /// file is not valid or cannot be read. The error describes the problem in words.
    pub(super) fn read(dir: &Path) -> Result<Self, String> {
        let path = dir.join(FILE);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error.to_string()),
            Ok(found) if !found.is_file() => return Err("it is not a file".into()),
            Ok(found) if found.len() > MOST_BYTES => {
                return Err(format!("it is longer than {MOST_BYTES} bytes"));
            }
            Ok(_) => {}
        }
        let mut text = Vec::new();
        let file = File::open(&path).map_err(|error| error.to_string())?;
        file.take(MOST_BYTES).read_to_end(&mut text).map_err(|error| error.to_string())?;
        let mut read: Self = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if read.schema > SCHEMA {
            return Err(format!("it has schema {}: use a newer hoptax", read.schema));
        }
        read.tags = checked_tags(&read.tags)?;
        checked_note(&read.note)?;
        Ok(read)
    }

    /// Writes the notes into a run directory, completely or not at all. Fails if the notes cannot be written.
    /// The earlier notes are then unchanged.
    pub(super) fn write(&self, dir: &Path) -> Result<(), HistoryError> {
        // Each process writes its own temporary file, because two processes may write notes at the same time.
        let (path, partial) = (dir.join(FILE), dir.join(format!(".{FILE}.{}.partial", std::process::id())));
        let mut text = serde_json::to_string_pretty(self).expect("notes are plain");
        text.push('\n');
        let write = || {
            let _ = fs::remove_file(&partial);
            let mut file = File::create_new(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&partial);
            HistoryError::Change { what: "write", path, source }
        })
    }
}

/// Returns the tags sorted and without duplicates. Fails if a tag is not valid, or there are too many tags.
/// The error says what is allowed.
pub(super) fn checked_tags(tags: &[String]) -> Result<Vec<String>, String> {
    if let Some(wrong) = tags.iter().find(|tag| !is_tag(tag)) {
        let shown: String = wrong.chars().take(LONGEST_TAG + 1).collect();
        return Err(format!(
            "`{}` is not a valid tag: use 1 to {LONGEST_TAG} letters, digits or characters of -_.:/",
            shown.escape_debug()
        ));
    }
    let mut tags = tags.to_vec();
    tags.sort_unstable();
    tags.dedup();
    match tags.len() {
        count if count > MOST_TAGS => Err(format!("{count} tags are too many: use at most {MOST_TAGS}")),
        _ => Ok(tags),
    }
}

fn is_tag(tag: &str) -> bool {
    let allowed = |letter: char| letter.is_alphanumeric() || "-_.:/".contains(letter);
    (1..=LONGEST_TAG).contains(&tag.chars().count()) && tag.chars().all(allowed)
}

/// Checks the length of a note. Fails if the note is too long.
pub(super) fn checked_note(note: &str) -> Result<(), String> {
    match note.chars().count() {
        count if count > LONGEST_NOTE => {
            Err(format!("a note of {count} characters is too long: use at most {LONGEST_NOTE}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(tags: &[&str]) -> Result<Vec<String>, String> {
        checked_tags(&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn tags_are_sorted_and_invalid_tags_are_refused() {
        assert_eq!(tags(&["b", "a/1.2:x_y-z", "b", "größe"]).expect("tags"), ["a/1.2:x_y-z", "b", "größe"]);
        assert!(tags(&[&"x".repeat(40)]).is_ok());
        for wrong in ["", "a b", "a,b", "a\n", &"x".repeat(41), "<b>"] {
            let error = tags(&[wrong]).expect_err(wrong);
            assert!(error.contains("1 to 40 letters, digits"), "{error}");
        }
        let many: Vec<String> = (0..21).map(|number| format!("t{number}")).collect();
        assert!(checked_tags(&many).expect_err("too many").contains("at most 20"));
        assert!(checked_tags(&many[..20]).is_ok());
    }

    #[test]
    fn notes_are_read_back_and_garbage_is_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Notes::read(dir.path()), Ok(Notes::default()));
        let notes = Notes { tags: vec!["a".into()], note: "ö".repeat(LONGEST_NOTE), ..Notes::default() };
        notes.write(dir.path()).expect("written");
        assert_eq!(Notes::read(dir.path()), Ok(notes));
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 1, "nothing else is left");
        for garbage in ["", "{", "[]", r#"{"schema":9}"#, r#"{"schema":1,"tags":["a b"]}"#] {
            fs::write(dir.path().join(FILE), garbage).expect("written");
            assert!(Notes::read(dir.path()).is_err(), "{garbage}");
        }
        fs::remove_file(dir.path().join(FILE)).expect("there");
        fs::create_dir(dir.path().join(FILE)).expect("made");
        insta::assert_snapshot!(Notes::read(dir.path()).expect_err("a directory"));
    }
}

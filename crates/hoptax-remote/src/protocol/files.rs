//! The files that a run leaves on a host: rendered configurations and logs. The agent collects them, and the
//! runner writes them to its run directory.

use super::message::{Bytes, KeptFile};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path};

/// Directories with such files, below the agent's directory.
const KEPT: [&str; 2] = ["logs", "rendered"];
/// Number of bytes that are kept of each file: its end.
const MOST_OF_FILE: u64 = 1 << 20;
/// Number of bytes that are kept of all files.
const MOST: u64 = 64 << 20;
/// Number of files that are kept.
const MOST_FILES: usize = 2000;

/// Reads the files below an agent's directory, in order of their paths. Leaves out files that cannot be read,
/// and everything beyond the limits.
pub(crate) fn collect(directory: &Path) -> Vec<KeptFile> {
    let mut folders: Vec<_> = KEPT.map(|name| directory.join(name)).to_vec();
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => paths.push(entry.path()),
                _ => {}
            }
        }
    }
    paths.sort();
    let mut left = MOST;
    let mut kept = Vec::new();
    for path in paths.into_iter().take(MOST_FILES) {
        let Ok((content, left_out)) = end_of(&path, MOST_OF_FILE.min(left)) else { continue };
        left -= content.len() as u64;
        let path = path.strip_prefix(directory).expect("below it").to_owned();
        kept.push(KeptFile { path, left_out, content: Bytes(content) });
    }
    kept
}

/// The last `most` bytes of a file, and the number of bytes before them.
fn end_of(path: &Path, most: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut file = File::open(path)?;
    let left_out = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(left_out))?;
    let mut content = Vec::new();
    file.take(most).read_to_end(&mut content)?;
    Ok((content, left_out))
}

/// Writes the files of a host to this directory. If the beginning of a file is missing, its first line says
/// so. Fails if a file cannot be written, or a path leads out of the directory.
pub(crate) fn write(directory: &Path, files: &[KeptFile]) -> io::Result<()> {
    for file in files {
        if !file.path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::Error::other(format!(
                "{} is not a path below the directory of the run",
                file.path.display()
            )));
        }
        let path = directory.join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        let mut content = match file.left_out {
            0 => Vec::new(),
            bytes => format!("[hoptax left out the first {bytes} bytes]\n").into_bytes(),
        };
        content.extend_from_slice(&file.content.0);
        fs::write(path, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_configurations_are_kept_and_the_rest_is_not() {
        let (there, here) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
        let make = |name: &str, content: &[u8]| {
            let path = there.path().join(name);
            fs::create_dir_all(path.parent().expect("below it")).expect("made");
            fs::write(path, content).expect("written");
        };
        let long = [vec![b'x'; 10], vec![b'y'; MOST_OF_FILE as usize]].concat();
        make("logs/nginx/stderr.log", b"\xffcannot bind\n");
        make("logs/nginx/access.log", &long);
        make("rendered/nginx/conf/nginx.conf", b"events {}\n");
        make("packs/nginx/gateway.yaml", b"name: nginx\n");
        std::os::unix::fs::symlink("/etc/passwd", there.path().join("logs/link")).expect("made");

        write(here.path(), &collect(there.path())).expect("written");
        let read = |name: &str| fs::read(here.path().join(name));
        assert_eq!(read("logs/nginx/stderr.log").expect("kept"), b"\xffcannot bind\n");
        assert_eq!(read("rendered/nginx/conf/nginx.conf").expect("kept"), b"events {}\n");
        let access = String::from_utf8(read("logs/nginx/access.log").expect("kept")).expect("text");
        assert!(access.starts_with('[') && access.contains(" 10 bytes]\ny") && access.ends_with('y'));
        assert!(read("packs/nginx/gateway.yaml").is_err() && read("logs/link").is_err());
    }

    #[test]
    fn a_path_out_of_the_directory_is_refused() {
        let here = tempfile::tempdir().expect("a directory");
        for path in ["../out", "/tmp/out", "logs/../../out"] {
            let file = KeptFile { path: path.into(), left_out: 0, content: Bytes::default() };
            assert!(write(here.path(), &[file]).is_err(), "{path}");
        }
    }
}

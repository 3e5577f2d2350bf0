//! Reads files that users name. Each kind of file has a size limit.
//!
//! A plan may be `/dev/urandom` by mistake, a body may be a pipe without a writer, and a run directory may
//! come from someone else. Such a file is rejected with an error before it can use up memory or block hoptax.

#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, BufRead as _, ErrorKind, Read};
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Maximum size of a plan, and of a list of targets or budgets. Users can put longer texts into separate
/// files, and name these files in the plan.
pub const PLAN: u64 = 16 * MIB;
/// Maximum size of a body. The generator and the upstream keep bodies in memory.
pub const BODY: u64 = GIB;
/// Maximum size of a file from which templates take lines. The generator keeps the file in memory.
pub const LINES: u64 = GIB;
/// Maximum size of a file that contains certificates or a key. The certificates of all authorities that a
/// system trusts take about 256 KiB.
pub const PEM: u64 = 4 * MIB;
/// Maximum size of a token file.
pub const TOKEN: u64 = 64 * KIB;
/// Maximum size of a text file in a pack.
pub const PACK_FILE: u64 = MIB;
/// Maximum size of a load spec. A spec contains bodies, and their encoding takes 4/3 of their size.
pub const SPEC: u64 = 8 * GIB;
/// Maximum size of `run.json`.
pub const RUN: u64 = 64 * MIB;
/// Maximum size of `trials.jsonl`, enough for about 500,000 trials.
pub const TRIALS: u64 = 4 * GIB;

/// Reads the file at `path`, which can have up to `most` bytes. Anonymous pipes (`<(…)`, `/dev/stdin`) and
/// `/dev/null` are accepted like files. Other devices, sockets and named pipes are rejected.
///
/// # Errors
/// If `path` is not such a file, is too large, or cannot be read. If the solution is not obvious, the message
/// says what to do.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    if is_endless(&found) {
        return Err(refused("it is a device, and reading from a device may never end; name a file"));
    }
    #[cfg(target_os = "linux")]
    if found.file_type().is_socket() {
        return Err(refused("it is a socket; name a file"));
    }
    #[cfg(target_os = "linux")]
    if found.file_type().is_fifo() {
        return bounded(unnamed_pipe(path)?, 0, most);
    }
    bounded(File::open(path)?, found.len(), most)
}

/// Like [`read`], for text.
///
/// # Errors
/// The errors of [`read`], and an error if the content is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// Like [`read_text`], without a byte order mark at the beginning. For tokens, certificates and other values:
/// some editors write a mark, which is not part of the value.
///
/// # Errors
/// The errors of [`read_text`].
pub fn read_value(path: &Path, most: u64) -> io::Result<String> {
    let text = read_text(path, most)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Reads at most `most` bytes from standard input.
///
/// # Errors
/// If standard input is a device other than a terminal, is too long, or cannot be read.
pub fn read_stdin(most: u64) -> io::Result<Vec<u8>> {
    bounded(stdin()?.lock(), 0, most)
}

/// Opens standard input. Rejects a device, such as `/dev/zero`, from which reading may never end.
fn stdin() -> io::Result<io::Stdin> {
    let stdin = io::stdin();
    #[cfg(target_os = "linux")]
    if is_endless(&File::from(stdin.as_fd().try_clone_to_owned()?).metadata()?)
        && !rustix::termios::isatty(&stdin)
    {
        return Err(refused(
            "it is a device, and reading from a device may never end; pass a file or a pipe",
        ));
    }
    Ok(stdin)
}

/// Like [`read_stdin`], for text that ends at a zero byte or at the end of the input. Returns true as the
/// second value if a zero byte ended the text, so that more input can follow.
///
/// # Errors
/// The errors of [`read_stdin`], and an error if the input is not UTF-8.
pub fn read_stdin_up_to_zero(most: u64) -> io::Result<(String, bool)> {
    let mut bytes = Vec::new();
    stdin()?.lock().take(most + 1).read_until(0, &mut bytes)?;
    let goes_on = bytes.last() == Some(&0);
    if goes_on {
        bytes.pop();
    } else if bytes.len() as u64 > most {
        return Err(too_large(most));
    }
    Ok((text(bytes)?, goes_on))
}

/// Returns the first `most` bytes of the file at `path`, and the length of the whole file.
///
/// # Errors
/// If `path` is not a file, or if it cannot be read.
pub fn read_beginning(path: &Path, most: u64) -> io::Result<(Vec<u8>, u64)> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(refused("it is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok((bytes, found.len()))
}

fn bounded(from: impl Read, length: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if length <= most {
        // Read one byte more than the limit, to detect a file that is longer.
        bytes.reserve_exact(usize::try_from(length).unwrap_or(0) + 1);
        from.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= most {
            return Ok(bytes);
        }
    }
    Err(too_large(most))
}

fn too_large(most: u64) -> io::Error {
    let message = format!("it is larger than {}; is it the right file?", shown(most));
    io::Error::new(ErrorKind::FileTooLarge, message)
}

/// Opens an anonymous pipe. Rejects a named pipe, because a read from a named pipe without a writer could
/// block forever.
#[cfg(target_os = "linux")]
fn unnamed_pipe(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe: OwnedFd = rustix::fs::open(path, flags, Mode::empty())?;
    // linux/magic.h: PIPEFS_MAGIC.
    if rustix::fs::fstatfs(&pipe)?.f_type as u64 != 0x5049_5045 {
        return Err(refused(
            "it is a named pipe, and reading from a named pipe may never end; name a file, or pass \
            <(COMMAND)",
        ));
    }
    let flags = rustix::fs::fcntl_getfl(&pipe)?;
    rustix::fs::fcntl_setfl(&pipe, flags - OFlags::NONBLOCK)?;
    Ok(File::from(pipe))
}

/// Whether `found` is a device other than `/dev/null`. Reading from `/dev/null` ends at once (Linux:
/// Documentation/admin-guide/devices.txt).
#[cfg(target_os = "linux")]
fn is_endless(found: &fs::Metadata) -> bool {
    let kind = found.file_type();
    let is_null = kind.is_char_device() && found.rdev() == rustix::fs::makedev(1, 3);
    (kind.is_char_device() || kind.is_block_device()) && !is_null
}

/// Whether `found` is neither a file nor a directory.
#[cfg(not(target_os = "linux"))]
fn is_endless(found: &fs::Metadata) -> bool {
    !found.is_file() && !found.is_dir()
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    // The same message as from `std::fs::read_to_string`.
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

fn refused(message: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, message)
}

/// The limit as text, with its unit.
pub fn shown(most: u64) -> String {
    match most {
        most if most >= GIB => format!("{} GiB", most / GIB),
        most if most >= MIB => format!("{} MiB", most / MIB),
        most => format!("{} KiB", most / KIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixListener;
    use std::time::{Duration, Instant};

    fn why(path: &Path, most: u64) -> String {
        let begun = Instant::now();
        let error = read(path, most).expect_err("refused").to_string();
        assert!(begun.elapsed() < Duration::from_secs(1), "{} took {:?}", path.display(), begun.elapsed());
        error
    }

    #[test]
    fn endless_files_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a directory");
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).expect("made");
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).expect("bound");
        for (path, part) in [
            (Path::new("/dev/urandom"), "it is a device"),
            (Path::new("/dev/zero"), "it is a device"),
            (&fifo, "it is a named pipe"),
            (&socket, "it is a socket"),
            (folder.path(), "directory"),
            (&folder.path().join("none"), "No such file"),
        ] {
            assert!(why(path, PLAN).contains(part), "{}: {}", path.display(), why(path, PLAN));
        }
    }

    #[test]
    fn dev_null_is_read_as_empty() {
        assert_eq!(read(Path::new("/dev/null"), PLAN).expect("read"), b"");
    }

    #[test]
    fn a_file_above_the_limit_is_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("file");
        fs::write(&path, vec![b'a'; KIB as usize]).expect("written");
        assert_eq!(read(&path, KIB).expect("read").len(), KIB as usize);
        assert_eq!(read_beginning(&path, 10).expect("read"), (vec![b'a'; 10], KIB));
        fs::write(&path, vec![b'a'; KIB as usize + 1]).expect("written");
        assert!(why(&path, KIB).contains("1 KiB"));
        let large = File::create(&path).expect("made");
        large.set_len(10 * GIB).expect("a hole");
        assert!(why(&path, PLAN).contains("16 MiB"));
    }

    #[test]
    fn an_anonymous_pipe_is_read_like_a_file() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let writing = std::thread::spawn(move || {
            // Write only after the reader has opened the pipe, as a command in `<(…)` does.
            std::thread::sleep(Duration::from_millis(50));
            writer.write_all(b"later").expect("read");
        });
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(read_text(Path::new(&path), PLAN).expect("read"), "later");
        writing.join().expect("written");
    }

    #[test]
    fn an_endless_pipe_is_refused_at_the_limit() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let writing = std::thread::spawn(move || while writer.write_all(&[b'a'; 4096]).is_ok() {});
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert!(why(Path::new(&path), MIB).contains("1 MiB"));
        drop(reader);
        writing.join().expect("it ended");
    }

    #[test]
    fn text_must_be_utf8() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("file");
        fs::write(&path, [0xff]).expect("written");
        assert_eq!(read_text(&path, PLAN).expect_err("no text").kind(), ErrorKind::InvalidData);
    }
}

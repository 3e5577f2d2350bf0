//! Reads files that users name, and never more of them than a bound.
//!
//! A plan may be `/dev/urandom` by mistake, a body a pipe that nobody writes to, a run directory somebody else's. Each is refused at
//! once and in words, before memory or patience runs out.

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Most that a plan may hold, or a list of targets or budgets. Longer texts belong into files that it names.
pub const PLAN: u64 = 16 * MIB;
/// Most that a body may hold: both ends keep it in memory.
pub const BODY: u64 = GIB;
/// Most that a file may hold that templates take lines from: the generator keeps it in memory.
pub const LINES: u64 = GIB;
/// Most that a file of certificates or a key may hold. All authorities that a system trusts are a quarter of one MiB.
pub const PEM: u64 = 4 * MIB;
/// Most that a file of a token may hold.
pub const TOKEN: u64 = 64 * KIB;
/// Most that a text of a pack may hold.
pub const PACK_FILE: u64 = MIB;
/// Most that a load spec may hold: its bodies are in it, a third longer than they are.
pub const SPEC: u64 = 8 * GIB;
/// Most that `run.json` may hold.
pub const RUN: u64 = 64 * MIB;
/// Most that `trials.jsonl` may hold: some 500,000 trials.
pub const TRIALS: u64 = 4 * GIB;

/// The content of the file at `path`, of at most `most` bytes. A pipe without a name is a file too, as `<(…)` and `/dev/stdin` are, and so
/// is `/dev/null`; other devices, sockets and named pipes are not.
///
/// # Errors
/// If it is no such file, holds more, or cannot be read. The message says what to do where that is not obvious.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    let kind = found.file_type();
    if is_endless(&found) {
        return Err(refused("it is a device, and may never end; name a file"));
    }
    if kind.is_socket() {
        return Err(refused("it is a socket; name a file"));
    }
    if kind.is_fifo() {
        return bounded(unnamed_pipe(path)?, 0, most);
    }
    bounded(File::open(path)?, found.len(), most)
}

/// As [`read`], of text.
///
/// # Errors
/// As [`read`], and if it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// What comes on standard input, at most `most` bytes.
///
/// # Errors
/// If it is a device other than a terminal, more comes, or it cannot be read.
pub fn read_stdin(most: u64) -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    let file = File::from(stdin.as_fd().try_clone_to_owned()?);
    if is_endless(&file.metadata()?) && !rustix::termios::isatty(&stdin) {
        return Err(refused("it is a device, and may never end; pass a file or a pipe"));
    }
    bounded(stdin.lock(), 0, most)
}

/// As [`read_stdin`], of text.
///
/// # Errors
/// As [`read_stdin`], and if it is not UTF-8.
pub fn read_stdin_text(most: u64) -> io::Result<String> {
    text(read_stdin(most)?)
}

/// The first `most` bytes of the file at `path`, and its whole length.
///
/// # Errors
/// If it is not a file, or cannot be read.
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
        // One byte more than may be tells a file that holds more from one that holds just as much.
        bytes.reserve_exact(usize::try_from(length).unwrap_or(0) + 1);
        from.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= most {
            return Ok(bytes);
        }
    }
    let message = format!("it holds more than {}; is it the right file?", shown(most));
    Err(io::Error::new(ErrorKind::FileTooLarge, message))
}

/// Opens a pipe that has no name. One with a name may wait for a writer for ever.
fn unnamed_pipe(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe: OwnedFd = rustix::fs::open(path, flags, Mode::empty())?;
    // linux/magic.h: PIPEFS_MAGIC.
    if rustix::fs::fstatfs(&pipe)?.f_type as u64 != 0x5049_5045 {
        return Err(refused("it is a named pipe, which may never end; name a file, or pass <(COMMAND)"));
    }
    let flags = rustix::fs::fcntl_getfl(&pipe)?;
    rustix::fs::fcntl_setfl(&pipe, flags - OFlags::NONBLOCK)?;
    Ok(File::from(pipe))
}

/// Whether it is a device other than `/dev/null`, which ends at once (Linux: Documentation/admin-guide/devices.txt).
fn is_endless(found: &fs::Metadata) -> bool {
    let kind = found.file_type();
    let is_null = kind.is_char_device() && found.rdev() == rustix::fs::makedev(1, 3);
    (kind.is_char_device() || kind.is_block_device()) && !is_null
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    // The words of `std::fs::read_to_string`.
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

fn refused(message: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, message)
}

/// A bound in words.
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
    fn what_never_ends_is_refused_at_once() {
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
    fn nothing_is_read_of_the_device_that_holds_nothing() {
        assert_eq!(read(Path::new("/dev/null"), PLAN).expect("read"), b"");
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_no_further() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("file");
        fs::write(&path, vec![b'a'; KIB as usize]).expect("written");
        assert_eq!(read(&path, KIB).expect("as much as may be").len(), KIB as usize);
        assert_eq!(read_beginning(&path, 10).expect("read"), (vec![b'a'; 10], KIB));
        fs::write(&path, vec![b'a'; KIB as usize + 1]).expect("written");
        assert_eq!(why(&path, KIB), "it holds more than 1 KiB; is it the right file?");
        let large = File::create(&path).expect("made");
        large.set_len(10 * GIB).expect("a hole");
        assert_eq!(why(&path, PLAN), "it holds more than 16 MiB; is it the right file?");
    }

    #[test]
    fn a_pipe_without_a_name_is_read_like_a_file() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let writing = std::thread::spawn(move || {
            // Not there yet when it is opened, as what `<(…)` prints.
            std::thread::sleep(Duration::from_millis(50));
            writer.write_all(b"later").expect("read");
        });
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(read_text(Path::new(&path), PLAN).expect("read"), "later");
        writing.join().expect("written");
    }

    #[test]
    fn a_pipe_that_never_ends_is_read_up_to_its_bound() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let writing = std::thread::spawn(move || while writer.write_all(&[b'a'; 4096]).is_ok() {});
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert!(why(Path::new(&path), MIB).contains("more than 1 MiB"));
        drop(reader);
        writing.join().expect("it ended");
    }

    #[test]
    fn what_is_not_text_is_refused_as_text() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("file");
        fs::write(&path, [0xff]).expect("written");
        assert_eq!(read_text(&path, PLAN).expect_err("no text").kind(), ErrorKind::InvalidData);
    }
}

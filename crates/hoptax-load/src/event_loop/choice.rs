//! Which event loop, decided at run time: containers and old kernels forbid io_uring.

use super::Uring;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;

/// What was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// What costs less. Today that is epoll: per request of the generator both cost the same to within 1 % (64 B and
    /// 64 KiB at 100 connections, `benches/client-cpu.py`), and epoll can be had everywhere.
    #[default]
    Auto,
    /// epoll.
    Epoll,
    /// io_uring, or nothing.
    IoUring,
}

/// What is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// [`super::Epoll`].
    Epoll,
    /// [`super::Uring`].
    IoUring,
}

impl Choice {
    /// Decides, by trying it where that matters.
    ///
    /// # Errors
    /// If io_uring was asked for and cannot be had; the text says why, and what to do.
    pub fn choose(self) -> Result<Chosen, String> {
        self.choose_by(|| Uring::new().map(drop))
    }

    fn choose_by(self, attempt: impl FnOnce() -> io::Result<()>) -> Result<Chosen, String> {
        match self {
            Self::Auto | Self::Epoll => Ok(Chosen::Epoll),
            Self::IoUring => attempt().map(|()| Chosen::IoUring).map_err(|error| reason(&error)),
        }
    }
}

impl Chosen {
    /// As records and summaries name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// Why io_uring cannot be had.
fn reason(error: &io::Error) -> String {
    let why = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "the kernel forbids it here (sysctl kernel.io_uring_disabled, or a container's seccomp profile)"
        }
        Some(Errno::NOSYS) => "the kernel does not know it, or a container's seccomp profile hides it",
        Some(Errno::INVAL) => "this kernel's is too old; Linux 6.1 or newer has what is needed",
        Some(Errno::NOMEM) => "there is not enough memory for it, or too little may be locked (`ulimit -l`)",
        Some(Errno::MFILE | Errno::NFILE) => "there are no descriptors left (`ulimit -n`)",
        _ => "an attempt failed",
    };
    format!("io_uring cannot be used: {why}: {error}; `--event-loop epoll` works everywhere")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> io::Result<()> {
        Err(Errno::PERM.into())
    }

    #[test]
    fn auto_works_everywhere() {
        assert_eq!(Choice::Auto.choose_by(forbidden), Ok(Chosen::Epoll));
        assert_eq!(Choice::Auto.choose_by(|| Ok(())), Ok(Chosen::Epoll));
    }

    #[test]
    fn what_is_forced_is_used_or_refused_with_the_reason() {
        let untried = || -> io::Result<()> { panic!("epoll needs no attempt") };
        assert_eq!(Choice::Epoll.choose_by(untried), Ok(Chosen::Epoll));
        assert_eq!(Choice::IoUring.choose_by(|| Ok(())), Ok(Chosen::IoUring));
        let told = Choice::IoUring.choose_by(forbidden).expect_err("forbidden");
        assert!(told.contains("io_uring_disabled") && told.contains("--event-loop epoll"), "{told}");
        for (errno, part) in
            [(Errno::NOSYS, "does not know"), (Errno::INVAL, "6.1"), (Errno::NOMEM, "memory")]
        {
            let told = Choice::IoUring.choose_by(|| Err(errno.into())).expect_err("fails");
            assert!(told.contains(part), "{told}");
        }
    }
}

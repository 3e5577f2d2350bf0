//! The first line that an agent writes. It contains the versions, in a form that never changes, so that a
//! runner of any version can read it. A login shell may print text before it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the protocol. Runner and agent also need the same version of hoptax, because messages contain
/// its types.
pub(crate) const PROTOCOL: u32 = 1;

/// Maximum length of the text before the greeting, bytes. Messages of the day are shorter.
pub(crate) const MOST_BEFORE: usize = 64 << 10;

/// The versions of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of the protocol.
    pub protocol: u32,
    /// Version of hoptax.
    pub hoptax: String,
}

impl Versions {
    /// The versions of this program.
    pub fn own() -> Self {
        Self { protocol: PROTOCOL, hoptax: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// The line that an agent with these versions writes first.
    pub fn line(&self) -> String {
        format!("{BEGIN}{}, version {}\n", self.protocol, self.hoptax)
    }

    /// Why a runner with these versions cannot work with an agent on another host. `None` if it can.
    pub fn mismatch(&self, agent: &Self) -> Option<String> {
        (self != agent)
            .then(|| format!("{agent} runs there, and {self} here. Install the same version on both"))
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hoptax {} (protocol {})", self.hoptax, self.protocol)
    }
}

const BEGIN: &str = "hoptax agent, protocol ";

/// Looks for the greeting in what was received so far. Returns the versions, and the number of bytes up to
/// the end of the greeting. `None` if the greeting has not been received completely.
pub(crate) fn find(received: &[u8]) -> Option<(Versions, usize)> {
    let mut from = 0;
    loop {
        let length = received[from..].iter().position(|&byte| byte == b'\n')? + 1;
        let line = String::from_utf8_lossy(&received[from..from + length]);
        from += length;
        // A shell may print the last text without the end of the line.
        if let Some(versions) = line.find(BEGIN).and_then(|at| parse(&line[at..])) {
            return Some((versions, from));
        }
    }
}

fn parse(line: &str) -> Option<Versions> {
    let (protocol, hoptax) = line.strip_prefix(BEGIN)?.trim_end().split_once(", version ")?;
    Some(Versions { protocol: protocol.parse().ok()?, hoptax: hoptax.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_is_found_after_any_text() {
        let line = Versions::own().line();
        for before in ["", "Welcome to edge!\n\nhoptax agent, protocol x\n", "no end of the line: "] {
            let text = format!("{before}{line}rest");
            let expected = Some((Versions::own(), before.len() + line.len()));
            assert_eq!(find(text.as_bytes()), expected, "after {before:?}");
            for end in 0..before.len() + line.len() {
                assert_eq!(find(&text.as_bytes()[..end]), None, "{end} bytes after {before:?}");
            }
        }
    }

    #[test]
    fn only_the_same_versions_match() {
        let own = Versions::own();
        assert_eq!(own.mismatch(&own), None);
        let older = Versions { hoptax: "0.0.9".into(), ..Versions::own() };
        let message = own.mismatch(&older).expect("another version");
        assert!(message.starts_with("hoptax 0.0.9 (protocol 1)"), "{message}");
        assert!(Versions { protocol: PROTOCOL + 1, ..Versions::own() }.mismatch(&own).is_some());
        assert_eq!(find(older.line().as_bytes()).map(|(versions, _)| versions), Some(older));
    }
}

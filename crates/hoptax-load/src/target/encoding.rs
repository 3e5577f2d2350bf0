//! What the version of HTTP, and a limit of requests per connection, have to do with how a request is written.

use crate::spec::{HttpVersion, TargetSpec};
use hoptax_wire::http1::{Version, has_token};

/// What all requests of a load have in common.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Protocol {
    pub(crate) version: HttpVersion,
    /// Requests that a connection carries; absent: no limit.
    pub(crate) per_connection: Option<u32>,
}

/// How a request is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoding {
    pub(super) version: HttpVersion,
    /// For the last request of a connection.
    pub(super) closing: bool,
}

impl Encoding {
    pub(super) fn version(self) -> Version {
        match self.version {
            HttpVersion::Http10 => Version::Http10,
            HttpVersion::Http11 => Version::Http11,
        }
    }

    /// What a `connection` header has to say: whatever the version does not mean without one (RFC 9112, section 9.3).
    /// One of the target's own stands as it is, and nothing is added to it.
    pub(super) fn added_to(self, target: &TargetSpec) -> Option<&'static str> {
        if connection(target).next().is_some() {
            return None;
        }
        match (self.version, self.closing) {
            (HttpVersion::Http10, true) | (HttpVersion::Http11, false) => None,
            (HttpVersion::Http10, false) => Some("keep-alive"),
            (HttpVersion::Http11, true) => Some("close"),
        }
    }

    /// Whether the request asks for the connection to be closed.
    pub(super) fn closes(self, target: &TargetSpec) -> bool {
        let says = |token| connection(target).any(|value| has_token(value.as_bytes(), token));
        let kept =
            self.version == HttpVersion::Http11 || self.added_to(target).is_some() || says("keep-alive");
        self.closing || says("close") || !kept
    }
}

/// The values of the target's own `connection` headers.
fn connection(target: &TargetSpec) -> impl Iterator<Item = &str> {
    let named = target.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    named.map(|(_, value)| value.as_str())
}

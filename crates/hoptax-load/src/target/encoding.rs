//! Protocol settings that affect the encoding of a request: the HTTP version, and the limit of requests per
//! connection.

use hoptax_format::spec::{HttpVersion, TargetSpec};
use hoptax_wire::http1::{Version, has_token};

/// Protocol settings that all requests of a load share.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Protocol {
    pub(crate) version: HttpVersion,
    pub(crate) per_connection: Option<u32>,
    /// True if the connections use TLS.
    pub(crate) secure: bool,
}

impl Protocol {
    pub(super) fn scheme(self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Encoding {
    pub(super) version: HttpVersion,
    pub(super) closing: bool,
}

impl Encoding {
    pub(super) fn version(self) -> Version {
        match self.version {
            HttpVersion::Http10 => Version::Http10,
            HttpVersion::Http11 => Version::Http11,
            HttpVersion::Http2 => unreachable!("only HTTP/1 has this encoding"),
        }
    }

    /// Value of the `connection` header that must be added to the request. It is needed if the default of the
    /// HTTP version is not what this load needs (RFC 9112, section 9.3). If the target already has a
    /// `connection` header, nothing is added.
    pub(super) fn added_to(self, target: &TargetSpec) -> Option<&'static str> {
        if connection(target).next().is_some() {
            return None;
        }
        match (self.version, self.closing) {
            (HttpVersion::Http10, true) | (HttpVersion::Http11, false) => None,
            (HttpVersion::Http10, false) => Some("keep-alive"),
            (HttpVersion::Http11, true) => Some("close"),
            (HttpVersion::Http2, _) => None,
        }
    }

    pub(super) fn closes(self, target: &TargetSpec) -> bool {
        let says = |token| connection(target).any(|value| has_token(value.as_bytes(), token));
        let kept =
            self.version == HttpVersion::Http11 || self.added_to(target).is_some() || says("keep-alive");
        self.closing || says("close") || !kept
    }
}

fn connection(target: &TargetSpec) -> impl Iterator<Item = &str> {
    let named = target.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    named.map(|(_, value)| value.as_str())
}

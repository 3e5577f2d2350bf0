//! The versions of HTTP on both legs of a gateway.

use hoptax_format::spec::HttpVersion;

/// The versions of HTTP on both legs of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Legs {
    /// The version that clients speak.
    pub clients: HttpVersion,
    /// The version that the gateway speaks to the upstream.
    pub upstream: HttpVersion,
}

impl Legs {
    /// HTTP/1.1 to the upstream.
    pub fn with_http1_upstream(clients: HttpVersion) -> Self {
        Self { clients, upstream: HttpVersion::Http11 }
    }
}

//! The request, encoded once: every connection sends the same bytes.

use crate::spec::{HttpVersion, TargetSpec};
use hoptax_wire::http1::{BadField, Version, has_token, request_head};

/// How requests are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    pub(crate) version: HttpVersion,
    /// For the last request of a connection.
    pub(crate) closing: bool,
}

impl Encoding {
    fn version(self) -> Version {
        match self.version {
            HttpVersion::Http10 => Version::Http10,
            HttpVersion::Http11 => Version::Http11,
        }
    }

    /// What a `connection` header has to say: whatever the version does not mean without one (RFC 9112, section 9.3).
    fn connection(self) -> Option<&'static str> {
        match (self.version, self.closing) {
            (HttpVersion::Http10, true) | (HttpVersion::Http11, false) => None,
            (HttpVersion::Http10, false) => Some("keep-alive"),
            (HttpVersion::Http11, true) => Some("close"),
        }
    }
}

/// What is sent, and what that means for its response.
#[derive(Debug)]
pub(crate) struct Target {
    /// Head and body.
    pub(crate) bytes: Vec<u8>,
    /// Responses to HEAD have no body whatever they announce.
    pub(crate) is_head: bool,
    /// The request itself asks for the connection to be closed.
    pub(crate) closes: bool,
}

impl Target {
    /// Encodes `request`. A `connection` header of its own stands as it is, and nothing is added to it.
    ///
    /// # Errors
    /// If a part of it cannot stand in a head.
    pub(crate) fn new(request: &TargetSpec, encoding: Encoding) -> Result<Self, BadField> {
        let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let own = headers.clone().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
        let says = |token| own.clone().any(|(_, value)| has_token(value.as_bytes(), token));
        let added = encoding.connection().filter(|_| own.clone().next().is_none());
        let closes = encoding.closing
            || says("close")
            || encoding.version == HttpVersion::Http10 && added.is_none() && !says("keep-alive");
        let length = (!request.body.is_empty()).then_some(request.body.len() as u64);
        let headers = headers.clone().chain(added.map(|value| ("connection", value)));
        let mut bytes = request_head(encoding.version(), &request.method, &request.path, headers, length)?;
        bytes.extend_from_slice(&request.body);
        Ok(Self { bytes, is_head: request.method == "HEAD", closes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&str, &str)], body: &str) -> TargetSpec {
        TargetSpec {
            name: "target".into(),
            weight: 1,
            method: method.into(),
            path: "/a?b=c".into(),
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            body: body.into(),
            body_is_template: false,
            checks: Vec::new(),
        }
    }

    const PLAIN: Encoding = Encoding { version: HttpVersion::Http11, closing: false };

    #[test]
    fn encodes_head_and_body() {
        let request = |method, headers: &[_], body| Target::new(&request(method, headers, body), PLAIN);
        let target = request("POST", &[("host", "x"), ("Connection", "close")], "hello");
        let target = target.expect("all of it is fit for a head");
        let expected =
            "POST /a?b=c HTTP/1.1\r\nhost: x\r\nConnection: close\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(String::from_utf8_lossy(&target.bytes), expected);
        assert!(target.closes && !target.is_head);
        let head = request("HEAD", &[("host", "x")], "").expect("fit for a head");
        assert!(head.is_head && !head.closes);
        assert!(head.bytes.ends_with(b"host: x\r\n\r\n"));
    }

    #[test]
    fn refuses_what_would_break_out_of_its_place() {
        for bad in [
            request("GET", &[("host", "x\r\nevil: 1")], ""),
            request("G T", &[("host", "x")], ""),
            request("GET", &[("content-length", "7")], ""),
        ] {
            assert!(Target::new(&bad, PLAIN).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn says_what_becomes_of_the_connection_where_the_version_does_not() {
        use HttpVersion::{Http10, Http11};
        for (version, closing, own, head, closes) in [
            (Http11, false, None, "HTTP/1.1\r\nhost: x\r\n\r\n", false),
            (Http11, true, None, "HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", true),
            (Http10, false, None, "HTTP/1.0\r\nhost: x\r\nconnection: keep-alive\r\n\r\n", false),
            (Http10, true, None, "HTTP/1.0\r\nhost: x\r\n\r\n", true),
            (Http11, true, Some("te"), "HTTP/1.1\r\nhost: x\r\nConnection: te\r\n\r\n", true),
            (Http10, false, Some("te"), "HTTP/1.0\r\nhost: x\r\nConnection: te\r\n\r\n", true),
            (
                Http10,
                false,
                Some("Keep-Alive"),
                "HTTP/1.0\r\nhost: x\r\nConnection: Keep-Alive\r\n\r\n",
                false,
            ),
        ] {
            let headers: Vec<_> =
                [("host", "x")].into_iter().chain(own.map(|value| ("Connection", value))).collect();
            let target = Target::new(&request("GET", &headers, ""), Encoding { version, closing });
            let target = target.expect("fit for a head");
            assert_eq!(String::from_utf8_lossy(&target.bytes), format!("GET /a?b=c {head}"));
            assert_eq!(target.closes, closes, "{head}");
        }
    }
}

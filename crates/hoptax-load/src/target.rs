//! The request, encoded once: every connection sends the same bytes.

use crate::spec::TargetSpec;
use hoptax_wire::http1::{BadField, has_token, request_head};

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
    /// Encodes `request`.
    ///
    /// # Errors
    /// If a part of it cannot stand in a head.
    pub(crate) fn new(request: &TargetSpec) -> Result<Self, BadField> {
        let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let length = (!request.body.is_empty()).then_some(request.body.len() as u64);
        let mut bytes = request_head(&request.method, &request.path, headers.clone(), length)?;
        bytes.extend_from_slice(&request.body);
        let closes = headers
            .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
            .any(|(_, value)| has_token(value.as_bytes(), "close"));
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

    #[test]
    fn encodes_head_and_body() {
        let target = Target::new(&request("POST", &[("host", "x"), ("Connection", "close")], "hello"));
        let target = target.expect("all of it is fit for a head");
        let expected =
            "POST /a?b=c HTTP/1.1\r\nhost: x\r\nConnection: close\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(String::from_utf8_lossy(&target.bytes), expected);
        assert!(target.closes && !target.is_head);
        let head = Target::new(&request("HEAD", &[("host", "x")], "")).expect("fit for a head");
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
            assert!(Target::new(&bad).is_err(), "{bad:?}");
        }
    }
}

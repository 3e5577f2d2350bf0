//! Builds the fields of requests and responses.

use super::OutField;
use crate::http1::{self, is_field_value, is_target, is_token};

/// Why a head is not valid in HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadField {
    /// A part of it is not valid in any version of HTTP.
    #[error(transparent)]
    Http(#[from] http1::BadField),
    /// The header is about the connection (RFC 9113, section 8.2.2).
    #[error("HTTP/2 does not allow the header {0:?}; leave it out")]
    Connection(String),
    /// The request has no authority.
    #[error("the request has no authority, or {0:?} is not one; write host or host:port")]
    Authority(String),
}

/// The parts of a request's head.
#[derive(Debug, Clone, Copy)]
pub struct RequestParts<'a> {
    /// The method, for example `GET`.
    pub method: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port. A header `host` replaces this value.
    pub authority: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// The length of the body. It becomes the last header.
    pub content_length: Option<u64>,
}

/// The fields of a request. Names of headers become lower case.
///
/// # Errors
/// If a part is not valid, or if `headers` contains a header that the encoder adds itself or that HTTP/2 does
/// not allow.
pub fn request_fields<'a>(
    parts: RequestParts<'_>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<OutField>, BadField> {
    if !is_token(parts.method) {
        return Err(http1::BadField::Method(parts.method.into()).into());
    }
    if !is_target(parts.path) {
        return Err(http1::BadField::Target(parts.path.into()).into());
    }
    let mut authority = parts.authority;
    let mut others = Vec::new();
    for (name, value) in headers {
        if name.eq_ignore_ascii_case("host") {
            authority = value;
        } else {
            others.push((name, value));
        }
    }
    if authority.is_empty() || !authority.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/') {
        return Err(BadField::Authority(authority.into()));
    }
    let mut fields: Vec<OutField> = [
        (":method", parts.method),
        (":scheme", parts.scheme),
        (":authority", authority),
        (":path", parts.path),
    ]
    .map(|(name, value)| OutField { name: name.into(), value: value.into() })
    .into();
    add_headers(&mut fields, others, parts.content_length)?;
    Ok(fields)
}

/// The fields of a response. Names of headers become lower case. `content_length` becomes the last header.
///
/// # Errors
/// If a header is not valid, or if `headers` contains a header that the encoder adds itself or that HTTP/2
/// does not allow.
pub fn response_fields<'a>(
    status: u16,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    content_length: Option<u64>,
) -> Result<Vec<OutField>, BadField> {
    let mut fields = vec![OutField { name: ":status".into(), value: status.to_string() }];
    add_headers(&mut fields, headers, content_length)?;
    Ok(fields)
}

fn add_headers<'a>(
    fields: &mut Vec<OutField>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    content_length: Option<u64>,
) -> Result<(), BadField> {
    for (name, value) in headers {
        if !is_token(name) {
            return Err(http1::BadField::Name(name.into()).into());
        }
        if !is_field_value(value) {
            return Err(http1::BadField::Value { name: name.into(), value: value.into() }.into());
        }
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "content-length" => return Err(http1::BadField::Framing(name.into()).into()),
            "connection" | "proxy-connection" | "keep-alive" | "transfer-encoding" | "upgrade" => {
                return Err(BadField::Connection(name.into()));
            }
            "te" if value != "trailers" => return Err(BadField::Connection(name.into())),
            _ => fields.push(OutField { name: lower, value: value.into() }),
        }
    }
    if let Some(length) = content_length {
        fields.push(OutField { name: "content-length".into(), value: length.to_string() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: RequestParts<'_> =
        RequestParts { method: "GET", scheme: "http", authority: "a:1", path: "/x?y", content_length: None };

    fn lines(fields: &[OutField]) -> Vec<String> {
        fields.iter().map(|field| format!("{}: {}", field.name, field.value)).collect()
    }

    #[test]
    fn pseudo_headers_are_first_and_names_are_in_lower_case() {
        let parts = RequestParts { content_length: Some(3), ..PARTS };
        let fields = request_fields(parts, [("Accept", "*/*"), ("Host", "b"), ("TE", "trailers")]);
        let expected = [
            ":method: GET",
            ":scheme: http",
            ":authority: b",
            ":path: /x?y",
            "accept: */*",
            "te: trailers",
            "content-length: 3",
        ];
        assert_eq!(lines(&fields.expect("all good")), expected);
        let fields = response_fields(204, [("Server", "x")], None).expect("all good");
        assert_eq!(lines(&fields), [":status: 204", "server: x"]);
    }

    #[test]
    fn invalid_parts_are_refused() {
        use http1::BadField as Http;
        let refused = |parts, headers: &[(&'static str, &'static str)]| {
            request_fields(parts, headers.iter().copied()).expect_err("not valid")
        };
        assert_eq!(refused(RequestParts { method: "G T", ..PARTS }, &[]), Http::Method("G T".into()).into());
        assert_eq!(refused(RequestParts { path: "x", ..PARTS }, &[]), Http::Target("x".into()).into());
        for authority in ["", "a b", "a/b"] {
            let parts = RequestParts { authority, ..PARTS };
            assert_eq!(refused(parts, &[]), BadField::Authority(authority.into()));
        }
        for (name, value) in [
            ("Connection", "close"),
            ("keep-alive", "1"),
            ("Proxy-Connection", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
        ] {
            assert_eq!(refused(PARTS, &[(name, value)]), BadField::Connection(name.into()));
        }
        assert_eq!(refused(PARTS, &[("a b", "c")]), Http::Name("a b".into()).into());
        assert_eq!(
            refused(PARTS, &[("a", "b\r\n")]),
            Http::Value { name: "a".into(), value: "b\r\n".into() }.into()
        );
        assert_eq!(refused(PARTS, &[("Content-Length", "1")]), Http::Framing("Content-Length".into()).into());
    }
}

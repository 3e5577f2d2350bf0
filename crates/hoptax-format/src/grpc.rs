//! gRPC calls in specs and records. A call is a POST of one message to `/SERVICE/METHOD`.

use hoptax_wire::grpc;
pub use hoptax_wire::grpc::Status;

/// First words of the description of a failed check of the status.
pub const FAILED: &str = "gRPC status ";
/// Method of a request that carries a call.
pub const METHOD: &str = "POST";

/// Splits `SERVICE/METHOD`, such as `echo.Echo/Say`. A `/` before the service is accepted. `None` if a part
/// is not a name.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let (service, method) = text.strip_prefix('/').unwrap_or(text).split_once('/')?;
    (is_service(service) && is_method(method)).then_some((service, method))
}

/// True if a service can have this name: words with dots between them, such as `grpc.health.v1.Health`.
pub fn is_service(name: &str) -> bool {
    name.split('.').all(is_method)
}

/// True if a method can have this name: letters, digits and `_`.
pub fn is_method(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The path of a call.
pub fn path(service: &str, method: &str) -> String {
    format!("/{service}/{method}")
}

/// Adds the headers that a call needs and that `headers` does not have. `deadline_ns` is the time limit of
/// the call, nanoseconds.
pub fn add_headers(headers: &mut Vec<(String, String)>, deadline_ns: Option<u64>) {
    let deadline = deadline_ns.map(|ns| (grpc::TIMEOUT, grpc::timeout(ns)));
    let needed = [("te", "trailers".to_owned()), ("content-type", grpc::CONTENT_TYPE.to_owned())];
    for (name, value) in needed.into_iter().chain(deadline) {
        if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value));
        }
    }
}

/// Turns the headers of a call into those of a gRPC-Web call. A content type of gRPC-Web that the user has
/// set stays.
pub fn web_headers(headers: &mut Vec<(String, String)>) {
    headers.retain(|(name, value)| match name.to_ascii_lowercase().as_str() {
        "te" => false,
        "content-type" => !grpc::is_grpc(value.as_bytes()),
        _ => true,
    });
    for (name, value) in [("content-type", grpc::WEB_CONTENT_TYPE), ("x-grpc-web", "1")] {
        if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// The body of a call: the message with its prefix.
///
/// # Errors
/// If the message is 4 GiB long or longer.
pub fn body(message: &[u8]) -> Result<Vec<u8>, grpc::Fault> {
    let mut body = Vec::with_capacity(grpc::PREFIX + message.len());
    grpc::write_message(&mut body, message)?;
    Ok(body)
}

/// The body of a call whose message is compressed: the compressed message with its prefix.
///
/// # Errors
/// If the compressed message is 4 GiB long or longer.
pub fn compressed_body(compressed: &[u8]) -> Result<Vec<u8>, grpc::Fault> {
    let mut body = body(compressed)?;
    body[0] = 1;
    Ok(body)
}

/// Adds the headers of a call whose message is compressed with gzip, unless `headers` has them.
pub fn add_gzip(headers: &mut Vec<(String, String)>) {
    for (name, value) in [("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip, identity")] {
        if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// The status of a response: `value` is its `grpc-status`. If that is missing, the HTTP status determines the
/// result.
pub fn status_of(value: Option<&[u8]>, http: u16) -> Status {
    value.map_or_else(|| Status::of_http(http), Status::read)
}

/// Statuses by name in JSON.
pub(crate) mod names {
    use super::Status;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(statuses: &[Status], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(statuses.iter().map(|status| status.name()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Status>, D::Error> {
        let known = |name: String| {
            let wrong = || D::Error::custom(format!("{name:?} is not a gRPC status; use a name such as OK"));
            Status::from_name(&name).ok_or_else(wrong)
        };
        Vec::<String>::deserialize(deserializer)?.into_iter().map(known).collect()
    }
}

/// An optional status by name in JSON.
pub mod optional_name {
    use super::Status;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    /// Writes the name, such as `NOT_FOUND`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(status: &Option<Status>, serializer: S) -> Result<S::Ok, S::Error> {
        status.map(Status::name).serialize(serializer)
    }

    /// Reads the name.
    ///
    /// # Errors
    /// If it is not the name of a status.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Status>, D::Error> {
        let known = |name: String| {
            let wrong = || D::Error::custom(format!("{name:?} is not a gRPC status; use a name such as OK"));
            Status::from_name(&name).ok_or_else(wrong)
        };
        Option::<String>::deserialize(deserializer)?.map(known).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Check, TargetSpec};

    #[test]
    fn a_call_is_named_by_service_and_method() {
        assert_eq!(split("echo.Echo/Say"), Some(("echo.Echo", "Say")));
        assert_eq!(split("/a_1/B"), Some(("a_1", "B")));
        for wrong in ["", "/", "Say", "echo.Echo/", "/Say", "a/b/c", "a..b/c", ".a/b", "a b/c", "a/b?c"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn headers_of_the_user_stay() {
        let mut headers = vec![("Content-Type".to_owned(), "application/grpc+proto".to_owned())];
        add_headers(&mut headers, Some(150_000_000));
        let own = ("Content-Type", "application/grpc+proto");
        let expected = [own, ("te", "trailers"), ("grpc-timeout", "150m")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn calls_of_grpc_web_have_its_headers() {
        let owned = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut headers = owned(&[("host", "a")]);
        add_headers(&mut headers, Some(150_000_000));
        web_headers(&mut headers);
        let web = ("content-type", "application/grpc-web+proto");
        let expected = owned(&[("host", "a"), ("grpc-timeout", "150m"), web, ("x-grpc-web", "1")]);
        assert_eq!(headers, expected);
        web_headers(&mut headers);
        assert_eq!(headers, expected, "the second time changes nothing");
        let own = [("Content-Type", "application/grpc-web"), ("TE", "trailers"), ("X-Grpc-Web", "yes")];
        let mut headers = owned(&own);
        web_headers(&mut headers);
        assert_eq!(headers, owned(&[own[0], own[2]]));
    }

    #[test]
    fn a_compressed_message_has_flag_and_headers() {
        assert_eq!(compressed_body(b"gz").expect("short"), b"\x01\0\0\0\x02gz");
        let mut headers = vec![("Grpc-Accept-Encoding".to_owned(), "identity".to_owned())];
        add_gzip(&mut headers);
        let expected = [("Grpc-Accept-Encoding", "identity"), ("grpc-encoding", "gzip")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_status_is_read_or_mapped() {
        assert_eq!(status_of(Some(b"5"), 200), Status::NotFound);
        assert_eq!(status_of(None, 503), Status::Unavailable);
        assert_eq!(status_of(None, 200), Status::Unknown);
    }

    #[test]
    fn specs_have_names_of_statuses() {
        let check = Check::Grpc(vec![Status::Ok, Status::NotFound]);
        let json = serde_json::to_string(&check).expect("plain data");
        assert_eq!(json, r#"{"grpc":["OK","NOT_FOUND"]}"#);
        assert_eq!(serde_json::from_str::<Check>(&json).expect("its own form"), check);
        let error = serde_json::from_str::<Check>(r#"{"grpc":["FINE"]}"#).expect_err("no status");
        assert!(error.to_string().contains("FINE"), "{error}");
        let plain = TargetSpec::only("GET", "/", Vec::new(), Vec::new());
        let json = serde_json::to_string(&plain).expect("plain data");
        assert!(!json.contains("grpc"), "{json}");
    }
}

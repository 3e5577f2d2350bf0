//! Answers of gateways that translate calls, as gRPC would give them.

use super::Answer;
use hoptax_wire::grpc::{CONTENT_TYPE, MESSAGE, PREFIX, STATUS, TRAILERS, is_grpc_web};

const TYPE: &str = "content-type";

/// True if an answer is one of gRPC-Web.
pub(super) fn is_web(answer: &Answer) -> bool {
    answer.headers.get(TYPE).is_some_and(|value| is_grpc_web(value.as_bytes()))
}

/// The status of a call in the trailers of a gRPC-Web answer, or in its head if it has no message.
pub(super) fn web_status(answer: &Answer) -> Option<String> {
    if !is_web(answer) {
        return None;
    }
    match split(&answer.body) {
        Some((_, lines)) => fields(lines).find(|(name, _)| name == STATUS).map(|(_, value)| value),
        None => answer.headers.get(STATUS).cloned(),
    }
}

/// Makes a gRPC-Web answer one of gRPC: moves the status from the body to the headers. Other answers stay as
/// they are.
///
/// # Errors
/// If there is no status.
pub(super) fn from_web(direct: &Answer, gateway: &mut Answer) -> Result<(), String> {
    if !is_web(gateway) {
        return Ok(());
    }
    match split(&gateway.body) {
        Some((messages, lines)) => {
            let length = messages.len();
            let is_compared = |(name, _): &(String, String)| name == STATUS || name == MESSAGE;
            gateway.headers.extend(fields(lines).filter(is_compared));
            gateway.body.truncate(length);
        }
        None if gateway.headers.contains_key(STATUS) => {}
        None => return Err("its body ends without the trailers of gRPC-Web".to_owned()),
    }
    let own = direct.headers.get(TYPE).cloned();
    gateway.headers.insert(TYPE.to_owned(), own.unwrap_or_else(|| CONTENT_TYPE.to_owned()));
    Ok(())
}

/// Replaces an answer in JSON by the answer of direct, which has the same content as a message of protobuf.
///
/// # Errors
/// If the answer is not JSON.
pub(super) fn from_json(direct: &Answer, gateway: &mut Answer) -> Result<(), String> {
    if gateway.status >= 400 && direct.status < 400 {
        // Other statuses mean that the gateway refused the request.
        let cause = match gateway.status {
            500.. => {
                ". The gateway can translate the upstream's answer only if it is a message of the method's \
                 type: write upstream: { body: 0B } for an empty one"
            }
            _ => "",
        };
        return Err(format!("status {} instead of {}{cause}", gateway.status, direct.status));
    }
    must_be_json(gateway)?;
    gateway.body.clone_from(&direct.body);
    for name in [TYPE, STATUS, MESSAGE] {
        match direct.headers.get(name) {
            Some(value) => gateway.headers.insert(name.to_owned(), value.clone()),
            None => gateway.headers.remove(name),
        };
    }
    Ok(())
}

/// Checks that an answer is JSON.
///
/// # Errors
/// If its content type says otherwise, or its body is not JSON.
pub(super) fn must_be_json(answer: &Answer) -> Result<(), String> {
    let of_type = answer.headers.get(TYPE).map_or("", String::as_str);
    if !of_type.starts_with("application/json") {
        return Err(format!("its answer is not JSON: the content type is `{of_type}`"));
    }
    let read: Result<serde::de::IgnoredAny, _> = serde_json::from_slice(&answer.body);
    read.map(drop).map_err(|error| format!("its body is not JSON: {error}"))
}

/// The messages in the body of a gRPC-Web answer, and the lines of its trailers. `None` if it has no
/// trailers.
fn split(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    loop {
        let (prefix, rest) = body.get(at..)?.split_first_chunk::<PREFIX>()?;
        let [flag, length @ ..] = *prefix;
        let content = rest.get(..u32::from_be_bytes(length) as usize)?;
        if flag & TRAILERS != 0 {
            return Some((&body[..at], content));
        }
        at += PREFIX + content.len();
    }
}

/// Names, in lower case, and values.
fn fields(lines: &[u8]) -> impl Iterator<Item = (String, String)> {
    let lines = String::from_utf8_lossy(lines).into_owned();
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    lines.lines().filter_map(field).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::super::difference;
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Answer { status, headers, body: body.to_vec() }
    }

    const WEB: (&str, &str) = (TYPE, "application/grpc-web+proto");

    fn direct() -> Answer {
        answer(200, &[(TYPE, CONTENT_TYPE), (STATUS, "0")], b"\0\0\0\0\x02hi")
    }

    #[test]
    fn answers_of_grpc_web_become_answers_of_grpc() {
        let frame = b"\0\0\0\0\x02hi\x80\0\0\0\x15Grpc-Status:0\r\nx: y\r\n";
        let mut web = answer(200, &[WEB], frame);
        assert_eq!(web_status(&web).as_deref(), Some("0"));
        assert_eq!(from_web(&direct(), &mut web), Ok(()));
        assert_eq!(web, direct());
        assert_eq!(web_status(&web), None, "no longer gRPC-Web");
        let mut failed = answer(200, &[WEB, (STATUS, "5")], b"");
        assert_eq!(web_status(&failed).as_deref(), Some("5"));
        assert_eq!(from_web(&direct(), &mut failed), Ok(()));
        assert!(difference(&direct(), &failed).is_some());
        let errors = [&frame[..frame.len() - 1], &frame[..9], &frame[..7], b""].map(|cut| {
            let mut web = answer(200, &[WEB], cut);
            assert_eq!(web_status(&web), None, "{cut:?}");
            from_web(&direct(), &mut web).expect_err("cut")
        });
        insta::assert_snapshot!(errors.join("\n"));
        let mut other = direct();
        assert_eq!(from_web(&direct(), &mut other), Ok(()));
        assert_eq!(other, direct());
    }

    #[test]
    fn answers_in_json_are_as_good_as_those_of_direct() {
        let json = (TYPE, "application/json");
        for headers in [&[json][..], &[json, (STATUS, "0")]] {
            let mut gateway = answer(200, headers, b"{}");
            assert_eq!(from_json(&direct(), &mut gateway), Ok(()));
            assert_eq!(gateway, direct());
        }
        let errors = [
            answer(502, &[(TYPE, "text/plain")], b"no group"),
            answer(200, &[(TYPE, "text/plain")], b"{}"),
            answer(200, &[json], b"{"),
            answer(200, &[json], b""),
            // The upstream's answer is not the cause of this one.
            answer(404, &[(TYPE, "text/plain")], b""),
        ]
        .map(|mut gateway| from_json(&direct(), &mut gateway).expect_err("no JSON"));
        insta::assert_snapshot!(errors.join("\n"));
    }
}

//! Requests for server-sent events and handshakes of WebSockets. Verification reads only the heads of their
//! responses, because bodies may never end, and because all messages differ.

use hoptax_format::spec::{Check, TargetSpec};
use hoptax_wire::websocket::{EXTENSIONS, KEY};

/// The media type of events.
const EVENTS: &str = "text/event-stream";

/// True if a request is the handshake of a WebSocket over HTTP/1.
pub(super) fn is_handshake(target: &TargetSpec) -> bool {
    has(&target.headers, "upgrade", "websocket")
}

/// True if only the head of the response is read. Responses whose body is checked are read to their end.
pub(super) fn reads_head(target: &TargetSpec) -> bool {
    let is_of_body = |check: &Check| {
        matches!(check, Check::BodyContains(_) | Check::BodyEquals(_) | Check::BodyLength { .. })
    };
    let has_events = has(&target.headers, "accept", EVENTS);
    is_handshake(target) || has_events && !target.checks.iter().any(is_of_body)
}

/// The headers of a request that asks for no messages.
pub(super) fn plain_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let of_handshake = ["connection", "upgrade", "sec-websocket-version", KEY, EXTENSIONS];
    let is_socket = has(headers, "upgrade", "websocket");
    let is_plain = |(name, value): &&(String, String)| {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let asks_for_events = is("accept") && value.eq_ignore_ascii_case(EVENTS);
        !(asks_for_events || is_socket && of_handshake.iter().any(|other| is(other)))
    };
    headers.iter().filter(is_plain).cloned().collect()
}

fn has(headers: &[(String, String)], name: &str, part: &str) -> bool {
    let contains = |value: &str| value.to_ascii_lowercase().contains(part);
    headers.iter().any(|(other, value)| other.eq_ignore_ascii_case(name) && contains(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(headers: &[(&str, &str)]) -> TargetSpec {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        TargetSpec::only("GET", "/", headers.collect(), Vec::new())
    }

    #[test]
    fn heads_are_enough_for_messages() {
        let events = target(&[("host", "a"), ("Accept", "text/event-stream")]);
        let handshake = [("host", "a"), ("connection", "Upgrade"), ("upgrade", "WebSocket"), (KEY, "x")];
        let socket = target(&handshake);
        let plain = target(&[("host", "a"), ("connection", "close"), ("accept", "*/*")]);
        assert_eq!([&events, &socket, &plain].map(reads_head), [true, true, false]);
        assert_eq!([&events, &socket, &plain].map(is_handshake), [false, true, false]);
        let checked = TargetSpec { checks: vec![Check::BodyContains("x".into())], ..events.clone() };
        assert!(!reads_head(&checked));
        let names = |target: &TargetSpec| {
            let headers = plain_headers(&target.headers);
            headers.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!((names(&events), names(&socket)), (vec!["host".to_owned()], vec!["host".to_owned()]));
        assert_eq!(names(&plain), ["host", "connection", "accept"]);
    }
}

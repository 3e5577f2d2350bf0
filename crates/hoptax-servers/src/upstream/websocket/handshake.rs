//! The server's side of the handshake (RFC 6455, section 4.2; over HTTP/2: RFC 8441, section 5).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_format::stamp;
use hoptax_format::websocket::OFFERED_DEFLATE;
use hoptax_load::websocket::accept;
use hoptax_wire::http1::{self, Version, fields, response_head};
use hoptax_wire::http2::FieldList;
use hoptax_wire::websocket::{ACCEPT, DEFLATE, EXTENSIONS, KEY, VERSION};

const UPGRADE: &str = "upgrade";
const PROTOCOL: &str = "websocket";
const VERSION_HEADER: &str = "sec-websocket-version";
/// Length of a key, bytes.
const KEY_LENGTH: usize = 16;

/// Why a WebSocket is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream) enum Refusal {
    /// The client uses another version of the protocol.
    Version,
    Malformed,
}

impl Refusal {
    /// The status of the response.
    pub(in crate::upstream) fn status(self) -> u16 {
        match self {
            Self::Version => 426,
            Self::Malformed => 400,
        }
    }

    /// The response over HTTP/1.1.
    pub(in crate::upstream) fn response(self) -> Vec<u8> {
        let headers = [("connection", "close, upgrade"), (UPGRADE, PROTOCOL), (VERSION_HEADER, VERSION)];
        response_head(Version::Http11, self.status(), headers, Some(0)).expect("the headers are constants")
    }
}

/// An accepted handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::upstream) struct Accepted {
    /// The answer to the client's key.
    accept: String,
    /// The extension that both sides use from now on.
    pub(in crate::upstream) extension: Option<&'static str>,
}

/// The beginning of the second line of a response that has a stamp.
const BEFORE_STAMP: &[u8] = b"hoptax-stamp: ";

impl Accepted {
    /// The response with these further headers, and with space for a stamp if `stamps` is true.
    pub(in crate::upstream) fn response(&self, headers: &[(String, String)], stamps: bool) -> Vec<u8> {
        let own = [("connection", UPGRADE), (UPGRADE, PROTOCOL), (ACCEPT, self.accept.as_str())];
        let stamp = stamps.then_some((stamp::HEADER, stamp::BLANK));
        let extension = self.extension.map(|value| (EXTENSIONS, value));
        let others = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = stamp.into_iter().chain(own).chain(extension).chain(others);
        response_head(Version::Http11, 101, all, None).expect("the answers have the same headers")
    }

    /// The space for a stamp in a response. `None` if it has none.
    pub(in crate::upstream) fn stamp_in(response: &mut [u8]) -> Option<&mut [u8; stamp::LENGTH]> {
        let line = memchr::memchr(b'\n', response)? + 1;
        if !response[line..].starts_with(BEFORE_STAMP) {
            return None;
        }
        response[line + BEFORE_STAMP.len()..].first_chunk_mut()
    }
}

/// Reads a handshake over HTTP/1.1. `head` is a request's head. `compression` is true if the upstream
/// compresses messages. Returns `None` if the request does not ask for a WebSocket.
pub(in crate::upstream) fn answer(head: &[u8], compression: bool) -> Option<Result<Accepted, Refusal>> {
    let (mut is_websocket, mut version, mut keys, mut accept_value) = (false, None, 0, None);
    let mut extension = None;
    // The decoder has already accepted this head.
    let _ = fields(head, |field| {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is(UPGRADE) {
            is_websocket |= http1::has_token(field.value, PROTOCOL);
        } else if is(VERSION_HEADER) {
            version = Some(field.value);
        } else if is(KEY) {
            keys += 1;
            let is_key = STANDARD.decode(field.value).is_ok_and(|key| key.len() == KEY_LENGTH);
            accept_value = is_key.then(|| accept(field.value));
        } else if is(EXTENSIONS) && compression {
            extension = extension.or_else(|| choose(field.value));
        }
    });
    if !is_websocket {
        return None;
    }
    Some(match (version, accept_value) {
        (Some(version), _) if version != VERSION.as_bytes() => Err(Refusal::Version),
        (Some(_), Some(accept)) if keys == 1 => Ok(Accepted { accept, extension }),
        _ => Err(Refusal::Malformed),
    })
}

/// Reads a handshake over HTTP/2. Returns the extension.
pub(in crate::upstream) fn accept_stream(
    protocol: &[u8],
    fields: &FieldList,
    compression: bool,
) -> Result<Option<&'static str>, Refusal> {
    if protocol != PROTOCOL.as_bytes() {
        return Err(Refusal::Malformed);
    }
    match fields.get(VERSION_HEADER) {
        Some(version) if version == VERSION.as_bytes() => {}
        // HTTP/2 has no `upgrade`, so 426 is not possible.
        _ => return Err(Refusal::Malformed),
    }
    let mut offers = fields.iter().filter(|(name, _)| compression && *name == EXTENSIONS.as_bytes());
    Ok(offers.find_map(|(_, value)| choose(value)))
}

/// The parameters of the extension (RFC 7692, section 7.1).
const PARAMETERS: [&str; 4] = [
    "server_no_context_takeover",
    "client_no_context_takeover",
    "server_max_window_bits",
    "client_max_window_bits",
];
/// The answer to an offer that limits the server's window to the largest size.
const WITH_WINDOW: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=15";

/// The answer to the first offer that the upstream can accept.
fn choose(offers: &[u8]) -> Option<&'static str> {
    offers.split(|byte| *byte == b',').find_map(accept_offer)
}

/// The answer to an offer of an extension. The window of the upstream always has the largest size, so it
/// cannot accept offers that require a smaller one.
fn accept_offer(offer: &[u8]) -> Option<&'static str> {
    let mut parts = offer.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    if !parts.next()?.eq_ignore_ascii_case(DEFLATE.as_bytes()) {
        return None;
    }
    let mut seen = [false; PARAMETERS.len()];
    for parameter in parts {
        let (name, value) = match parameter.iter().position(|byte| *byte == b'=') {
            Some(at) => (parameter[..at].trim_ascii(), Some(unquoted(parameter[at + 1..].trim_ascii()))),
            None => (parameter, None),
        };
        let place = PARAMETERS.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))?;
        let bits = value.and_then(|value| std::str::from_utf8(value).ok()?.parse::<u8>().ok());
        let is_right = match place {
            0 | 1 => value.is_none(),
            2 => bits == Some(15),
            _ => value.is_none() || bits.is_some_and(|bits| (8..=15).contains(&bits)),
        };
        if !is_right || std::mem::replace(&mut seen[place], true) {
            return None;
        }
    }
    Some(if seen[2] { WITH_WINDOW } else { OFFERED_DEFLATE })
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request of RFC 6455, section 1.3, with other lines instead of its last two.
    fn request(lines: &str) -> Vec<u8> {
        format!("GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n{lines}\r\n")
            .into_bytes()
    }

    const GOOD: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

    #[test]
    fn faults_are_refused() {
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let version = "Sec-WebSocket-Version: 13\r\n";
        for (lines, refusal) in [
            (format!("{key}Sec-WebSocket-Version: 8\r\n"), Refusal::Version),
            (key.to_owned(), Refusal::Malformed),
            (version.to_owned(), Refusal::Malformed),
            (format!("{key}{key}{version}"), Refusal::Malformed),
            (format!("Sec-WebSocket-Key: c2hvcnQ=\r\n{version}"), Refusal::Malformed),
            (format!("Sec-WebSocket-Key: not base64\r\n{version}"), Refusal::Malformed),
        ] {
            assert_eq!(answer(&request(&lines), false), Some(Err(refusal)), "{lines}");
        }
        let response = Refusal::Version.response();
        let expected = "HTTP/1.1 426 Upgrade Required\r\nconnection: close, upgrade\r\nupgrade: websocket\r\n\
            sec-websocket-version: 13\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&response), expected);
        let other = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
        assert_eq!(answer(other, false), None);
    }

    #[test]
    fn the_first_possible_offer_is_accepted() {
        for (offers, expected) in [
            ("permessage-deflate", Some(OFFERED_DEFLATE)),
            ("permessage-deflate; client_max_window_bits", Some(OFFERED_DEFLATE)),
            ("permessage-deflate;client_max_window_bits=9;server_no_context_takeover", Some(OFFERED_DEFLATE)),
            ("x-other, Permessage-Deflate", Some(OFFERED_DEFLATE)),
            ("permessage-deflate; server_max_window_bits=\"15\"", Some(WITH_WINDOW)),
            ("permessage-deflate; server_max_window_bits=9, permessage-deflate", Some(OFFERED_DEFLATE)),
            ("permessage-deflate; server_max_window_bits=9", None),
            ("permessage-deflate; server_max_window_bits", None),
            ("permessage-deflate; client_max_window_bits=16", None),
            ("permessage-deflate; server_no_context_takeover=1", None),
            ("permessage-deflate; client_max_window_bits; client_max_window_bits", None),
            ("permessage-deflate; other", None),
            ("x-permessage-deflate", None),
        ] {
            let lines = format!("{GOOD}Sec-WebSocket-Extensions: {offers}\r\n");
            let accepted = answer(&request(&lines), true).expect("a handshake").expect("a good one");
            assert_eq!(accepted.extension, expected, "{offers}");
            let without = answer(&request(&lines), false).expect("a handshake").expect("a good one");
            assert_eq!(without.extension, None);
        }
    }
}

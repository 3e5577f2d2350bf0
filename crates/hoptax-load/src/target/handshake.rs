//! WebSocket handshakes: checks the server's answer.

use super::error::{TargetError, TargetPart};
use crate::websocket::accept;
use hoptax_format::spec::{HttpVersion, TargetSpec};
use hoptax_format::websocket::compresses;
use hoptax_wire::http1::fields;
use hoptax_wire::websocket::{ACCEPT, EXTENSIONS, KEY};

/// What the client's handshake asks for.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The right answer to the key. Absent over HTTP/2, which has no key (RFC 8441, section 5).
    accept: Option<String>,
    /// True if the client offers to compress messages.
    offers_deflate: bool,
}

/// What the server's answer to a handshake says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Frames follow. `deflate` is true if both sides can compress messages.
    Accepted { deflate: bool },
    /// The server did not answer the key, or not correctly.
    WrongKey,
    /// The server has chosen an extension that the client did not offer, or does not compress each message by
    /// itself.
    WrongExtension,
}

impl Handshake {
    /// The handshake of a target over this version of HTTP.
    ///
    /// # Errors
    /// If this version of HTTP has no WebSockets, or if the target has no key or a key with a template.
    pub(super) fn new(target: &TargetSpec, version: HttpVersion) -> Result<Self, TargetError> {
        if version == HttpVersion::Http10 {
            let message = "HTTP/1.0 has no WebSockets";
            return Err(TargetError::new(target, TargetPart::Name, message, "use HTTP/1.1 or HTTP/2"));
        }
        let mut headers = target.headers.iter().enumerate();
        let key = headers.find(|(_, (name, _))| name.eq_ignore_ascii_case(KEY));
        let accept = match key {
            _ if version == HttpVersion::Http2 => None,
            Some((index, (name, value))) if value.contains("{{") => {
                let part = TargetPart::Header(index, name.clone());
                let message = "the key of a handshake cannot contain a template";
                return Err(TargetError::new(target, part, message, "leave it out: hoptax adds it"));
            }
            Some((_, (_, value))) => Some(accept(value.trim().as_bytes())),
            None => {
                let message = "a WebSocket's handshake needs a key";
                let help = format!("add the header `{KEY}`: 16 bytes in base64");
                return Err(TargetError::new(target, TargetPart::Name, message, help));
            }
        };
        let offers_deflate = target
            .headers
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case(EXTENSIONS) && compresses(value.as_bytes()));
        Ok(Self { accept, offers_deflate })
    }

    /// Reads the head of an answer that switches to WebSocket, over HTTP/1.1.
    pub(crate) fn read(&self, head: &[u8]) -> Answered {
        let (mut is_right, mut extensions) = (false, Extensions::default());
        // This cannot fail, because the decoder has already accepted this head. If it did fail, the answer
        // to the key would count as absent.
        let _ = fields(head, |field| {
            if field.name.eq_ignore_ascii_case(ACCEPT) {
                is_right = self.accept.as_deref().is_some_and(|accept| accept.as_bytes() == field.value);
            } else if field.name.eq_ignore_ascii_case(EXTENSIONS) {
                extensions.add(field.value);
            }
        });
        if is_right { self.judge(extensions) } else { Answered::WrongKey }
    }

    /// Reads the extensions that the server has chosen, over HTTP/2.
    pub(crate) fn read_extensions(&self, chosen: Option<&[u8]>) -> Answered {
        let mut extensions = Extensions::default();
        chosen.into_iter().for_each(|value| extensions.add(value));
        self.judge(extensions)
    }

    fn judge(&self, extensions: Extensions) -> Answered {
        let Extensions { deflate, others } = extensions;
        if others || (deflate && !self.offers_deflate) {
            return Answered::WrongExtension;
        }
        Answered::Accepted { deflate }
    }
}

/// Parameter of the extension: the server compresses each message by itself.
const BY_ITSELF: &[u8] = b"server_no_context_takeover";

/// The extensions that a server has chosen.
#[derive(Debug, Clone, Copy, Default)]
struct Extensions {
    deflate: bool,
    /// True if the server has chosen anything else.
    others: bool,
}

impl Extensions {
    fn add(&mut self, value: &[u8]) {
        for one in value.split(|byte| *byte == b',') {
            // The client offers only that each message is compressed by itself. A server that accepts this
            // must say so (RFC 7692, section 7.1.1.1).
            let mut parameters = one.split(|byte| *byte == b';').skip(1);
            let is_deflate = compresses(one)
                && parameters.any(|parameter| parameter.trim_ascii().eq_ignore_ascii_case(BY_ITSELF));
            self.deflate |= is_deflate;
            self.others |= !is_deflate && !one.trim_ascii().is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::websocket::add_headers;

    fn handshake(compression: bool) -> Handshake {
        let mut headers = Vec::new();
        add_headers(&mut headers, compression);
        let target = TargetSpec::only("GET", "/", headers, Vec::new());
        Handshake::new(&target, HttpVersion::Http11).expect("it has a key")
    }

    fn answer(headers: &str) -> String {
        format!("HTTP/1.1 101 Switching Protocols\r\n{headers}\r\n")
    }

    #[test]
    fn the_answer_to_the_key_must_be_right() {
        let right = accept(hoptax_format::websocket::KEY_VALUE.as_bytes());
        for (headers, expected) in [
            (format!("Sec-WebSocket-Accept: {right}\r\n"), Answered::Accepted { deflate: false }),
            (format!("sec-websocket-accept: {right}x\r\n"), Answered::WrongKey),
            ("upgrade: websocket\r\n".to_owned(), Answered::WrongKey),
        ] {
            assert_eq!(handshake(false).read(answer(&headers).as_bytes()), expected, "{headers}");
        }
    }

    #[test]
    fn the_server_chooses_among_the_offered_extensions() {
        let right = accept(hoptax_format::websocket::KEY_VALUE.as_bytes());
        let accepted = |deflate| Answered::Accepted { deflate };
        for (offers, chosen, expected) in [
            (true, "permessage-deflate; server_no_context_takeover", accepted(true)),
            (true, "", accepted(false)),
            (true, "permessage-deflate", Answered::WrongExtension),
            (true, "permessage-deflate; server_no_context_takeover, x-other", Answered::WrongExtension),
            (false, "permessage-deflate; server_no_context_takeover", Answered::WrongExtension),
        ] {
            let headers = format!("sec-websocket-accept: {right}\r\nsec-websocket-extensions: {chosen}\r\n");
            assert_eq!(handshake(offers).read(answer(&headers).as_bytes()), expected, "{chosen}");
            assert_eq!(handshake(offers).read_extensions(Some(chosen.as_bytes())), expected, "{chosen}");
        }
        assert_eq!(handshake(true).read_extensions(None), accepted(false));
    }

    #[test]
    fn a_key_that_is_not_known_is_refused() {
        for (headers, expected) in [
            (vec![], "needs a key"),
            (vec![(KEY.to_owned(), "{{random}}".to_owned())], "cannot contain a template"),
        ] {
            let target = TargetSpec::only("GET", "/", headers, Vec::new());
            let error = Handshake::new(&target, HttpVersion::Http11).expect_err("no key");
            assert!(error.to_string().contains(expected), "{error}");
            Handshake::new(&target, HttpVersion::Http2).expect("HTTP/2 needs no key");
            let error = Handshake::new(&target, HttpVersion::Http10).expect_err("too old");
            assert!(error.to_string().contains("HTTP/1.0"), "{error}");
        }
    }
}

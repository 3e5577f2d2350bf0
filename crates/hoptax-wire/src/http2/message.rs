//! The rules for the header fields of requests, responses and trailers (RFC 9113, section 8).

use super::{Fault, FieldList};
use crate::http1::decimal;

/// The kind of message part that a header block contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `connect_protocol` is true if the extended CONNECT method is allowed (RFC 8441).
    Request {
        connect_protocol: bool,
    },
    Response,
    Trailers,
}

/// Positions of the pseudo-headers in the list, and values of the fields that the connection needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Summary {
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    pub(super) method: Option<u16>,
    pub(super) scheme: Option<u16>,
    pub(super) authority: Option<u16>,
    pub(super) path: Option<u16>,
    pub(super) protocol: Option<u16>,
}

/// Checks the fields of a message.
///
/// # Errors
/// If the message is malformed (RFC 9113, section 8.1.1).
pub(super) fn summarize(kind: Kind, list: &FieldList) -> Result<Summary, Fault> {
    if list.is_too_long() {
        return Err(Fault::SectionTooLong);
    }
    let mut summary = Summary::default();
    let mut pseudo_ended = false;
    for (place, (name, value)) in list.iter().enumerate() {
        if !is_value(kind, value) {
            return Err(Fault::FieldValue);
        }
        if name.first() == Some(&b':') {
            if pseudo_ended || kind == Kind::Trailers {
                return Err(Fault::PseudoField);
            }
            summary.pseudo(kind, place as u16, name, value)?;
        } else {
            pseudo_ended = true;
            summary.regular(name, value)?;
        }
    }
    match kind {
        Kind::Request { connect_protocol } => summary.request(connect_protocol, list)?,
        Kind::Response if summary.status == 0 => return Err(Fault::Status),
        Kind::Response | Kind::Trailers => {}
    }
    Ok(summary)
}

impl Summary {
    fn pseudo(&mut self, kind: Kind, place: u16, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        if kind == Kind::Response {
            if name != b":status" || self.status != 0 {
                return Err(Fault::PseudoField);
            }
            self.status = status(value).ok_or(Fault::Status)?;
            return Ok(());
        }
        let found = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            b":protocol" if kind == (Kind::Request { connect_protocol: true }) => &mut self.protocol,
            _ => return Err(Fault::PseudoField),
        };
        if found.replace(place).is_some() { Err(Fault::PseudoField) } else { Ok(()) }
    }

    #[inline]
    fn regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        if name.is_empty() || !name.iter().all(|&byte| NAME_BYTES[byte as usize]) {
            return Err(Fault::FieldName);
        }
        match name {
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
                Err(Fault::ConnectionField)
            }
            b"te" if value != b"trailers" => Err(Fault::ConnectionField),
            b"content-length" => {
                let length = decimal(value).ok_or(Fault::ContentLength)?;
                match self.content_length.replace(length) {
                    Some(earlier) if earlier != length => Err(Fault::ContentLength),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Checks the pseudo-headers of a request (RFC 9113, sections 8.3.1 and 8.5; RFC 8441, section 4).
    fn request(&self, connect_protocol: bool, list: &FieldList) -> Result<(), Fault> {
        let value = |place: Option<u16>| place.map(|place| list.at(place as usize).1);
        let method = value(self.method).filter(|method| !method.is_empty()).ok_or(Fault::RequestFields)?;
        let extended = connect_protocol && self.protocol.is_some();
        if extended && method != b"CONNECT" {
            return Err(Fault::ConnectFields);
        }
        if method == b"CONNECT" && !extended {
            let valid = self.scheme.is_none() && self.path.is_none() && self.authority.is_some();
            return if valid { Ok(()) } else { Err(Fault::ConnectFields) };
        }
        match (value(self.scheme), value(self.path)) {
            (Some([_, ..]), Some([b'/', ..])) => Ok(()),
            (Some([_, ..]), Some(b"*")) if method == b"OPTIONS" => Ok(()),
            _ => Err(Fault::RequestFields),
        }
    }
}

/// A status of three digits, 100 or above.
fn status(value: &[u8]) -> Option<u16> {
    let [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] = value else { return None };
    Some(value.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
}

/// True if a field can have this value. Spaces at the ends are accepted in responses, because common clients
/// accept them too.
fn is_value(kind: Kind, value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
        && (!matches!(kind, Kind::Request { .. }) || !(blank(value.first()) || blank(value.last())))
}

/// True for bytes that names can have: those of tokens (RFC 9110, section 5.6.2), but no upper-case letters.
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let text = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    let mut place = 0;
    while place < text.len() {
        table[text[place] as usize] = true;
        place += 1;
    }
    table
};

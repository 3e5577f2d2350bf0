//! The reflection service ([protocol](https://github.com/grpc/grpc/blob/master/doc/server-reflection.md)). It
//! lists the services, because clients such as grpcurl do this first. The upstream has no descriptors, so
//! other requests get the error NOT_FOUND.

use hoptax_format::grpc::Status;
use hoptax_wire::grpc::{Messages, Step, write_message};

/// Paths of the service's only method.
pub(super) const PATHS: [&[u8]; 2] = [
    b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Fields of `ServerReflectionRequest` and `ServerReflectionResponse`.
const LIST_SERVICES: u64 = 7;
const ORIGINAL_REQUEST: u64 = 2;
const LIST_SERVICES_RESPONSE: u64 = 6;
const ERROR_RESPONSE: u64 = 7;

const NO_DESCRIPTORS: &str = "hoptax has no descriptors";

/// The replies to requests.
#[derive(Debug)]
pub(super) struct Reflection {
    /// The field of a response with the names of the services.
    services: Vec<u8>,
    /// The field of a response to other requests.
    error: Vec<u8>,
}

impl Reflection {
    pub(super) fn new(services: &[String]) -> Self {
        let mut list = Vec::new();
        for service in services {
            let mut name = Vec::new();
            write_bytes(&mut name, 1, service.as_bytes());
            write_bytes(&mut list, 1, &name);
        }
        let mut error = Vec::new();
        write_varint(&mut error, key(1, VARINT));
        write_varint(&mut error, Status::NotFound.number() as u64);
        write_bytes(&mut error, 2, NO_DESCRIPTORS.as_bytes());
        let field = |number, content: &[u8]| {
            let mut field = Vec::new();
            write_bytes(&mut field, number, content);
            field
        };
        Self { services: field(LIST_SERVICES_RESPONSE, &list), error: field(ERROR_RESPONSE, &error) }
    }

    /// The replies to whole messages. Both have their prefixes.
    pub(super) fn replies(&self, mut requests: &[u8]) -> Vec<u8> {
        let (mut replies, mut decoder) = (Vec::new(), Messages::default());
        while let Ok((consumed, step)) = decoder.advance(requests, u32::MAX) {
            let request = match step {
                Step::NeedMore => break,
                Step::Begin { length: 0, .. } => &b""[..],
                Step::Begin { .. } => {
                    requests = &requests[consumed..];
                    continue;
                }
                Step::Data { data, .. } => &requests[data],
            };
            let mut reply = Vec::new();
            write_bytes(&mut reply, ORIGINAL_REQUEST, request);
            let lists = has_field(request, LIST_SERVICES);
            reply.extend_from_slice(if lists { &self.services } else { &self.error });
            // Requests are far shorter than 4 GiB.
            let _ = write_message(&mut replies, &reply);
            requests = &requests[consumed..];
        }
        replies
    }
}

// The encoding of protocol buffers (https://protobuf.dev/programming-guides/encoding/).

/// Types of fields.
const VARINT: u64 = 0;
const BYTES: u64 = 2;

fn key(field: u64, kind: u64) -> u64 {
    field << 3 | kind
}

fn write_varint(output: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

fn write_bytes(output: &mut Vec<u8>, field: u64, content: &[u8]) {
    write_varint(output, key(field, BYTES));
    write_varint(output, content.len() as u64);
    output.extend_from_slice(content);
}

/// Reads a number from the front of `input`.
fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// True if a message whose fields are texts, bytes or messages has this field.
fn has_field(mut message: &[u8], field: u64) -> bool {
    while let Some(found) = read_varint(&mut message) {
        if found == key(field, BYTES) {
            return true;
        }
        let length = read_varint(&mut message).and_then(|length| usize::try_from(length).ok());
        let Some(rest) = length.and_then(|length| message.get(length..)) else { return false };
        message = rest;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(request: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        write_message(&mut body, request).expect("short");
        let services = ["grpc.health.v1.Health".to_owned(), "a.B".to_owned()];
        Reflection::new(&services).replies(&body)
    }

    #[test]
    fn services_are_listed() {
        // A host before the field, as some clients send it.
        let request = b"\x0a\x04host\x3a\x00";
        let reply = reply(request);
        let original = [&b"\x12\x08"[..], request].concat();
        let list = b"\x32\x20\x0a\x17\x0a\x15grpc.health.v1.Health\x0a\x05\x0a\x03a.B";
        assert_eq!(reply, [&b"\0\0\0\0\x2c"[..], original.as_slice(), list].concat());
    }

    #[test]
    fn other_requests_get_an_error() {
        for request in [&b"\x22\x03a.B"[..], b"", b"\xff", b"\x0a\xff\xff\xff\xff\x0f"] {
            let reply = reply(request);
            let error = [&b"\x3a\x1d\x08\x05\x12\x19"[..], NO_DESCRIPTORS.as_bytes()].concat();
            assert!(reply.ends_with(&error), "{request:?}: {reply:?}");
        }
    }

    #[test]
    fn numbers_have_seven_bits_in_a_byte() {
        for (value, bytes) in [(0, &[0][..]), (127, &[127]), (128, &[128, 1]), (300, &[0xac, 2])] {
            let mut output = Vec::new();
            write_varint(&mut output, value);
            assert_eq!(output, bytes, "{value}");
            assert_eq!(read_varint(&mut &output[..]), Some(value));
        }
        assert_eq!(read_varint(&mut &[0xff; 11][..]), None);
        assert_eq!(read_varint(&mut &b"\x80"[..]), None);
    }
}

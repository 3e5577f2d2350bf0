//! gRPC: messages do not depend on where the input is cut, and texts of headers survive.

use super::split::{self, Event, events, same_however_cut};
use hoptax_wire::grpc::{self, Fault, Messages, Step, WebTrailers};

const LONGEST: u32 = 1 << 20;

/// Uses `input` as a body, as a `grpc-message` and as a `grpc-timeout`.
pub fn holds(input: &[u8]) -> bool {
    let text = grpc::decode_message(input);
    assert_eq!(grpc::decode_message(grpc::encode_message(&text).as_bytes()), text);
    if let Some(ns) = grpc::read_timeout(input) {
        let again = grpc::read_timeout(grpc::timeout(ns).as_bytes());
        assert!(again.is_some_and(|again| again >= ns), "{ns} became {again:?}");
    }
    same_however_cut(input, read_web);
    let found = same_however_cut(input, read);
    !found.iter().any(|event| matches!(event, Event::Malformed(_)))
}

fn read(pieces: &[&[u8]]) -> Vec<Event> {
    let mut decoder = Messages::default();
    events(pieces, |input| event(input, decoder.advance(input, LONGEST)))
}

fn read_web(pieces: &[&[u8]]) -> Vec<Event> {
    let (mut decoder, mut trailers) = (Messages::default(), WebTrailers::default());
    events(pieces, |input| event(input, trailers.advance(&mut decoder, input, LONGEST)))
}

fn event(input: &[u8], step: Result<(usize, Step), Fault>) -> split::Step {
    match step {
        Ok((0, Step::NeedMore)) => None,
        Ok((consumed, Step::NeedMore)) => Some((consumed, None)),
        Ok((consumed, Step::Begin { compressed, length })) => {
            Some((consumed, Some(Event::Head(format!("{compressed} {length}")))))
        }
        Ok((consumed, Step::Data { data, .. })) => Some((consumed, Some(Event::Body(input[data].to_vec())))),
        Err(fault) => Some((0, Some(Event::Malformed(fault.to_string())))),
    }
}

//! Responses. Wherever the input is split, the decoder gives the same events, with and without a cache of
//! heads. The framing agrees with a simple parser of the header fields.

use super::split::{self, Event, Step, same_however_cut};
use hoptax_wire::http1::{
    self, Framing, HeadCache, Malformed, ParsedResponse, ResponseDecoder, ResponseHead, Step as Found,
};

/// The first byte determines whether the request was HEAD, and whether one or two responses are expected. The
/// rest of `input` is the data that the client receives.
pub fn holds(input: &[u8]) -> bool {
    let Some((options, input)) = input.split_first() else { return false };
    let (to_head, twice) = (options & 1 == 1, options & 2 == 2);
    let events = same_however_cut(input, |pieces| read(pieces, to_head, twice, None));
    let mut cache = HeadCache::new();
    for _ in 0..2 {
        assert_eq!(read(&[input], to_head, twice, Some(&mut cache)), events, "with a cache");
    }
    ends(input, to_head);
    events.iter().any(|event| matches!(event, Event::End(_)))
}

fn read(
    pieces: &[&[u8]],
    to_head: bool,
    twice: bool,
    mut cache: Option<&mut HeadCache<ParsedResponse>>,
) -> Vec<Event> {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(to_head);
    let mut left = u32::from(twice);
    let mut announced = Framing::None;
    let mut body = 0;
    split::events(pieces, |input| -> Step {
        let found = match &mut cache {
            Some(cache) => decoder.advance_with(cache, input),
            None => decoder.advance(input),
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return Some((0, Some(Event::Malformed(error.to_string())))),
        };
        Some(match found {
            Found::NeedMore => return None,
            Found::Interim { consumed } => (consumed, None),
            Found::Head { consumed, head } => {
                confirm(&input[..consumed], head, to_head);
                (announced, body) = (head.framing, 0);
                (consumed, Some(Event::Head(format!("{head:?}"))))
            }
            Found::Body { consumed, data } => {
                assert!(data.end <= consumed);
                body += data.len() as u64;
                (consumed, Some(Event::Body(input[data].to_vec())))
            }
            Found::End { consumed, keep_alive } => {
                match announced {
                    Framing::None => assert_eq!(body, 0),
                    Framing::Length(length) => assert_eq!(body, length),
                    Framing::Chunked => {}
                    Framing::UntilClose => panic!("only the connection's end ends this body"),
                }
                if left > 0 {
                    left -= 1;
                    decoder.begin(to_head);
                }
                (consumed, Some(Event::End(keep_alive)))
            }
        })
    })
}

/// Checks the framing: determines it again from the header fields, following RFC 9112 §6.3.
fn confirm(head: &[u8], parsed: ResponseHead, to_head: bool) {
    assert!((200..=999).contains(&parsed.status));
    let (mut lengths, mut codings) = (Vec::new(), Vec::new());
    http1::fields(head, |field| {
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = String::from_utf8_lossy(field.value).into_owned();
            lengths.extend(text.split(',').map(|part| part.trim().parse::<u64>().expect("a number")));
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            codings.push(String::from_utf8_lossy(field.value).to_ascii_lowercase());
        }
    })
    .expect("the decoder took it for a head");
    let expected = if to_head || matches!(parsed.status, 204 | 304) {
        Framing::None
    } else if !codings.is_empty() {
        let all_chunked =
            codings.iter().flat_map(|value| value.split(',')).all(|one| one.trim() == "chunked");
        assert!(all_chunked && lengths.is_empty(), "{codings:?} {lengths:?}");
        Framing::Chunked
    } else if let Some(first) = lengths.first() {
        assert!(lengths.iter().all(|length| length == first));
        Framing::Length(*first)
    } else {
        Framing::UntilClose
    };
    assert_eq!(parsed.framing, expected);
    assert!(!(parsed.keep_alive && parsed.framing == Framing::UntilClose));
}

/// Checks what the decoder does when the connection ends. The end completes a body without framing. Any other
/// response is incomplete then. Between responses, the end has no effect.
fn ends(input: &[u8], to_head: bool) {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(to_head);
    let (mut at, mut framing, mut ended, mut left) = (0, None, false, u64::MAX);
    while let Ok(found) = decoder.advance(&input[at..]) {
        at += match found {
            Found::NeedMore => break,
            Found::Interim { consumed } => consumed,
            Found::Head { consumed, head } => {
                framing = Some(head.framing);
                if let Framing::Length(length) = head.framing {
                    left = length;
                }
                consumed
            }
            Found::Body { consumed, data } => {
                left -= data.len() as u64;
                consumed
            }
            Found::End { consumed, .. } => {
                ended = true;
                consumed
            }
        };
    }
    let expected = match framing {
        _ if ended => Ok(false),
        Some(Framing::UntilClose | Framing::None) => Ok(true),
        Some(Framing::Length(_)) if left == 0 => Ok(true),
        _ => Err(Malformed::CutShort),
    };
    assert_eq!(decoder.end_of_input(), expected);
}

//! Requests. Wherever the input is split, the decoder gives the same events. The framing agrees with a simple
//! parser of the header fields.

use super::split::{self, Event, Step, same_however_cut};
use hoptax_format::field::is_token;
use hoptax_wire::http1::{self, Framing, HeadCache, RequestDecoder, RequestHead, RequestStep, Version};

/// `input` is the data that a server receives.
pub fn holds(input: &[u8]) -> bool {
    let events = same_however_cut(input, |pieces| read(pieces, None));
    let mut cache = HeadCache::new();
    for _ in 0..2 {
        assert_eq!(read(&[input], Some(&mut cache)), events, "with a cache");
    }
    events.iter().any(|event| matches!(event, Event::End(_)))
}

fn read(pieces: &[&[u8]], mut cache: Option<&mut HeadCache<RequestHead>>) -> Vec<Event> {
    let mut decoder = RequestDecoder::new();
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
            RequestStep::NeedMore => return None,
            RequestStep::Head { consumed, head } => {
                confirm(&input[..consumed], &head);
                (announced, body) = (head.framing, 0);
                (consumed, Some(Event::Head(describe(input, &head))))
            }
            RequestStep::Body { consumed, data } => {
                assert!(data.end <= consumed);
                body += data.len() as u64;
                (consumed, Some(Event::Body(input[data].to_vec())))
            }
            RequestStep::End { consumed, keep_alive } => {
                match announced {
                    Framing::None => assert_eq!(body, 0),
                    Framing::Length(length) => assert_eq!(body, length),
                    Framing::Chunked => {}
                    Framing::UntilClose => panic!("no request lasts until the connection ends"),
                }
                assert!(decoder.is_between());
                (consumed, Some(Event::End(keep_alive)))
            }
        })
    })
}

fn describe(input: &[u8], head: &RequestHead) -> String {
    let text = |range: &std::ops::Range<usize>| String::from_utf8_lossy(&input[range.clone()]).into_owned();
    let (method, target) = (text(&head.method), text(&head.target));
    assert!(is_token(&method), "{method:?}");
    assert!(!target.is_empty());
    assert_eq!(head.is_head, method == "HEAD");
    // The result contains no offsets, because offsets depend on whether empty lines arrive together with the
    // request after them.
    format!(
        "{method} {target} {:?} {:?} {} {}",
        head.version, head.framing, head.keep_alive, head.expect_continue
    )
}

/// Checks the framing: determines it again from the header fields, following RFC 9112 §6.3.
fn confirm(head: &[u8], parsed: &RequestHead) {
    let (mut lengths, mut codings, mut hosts) = (Vec::new(), Vec::new(), 0);
    http1::fields(head, |field| {
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = String::from_utf8_lossy(field.value).into_owned();
            lengths.extend(text.split(',').map(|part| part.trim().parse::<u64>().expect("a number")));
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            codings.push(String::from_utf8_lossy(field.value).to_ascii_lowercase());
        } else if field.name.eq_ignore_ascii_case("host") {
            hosts += 1;
        }
    })
    .expect("the decoder took it for a head");
    assert!(hosts == 1 || (hosts == 0 && parsed.version == Version::Http10));
    let expected = if !codings.is_empty() {
        assert_eq!((codings.as_slice(), lengths.len()), (&["chunked".to_owned()][..], 0));
        assert_eq!(parsed.version, Version::Http11);
        Framing::Chunked
    } else if let Some(first) = lengths.first() {
        assert!(lengths.iter().all(|length| length == first));
        Framing::Length(*first)
    } else {
        Framing::None
    };
    assert_eq!(parsed.framing, expected);
}

//! The chunked coding. Data that is encoded and then decoded is unchanged. A simple reference decoder gives
//! the same result as our decoder.

use hoptax_wire::http1::{MAX_CHUNK_LINE, ResponseDecoder, Step, chunk_size_line};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// Uses `input` twice: as a chunked body to decode, and as data to encode.
pub fn holds(input: &[u8]) -> bool {
    let decoded = decode(input);
    if decoded.is_some() {
        assert_eq!(plainly(input), decoded, "the reference decoder disagrees");
    }
    let (encoded, data) = encode(input);
    assert_eq!(decode(&encoded), Some((data, encoded.len())), "encoding does not round-trip");
    decoded.is_some()
}

/// Decodes a chunked body. Returns the body and the number of input bytes consumed; `None` if the body is
/// incomplete or malformed.
fn decode(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(false);
    decoder.advance(HEAD).expect("a head");
    let (mut at, mut body) = (0, Vec::new());
    loop {
        match decoder.advance(&input[at..]).ok()? {
            Step::NeedMore => return None,
            Step::Body { consumed, data } => {
                body.extend_from_slice(&input[at..][data]);
                at += consumed;
            }
            Step::End { consumed, .. } => return Some((body, at + consumed)),
            Step::Interim { .. } | Step::Head { .. } => panic!("a second head"),
        }
    }
}

/// Reference decoder for complete input. It follows the grammar of RFC 9112 §7.1, but lines can end with a
/// lone LF, and it does not check extensions and trailers.
fn plainly(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let line_end = |at: usize| input[at..].iter().position(|&byte| byte == b'\n').map(|end| at + end);
    let (mut at, mut body) = (0, Vec::new());
    loop {
        let end = line_end(at)?;
        let line = std::str::from_utf8(input[at..end].split(|&byte| byte == b';').next()?).ok()?;
        let size = usize::from_str_radix(line.trim_end_matches([' ', '\t', '\r']), 16).ok()?;
        at = end + 1;
        if size == 0 {
            break;
        }
        body.extend_from_slice(input.get(at..at.checked_add(size)?)?);
        at += size;
        at += match input.get(at..)? {
            [b'\r', b'\n', ..] => 2,
            [b'\n', ..] => 1,
            _ => return None,
        };
    }
    trailers_end(input, at).map(|end| (body, end))
}

/// Offset after the empty line that ends the trailers. A trailer line can end with a lone LF (RFC 9112 §2.2
/// allows this).
fn trailers_end(input: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = input[at..].iter().position(|&byte| byte == b'\n')? + 1;
        let line = &input[at..at + length];
        at += length;
        if matches!(line, b"\n" | b"\r\n") {
            return Some(at);
        }
    }
}

/// Splits `input` into chunks and encodes them. The byte before each chunk determines the length and the
/// extension of the chunk. Returns the encoded body and its data.
fn encode(mut input: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut encoded, mut data) = (Vec::new(), Vec::new());
    while let Some((&first, rest)) = input.split_first() {
        let (chunk, behind) = rest.split_at(usize::from(first).min(rest.len()));
        input = behind;
        if chunk.is_empty() {
            continue;
        }
        chunk_size_line(&mut encoded, chunk.len());
        if first & 1 == 1 {
            encoded.truncate(encoded.len() - 2);
            let length = usize::from(first) * (MAX_CHUNK_LINE - 64) / 255;
            encoded.extend(format!(" ;x=\"{}\"\r\n", "y".repeat(length)).bytes());
        }
        encoded.extend_from_slice(chunk);
        encoded.extend_from_slice(b"\r\n");
        data.extend_from_slice(chunk);
    }
    encoded.extend_from_slice(b"0\r\nx-sum: 1\r\n\r\n");
    (encoded, data)
}

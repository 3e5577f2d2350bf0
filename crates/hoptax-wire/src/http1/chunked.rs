//! The chunked transfer coding (RFC 9112 §7.1): the framing around the data of each chunk.

use super::head::{Rules, within_bounds};
use super::{MAX_CHUNK_LINE, MAX_FIELDS, MAX_HEAD, Malformed};

/// The framing between the data of two chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    Partial,
    /// Framing of `skip` bytes, followed by `size` bytes of data (at least one byte).
    Data {
        skip: usize,
        size: u64,
    },
    /// The last chunk and the trailers, together `skip` bytes long. The body is complete.
    End {
        skip: usize,
    },
}

/// Reads the framing between the data of two chunks. If `first` is true, reads the framing before the first
/// chunk.
///
/// This function reads all of the framing in one step. The decoder therefore needs no state between a chunk's
/// CRLF, the size line and the trailers. If the framing is incomplete, it is read again when more input
/// arrives. The framing consists of at most one size line and one trailer section.
pub(super) fn between(input: &[u8], first: bool, rules: Rules) -> Result<Between, Malformed> {
    let mut at = 0;
    if !first {
        match input {
            [b'\r', b'\n', ..] => at = 2,
            [b'\n', ..] if rules == Rules::Lenient => at = 1,
            [] | [b'\r'] => return Ok(Between::Partial),
            _ => return Err(Malformed::ChunkEnd),
        }
    }
    let Some((line, size)) = size_line(&input[at..], rules)? else { return Ok(Between::Partial) };
    at += line;
    if size > 0 {
        return Ok(Between::Data { skip: at, size });
    }
    Ok(match trailers(&input[at..])? {
        Some(length) => Between::End { skip: at + length },
        None => Between::Partial,
    })
}

/// Returns the length of the size line, including its CRLF, and the chunk size. Returns `None` if the line is
/// incomplete.
fn size_line(input: &[u8], rules: Rules) -> Result<Option<(usize, u64)>, Malformed> {
    let digits = input.iter().take_while(|byte| byte.is_ascii_hexdigit()).take(MAX_CHUNK_LINE).count();
    let mut size = 0u64;
    for &digit in &input[..digits] {
        let value = (digit as char).to_digit(16).expect("counted as a hexadecimal digit");
        size = size.checked_mul(16).ok_or(Malformed::ChunkSizeOverflow)? + u64::from(value);
    }
    if digits == MAX_CHUNK_LINE {
        return Err(Malformed::ChunkLineTooLong);
    }
    let rest = &input[digits..];
    if digits == 0 && !rest.is_empty() {
        return Err(Malformed::ChunkSize);
    }
    let ended = match rest {
        [b'\r', b'\n', ..] => Some(2),
        [b'\n', ..] if rules == Rules::Lenient => Some(1),
        [] | [b'\r'] => None,
        [b';' | b' ' | b'\t', ..] => extensions(rest, rules)?,
        _ => return Err(Malformed::ChunkSize),
    };
    match ended {
        Some(length) if digits + length <= MAX_CHUNK_LINE => Ok(Some((digits + length, size))),
        None if input.len() < MAX_CHUNK_LINE => Ok(None),
        _ => Err(Malformed::ChunkLineTooLong),
    }
}

/// Returns the length of the chunk extensions, including the CRLF, or `None` if they are incomplete. The
/// extensions themselves are ignored. Refuses a lone CR and other control bytes, because another parser might
/// end the line there. In requests, a lone LF is refused for the same reason.
fn extensions(input: &[u8], rules: Rules) -> Result<Option<usize>, Malformed> {
    let visible = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    let padding = input.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    match input[padding..].first() {
        None if input.len() < MAX_CHUNK_LINE => return Ok(None),
        None => return Err(Malformed::ChunkLineTooLong),
        Some(b';' | b'\r') => {}
        Some(b'\n') if rules == Rules::Lenient => {}
        Some(_) => return Err(Malformed::ChunkSize),
    }
    let length = input.iter().take(MAX_CHUNK_LINE).take_while(|&&byte| visible(byte)).count();
    match &input[length..] {
        [b'\r', b'\n', ..] => Ok(Some(length + 2)),
        [b'\n', ..] if rules == Rules::Lenient => Ok(Some(length + 1)),
        [] | [b'\r'] => Ok(None),
        _ if length == MAX_CHUNK_LINE => Err(Malformed::ChunkLineTooLong),
        _ => Err(Malformed::ChunkSize),
    }
}

/// Returns the length of the trailer section, including the final empty line. Returns `None` if the section
/// is incomplete.
fn trailers(input: &[u8]) -> Result<Option<usize>, Malformed> {
    if input.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    let input = within_bounds(input);
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    match httparse::parse_headers(input, &mut fields) {
        Ok(httparse::Status::Complete((length, _))) => Ok(Some(length)),
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => Ok(None),
        _ => Err(Malformed::Trailers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_size_lines() {
        let table: &[(&[u8], Result<Between, Malformed>)] = &[
            (b"", Ok(Between::Partial)),
            (b"5", Ok(Between::Partial)),
            (b"5\r", Ok(Between::Partial)),
            (b"5\r\n", Ok(Between::Data { skip: 3, size: 5 })),
            (b"5\r\nhello", Ok(Between::Data { skip: 3, size: 5 })),
            (b"aF\r\n", Ok(Between::Data { skip: 4, size: 0xaf })),
            (b"005\r\n", Ok(Between::Data { skip: 5, size: 5 })),
            (b"5;a=b\r\n", Ok(Between::Data { skip: 7, size: 5 })),
            (b"5 ; a=\"b c\"\r\n", Ok(Between::Data { skip: 13, size: 5 })),
            (b"5 \r\n", Ok(Between::Data { skip: 4, size: 5 })),
            (b"ffffffffffffffff\r\n", Ok(Between::Data { skip: 18, size: u64::MAX })),
            (b"10000000000000000\r\n", Err(Malformed::ChunkSizeOverflow)),
            (b"\r\n", Err(Malformed::ChunkSize)),
            (b"-1\r\n", Err(Malformed::ChunkSize)),
            (b"+5\r\n", Err(Malformed::ChunkSize)),
            (b"0x5\r\n", Err(Malformed::ChunkSize)),
            (b"5\n", Err(Malformed::ChunkSize)),
            (b"5\rx", Err(Malformed::ChunkSize)),
            (b"5 6\r\n", Err(Malformed::ChunkSize)),
            (b"5;a\nb\r\n", Err(Malformed::ChunkSize)),
            (b"5;a\0b\r\n", Err(Malformed::ChunkSize)),
            (b"0\r\n", Ok(Between::Partial)),
            (b"0\r\n\r\n", Ok(Between::End { skip: 5 })),
            (b"00;last\r\n\r\nHTTP", Ok(Between::End { skip: 11 })),
            (b"0\r\nx-sum: 1\r\n", Ok(Between::Partial)),
            (b"0\r\nx-sum: 1\r\n\r\n", Ok(Between::End { skip: 15 })),
            (b"0\r\nno colon\r\n\r\n", Err(Malformed::Trailers)),
        ];
        for (input, expected) in table {
            assert_eq!(between(input, true, Rules::Strict), *expected, "{}", input.escape_ascii());
        }
    }

    #[test]
    fn responses_may_have_a_bare_lf() {
        for (input, first, skip) in [
            ("5\nhello", true, 2),
            ("\n5\nhello", false, 3),
            ("\n5;a=b\nhello", false, 7),
            ("5 \nhello", true, 3),
        ] {
            let read = between(input.as_bytes(), first, Rules::Lenient);
            assert_eq!(read, Ok(Between::Data { skip, size: 5 }), "{input:?}");
            assert!(between(input.as_bytes(), first, Rules::Strict).is_err(), "{input:?}");
        }
        assert_eq!(between(b"\n0\n\n", false, Rules::Lenient), Ok(Between::End { skip: 4 }));
        assert_eq!(between(b"5\rx", true, Rules::Lenient), Err(Malformed::ChunkSize));
        assert_eq!(between(b"\rx", false, Rules::Lenient), Err(Malformed::ChunkEnd));
    }

    #[test]
    fn requires_crlf_after_data() {
        assert_eq!(between(b"\r\n5\r\n", false, Rules::Strict), Ok(Between::Data { skip: 5, size: 5 }));
        assert_eq!(between(b"\r", false, Rules::Strict), Ok(Between::Partial));
        assert_eq!(between(b"x", false, Rules::Strict), Err(Malformed::ChunkEnd));
        assert_eq!(between(b"\rx", false, Rules::Strict), Err(Malformed::ChunkEnd));
    }

    #[test]
    fn bounds_lines_and_trailers_on_any_split() {
        let long = [b"5;".as_slice(), &vec![b'x'; 2 * MAX_CHUNK_LINE], b"\r\n"].concat();
        assert_eq!(between(&long, true, Rules::Strict), Err(Malformed::ChunkLineTooLong));
        assert_eq!(between(&long[..MAX_CHUNK_LINE], true, Rules::Strict), Err(Malformed::ChunkLineTooLong));
        assert_eq!(between(&long[..MAX_CHUNK_LINE - 1], true, Rules::Strict), Ok(Between::Partial));
        let zeros = vec![b'0'; 2 * MAX_CHUNK_LINE];
        assert_eq!(between(&zeros, true, Rules::Strict), Err(Malformed::ChunkLineTooLong));
        let trailers = [b"0\r\nx: ".as_slice(), &vec![b'x'; 2 * MAX_HEAD]].concat();
        assert_eq!(between(&trailers, true, Rules::Strict), Err(Malformed::Trailers));
    }
}

//! Says which line of a refused message is wrong.

use super::lenient::{Line, Lines};
use super::{Malformed, start_line_length};

/// Maximum number of bytes of a line that a message shows.
const SHOWN: usize = 60;

impl Malformed {
    /// The message, with the line at fault. `input` is the input that the decoder refused.
    pub fn describe(self, input: &[u8]) -> String {
        let lines = match self {
            Self::Head(_) => vec![wrong_line(input)],
            Self::Status | Self::Upgrade => vec![input],
            Self::ContentLength | Self::ContentLengthsDiffer => named(input, &["content-length"]),
            Self::TransferCoding => named(input, &["transfer-encoding"]),
            Self::TwoFramings => named(input, &["transfer-encoding", "content-length"]),
            Self::ChunkSize | Self::ChunkSizeOverflow | Self::ChunkLineTooLong | Self::ChunkEnd => {
                vec![input.trim_ascii_start()]
            }
            Self::HeadTooLong
            | Self::TooManyFields(_)
            | Self::Host
            | Self::Trailers
            | Self::UnexpectedBytes
            | Self::CutShort => Vec::new(),
        };
        let lines: Vec<String> = lines
            .into_iter()
            .map(shown)
            .filter(|line| !line.is_empty())
            .map(|line| format!("`{line}`"))
            .collect();
        if lines.is_empty() { self.to_string() } else { format!("{self}: {}", lines.join(" and ")) }
    }
}

/// The head from its first wrong line to its end. If all header lines are correct, the status line is the
/// wrong line.
fn wrong_line(head: &[u8]) -> &[u8] {
    let Some(start) = start_line_length(head) else { return head };
    let mut lines = Lines::new(&head[start..]);
    loop {
        match lines.next() {
            Ok(Line::Field(_)) => {}
            Ok(Line::Partial | Line::End) => return head,
            Err(_) => return lines.rest(),
        }
    }
}

/// The lines of the fields with these names, at most four.
fn named<'b>(head: &'b [u8], names: &[&str]) -> Vec<&'b [u8]> {
    const MOST: usize = 4;
    let mut found = Vec::new();
    let mut lines = Lines::new(start_line_length(head).map_or(&[], |start| &head[start..]));
    loop {
        let line = lines.rest();
        match lines.next() {
            Ok(Line::Field(field)) if names.iter().any(|name| field.name.eq_ignore_ascii_case(name)) => {
                found.push(line);
            }
            Ok(Line::Field(_)) if found.len() < MOST => {}
            _ => return found,
        }
    }
}

/// The first line of `text`, without control characters and not longer than [`SHOWN`].
fn shown(text: &[u8]) -> String {
    let length = text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len());
    let line = text[..length].trim_ascii_end();
    let cut = if line.len() > SHOWN { "…" } else { "" };
    format!("{}{cut}", line[..line.len().min(SHOWN)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::super::ResponseDecoder;

    /// Decodes `text` as a response, and describes why it is refused.
    fn fault(text: &str) -> String {
        let mut decoder = ResponseDecoder::new();
        decoder.begin(false);
        let mut at = 0;
        loop {
            let input = &text.as_bytes()[at..];
            match decoder.advance(input) {
                Ok(super::super::Step::Head { consumed, .. } | super::super::Step::Body { consumed, .. }) => {
                    at += consumed;
                }
                Ok(step) => panic!("{step:?}"),
                Err(malformed) => return malformed.describe(input),
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no snapshots")]
    fn names_the_line_at_fault() {
        let long = format!("HTTP/1.1 200 OK\r\na: b\r\nx y: {}\r\n\r\n", "z".repeat(100));
        let told = [
            "HTTP/1.1 200 OK\r\na: b\r\nnonsense\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: b\r\nx y: z\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "<html>\n",
            "HTTP/1.1 099 Low\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\na: b\r\ncontent-length: 3\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0x0\r\n",
            &long,
        ]
        .map(fault);
        insta::assert_snapshot!(told.join("\n"));
    }
}

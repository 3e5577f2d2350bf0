//! Which characters are allowed in each part of a request.

use super::error::TemplateError;
use super::files::{Files, Source, Values};
use super::parse::{Piece, TemplatePart};
use std::borrow::Cow;

/// The part of a request in which a text is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Path and query. The text must begin with `/`, or be a whole URL for a forward proxy. It must not
    /// contain spaces or control characters.
    Path,
    /// Value of a header. The text must not contain control characters except tabs, and must not begin or end
    /// with a space or tab.
    Header,
    /// Body. Any text is allowed.
    Body,
}

impl Place {
    /// Offset of the first byte of `text` that is not allowed in this place.
    fn first_misfit(self, text: &str) -> Option<usize> {
        let fits = match self {
            Place::Path => |byte: u8| byte.is_ascii_graphic() || byte >= 0x80,
            Place::Header => |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f),
            Place::Body => return None,
        };
        text.bytes().position(|byte| !fits(byte))
    }

    fn name(self) -> &'static str {
        match self {
            Place::Path => "a path",
            Place::Header => "a header's value",
            Place::Body => "a body",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Place::Path => "write %20 for a space, and encode other such characters the same way",
            Place::Header | Place::Body => "remove it, or encode the text, for instance with `base64`",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// Checks that `pieces` are valid in `place` for every value that their templates can have.
pub(super) fn check(pieces: &[Piece<'_>], place: Place, files: &Files<'_>) -> Result<(), TemplateError> {
    for piece in pieces {
        check_piece(piece, place, files)?;
    }
    match place {
        Place::Path => begins_with_slash(pieces, files),
        Place::Header => {
            no_blank_at(End::Front, pieces, files).and_then(|()| no_blank_at(End::Back, pieces, files))
        }
        Place::Body => Ok(()),
    }
}

fn check_piece(piece: &Piece<'_>, place: Place, files: &Files<'_>) -> Result<(), TemplateError> {
    match &piece.part {
        TemplatePart::Text(text) => match place.first_misfit(text) {
            None => Ok(()),
            Some(offset) => Err(TemplateError::new(
                piece.at + offset,
                format!("{} cannot contain {}", place.name(), misfit(text, offset)),
                place.help(),
            )),
        },
        TemplatePart::Line(source) => {
            let (name, lines) = (source.0, known_lines(piece.at, *source, files)?);
            let misfits = |line: &str| place.first_misfit(line).map(|offset| misfit(line, offset));
            let found = (1..).zip(lines).find_map(|(number, line)| Some((number, misfits(line)?)));
            found.map_or(Ok(()), |(number, what): (usize, String)| {
                Err(TemplateError::new(
                    piece.at,
                    format!(
                        "line {number} of `{name}` contains {what}, which {} cannot contain",
                        place.name()
                    ),
                    place.help(),
                ))
            })
        }
        // The output of base64 contains only letters, digits, `+`, `/` and `=`.
        TemplatePart::Base64(inner) => {
            inner.iter().try_for_each(|piece| check_piece(piece, Place::Body, files))
        }
        TemplatePart::Seq | TemplatePart::Uuid | TemplatePart::Random(..) => Ok(()),
    }
}

fn known_lines<'f, 'a>(
    at: usize,
    source: Source<'_>,
    files: &'f Files<'a>,
) -> Result<&'f [Cow<'a, str>], TemplateError> {
    let name = source.0;
    match files.values(source) {
        None => {
            let known: Vec<String> = files.known().map(|known| format!("`{known}`")).collect();
            let help = match known.as_slice() {
                [] => "no files were given".to_owned(),
                known => format!("the files given are {}", known.join(", ")),
            };
            Err(TemplateError::new(at, format!("there is no file `{name}` to take lines from"), help))
        }
        Some(Values { lacking: Some((line, columns)), .. }) => {
            let s = if *columns == 1 { "" } else { "s" };
            let message = format!("line {line} of `{name}` has only {columns} column{s}");
            let help = "add the missing column; columns are separated by commas, in .tsv files by tabs";
            Err(TemplateError::new(at, message, help))
        }
        Some(values) if values.lines.is_empty() => {
            Err(TemplateError::new(at, format!("the file `{name}` has no lines"), "add at least one line"))
        }
        Some(values) => Ok(&values.lines),
    }
}

fn misfit(text: &str, offset: usize) -> String {
    match text.as_bytes()[offset] {
        b' ' => "a space".to_owned(),
        b'\t' => "a tab".to_owned(),
        b'\n' => "a line feed".to_owned(),
        b'\r' => "a carriage return".to_owned(),
        byte => format!("the control character 0x{byte:02x}"),
    }
}

/// Checks that a path begins with `/`. A whole URL is accepted too, because requests to a forward proxy
/// contain one (RFC 9112, section 3.2.2).
fn begins_with_slash(pieces: &[Piece<'_>], files: &Files<'_>) -> Result<(), TemplateError> {
    const HELP: &str = "write `/` before it";
    match pieces.first().map(|first| &first.part) {
        Some(TemplatePart::Text(text))
            if ["/", "http://", "https://"].iter().any(|one| text.starts_with(one)) =>
        {
            Ok(())
        }
        Some(TemplatePart::Line(source)) => {
            let (name, lines) = (source.0, files.lines(*source));
            match (1..).zip(lines).find(|(_, line)| !line.starts_with('/')) {
                None => Ok(()),
                Some((number, _)) => {
                    let number: usize = number;
                    let message =
                        format!("line {number} of `{name}` begins the path, but does not begin with `/`");
                    Err(TemplateError::new(pieces[0].at, message, HELP))
                }
            }
        }
        _ => Err(TemplateError::new(0, "a path must begin with `/`", HELP)),
    }
}

/// Checks that the value has no space or tab at `end`. Starts with the piece at this end. If a piece can be
/// empty, the next piece is also checked.
fn no_blank_at(end: End, pieces: &[Piece<'_>], files: &Files<'_>) -> Result<(), TemplateError> {
    let is_blank_at = |text: &str| match end {
        End::Front => text.starts_with([' ', '\t']),
        End::Back => text.ends_with([' ', '\t']),
    };
    let mut inwards: Vec<&Piece<'_>> = pieces.iter().collect();
    if end == End::Back {
        inwards.reverse();
    }
    for piece in inwards {
        let blank = match &piece.part {
            TemplatePart::Text(text) => is_blank_at(text).then(String::new),
            TemplatePart::Line(source) => {
                let (name, lines) = (source.0, files.lines(*source));
                let found = (1..).zip(lines).find(|(_, line)| is_blank_at(line));
                found.map(|(number, _): (usize, _)| format!(", but line {number} of `{name}` does"))
            }
            TemplatePart::Seq | TemplatePart::Uuid | TemplatePart::Random(..) | TemplatePart::Base64(_) => {
                None
            }
        };
        if let Some(detail) = blank {
            let message = format!("a header's value cannot begin or end with a space or tab{detail}");
            return Err(TemplateError::new(piece.at, message, "remove it"));
        }
        if !may_be_empty(piece, files) {
            break;
        }
    }
    Ok(())
}

fn may_be_empty(piece: &Piece<'_>, files: &Files<'_>) -> bool {
    match &piece.part {
        TemplatePart::Line(source) => files.lines(*source).iter().any(|line| line.is_empty()),
        TemplatePart::Base64(inner) => inner.iter().all(|piece| may_be_empty(piece, files)),
        TemplatePart::Text(_) | TemplatePart::Seq | TemplatePart::Uuid | TemplatePart::Random(..) => false,
    }
}

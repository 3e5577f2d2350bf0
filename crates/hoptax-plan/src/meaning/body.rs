//! Bodies of responses and of requests. Bodies of requests can be templates.

use super::chunked;
use super::reader::Reader;
use super::templates::Template;
use crate::error::Place;
use crate::raw::{Bytes, Placed, RawBody, RawMessage, RawRequestBody, Short, Text};
use crate::{Body, units};
use hoptax_format::spec::Chunked;
use hoptax_format::template::Place as Part;
use hoptax_record::bounded;
use std::path::PathBuf;

/// Largest accepted body. With larger bodies, results would show how fast the memory is, not how fast the hop
/// is. Also, the generator and the upstream keep bodies in memory.
pub(super) const LARGEST_BODY: u64 = bounded::BODY;

pub(super) fn of_response(reader: &mut Reader<'_>, typed: Placed<Short<RawBody, Bytes>>) -> Body {
    let place = typed.place;
    match typed.value {
        Short::Word(size) => sized(reader, &Placed { place, value: size }),
        Short::Full(RawBody { size, kind, text, file }) => {
            match (body(reader, place, size, text, file), kind) {
                (Body::Size(size), Some(kind)) => Body::Like { kind: kind.value, size },
                (body, Some(kind)) => {
                    reader.fault(kind.place, "`kind` needs a `size`", "add `size`, or remove `kind`");
                    body
                }
                (body, None) => body,
            }
        }
    }
}

/// Reads the message of a gRPC call that is not JSON.
pub(super) fn of_message(reader: &mut Reader<'_>, typed: Placed<Short<RawMessage, Bytes>>) -> Body {
    let place = typed.place;
    match typed.value {
        Short::Word(size) => sized(reader, &Placed { place, value: size }),
        Short::Full(RawMessage { size, text, file, json: None })
            if u8::from(size.is_some()) + u8::from(text.is_some()) + u8::from(file.is_some()) == 1 =>
        {
            if let Some(text) = text.as_ref().filter(|text| text.value.0.contains("{{")) {
                let message =
                    "a message cannot contain templates, because they would change the lengths in it";
                reader.fault(text.place, message, "write a fixed text, or the name of a `file`");
            }
            body(reader, place, size, text, file)
        }
        Short::Full(_) => {
            let message = "a message needs one of `size`, `text`, `file` and `json`";
            reader.fault(place, message, "write exactly one of the four");
            Body::Size(0)
        }
    }
}

/// The body of a request.
pub(super) struct RequestBody {
    pub(super) body: Body,
    pub(super) is_template: bool,
    pub(super) chunked: Option<Chunked>,
}

/// Reads the body of a request. By default, a `text` is a template and a `file` is not.
pub(super) fn of_request(
    reader: &mut Reader<'_>,
    typed: Placed<Short<RawRequestBody, Bytes>>,
) -> RequestBody {
    let place = typed.place;
    let mut typed = match typed.value {
        Short::Word(size) => {
            let body = sized(reader, &Placed { place, value: size });
            return RequestBody { body, is_template: false, chunked: None };
        }
        Short::Full(typed) => typed,
    };
    let typed_chunked = typed.chunked.take();
    let (body, is_template) = content(reader, place, typed);
    // The length of a body with templates varies.
    let length = length(&body).filter(|_| !is_template);
    let chunked = typed_chunked.and_then(|typed| chunked::read(reader, typed, length));
    RequestBody { body, is_template, chunked }
}

/// Length of a body, bytes. Absent if it is a file that cannot be read; then this error has already been
/// reported.
pub(super) fn length(body: &Body) -> Option<u64> {
    match body {
        Body::Size(size) | Body::Like { size, .. } => Some(*size),
        Body::Text(text) => Some(text.len() as u64),
        Body::File(path) => std::fs::metadata(path).ok().map(|found| found.len()),
    }
}

/// The content of a body, and whether it is a template.
fn content(reader: &mut Reader<'_>, place: Place, typed: RawRequestBody) -> (Body, bool) {
    let RawRequestBody { size, text, file, template, chunked: _ } = typed;
    let (text_place, file_place) =
        (text.as_ref().map(|text| text.place), file.as_ref().map(|file| file.place));
    let body = body(reader, place, size, text, file);
    if let (Body::Size(_), Some(template)) = (&body, template.as_ref().filter(|template| template.value)) {
        reader.fault(
            template.place,
            "a body with only a `size` cannot be a template",
            "use `text` or `file`, or remove `template`",
        );
        return (body, false);
    }
    let wanted = template.map_or(matches!(body, Body::Text(_)), |template| template.value);
    let is_template = wanted && holds_template(reader, &body, text_place.or(file_place).unwrap_or(place));
    (body, is_template)
}

/// Checks the template. Returns whether it contains anything to expand.
fn holds_template(reader: &mut Reader<'_>, body: &Body, place: Place) -> bool {
    match body {
        Body::Size(_) | Body::Like { .. } => false,
        Body::Text(text) => {
            reader.template(Template { place, text, part: Part::Body, file: None });
            text.contains("{{")
        }
        // If the file cannot be read, this error has already been reported.
        Body::File(path) => match bounded::read(path, bounded::BODY).map(String::from_utf8) {
            Err(_) => false,
            Ok(Ok(text)) => {
                reader.template(Template { place, text: &text, part: Part::Body, file: Some(path) });
                text.contains("{{")
            }
            Ok(Err(error)) => {
                let at = error.utf8_error().valid_up_to();
                reader.fault(
                    place,
                    format!("{} is not UTF-8 text: invalid byte at offset {at}", path.display()),
                    "save the file as UTF-8, or remove `template: true` to send it unchanged",
                );
                false
            }
        },
    }
}

fn body(
    reader: &mut Reader<'_>,
    place: Place,
    size: Option<Placed<Bytes>>,
    text: Option<Placed<Text>>,
    file: Option<Placed<String>>,
) -> Body {
    match (size, text, file) {
        (Some(size), None, None) => sized(reader, &size),
        (None, Some(text), None) => Body::Text(text.value.0),
        (None, None, Some(file)) => Body::File(existing(reader, file.place, &file.value, LARGEST_BODY)),
        _ => {
            reader.fault(
                place,
                "a body needs one of `size`, `text` and `file`",
                "write exactly one of the three",
            );
            Body::Size(0)
        }
    }
}

/// Returns the path of a file that the plan names. Checks that the file exists and has at most `most` bytes.
pub(super) fn existing(reader: &mut Reader<'_>, place: Place, name: &str, most: u64) -> PathBuf {
    let path = reader.context.directory.join(name);
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() && found.len() <= most => {}
        Ok(found) if found.is_file() => {
            let message = format!("{} is larger than {}", path.display(), bounded::shown(most));
            reader.fault(place, message, "use a smaller file");
        }
        Ok(_) => reader.fault(place, format!("{} is not a file", path.display()), "give the path of a file"),
        Err(error) => reader.fault(
            place,
            format!("cannot read {}: {error}", path.display()),
            format!("check the path; a relative path starts from the directory of {}", reader.sources.file),
        ),
    }
    path
}

fn sized(reader: &mut Reader<'_>, typed: &Placed<Bytes>) -> Body {
    let size = reader.unit(typed, units::size).unwrap_or(0);
    if size > LARGEST_BODY {
        reader.fault(
            typed.place,
            "the body is larger than 1GiB",
            "write 1GiB or less; bodies are kept in memory",
        );
    }
    Body::Size(size)
}

//! The target; and headers and bodies, which the upstream has too.

use super::Reader;
use crate::plan::raw::{Ordered, Placed, RawBody, RawTarget, Short, Sweep};
use crate::plan::units;
use crate::plan::{Body, Target};

/// Methods in common use, to tell `get` from a method of one's own.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

pub(super) fn read(reader: &mut Reader<'_>, typed: RawTarget) -> Target {
    let method = typed.method.map_or("GET".to_owned(), |method| {
        check_method(reader, &method);
        method.value
    });
    let path = typed.path.map_or("/".to_owned(), |path| {
        check_path(reader, &path);
        path.value
    });
    let headers = typed.headers.map(|headers| read_headers(reader, headers)).unwrap_or_default();
    let body = typed.body.map(|body| read_body(reader, body));
    Target { method, path, headers, body }
}

fn check_method(reader: &mut Reader<'_>, method: &Placed<String>) {
    let upper = method.value.to_ascii_uppercase();
    if !is_token(&method.value) {
        reader.fault(
            method.place,
            format!("`{}` is not a method", method.value),
            "use one such as GET or POST",
        );
    } else if upper == "CONNECT" {
        reader.fault(method.place, "CONNECT opens a tunnel, which cannot be measured", "use another method");
    } else if METHODS.contains(&upper.as_str()) && upper != method.value {
        reader.fault(
            method.place,
            format!("methods are case-sensitive, `{}` is not the usual one", method.value),
            format!("write {upper}"),
        );
    }
}

fn check_path(reader: &mut Reader<'_>, path: &Placed<String>) {
    let text = &path.value;
    if !text.starts_with('/') {
        let help = match text.split_once("://").and_then(|(_, rest)| rest.split_once('/')) {
            Some((_, rest)) => format!("write only /{rest}"),
            None => format!("write /{text}"),
        };
        reader.fault(path.place, format!("the path `{text}` does not begin with `/`"), help);
    } else if let Some(c) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
        let escaped: String = c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        reader.fault(
            path.place,
            format!("a path cannot hold {c:?}"),
            format!("write it percent-encoded: {escaped}"),
        );
    }
}

pub(super) fn read_headers(reader: &mut Reader<'_>, typed: Ordered<Sweep<String>>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, values) in typed.0 {
        check_header_name(reader, &name);
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name.value)) {
            reader.fault(
                name.place,
                format!("the header `{}` stands twice", name.value),
                format!("to send it several times write {}: [first, second]", name.value),
            );
        }
        for value in values.0 {
            check_header_value(reader, &value);
            headers.push((name.value.clone(), value.value));
        }
    }
    headers
}

fn check_header_name(reader: &mut Reader<'_>, name: &Placed<String>) {
    if !is_token(&name.value) {
        reader.fault(
            name.place,
            format!("`{}` is not a header name", name.value),
            "use letters, digits and -, without blanks or colons",
        );
    }
    let lower = name.value.to_ascii_lowercase();
    if lower == "content-length" || lower == "transfer-encoding" {
        reader.fault(
            name.place,
            format!("`{}` is set from the body and cannot be given", name.value),
            "leave it out",
        );
    }
}

/// RFC 9110 §5.5, without the bytes above 127 that it calls opaque: what one gateway passes on, another refuses.
fn check_header_value(reader: &mut Reader<'_>, value: &Placed<String>) {
    let text = &value.value;
    if let Some(c) = text.chars().find(|c| !c.is_ascii_graphic() && !matches!(c, ' ' | '\t')) {
        reader.fault(value.place, format!("a header value cannot hold {c:?}"), "use printable ASCII");
    } else if text.trim() != text {
        reader.fault(
            value.place,
            "a header value neither begins nor ends with a blank",
            "remove the blank inside the quotes: gateways do",
        );
    }
}

pub(super) fn read_body(reader: &mut Reader<'_>, typed: Placed<Short<RawBody>>) -> Body {
    let place = typed.place;
    let body = match typed.value {
        Short::Word(size) => return sized(reader, &Placed { place, value: size }),
        Short::Full(body) => body,
    };
    match (body.size, body.text, body.file) {
        (Some(size), None, None) => sized(reader, &size),
        (None, Some(text), None) => Body::Text(text.value),
        (None, None, Some(file)) => {
            let path = reader.context.directory.join(&file.value);
            match std::fs::metadata(&path) {
                Ok(found) if found.is_file() => {}
                Ok(_) => reader.fault(file.place, format!("{} is not a file", path.display()), "name a file"),
                Err(error) => reader.fault(
                    file.place,
                    format!("cannot read {}: {error}", path.display()),
                    "a relative path starts at the plan's directory",
                ),
            }
            Body::File(path)
        }
        _ => {
            reader.fault(place, "a body is one of `size`, `text` and `file`", "give exactly one of them");
            Body::Size(0)
        }
    }
}

/// Larger bodies measure the memory, not the hop; and both ends hold one in memory.
const LARGEST_BODY: u64 = 1 << 30;

fn sized(reader: &mut Reader<'_>, typed: &Placed<impl AsRef<str>>) -> Body {
    let size = reader.unit(typed, units::size).unwrap_or(0);
    if size > LARGEST_BODY {
        reader.fault(typed.place, "a body of more than 1GiB", "bodies are held in memory: choose less");
    }
    Body::Size(size)
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

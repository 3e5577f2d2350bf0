//! Checks and converts the answers of the built-in upstream to particular paths.

use super::body::LARGEST_BODY;
use super::reader::Reader;
use crate::raw::{Placed, RawAnswer, RawImported};
use crate::{Answer, Delay, Imported, units};
use hoptax_format::field::is_token;
use std::time::Duration;

/// Default size of a response body, in bytes. Such a body fits into one packet, and is large enough to be
/// realistic.
pub(super) const DEFAULT_BODY: u64 = 1024;

/// Most answers. A mix has at most 256 targets, each with a few statuses.
const MOST_ANSWERS: usize = 2048;
const MOST_WEIGHT: u32 = 1_000_000;

pub(super) fn list(reader: &mut Reader<'_>, typed: Vec<Placed<RawAnswer>>) -> Vec<Answer> {
    if let Some(beyond) = typed.get(MOST_ANSWERS) {
        let help = format!("use {MOST_ANSWERS} or fewer; a `*` in the path covers many paths");
        reader.fault(beyond.place, format!("there are {} answers", typed.len()), help);
    }
    typed.into_iter().take(MOST_ANSWERS).map(|answer| read(reader, answer.value)).collect()
}

/// Checks and converts one answer.
pub(super) fn read(reader: &mut Reader<'_>, typed: RawAnswer) -> Answer {
    let method = typed.method.map(|method| {
        if !is_token(&method.value) {
            reader.fault(
                method.place,
                format!("`{}` is not a method", method.value),
                "use a method such as GET or POST",
            );
        }
        method.value
    });
    check_path(reader, &typed.path);
    let weight = reader.count(typed.weight.as_ref(), "weight", 1, MOST_WEIGHT);
    let status = status(reader, typed.status.as_ref());
    let bodiless = matches!(status, 204 | 304);
    let sizes = match &typed.body {
        Some(body) => {
            let sizes = reader.unit(body, units::sizes).unwrap_or_default();
            if sizes.iter().any(|(_, size)| *size > LARGEST_BODY) {
                reader.fault(
                    body.place,
                    "the body is larger than 1GiB",
                    "write 1GiB or less; bodies are kept in memory",
                );
            }
            if bodiless && sizes.iter().any(|(_, size)| *size > 0) {
                let message = format!("a response with status {status} has no body");
                reader.fault(body.place, message, "remove `body` or change `status`");
            }
            sizes
        }
        None => vec![(1.0, if bodiless { 0 } else { DEFAULT_BODY })],
    };
    let delay = typed.delay.and_then(|delay| reader.unit(&delay, units::delay));
    let delay = delay.unwrap_or(Delay::Fixed(Duration::ZERO));
    Answer { method, path: typed.path.value, weight, status, sizes, delay }
}

fn check_path(reader: &mut Reader<'_>, path: &Placed<String>) {
    let text = &path.value;
    if !text.starts_with('/') {
        reader.fault(
            path.place,
            format!("the path `{text}` does not start with `/`"),
            format!("write /{text}"),
        );
    } else if text.contains('?') {
        let before = text.split('?').next().unwrap_or_default();
        let help = format!("write {before}; the answer is the same for every query");
        reader.fault(path.place, "the path of an answer has no query", help);
    } else if let Some(letter) = text.chars().find(|letter| !letter.is_ascii_graphic() || *letter == '#') {
        let encoded: String = letter.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        reader.fault(
            path.place,
            format!("a path cannot contain {letter:?}"),
            format!("percent-encode it: {encoded}"),
        );
    } else if text.contains("{{") {
        let help = "write `*` for the part that changes, as in /users/*";
        reader.fault(path.place, "the path of an answer cannot contain templates", help);
    }
}

/// Where `hoptax import` took the targets from.
pub(super) fn imported(reader: &mut Reader<'_>, typed: RawImported) -> Imported {
    let represented = reader.unit(&typed.represented, units::share).unwrap_or_default();
    Imported { from: typed.from, requests: typed.requests, represented }
}

/// Reads the status of a response. The default is 200.
pub(super) fn status(reader: &mut Reader<'_>, typed: Option<&Placed<u16>>) -> u16 {
    let Some(Placed { place, value }) = typed else { return 200 };
    if !(200..=599).contains(value) {
        reader.fault(*place, format!("{value} is not the status of a final response"), "use 200 to 599");
    }
    *value
}

//! Templates. No text makes the parser panic, and errors point into the text. A text that is accepted
//! contains only characters that are allowed in the place where it is used.

use hoptax_format::template::{Place, check, files_named};
use std::collections::BTreeMap;

/// The first byte of `input` selects the place where the template is used. The text of the template follows.
/// After the text, there can be a NUL and the content of the file `tokens`.
pub fn holds(input: &[u8]) -> bool {
    let Some((place, rest)) = input.split_first() else { return false };
    let Ok(rest) = std::str::from_utf8(rest) else { return false };
    let place = [Place::Path, Place::Header, Place::Body][usize::from(place % 3)];
    let (text, content) = rest.split_once('\0').unwrap_or((rest, "one\ntwo\n"));
    let files = BTreeMap::from([("tokens".to_owned(), content.to_owned())]);
    let named = files_named(text);
    let (checked, anywhere) = (check(text, place, &files), check(text, Place::Body, &files));
    for error in [named.as_ref().err(), checked.as_ref().err(), anywhere.as_ref().err()].into_iter().flatten()
    {
        assert!(text.is_char_boundary(error.at), "{error:?} in {text:?}");
        assert!(!error.message.is_empty() && !error.help.is_empty(), "{error:?}");
    }
    if checked.is_err() {
        return false;
    }
    assert_eq!(anywhere, Ok(()), "a text that is valid elsewhere is valid in a body");
    let named = named.expect("a text that is valid can be parsed");
    assert!(named.iter().all(|name| name == "tokens"), "{named:?}");
    if place != Place::Body && !text.contains("base64") {
        // Text outside of `{{…}}` is sent unchanged, and so are lines of files. So both must be valid. Of a
        // line with columns, only the columns that are used must be valid.
        let has_columns = text.contains("tokens ") || text.contains("tokens\t");
        let lines = if named.is_empty() || has_columns { "" } else { content.trim_end() };
        let control = |line: &str| line.contains(['\0', '\r', '\x1b', '\x7f']);
        let outside = outside(text);
        assert!(!control(&outside) && !outside.contains('\n'), "{text:?}");
        assert!(!lines.lines().any(control), "{lines:?}");
    }
    if place == Place::Path {
        assert!(text.starts_with(['/', '{']), "{text:?}");
    }
    true
}

/// Returns the text outside of `{{…}}`. It is checked separately, because spaces and line ends are allowed
/// within `{{…}}`. The templates here are not nested.
fn outside(mut text: &str) -> String {
    let mut outside = String::new();
    while let Some(at) = text.find("{{") {
        let (front, rest) = text.split_at(at);
        outside.push_str(front);
        text = if front.ends_with('\\') {
            &rest[2..]
        } else {
            rest.split_once("}}").map_or("", |(_, rest)| rest)
        };
    }
    outside + text
}

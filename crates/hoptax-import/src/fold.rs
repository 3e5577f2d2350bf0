//! Folds the paths of similar requests: `/users/1234` and `/users/99` become one class.
//!
//! A path is split into literal text and *holes*. A hole is a number, a UUID, a hexadecimal id or an opaque
//! token. When the class is sent, each hole becomes a template of about the same length. Values of tokens are
//! never copied, because links that reset passwords contain them.

/// A part of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PathPart {
    /// The same in every request of the class.
    Text(String),
    /// A decimal number of at most 18 digits.
    Number,
    /// A UUID.
    Uuid,
    /// Another id with this many characters.
    Id(usize),
}

/// The parts of a path without its query, and the numbers in it, in order.
pub(crate) fn path(path: &str) -> (Vec<PathPart>, Vec<u64>) {
    let (mut parts, mut numbers) = (Vec::new(), Vec::new());
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            text(&mut parts, "/");
        }
        fold_segment(segment, &mut parts, &mut numbers);
    }
    (parts, numbers)
}

/// A query with its values replaced: `q=a&page=2` becomes `q=x&page=2` as a class with one number.
pub(crate) fn query(query: &str, parts: &mut Vec<PathPart>, numbers: &mut Vec<u64>) {
    for (index, pair) in query.split('&').enumerate() {
        text(parts, if index == 0 { "?" } else { "&" });
        let (name, value) = pair.split_once('=').map_or((pair, None), |(name, value)| (name, Some(value)));
        text(parts, &clean(name));
        if let Some(value) = value {
            text(parts, "=");
            match value.parse::<u64>() {
                Ok(number) if is_number(value) => {
                    parts.push(PathPart::Number);
                    numbers.push(number);
                }
                _ if value.is_empty() => {}
                // Search words, names and tokens are personal data, so they are replaced.
                _ => text(parts, "x"),
            }
        }
    }
}

/// A text that can be in a path or a query: other characters are percent-encoded.
pub(crate) fn clean(raw: &str) -> String {
    let mut clean = String::with_capacity(raw.len());
    let mut rest = raw;
    // nginx and Apache write bytes that are not printable as \xHH.
    while let Some(at) = rest.find("\\x") {
        encode(&rest[..at], &mut clean);
        match rest.get(at + 2..at + 4).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            Some(hex) => {
                clean.push('%');
                clean.push_str(hex);
                rest = &rest[at + 4..];
            }
            None => {
                clean.push_str("%5C");
                rest = &rest[at + 1..];
            }
        }
    }
    encode(rest, &mut clean);
    clean
}

fn encode(raw: &str, into: &mut String) {
    for letter in raw.chars() {
        if letter.is_ascii_graphic() && letter != '#' && letter != '"' && letter != '\\' {
            into.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                into.push_str(&format!("%{byte:02X}"));
            }
        }
    }
}

fn fold_segment(segment: &str, parts: &mut Vec<PathPart>, numbers: &mut Vec<u64>) {
    if is_uuid(segment) {
        parts.push(PathPart::Uuid);
    } else if is_number(segment) {
        parts.push(PathPart::Number);
        numbers.push(segment.parse().unwrap_or_default());
    } else if is_id(segment) {
        parts.push(PathPart::Id(segment.len()));
    } else {
        with_digits(segment, parts, numbers);
    }
}

/// Runs of at least three digits within a segment are numbers: `img_1234.jpg`. Shorter runs are usually part
/// of a name: `v2`.
fn with_digits(segment: &str, parts: &mut Vec<PathPart>, numbers: &mut Vec<u64>) {
    let mut rest = segment;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let end =
            rest[at..].find(|letter: char| !letter.is_ascii_digit()).map_or(rest.len(), |length| at + length);
        let digits = &rest[at..end];
        // A percent-encoded byte is not a number.
        let encoded = rest[..at].ends_with('%');
        if digits.len() >= 3 && is_number(digits) && !encoded {
            text(parts, &clean(&rest[..at]));
            parts.push(PathPart::Number);
            numbers.push(digits.parse().unwrap_or_default());
        } else {
            text(parts, &clean(&rest[..end]));
        }
        rest = &rest[end..];
    }
    text(parts, &clean(rest));
}

fn text(parts: &mut Vec<PathPart>, more: &str) {
    match parts.last_mut() {
        _ if more.is_empty() => {}
        Some(PathPart::Text(last)) => last.push_str(more),
        _ => parts.push(PathPart::Text(more.to_owned())),
    }
}

/// A number with a leading zero does not count as a number but as an id, so that its length is kept.
fn is_number(text: &str) -> bool {
    let digits = !text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (text.len() == 1 || !text.starts_with('0'))
}

fn is_uuid(text: &str) -> bool {
    let dashes = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if dashes(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// A hexadecimal id, or a long mixture of letters and digits such as a token.
fn is_id(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let hex = text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits >= 2;
    let upper = text.bytes().filter(u8::is_ascii_uppercase).count();
    let lower = text.bytes().filter(u8::is_ascii_lowercase).count();
    let opaque = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=.~".contains(&byte));
    // Titles in paths have few digits, and no mixture of upper and lower case.
    let mixed = digits >= 3 && upper >= 2 && lower >= 2 || digits * 4 >= text.len() && digits < text.len();
    let zeros = text.len() >= 2 && text.starts_with('0') && digits == text.len();
    hex || zeros || digits == text.len() && text.len() > 18 || text.len() >= 16 && opaque && mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folded path as text: `#` is a number, `@` a UUID, `*` another id.
    fn shown(raw: &str) -> String {
        let (before, after) =
            raw.split_once('?').map_or((raw, None), |(before, after)| (before, Some(after)));
        let (mut parts, mut numbers) = path(before);
        if let Some(after) = after {
            query(after, &mut parts, &mut numbers);
        }
        let holes = parts.iter().filter(|part| **part == PathPart::Number).count();
        assert_eq!(holes, numbers.len(), "{raw}");
        let letter = |part: &PathPart| match part {
            PathPart::Text(text) => text.clone(),
            PathPart::Number => "#".to_owned(),
            PathPart::Uuid => "@".to_owned(),
            PathPart::Id(_) => "*".to_owned(),
        };
        parts.iter().map(letter).collect()
    }

    #[test]
    fn numbers_and_ids_become_holes() {
        for (raw, folded) in [
            ("/", "/"),
            ("/users/1234/orders/9", "/users/#/orders/#"),
            ("/v2/items", "/v2/items"),
            ("/img_12345.jpg", "/img_#.jpg"),
            ("/o/3f2504e0-4f89-11d3-9a0c-0305e82c3301", "/o/@"),
            ("/blob/9f86d081884c7d659a2feaa0c55ad015", "/blob/*"),
            ("/reset/eyJhbGciOiJIUzI1NiJ9Tk3xQ", "/reset/*"),
            ("/articles/how-to-measure-a-hop-in-2026", "/articles/how-to-measure-a-hop-in-#"),
            ("/products/running-shoes", "/products/running-shoes"),
            ("/facade", "/facade"),
            ("/orders/007", "/orders/*"),
            ("/t/123456789012345678901", "/t/*"),
            ("/%C3%A9t%C3%A9/123", "/%C3%A9t%C3%A9/#"),
            ("/a b/é", "/a%20b/%C3%A9"),
            ("/\\xC3\\xA9", "/%C3%A9"),
            ("/search?q=secret+words&page=2&all", "/search?q=x&page=#&all"),
            ("/?token=", "/?token="),
        ] {
            assert_eq!(shown(raw), folded, "{raw}");
        }
    }
}

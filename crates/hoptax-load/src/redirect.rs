//! Redirects. hoptax does not follow them, but it reports where the first one points to.

/// Maximum length of the reported address, bytes.
const LONGEST: usize = 200;

/// The value of the header `location`, without query and fragment, because they can contain secrets. `None`
/// if it is missing, too long, or not printable.
pub(crate) fn location(head: &[u8]) -> Option<String> {
    let lines = head.split(|byte| *byte == b'\n');
    let mut values = lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon].trim_ascii().eq_ignore_ascii_case(b"location").then(|| line[colon + 1..].trim_ascii())
    });
    shown(values.next()?)
}

/// What is shown of the value of the header `location`. See [`location`].
pub(crate) fn shown(value: &[u8]) -> Option<String> {
    let length = value.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(value.len());
    let value = &value[..length];
    let is_printable = value.iter().all(u8::is_ascii_graphic);
    (length <= LONGEST && is_printable).then(|| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_where_a_redirect_points_to() {
        let head = |line: &str| location(format!("HTTP/1.1 302 Found\r\n{line}\r\n\r\n").as_bytes());
        assert_eq!(head("LOCATION:  /login?token=secret").as_deref(), Some("/login"));
        assert_eq!(head("location: https://a.test/b#c").as_deref(), Some("https://a.test/b"));
        assert_eq!(head("x-location: /login"), None);
        assert_eq!(head("location: /\u{7f}"), None);
        assert_eq!(head(&format!("location: /{}", "a".repeat(LONGEST))), None);
    }
}

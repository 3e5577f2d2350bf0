//! Which headers must not be copied.

/// Whether a header may carry a credential, by its name (in any case).
pub(crate) fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "session", "csrf"];
    let name = name.to_ascii_lowercase();
    let signs = name.contains("xsrf")
        || name.ends_with("-key")
        || name.contains("signature")
        || name.contains("credential");
    signs || name.contains("auth") && name != ":authority" || WORDS.iter().any(|word| name.contains(word))
}

/// Whether hoptax writes this header itself, or the header applies to a single connection or protocol.
pub(crate) fn is_own(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "if-none-match",
        "if-modified-since",
        "http2-settings",
    ];
    name.starts_with(':') || NAMES.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Keeps the headers that may be sent again. Names of credentials that were left out are added to `left_out`.
pub(crate) fn without_secrets(
    headers: impl IntoIterator<Item = (String, String)>,
    left_out: &mut Vec<String>,
) -> Vec<(String, String)> {
    let mut kept = Vec::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        if is_secret(&name) {
            if !left_out.contains(&name) {
                left_out.push(name);
            }
        } else if !is_own(&name) && value.chars().all(|letter| !letter.is_control()) {
            kept.push((name, value));
        }
    }
    kept
}

/// The sentence about credentials that were left out; nothing if there were none.
pub(crate) fn note(left_out: &[String]) -> Option<String> {
    let first = left_out.first()?;
    Some(format!(
        "Not copied, because they may be credentials: {}. If requests need them, add a line such as \
         `{first}: {{ file: token.txt }}` to `headers`",
        left_out.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_headers_of_a_connection_are_not_copied() {
        let headers = [
            ("Authorization", "Bearer x"),
            ("Cookie", "a=b"),
            ("X-Api-Key", "k"),
            ("X-Amz-Security-Token", "t"),
            ("X-CSRF-Token", "t"),
            ("Ocp-Apim-Subscription-Key", "k"),
            ("Proxy-Authorization", "p"),
            ("Host", "a.test"),
            ("Content-Length", "3"),
            (":authority", "a.test"),
            ("Accept", "text/html"),
            ("User-Agent", "browser"),
        ];
        let mut left_out = Vec::new();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let kept = without_secrets(headers, &mut left_out);
        assert_eq!(kept.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["accept", "user-agent"]);
        assert_eq!(left_out.len(), 7);
        insta::assert_snapshot!(note(&left_out).expect("some are left out"));
        assert_eq!(note(&[]), None);
    }
}

//! Parser of the URLs that `hoptax load` accepts.

use hoptax_plan::units;

/// The parts of an `http`, `https`, `ws` or `wss` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    /// Whether the scheme is `https` or `wss`.
    pub(super) tls: bool,
    /// Whether the scheme is `ws` or `wss`.
    pub(super) websocket: bool,
    /// Name or address, without brackets.
    pub(super) host: String,
    /// Port; 80 or 443 if the URL has none.
    pub(super) port: u16,
    /// Value of the `host` header: the host as the user typed it, and the port unless it is the scheme's
    /// default.
    pub(super) authority: String,
    /// Path and query, beginning with `/`.
    pub(super) path: String,
}

impl Url {
    /// Parses `text`. If `templates` is true, the path of the URL can contain templates.
    ///
    /// # Errors
    /// If `text` is not a valid URL of one of these schemes. The error says what is wrong and how to fix it.
    pub(super) fn parse(text: &str, templates: bool) -> Result<Self, String> {
        if let Some(path) = unix_path(text) {
            return Err(format!(
                "{text} names a Unix socket; write http://localhost/ as the URL, and add --unix {path}"
            ));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("{text} has no scheme; did you mean http://{text}?"));
        };
        let (tls, websocket) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, false),
            "https" => (true, false),
            "ws" => (false, true),
            "wss" => (true, true),
            _ => {
                return Err(format!(
                    "{text}: the scheme {scheme:?} is not supported; use http:// or https://, or ws:// or \
                     wss:// for WebSockets"
                ));
            }
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(format!(
                "{text}: the URL cannot contain a user name and password; use -H 'authorization: …'"
            ));
        }
        if authority.contains("{{") {
            return Err(format!(
                "{text}: the host cannot contain a template; use templates in the path, in headers or in the \
                body"
            ));
        }
        let (host, port) = split_authority(authority).ok_or_else(|| {
            format!(
                "{text}: {authority:?} is not a valid host; use http://HOST:PORT/PATH, with an IPv6 \
                address in brackets"
            )
        })?;
        let path = read_path(path, templates).map_err(|wrong| format!("{text}: {wrong}"))?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        let authority = units::host_header(tls, host, port);
        Ok(Self { tls, websocket, host: host.to_owned(), port, authority, path })
    }
}

/// The path in the usual forms of a Unix socket's address, such as `unix:/run/app.sock`.
fn unix_path(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("http+").unwrap_or(text);
    let path = rest.strip_prefix("unix://").or_else(|| rest.strip_prefix("unix:"))?;
    Some(if path.is_empty() { "PATH" } else { path })
}

/// Path and query, without the fragment. Spaces and non-ASCII characters are allowed only inside templates.
fn read_path(typed: &str, templates: bool) -> Result<String, String> {
    let mut path = String::new();
    if !typed.starts_with('/') {
        path.push('/');
    }
    let mut rest = typed;
    while let Some(next) = rest.chars().next() {
        if templates && rest.starts_with("{{") {
            let end = template_end(rest).ok_or_else(|| {
                format!("the template {rest} has no end; close it with }}}}, or add --no-templates")
            })?;
            let (template, after) = rest.split_at(end);
            path.push_str(template);
            rest = after;
            continue;
        }
        match next {
            '#' => break,
            next if next.is_ascii_graphic() => path.push(next),
            next => {
                let escaped: String = next.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
                return Err(format!("a path cannot contain {next:?}; write it percent-encoded: {escaped}"));
            }
        }
        rest = &rest[next.len_utf8()..];
    }
    Ok(path)
}

/// Length in bytes of the template at the start of `text`. `None` if the template has no end. Templates can
/// be nested.
fn template_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match text.get(at..at + 2) {
            Some("{{") => (depth, at) = (depth + 1, at + 2),
            Some("}}") => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    None
}

/// Host and port of `HOST[:PORT]`.
pub(super) fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_host =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    let port = match port {
        None => None,
        Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
    };
    is_host.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        for (text, tls, host, port, authority, path) in [
            ("http://a.b", false, "a.b", 80, "a.b", "/"),
            ("HTTP://127.0.0.1:8080/x/y?z=1#part", false, "127.0.0.1", 8080, "127.0.0.1:8080", "/x/y?z=1"),
            ("http://localhost?q", false, "localhost", 80, "localhost", "/?q"),
            ("http://a.test:80/", false, "a.test", 80, "a.test", "/"),
            ("http://a.test:443/", false, "a.test", 443, "a.test:443", "/"),
            ("https://a.test.:443/", true, "a.test.", 443, "a.test.", "/"),
            ("https://[::1]:443", true, "::1", 443, "[::1]", "/"),
            ("http://localhost#part", false, "localhost", 80, "localhost", "/"),
            ("http://[::1]:90/", false, "::1", 90, "[::1]:90", "/"),
            ("https://[::1]", true, "::1", 443, "[::1]", "/"),
            ("https://a/x", true, "a", 443, "a", "/x"),
            ("Https://a:8443", true, "a", 8443, "a:8443", "/"),
        ] {
            let url = Url::parse(text, true).expect(text);
            assert_eq!((url.tls, url.host.as_str(), url.port), (tls, host, port), "{text}");
            assert_eq!((url.authority.as_str(), url.path.as_str()), (authority, path), "{text}");
        }
    }

    #[test]
    fn websockets_have_their_own_schemes() {
        for (text, expected) in [
            ("http://a/x", (false, false, 80)),
            ("https://a/x", (true, false, 443)),
            ("ws://a/x", (false, true, 80)),
            ("WSS://a/x", (true, true, 443)),
            ("wss://a:99/x", (true, true, 99)),
        ] {
            let url = Url::parse(text, true).expect(text);
            assert_eq!((url.tls, url.websocket, url.port), expected, "{text}");
        }
    }

    #[test]
    fn templates_in_paths_are_kept() {
        let path =
            |path: &str, templates| Url::parse(&format!("http://a{path}"), templates).map(|url| url.path);
        for text in ["/{{seq}}", "/x?n={{random 1 1000}}&t={{base64 ü#{{line a b.txt}}}}", "/}}"] {
            assert_eq!(path(text, true).as_deref(), Ok(text));
        }
        assert_eq!(path("/{{uuid}}/y#z", true).as_deref(), Ok("/{{uuid}}/y"));
        assert_eq!(path("/{{x#y", false).as_deref(), Ok("/{{x"));
        assert!(path("/{{random 1 2}}", false).expect_err("a space").contains("%20"));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let told = [
            "localhost:80",
            "unix:/run/a.sock",
            "http+unix:///run/a.sock",
            "ftp://a",
            "http://",
            "http://a:b/",
            "http://a:0/",
            "http://a:70000/",
            "http://::1/",
            "http://me:secret@a/",
            "http://a b/",
            "http://a/b c",
            "http://a/ü",
            "http://a/{{seq",
            "http://{{host}}/",
        ]
        .map(|text| format!("{text}\n=> {}\n", Url::parse(text, true).expect_err(text)))
        .concat();
        insta::assert_snapshot!(told);
    }
}

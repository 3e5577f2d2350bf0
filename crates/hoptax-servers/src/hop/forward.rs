//! Which requests `hop-l7` accepts as a forward proxy: requests with the whole URL, and CONNECT. Both must
//! name one of the given hosts and ports.

use hoptax_wire::http1::Malformed;
use std::net::IpAddr;

/// The hosts and ports that clients may request from a forward proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardProxy {
    /// The hosts and ports, at least one.
    authorities: Vec<Authority>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    /// Host and port as the user typed them.
    text: String,
    host: Host,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    /// In lower case.
    Name(String),
}

/// A request that the hop answers itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Malformed(Malformed),
    /// The status, and the text of the body.
    Answer(u16, String),
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// The part of a URL that is sent to the upstream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked<'a> {
    /// Host and port, as the URL has them.
    pub(super) authority: &'a [u8],
    /// Path and query. If the URL has no path, it begins with `?` or is empty.
    pub(super) path: &'a [u8],
}

impl ForwardProxy {
    /// A forward proxy for these hosts and ports, each in the form `HOST:PORT`.
    ///
    /// # Errors
    /// If `typed` is empty, or an element has another form. The text names the element.
    pub fn new(typed: &[String]) -> Result<Self, String> {
        let read = |text: &String| {
            let wrong = || format!("{text} is not HOST:PORT, such as app.test:80 or [::1]:8080");
            let (host, port) = split(text).ok_or_else(wrong)?;
            let port = port.filter(|_| !text.contains(['/', '@'])).ok_or_else(wrong)?;
            Ok(Authority { text: text.clone(), host, port })
        };
        let authorities = typed.iter().map(read).collect::<Result<Vec<_>, String>>()?;
        if authorities.is_empty() {
            return Err("a forward proxy needs a host and port that clients may ask for".to_owned());
        }
        Ok(Self { authorities })
    }

    /// The part of the URL that is sent to the upstream.
    pub(super) fn whole_url<'a>(&self, target: &'a [u8]) -> Result<Asked<'a>, Refusal> {
        let Some(rest) = after_scheme(target, b"http://") else {
            if after_scheme(target, b"https://").is_some() {
                let text = "this forward proxy cannot use TLS to the upstream; send CONNECT instead\n";
                return Err(Refusal::Answer(502, text.to_owned()));
            }
            let example = &self.authorities[0].text;
            let text = format!(
                "this is a forward proxy: a request must name the whole URL, such as http://{example}/\n"
            );
            return Err(Refusal::Answer(400, text));
        };
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        self.check(authority, Some(80))?;
        Ok(Asked { authority, path })
    }

    /// Checks the host and port of a request for a tunnel.
    pub(super) fn tunnel(&self, authority: &[u8]) -> Result<(), Refusal> {
        self.check(authority, None)
    }

    fn check(&self, authority: &[u8], default_port: Option<u16>) -> Result<(), Refusal> {
        let asked = str::from_utf8(authority).ok().and_then(split);
        let asked = asked.and_then(|(host, port)| Some((host, port.or(default_port)?)));
        let is_own = |(host, port)| self.authorities.iter().any(|own| own.host == host && own.port == port);
        if asked.is_some_and(is_own) {
            return Ok(());
        }
        let own: Vec<&str> = self.authorities.iter().map(|own| own.text.as_str()).collect();
        Err(Refusal::Answer(403, format!("this forward proxy only forwards to {}\n", own.join(" and "))))
    }
}

fn after_scheme<'a>(target: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Splits `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
fn split(authority: &str) -> Option<(Host, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')?) };
            (Host::Ip(IpAddr::V6(host.parse().ok()?)), port)
        }
        None => {
            let (host, port) = match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            };
            let name = || Host::Name(host.to_ascii_lowercase());
            (host.parse().map_or_else(|_| name(), |ip| Host::Ip(IpAddr::V4(ip))), port)
        }
    };
    let port = port.map(|port| port.parse().ok()).map_or(Some(None), |port| port.map(Some))?;
    (host != Host::Name(String::new())).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> ForwardProxy {
        let own = ["App.test:80", "127.0.0.1:8080", "[::1]:8080"].map(str::to_owned);
        ForwardProxy::new(&own).expect("hosts and ports")
    }

    fn status(refused: Refusal) -> u16 {
        match refused {
            Refusal::Answer(status, _) => status,
            Refusal::Malformed(malformed) => panic!("{malformed}"),
        }
    }

    #[test]
    fn urls_of_its_own_hosts_and_ports_are_split() {
        for (url, authority, path) in [
            ("http://app.test/a?b=http://c", "app.test", "/a?b=http://c"),
            ("HTTP://APP.TEST:80", "APP.TEST:80", ""),
            ("http://app.test?b", "app.test", "?b"),
            ("http://127.0.0.1:8080/", "127.0.0.1:8080", "/"),
            ("http://[0:0:0:0:0:0:0:1]:8080/a", "[0:0:0:0:0:0:0:1]:8080", "/a"),
        ] {
            let expected = Asked { authority: authority.as_bytes(), path: path.as_bytes() };
            assert_eq!(proxy().whole_url(url.as_bytes()), Ok(expected), "{url}");
        }
    }

    #[test]
    fn others_are_refused() {
        for (url, expected) in [
            ("http://app.test:81/", 403),
            ("http://other.test/", 403),
            ("http://app.test.other.test/", 403),
            ("http://user:password@app.test/", 403),
            ("http://app.test:80@other.test/", 403),
            ("http://127.0.0.1/", 403),
            ("http://[::1]/", 403),
            ("http://[::1]:8080x/", 403),
            ("http:///", 403),
            ("http://", 403),
            ("https://app.test/", 502),
            ("/", 400),
            ("*", 400),
            ("app.test:80", 400),
        ] {
            let refused = proxy().whole_url(url.as_bytes()).expect_err(url);
            assert_eq!(status(refused), expected, "{url}");
        }
        let refused = proxy().whole_url(b"http://user:secret@other.test/").expect_err("another host");
        let Refusal::Answer(403, text) = refused else { panic!("{refused:?}") };
        insta::assert_snapshot!(text);
    }

    #[test]
    fn tunnels_need_a_port() {
        for own in ["app.test:80", "APP.test:80", "127.0.0.1:8080", "[::1]:8080"] {
            assert_eq!(proxy().tunnel(own.as_bytes()), Ok(()), "{own}");
        }
        for other in ["app.test", "app.test:443", "127.0.0.1:80", "[::1]", "", "http://app.test:80"] {
            assert_eq!(status(proxy().tunnel(other.as_bytes()).expect_err(other)), 403, "{other}");
        }
    }

    #[test]
    fn only_hosts_with_a_port_can_be_given() {
        for wrong in
            ["app.test", "app.test:", ":80", "app.test:99999", "http://app.test:80", "a:80/b", "u@a:80"]
        {
            let error = ForwardProxy::new(&[wrong.to_owned()]).expect_err(wrong);
            assert!(error.starts_with(wrong) && error.contains("HOST:PORT"), "{error}");
        }
        assert!(ForwardProxy::new(&[]).is_err());
    }
}

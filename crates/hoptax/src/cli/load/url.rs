//! The few URLs that can be loaded.

use std::net::{SocketAddr, ToSocketAddrs as _};

/// An `http` URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    /// Name or address, without brackets.
    pub(super) host: String,
    /// Port, 80 unless given.
    pub(super) port: u16,
    /// What the `host` header says: as typed, without userinfo.
    pub(super) authority: String,
    /// Path and query, beginning with `/`.
    pub(super) path: String,
}

impl Url {
    /// Takes `text` apart.
    ///
    /// # Errors
    /// What is wrong and how to mend it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return Err(format!("{text}: https is not built yet; use an http:// URL"));
            }
            Some((scheme, _)) => {
                return Err(format!("{text}: {scheme:?} is not a scheme that can be loaded; use http://"));
            }
            None => return Err(format!("{text} has no scheme; did you mean http://{text}?")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(format!(
                "{text}: a name and password cannot stand in the URL; use -H 'authorization: …'"
            ));
        }
        let (host, port) = split_authority(authority).ok_or_else(|| {
            format!("{text}: {authority:?} is not a host; write http://HOST:PORT/PATH, an IPv6 address in brackets")
        })?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { host: host.to_owned(), port, authority: authority.to_owned(), path })
    }

    /// The address of the host: of several only the first, so that all connections go the same way.
    ///
    /// # Errors
    /// If the name does not resolve.
    pub(super) fn resolve(&self) -> Result<SocketAddr, String> {
        let mut found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| format!("cannot resolve {:?}: {error}; is the name right?", self.host))?;
        found.next().ok_or_else(|| format!("{:?} has no address", self.host))
    }
}

fn split_authority(authority: &str) -> Option<(&str, u16)> {
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
        None => 80,
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
    };
    is_host.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        for (text, host, port, authority, path) in [
            ("http://a.b", "a.b", 80, "a.b", "/"),
            ("HTTP://127.0.0.1:8080/x/y?z=1#part", "127.0.0.1", 8080, "127.0.0.1:8080", "/x/y?z=1"),
            ("http://localhost?q", "localhost", 80, "localhost", "/?q"),
            ("http://[::1]:90/", "::1", 90, "[::1]:90", "/"),
            ("http://[::1]", "::1", 80, "[::1]", "/"),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!((url.authority.as_str(), url.path.as_str()), (authority, path), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_the_others() {
        for (text, part) in [
            ("https://a", "https is not built yet"),
            ("localhost:80", "did you mean http://localhost:80?"),
            ("ftp://a", "use http://"),
            ("http://", "is not a host"),
            ("http://a:b/", "is not a host"),
            ("http://a:0/", "is not a host"),
            ("http://a:70000/", "is not a host"),
            ("http://::1/", "brackets"),
            ("http://me:secret@a/", "authorization"),
            ("http://a b/", "is not a host"),
        ] {
            let error = Url::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn resolves_addresses_as_they_are() {
        let url = Url::parse("http://127.0.0.9:81/").expect("a URL");
        assert_eq!(url.resolve(), Ok("127.0.0.9:81".parse().expect("an address")));
    }
}

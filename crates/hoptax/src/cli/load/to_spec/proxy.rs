//! `--proxy`: sends the requests to a forward proxy.

use super::super::url::{Url, split_authority};
use crate::cli::exit::BadInput;
use hoptax_format::spec::TargetSpec;
use hoptax_format::spec::Tunnel;
use hoptax_lab::login::basic;
use hoptax_plan::units;

const AUTHORIZATION: &str = "proxy-authorization";

/// Ports of a plain proxy and of a proxy with TLS, if none is given, as in curl.
const DEFAULT_PORTS: (u16, u16) = (1080, 443);

/// A forward proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    /// Whether connections to the proxy use TLS.
    pub(super) tls: bool,
    /// Name or address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// `USER:PASSWORD`.
    credentials: Option<String>,
}

impl Proxy {
    /// Parses the value of `--proxy`.
    ///
    /// # Errors
    /// If it is not a URL of an HTTP proxy. The error does not quote it, because it may contain a password.
    pub(super) fn parse(typed: &str) -> Result<Self, BadInput> {
        let wrong = |why: &str| BadInput(format!("--proxy: {why}; use http[s]://[USER:PASSWORD@]HOST:PORT"));
        let (tls, rest) = match typed.split_once("://") {
            None => (false, typed),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => {
                return Err(wrong(&format!("{scheme} proxies are not supported, only HTTP ones")));
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, authority) = match rest.rsplit_once('@') {
            Some((credentials, authority)) => (Some(credentials), authority),
            None => (None, rest),
        };
        let (host, port) = split_authority(authority).ok_or_else(|| wrong("it has no valid host"))?;
        let credentials = match credentials.map(decoded) {
            Some(None) => return Err(wrong("its user name or password is not valid percent-encoding")),
            Some(Some(text)) if text.contains(':') => Some(text),
            Some(Some(user)) => Some(user + ":"),
            None => None,
        };
        let default = if tls { DEFAULT_PORTS.1 } else { DEFAULT_PORTS.0 };
        Ok(Self { tls, host: host.to_owned(), port: port.unwrap_or(default), credentials })
    }

    /// Changes `targets`, so that their requests ask the proxy for whole URLs. If connections need a tunnel
    /// instead (for https, or with `always`, which is `--proxy-tunnel`), returns the tunnel. The caller adds
    /// the TLS settings of the connection to the proxy.
    pub(super) fn apply(&self, url: &Url, always: bool, targets: &mut [TargetSpec]) -> Option<Tunnel> {
        let authorization = self.credentials.as_deref().map(basic);
        if url.tls || always {
            let authority = units::authority(&url.host, url.port);
            return Some(Tunnel { authority, authorization, tls: None });
        }
        for target in targets {
            target.path.insert_str(0, &format!("http://{}", url.authority));
            let is_own = target.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION));
            if let Some(value) = authorization.as_ref().filter(|_| !is_own) {
                target.headers.push((AUTHORIZATION.to_owned(), value.clone()));
            }
        }
        None
    }
}

/// Decodes `%XX`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_written_as_for_curl() {
        let proxy = |host: &str, port, credentials: Option<&str>| Proxy {
            tls: false,
            host: host.to_owned(),
            port,
            credentials: credentials.map(str::to_owned),
        };
        for (typed, expected) in [
            ("http://127.0.0.1:3128", proxy("127.0.0.1", 3128, None)),
            ("proxy.test", proxy("proxy.test", 1080, None)),
            ("HTTP://[::1]:8080/", proxy("::1", 8080, None)),
            ("http://user:p%40ss@proxy.test:80", proxy("proxy.test", 80, Some("user:p@ss"))),
            ("user@proxy.test:80", proxy("proxy.test", 80, Some("user:"))),
        ] {
            assert_eq!(Proxy::parse(typed).expect(typed), expected, "{typed}");
        }
        for (typed, port) in [("https://a.test:3128", 3128), ("HTTPS://a.test/", 443)] {
            let expected = Proxy { tls: true, ..proxy("a.test", port, None) };
            assert_eq!(Proxy::parse(typed).expect(typed), expected, "{typed}");
        }
        for wrong in ["socks5://a:1", "http://", "http://user:secret@", "http://a:secret%zz@b:1"] {
            let error = Proxy::parse(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("--proxy: ") && !error.contains("secret"), "{error}");
        }
    }
}

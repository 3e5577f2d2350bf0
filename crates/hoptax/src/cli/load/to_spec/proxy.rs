//! `--proxy`: sends the requests to a forward proxy.

use super::super::args::ConnectionArgs;
use super::super::url::{Url, split_authority};
use crate::cli::exit::BadInput;
use hoptax_format::spec::TargetSpec;
use hoptax_format::spec::Tunnel;
use hoptax_lab::login::basic;

const AUTHORIZATION: &str = "proxy-authorization";

/// Port of a proxy without one, as in curl.
const DEFAULT_PORT: u16 = 1080;

/// A forward proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proxy {
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
        let wrong = |why: &str| BadInput(format!("--proxy: {why}; use http://[USER:PASSWORD@]HOST:PORT"));
        let rest = match typed.split_once("://") {
            None => typed,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => {
                return Err(wrong(&format!("{scheme} proxies are not supported, only plain HTTP ones")));
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
        Ok(Self { host: host.to_owned(), port: port.unwrap_or(DEFAULT_PORT), credentials })
    }
}

/// Makes `targets` requests to the proxy. Returns the tunnel if connections need one: for https, and with
/// `--proxy-tunnel`.
pub(super) fn apply(
    args: &ConnectionArgs,
    url: &Url,
    targets: &mut [TargetSpec],
) -> Result<Option<Tunnel>, BadInput> {
    let Some(typed) = &args.proxy else { return Ok(None) };
    let authorization = Proxy::parse(typed)?.credentials.as_deref().map(basic);
    if url.tls || args.proxy_tunnel {
        let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
        return Ok(Some(Tunnel { authority: format!("{host}:{}", url.port), authorization }));
    }
    for target in targets {
        target.path.insert_str(0, &format!("http://{}", url.authority));
        let is_own = target.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION));
        if let Some(value) = authorization.as_ref().filter(|_| !is_own) {
            target.headers.push((AUTHORIZATION.to_owned(), value.clone()));
        }
    }
    Ok(None)
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
        for wrong in
            ["socks5://a:1", "https://a:1", "http://", "http://user:secret@", "http://a:secret%zz@b:1"]
        {
            let error = Proxy::parse(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("--proxy: ") && !error.contains("secret"), "{error}");
        }
    }
}

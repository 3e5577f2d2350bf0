//! TLS options.

use super::super::args::{ConnectionArgs, TlsArgs};
use super::super::url::Url;
use super::proxy::Proxy;
use crate::cli::exit::BadInput;
use crate::cli::load::values::Alpn;
use hoptax_format::spec::{ClientCertificate, HttpVersion, TlsSpec, TlsVersion, Verify};
use hoptax_record::bounded;
use std::path::Path;

/// Names of HTTP/1.1 and HTTP/2 in ALPN (RFC 7301, RFC 9113).
const HTTP_11: &str = "http/1.1";
const HTTP_2: &str = "h2";

/// TLS settings of a load.
pub(super) struct Settings {
    /// For the server of an `https` URL.
    pub(super) server: Option<TlsSpec>,
    /// For an `https` proxy.
    pub(super) proxy: Option<TlsSpec>,
}

/// The TLS settings. The options apply to the server and to the proxy. But if both use TLS, the name, the
/// client certificate and ALPN are for the server alone.
///
/// # Errors
/// If an option contradicts the URL, or a file has the wrong content.
pub(super) fn settings(
    args: &TlsArgs,
    connection: &ConnectionArgs,
    url: &Url,
    proxy: Option<&Proxy>,
) -> Result<Settings, BadInput> {
    let proxy = proxy.filter(|proxy| proxy.tls);
    if let (false, None, Some(flag)) = (url.tls, proxy, first_given(args)) {
        let (typed, with_tls) = if url.websocket { ("ws", "wss") } else { ("http", "https") };
        return Err(BadInput(format!(
            "{flag} needs TLS, but the URL is {typed}://; use {with_tls}://{}{}, or leave out {flag}",
            url.authority, url.path
        )));
    }
    let server = url.tls.then(|| spec(args, connection, &url.host)).transpose()?;
    let proxy = match (proxy, &server) {
        (None, _) => None,
        (Some(proxy), None) => {
            let mut spec = spec(args, connection, &proxy.host)?;
            if connection.http == HttpVersion::Http2 {
                // The tunnel carries HTTP/2, but the request for the tunnel is HTTP/1.1.
                spec.alpn = vec![HTTP_11.to_owned()];
            }
            Some(spec)
        }
        (Some(proxy), Some(server)) => Some(TlsSpec {
            server_name: server_name(&proxy.host)?,
            client_certificate: None,
            alpn: vec![HTTP_11.to_owned()],
            ..server.clone()
        }),
    };
    Ok(Settings { server, proxy })
}

fn server_name(typed: &str) -> Result<String, BadInput> {
    // A dot at the end of a name is not part of the name in TLS (RFC 6066, section 3).
    let server_name = typed.strip_suffix('.').unwrap_or(typed).to_owned();
    if !is_server_name(&server_name) {
        return Err(BadInput(format!(
            "--server-name {server_name:?} is neither a host name nor an address; use a name such as \
            api.example.org"
        )));
    }
    Ok(server_name)
}

/// The settings of TLS to `host`.
fn spec(args: &TlsArgs, connection: &ConnectionArgs, host: &str) -> Result<TlsSpec, BadInput> {
    let server_name = server_name(args.server_name.as_deref().unwrap_or(host))?;
    let mut versions = args.tls.clone();
    versions.sort_unstable();
    versions.dedup();
    if versions.is_empty() {
        versions = vec![TlsVersion::Tls12, TlsVersion::Tls13];
    }
    Ok(TlsSpec {
        server_name,
        verify: match (&args.ca, args.insecure) {
            (_, true) => Verify::Nothing,
            (Some(file), false) => Verify::Authorities(certificates("--ca", file)?),
            (None, false) => Verify::System,
        },
        client_certificate: client_certificate(args)?,
        resumption: !args.no_resumption,
        alpn: alpn(args.alpn.as_ref(), connection.http)?,
        versions,
        cipher_suites: Vec::new(),
    })
}

/// The protocols to offer. The server must choose HTTP/2 if the load uses it, and must not choose it
/// otherwise.
fn alpn(typed: Option<&Alpn>, http: HttpVersion) -> Result<Vec<String>, BadInput> {
    match (typed, http) {
        (Some(Alpn(names)), HttpVersion::Http2) if *names != [HTTP_2] => {
            Err(BadInput("--http 2 needs h2 alone in ALPN; leave out --alpn".to_owned()))
        }
        (Some(Alpn(names)), HttpVersion::Http10 | HttpVersion::Http11)
            if names.iter().any(|it| it == HTTP_2) =>
        {
            Err(BadInput("--alpn h2 needs HTTP/2; add --http 2, or leave out --alpn".to_owned()))
        }
        (Some(Alpn(names)), _) => Ok(names.clone()),
        (None, HttpVersion::Http10) => Ok(Vec::new()),
        (None, HttpVersion::Http11) => Ok(vec![HTTP_11.to_owned()]),
        (None, HttpVersion::Http2) => Ok(vec![HTTP_2.to_owned()]),
    }
}

fn first_given(args: &TlsArgs) -> Option<&'static str> {
    let given = [
        ("--insecure", args.insecure),
        ("--ca", args.ca.is_some()),
        ("--cert", args.cert.is_some()),
        ("--key", args.key.is_some()),
        ("--server-name", args.server_name.is_some()),
        ("--alpn", args.alpn.is_some()),
        ("--tls", !args.tls.is_empty()),
        ("--no-resumption", args.no_resumption),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

fn is_server_name(name: &str) -> bool {
    let is_name = !name.is_empty()
        && name.len() <= 253
        && name.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        });
    is_name || name.parse::<std::net::IpAddr>().is_ok()
}

fn client_certificate(args: &TlsArgs) -> Result<Option<ClientCertificate>, BadInput> {
    let Some(file) = &args.cert else { return Ok(None) };
    let chain = certificates("--cert", file)?;
    let key = match &args.key {
        Some(key) => pem("--key", key)?,
        None => chain.clone(),
    };
    if key.contains("ENCRYPTED PRIVATE KEY-----") || key.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(BadInput(
            "the private key is encrypted, and hoptax cannot ask for its password; decrypt it: `openssl \
             pkey -in KEY -out PLAIN`"
                .to_owned(),
        ));
    }
    match (key.contains("PRIVATE KEY-----"), &args.key) {
        (true, _) => Ok(Some(ClientCertificate { chain, key })),
        (false, Some(key)) => {
            Err(BadInput(format!("--key {} contains no private key; is it the certificate?", key.display())))
        }
        (false, None) => Err(BadInput(format!(
            "--cert {} contains no private key; name the key's file with --key",
            file.display()
        ))),
    }
}

fn certificates(flag: &str, file: &Path) -> Result<String, BadInput> {
    let text = pem(flag, file)?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        return Ok(text);
    }
    Err(BadInput(format!("{flag} {} contains no certificate; is it the key?", file.display())))
}

fn pem(flag: &str, file: &Path) -> Result<String, BadInput> {
    let refuse = || {
        BadInput(format!(
            "{flag} {} is not PEM; if it is DER, convert it: `openssl x509 -inform der -in {} -out FILE.pem`",
            file.display(),
            file.display()
        ))
    };
    let bytes = super::read(flag, file, bounded::PEM)?;
    let text = String::from_utf8(bytes).map_err(|_| refuse())?;
    // A byte order mark at the beginning would hide the first section.
    let text = text.trim_start_matches('\u{feff}').to_owned();
    if text.contains("-----BEGIN ") { Ok(text) } else { Err(refuse()) }
}

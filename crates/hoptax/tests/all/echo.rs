//! An upstream that echoes requests, with or without TLS. Also a client that sends requests with everything
//! that a gateway's features require.

use crate::support::client::{Answer, exchange_all};
use crate::support::server::{Response, Server};
use hoptax_format::spec::TlsSpec;
use hoptax_lab::features::{Change, Credentials, RESPONSE_REMOVED};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Starts an upstream. Its answer is `instance NAME`, the head of the request, and enough text to be worth
/// compressing.
pub(crate) fn echo(name: &'static str, tls: Option<Arc<rustls::ServerConfig>>) -> Server {
    Server::over(tls, move |request| {
        let body = format!("instance {name}\n{}{}\n", request.head, "x".repeat(600));
        Response::text(body).with(RESPONSE_REMOVED, "of the upstream")
    })
}

/// TLS configuration of an upstream that uses the server certificate of `made`.
pub(crate) fn server_config(made: &Credentials) -> Arc<rustls::ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(made.server.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(made.server.key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth();
    Arc::new(builder.with_single_cert(chain, key).expect("they fit"))
}

/// A request. The fields are its differences from the request that the features require.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// Path without the prefix that features add.
    pub(crate) path: &'a str,
    /// Additional headers. They replace headers that features require.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// A header to omit although a feature requires it.
    pub(crate) without: Option<&'a str>,
    pub(crate) consumer: usize,
    pub(crate) from: Ipv4Addr,
}

pub(crate) const GET: Request<'static> = Request {
    method: "GET",
    path: "/some/path?query=1",
    headers: &[],
    without: None,
    consumer: 0,
    from: Ipv4Addr::LOCALHOST,
};

/// Sends `request`, with `change` applied, on its own connection. Uses TLS if `tls` is given.
pub(crate) fn ask(
    address: SocketAddr,
    change: &Change,
    tls: Option<&TlsSpec>,
    request: &Request<'_>,
) -> std::io::Result<Answer> {
    let mut head = format!(
        "{} {}{} HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n",
        request.method, change.prefix, request.path
    );
    let typed = |name: &str| request.headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name));
    for (name, value) in &change.headers {
        if request.without != Some(name.as_str()) && !typed(name) {
            head += &format!("{name}: {}\r\n", expanded(value, change, request.consumer));
        }
    }
    for (name, value) in request.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let answers =
        exchange_all(Some(request.from), address, (tls, change.proxy_protocol), &(head + "\r\n"), 1)?;
    Ok(answers.into_iter().next().expect("one answer"))
}

/// If `value` is a template for several consumers, returns the line of the consumer with the index
/// `consumer`.
fn expanded(value: &str, change: &Change, consumer: usize) -> String {
    let file = value.strip_prefix("{{line ").and_then(|rest| rest.strip_suffix("}}"));
    let line = |file: &str| change.files[file].lines().nth(consumer).expect("as many consumers").to_owned();
    file.map_or_else(|| value.to_owned(), line)
}

//! Credentials for services that already run, read from the plan's files before anything starts.

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_format::spec::{ClientCertificate, ProxyProtocol, TlsSpec, TlsVersion, Verify};
use hoptax_plan::{Access, TlsAccess};
use hoptax_record::bounded;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Maximum length of a token in bytes. A longer file does not contain a token.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Cipher suites in the order in which gateways prefer them. With this order, direct and the gateways choose
/// the same cipher suite for their connections to the upstream.
const CIPHER_SUITES: &str = "TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256 \
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 \
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 \
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";

/// Credentials for a service.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// TLS settings, with the client certificate; absent for plain connections.
    pub tls: Option<TlsSpec>,
    /// A bearer token, if the service requires one.
    pub token: Option<String>,
    /// Version of the PROXY protocol's header at the start of each connection.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Value of the header `proxy-authorization`, if a forward proxy requires it.
    pub proxy_authorization: Option<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Login {
    /// Reads the credentials from the files that `access` names.
    ///
    /// # Errors
    /// If a file cannot be read, a certificate or key is invalid, or the token is not one line of printable
    /// text.
    pub fn read(access: &Access) -> anyhow::Result<Self> {
        let login = Self {
            tls: access.tls.as_ref().map(tls).transpose()?,
            token: access.token_file.as_deref().map(token).transpose()?,
            proxy_protocol: access.proxy_protocol,
            proxy_authorization: access.proxy_credentials.as_deref().map(proxy_authorization).transpose()?,
        };
        if let Some(spec) = &login.tls {
            hoptax_load::tls::client_config(spec)
                .map_err(|error| anyhow::anyhow!("{error:#}"))
                .with_context(|| {
                    let files = access.tls.as_ref().map_or_else(String::new, file_names);
                    format!("cannot use the certificates or keys of {files}")
                })?;
        }
        Ok(login)
    }

    /// Texts that must not be written to disk.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let key =
            self.tls.as_ref().and_then(|tls| tls.client_certificate.as_ref()).map(|one| one.key.lines());
        let lines = key.into_iter().flatten().filter(|line| !line.starts_with("-----"));
        let proxy = self.proxy_authorization.as_deref().and_then(|value| value.strip_prefix(BASIC));
        lines.chain(self.token.as_deref()).chain(proxy)
    }
}

const BASIC: &str = "Basic ";

/// The header's value for `user:password` (RFC 7617).
pub fn basic(user_and_password: &str) -> String {
    format!("{BASIC}{}", STANDARD.encode(user_and_password))
}

/// The header's value for the credentials in a file.
fn proxy_authorization(path: &Path) -> anyhow::Result<String> {
    let credentials = text(path, bounded::TOKEN)?.trim_end_matches(['\r', '\n']).to_owned();
    let is_valid = credentials.contains(':') && !credentials.contains(char::is_control);
    anyhow::ensure!(is_valid, "{} must contain one line, USER:PASSWORD", path.display());
    Ok(basic(&credentials))
}

fn tls(access: &TlsAccess) -> anyhow::Result<TlsSpec> {
    let verify = match &access.authority {
        _ if access.insecure => Verify::Nothing,
        None => Verify::System,
        Some(file) => Verify::Authorities(text(file, bounded::PEM)?),
    };
    let client_certificate = access.client_certificate.as_ref().map(|files| {
        anyhow::Ok(ClientCertificate {
            chain: text(&files.certificate, bounded::PEM)?,
            key: text(&files.key, bounded::PEM)?,
        })
    });
    Ok(TlsSpec {
        server_name: access.server_name.clone(),
        verify,
        client_certificate: client_certificate.transpose()?,
        resumption: true,
        alpn: Vec::new(),
        versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
        cipher_suites: CIPHER_SUITES.split(' ').map(str::to_owned).collect(),
    })
}

fn file_names(access: &TlsAccess) -> String {
    let own = access.client_certificate.iter().flat_map(|files| [&files.certificate, &files.key]);
    let names: Vec<String> =
        access.authority.iter().chain(own).map(|path| path.display().to_string()).collect();
    names.join(", ")
}

fn text(path: &Path, most: u64) -> anyhow::Result<String> {
    bounded::read_value(path, most).with_context(|| format!("cannot read {}", path.display()))
}

fn token(path: &Path) -> anyhow::Result<String> {
    let token = text(path, bounded::TOKEN)?.trim().to_owned();
    anyhow::ensure!(!token.is_empty(), "{} is empty; it must contain a bearer token", path.display());
    // Only characters that need no quoting in a header or in JSON are allowed (RFC 6750, section 2.1).
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    anyhow::ensure!(
        token.len() <= LONGEST_TOKEN && token.bytes().all(fits),
        "{} must contain one line with a bearer token: letters, digits and - . _ ~ + / =",
        path.display()
    );
    Ok(token)
}

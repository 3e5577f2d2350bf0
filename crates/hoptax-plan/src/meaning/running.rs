//! Upstreams and gateways that already run: URL, TLS and credentials.

use super::reader::Reader;
use super::{body, kubernetes};
use crate::error::Place;
use crate::raw::{Placed, ProxyText, RawCertificate, RawLedger, RawPrometheus, RawUpstream, RawWatch};
use crate::selector::Selector;
use crate::units::{self, Origin};
use crate::{Access, CertificateFiles, LedgerSource, Prometheus, Resolve, Running, TlsAccess, WatchedPods};
use hoptax_format::spec::ProxyProtocol;
use hoptax_record::bounded;

pub(super) struct Typed<'a> {
    pub(super) server_name: Option<&'a Placed<String>>,
    pub(super) authority: Option<&'a Placed<String>>,
    pub(super) insecure: Option<&'a Placed<bool>>,
    pub(super) client_certificate: Option<&'a Placed<RawCertificate>>,
}

impl Typed<'_> {
    /// Place and name of the first key that is set.
    pub(super) fn first(&self) -> Option<(Place, &'static str)> {
        let certificate = self.client_certificate.map(|typed| (typed.place, "client_certificate"));
        let name = self.server_name.map(|typed| (typed.place, "server_name"));
        let authority = self.authority.map(|typed| (typed.place, "authority"));
        let insecure = self.insecure.map(|typed| (typed.place, "insecure"));
        name.or(authority).or(insecure).or(certificate)
    }
}

pub(super) fn upstream(reader: &mut Reader<'_>, url: &Placed<String>, typed: &RawUpstream) -> Running {
    let keys = Typed {
        server_name: typed.server_name.as_ref(),
        authority: typed.authority.as_ref(),
        insecure: typed.insecure.as_ref(),
        client_certificate: typed.client_certificate.as_ref(),
    };
    let (origin, tls) = match units::unix_socket(&url.value) {
        None => access(reader, url, &keys),
        Some(Ok(socket)) => {
            let origin = Origin { tls: socket.tls, host: units::LOCALHOST.to_owned(), port: 80 };
            (socket.to_string(), tls_of(reader, &origin, &socket, &keys))
        }
        Some(Err(error)) => {
            reader.fault(url.place, error.message, error.help);
            (String::new(), None)
        }
    };
    let token_file =
        typed.token_file.as_ref().map(|file| body::existing(reader, file.place, &file.value, bounded::TOKEN));
    let resolve = typed.resolve.as_ref().map_or_else(Resolve::default, |typed| typed.value);
    let pid = pid(reader, typed.pid.as_ref());
    let ledger = typed.ledger.as_ref().map(|typed| ledger(reader, &typed.value));
    let proxy_protocol = typed.proxy_protocol.as_ref().and_then(|typed| proxy_protocol(reader, typed));
    let access = Access { tls, token_file, resolve, proxy_protocol, ..Access::default() };
    Running { url: origin, access, pid, ledger }
}

/// Reads a version of the PROXY protocol.
pub(super) fn proxy_protocol(reader: &mut Reader<'_>, typed: &Placed<ProxyText>) -> Option<ProxyProtocol> {
    match typed.value.0.as_str() {
        "v1" => Some(ProxyProtocol::V1),
        "v2" => Some(ProxyProtocol::V2),
        other => {
            let message = format!("`{other}` is not a version of the PROXY protocol");
            reader.fault(typed.place, message, "write v1 or v2");
            None
        }
    }
}

/// Checks a URL. Returns its normalized form, and the TLS settings for https.
pub(super) fn access(
    reader: &mut Reader<'_>,
    url: &Placed<String>,
    typed: &Typed<'_>,
) -> (String, Option<TlsAccess>) {
    let Some(origin) = reader.unit(url, units::origin) else { return (String::new(), None) };
    (origin.to_string(), tls_of(reader, &origin, &origin, typed))
}

/// The TLS settings of a service. `shown` is its URL.
fn tls_of(
    reader: &mut Reader<'_>,
    origin: &Origin,
    shown: &dyn std::fmt::Display,
    typed: &Typed<'_>,
) -> Option<TlsAccess> {
    if origin.tls {
        return Some(tls(reader, origin, typed));
    }
    if let Some((place, key)) = typed.first() {
        let message = format!("`{key}` needs TLS, but {shown} is not https");
        reader.fault(place, message, format!("remove `{key}`, or write https://"));
    }
    None
}

fn tls(reader: &mut Reader<'_>, origin: &Origin, typed: &Typed<'_>) -> TlsAccess {
    let server_name = match typed.server_name {
        Some(name) => {
            if rustls_pki_types::ServerName::try_from(name.value.as_str()).is_err() {
                reader.fault(
                    name.place,
                    format!("`{}` is neither a host name nor an IP address", name.value.escape_debug()),
                    "write a name from the server's certificate",
                );
            }
            name.value.clone()
        }
        None => origin.host.strip_suffix('.').unwrap_or(&origin.host).to_owned(),
    };
    let insecure = typed.insecure.is_some_and(|insecure| insecure.value);
    if let (true, Some(authority)) = (insecure, typed.authority) {
        let message = "`insecure` accepts any certificate, so `authority` has no effect";
        reader.fault(authority.place, message, "remove one of the two");
    }
    let authority = typed.authority.map(|file| pem(reader, file, "CERTIFICATE"));
    let client_certificate = typed.client_certificate.map(|typed| CertificateFiles {
        certificate: pem(reader, &typed.value.certificate, "CERTIFICATE"),
        key: pem(reader, &typed.value.key, "PRIVATE KEY"),
    });
    TlsAccess { server_name, authority, client_certificate, insecure }
}

/// Returns the path of a PEM file. Checks that the file exists and contains a section of the expected kind.
fn pem(reader: &mut Reader<'_>, file: &Placed<String>, holds: &str) -> std::path::PathBuf {
    let path = body::existing(reader, file.place, &file.value, bounded::PEM);
    // If the file is missing, this error has already been reported.
    let Ok(text) = bounded::read(&path, bounded::PEM) else { return path };
    let begins = |line: &str| {
        let line = line.trim_start_matches('\u{feff}');
        line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{holds}-----"))
    };
    if !String::from_utf8_lossy(&text).lines().any(begins) {
        reader.fault(
            file.place,
            format!("{} contains no {}", path.display(), holds.to_lowercase()),
            format!("use a PEM file with a line that ends in `{holds}-----`"),
        );
    }
    path
}

/// Reads where CPU and memory of a gateway come from.
pub(super) fn watch(
    reader: &mut Reader<'_>,
    typed: &Placed<RawWatch>,
) -> (Option<Prometheus>, Option<WatchedPods>) {
    let RawWatch { prometheus: of_server, kubernetes: of_pods } = &typed.value;
    match (of_server, of_pods) {
        (None, None) => {
            let help = "add kubernetes: { selector: app=edge } or prometheus: { url: …, cpu: …, memory: … }";
            reader.fault(typed.place, "`watch` does not say where CPU and memory come from", help);
        }
        (Some(_), Some(pods)) => {
            let message = "`prometheus` and `kubernetes` exclude each other";
            reader.fault(pods.place, message, "remove one of the two");
        }
        _ => {}
    }
    let prometheus = of_server.as_ref().map(|typed| prometheus(reader, &typed.value));
    (prometheus, of_pods.as_ref().map(|typed| kubernetes::watched(reader, &typed.value)))
}

/// Checks the server's URL, and that the selectors contain no functions or ranges. The server itself checks
/// the rest of the selectors.
fn prometheus(reader: &mut Reader<'_>, typed: &RawPrometheus) -> Prometheus {
    let origin = reader.unit(&typed.url, units::origin);
    if origin.as_ref().is_some_and(|origin| origin.tls) {
        let help = "give a plain port, for example the one that `kubectl port-forward` opens";
        reader.fault(typed.url.place, "hoptax asks Prometheus over http only", help);
    }
    for selector in [&typed.cpu, &typed.memory] {
        let text = selector.value.trim();
        if text.is_empty() || text.ends_with([']', ')']) {
            let message = format!("`{text}` is not a selector of series");
            let help = "write a metric with labels, such as process_cpu_seconds_total{job=\"edge\"}, \
                        without functions and ranges: hoptax reads the single samples";
            reader.fault(selector.place, message, help);
        }
    }
    let [cpu, memory] = [&typed.cpu, &typed.memory].map(|selector| selector.value.trim().to_owned());
    Prometheus { url: origin.map(|origin| origin.to_string()).unwrap_or_default(), cpu, memory }
}

pub(super) fn pid(reader: &mut Reader<'_>, typed: Option<&Placed<u32>>) -> Option<u32> {
    if let Some(pid) = typed.filter(|pid| pid.value == 0) {
        reader.fault(pid.place, "`pid` is 0, which is not a process", "remove `pid` if you do not know it");
    }
    typed.map(|pid| pid.value)
}

fn ledger(reader: &mut Reader<'_>, typed: &RawLedger) -> LedgerSource {
    let kind = typed.kind.unwrap_or_default();
    for select in &typed.select.0 {
        if let Err(help) = Selector::parse(kind, &select.value.0) {
            reader.fault(select.place, format!("`{}` is not a valid selector", select.value.0), help);
        }
    }
    let url = typed.url.as_ref().and_then(|url| {
        let origin = reader.unit(url, units::origin)?;
        if origin.tls {
            let help = "write http://, or remove `url` to read the ledger from the upstream's URL";
            reader.fault(url.place, "the ledger's `url` cannot be https", help);
        }
        Some(origin.to_string())
    });
    let path =
        typed.path.as_ref().map_or_else(|| LedgerSource::USUAL_PATH.to_owned(), |path| path.value.clone());
    if let Some(typed) = typed.path.as_ref().filter(|path| !is_plain_path(&path.value)) {
        reader.fault(
            typed.place,
            format!("`{}` is not a path", typed.value),
            "start it with `/` and use no spaces",
        );
    }
    LedgerSource {
        url,
        path,
        kind,
        select: typed.select.0.iter().map(|select| select.value.0.clone()).collect(),
    }
}

fn is_plain_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

//! Checks that a service which hoptax does not start answers, with a request as the plan sends them.

use crate::features::Change;
use hoptax_format::Address;
use hoptax_format::messages::Carrier;
use hoptax_format::spec::{HttpVersion, TargetSpec};
use hoptax_load::target;
use hoptax_plan::{Plan, Target, units};
use hoptax_record::bounded;
use hoptax_servers::request_error::{Awaited, RequestError};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seed for random values in templates.
const SEED: u64 = 1;

/// Options of `hoptax load` that the advice in TLS errors names, and the keys of a plan with the same
/// meaning.
const KEYS: [(&str, &str); 6] = [
    ("`--ca FILE`", "`authority: FILE`"),
    ("`--insecure`", "`insecure: true`"),
    ("`--server-name NAME`", "`server_name: NAME`"),
    ("`--cert FILE --key FILE`", "`client_certificate`"),
    ("`--cert FILE`", "`client_certificate`"),
    (" (`--tls`)", ""),
];

/// The first request of a plan.
#[derive(Debug)]
pub(super) struct Probe {
    target: TargetSpec,
    files: BTreeMap<String, String>,
    version: HttpVersion,
    timeout: Duration,
}

impl Probe {
    /// The request for the plan's first target. If the files of the target are on another host, a GET of its
    /// path.
    pub(super) fn new(plan: &Plan) -> Self {
        let timeout = plan.timeout.total;
        let files = plan
            .files
            .iter()
            .filter_map(|(name, path)| Some((name.clone(), bounded::read_text(path, bounded::LINES).ok()?)));
        // The service may accept nothing else than the load's version.
        let version = if plan.is_http2_only() { HttpVersion::Http2 } else { HttpVersion::Http11 };
        let probe = Self { target: spec(&plan.targets[0]), files: files.collect(), version, timeout };
        // Over HTTP/2, the handshake of a WebSocket is another request.
        let is_possible = version != HttpVersion::Http2 || !is_socket(&plan.targets[0]);
        let request = target::first_request(&probe.target, &probe.files, SEED, HttpVersion::Http11);
        if is_possible && request.is_ok() {
            return probe;
        }
        let path = &plan.targets[0].path;
        let path = if path.contains("{{") { "/" } else { path };
        Self { target: TargetSpec::only("GET", path, Vec::new(), Vec::new()), ..probe }
    }

    /// The version of HTTP in which services are asked.
    pub(super) fn version(&self) -> HttpVersion {
        self.version
    }

    /// Sends the request to the service at `url`. Any status is right.
    ///
    /// # Errors
    /// If there is no answer. The text says why, and what to do.
    pub(super) fn ask(&self, url: &str, address: &Address, change: &Change) -> Result<(), String> {
        let mut targets = vec![self.target.clone()];
        let mut files = self.files.clone();
        change.apply_to(&mut targets, &mut files);
        if !targets[0].headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            let own = || units::host_header_of(change.tls.is_some(), address);
            let host = change.host.clone().unwrap_or_else(own);
            targets[0].headers.insert(0, ("host".to_owned(), host));
        }
        let request = target::first_request(&targets[0], &files, SEED, HttpVersion::Http11)
            .map_err(|error| format!("cannot build a request for {url}: {error}"))?;
        let client = change.client(address.clone(), self.timeout).speaking(self.version);
        let outcome = client.status(&request);
        outcome.map(drop).map_err(|error| match error.downcast_ref::<RequestError>() {
            Some(error) => in_words(url, address, error),
            None => format!("cannot ask {url}: {error:#}"),
        })
    }
}

fn is_socket(target: &Target) -> bool {
    target.stream.is_some_and(|stream| stream.carrier == Carrier::WebSocket)
}

fn spec(target: &Target) -> TargetSpec {
    // The body of a WebSocket is a message, which comes after the handshake.
    let body = target.body.as_ref().filter(|_| !is_socket(target));
    let body = body.and_then(|body| hoptax_servers::upstream::bytes(body).ok());
    // The probe sends its request as a whole: one message of a stream.
    let single = Target { stream: None, ..target.clone() };
    let body = body.map(|content| single.body_of(content)).unwrap_or_default();
    let mut spec = TargetSpec::only(&target.method, &target.path, target.headers.clone(), body);
    spec.grpc = target.grpc;
    spec.body_is_template = target.body_is_template;
    spec.chunked = target.chunked;
    spec
}

fn in_words(url: &str, address: &Address, error: &RequestError) -> String {
    match error {
        RequestError::Connect(_) | RequestError::Timeout { awaited: Awaited::Connection, .. } => {
            format!("nothing answers at {url} ({address}): {error}. Start it before the run")
        }
        RequestError::Timeout { .. } => format!(
            "{url} ({address}) accepts connections but does not answer: {error}. Check what it waits for, \
             such as its own upstream, or set a longer `timeout` in the plan"
        ),
        RequestError::Ended { begun: false, .. } if url.starts_with("https:") => format!(
            "{url} ({address}) accepts connections but does not answer: {error}. It may not speak TLS \
             (write http://), serve another host (set the header `host` of the target), or expect HTTP/2 or \
             the PROXY protocol (proxy_protocol: v2)"
        ),
        RequestError::Ended { begun: false, .. } => format!(
            "{url} ({address}) accepts connections but does not answer: {error}. It may serve another host \
             (set the header `host` of the target), or expect TLS (write https://), HTTP/2 or the PROXY \
             protocol (proxy_protocol: v2)"
        ),
        RequestError::Malformed(_) => format!(
            "{url} ({address}) does not answer in HTTP/1: {error}. Check that this is its port for HTTP/1.1"
        ),
        RequestError::Http2(text) => format!(
            "{url} ({address}) does not answer over HTTP/2, which the load uses: {text}. Check that it \
             speaks HTTP/2 (without TLS by prior knowledge), or write http: 1.1. It may also expect TLS \
             (write https://) or the PROXY protocol (proxy_protocol: v2)"
        ),
        RequestError::Tunnel(text) => format!("cannot use the proxy {url} ({address}): {text}"),
        RequestError::Tls(text) => {
            let text = KEYS.iter().fold(text.clone(), |text, (option, key)| text.replace(option, key));
            format!("cannot use {url} ({address}): {text}")
        }
        _ => format!("{url} ({address}) does not answer: {error}"),
    }
}

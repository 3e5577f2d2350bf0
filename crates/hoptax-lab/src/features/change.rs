//! The differences between requests to a gateway and requests to direct.

use super::credentials::{Consumer, Credentials};
use super::names::{
    CIPHER_SUITE, CORS_ORIGIN, KEY_HEADER, REQUEST_REMOVED, REWRITTEN_PREFIX, SERVER_NAME, place_of,
    route_prefix,
};
use super::{json_calls, variables};
use crate::login::Login;
use crate::pack::manifest::Refusal;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_format::messages::Carrier;
use hoptax_format::spec::{
    Check, ClientCertificate, HttpVersion, LoadSpec, ProxyProtocol, TargetSpec, TlsSpec, TlsVersion, Tunnel,
    Verify,
};
use hoptax_format::{Address, grpc};
use hoptax_plan::{Feature, JwtAlgorithm, ProxyForm, units};
use hoptax_record::Failure;
use hoptax_record::plan::LlmRequest;
use hoptax_servers::http_client::{HttpClient, ProxyHeader};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Header with a token.
const AUTHORIZATION: &str = "authorization";

/// Start of the name of a file that holds the credentials of several consumers, one per line.
const CREDENTIALS_FILE: &str = "hoptax-credentials";

/// The differences between requests to one gateway and requests to direct.
///
/// It can be sent to another host that has the same version of hoptax. This is not a format for files: it
/// contains secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Headers to add.
    pub headers: Vec<(String, String)>,
    /// Headers that replace those of the same name, also if the plan sets them.
    pub replacements: Vec<(String, String)>,
    /// Prefix to add to every path.
    pub prefix: String,
    /// Settings of TLS, if requests use TLS.
    pub tls: Option<TlsSpec>,
    /// Version of the PROXY protocol's header at the start of each connection, if there is one.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Header `host` of requests, unless the plan sets this header. Absent if it is the address that requests
    /// are sent to.
    pub host: Option<String>,
    /// Tunnel that each connection opens first, if the gateway is a forward proxy that clients use with
    /// CONNECT.
    pub tunnel: Option<Tunnel>,
    /// The text of each file, by file name. The templates of the headers read lines from these files.
    pub files: BTreeMap<String, String>,
    /// Messages of calls that are sent as JSON, by name of the target.
    pub json_messages: BTreeMap<String, String>,
    /// Whether the gateway must answer some requests with 429.
    pub expects_429: bool,
    /// Whether a gateway that already runs has a rate limit. It rejects requests with 429 or 503.
    pub limits_rate: bool,
    /// The features that require this change. Each feature is verified before any trial.
    #[serde(with = "super::words")]
    pub features: Vec<Feature>,
    /// How the gateway refuses requests, by the name of the feature. Without an entry, it must answer 401.
    pub refusals: BTreeMap<String, Refusal>,
    /// Names of response headers that the gateway changes, in lower case, with the reasons of its pack.
    pub ignored_headers: BTreeMap<String, String>,
    /// The gateway's access log, if it writes one.
    pub access_log: Option<PathBuf>,
    /// Source of the headers' values; absent if no feature is enabled. Never sent together with the change:
    /// the host that made the credentials sends them separately, and only to hosts that need them.
    #[serde(skip)]
    pub credentials: Option<Arc<Credentials>>,
}

impl Change {
    /// The change that `features` require.
    pub fn new(features: &[Feature], made: &Credentials) -> Self {
        let mut change = Self { features: features.to_vec(), ..Self::default() };
        if !features.is_empty() {
            change.credentials = Some(Arc::new(made.clone()));
        }
        let consumers = &made.consumers[..variables::consumers(features)];
        for feature in features {
            match feature {
                Feature::KeyAuth | Feature::BasicAuth | Feature::Jwt(_) | Feature::TokenReview { .. } => {
                    let shown = consumers.iter().filter_map(|one| credential(*feature, one));
                    let (names, values): (Vec<_>, Vec<_>) = shown.unzip();
                    change.credential(names[0], values);
                }
                Feature::Tls => {
                    change.tls.get_or_insert_with(|| tls(made, None));
                }
                Feature::Mtls => {
                    let client = ClientCertificate {
                        chain: made.client.certificate.clone(),
                        key: made.client.key.clone(),
                    };
                    change.tls = Some(tls(made, Some(client)));
                }
                Feature::ProxyProtocol(version) => change.proxy_protocol = Some(*version),
                Feature::HeaderRewrite => change.header(REQUEST_REMOVED.0, REQUEST_REMOVED.1),
                Feature::PathRewrite => change.prefix.push_str(REWRITTEN_PREFIX),
                Feature::Cors => change.header("origin", CORS_ORIGIN),
                Feature::Gzip => change.header("accept-encoding", "gzip"),
                Feature::Routes { count, ask } => {
                    // A gateway removes the rewritten prefix before it removes the route's prefix, or removes
                    // both together. So the path begins with the rewritten prefix.
                    change.prefix.push_str(&route_prefix(place_of(*ask, *count)));
                }
                Feature::RateLimit { .. } => change.expects_429 |= feature.is_reachable_limit(),
                Feature::AccessLog
                | Feature::UpstreamTls
                | Feature::RequestId
                | Feature::IpAllow
                | Feature::Consumers { .. }
                | Feature::RoundRobin { .. }
                | Feature::GrpcWeb
                | Feature::GrpcJson => {}
            }
        }
        change
    }

    /// Sends requests to a forward proxy, for the service at `host` and `port`. `login` has the credentials
    /// for the proxy, and `upstream` those for the service.
    pub fn ask_proxy(&mut self, form: ProxyForm, login: &Login, (host, port): (&str, u16), upstream: &Login) {
        let tls = upstream.tls.is_some();
        let authority = units::host_header(tls, host, port);
        let authorization = login.proxy_authorization.clone();
        match form {
            ProxyForm::Forward => {
                self.prefix = format!("http://{authority}");
                let credentials = authorization.map(|value| ("proxy-authorization".to_owned(), value));
                self.headers.extend(credentials);
            }
            ProxyForm::Connect => {
                self.tls.clone_from(&upstream.tls);
                let (authority, tls) = (units::authority(host, port), login.tls.clone());
                self.tunnel = Some(Tunnel { authority, authorization, tls });
            }
        }
        self.host = Some(authority);
    }

    /// The change for clients that authenticate with `login`. Requests with a token send no client
    /// certificate.
    pub fn for_login(login: &Login, made: &Credentials) -> Self {
        let mut change = Self::default();
        change.add_token(login);
        change.tls.clone_from(&login.tls);
        change.proxy_protocol = login.proxy_protocol;
        if let Some(tls) = change.tls.as_mut().filter(|_| login.token.is_some()) {
            tls.client_certificate = None;
        }
        if login.tls.is_some() || login.token.is_some() || !made.given.is_empty() {
            change.credentials = Some(Arc::new(made.clone()));
        }
        change
    }

    /// Adds the token, unless the requests already carry another token.
    pub fn add_token(&mut self, login: &Login) {
        if let Some(token) = login.token.as_ref().filter(|_| !self.has_token()) {
            self.headers.push((AUTHORIZATION.to_owned(), format!("Bearer {token}")));
        }
    }

    fn has_token(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION))
    }

    /// Whether a rate limit can reject a request with this status. Any gateway that already runs may have a
    /// limit, and the usual status is 429.
    pub fn may_reject_with(&self, status: u16) -> bool {
        status == 429 || self.limits_rate && status == 503
    }

    /// `text` without secrets.
    pub fn redact(&self, text: &str) -> String {
        self.credentials.as_ref().map_or_else(|| text.to_owned(), |made| made.redact(text))
    }

    /// `failure` without secrets, and with its control characters escaped, because it may quote a gateway's
    /// answer.
    pub fn shown(&self, failure: Failure) -> Failure {
        let (message, detail) = (self.redact(&failure.message), self.redact(&failure.detail));
        Failure { message, detail, ..failure }.printable()
    }

    /// Adds a header whose value is chosen at random from `values` for each request.
    fn credential(&mut self, name: &str, mut values: Vec<String>) {
        if let [only] = values.as_mut_slice() {
            self.header(name, only);
            return;
        }
        // Each header needs its own file, because several features may add a header with values from a file.
        let file = format!("{CREDENTIALS_FILE}-{name}");
        self.header(name, &format!("{{{{line {file}}}}}"));
        self.files.insert(file, values.join("\n") + "\n");
    }

    fn header(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Applies the change to the generator's settings.
    pub fn apply(&self, spec: &mut LoadSpec) {
        if let Some(host) = &self.host {
            replace_host(spec, host);
        }
        self.apply_to(&mut spec.targets, &mut spec.files);
        spec.tunnel.clone_from(&self.tunnel);
        if let Some(tls) = &self.tls {
            let is_http2 = spec.http == HttpVersion::Http2;
            let alpn = if is_http2 { vec!["h2".to_owned()] } else { tls.alpn.clone() };
            spec.tls = Some(TlsSpec { alpn, ..tls.clone() });
            leave_out_port_443(spec);
        }
        spec.proxy_protocol = self.proxy_protocol;
    }

    /// A client that connects as this change requires.
    pub fn client(&self, address: impl Into<Address>, timeout: Duration) -> HttpClient<'_> {
        let proxy_header = self.proxy_protocol.map(ProxyHeader::of_client);
        let (tls, tunnel) = (self.tls.as_ref(), self.tunnel.as_ref());
        HttpClient { tls, tunnel, proxy_header, ..HttpClient::plain(address, timeout) }
    }

    /// Applies the change to `targets`. Adds to `files` the files that the targets' templates use. TLS and
    /// the PROXY protocol belong to connections: see [`Change::client`].
    pub fn apply_to(&self, targets: &mut [TargetSpec], files: &mut BTreeMap<String, String>) {
        for target in targets {
            if target.grpc && self.features.contains(&Feature::GrpcWeb) {
                target.grpc_web = true;
                grpc::web_headers(&mut target.headers);
            }
            if let Some(message) = self.json_messages.get(&target.name) {
                json_calls::send_as_json(target, message);
            }
            target.path.insert_str(0, &self.prefix);
            // The key that requests to language models have if the plan names none.
            if self.has_token() {
                target.headers.retain(|(name, value)| !LlmRequest::is_usual_key(name, value));
            }
            for (name, value) in &self.headers {
                // If the plan sets this header itself, the plan's value is used.
                if !target.headers.iter().any(|(typed, _)| typed.eq_ignore_ascii_case(name)) {
                    target.headers.push((name.clone(), value.clone()));
                }
            }
            for (name, value) in &self.replacements {
                target.headers.retain(|(typed, _)| !typed.eq_ignore_ascii_case(name));
                target.headers.push((name.clone(), value.clone()));
            }
            // A WebSocket is accepted with another status.
            let is_socket = target.stream.is_some_and(|stream| stream.carrier == Carrier::WebSocket);
            let says_status =
                is_socket || target.checks.iter().any(|check| matches!(check, Check::Status(_)));
            if self.expects_429 && !says_status {
                target.checks.push(Check::Status(vec![(200, 399), (429, 429)]));
            }
            if self.limits_rate && !says_status {
                target.checks.push(Check::Status(vec![(200, 399), (429, 429), (503, 503)]));
            }
        }
        files.extend(self.files.iter().map(|(name, text)| (name.clone(), text.clone())));
    }
}

/// The header that authenticates `consumer` for `feature`, if the feature needs one.
pub(crate) fn credential(feature: Feature, consumer: &Consumer) -> Option<(&'static str, String)> {
    match feature {
        Feature::KeyAuth => Some((KEY_HEADER, consumer.key.clone())),
        Feature::BasicAuth => {
            let pair = STANDARD.encode(format!("{}:{}", consumer.name, consumer.password));
            Some(("authorization", format!("Basic {pair}")))
        }
        Feature::Jwt(JwtAlgorithm::Hs256) | Feature::TokenReview { .. } => {
            Some(("authorization", format!("Bearer {}", consumer.token_hs256)))
        }
        Feature::Jwt(JwtAlgorithm::Rs256) => {
            Some(("authorization", format!("Bearer {}", consumer.token_rs256)))
        }
        _ => None,
    }
}

/// Leaves the default port of https out of the `host` headers that hoptax added.
fn leave_out_port_443(spec: &mut LoadSpec) {
    if let Some(address) = spec.addresses.first() {
        let host = units::host_header_of(true, address);
        replace_host(spec, &host);
    }
}

/// Replaces the `host` headers that hoptax added. Those that the plan sets stay as they are.
fn replace_host(spec: &mut LoadSpec, host: &str) {
    let Some(address) = spec.addresses.first() else { return };
    let added = units::host_header_of(false, address);
    for (name, value) in spec.targets.iter_mut().flat_map(|target| &mut target.headers) {
        if name.eq_ignore_ascii_case("host") && *value == added {
            host.clone_into(value);
        }
    }
}

fn tls(made: &Credentials, client_certificate: Option<ClientCertificate>) -> TlsSpec {
    TlsSpec {
        server_name: SERVER_NAME.to_owned(),
        verify: Verify::Authorities(made.authority.clone()),
        client_certificate,
        resumption: true,
        alpn: Vec::new(),
        versions: vec![TlsVersion::Tls13],
        cipher_suites: vec![CIPHER_SUITE.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::llm::Api;
    use hoptax_plan::{Access, TlsAccess};

    fn access_with(token: &str) -> (tempfile::TempDir, Access) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        std::fs::write(&file, token).expect("written");
        (directory, Access { token_file: Some(file), ..Access::default() })
    }

    #[test]
    fn replacements_win_over_headers_of_the_plan() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = vec![pair("Authorization", "Bearer typed"), pair("accept", "*/*")];
        let mut targets = [TargetSpec::only("POST", "/", headers, Vec::new())];
        let replacements = vec![pair("authorization", "Bearer key"), pair("x-provider", "openai")];
        let change = Change { replacements: replacements.clone(), ..Change::default() };
        change.apply_to(&mut targets, &mut BTreeMap::new());
        assert_eq!(targets[0].headers[0], pair("accept", "*/*"));
        assert_eq!(targets[0].headers[1..], replacements);
    }

    #[test]
    fn a_token_replaces_the_usual_key_of_a_language_model() {
        let (_directory, access) = access_with("abc");
        let login = Login::read(&access).expect("right");
        let change = Change::for_login(&login, &Credentials::placeholders(1));
        let sent = |api: Api, key: &str| {
            let headers = LlmRequest::usual(api).headers(key);
            let mut targets = [TargetSpec::only("POST", "/", headers, Vec::new())];
            change.apply_to(&mut targets, &mut BTreeMap::new());
            let keys = |(name, _): &(String, String)| name == AUTHORIZATION || name == "x-api-key";
            let [target] = targets;
            target.headers.into_iter().filter(keys).map(|(_, value)| value).collect::<Vec<_>>()
        };
        for api in [Api::OpenAi, Api::Anthropic] {
            assert_eq!(sent(api, LlmRequest::USUAL_KEY), ["Bearer abc"], "{api:?}");
        }
        assert_eq!(sent(Api::OpenAi, "typed"), ["Bearer typed"]);
    }

    #[test]
    fn a_token_is_one_line_and_sent_once() {
        let (_directory, access) = access_with("abc.def-123==\n");
        let login = Login::read(&access).expect("right");
        let mut change = Change::for_login(&login, &Credentials::placeholders(1));
        let shown = ("authorization".to_owned(), "Bearer abc.def-123==".to_owned());
        assert_eq!(change.headers, std::slice::from_ref(&shown));
        change.add_token(&login);
        assert_eq!(change.headers, [shown]);
        assert_eq!(login.secrets().collect::<Vec<_>>(), ["abc.def-123=="]);
        assert!(!format!("{login:?}").contains("abc"));
        for wrong in ["", "two\nlines", "a b", "{{counter}}"] {
            let (_directory, access) = access_with(wrong);
            assert!(Login::read(&access).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn calls_become_grpc_web_or_json() {
        let made = Credentials::placeholders(1);
        let call = || {
            let headers = vec![("content-type".to_owned(), "application/grpc".to_owned())];
            let target = TargetSpec::only("POST", "/a.Echo/Say", headers, b"\0\0\0\0\0".to_vec());
            TargetSpec { name: "say".to_owned(), grpc: true, ..target }
        };
        let changed = |change: &Change| {
            let mut targets = [call(), TargetSpec::only("GET", "/", Vec::new(), Vec::new())];
            change.apply_to(&mut targets, &mut BTreeMap::new());
            targets
        };
        let type_of = |target: &TargetSpec| target.headers[0].1.clone();
        let [web, other] = changed(&Change::new(&[Feature::GrpcWeb], &made));
        assert!(web.grpc && web.grpc_web && !other.grpc_web && other.headers.is_empty());
        assert_eq!((type_of(&web).as_str(), web.body), ("application/grpc-web+proto", call().body));
        let mut change = Change::new(&[Feature::GrpcJson], &made);
        change.json_messages = [("say".to_owned(), "{}".to_owned())].into();
        let [json, other] = changed(&change);
        assert!(!json.grpc && !json.grpc_web && other.body.is_empty());
        assert_eq!((type_of(&json).as_str(), json.body.as_slice()), ("application/json", &b"{}"[..]));
    }

    #[test]
    fn with_a_token_no_certificate_is_shown() {
        let made = Credentials::make(&[]).expect("made");
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        let mut access = Access {
            tls: Some(TlsAccess {
                server_name: "api.test".into(),
                authority: Some(write("ca.pem", &made.authority)),
                client_certificate: Some(hoptax_plan::CertificateFiles {
                    certificate: write("client.pem", &made.client.certificate),
                    key: write("client.key", &made.client.key),
                }),
                insecure: false,
            }),
            ..Access::default()
        };
        let tls = |access: &Access| {
            Change::for_login(&Login::read(access).expect("right"), &made).tls.expect("over TLS")
        };
        assert!(tls(&access).client_certificate.is_some());
        access.token_file = Some(write("token", "letters"));
        assert!(tls(&access).client_certificate.is_none());
        write("client.key", "-----BEGIN PRIVATE KEY-----\nnone\n-----END PRIVATE KEY-----\n");
        let error = format!("{:#}", Login::read(&access).expect_err("no key"));
        assert!(error.contains("client.key"), "{error}");
    }
}

//! What requests through a gateway must carry that direct ones need not.

use super::{
    CORS_ORIGIN, Consumer, Credentials, KEY_HEADER, REQUEST_REMOVED, REWRITTEN_PREFIX, SERVER_NAME, place_of,
    route_prefix, variables,
};
use crate::lab::verify::Requests;
use crate::plan::{Feature, JwtAlgorithm};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_load::spec::{Check, ClientCertificate, LoadSpec, TargetSpec, TlsSpec, TlsVersion, Verify};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How the name begins of a file whose lines are the credentials of several consumers.
const CREDENTIALS_FILE: &str = "hoptax-credentials";

/// How requests to one gateway differ from those to direct.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Headers added.
    pub headers: Vec<(String, String)>,
    /// Put in front of every path.
    pub prefix: String,
    /// TLS instead of plain connections.
    pub tls: Option<TlsSpec>,
    /// Files that the headers' templates take lines from.
    pub files: BTreeMap<String, String>,
    /// Whether 429 is what it should answer to some requests.
    pub expects_429: bool,
    /// The features that this comes of, each to be proved before anything is timed.
    pub features: Vec<Feature>,
    /// The access log, where the gateway writes one.
    pub access_log: Option<PathBuf>,
    /// What the headers are made of; absent where no feature is on.
    pub credentials: Option<Arc<Credentials>>,
}

impl Change {
    /// What `features` ask of requests.
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
                Feature::HeaderRewrite => change.header(REQUEST_REMOVED.0, REQUEST_REMOVED.1),
                Feature::PathRewrite => change.prefix.push_str(REWRITTEN_PREFIX),
                Feature::Cors => change.header("origin", CORS_ORIGIN),
                Feature::Gzip => change.header("accept-encoding", "gzip"),
                Feature::Routes { count, ask } => {
                    // What is rewritten is taken off before routes are looked for, or with the route: it stands in front.
                    change.prefix.push_str(&route_prefix(place_of(*ask, *count)));
                }
                Feature::RateLimit { .. } => change.expects_429 |= feature.bites(),
                Feature::AccessLog
                | Feature::UpstreamTls
                | Feature::RequestId
                | Feature::IpAllow
                | Feature::Consumers { .. }
                | Feature::RoundRobin { .. } => {}
            }
        }
        change
    }

    /// `text` without anything secret.
    pub fn redact(&self, text: &str) -> String {
        self.credentials.as_ref().map_or_else(|| text.to_owned(), |made| made.redact(text))
    }

    /// A header whose value is one of several, in turn by chance.
    fn credential(&mut self, name: &str, mut values: Vec<String>) {
        if let [only] = values.as_mut_slice() {
            self.header(name, only);
            return;
        }
        // One for each header: several features may ask for one.
        let file = format!("{CREDENTIALS_FILE}-{name}");
        self.header(name, &format!("{{{{line {file}}}}}"));
        self.files.insert(file, values.join("\n") + "\n");
    }

    fn header(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Changes what the generator is asked for.
    pub fn apply(&self, spec: &mut LoadSpec) {
        self.apply_to(&mut spec.targets, &mut spec.files);
        if self.tls.is_some() {
            spec.tls.clone_from(&self.tls);
        }
    }

    /// Changes what a gateway is asked before anything is timed; TLS is the asker's own affair.
    pub fn apply_to_requests(&self, requests: &mut Requests) {
        self.apply_to(&mut requests.targets, &mut requests.files);
    }

    fn apply_to(&self, targets: &mut [TargetSpec], files: &mut BTreeMap<String, String>) {
        for target in targets {
            target.path.insert_str(0, &self.prefix);
            for (name, value) in &self.headers {
                // What the plan itself sends stands: it is the case that was asked for.
                if !target.headers.iter().any(|(typed, _)| typed.eq_ignore_ascii_case(name)) {
                    target.headers.push((name.clone(), value.clone()));
                }
            }
            let says_status = target.checks.iter().any(|check| matches!(check, Check::Status(_)));
            if self.expects_429 && !says_status {
                target.checks.push(Check::Status(vec![(200, 399), (429, 429)]));
            }
        }
        files.extend(self.files.iter().map(|(name, text)| (name.clone(), text.clone())));
    }
}

/// The header by which `consumer` is let in by `feature`, where that asks for one.
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

fn tls(made: &Credentials, client_certificate: Option<ClientCertificate>) -> TlsSpec {
    TlsSpec {
        server_name: SERVER_NAME.to_owned(),
        verify: Verify::Authorities(made.authority.clone()),
        client_certificate,
        resumption: true,
        alpn: Vec::new(),
        versions: vec![TlsVersion::Tls13],
        cipher_suites: vec![super::CIPHER_SUITE.to_owned()],
    }
}

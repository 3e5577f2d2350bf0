//! What requests through a gateway must carry that direct ones need not.

use super::{
    CORS_ORIGIN, Credentials, KEY_HEADER, REQUEST_REMOVED, REWRITTEN_PREFIX, SERVER_NAME, place_of,
    route_prefix, variables,
};
use crate::lab::verify::Requests;
use crate::plan::{Feature, JwtAlgorithm};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_load::spec::{Check, ClientCertificate, LoadSpec, TargetSpec, TlsSpec, TlsVersion, Verify};
use std::collections::BTreeMap;

/// Name of the file whose lines are the credentials of several consumers.
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
}

impl Change {
    /// What `features` ask of requests.
    pub fn new(features: &[Feature], made: &Credentials) -> Self {
        let mut change = Self::default();
        let consumers = &made.consumers[..variables::consumers(features)];
        for feature in features {
            match feature {
                Feature::KeyAuth => {
                    change.credential(KEY_HEADER, consumers.iter().map(|one| one.key.clone()).collect());
                }
                Feature::BasicAuth => {
                    let basic = |one: &super::Consumer| {
                        format!("Basic {}", STANDARD.encode(format!("{}:{}", one.name, one.password)))
                    };
                    change.credential("authorization", consumers.iter().map(basic).collect());
                }
                Feature::Jwt(JwtAlgorithm::Hs256) | Feature::TokenReview { .. } => {
                    let bearer = |one: &super::Consumer| format!("Bearer {}", one.token_hs256);
                    change.credential("authorization", consumers.iter().map(bearer).collect());
                }
                Feature::Jwt(JwtAlgorithm::Rs256) => {
                    let bearer = |one: &super::Consumer| format!("Bearer {}", one.token_rs256);
                    change.credential("authorization", consumers.iter().map(bearer).collect());
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

    /// A header whose value is one of several, in turn by chance.
    fn credential(&mut self, name: &str, mut values: Vec<String>) {
        if let [only] = values.as_mut_slice() {
            self.header(name, only);
            return;
        }
        self.files.insert(CREDENTIALS_FILE.to_owned(), values.join("\n") + "\n");
        self.header(name, &format!("{{{{line {CREDENTIALS_FILE}}}}}"));
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

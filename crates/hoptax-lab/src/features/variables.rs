//! Template variables for features.

use super::credentials::{Consumer, Credentials};
use super::json_calls::JsonCalls;
use super::names::{
    CIPHER_SUITE, CORS_ORIGIN, KEY_HEADER, REQUEST_ID_HEADER, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED,
    RESPONSE_SET, REWRITTEN_PREFIX, SERVER_NAME, TOKEN_ISSUER, TOKEN_REVIEW_PATH, route_prefix,
};
use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use hoptax_format::spec::{TlsSpec, Verify};
use hoptax_plan::{Feature, JwtAlgorithm};
use serde::Serialize;
use serde_json::json;

/// Folder for keys and certificates within a gateway's directory.
const TLS_FOLDER: &str = "tls";

/// Names of the files for a TLS upstream that already runs: the authority's certificate, and the client
/// certificate.
const UPSTREAM_AUTHORITY: &str = "upstream-authority.pem";
const CLIENT_CERTIFICATE: &str = "upstream-client.pem";
const CLIENT_KEY: &str = "upstream-client-key.pem";
const CLIENT_BUNDLE: &str = "upstream-client-bundle.pem";

/// The template variable `features`. Each feature has the values needed to render it, or `none` if the
/// feature is off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FeatureVariables {
    /// Value: `header`.
    pub key_auth: Option<serde_json::Value>,
    /// Value: `file`, the path of a file with a line `name:{SHA}…` for each user.
    pub basic_auth: Option<serde_json::Value>,
    /// Values: `algorithm`, `issuer`, `secret`, `secret_base64`, `secret_base64url`, `public_key` (PEM),
    /// `public_key_base64`, `public_key_file`, `jwks` (JSON), `jwks_file`.
    pub jwt: Option<serde_json::Value>,
    /// Values: `per_second`; `bites`, which is true if requests can reach the limit.
    pub rate_limit: Option<serde_json::Value>,
    /// Whether the feature `access-log` is on. The path of the log is in the variable `access_log`.
    pub access_log: bool,
    /// Paths: `certificate`, `key`, `bundle` (certificate and key in one file). Texts: `certificate_pem`,
    /// `key_pem`. Names: `cipher_suite`, `server_name`.
    pub tls: Option<serde_json::Value>,
    /// Values: `authority`, the path of the certificate of the authority that signed the clients'
    /// certificates; `authority_pem`, the text of this certificate.
    pub mtls: Option<serde_json::Value>,
    /// Whether connections begin with a header of the PROXY protocol. Gateways accept both of its versions.
    pub proxy_protocol: bool,
    /// Values: `authority`, a path; `server_name`, the name in the upstream's certificate; `external`, which
    /// is true if the upstream already ran before this run. Such an upstream may support TLS 1.2 only. If the
    /// upstream requires a client certificate, there are also the paths `certificate`, `key` and `bundle`
    /// (both in one file). With this feature, the variable `upstreams` holds the TLS ports.
    pub upstream_tls: Option<serde_json::Value>,
    /// Values: `request_set`, `request_removed`, `response_set`, `response_removed`. Each has a `name`;
    /// `request_set` and `response_set` also have a `value`.
    pub header_rewrite: Option<serde_json::Value>,
    /// Value: `prefix`, which the gateway removes from paths.
    pub path_rewrite: Option<serde_json::Value>,
    /// Values: `origin`, `methods`, `headers`, `max_age`.
    pub cors: Option<serde_json::Value>,
    /// Values: `level`; `types`; `least`, the minimum size of a body to compress, in bytes.
    pub gzip: Option<serde_json::Value>,
    /// Value: `header`.
    pub request_id: Option<serde_json::Value>,
    /// Value: `addresses`, the networks that are allowed.
    pub ip_allow: Option<serde_json::Value>,
    /// Path prefixes of all routes. If empty, there is one route for all paths.
    pub routes: Vec<String>,
    /// Accepted consumers, each with `name`, `key`, `password`, `htpasswd`. Empty unless a feature needs
    /// consumers.
    pub consumers: Vec<serde_json::Value>,
    /// Whether the feature `round-robin` is on. The instances are in the variable `upstreams`.
    pub round_robin: bool,
    /// Values: `path`, the path of token reviews at the upstream; `cache_s`, the number of seconds to cache a
    /// review, 0 for no cache.
    pub token_review: Option<serde_json::Value>,
    /// Whether the gateway translates gRPC-Web to gRPC.
    pub grpc_web: bool,
    /// Values: `services`, the names of the services whose calls come as JSON; `descriptors`, their `.proto`
    /// files as a `google.protobuf.FileDescriptorSet`, in base64.
    pub grpc_json: Option<serde_json::Value>,
}

impl FeatureVariables {
    /// Creates the variables for `features`. `directory` is the gateway's directory.
    pub fn new(features: &[Feature], made: &Credentials, directory: &str) -> Self {
        let mut all = Self::default();
        let file = |name: &str| format!("{directory}/{TLS_FOLDER}/{name}");
        for feature in features {
            match feature {
                Feature::KeyAuth => all.key_auth = Some(json!({ "header": KEY_HEADER })),
                Feature::BasicAuth => all.basic_auth = Some(json!({ "file": file("passwords") })),
                Feature::Jwt(algorithm) => all.jwt = Some(jwt(*algorithm, made, &file)),
                Feature::RateLimit { per_second } => {
                    all.rate_limit =
                        Some(json!({ "per_second": per_second, "bites": feature.is_reachable_limit() }));
                }
                Feature::AccessLog => all.access_log = true,
                Feature::Tls => {
                    all.tls = Some(json!({
                        "certificate": file("certificate.pem"), "key": file("key.pem"), "bundle": file("bundle.pem"),
                        "certificate_pem": made.server.certificate, "key_pem": made.server.key,
                        "cipher_suite": CIPHER_SUITE, "server_name": SERVER_NAME,
                    }));
                }
                Feature::Mtls => {
                    all.mtls =
                        Some(json!({ "authority": file("authority.pem"), "authority_pem": made.authority }));
                }
                Feature::ProxyProtocol(_) => all.proxy_protocol = true,
                Feature::UpstreamTls => {
                    all.upstream_tls = Some(match &made.upstream {
                        None => json!({
                            "authority": file("authority.pem"), "server_name": SERVER_NAME, "external": false,
                        }),
                        Some(tls) => upstream_that_runs(tls, &file),
                    });
                }
                Feature::HeaderRewrite => {
                    all.header_rewrite = Some(json!({
                        "request_set": { "name": REQUEST_SET.0, "value": REQUEST_SET.1 },
                        "request_removed": { "name": REQUEST_REMOVED.0 },
                        "response_set": { "name": RESPONSE_SET.0, "value": RESPONSE_SET.1 },
                        "response_removed": { "name": RESPONSE_REMOVED },
                    }));
                }
                Feature::PathRewrite => all.path_rewrite = Some(json!({ "prefix": REWRITTEN_PREFIX })),
                Feature::Cors => {
                    all.cors = Some(json!({
                        "origin": CORS_ORIGIN, "methods": ["GET", "POST"], "headers": ["x-requested-with"], "max_age": 600,
                    }));
                }
                Feature::Gzip => {
                    all.gzip = Some(
                        json!({ "level": 6, "types": ["text/plain", "application/json"], "least": 256 }),
                    );
                }
                Feature::RequestId => all.request_id = Some(json!({ "header": REQUEST_ID_HEADER })),
                Feature::IpAllow => all.ip_allow = Some(json!({ "addresses": ["127.0.0.1/32"] })),
                Feature::Routes { count, .. } => all.routes = (0..*count).map(route_prefix).collect(),
                Feature::Consumers { .. } => {}
                Feature::RoundRobin { .. } => all.round_robin = true,
                Feature::TokenReview { cache_s } => {
                    all.token_review = Some(json!({ "path": TOKEN_REVIEW_PATH, "cache_s": cache_s }));
                }
                Feature::GrpcWeb => all.grpc_web = true,
                Feature::GrpcJson => {
                    all.grpc_json = Some(json!({ "services": ["echo.Echo"], "descriptors": "" }));
                }
            }
        }
        if features.iter().any(|feature| feature.is_authentication()) {
            let consumer = |one: &Consumer| json!({ "name": one.name, "key": one.key, "password": one.password, "htpasswd": one.htpasswd() });
            all.consumers = made.consumers[..consumers(features)].iter().map(consumer).collect();
        }
        all
    }

    /// Sets the calls of a plan in `grpc_json`, which has samples otherwise.
    #[must_use]
    pub fn with_calls(mut self, calls: &JsonCalls) -> Self {
        if let Some(values) = &mut self.grpc_json {
            *values = json!({ "services": calls.services, "descriptors": calls.descriptors });
        }
        self
    }
}

fn upstream_that_runs(tls: &TlsSpec, file: &dyn Fn(&str) -> String) -> serde_json::Value {
    let mut values = json!({
        "authority": file(UPSTREAM_AUTHORITY), "server_name": tls.server_name, "external": true,
    });
    if tls.client_certificate.is_some() {
        let names = [("certificate", CLIENT_CERTIFICATE), ("key", CLIENT_KEY), ("bundle", CLIENT_BUNDLE)];
        for (member, name) in names {
            values[member] = file(name).into();
        }
    }
    values
}

/// Name and text of each file that a gateway needs for TLS to an upstream that already runs.
fn files_for(tls: &TlsSpec) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Verify::Authorities(pem) = &tls.verify {
        all.push((UPSTREAM_AUTHORITY, pem.clone()));
    }
    if let Some(own) = &tls.client_certificate {
        all.push((CLIENT_CERTIFICATE, own.chain.clone()));
        all.push((CLIENT_KEY, own.key.clone()));
        all.push((CLIENT_BUNDLE, format!("{}\n{}", own.chain.trim_end(), own.key)));
    }
    all
}

pub(super) fn consumers(features: &[Feature]) -> usize {
    let asked = features.iter().find_map(|feature| match feature {
        Feature::Consumers { count } => Some(*count as usize),
        _ => None,
    });
    asked.unwrap_or(1)
}

pub(super) fn files(features: &[Feature], made: &Credentials) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: &str, text: String| {
        let file = (format!("{TLS_FOLDER}/{name}"), text);
        if !all.contains(&file) {
            all.push(file);
        }
    };
    for feature in features {
        match feature {
            Feature::BasicAuth => {
                let lines = made.consumers[..consumers(features)].iter().map(|one| one.htpasswd() + "\n");
                add("passwords", lines.collect());
            }
            Feature::Jwt(algorithm) => {
                add("jwks.json", jwks(*algorithm, made));
                if let (JwtAlgorithm::Rs256, Some(rsa)) = (algorithm, &made.jwt_rsa) {
                    add("jwt-public.pem", rsa.public_pem.clone());
                }
            }
            Feature::Tls => {
                add("certificate.pem", made.server.certificate.clone());
                add("key.pem", made.server.key.clone());
                add("bundle.pem", made.server.certificate.clone() + &made.server.key);
            }
            Feature::UpstreamTls => match &made.upstream {
                None => add("authority.pem", made.authority.clone()),
                Some(tls) => {
                    for (name, text) in files_for(tls) {
                        add(name, text);
                    }
                }
            },
            Feature::Mtls => add("authority.pem", made.authority.clone()),
            _ => {}
        }
    }
    all
}

fn jwt(algorithm: JwtAlgorithm, made: &Credentials, file: &dyn Fn(&str) -> String) -> serde_json::Value {
    let rsa = made.jwt_rsa.as_ref().filter(|_| algorithm == JwtAlgorithm::Rs256);
    json!({
        "algorithm": name(algorithm),
        "issuer": TOKEN_ISSUER,
        "secret": made.jwt_secret,
        "secret_base64": STANDARD.encode(&made.jwt_secret),
        "secret_base64url": URL_SAFE_NO_PAD.encode(&made.jwt_secret),
        "public_key": rsa.map(|rsa| rsa.public_pem.as_str()),
        "public_key_base64": rsa.map(|rsa| STANDARD.encode(&rsa.public_pem)),
        "public_key_file": rsa.map(|_| file("jwt-public.pem")),
        "jwks": jwks(algorithm, made),
        "jwks_file": file("jwks.json"),
    })
}

fn name(algorithm: JwtAlgorithm) -> &'static str {
    match algorithm {
        JwtAlgorithm::Hs256 => "HS256",
        JwtAlgorithm::Rs256 => "RS256",
    }
}

/// The key that verifies tokens, as a JSON Web Key Set (RFC 7517).
fn jwks(algorithm: JwtAlgorithm, made: &Credentials) -> String {
    let key = match (algorithm, &made.jwt_rsa) {
        (JwtAlgorithm::Rs256, Some(rsa)) => {
            json!({ "kty": "RSA", "kid": "hoptax", "alg": "RS256", "use": "sig", "n": rsa.modulus, "e": rsa.exponent })
        }
        _ => {
            let secret = URL_SAFE_NO_PAD.encode(&made.jwt_secret);
            json!({ "kty": "oct", "kid": "hoptax", "alg": "HS256", "k": secret })
        }
    };
    json!({ "keys": [key] }).to_string()
}

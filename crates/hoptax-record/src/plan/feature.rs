//! Features of gateways, such as authentication or TLS. A plan enables each feature separately.
//!
//! Records, sentences and labels show a feature as one word (`key-auth`, `routes=1000:last`). A newer hoptax
//! may have written a word that this version does not know. Packs list the features that they support by
//! [`Feature::name`]. `docs/reference/features.md` describes each feature and
//! its proof.

use hoptax_format::spec::ProxyProtocol;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Default rate limit, in requests per second. No gateway is fast enough to reach this limit, so a run
/// measures only the cost of counting requests.
pub const DEFAULT_RATE_LIMIT: u32 = 1_000_000;

/// Maximum number of routes of a gateway.
pub const MOST_ROUTES: u32 = 10_000;

/// Maximum number of consumers of a gateway.
pub const MOST_CONSUMERS: u32 = 10_000;

/// A feature with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// The gateway checks a key in a header. Requests without a known key get status 401.
    KeyAuth,
    /// The gateway checks a name and a password. Requests without a valid pair get status 401.
    BasicAuth,
    /// The gateway checks a signed token. Requests without a valid token get status 401.
    Jwt(JwtAlgorithm),
    /// The gateway limits the number of requests per second. Further requests get status 429.
    RateLimit {
        /// Requests per second.
        per_second: u32,
    },
    /// The gateway writes an access log to a file in its default format. This overrides the plan's
    /// `access_log`.
    AccessLog,
    /// TLS between clients and gateway. All gateways use version 1.3, TLS_AES_128_GCM_SHA256 and an ECDSA
    /// P-256 certificate.
    Tls,
    /// TLS between clients and gateway. Clients must also present a certificate.
    Mtls,
    /// Connections from clients begin with a header of the PROXY protocol. The gateway passes its source
    /// address on to the upstream.
    ProxyProtocol(ProxyProtocol),
    /// TLS between gateway and upstream. The gateway verifies the upstream's certificate.
    UpstreamTls,
    /// The gateway sets one header and removes another, on requests and on responses.
    HeaderRewrite,
    /// The gateway removes a prefix from the path.
    PathRewrite,
    /// The gateway allows cross-origin requests from one origin, and it answers preflight requests.
    Cors,
    /// The gateway compresses responses with gzip, level 6.
    Gzip,
    /// The gateway gives each request an identifier. Both the upstream and the client receive the identifier.
    RequestId,
    /// The gateway serves only clients with allowed addresses. Other clients get status 403.
    IpAllow,
    /// The gateway has several routes, and requests use one of them.
    Routes {
        /// Number of routes.
        count: u32,
        /// Position of the route that requests use.
        ask: RoutePosition,
    },
    /// The gateway knows several consumers, each with its own key, password or token. Requests use them in
    /// turn.
    Consumers {
        /// Number of consumers.
        count: u32,
    },
    /// The gateway sends requests to several instances of the upstream, in turn.
    RoundRobin {
        /// Number of instances. If absent, the gateway uses all of them.
        instances: Option<u32>,
    },
    /// Before the gateway forwards a request, it asks the upstream whether the request's bearer token is
    /// valid. The gateway asks by sending a token review, as Kubernetes webhooks do.
    TokenReview {
        /// Time for which the gateway caches the result of a review, in seconds. 0 means that the gateway
        /// caches no results.
        cache_s: u32,
    },
    /// Clients send calls as gRPC-Web, and the gateway translates them to gRPC for the upstream.
    GrpcWeb,
    /// Clients send the messages of calls as JSON, and the gateway translates them to gRPC for the upstream.
    GrpcJson,
}

/// How tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSA PKCS #1 v1.5 with SHA-256, 2048 bits.
    Rs256,
}

/// A position in the list of routes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutePosition {
    /// The first route.
    First,
    /// The route in the middle.
    #[default]
    Middle,
    /// The last route.
    Last,
}

impl Feature {
    /// Names of all features. All lists of features use this order.
    pub const NAMES: [&str; 22] = [
        "key-auth",
        "basic-auth",
        "jwt-hs256",
        "jwt-rs256",
        "rate-limit",
        "access-log",
        "tls",
        "mtls",
        "proxy-protocol",
        "upstream-tls",
        "header-rewrite",
        "path-rewrite",
        "cors",
        "gzip",
        "request-id",
        "ip-allow",
        "routes",
        "consumers",
        "round-robin",
        "token-review",
        "grpc-web",
        "grpc-json",
    ];

    /// The feature's name in packs.
    pub fn name(self) -> &'static str {
        match self {
            Self::KeyAuth => "key-auth",
            Self::BasicAuth => "basic-auth",
            Self::Jwt(JwtAlgorithm::Hs256) => "jwt-hs256",
            Self::Jwt(JwtAlgorithm::Rs256) => "jwt-rs256",
            Self::RateLimit { .. } => "rate-limit",
            Self::AccessLog => "access-log",
            Self::Tls => "tls",
            Self::Mtls => "mtls",
            Self::ProxyProtocol(_) => "proxy-protocol",
            Self::UpstreamTls => "upstream-tls",
            Self::HeaderRewrite => "header-rewrite",
            Self::PathRewrite => "path-rewrite",
            Self::Cors => "cors",
            Self::Gzip => "gzip",
            Self::RequestId => "request-id",
            Self::IpAllow => "ip-allow",
            Self::Routes { .. } => "routes",
            Self::Consumers { .. } => "consumers",
            Self::RoundRobin { .. } => "round-robin",
            Self::TokenReview { .. } => "token-review",
            Self::GrpcWeb => "grpc-web",
            Self::GrpcJson => "grpc-json",
        }
    }

    /// Returns the feature with this name, with default settings. `features: each` uses the default settings.
    pub fn with_defaults(name: &str) -> Option<Self> {
        Some(match name {
            "key-auth" => Self::KeyAuth,
            "basic-auth" => Self::BasicAuth,
            "jwt-hs256" => Self::Jwt(JwtAlgorithm::Hs256),
            "jwt-rs256" => Self::Jwt(JwtAlgorithm::Rs256),
            "rate-limit" => Self::RateLimit { per_second: DEFAULT_RATE_LIMIT },
            "access-log" => Self::AccessLog,
            "tls" => Self::Tls,
            "mtls" => Self::Mtls,
            "proxy-protocol" => Self::ProxyProtocol(ProxyProtocol::V2),
            "upstream-tls" => Self::UpstreamTls,
            "header-rewrite" => Self::HeaderRewrite,
            "path-rewrite" => Self::PathRewrite,
            "cors" => Self::Cors,
            "gzip" => Self::Gzip,
            "request-id" => Self::RequestId,
            "ip-allow" => Self::IpAllow,
            "routes" => Self::Routes { count: 1000, ask: RoutePosition::Middle },
            "consumers" => Self::Consumers { count: 1000 },
            "round-robin" => Self::RoundRobin { instances: None },
            "token-review" => Self::TokenReview { cache_s: 0 },
            "grpc-web" => Self::GrpcWeb,
            "grpc-json" => Self::GrpcJson,
            _ => return None,
        })
    }

    /// Key under `unsupported` in packs that cannot cache token reviews.
    pub const REVIEW_CACHE: &str = "token-review-cache";

    /// Key under `unsupported` in packs of gateways that cannot present a certificate to upstreams.
    pub const CLIENT_CERTIFICATE: &str = "client-certificate";

    /// Key under `unsupported` in packs of gateways that cannot use a real Kubernetes API server for token
    /// reviews.
    pub const REVIEW_ELSEWHERE: &str = "token-review-external";

    /// Whether this is `token-review` with a cache.
    pub fn is_cached_review(&self) -> bool {
        matches!(self, Self::TokenReview { cache_s } if *cache_s > 0)
    }

    /// Whether this feature is an authentication with separate credentials for each consumer.
    pub fn is_authentication(self) -> bool {
        matches!(self, Self::KeyAuth | Self::BasicAuth | Self::Jwt(_))
    }

    /// Whether this is a rate limit that the load can reach, because it is below the default.
    pub fn is_reachable_limit(self) -> bool {
        matches!(self, Self::RateLimit { per_second } if per_second < DEFAULT_RATE_LIMIT)
    }

    /// Whether the gateway translates calls to gRPC. The price is then that of the translation, because
    /// direct and gateways without the feature receive gRPC.
    pub fn translates_calls(self) -> bool {
        matches!(self, Self::GrpcWeb | Self::GrpcJson)
    }

    /// Whether the two features cannot be combined.
    pub fn excludes(self, other: Self) -> bool {
        self.conflict(other).is_some()
    }

    /// Why the two features cannot be combined, as the rest of a sentence that begins with their names.
    /// `None` if they can.
    pub fn conflict(self, other: Self) -> Option<&'static str> {
        let both = |is_one: fn(Self) -> bool| is_one(self) && is_one(other);
        if both(|one| matches!(one, Self::BasicAuth | Self::Jwt(_) | Self::TokenReview { .. })) {
            return Some("both use the authorization header");
        }
        if both(Self::translates_calls) {
            return Some("both say how clients send calls");
        }
        let changes_path = |one: Self| matches!(one, Self::PathRewrite | Self::Routes { .. });
        let has_json = self == Self::GrpcJson || other == Self::GrpcJson;
        // The gateway finds the method by the path before it removes a prefix.
        (has_json && (changes_path(self) || changes_path(other))).then_some("both need the path of a request")
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::RateLimit { per_second } if self.is_reachable_limit() => write!(f, "={per_second}/s"),
            Self::Routes { count, ask } => write!(f, "={count}:{ask}"),
            Self::Consumers { count } => write!(f, "={count}"),
            Self::ProxyProtocol(ProxyProtocol::V1) => f.write_str("=v1"),
            Self::RoundRobin { instances: Some(instances) } => write!(f, "={instances}"),
            Self::TokenReview { cache_s } if *cache_s > 0 => write!(f, "={cache_s}s"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for RoutePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Middle => "middle",
            Self::Last => "last",
        })
    }
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("unknown feature `{text}`");
        let (name, setting) = text.split_once('=').map_or((text, None), |(name, set)| (name, Some(set)));
        let plain = Self::with_defaults(name).ok_or_else(wrong)?;
        let Some(setting) = setting else { return Ok(plain) };
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        Ok(match plain {
            Self::RateLimit { .. } => {
                Self::RateLimit { per_second: number(setting.strip_suffix("/s").ok_or_else(wrong)?)? }
            }
            Self::Routes { .. } => {
                let (count, ask) = setting.split_once(':').ok_or_else(wrong)?;
                let ask = match ask {
                    "first" => RoutePosition::First,
                    "middle" => RoutePosition::Middle,
                    "last" => RoutePosition::Last,
                    _ => return Err(wrong()),
                };
                Self::Routes { count: number(count)?, ask }
            }
            Self::Consumers { .. } => Self::Consumers { count: number(setting)? },
            Self::ProxyProtocol(_) if setting == "v1" => Self::ProxyProtocol(ProxyProtocol::V1),
            Self::RoundRobin { .. } => Self::RoundRobin { instances: Some(number(setting)?) },
            Self::TokenReview { .. } => {
                Self::TokenReview { cache_s: number(setting.strip_suffix('s').ok_or_else(wrong)?)? }
            }
            _ => return Err(wrong()),
        })
    }
}

impl Serialize for Feature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Feature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_features_can_be_parsed() {
        let others = [
            Feature::RateLimit { per_second: 100 },
            Feature::Routes { count: 7, ask: RoutePosition::Last },
            Feature::Consumers { count: 3 },
            Feature::ProxyProtocol(ProxyProtocol::V1),
            Feature::RoundRobin { instances: Some(2) },
            Feature::TokenReview { cache_s: 600 },
        ];
        let all = Feature::NAMES.map(|name| Feature::with_defaults(name).expect("named"));
        for (name, feature) in Feature::NAMES.iter().zip(all) {
            assert_eq!(feature.name(), *name);
        }
        for feature in all.into_iter().chain(others) {
            assert_eq!(feature.to_string().parse(), Ok(feature), "{feature}");
        }
        for wrong in
            ["", "keyauth", "key-auth=1", "routes=1", "routes=x:last", "rate-limit=5", "token-review=5"]
        {
            assert!(wrong.parse::<Feature>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn features_that_need_the_same_part_of_a_request_exclude_each_other() {
        let feature = |name: &str| Feature::with_defaults(name).expect("a feature");
        for (one, other, expected) in [
            ("basic-auth", "token-review", Some("both use the authorization header")),
            ("grpc-web", "grpc-json", Some("both say how clients send calls")),
            ("routes", "grpc-json", Some("both need the path of a request")),
            ("path-rewrite", "grpc-json", Some("both need the path of a request")),
            ("routes", "grpc-web", None),
            ("path-rewrite", "routes", None),
            ("key-auth", "grpc-json", None),
        ] {
            let (one, other) = (feature(one), feature(other));
            assert_eq!([one.conflict(other), other.conflict(one)], [expected; 2], "{one} {other}");
            assert_eq!(one.excludes(other), expected.is_some());
        }
    }
}

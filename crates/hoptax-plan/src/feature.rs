//! Features: what a gateway is bought for, each switched on by itself.
//!
//! A feature is written as one word in records, sentences and labels (`key-auth`, `routes=1000:last`); a pack names those that
//! it can render by their [`Feature::name`], and how each is rendered and proved is told in `docs/reference/features.md`.

use std::fmt;
use std::str::FromStr;

/// Requests per second that a rate limit allows where none is given: more than any gateway carries, so that what is measured is
/// the counting.
pub const LIMIT_THAT_NEVER_BITES: u32 = 1_000_000;

/// Most routes that a gateway is given.
pub const MOST_ROUTES: u32 = 10_000;

/// Most consumers that a gateway is given.
pub const MOST_CONSUMERS: u32 = 10_000;

/// A feature with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// A key in a header; 401 without a known one.
    KeyAuth,
    /// A name and a password; 401 without.
    BasicAuth,
    /// A signed token; 401 without a valid one.
    Jwt(JwtAlgorithm),
    /// So many requests per second; 429 beyond.
    RateLimit {
        /// Requests per second.
        per_second: u32,
    },
    /// An access log in a file, in the gateway's stock format, whatever the plan says for all.
    AccessLog,
    /// TLS towards clients: version 1.3, TLS_AES_128_GCM_SHA256 and an ECDSA P-256 certificate, for all alike.
    Tls,
    /// TLS whose clients must show a certificate.
    Mtls,
    /// TLS towards the upstream, whose certificate is verified.
    UpstreamTls,
    /// One header set and one removed, on requests and on responses.
    HeaderRewrite,
    /// A prefix of the path is taken off.
    PathRewrite,
    /// Cross-origin requests of one origin are allowed, preflights answered.
    Cors,
    /// Responses are compressed, level 6.
    Gzip,
    /// Each request gets an identifier, which the upstream and the client see.
    RequestId,
    /// Only clients of some addresses are let in; 403 for others.
    IpAllow,
    /// So many routes, of which one is asked for.
    Routes {
        /// Routes.
        count: u32,
        /// Which of them is asked for.
        ask: Ask,
    },
    /// So many consumers, each with a key, password or token of its own; requests come from one after the other.
    Consumers {
        /// Consumers.
        count: u32,
    },
    /// Requests go to so many instances of the upstream in turn.
    RoundRobin {
        /// Instances; all that there are when absent.
        instances: Option<u32>,
    },
    /// Each request's bearer token is shown to the upstream's token review first, as an API server's webhook is asked.
    TokenReview {
        /// Seconds for which the answer is remembered; 0: every request asks.
        cache_s: u32,
    },
}

/// How tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSA PKCS #1 v1.5 with SHA-256, 2048 bits.
    Rs256,
}

/// Which of the routes is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// The first that is configured.
    First,
    /// The one in the middle.
    #[default]
    Middle,
    /// The last.
    Last,
}

impl Feature {
    /// Names of all features, in the order in which they are listed everywhere.
    pub const NAMES: [&str; 19] = [
        "key-auth",
        "basic-auth",
        "jwt-hs256",
        "jwt-rs256",
        "rate-limit",
        "access-log",
        "tls",
        "mtls",
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
    ];

    /// How packs call it.
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
        }
    }

    /// The feature of this name with settings that are plausible for comparing: what `features: each` switches on.
    pub fn plausible(name: &str) -> Option<Self> {
        Some(match name {
            "key-auth" => Self::KeyAuth,
            "basic-auth" => Self::BasicAuth,
            "jwt-hs256" => Self::Jwt(JwtAlgorithm::Hs256),
            "jwt-rs256" => Self::Jwt(JwtAlgorithm::Rs256),
            "rate-limit" => Self::RateLimit { per_second: LIMIT_THAT_NEVER_BITES },
            "access-log" => Self::AccessLog,
            "tls" => Self::Tls,
            "mtls" => Self::Mtls,
            "upstream-tls" => Self::UpstreamTls,
            "header-rewrite" => Self::HeaderRewrite,
            "path-rewrite" => Self::PathRewrite,
            "cors" => Self::Cors,
            "gzip" => Self::Gzip,
            "request-id" => Self::RequestId,
            "ip-allow" => Self::IpAllow,
            "routes" => Self::Routes { count: 1000, ask: Ask::Middle },
            "consumers" => Self::Consumers { count: 1000 },
            "round-robin" => Self::RoundRobin { instances: None },
            "token-review" => Self::TokenReview { cache_s: 0 },
            _ => return None,
        })
    }

    /// How packs that ask about each request anew, and can do no other, name what they lack.
    pub const REVIEW_CACHE: &str = "token-review-cache";

    /// What a pack says that it lacks, where its gateway shows upstreams no certificate of its own.
    pub const CLIENT_CERTIFICATE: &str = "client-certificate";

    /// What a pack says that it lacks, where its reviews are none that a Kubernetes API server answers.
    pub const REVIEW_ELSEWHERE: &str = "token-review-external";

    /// Whether answers about tokens are to be remembered.
    pub fn is_cached_review(&self) -> bool {
        matches!(self, Self::TokenReview { cache_s } if *cache_s > 0)
    }

    /// Whether it decides who is let in by something that consumers have.
    pub fn is_authentication(self) -> bool {
        matches!(self, Self::KeyAuth | Self::BasicAuth | Self::Jwt(_))
    }

    /// Whether the limit is meant to turn requests away.
    pub fn bites(self) -> bool {
        matches!(self, Self::RateLimit { per_second } if per_second < LIMIT_THAT_NEVER_BITES)
    }

    /// What cannot be switched on together with it, where it is `other`.
    pub fn excludes(self, other: Self) -> bool {
        // Each of these wants the `authorization` header for itself.
        let wants_authorization =
            |one: Self| matches!(one, Self::BasicAuth | Self::Jwt(_) | Self::TokenReview { .. });
        wants_authorization(self) && wants_authorization(other)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::RateLimit { per_second } if self.bites() => write!(f, "={per_second}/s"),
            Self::Routes { count, ask } => write!(f, "={count}:{ask}"),
            Self::Consumers { count } => write!(f, "={count}"),
            Self::RoundRobin { instances: Some(instances) } => write!(f, "={instances}"),
            Self::TokenReview { cache_s } if *cache_s > 0 => write!(f, "={cache_s}s"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Ask {
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
        let plain = Self::plausible(name).ok_or_else(wrong)?;
        let Some(setting) = setting else { return Ok(plain) };
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        Ok(match plain {
            Self::RateLimit { .. } => {
                Self::RateLimit { per_second: number(setting.strip_suffix("/s").ok_or_else(wrong)?)? }
            }
            Self::Routes { .. } => {
                let (count, ask) = setting.split_once(':').ok_or_else(wrong)?;
                let ask = match ask {
                    "first" => Ask::First,
                    "middle" => Ask::Middle,
                    "last" => Ask::Last,
                    _ => return Err(wrong()),
                };
                Self::Routes { count: number(count)?, ask }
            }
            Self::Consumers { .. } => Self::Consumers { count: number(setting)? },
            Self::RoundRobin { .. } => Self::RoundRobin { instances: Some(number(setting)?) },
            Self::TokenReview { .. } => {
                Self::TokenReview { cache_s: number(setting.strip_suffix('s').ok_or_else(wrong)?)? }
            }
            _ => return Err(wrong()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_by_one_word_and_read_again() {
        let others = [
            Feature::RateLimit { per_second: 100 },
            Feature::Routes { count: 7, ask: Ask::Last },
            Feature::Consumers { count: 3 },
            Feature::RoundRobin { instances: Some(2) },
            Feature::TokenReview { cache_s: 600 },
        ];
        let all = Feature::NAMES.map(|name| Feature::plausible(name).expect("named"));
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
}

//! Names that gateways, requests and proofs must agree on: headers, paths, prefixes.

use hoptax_plan::{Ask, Feature};

/// Header that carries a consumer's key.
pub const KEY_HEADER: &str = "x-api-key";

/// Header that carries a request's identifier.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The origin whose cross-origin requests are allowed.
pub const CORS_ORIGIN: &str = "https://app.example";

/// The prefix that is taken off paths.
pub const REWRITTEN_PREFIX: &str = "/public";

/// What header rewriting sets on requests.
pub const REQUEST_SET: (&str, &str) = ("x-hoptax-set", "by-gateway");
/// What it takes off requests, which send it.
pub const REQUEST_REMOVED: (&str, &str) = ("x-hoptax-remove", "by-client");
/// What header rewriting sets on responses.
pub const RESPONSE_SET: (&str, &str) = ("x-hoptax-answered", "by-gateway");
pub use hoptax_servers::upstream::{RESPONSE_REMOVED, TOKEN_REVIEW_PATH};

/// Who issues the tokens.
pub const TOKEN_ISSUER: &str = "hoptax";

/// Name in the certificates that hoptax makes, for gateways and upstream; they hold the address 127.0.0.1 as well.
pub const SERVER_NAME: &str = "hoptax.test";

/// The only cipher suite that clients offer, so that every gateway encrypts alike.
pub const CIPHER_SUITE: &str = "TLS_AES_128_GCM_SHA256";

/// Prefix of the path of the route that requests ask for; `None` where these features have none.
pub fn asked_route(features: &[Feature]) -> Option<String> {
    features.iter().find_map(|feature| match feature {
        Feature::Routes { count, ask } => Some(route_prefix(place_of(*ask, *count))),
        _ => None,
    })
}

/// The index, from 0, of a place among `count` routes.
pub fn place_of(ask: Ask, count: u32) -> u32 {
    match ask {
        Ask::First => 0,
        Ask::Middle => count.saturating_sub(1) / 2,
        Ask::Last => count.saturating_sub(1),
    }
}

/// Prefix of the path of the `number`th route (from 1) that a gateway is given while it goes on.
pub fn changed_prefix(number: u32) -> String {
    format!("/changed-{number:05}")
}

/// Prefix of the path of route `index` (from 0): what gateways route by, and what requests begin with.
pub fn route_prefix(index: u32) -> String {
    format!("/route-{:05}", index + 1)
}

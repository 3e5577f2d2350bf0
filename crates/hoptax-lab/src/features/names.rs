//! Names that gateways, requests and verification must agree on: headers, paths, prefixes.

use hoptax_plan::{Feature, RoutePosition};

/// Header that carries a consumer's key.
pub const KEY_HEADER: &str = "x-api-key";

/// Header that carries a request's identifier.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The only origin that cross-origin requests may come from.
pub const CORS_ORIGIN: &str = "https://app.example";

/// The prefix that gateways remove from paths.
pub const REWRITTEN_PREFIX: &str = "/public";

/// The request header that gateways set for the header-rewrite feature, with its value.
pub const REQUEST_SET: (&str, &str) = ("x-hoptax-set", "by-gateway");
/// The request header that gateways remove for the header-rewrite feature, with its value. The generator
/// sends it.
pub const REQUEST_REMOVED: (&str, &str) = ("x-hoptax-remove", "by-client");
/// The response header that gateways set for the header-rewrite feature, with its value.
pub const RESPONSE_SET: (&str, &str) = ("x-hoptax-answered", "by-gateway");
pub use hoptax_servers::upstream::{RESPONSE_REMOVED, TOKEN_REVIEW_PATH};

/// Issuer of the tokens.
pub const TOKEN_ISSUER: &str = "hoptax";

/// Server name in hoptax's certificates for gateways and upstream. The certificates are also valid for
/// 127.0.0.1 and for the addresses of the plan's hosts.
pub const SERVER_NAME: &str = "hoptax.test";

/// The only cipher suite that clients offer, so that every gateway uses the same cipher suite.
pub const CIPHER_SUITE: &str = "TLS_AES_128_GCM_SHA256";

/// Path prefix of the route that requests use; `None` if no feature adds routes.
pub fn asked_route(features: &[Feature]) -> Option<String> {
    features.iter().find_map(|feature| match feature {
        Feature::Routes { count, ask } => Some(route_prefix(place_of(*ask, *count))),
        _ => None,
    })
}

/// Index of the route that requests use, from 0. The gateway has `count` routes.
pub fn place_of(ask: RoutePosition, count: u32) -> u32 {
    match ask {
        RoutePosition::First => 0,
        RoutePosition::Middle => count.saturating_sub(1) / 2,
        RoutePosition::Last => count.saturating_sub(1),
    }
}

/// Path prefix of a route that an event adds to a running gateway. `number` counts these routes from 1.
pub fn changed_prefix(number: u32) -> String {
    format!("/changed-{number:05}")
}

/// Path prefix of route `index` (from 0), used by gateways and requests.
pub fn route_prefix(index: u32) -> String {
    format!("/route-{:05}", index + 1)
}

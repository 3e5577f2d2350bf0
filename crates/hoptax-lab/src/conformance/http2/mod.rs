//! Cases that exist only in HTTP/2. Each tests one rule, on both sides.

mod control;
mod messages;
mod paths;
pub(super) mod side;
#[cfg(test)]
mod tests;

use super::case_of_rule::case_of_rule;
use crate::features::SERVER_NAME;
use hoptax_servers::http_client::HttpClient;
use hoptax_wire::http2::Config;
use paths::ECHO;
use side::{Delays, Outcome, Side, compare};
use std::time::Duration;

/// How long to wait for something that a server may never send, such as 100 Continue. The time is long, for
/// busy machines, because only servers that differ cause this wait.
const PATIENCE: Duration = Duration::from_secs(3);

case_of_rule! {
    /// One rule of HTTP/2.
    Http2Case
}

/// Name of the case that reads the upstream's counts. Other cases must not change them meanwhile.
pub(super) const COUNTING: &str = "cancel";

/// All cases, in the order of the test.
pub const HTTP2_CASES: [Http2Case; 16] = [
    case("no-length-1k", "a POST of 1 KiB without content-length", "RFC 9113, section 8.1.1", |side| {
        messages::post_without_length(side, 1 << 10)
    }),
    case("no-length-1m", "a POST of 1 MiB without content-length", "RFC 9113, section 8.1.1", |side| {
        messages::post_without_length(side, 1 << 20)
    }),
    case(
        "request-headers-18k",
        "90 request headers of 200 bytes, which need CONTINUATION",
        "RFC 9113, section 6.10",
        messages::many_fields,
    ),
    case("request-trailers", "a POST with trailers", "RFC 9113, section 8.1", messages::request_trailers),
    case(
        "response-trailers",
        "a response with trailers",
        "RFC 9113, section 8.1",
        messages::response_trailers,
    ),
    case(
        "early-hints",
        "103 Early Hints before the response",
        "RFC 9113, section 8.1",
        messages::early_hints,
    ),
    case(
        "expect-continue",
        "a POST whose body waits for 100 Continue",
        "RFC 9110, section 10.1.1",
        messages::expect_continue,
    ),
    case(
        "early-response",
        "a response before the end of the request",
        "RFC 9113, section 8.1",
        messages::early_response,
    ),
    case(COUNTING, "a request that the client cancels", "RFC 9113, section 5.4.2", control::cancel),
    case("cancels-30", "30 cancels at once", "RFC 9113, section 10.5", control::cancel_many),
    case("window-1", "a client with windows of one byte", "RFC 9113, section 6.9", control::window_of_one),
    case(
        "window-grows",
        "a larger initial window in the middle of a response",
        "RFC 9113, section 6.9.2",
        control::growing_window,
    ),
    case("streams-100", "100 requests at once", "RFC 9113, section 5.1.2", control::many_streams),
    case("ping", "PING while a response is awaited", "RFC 9113, section 6.7", control::ping),
    case(
        "goaway-client",
        "GOAWAY of the client while responses are awaited",
        "RFC 9113, section 6.8",
        control::goaway_of_client,
    ),
    case(
        "goaway-upstream",
        "GOAWAY of the upstream while responses are awaited",
        "RFC 9113, section 6.8",
        control::goaway_of_upstream,
    ),
];

/// Runs a case against direct and then against the gateway. Returns its name, with how the gateway differs.
///
/// # Errors
/// If direct does not keep the rule.
pub(super) fn observe(
    case: &Http2Case,
    direct: &HttpClient<'_>,
    gateway: &HttpClient<'_>,
) -> anyhow::Result<(&'static str, Option<String>)> {
    let upstream = || delays(direct);
    let connect = |config: Config| direct.session(config, SERVER_NAME);
    let there = Side { connect: &connect, upstream: &upstream, patience: PATIENCE };
    let connect = |config: Config| gateway.session(config, SERVER_NAME);
    let here = Side { connect: &connect, ..there };
    compare((case.name, case.rule), ((case.test)(&there), (case.test)(&here)))
}

/// Reads the upstream's counts from its echo.
fn delays(direct: &HttpClient<'_>) -> anyhow::Result<Delays> {
    let request = format!("GET {ECHO} HTTP/1.1\r\nhost: {SERVER_NAME}\r\n\r\n");
    let answer = direct.send(request.as_bytes(), false)?;
    let echo: serde_json::Value = serde_json::from_slice(&answer.body)?;
    let count = |member: &str| {
        echo[member].as_u64().ok_or_else(|| anyhow::anyhow!("the upstream's echo has no `{member}`"))
    };
    Ok(Delays { delayed: count("delayed")?, abandoned: count("abandoned")? })
}

//! Cases that exist only in gRPC. The upstream is scripted: it answers each method as one case needs, and
//! records what it received. Each case runs against such an upstream itself and against the gateway.

mod control;
mod metadata;
mod script;
mod side;
mod state;
mod status;
mod streams;
#[cfg(test)]
mod tests;
mod upstream;

pub use upstream::GrpcUpstream;

use super::case_of_rule::case_of_rule;
use super::http2::side::{Outcome, compare, on_both};
use crate::features::SERVER_NAME;
use hoptax_servers::http_client::HttpClient;
use hoptax_wire::http2::Config;
use side::Side;
use std::time::Duration;

/// How long to wait for something that a gateway may never pass on, such as a cancel. The time is long, for
/// busy machines, because only gateways that differ cause this wait.
const PATIENCE: Duration = Duration::from_secs(3);

case_of_rule! {
    /// One rule of gRPC.
    GrpcCase
}

/// gRPC over HTTP/2: requests and responses.
const PROTOCOL: &str = "doc/PROTOCOL-HTTP2.md";
/// The status of answers that are not gRPC.
const MAPPING: &str = "doc/http-grpc-status-mapping.md";

/// All cases, in the order of the test.
pub const GRPC_CASES: [GrpcCase; 20] = [
    case("grpc-status", "a status in trailers", PROTOCOL, status::in_trailers),
    case("grpc-trailers-only", "a status in the head, without a message", PROTOCOL, status::trailers_only),
    case("grpc-no-status", "an answer without a status", MAPPING, status::no_status),
    case("grpc-http-errors", "answers that are not gRPC", MAPPING, status::http_errors),
    case("grpc-message", "a text about the status, with escapes", PROTOCOL, status::encoded_message),
    case("grpc-deadline", "a deadline that the upstream finds exceeded", PROTOCOL, status::deadline),
    case("grpc-request-metadata", "text and binary metadata of a request", PROTOCOL, metadata::of_request),
    case("grpc-response-metadata", "text and binary metadata of a response", PROTOCOL, metadata::of_response),
    case("grpc-timeout", "the client's time limit", PROTOCOL, metadata::timeout),
    case("grpc-content-type", "`te`, and a content type with `+proto`", PROTOCOL, metadata::content_type),
    case("grpc-encoding", "an unknown compression", "doc/compression.md", metadata::unknown_encoding),
    case("grpc-both-ways", "messages that wait for answers", PROTOCOL, streams::both_ways),
    case("grpc-server-stream", "a message long before the next", PROTOCOL, streams::server_stream),
    case("grpc-half-close", "the end of a request during the response", PROTOCOL, streams::half_close),
    case("grpc-4m", "messages of 4 MiB", PROTOCOL, streams::large_messages),
    case("grpc-slow-reader", "a client that reads slowly", "RFC 9113, section 6.9", streams::slow_reader),
    case(
        "grpc-trailers-behind-data",
        "trailers that wait until the client reads",
        "RFC 9113, section 6.9",
        streams::trailers_behind_data,
    ),
    case("grpc-cancel", "a call that the client cancels", PROTOCOL, control::cancel),
    case("grpc-pings", "keep-alive pings during a call", "doc/keepalive.md", control::pings),
    case("grpc-goaway", "GOAWAY of the upstream during calls", "RFC 9113, section 6.8", control::goaway),
];

/// Runs every case against an upstream itself and against the gateway. Returns the names of the cases, with
/// how the gateway differs. `sides` has the clients of the upstream and of the gateway. Each side has an
/// upstream of its own, because the cases read its counts.
///
/// # Errors
/// If the upstream does not keep a rule.
pub(super) fn observe(
    sides: [(&HttpClient<'_>, &GrpcUpstream); 2],
) -> anyhow::Result<Vec<(&'static str, Option<String>)>> {
    let outcomes = on_both(&sides, |(client, upstream)| {
        let connect = |config: Config| client.session(config, SERVER_NAME);
        let side = Side { connect: &connect, upstream: &upstream.shared, patience: PATIENCE };
        GRPC_CASES.iter().map(|case| (case.test)(&side)).collect()
    });
    let cases = GRPC_CASES.iter().zip(outcomes);
    cases.map(|(case, outcomes)| compare((case.name, case.rule), outcomes)).collect()
}

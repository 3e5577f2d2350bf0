//! Integration tests of the `hoptax` binary. Many of them use real gateways.

/// Ends a test if one of these packs is missing (see [`world::is_missing`]).
macro_rules! needs {
    ($($pack:expr),+) => {
        if $(crate::world::is_missing($pack))||+ {
            return;
        }
    };
}

/// Ends a test if this is true. The caller notes the skip.
macro_rules! skip_if {
    ($is_skipped:expr) => {
        if $is_skipped {
            return;
        }
    };
}

mod agent;
mod as_curl_sends;
mod browser;
mod calibrate;
mod capacity;
mod chunked_bodies;
mod client_certificate;
mod clients;
mod cluster;
mod compare;
mod conformance;
mod connections;
mod corpus;
mod delayed_ack;
mod docker;
mod docs;
mod doctor;
mod documented_packs;
mod driver;
mod echo;
mod events;
mod examples;
mod features;
mod features_envoy;
mod features_extra;
mod findings;
mod forward_hop;
mod forward_proxy;
mod forward_proxy_tls;
mod grpc_gateways;
mod grpc_peers;
mod grpc_runs;
mod grpc_streams;
mod grpc_translation;
mod guides;
mod history;
mod hop;
mod hop_delay;
mod hosts;
mod http2_features;
mod http2_runs;
mod http2_upstream;
mod import;
mod kept_runs;
mod kubernetes_lab;
mod lab;
mod layers;
mod lint;
mod llm;
mod llm_findings;
mod load;
mod load_flags;
mod load_live;
mod load_output;
mod names;
mod origin;
mod own_gateway;
mod pack_docs;
mod packs;
mod path;
mod plan;
mod planted;
mod prices;
mod probes;
mod profiles;
mod prometheus;
mod proofs;
mod proxy_protocol;
mod pull_request;
mod readiness;
mod report;
mod report_formats;
mod requests;
mod run;
mod run_live;
mod running_upstream;
mod secrets;
mod serve;
mod shell;
mod sidecar;
mod source_rules;
mod sse;
mod starts;
mod stream_findings;
mod stream_peers;
mod support;
mod tails;
mod targets;
mod terraform;
mod test_notes;
mod tls;
mod token_review;
mod unix_upstream;
mod upstream;
mod upstream_leg;
mod versions;
mod warm_up;
mod websocket;
mod wire;
mod workflows;
mod world;

//! The facts about packs that are needed to check a plan.

use crate::ProxyForm;
use hoptax_format::llm::Api;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Whether a pack configures its gateway to speak HTTP/2 with clients, on the port for traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientHttp2 {
    /// It offers only HTTP/1.
    #[default]
    No,
    /// The port accepts HTTP/1 and HTTP/2.
    Shared,
    /// With TLS, the port accepts HTTP/1 and HTTP/2. Without TLS, it accepts only HTTP/2 if the load uses it,
    /// and only HTTP/1 otherwise.
    Exclusive,
}

/// What a gateway needs that passes only requests to language models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmGateway {
    /// The APIs that it passes; at least one.
    pub apis: Vec<Api>,
    /// Text that requests to it have before their path, such as `/openai`. Empty if there is none.
    #[serde(default)]
    pub prefix: String,
    /// Headers of all requests to it, by name. They replace headers of the same name. Values are templates.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The only model that it passes requests for. Absent if it passes requests for every model.
    pub model: Option<String>,
}

/// Facts about a pack that are needed to check a plan. The lab reads them from the pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackInfo {
    /// The pack's name.
    pub name: String,
    /// Names of the supported features.
    pub features: Vec<String>,
    /// Unsupported features, each with the reason why it is unsupported.
    pub unsupported: BTreeMap<String, String>,
    /// Names of the pack's variants. Empty if the pack has no variants.
    pub variants: Vec<String>,
    /// Whether the gateway speaks HTTP/2 with clients.
    pub http2: ClientHttp2,
    /// Whether the gateway can speak HTTP/2 to upstreams.
    pub upstream_http2: bool,
    /// Whether the gateway accepts requests over TLS only, so that it always has the feature `tls`.
    pub always_tls: bool,
    /// Whether the gateway can start in a container.
    pub docker: bool,
    /// The image of that container.
    pub image: Option<String>,
    /// Whether the gateway can reload its configuration.
    pub reloads: bool,
    /// Whether the gateway has a page of metrics on its admin port.
    pub has_metrics: bool,
    /// Whether the gateway can forward to a Unix socket.
    pub unix_upstream: bool,
    /// The variants in which the gateway is a forward proxy, and how requests ask it.
    pub proxy: BTreeMap<String, ProxyForm>,
    /// Whether the gateway is a sidecar that intercepts traffic in a network namespace.
    pub intercepts: bool,
    /// Whether the gateway passes gRPC calls to the upstream over HTTP/2, although it speaks HTTP/1 there
    /// otherwise.
    pub grpc: bool,
    /// Whether the gateway passes WebSockets.
    pub websocket: bool,
    /// What the gateway needs, if it passes only requests to language models.
    pub llm: Option<LlmGateway>,
    /// The same for single variants, by name. It replaces `llm`.
    pub llm_variants: BTreeMap<String, LlmGateway>,
}

impl PackInfo {
    /// What this variant needs, if it passes only requests to language models; by default the first variant.
    pub(crate) fn llm_of(&self, variant: Option<&str>) -> Option<&LlmGateway> {
        let variant = variant.or(self.variants.first().map(String::as_str));
        variant.and_then(|variant| self.llm_variants.get(variant)).or(self.llm.as_ref())
    }
}

/// The name of a pack's variant in plans and records, such as `istio-sidecar@tuned`. Names of packs cannot
/// contain `@`.
pub fn variant_name(pack: &str, variant: &str) -> String {
    format!("{pack}@{variant}")
}

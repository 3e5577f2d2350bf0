//! Targets, expectations and timeouts in YAML.

use super::forms::one_key;
use super::{Bytes, Ordered, Placed, Short, StatusText, Sweep, Text, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A request to send.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "target")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTarget {
    /// Unique name of the target. Default: method and path.
    #[schemars(with = "Option<Text>")]
    pub(crate) name: Option<Placed<String>>,
    /// Weight in the mix: the share of requests is the weight over the sum of weights. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) weight: Option<Placed<u32>>,
    /// Method. Default: GET.
    #[schemars(with = "Option<Text>")]
    pub(crate) method: Option<Placed<String>>,
    /// Path and query, starting with `/`; a template. Default: /.
    pub(crate) path: Option<Placed<String>>,
    /// Headers in order; values are templates, and a list repeats the header. Default: only `host`, with the address.
    pub(crate) headers: Option<Ordered<Sweep<Text>>>,
    /// Request body: a size, or a mapping with one of `size`, `text`, `file`. Default: none.
    pub(crate) body: Option<Placed<Short<RawRequestBody, Bytes>>>,
    /// Checks that a response must pass to count as success. Default: a status of 200 to 399.
    pub(crate) expect: Option<RawExpect>,
}

/// Body of a request; exactly one of `size`, `text` and `file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "request-body", transform = one_key)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRequestBody {
    /// This many bytes of a fixed printable pattern.
    pub(crate) size: Option<Placed<Bytes>>,
    /// This text.
    pub(crate) text: Option<Placed<Text>>,
    /// The content of this file. A relative path starts from the plan's directory.
    #[schemars(with = "Option<Text>")]
    pub(crate) file: Option<Placed<String>>,
    /// Whether templates such as `{{seq}}` in the body are expanded. Default: true for `text`, false for `file`.
    pub(crate) template: Option<Placed<bool>>,
}

/// Checks of responses. All given checks must hold.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "expect")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExpect {
    /// Accepted statuses: a status, a class, a range, or a list of them. Default: 200-399.
    pub(crate) status: Option<Sweep<StatusText>>,
    /// Checks of the body. Default: none.
    pub(crate) body: Option<Placed<RawBodyExpect>>,
    /// Required headers with their values; `any` accepts any value. Default: none.
    pub(crate) headers: Option<Ordered<Placed<Text>>>,
    /// Whether bodies differ between responses. If so, a gateway's body is not compared with direct's. Default: false.
    pub(crate) varies: Option<bool>,
}

/// Checks of a response body.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "expect-body", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBodyExpect {
    /// Text that the body must contain; with a list, all of them.
    pub(crate) contains: Option<Sweep<Text>>,
    /// The whole text of the body.
    pub(crate) equals: Option<Placed<Text>>,
    /// Length of the body: a size, or a mapping of `least` and `most`.
    pub(crate) length: Option<Placed<Short<RawLength, Bytes>>>,
}

/// Bounds of a length, both included.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "length", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLength {
    /// Smallest length. Default: 0B.
    pub(crate) least: Option<Placed<Bytes>>,
    /// Largest length. Default: no limit.
    pub(crate) most: Option<Placed<Bytes>>,
}

/// Timeouts. `connect` and `first_byte` default to `total`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "timeout", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTimeouts {
    /// Timeout for each connect. The TLS handshake after it has the same timeout of its own.
    pub(crate) connect: Option<Placed<Time>>,
    /// Time from sending a request to the first byte of its response.
    pub(crate) first_byte: Option<Placed<Time>>,
    /// Time from sending a request to the end of its response. Default: 3s.
    pub(crate) total: Option<Placed<Time>>,
}

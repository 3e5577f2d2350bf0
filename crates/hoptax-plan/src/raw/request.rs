//! What is requested, and what its answers must be like.

use super::forms::one_key;
use super::{Bytes, Ordered, Placed, Short, StatusText, Sweep, Text, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// What is requested.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "target")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTarget {
    /// Distinct name among the targets. Default: method and path.
    #[schemars(with = "Option<Text>")]
    pub(crate) name: Option<Placed<String>>,
    /// Share of the requests: weight over the sum of weights. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) weight: Option<Placed<u32>>,
    /// Method. Default: GET.
    #[schemars(with = "Option<Text>")]
    pub(crate) method: Option<Placed<String>>,
    /// Path and query, beginning with `/`; a template. Default: /.
    pub(crate) path: Option<Placed<String>>,
    /// Headers in order; a list repeats the header; values are templates. Default: `host`, the address connected to.
    pub(crate) headers: Option<Ordered<Sweep<Text>>>,
    /// Request body: a size, or a mapping with one of `size`, `text`, `file`. Default: none.
    pub(crate) body: Option<Placed<Short<RawRequestBody, Bytes>>>,
    /// What an answer must be like to count as a success. Default: a status of 200 to 399.
    pub(crate) expect: Option<RawExpect>,
}

/// Bytes of a request; exactly one of `size`, `text` and `file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "request-body", transform = one_key)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRequestBody {
    /// This many bytes of a fixed printable pattern.
    pub(crate) size: Option<Placed<Bytes>>,
    /// This text.
    pub(crate) text: Option<Placed<Text>>,
    /// The content of this file; a relative path starts at the plan's directory.
    #[schemars(with = "Option<Text>")]
    pub(crate) file: Option<Placed<String>>,
    /// Whether `{{…}}` in it is expanded. Default: true for `text`, false for `file`.
    pub(crate) template: Option<Placed<bool>>,
}

/// What an answer must be like; every key that is given must hold.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "expect")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExpect {
    /// A status, a class or a range, or a list of them. Default: 200-399.
    pub(crate) status: Option<Sweep<StatusText>>,
    /// What its body must be like. Default: anything.
    pub(crate) body: Option<Placed<RawBodyExpect>>,
    /// Headers that it must have: each with its value, or `any`. Default: none.
    pub(crate) headers: Option<Ordered<Placed<Text>>>,
    /// Whether bodies differ from one answer to the next, so that a gateway's is not held against direct's. Default: false.
    pub(crate) varies: Option<bool>,
}

/// What the body of an answer must be like.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "expect-body", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBodyExpect {
    /// Text that it contains; a list: all of them.
    pub(crate) contains: Option<Sweep<Text>>,
    /// Text that it is.
    pub(crate) equals: Option<Placed<Text>>,
    /// Its length: a size, or a mapping of `least` and `most`.
    pub(crate) length: Option<Placed<Short<RawLength, Bytes>>>,
}

/// Bounds of a length, ends included.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "length", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLength {
    /// No shorter than this. Default: 0B.
    pub(crate) least: Option<Placed<Bytes>>,
    /// No longer than this. Default: any length.
    pub(crate) most: Option<Placed<Bytes>>,
}

/// When to give up. What is left out is as `total`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "timeout", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTimeouts {
    /// Given to each connect, and after it to each TLS handshake.
    pub(crate) connect: Option<Placed<Time>>,
    /// From the moment a request was sent to the first byte of its answer.
    pub(crate) first_byte: Option<Placed<Time>>,
    /// From the moment a request was sent to the end of its answer. Default: 3s.
    pub(crate) total: Option<Placed<Time>>,
}

//! What was typed, as plain structs: the parser and the JSON Schema both come from these, so they cannot drift apart.
//!
//! Values with units are still text here; [`super::meaning`] understands them, and reports every one that is wrong.

use super::error::Place;
use super::{AccessLog, Metric, Profile};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A value and where it was typed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "$placed")]
pub(crate) struct Placed<T> {
    pub(crate) place: Place,
    pub(crate) value: T,
}

/// One value, or several to sweep over.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "$sweep", bound = "T: DeserializeOwned")]
pub(crate) struct Sweep<T>(pub(crate) Vec<Placed<T>>);

/// A bare word, or a mapping that says more.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "$short", rename_all = "lowercase")]
pub(crate) enum Short<T> {
    Word(String),
    Full(T),
}

/// A mapping whose keys are free, in the order typed.
#[derive(Debug, Clone)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(Placed<String>, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Placed<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Sweep<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Sweep_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

impl<T: JsonSchema> JsonSchema for Short<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Short_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let full = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "type": "string" }, full] })
    }
}

impl<T: JsonSchema> JsonSchema for Ordered<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Ordered_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": value })
    }
}

/// Declares text that has a form: a newtype whose schema gives the form to editors.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident { $($schema:tt)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(pub(crate) String);

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ $($schema)* })
            }
        }
    )*};
}

texts! {
    Time {
        "type": "string",
        "pattern": r"^[0-9]*\.?[0-9]+ *(ns|us|µs|ms|s|m|h)$",
        "description": "A number and a unit: ns, us, ms, s, m or h, as in 250ms."
    }
    Bytes {
        "type": "string",
        "pattern": r"^[0-9]*\.?[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)$",
        "description": "A number and a unit: B, KiB, MiB, GiB (1024) or kB, MB, GB (1000)."
    }
    Rate {
        "type": "string",
        "pattern": r"^[0-9]*\.?[0-9]+ */ *[smh]$",
        "description": "Requests per second, minute or hour: 1000/s, 60/m, 100/h."
    }
    Share {
        "type": ["string", "number"],
        "description": "A percentage such as 1%, or a number from 0 to 1."
    }
    DelayText {
        "type": "string",
        "description": "A duration, uniform(1ms, 5ms), exponential(2ms) or choice(99% 0ms, 1% 50ms). Quote it inside braces."
    }
    ArrivalsText {
        "type": "string",
        "pattern": r"^(constant|poisson|jitter|jitter *\(.*\))$",
        "description": "constant, jitter (±10 %), jitter(25%) or poisson."
    }
    CpuList {
        "type": ["string", "integer"],
        "description": "CPU numbers: \"0\", \"0,2\" or \"2-3\"."
    }
    Limit {
        "type": ["string", "number"],
        "description": "In the metric's unit: 1ms, 0.9, 5%, 64MiB."
    }
}

/// What to measure: one upstream, any number of gateways, one target, how to load it, how often.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "plan")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPlan {
    /// Names the run directory: letters, digits, `.`, `_` and `-`. Default: the plan's file name.
    pub(crate) name: Option<Placed<String>>,
    /// The service behind the gateways. Default: the built-in one with its defaults.
    pub(crate) upstream: Option<Placed<RawUpstream>>,
    /// The systems under test: a pack's name, or a mapping that says more. Direct is always measured, too.
    pub(crate) gateways: Vec<Placed<Short<RawGateway>>>,
    /// What is requested. Default: GET /.
    pub(crate) target: Option<RawTarget>,
    /// How it is requested. Each entry is one load point, or several where it sweeps over lists.
    pub(crate) load: Placed<Vec<Placed<RawLoad>>>,
    /// Rounds: every case is measured once in each. Default: 5.
    pub(crate) trials: Option<Placed<u32>>,
    /// Traffic before the measured time of each trial, thrown away. Default: 2s.
    pub(crate) warmup: Option<Placed<Time>>,
    /// Quiet between trials. Default: 0s.
    pub(crate) pause: Option<Placed<Time>>,
    /// Given to each connect and to each request. Default: 3s.
    pub(crate) timeout: Option<Placed<Time>>,
    /// Which settings gateways get. Default: equalised.
    pub(crate) profile: Option<Profile>,
    /// Whether gateways write access logs. Default: off.
    pub(crate) access_log: Option<AccessLog>,
    /// `auto`, or CPUs by role. Default: auto.
    pub(crate) cpus: Option<Placed<Short<RawCpus>>>,
    /// Start each gateway afresh for each of its trials, instead of once for the run. Default: false.
    pub(crate) isolate: Option<bool>,
    /// Decides the order of trials and the arrivals. Default: drawn, and recorded.
    pub(crate) seed: Option<u64>,
    /// Limits whose breach makes `hoptax run` exit 3. Default: none.
    pub(crate) budget: Option<Vec<Placed<RawBudget>>>,
}

/// The service behind the gateways: the built-in one, or with `url` one that already runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "upstream")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawUpstream {
    /// One that already runs, as http://host:port. It has no ledger. Excludes every other key.
    pub(crate) url: Option<Placed<String>>,
    /// Listeners, each with its own port and thread. Default: 1.
    pub(crate) instances: Option<Placed<u32>>,
    /// Status answered. Default: 200.
    pub(crate) status: Option<Placed<u16>>,
    /// Headers added to every answer; a list repeats the header. Default: none.
    pub(crate) headers: Option<Ordered<Sweep<String>>>,
    /// Body answered: a size, or a mapping with one of `size`, `text`, `file`. Default: 1KiB.
    pub(crate) body: Option<Placed<Short<RawBody>>>,
    /// How long each answer is held back. Default: 0ms.
    pub(crate) delay: Option<Placed<DelayText>>,
    /// Share of requests answered with 500 instead. Default: 0%.
    pub(crate) failures: Option<Placed<Share>>,
    /// First instance's port, the others' follow. Default: asked of the kernel.
    pub(crate) port: Option<Placed<u16>>,
}

/// Bytes of a request or an answer; exactly one key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "body")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBody {
    /// This many bytes of a fixed printable pattern.
    pub(crate) size: Option<Placed<Bytes>>,
    /// This text.
    pub(crate) text: Option<Placed<String>>,
    /// The content of this file; a relative path starts at the plan's directory.
    pub(crate) file: Option<Placed<String>>,
}

/// One system under test.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "gateway")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGateway {
    /// A pack's name, `hop-l4`, `hop-l7`, or `external` for one that already runs.
    pub(crate) name: Placed<String>,
    /// Distinct name in this plan: letters, digits, `.`, `_` and `-`. Default: its name.
    pub(crate) label: Option<Placed<String>>,
    /// Worker threads or processes. Default: 1.
    pub(crate) workers: Option<Placed<u32>>,
    /// Features switched on; `hoptax gateways` lists what each pack offers. Default: none.
    pub(crate) features: Option<Vec<Placed<String>>>,
    /// Where an `external` one answers, as http://host:port.
    pub(crate) url: Option<Placed<String>>,
    /// A process of an `external` one whose CPU and memory are watched, with its descendants'.
    pub(crate) pid: Option<Placed<u32>>,
}

/// What is requested.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "target")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTarget {
    /// Method. Default: GET.
    pub(crate) method: Option<Placed<String>>,
    /// Path and query, beginning with `/`. Default: /.
    pub(crate) path: Option<Placed<String>>,
    /// Headers in order; a list repeats the header. Default: `host`, the address connected to.
    pub(crate) headers: Option<Ordered<Sweep<String>>>,
    /// Request body: a size, or a mapping with one of `size`, `text`, `file`. Default: none.
    pub(crate) body: Option<Placed<Short<RawBody>>>,
}

/// Closed: each connection sends its next request when the previous response ends. Open: requests are due at scheduled
/// times whatever the responses do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "loop")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLoop {
    Closed,
    Open,
}

/// One way of loading. A list is a sweep; several lists give every combination, the first typed changing slowest.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "load")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoad {
    /// When requests are due.
    #[serde(rename = "loop")]
    pub(crate) loops: Sweep<RawLoop>,
    /// Connections.
    pub(crate) connections: Sweep<u32>,
    /// Requests asked for per second, minute or hour over all connections: open loops need it, closed ones have none.
    pub(crate) rate: Option<Sweep<Rate>>,
    /// How the scheduled times of an open loop are spread. Default: constant.
    pub(crate) arrivals: Option<Sweep<ArrivalsText>>,
    /// Measured time of one trial. Default: 10s.
    pub(crate) duration: Option<Sweep<Time>>,
    /// Stop after this many requests, if that comes before the duration, which must then be given.
    pub(crate) requests: Option<Sweep<u64>>,
}

/// CPUs by role; a role that is left out is not pinned.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "cpus")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCpus {
    /// The generator's.
    pub(crate) generator: Option<Placed<CpuList>>,
    /// The gateways', all of them: only one is under load at a time.
    pub(crate) gateway: Option<Placed<CpuList>>,
    /// The upstream's.
    pub(crate) upstream: Option<Placed<CpuList>>,
}

/// A limit on one metric.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "budget")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBudget {
    /// A gateway's label. Default: every gateway.
    pub(crate) gateway: Option<Placed<String>>,
    /// What is limited.
    pub(crate) metric: Placed<Metric>,
    /// Above this is a breach.
    pub(crate) max: Option<Placed<Limit>>,
    /// Below this is a breach.
    pub(crate) min: Option<Placed<Limit>>,
}

/// The JSON Schema (draft 2020-12) of plans, as `hoptax schema` prints it.
pub fn schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.into_generator().into_root_schema_for::<RawPlan>().to_value()
}

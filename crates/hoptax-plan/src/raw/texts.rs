//! Newtypes for text and numbers with a fixed form. Their schemas describe the form to editors.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// Declares newtypes for text with a fixed form.
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
    DeadlineText {
        "type": "string",
        "pattern": r"^(drop|[0-9]*\.?[0-9]+ *(ns|us|µs|ms|s|m|h))$",
        "description": "drop, or a time such as 100ms."
    }
    ListenText {
        "type": "string",
        "pattern": r"^unix(:/.+)?$",
        "description": "unix, or unix:/path/to/socket."
    }
    PrecisionText {
        "type": "string",
        "pattern": r"^[0-9]*\.?[0-9]+ *(ns|us|µs|ms|s|%)$",
        "description": "A share such as 5%, or a time such as 5us."
    }
    Bytes {
        "type": "string",
        "pattern": r"^[0-9]*\.?[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)$",
        "description": "A number and a unit: B, KiB, MiB, GiB (1024) or kB, MB, GB (1000)."
    }
    BytesText {
        "type": ["string", "integer"],
        "pattern": r"^([0-9]+|[0-9]*\.?[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB))$",
        "minimum": 35,
        "maximum": 4_194_304,
        "description": "35B to 4MiB: a size such as 64B, or a number of bytes."
    }
    SizesText {
        "type": "string",
        "pattern": r"^([0-9]*\.?[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)|choice\(.+\))$",
        "description": "A size such as 1KiB, or a distribution such as choice(90% 1KiB, 10% 64KiB)."
    }
    Rate {
        "type": "string",
        "pattern": Form::Pace.pattern(),
        "description": "Requests per second, minute or hour: 1000/s, 60/m, 100/h. Or stages, separated by \
            commas."
    }
    SteadyRate {
        "type": "string",
        "pattern": r"^ *[0-9]*\.?[0-9]+ */ *[smh] *$",
        "description": "Requests per second, minute or hour: 1000/s, 60/m, 100/h."
    }
    SearchedText {
        "type": ["string", "integer"],
        "pattern": r"^( *[0-9]*\.?[0-9]+ */ *[smh] *|[1-9][0-9]*)$",
        "minimum": 1,
        "description": "A rate such as 1000/s. In a closed loop, a number of connections."
    }
    ObjectiveText {
        "type": "string",
        "description": "Limits on p1 to p99.999, mean, max, errors or throughput, such as p99 < 10ms and \
            errors < 0.1%. Of streams of tokens also first_content_p99 and goodput."
    }
    StageText {
        "type": "string",
        "pattern": Form::Stage.pattern(),
        "description": "A stage: 100/s for 10s, ramp to 5000/s over 60s, or ramp from 100/s to 5000/s over \
            60s."
    }
    StatusText {
        "type": ["string", "integer"],
        "pattern": r"^([2-5][0-9][0-9]( *- *[2-5][0-9][0-9])?|[2-5]xx)$",
        "minimum": 200,
        "maximum": 599,
        "description": "A status, a class or a range: 200, 2xx, 200-204."
    }
    KeepAliveText {
        "type": ["string", "integer"],
        "pattern": r"^(on|off|[1-9][0-9]*( +requests?)?)$",
        "minimum": 1,
        "description": "on, off, or the number of requests per connection, such as 100."
    }
    TrialsText {
        "type": ["string", "integer"],
        "pattern": r"^(auto|[1-9][0-9]*)$",
        "minimum": 1,
        "description": "Number of rounds, or auto."
    }
    MessagesText {
        "type": ["string", "integer"],
        "pattern": r"^(endless|[1-9][0-9]*)$",
        "minimum": 1,
        "maximum": 1_000_000,
        "description": "Number of messages, or endless: until the trial ends."
    }
    HttpText {
        "enum": ["1.0", "1.1", "2", "2.0", 1.0, 1.1, 2],
        "description": "1.0, 1.1 or 2."
    }
    FeatureText {
        "type": "string",
        "description": "A feature of the pack, such as key-auth. `hoptax gateways` lists the features of \
            packs."
    }
    FeaturesText {
        "enum": ["each", "all-pairs"],
        "description": "each: without features, and with each feature alone. all-pairs: also every pair of \
            features."
    }
    ApiText {
        "enum": ["openai", "responses", "anthropic"],
        "description": "API of language models: openai (chat completions), responses or anthropic."
    }
    JwtText {
        "enum": ["HS256", "RS256"],
        "description": "Signature algorithm of the tokens."
    }
    ProxyText {
        "enum": ["v1", "v2"],
        "description": "Version of the PROXY protocol: v1 (text) or v2 (binary)."
    }
    AskText {
        "enum": ["first", "middle", "last"],
        "description": "Position of a route: first, middle or last."
    }
    AddressText {
        "type": "string",
        "description": "An IP address of this machine, such as 127.0.0.2."
    }
    HostAddress {
        "type": "string",
        "description": "An IP address of the host, such as 10.0.0.2."
    }
    Text {
        "type": ["string", "number", "boolean"],
        "description": "Text."
    }
    Auto {
        "const": "auto"
    }
    OnOffText {
        "enum": ["on", "off"],
        "description": "on or off."
    }
    Share {
        "type": ["string", "number"],
        "description": "A percentage such as 1%, or a number from 0 to 1."
    }
    DelayText {
        "type": "string",
        "description": "A duration, uniform(1ms, 5ms), exponential(2ms) or choice(99% 0ms, 1% 50ms). Quote \
            it inside braces."
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
        "description": "A value in the metric's unit (1ms, 0.9, 5%, 64MiB), or a change with a sign (+10%)."
    }
}

/// Declares newtypes for whole numbers with a minimum.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident($type:ident) $least:literal)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(pub(crate) $type);

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "integer", "minimum": $least, "maximum": $type::MAX })
            }
        }
    )*};
}

counts! {
    /// Number of connections.
    ConnectionCount(u32) 1
    /// Number of streams on a connection.
    StreamCount(u32) 1
    /// Number of requests.
    RequestCount(u64) 1
}

/// Forms of text that share parts of their patterns.
enum Form {
    /// One rate, or stages with commas between them.
    Pace,
    /// One stage.
    Stage,
}

impl Form {
    fn pattern(&self) -> String {
        const RATE: &str = r"[0-9]*\.?[0-9]+ */ *[smh]";
        const TIME: &str = r"[0-9]*\.?[0-9]+ *(ns|us|µs|ms|s|m|h)";
        let stage = format!("({RATE} +for +{TIME}|ramp( +from +{RATE})? +to +{RATE} +over +{TIME})");
        match self {
            Self::Pace => format!("^ *({RATE}|{stage}( *, *{stage})*) *$"),
            Self::Stage => format!("^ *{stage} *$"),
        }
    }
}

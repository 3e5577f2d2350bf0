//! Requests to the language model.

use super::shortened::Shortened;
use hoptax_format::llm::Api;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Maximum length of a request, bytes.
const LONGEST: usize = 16 << 20;
/// Maximum length of the name of a model or of a tool, bytes.
const LONGEST_NAME: usize = 256;
/// Maximum number of texts of a request for embeddings, as at OpenAI.
const MOST_INPUTS: usize = 2048;

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text(Api),
    Embeddings,
    /// The list of the models.
    Models,
    Health,
}

/// A request that is being read.
#[derive(Debug)]
pub(in crate::upstream) struct Incoming {
    pub(super) kind: Kind,
    pub(super) has_key: bool,
    /// Length of the body so far, bytes.
    pub(super) length: usize,
    /// The body without the rest of long strings, because many long prompts would fill the memory.
    body: Shortened,
}

impl Incoming {
    /// Begins a request. `None` if the model does not answer such requests. `target` is the path with its
    /// query.
    pub(in crate::upstream) fn new(method: &[u8], target: &[u8]) -> Option<Self> {
        let path = &target[..memchr::memchr(b'?', target).unwrap_or(target.len())];
        let kind = match method {
            b"POST" if path.ends_with(b"/embeddings") => Kind::Embeddings,
            b"POST" => Kind::Text(Api::of_path(path)?),
            b"GET" if path.ends_with(b"/models") => Kind::Models,
            b"GET" if path == b"/health" => Kind::Health,
            _ => return None,
        };
        Some(Self { kind, has_key: false, length: 0, body: Shortened::default() })
    }

    /// Reads the name of a header field. Names can have upper-case letters.
    pub(in crate::upstream) fn field(&mut self, name: &[u8]) {
        const KEYS: [&[u8]; 3] = [b"authorization", b"x-api-key", b"api-key"];
        self.has_key |= KEYS.iter().any(|key| name.eq_ignore_ascii_case(key));
    }

    /// Receives a part of the body.
    pub(in crate::upstream) fn body(&mut self, part: &[u8]) {
        self.length = self.length.saturating_add(part.len());
        match self.length <= LONGEST {
            true => self.body.push(part),
            false => self.body = Shortened::default(),
        }
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// If the request is invalid. The client gets the message.
    pub(super) fn read(&self) -> Result<Asked<'_>, String> {
        if self.length > LONGEST {
            return Err(format!("The request is longer than {LONGEST} bytes."));
        }
        let asked: Asked<'_> = serde_json::from_slice(self.body.json())
            .map_err(|error| format!("We could not parse the JSON body of your request: {error}"))?;
        let (name, inputs) = match self.kind {
            Kind::Text(Api::OpenAi | Api::Anthropic) => ("messages", asked.messages),
            _ => ("input", asked.inputs),
        };
        if asked.model.is_empty() {
            return Err("You must provide a model parameter.".to_owned());
        }
        for (kind, name) in [("model", &*asked.model), ("tool", asked.tool.as_deref().unwrap_or_default())] {
            if name.len() > LONGEST_NAME {
                return Err(format!("The name of the {kind} is longer than {LONGEST_NAME} bytes."));
            }
        }
        if asked.max_tokens == Some(0) {
            return Err("The maximum number of tokens must be at least 1.".to_owned());
        }
        if inputs == 0 {
            return Err(format!("Missing required parameter: '{name}'."));
        }
        if self.kind == Kind::Embeddings && inputs > MOST_INPUTS {
            return Err(format!("A request can have {MOST_INPUTS} inputs at most."));
        }
        Ok(asked)
    }
}

/// The fields of a request that decide the response.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    pub(super) model: Cow<'a, str>,
    pub(super) stream: bool,
    pub(super) max_tokens: Option<u64>,
    pub(super) include_usage: bool,
    /// OpenAI: whether padding makes all events equally long.
    pub(super) include_obfuscation: bool,
    /// The name of the tool that the response must call.
    pub(super) tool: Option<Cow<'a, str>>,
    /// Number of messages, and number of texts. 0 if the field is missing.
    pub(super) messages: usize,
    pub(super) inputs: usize,
    /// Embeddings: whether they are in base64, and how many numbers each has.
    pub(super) is_base64: bool,
    pub(super) dimensions: Option<u64>,
    /// The names of all top-level fields.
    pub(super) fields: Vec<Cow<'a, str>>,
}

/// A string that is copied only if it has escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default, serde::Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    include_obfuscation: Option<bool>,
}

/// A tool, or the choice of one. OpenAI's chat completions have the name in `function`.
#[derive(serde::Deserialize)]
struct Tool<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(serde::Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

impl<'a> Tool<'a> {
    fn name(self) -> Option<Cow<'a, str>> {
        self.name.or_else(|| self.function?.name).map(|Text(name)| name)
    }
}

/// What a request says about calls of its tools.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(#[serde(borrow)] Text<'a>),
    Full(#[serde(borrow)] Tool<'a>),
}

/// The name of the tool that the response must call: the one that is named, or else the first.
fn called<'a>(tools: Vec<Tool<'a>>, choice: Option<Choice<'a>>) -> Option<Cow<'a, str>> {
    let first = tools.into_iter().next()?;
    let (kind, named) = match choice? {
        Choice::Word(kind) => (kind, None),
        Choice::Full(mut choice) => (choice.kind.take()?, choice.name()),
    };
    let is_call = matches!(&*kind.0, "required" | "function" | "any" | "tool");
    named.or_else(|| first.name()).filter(|_| is_call)
}

impl<'de> Deserialize<'de> for Asked<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Asked<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Asked<'de>, A::Error> {
        let mut asked = Asked::default();
        let (mut tools, mut choice) = (Vec::new(), None);
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "model" => asked.model = map.next_value::<Text<'de>>()?.0,
                "stream" => asked.stream = map.next_value::<Option<bool>>()?.unwrap_or_default(),
                "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                    asked.max_tokens = map.next_value::<Option<u64>>()?.or(asked.max_tokens);
                }
                "stream_options" => {
                    let options: StreamOptions = map.next_value::<Option<_>>()?.unwrap_or_default();
                    asked.include_usage = options.include_usage == Some(true);
                    asked.include_obfuscation = options.include_obfuscation == Some(true);
                }
                "tools" => tools = map.next_value::<Option<Vec<Tool<'de>>>>()?.unwrap_or_default(),
                "tool_choice" => choice = map.next_value::<Option<Choice<'de>>>()?,
                "messages" => {
                    // Ignored elements need no memory.
                    let messages: Option<Vec<IgnoredAny>> = map.next_value()?;
                    asked.messages = messages.unwrap_or_default().len();
                }
                "input" => {
                    asked.inputs = match map.next_value::<Option<Input<'de>>>()? {
                        None => 0,
                        Some(Input::Text(Text(_))) => 1,
                        Some(Input::List(list)) => list.len(),
                    };
                }
                "encoding_format" => {
                    let format: Option<Text<'de>> = map.next_value()?;
                    asked.is_base64 = format.is_some_and(|Text(format)| format == "base64");
                }
                "dimensions" => asked.dimensions = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            asked.fields.push(name);
        }
        asked.tool = called(tools, choice);
        Ok(asked)
    }
}

/// The texts of a request, whose content does not matter.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Input<'a> {
    Text(#[serde(borrow)] Text<'a>),
    List(Vec<IgnoredAny>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(path: &str, body: &str) -> Incoming {
        let mut incoming = Incoming::new(b"POST", path.as_bytes()).expect("a request to a model");
        body.as_bytes().chunks(7).for_each(|part| incoming.body(part));
        incoming
    }

    #[test]
    fn requests_to_models_are_recognised() {
        for (method, target, kind) in [
            ("POST", "/v1/chat/completions", Some(Kind::Text(Api::OpenAi))),
            ("POST", "/openai/deployments/a/chat/completions?api-version=1", Some(Kind::Text(Api::OpenAi))),
            ("POST", "/v1/responses", Some(Kind::Text(Api::Responses))),
            ("POST", "/anthropic/v1/messages", Some(Kind::Text(Api::Anthropic))),
            ("POST", "/v1/embeddings", Some(Kind::Embeddings)),
            ("GET", "/v1/models", Some(Kind::Models)),
            ("GET", "/health", Some(Kind::Health)),
            ("GET", "/v1/messages", None),
            ("POST", "/v1/models", None),
            ("GET", "/a?/v1/models", None),
        ] {
            let found = Incoming::new(method.as_bytes(), target.as_bytes());
            assert_eq!(found.map(|found| found.kind), kind, "{method} {target}");
        }
        let mut keyed = incoming("/v1/messages", "");
        keyed.field(b"x-other");
        assert!(!keyed.has_key);
        keyed.field(b"X-API-Key");
        assert!(keyed.has_key);
    }

    #[test]
    fn requests_are_read() {
        let body = r#"{"model":"a\"b","messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[{}],
            "stream_options":{"include_usage":true,"x":1},"max_tokens":7,"max_completion_tokens":null}"#;
        let incoming = incoming("/v1/chat/completions", body);
        let asked = incoming.read().expect("right");
        assert_eq!((&*asked.model, asked.stream, asked.include_usage), ("a\"b", true, true));
        assert_eq!((asked.max_tokens, asked.fields.len(), &*asked.fields[3]), (Some(7), 7, "tools"));
        let body = r#"{"input":["a","b"],"model":"m","encoding_format":"base64"}"#;
        let list = self::incoming("/embeddings", body);
        let asked = list.read().expect("right");
        assert_eq!((asked.inputs, asked.is_base64, asked.stream), (2, true, false));
        let text = self::incoming("/v1/responses", r#"{"input":"a","model":"m","max_output_tokens":3}"#);
        assert_eq!(text.read().expect("right").max_tokens, Some(3));
    }

    #[test]
    fn calls_of_tools_are_required_or_not() {
        let chat = r#"{"type":"function","function":{"name":"a"}}"#;
        let named = r#"{"name":"a"},{"name":"b"}"#;
        for (tools, choice, expected) in [
            (chat, r#""required""#, Some("a")),
            (chat, r#""auto""#, None),
            (chat, "null", None),
            (chat, r#"{"type":"function","function":{"name":"c"}}"#, Some("c")),
            (named, r#"{"type":"any"}"#, Some("a")),
            (named, r#"{"type":"tool","name":"b"}"#, Some("b")),
            (named, r#"{"type":"none"}"#, None),
            (named, "{}", None),
            ("{}", r#""required""#, None),
            ("", r#""required""#, None),
        ] {
            let members = format!(r#""tool_choice":{choice},"tools":[{tools}]"#);
            let body = format!(r#"{{"model":"m","messages":[{{}}],{members}}}"#);
            let incoming = incoming("/v1/messages", &body);
            assert_eq!(incoming.read().expect(&body).tool.as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn wrong_requests_are_refused() {
        const MESSAGES: &str = r#""messages":[{}]"#;
        let told = [
            ("/v1/messages", String::new()),
            ("/v1/messages", "[]".into()),
            ("/v1/messages", format!(r#"{{"model":"m",{MESSAGES}"#)),
            ("/v1/messages", format!(r#"{{"model":"m",{MESSAGES}}} x"#)),
            ("/v1/messages", format!("{{{MESSAGES}}}")),
            ("/v1/messages", format!(r#"{{"model":7,{MESSAGES}}}"#)),
            ("/v1/messages", format!(r#"{{"model":"{}",{MESSAGES}}}"#, "m".repeat(257))),
            ("/v1/messages", format!(r#"{{"model":"m","tools":[1],{MESSAGES}}}"#)),
            ("/v1/messages", format!(r#"{{"model":"m","max_tokens":0,{MESSAGES}}}"#)),
            ("/v1/messages", format!(r#"{{"model":"m","stream":"yes",{MESSAGES}}}"#)),
            ("/v1/messages", r#"{"model":"m"}"#.into()),
            ("/v1/messages", r#"{"model":"m","messages":null}"#.into()),
            ("/v1/chat/completions", r#"{"model":"m","messages":[]}"#.into()),
            ("/v1/chat/completions", r#"{"model":"m","messages":"text"}"#.into()),
            ("/v1/responses", format!(r#"{{"model":"m",{MESSAGES}}}"#)),
            ("/v1/responses", r#"{"model":"m","input":{"a":[1.5,-2,true]}}"#.into()),
            ("/v1/embeddings", r#"{"model":"m","input":[]}"#.into()),
            ("/v1/embeddings", format!(r#"{{"model":"m","input":[1{}]}}"#, ",1".repeat(2048))),
        ]
        .map(|(path, body)| {
            let error = incoming(path, &body).read().expect_err("refused");
            format!("{path} {body:.50}\n    {error}\n")
        });
        insta::assert_snapshot!(told.concat());
        let mut long = incoming("/v1/messages", "{");
        (0..17).for_each(|_| long.body(&[b' '; 1 << 20]));
        assert!(long.body.json().is_empty() && long.read().expect_err("refused").contains("longer than"));
    }
}

//! Language models: the one that the built-in upstream plays, and targets that are requests to one.

use super::body::{self, RequestBody};
use super::reader::{Reader, Timed};
use super::templates::Template;
use crate::error::Place;
use crate::llm;
use crate::raw::{
    ApiText, Bytes, Placed, RawGoodput, RawLeave, RawLlm, RawLlmFailure, RawPause, RawPrompt, RawTarget,
    RawUpstreamLlm, Short, Sweep, Time,
};
use crate::units;
use crate::{Body, BodyKind, Delay, Feature, Gateway, LlmFailure, LlmRequest, Target, Upstream, UpstreamLlm};
use hoptax_format::llm::{Api, Leave, Pause, TokenLimits};
use hoptax_format::messages::{StreamSpec, UNKNOWN};
use hoptax_format::template::{self, Place as Part};
use hoptax_record::bounded;
use std::time::Duration;

/// The place of a key, if the plan has it.
fn place_of<T>(typed: Option<&Placed<T>>) -> Option<Place> {
    typed.map(|typed| typed.place)
}

/// Reads the model that the built-in upstream plays.
pub(super) fn of_upstream(reader: &mut Reader<'_>, typed: Placed<RawUpstreamLlm>) -> UpstreamLlm {
    let Placed { place, value: typed } = typed;
    let places = [
        ("tokens", place_of(typed.tokens.as_ref())),
        ("bytes_per_token", place_of(typed.bytes_per_token.as_ref())),
        ("per_write", place_of(typed.per_write.as_ref())),
        ("split", place_of(typed.split.as_ref())),
        ("heartbeat", place_of(typed.heartbeat.as_ref())),
        ("failures", place_of(typed.failures.as_deref().and_then(<[_]>::last))),
    ];
    let number = |typed: Option<Placed<u32>>, usual| typed.map_or(usual, |typed| typed.value);
    let tokens = number(typed.tokens, UpstreamLlm::USUAL_TOKENS);
    let known = |apis: Sweep<ApiText>| apis.0.iter().filter_map(|api| reader.unit(api, llm::api)).collect();
    let apis: Option<Vec<Api>> = typed.apis.map(known);
    let failures = typed.failures.unwrap_or_default().into_iter();
    let model = UpstreamLlm {
        // An API that is unknown has been reported.
        apis: apis.filter(|apis| !apis.is_empty()).unwrap_or_else(|| Api::ALL.to_vec()),
        first_token: typed
            .first_token
            .and_then(|delay| reader.unit(&delay, units::delay))
            .unwrap_or(Delay::Fixed(Duration::ZERO)),
        gap: reader.time(typed.gap, Duration::ZERO),
        tokens,
        bytes_per_token: typed
            .bytes_per_token
            .and_then(|typed| reader.unit(&typed, units::bytes))
            .unwrap_or(UpstreamLlm::USUAL_BYTES),
        per_write: number(typed.per_write, 1),
        split: number(typed.split, 1),
        crlf: typed.crlf.unwrap_or_default(),
        headers_of_provider: typed.headers_of_provider.unwrap_or_default(),
        usage: typed.usage,
        heartbeat: typed.heartbeat.and_then(|time| reader.unit(&time, units::duration)),
        failures: failures.filter_map(|typed| failure(reader, typed, tokens)).collect(),
    };
    if let Err((key, error)) = llm::check(&model) {
        let own = places.into_iter().find_map(|(name, place)| place.filter(|_| name == key));
        reader.fault(own.unwrap_or(place), error.message, error.help);
    }
    model
}

fn failure(
    reader: &mut Reader<'_>,
    Placed { place, value }: Placed<RawLlmFailure>,
    tokens: u32,
) -> Option<LlmFailure> {
    let share = value.share.map_or(Some(1.0), |share| reader.unit(&share, units::share))?;
    let (at_place, at) = value.at.map_or((place, 0), |at| (at.place, at.value));
    let failure = LlmFailure { kind: value.kind.value, share, at };
    reader.accept(at_place, llm::check_failure(&failure, tokens.max(1))).map(|()| failure)
}

/// A request to a language model, beyond the path and the headers of its target.
pub(super) struct ModelRequest {
    pub(super) request: LlmRequest,
    pub(super) stream: Option<StreamSpec>,
    /// The prompt. If it is a template, the body of the request is one too.
    pub(super) prompt: RequestBody,
    /// The API key.
    pub(super) key: String,
}

/// Reads the request of a target, and removes the keys that it cannot have.
pub(super) fn read(
    reader: &mut Reader<'_>,
    Placed { place, value }: Placed<Short<RawLlm, ApiText>>,
    target: &mut RawTarget,
    upstream: &Upstream,
) -> ModelRequest {
    refuse_others(reader, target);
    let typed = match value {
        Short::Word(value) => RawLlm { api: Some(Placed { place, value }), ..RawLlm::default() },
        Short::Full(typed) => typed,
    };
    let api_place = place_of(typed.api.as_ref()).unwrap_or(place);
    let api = typed.api.and_then(|api| reader.unit(&api, llm::api));
    if let Some(tools) = typed.tools.as_ref().filter(|tools| tools.value > llm::MOST_TOOLS) {
        let message = format!("`tools` is too large: {}", tools.value);
        reader.fault(tools.place, message, format!("write {} or less", llm::MOST_TOOLS));
    }
    let tools = typed.tools.map_or(0, |tools| tools.value);
    let call = typed.tool_call.filter(|call| call.value);
    if let Some(call) = call.as_ref().filter(|_| tools == 0) {
        reader.fault(call.place, "`tool_call` needs `tools`", "add tools: 1");
    }
    let most = typed.max_tokens.as_ref();
    let mut request = LlmRequest {
        stream: typed.stream.unwrap_or(true),
        max_tokens: most.map(|most| reader.count(Some(most), "max_tokens", 1, llm::MOST_TOKENS).max(1)),
        tools,
        tool_call: call.is_some(),
        include_usage: typed.include_usage.unwrap_or(true),
        unique: typed.unique.unwrap_or_default(),
        model: typed
            .model
            .and_then(|model| reader.unit(&model, llm::model))
            .unwrap_or_else(|| LlmRequest::USUAL_MODEL.to_owned()),
        ..LlmRequest::usual(api.unwrap_or(Api::OpenAi))
    };
    let prompt = prompt(reader, typed.prompt, request.unique);
    let key = typed.key.map_or_else(
        || LlmRequest::USUAL_KEY.to_owned(),
        |Placed { place, value: key }| {
            reader.template(Template { place, text: &key.0, part: Part::Header, file: None });
            key.0
        },
    );
    let played = played(reader, (api_place, api), upstream);
    let tokens = played.map(|model| tokens(model, &request));
    let leaves = typed.leave.is_some();
    let leave = typed.leave.and_then(|typed| leave(reader, typed, request.stream, tokens));
    request.pause = typed.pause.and_then(|typed| pause(reader, typed, (request.stream, leaves), tokens));
    let gap = played.map_or(Duration::ZERO, |model| model.gap);
    let stream = request.tokens(tokens.unwrap_or(UNKNOWN), gap, leave);
    if let Some(model) = played {
        note_times(reader, place, model, (&request, stream));
    }
    ModelRequest { request, stream, prompt, key }
}

/// Refuses features that authenticate clients with the header of the API key. `place` is the place of the
/// first request to a language model.
pub(super) fn check_keys(
    reader: &mut Reader<'_>,
    place: Option<Place>,
    targets: &[Target],
    gateways: &[Gateway],
) {
    let is_key = |header: &str| {
        let requests = targets.iter().filter_map(|target| target.llm.as_ref());
        requests.flat_map(|request| request.headers("")).any(|(name, _)| name == header)
    };
    let credential = |feature: &Feature| match feature {
        Feature::KeyAuth => Some((feature.name(), "x-api-key")),
        Feature::BasicAuth | Feature::Jwt(_) | Feature::TokenReview { .. } => {
            Some((feature.name(), "authorization"))
        }
        _ => None,
    };
    let mut credentials = gateways.iter().flat_map(Gateway::features).filter_map(credential);
    if let Some((feature, header)) = credentials.find(|(_, header)| is_key(header))
        && let Some(place) = place
    {
        let message = format!("`{feature}` uses the header `{header}`, which has the API key of `llm`");
        reader.fault(place, message, "remove the feature");
    }
}

/// Gives the streams of all targets the limits of `goodput`.
pub(super) fn set_goodput(
    reader: &mut Reader<'_>,
    typed: Option<Placed<RawGoodput>>,
    targets: &mut [Target],
) {
    let Some(Placed { place, value: RawGoodput { first_content, token_time, response_time } }) = typed else {
        return;
    };
    if first_content.is_none() && token_time.is_none() && response_time.is_none() {
        reader.fault(place, "`goodput` has no limit", "add one, such as first_content: 300ms");
    }
    let mut limit = |typed: Option<Placed<Time>>| typed.and_then(|typed| reader.unit(&typed, llm::limit));
    let limits = TokenLimits {
        first_content_ns: limit(first_content),
        token_time_ns: limit(token_time),
        response_time_ns: limit(response_time),
    };
    for target in targets {
        let name = &target.name;
        let (message, help) = match target.stream.and_then(|stream| stream.tokens).map(|one| one.leave) {
            None => (format!("`{name}` is not a stream of tokens"), "remove `goodput`"),
            Some(Some(_)) => (format!("the client leaves `{name}` early"), "remove `goodput` or `leave`"),
            Some(None) => {
                target.stream = target.stream.map(|stream| stream.with_goodput(Some(limits)));
                continue;
            }
        };
        reader.fault(place, format!("`goodput` needs whole streams of tokens, but {message}"), help);
    }
}

/// Refuses keys that a request to a language model cannot have.
fn refuse_others(reader: &mut Reader<'_>, target: &mut RawTarget) {
    for (key, place) in [
        ("grpc", target.grpc.take().map(|typed| typed.place)),
        ("websocket", target.websocket.take().map(|typed| typed.place)),
        ("events", target.events.take().map(|typed| typed.place)),
        ("method", target.method.take().map(|typed| typed.place)),
        ("body", target.body.take().map(|typed| typed.place)),
    ] {
        let help = match key {
            "method" => "remove it: the request is always a POST",
            "body" => "write `prompt` in `llm` instead",
            "events" => "remove it, or write `stream` in `llm`",
            _ => "remove one of the two",
        };
        if let Some(place) = place {
            reader.fault(place, format!("a target with `llm` has no `{key}`"), help);
        }
    }
}

/// The model that the built-in upstream plays. Reports an error if it plays none, or if the model lacks
/// `api`. `api` is `None` if the plan names an unknown API, which was already reported.
fn played<'u>(
    reader: &mut Reader<'_>,
    (place, api): (Place, Option<Api>),
    upstream: &'u Upstream,
) -> Option<&'u UpstreamLlm> {
    let Upstream::BuiltIn(built_in) = upstream else { return None };
    let Some(model) = &built_in.llm else {
        let message = "the built-in upstream plays no language model";
        reader.fault(place, message, "add upstream: { llm: {} }");
        return None;
    };
    if let Some(api) = api.filter(|api| !model.apis.contains(api)) {
        let known: Vec<&str> = model.apis.iter().map(|api| api.name()).collect();
        let message = format!("the upstream does not have the API {}", api.name());
        let help = format!("add it to `apis` of the upstream's `llm`, or use {}", known.join(" or "));
        reader.fault(place, message, help);
    }
    Some(model)
}

/// Number of tokens of a response.
fn tokens(model: &UpstreamLlm, request: &LlmRequest) -> u32 {
    model.tokens.min(request.most_tokens().unwrap_or(u32::MAX))
}

/// Reads the prompt. `unique` is true if the body is a template for another reason.
fn prompt(
    reader: &mut Reader<'_>,
    typed: Option<Placed<Short<RawPrompt, Bytes>>>,
    unique: bool,
) -> RequestBody {
    let sized = |size| Body::Like { kind: BodyKind::Text, size };
    let (body, is_template) = match typed.map(|typed| (typed.place, typed.value)) {
        None => (sized(LlmRequest::USUAL_PROMPT), false),
        Some((place, Short::Word(value))) => {
            let size = reader.unit(&Placed { place, value }, llm::prompt);
            (sized(size.unwrap_or(LlmRequest::USUAL_PROMPT)), false)
        }
        Some((_, Short::Full(RawPrompt { text: Some(text), file: None }))) => {
            let (place, text) = (text.place, text.value.0);
            check_text(reader, place, &text);
            let is_template = text.contains("{{");
            (Body::Text(text), is_template)
        }
        Some((_, Short::Full(RawPrompt { text: None, file: Some(file) }))) => {
            let path = body::existing(reader, file.place, &file.value, llm::LONGEST_PROMPT);
            let content = bounded::read(&path, llm::LONGEST_PROMPT).map(String::from_utf8);
            // If the file cannot be read, this error has already been reported.
            if let Ok(Err(_)) = content {
                let message = format!("{} is not UTF-8 text", path.display());
                reader.fault(file.place, message, "save the file as UTF-8");
            }
            (Body::File(path), false)
        }
        Some((place, Short::Full(_))) => {
            reader.fault(place, "a prompt needs one of `text` and `file`", "write exactly one of the two");
            (sized(0), false)
        }
    };
    RequestBody { body, is_template: is_template || unique, chunked: None }
}

/// Checks a prompt that can contain templates. Lines of files go into JSON as they are.
fn check_text(reader: &mut Reader<'_>, place: Place, text: &str) {
    let faults_before = reader.faults.len();
    reader.accept(place, llm::check_prompt(text.len() as u64));
    reader.template(Template { place, text, part: Part::Body, file: None });
    if reader.faults.len() > faults_before {
        return;
    }
    for name in template::files_named(text).unwrap_or_default() {
        let lines = reader.files.get(&name).and_then(|path| bounded::read_text(path, bounded::LINES).ok());
        reader.accept(place, llm::check_lines(&name, lines.as_deref().unwrap_or_default()));
    }
}

/// Reads when the client leaves. `tokens` is the number of tokens of a response, if it is known.
fn leave(
    reader: &mut Reader<'_>,
    Placed { place, value: typed }: Placed<RawLeave>,
    is_stream: bool,
    tokens: Option<u32>,
) -> Option<Leave> {
    if !is_stream {
        let message = "a client can leave only a stream, but `stream` is false";
        reader.fault(place, message, "remove `leave`, or remove `stream`");
        return None;
    }
    match typed {
        RawLeave { after: Some(after), after_tokens: None } => {
            let time = reader.time_above_zero(&after, "after", "write a longer time, such as 200ms")?;
            Some(Leave::AfterNs(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
        }
        RawLeave { after: None, after_tokens: Some(after) } => {
            let number = reader.count(Some(&after), "after_tokens", 1, llm::MOST_TOKENS);
            if let Some(tokens) = tokens.filter(|tokens| number > *tokens) {
                let message = format!("no client would leave: a response has {tokens} tokens, not {number}");
                reader.fault(after.place, message, format!("write {tokens} or less"));
            }
            Some(Leave::AfterTokens(number.max(1)))
        }
        RawLeave { .. } => {
            let help = "write exactly one of the two";
            reader.fault(place, "`leave` needs one of `after` and `after_tokens`", help);
            None
        }
    }
}

/// Reads when the client stops reading. `leaves` says whether the plan has `leave` too, and `tokens` is the
/// number of tokens of a response, if it is known.
fn pause(
    reader: &mut Reader<'_>,
    Placed { place, value: RawPause { after_tokens, time } }: Placed<RawPause>,
    (is_stream, leaves): (bool, bool),
    tokens: Option<u32>,
) -> Option<Pause> {
    if !is_stream {
        let message = "a client can pause only in a stream, but `stream` is false";
        reader.fault(place, message, "remove `pause`, or remove `stream`");
        return None;
    }
    if leaves {
        reader.fault(place, "a client cannot both pause and leave", "remove `pause` or `leave`");
        return None;
    }
    let number = reader.count(Some(&after_tokens), "after_tokens", 1, llm::MOST_TOKENS).max(1);
    if let Some(tokens) = tokens.filter(|tokens| number >= *tokens) {
        let message = format!("no token would follow the pause: a response has {tokens} tokens");
        reader.fault(after_tokens.place, message, "write a lower number, or raise `tokens`");
    }
    let length = reader.time_above_zero(&time, "time", "write a longer time, such as 2s")?;
    reader.unread.push((time.place, length));
    Some(Pause { after_tokens: number, time_ns: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX) })
}

/// Time until the response ends or the client leaves, if the first token is due at `first`.
fn length(
    model: &UpstreamLlm,
    (request, stream): (&LlmRequest, Option<StreamSpec>),
    first: Duration,
) -> Duration {
    let whole = first.saturating_add(model.length(tokens(model, request)));
    let until = |tokens| first.saturating_add(model.length(tokens));
    if let Some(pause) = request.pause {
        return whole.max(until(pause.after_tokens).saturating_add(Duration::from_nanos(pause.time_ns)));
    }
    match stream.and_then(|stream| stream.tokens).and_then(|tokens| tokens.leave) {
        Some(Leave::AfterNs(ns)) => whole.min(Duration::from_nanos(ns)),
        Some(Leave::AfterTokens(number)) => whole.min(until(number)),
        None => whole,
    }
}

/// Notes how long responses take at least, for the checks of timeouts and durations.
fn note_times(
    reader: &mut Reader<'_>,
    place: Place,
    model: &UpstreamLlm,
    asked: (&LlmRequest, Option<StreamSpec>),
) {
    let first = model.first_token.least();
    let length = length(model, asked, first);
    let Some(stream) = asked.1 else {
        reader.whole.push((place, length));
        return;
    };
    let between = if model.length(stream.messages).is_zero() { Duration::ZERO } else { model.gap };
    // After a comment, the timeout begins again.
    let silence = between.max(first).min(model.heartbeat.unwrap_or(Duration::MAX)).min(length);
    reader.streams.push(Timed { place, stream, length, silence, deadline: None });
}

/// Mean time until the response to a target ends, if a model of the built-in upstream answers.
pub(super) fn mean_length(target: &Target, upstream: &Upstream) -> Option<Duration> {
    let Upstream::BuiltIn(built_in) = upstream else { return None };
    let (request, model) = (target.llm.as_ref()?, built_in.llm.as_ref()?);
    Some(length(model, (request, target.stream), model.first_token.mean()))
}

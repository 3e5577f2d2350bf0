//! The language model that the upstream plays: the requests that it gets, and the texts of its responses.
//!
//! A stream is sent in *writes*, as server-sent events are. The first write has the events before the tokens,
//! and is due with the head. Each later write has the tokens that are due at the same time. The last one also
//! has the events after the tokens. If the plan makes a stream fail, an error replaces a write.
//! [`EventStream::number`] is the number of the next write.

mod anthropic;
mod api;
mod openai;
mod plain;
mod request;
mod responses;
mod shortened;
mod text;

use super::answer::{Answers, pattern};
use super::counts::ModelCounts;
use super::delay::draw;
use super::stream::{Completion, EventStream, Next, Sent, end_of_part, nanoseconds};
use hoptax_format::clock;
use hoptax_format::llm::Api;
use hoptax_format::messages::Stamp;
use hoptax_format::random::Random;
use hoptax_plan::{LlmFailureKind, UpstreamLlm};
use plain::Whole;
pub(super) use request::Incoming;
use request::{Asked, Kind};
use text::{Facts, Writer};

/// Maximum number of names of models and tools that are known at the same time.
const MOST_NAMES: usize = 256;
/// Length of the data of a padded event, bytes, without its token and names. Every chunk is shorter.
const PADDED: usize = 384;
/// Number of bytes that follow the CR of the last line of data.
const AFTER_CR: usize = b"\n\r\n".len();
/// Headers of OpenAI and Anthropic. All responses have the same identifiers, because heads of streams are
/// built before any request.
const OF_PROVIDER: [(&str, &str); 9] = [
    ("x-request-id", "req_hoptax"),
    ("request-id", "req_hoptax"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-limit-tokens", "2000000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-remaining-tokens", "1999000"),
    ("x-ratelimit-reset-requests", "6ms"),
    ("x-ratelimit-reset-tokens", "30ms"),
];
/// Distinguishes the random numbers of the model from those of delays, failures and rules.
const STREAM: u64 = 2 << 32;

/// The language model of an instance. Its streams share the memory for the text of a write.
#[derive(Debug, Clone)]
pub(super) struct Llm {
    settings: UpstreamLlm,
    /// Times are in nanoseconds. [`u64::MAX`] if there are no heartbeats.
    gap: u64,
    heartbeat: u64,
    /// The headers of all responses, and whether they have stamps.
    headers: Vec<(String, String)>,
    stamps: bool,
    /// The heads of streams.
    answers: Answers,
    random: Random,
    /// Number of this listener, and number of its responses so far. They make the identifiers of responses
    /// unique.
    listener: u32,
    responses: u32,
    /// Names of models and tools, with the quotes and escapes of JSON. If there are too many, new ones
    /// replace the oldest.
    names: Vec<String>,
    next_name: usize,
    /// The text of a token, which begins with a stamp, and the text without the stamp.
    content: Vec<u8>,
    filler: String,
    /// Heartbeats: a comment, and the event that Anthropic sends instead.
    heartbeats: [Vec<u8>; 2],
    /// The current write: its text, its number of events, and the numbers of its response and of the write
    /// itself.
    text: Vec<u8>,
    events: u64,
    text_of: Option<(u32, u64)>,
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum Outcome {
    Stream(Completion),
    /// A response that is sent after a delay, nanoseconds.
    Whole(Whole, u64),
}

impl Llm {
    /// Prepares the model. `headers` are sent with all responses. If `stamps` is true, heads have space for
    /// stamps.
    pub(super) fn new(
        settings: &UpstreamLlm,
        headers: &[(String, String)],
        stamps: bool,
    ) -> anyhow::Result<Self> {
        let bytes = settings.bytes_per_token as usize;
        anyhow::ensure!(
            bytes >= Stamp::TEXT_LENGTH,
            "a token needs at least {} bytes for its number and its time",
            Stamp::TEXT_LENGTH
        );
        anyhow::ensure!(
            settings.tokens > 0 && settings.per_write > 0 && settings.split > 0,
            "a response needs at least one token, a write at least one, and an event at least one write"
        );
        anyhow::ensure!(
            settings.split == 1 || settings.per_write == 1,
            "a write has several tokens or a part of one, not both"
        );
        let filler = filler(bytes, settings.split > 1);
        let end = if settings.crlf { "\r\n" } else { "\n" };
        let ping = format!("event: ping{end}data: {}{end}{end}", anthropic::PING);
        let headers = all_headers(settings, headers);
        Ok(Self {
            gap: nanoseconds(settings.gap),
            heartbeat: settings.heartbeat.map_or(u64::MAX, nanoseconds),
            answers: Answers::of_events("text/event-stream; charset=utf-8", false, (&headers, stamps))?,
            headers,
            stamps,
            random: Random::stream(0, STREAM),
            listener: 0,
            responses: 0,
            names: Vec::new(),
            next_name: 0,
            content: filler.clone().into_bytes(),
            filler,
            heartbeats: [format!(": {end}{end}").into_bytes(), ping.into_bytes()],
            text: Vec::new(),
            events: 0,
            text_of: None,
            settings: settings.clone(),
        })
    }

    /// Gives a listener its own random numbers and identifiers.
    pub(super) fn seed(&mut self, seed: u64, listener: u32) {
        self.random = Random::stream(seed, STREAM + u64::from(listener));
        self.listener = listener;
    }

    pub(super) fn answers(&self) -> &Answers {
        &self.answers
    }

    pub(super) fn answers_mut(&mut self) -> &mut Answers {
        &mut self.answers
    }

    /// The headers of all responses, and whether they have stamps.
    pub(super) fn headers(&self) -> (&[(String, String)], bool) {
        (&self.headers, self.stamps)
    }

    /// True if the parts of an event are sent one by one.
    pub(super) fn is_split(&self) -> bool {
        self.settings.split > 1
    }

    /// Chooses the response to a request that was read completely.
    pub(super) fn answer(&mut self, incoming: &Incoming, counts: &ModelCounts) -> Outcome {
        let api = match incoming.kind {
            Kind::Models => return Outcome::Whole(Whole::models(), 0),
            Kind::Health => return Outcome::Whole(Whole::ok(&serde_json::json!({ "status": "ok" })), 0),
            Kind::Text(api) => api,
            Kind::Embeddings => Api::OpenAi,
        };
        counts.requests.add(1);
        counts.with_key.add(incoming.has_key.into());
        let refused = |status, message: &str| {
            counts.refused.add(1);
            Outcome::Whole(Whole::error(api, status, message), 0)
        };
        if incoming.kind != Kind::Embeddings && !self.settings.apis.contains(&api) {
            return refused(404, "This upstream does not have this API.");
        }
        let asked = match incoming.read() {
            Ok(asked) => asked,
            Err(message) => return refused(400, &message),
        };
        counts.add_fields(&asked.fields);
        let mut failure = self.draw_failure();
        if !asked.stream || incoming.kind == Kind::Embeddings {
            failure = failure.filter(|(kind, _)| !kind.is_in_stream());
        }
        if let Some((kind, _)) = failure {
            counts.failed(kind);
            if let Some((status, message)) = refusal(kind, api) {
                return Outcome::Whole(Whole::error(api, status, message), 0);
            }
        }
        // Four bytes of a prompt are about one token.
        let input = (incoming.length / 4) as u32;
        if incoming.kind == Kind::Embeddings {
            return Outcome::Whole(Whole::embeddings(&asked, input), 0);
        }
        let completion = self.complete(api, &asked, input, failure);
        if asked.stream {
            counts.streams.add(1);
            return Outcome::Stream(completion);
        }
        let text = self.filler.repeat(completion.tokens as usize);
        let length = nanoseconds(self.settings.length(completion.tokens));
        let whole = Whole::text(api, &asked, &self.facts(&completion), &text);
        Outcome::Whole(whole, completion.first.saturating_add(length))
    }

    /// Draws the failure of a response.
    fn draw_failure(&mut self) -> Option<(LlmFailureKind, u32)> {
        if self.settings.failures.is_empty() {
            return None;
        }
        let mut left = self.random.unit();
        let drawn = self.settings.failures.iter().find(|failure| {
            left -= failure.share;
            left < 0.0
        });
        drawn.map(|failure| (failure.kind, failure.at))
    }

    fn complete(
        &mut self,
        api: Api,
        asked: &Asked<'_>,
        input: u32,
        failure: Option<(LlmFailureKind, u32)>,
    ) -> Completion {
        let most = asked.max_tokens.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
        let whole = most.min(self.settings.tokens);
        let number = self.responses;
        self.responses = number.wrapping_add(1);
        Completion {
            first: draw(&self.settings.first_token, &mut self.random),
            number,
            created: (clock::unix() / clock::SECOND) as u32,
            tokens: failure.map_or(whole, |(_, at)| at.min(whole)),
            sent: 0,
            input,
            model: self.place_of(&asked.model),
            tool: asked.tool.as_deref().map(|tool| self.place_of(tool)),
            api,
            failure: failure.map(|(kind, _)| kind),
            include_usage: asked.include_usage,
            include_obfuscation: asked.include_obfuscation,
            is_limited: whole < self.settings.tokens,
        }
    }

    /// Index in `names` of the name of a model or tool, which is added if it is new.
    fn place_of(&mut self, name: &str) -> u16 {
        let name = serde_json::Value::from(name).to_string();
        let known = self.names.iter().position(|own| *own == name);
        let place = known.unwrap_or_else(|| {
            let place = self.next_name;
            self.next_name = (place + 1) % MOST_NAMES;
            match self.names.get_mut(place) {
                Some(old) => *old = name,
                None => self.names.push(name),
            }
            place
        });
        place as u16
    }

    fn facts(&self, of: &Completion) -> Facts<'_> {
        let model = self.names[usize::from(of.model)].as_str();
        let tool = of.tool.map(|tool| self.names[usize::from(tool)].as_str());
        let varying = self.filler.len() + model.len() + tool.map_or(0, str::len);
        Facts {
            id: u64::from(self.listener) << 32 | u64::from(of.number),
            created: of.created,
            model,
            tokens: of.tokens,
            input: of.input,
            output: self.settings.usage.unwrap_or(of.tokens.into()),
            include_usage: of.include_usage,
            is_limited: of.is_limited,
            tool,
            last: of.tokens.checked_sub(1).filter(|_| of.failure.is_none()),
            padded: of.include_obfuscation.then_some(PADDED + varying),
        }
    }

    /// Number of the last write with tokens.
    fn last_write(&self, of: &Completion) -> u64 {
        of.tokens.div_ceil(self.settings.per_write).into()
    }

    /// Number of tokens in all writes up to number `write`, inclusive.
    fn tokens_until(&self, of: &Completion, write: u64) -> u32 {
        let tokens = write.saturating_mul(self.settings.per_write.into());
        u32::try_from(tokens).unwrap_or(u32::MAX).min(of.tokens)
    }

    /// When a write is due.
    fn due(&self, stream: &EventStream, of: &Completion, write: u64) -> u64 {
        let Some(before) = write.checked_sub(1) else { return stream.begun };
        stream.begun.saturating_add(of.first).saturating_add(self.gap.saturating_mul(before))
    }

    /// True if nothing remains to be sent. A stream that fails by silence never ends.
    fn is_over(&self, stream: &EventStream, of: &Completion) -> bool {
        let last = self.last_write(of);
        match of.failure {
            None => stream.number > last,
            Some(LlmFailureKind::ErrorEvent) => stream.number > last + 1,
            Some(_) => false,
        }
    }

    /// What a stream does at the time `now`.
    pub(super) fn next(&self, stream: &EventStream, of: &Completion, now: u64) -> Next {
        if stream.is_comment {
            return Next::Comment;
        }
        if self.is_over(stream, of) {
            return Next::End;
        }
        let failure = of.failure.filter(|_| stream.number > self.last_write(of));
        if failure == Some(LlmFailureKind::Silence) {
            return Next::Wait(u64::MAX);
        }
        let due = self.due(stream, of, stream.number);
        let heartbeat = stream.last.saturating_add(self.heartbeat);
        if due <= now {
            if failure == Some(LlmFailureKind::Cut) { Next::Cut } else { Next::Send }
        } else if heartbeat <= now {
            Next::Comment
        } else {
            Next::Wait(due.min(heartbeat))
        }
    }

    /// The unsent bytes of the next part, and whether this part ends the stream. `next` is [`Next::Send`] or
    /// [`Next::Comment`].
    pub(super) fn part(&mut self, stream: &EventStream, of: &Completion, next: Next) -> (&[u8], bool) {
        if next == Next::Comment {
            return (&self.heartbeat(of.api)[stream.sent..], false);
        }
        let text_of = Some((of.number, stream.number));
        if self.text_of != text_of {
            self.text_of = text_of;
            self.write_text(stream, of);
        }
        let end = self.end_of_part(stream.sent);
        let after = EventStream { number: stream.number + 1, ..*stream };
        (&self.text[stream.sent..end], end == self.text.len() && self.is_over(&after, of))
    }

    /// End of the part that begins at `sent`. If possible, this cuts a character of several bytes after its
    /// first byte, because clients must cope with this. With CRLF, every fourth write is instead cut between
    /// the CR and the LF of the last line of data.
    fn end_of_part(&self, sent: usize) -> usize {
        let (length, split) = (self.text.len(), self.settings.split as usize);
        let end = end_of_part(length, split, sent);
        let cuts_line_end = self.settings.crlf && self.text_of.is_some_and(|(_, write)| write % 4 == 0);
        if cuts_line_end && split > 1 && end >= length * (split - 1) / split {
            let cut = length.saturating_sub(AFTER_CR);
            return if sent < cut { cut } else { length };
        }
        if end >= length {
            return length;
        }
        let next = end_of_part(length, split, end);
        let wide = self.text[end..next].iter().position(|byte| *byte >= 0xc0);
        wide.map_or(end, |wide| (end + wide + 1).min(next - 1))
    }

    fn heartbeat(&self, api: Api) -> &[u8] {
        &self.heartbeats[usize::from(api == Api::Anthropic)]
    }

    /// Makes the text of the next write.
    fn write_text(&mut self, stream: &EventStream, of: &Completion) {
        let (mut text, mut content) = (std::mem::take(&mut self.text), std::mem::take(&mut self.content));
        text.clear();
        let (facts, last) = (self.facts(of), self.last_write(of));
        let line_end = if self.settings.crlf { "\r\n" } else { "\n" };
        let mut to = Writer { text: &mut text, line_end, events: 0 };
        let write = stream.number;
        if write == 0 {
            api::open(of.api, &facts, &mut to);
        } else if write > last {
            api::error(of.api, &facts, &mut to);
        } else {
            let due = self.due(stream, of, write);
            for number in self.tokens_until(of, write - 1)..self.tokens_until(of, write) {
                if let Some(room) = content.first_chunk_mut() {
                    Stamp { number: number.into(), due }.write_text(room);
                }
                api::token(of.api, &facts, (number, &content), &mut to);
            }
            if write == last && of.failure.is_none() {
                api::close(of.api, &facts, &mut to);
            }
        }
        let events = to.events;
        (self.text, self.content, self.events) = (text, content, events);
    }

    /// Called when the next bytes of the part that [`Llm::part`] has returned were sent. Returns what is now
    /// complete.
    pub(super) fn sent(
        &self,
        stream: &mut EventStream,
        of: &mut Completion,
        (bytes, next): (usize, Next),
        now: u64,
    ) -> Sent {
        stream.last = now;
        stream.sent += bytes;
        if next == Next::Comment {
            stream.is_comment = stream.sent < self.heartbeat(of.api).len();
            stream.sent *= usize::from(stream.is_comment);
            let is_event = !stream.is_comment && of.api == Api::Anthropic;
            return Sent { events: is_event.into(), ..Sent::default() };
        }
        if stream.sent < self.text.len() {
            return Sent::default();
        }
        let tokens = self.tokens_until(of, stream.number) - of.sent;
        of.sent += tokens;
        (stream.number, stream.sent) = (stream.number + 1, 0);
        let is_whole = of.failure.is_none() && self.is_over(stream, of);
        Sent { events: self.events, tokens: tokens.into(), is_whole }
    }
}

/// The headers of all responses: the plan's, and a provider's if the plan asks for them.
fn all_headers(settings: &UpstreamLlm, own: &[(String, String)]) -> Vec<(String, String)> {
    let mut all = own.to_vec();
    if settings.headers_of_provider {
        let time = settings.first_token.least().as_millis().to_string();
        let usual = OF_PROVIDER.into_iter().chain([("openai-processing-ms", time.as_str())]);
        let is_set = |name: &str| own.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
        let added = usual.filter(|(name, _)| !is_set(name));
        all.extend(added.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    all
}

/// Status and text of a failure that is sent instead of a stream.
fn refusal(kind: LlmFailureKind, api: Api) -> Option<(u16, &'static str)> {
    Some(match kind {
        LlmFailureKind::RateLimit => (429, "Rate limit reached. Please try again in 1s."),
        LlmFailureKind::ServerError => (500, "The server had an error while processing your request."),
        LlmFailureKind::Overloaded if api == Api::Anthropic => (529, "Overloaded"),
        LlmFailureKind::Overloaded => (503, "The engine is currently overloaded, please try again later."),
        LlmFailureKind::ErrorEvent | LlmFailureKind::Cut | LlmFailureKind::Silence => return None,
    })
}

/// The text of a token of this length, without a stamp. `is_wide` adds characters of several bytes.
fn filler(bytes: usize, is_wide: bool) -> String {
    let mut text: String = pattern(bytes).into_iter().map(char::from).collect();
    if is_wide {
        const WIDE: &str = "語";
        text.truncate(Stamp::TEXT_LENGTH);
        let room = bytes - text.len();
        text.push_str(&WIDE.repeat(room / WIDE.len()));
        text.push_str(&"x".repeat(room % WIDE.len()));
    }
    // A line feed needs an escape in JSON.
    text.replace('\n', "-")
}

#[cfg(test)]
mod tests;

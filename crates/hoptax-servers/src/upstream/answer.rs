//! All responses of an instance. They are built before the instance starts, so that answering a request
//! requires no formatting and no copying. HTTP/2 copies bodies, because frames divide them.

use super::like;
use anyhow::Context as _;
use hoptax_format::stamp::{self, Stamp};
use hoptax_plan::{Body, BodyKind, BuiltInUpstream};
use hoptax_record::bounded;
use hoptax_wire::http1::{Version, response_head};
use hoptax_wire::http2::{Block, OutField, response_fields};
use std::sync::Arc;

/// Bodies up to this size are stored together with each head, so that a response is one send. Larger bodies
/// are stored once.
pub(super) const INLINE_BODY: usize = 64 * 1024;

/// The properties that decide which response a request receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnswerTo {
    pub(super) version: Version,
    pub(super) keep_alive: bool,
    pub(super) head: bool,
    pub(super) failed: bool,
}

/// The properties that decide which response a request over HTTP/2 receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StreamAnswerTo {
    pub(super) head: bool,
    pub(super) failed: bool,
}

impl AnswerTo {
    const COUNT: usize = 16;
    /// The answer that contains the configured body.
    const WITH_BODY: Self = Self { version: Version::Http11, keep_alive: true, head: false, failed: false };

    fn index(self) -> usize {
        usize::from(self.version == Version::Http11)
            | usize::from(self.keep_alive) << 1
            | usize::from(self.head) << 2
            | usize::from(self.failed) << 3
    }

    fn from_index(index: usize) -> Self {
        Self {
            version: if index & 1 == 0 { Version::Http10 } else { Version::Http11 },
            keep_alive: index & 2 != 0,
            head: index & 4 != 0,
            failed: index & 8 != 0,
        }
    }
}

/// All responses. Clones share the large body.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    /// The configured status.
    status: u16,
    /// Heads with inline bodies, indexed by [`AnswerTo::index`].
    written: Vec<Vec<u8>>,
    /// The configured body if it is larger than [`INLINE_BODY`]; otherwise empty. Answers to particular paths
    /// share one body.
    large_body: Arc<Vec<u8>>,
    /// Number of bytes of `large_body` that are sent.
    length: usize,
    /// Length of the inline body. It is at the end of the answers in `written`.
    inline: usize,
    /// Position of the stamps in each element of `written`; empty without stamps.
    stamps: Vec<usize>,
    /// The head for HTTP/2, without the stamp.
    fields: Vec<OutField>,
    /// `fields`, encoded. [`encode`] replaces this encoding by one that uses the dynamic table.
    block: Block,
    /// The head for HTTP/2 of a request that was chosen to fail.
    failed: Block,
}

const CACHE_CONTROL: &str = "cache-control";
const FAILURE_BODY: &[u8] = b"this request was chosen to fail\n";

pub(super) const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: \
        12\r\n\r\nbad request\n";

/// Interim response for a client that waits before it sends its body.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Answers {
    /// Builds all responses. If `stamps` is true, the responses have space for stamps.
    pub(super) fn new(settings: &BuiltInUpstream, stamps: bool) -> anyhow::Result<Self> {
        anyhow::ensure!(
            (200..=599).contains(&settings.status),
            "the upstream cannot answer with status {}. Choose one from 200 to 599",
            settings.status
        );
        let body = bytes(&settings.body)?;
        let mut headers = settings.headers.clone();
        let is_typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if matches!(settings.body, Body::Like { kind: BodyKind::Json, .. }) && !is_typed {
            headers.push(("content-type".into(), "application/json".into()));
        }
        let inline = body.len() <= INLINE_BODY;
        let mut answers = Self::heads(settings.status, (&headers, stamps), &body, inline)?;
        match has_body(settings.status) {
            true if inline => answers.inline = body.len(),
            true => {
                answers.length = body.len();
                answers.large_body = Arc::new(body);
            }
            false => {}
        }
        Ok(answers)
    }

    /// Builds the responses with one status and the first `length` bytes of a shared body. They need about 3
    /// KiB.
    pub(super) fn of_length(
        status: u16,
        headers: &[(String, String)],
        (body, length): (&Arc<Vec<u8>>, usize),
        stamps: bool,
    ) -> anyhow::Result<Self> {
        let mut answers = Self::heads(status, (headers, stamps), &body[..length], false)?;
        if has_body(status) {
            answers.length = length;
            answers.large_body = Arc::clone(body);
        }
        Ok(answers)
    }

    /// Builds the heads of responses with server-sent events, which have no length: HTTP/1.1 sends chunks,
    /// and HTTP/1.0 closes the connection at the end. If `forbids_caches` is true, the heads forbid caching.
    pub(super) fn of_events(
        content_type: &str,
        forbids_caches: bool,
        (headers, stamps): (&[(String, String)], bool),
    ) -> anyhow::Result<Self> {
        const LENGTH: &str = "content-length: 0\r\n\r\n";
        const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n";
        let is_set = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut all = vec![("content-type".to_owned(), content_type.to_owned())];
        if forbids_caches && !is_set(CACHE_CONTROL) {
            all.push((CACHE_CONTROL.to_owned(), "no-cache".to_owned()));
        }
        all.extend(headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-type")).cloned());
        let mut answers = Self::heads(200, (&all, stamps), &[], false)?;
        for (index, head) in answers.written.iter_mut().enumerate() {
            let to = AnswerTo::from_index(index);
            if !to.failed && head.ends_with(LENGTH.as_bytes()) {
                head.truncate(head.len() - LENGTH.len());
                let framing = if to.version == Version::Http11 { CHUNKED } else { "\r\n" };
                head.extend_from_slice(framing.as_bytes());
            }
        }
        answers.fields.retain(|field| field.name != "content-length");
        answers.block = Block::plain(&answers.fields);
        Ok(answers)
    }

    /// Builds all heads, with the body after them if it is `inline`.
    fn heads(
        status: u16,
        (headers, stamps): (&[(String, String)], bool),
        body: &[u8],
        inline: bool,
    ) -> anyhow::Result<Self> {
        let (mut written, mut places) = (Vec::new(), Vec::new());
        for index in 0..AnswerTo::COUNT {
            let to = AnswerTo::from_index(index);
            let (status, body) = if to.failed { (500, FAILURE_BODY) } else { (status, body) };
            let mut answer = head(to, status, (headers, stamps), body.len())?;
            if stamps {
                let place = blank_in(&answer).context(
                    "a response's headers have no space for the timestamps, which is a bug of hoptax",
                )?;
                places.push(place);
            }
            if has_body(status) && !to.head && (inline || to.failed) {
                answer.extend_from_slice(body);
            }
            written.push(answer);
        }
        let fields = fields(status, headers, body.len())?;
        Ok(Self {
            status,
            written,
            large_body: Arc::default(),
            length: 0,
            inline: 0,
            stamps: places,
            block: Block::plain(&fields),
            fields,
            failed: Block::plain(&self::fields(500, headers, FAILURE_BODY.len())?),
        })
    }

    pub(super) fn are_stamped(&self) -> bool {
        !self.stamps.is_empty()
    }

    /// Overwrites the stamp in a response. Call it only if [`Answers::are_stamped`] returns true.
    pub(super) fn stamp(&mut self, to: AnswerTo, stamp: Stamp) {
        let (index, at) = (to.index(), self.stamps[to.index()]);
        let place = &mut self.written[index][at..at + stamp::LENGTH];
        stamp.write(place.try_into().expect("as long as a stamp"));
    }

    /// The bytes of a response: the prepared part, and the large body after it (usually empty).
    pub(super) fn get(&self, to: AnswerTo) -> (&[u8], &[u8]) {
        let body = if to.head || to.failed { &[] } else { &self.large_body[..self.length] };
        (&self.written[to.index()], body)
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The body of a response that is neither to HEAD nor chosen to fail.
    pub(super) fn body(&self) -> &[u8] {
        self.of_stream(StreamAnswerTo::default()).1
    }

    /// The head and the body of a response over HTTP/2. The caller adds the stamp.
    pub(super) fn of_stream(&self, to: StreamAnswerTo) -> (&Block, &[u8]) {
        let block = if to.failed { &self.failed } else { &self.block };
        let body: &[u8] = match to {
            StreamAnswerTo { head: true, .. } => &[],
            StreamAnswerTo { failed: true, .. } => FAILURE_BODY,
            _ if self.inline > 0 => {
                let whole = &self.written[AnswerTo::WITH_BODY.index()];
                &whole[whole.len() - self.inline..]
            }
            _ => &self.large_body[..self.length],
        };
        (block, body)
    }
}

/// Encodes the heads of all responses of an instance together, so that they share entries of the dynamic
/// table.
pub(super) fn encode<'a>(answers: impl Iterator<Item = &'a mut Answers>) {
    let mut all: Vec<&mut Answers> = answers.collect();
    let fields: Vec<Vec<OutField>> = all.iter_mut().map(|one| std::mem::take(&mut one.fields)).collect();
    let blocks = Block::shared(&fields.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for (answers, block) in all.into_iter().zip(blocks) {
        answers.block = block;
    }
}

/// The head of a response over HTTP/2.
fn fields(status: u16, extra: &[(String, String)], length: usize) -> anyhow::Result<Vec<OutField>> {
    let typed = |name: &str| extra.iter().any(|(typed, _)| typed.eq_ignore_ascii_case(name));
    let content_type = (has_body(status) && !typed("content-type")).then_some(("content-type", "text/plain"));
    let length = has_body(status).then_some(length as u64);
    response_fields(status, content_type.into_iter().chain(allowed_fields(extra)), length)
        .context("the upstream's headers for HTTP/2")
}

/// The headers that HTTP/2 allows.
pub(super) fn allowed_fields(headers: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    const OF_CONNECTION: [&str; 4] = ["keep-alive", "proxy-connection", "te", "upgrade"];
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    headers.filter(|(name, _)| !OF_CONNECTION.iter().any(|own| name.eq_ignore_ascii_case(own)))
}

fn has_body(status: u16) -> bool {
    !matches!(status, 204 | 304)
}

fn blank_in(head: &[u8]) -> Option<usize> {
    let line = format!("\r\n{}: {}\r\n", stamp::HEADER, stamp::BLANK);
    let at = head.windows(line.len()).position(|window| window == line.as_bytes())?;
    Some(at + line.len() - "\r\n".len() - stamp::LENGTH)
}

fn head(
    to: AnswerTo,
    status: u16,
    (extra, stamps): (&[(String, String)], bool),
    length: usize,
) -> anyhow::Result<Vec<u8>> {
    let mut headers: Vec<(&str, &str)> = Vec::new();
    let typed = |name: &str| extra.iter().any(|(typed, _)| typed.eq_ignore_ascii_case(name));
    anyhow::ensure!(!typed("connection"), "hoptax writes the header `connection` itself. Remove this header");
    anyhow::ensure!(
        !(stamps && typed(stamp::HEADER)),
        "hoptax writes the header `{}` itself if stamps are on. Remove this header",
        stamp::HEADER
    );
    if stamps {
        headers.push((stamp::HEADER, stamp::BLANK));
    }
    if has_body(status) && !typed("content-type") {
        headers.push(("content-type", "text/plain"));
    }
    headers.extend(extra.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    match (to.version, to.keep_alive) {
        (Version::Http11, true) => {}
        (Version::Http10, true) => headers.push(("connection", "keep-alive")),
        (_, false) => headers.push(("connection", "close")),
    }
    let length = has_body(status).then_some(length as u64);
    // A server answers with its own highest version, even if the request has another version (RFC 9112 §2.3).
    response_head(Version::Http11, status, headers, length).context("the upstream's headers")
}

/// The bytes of a body, either of a response or of a request.
///
/// # Errors
/// If the body's file cannot be read, or the body does not fit in memory.
pub fn bytes(body: &Body) -> anyhow::Result<Vec<u8>> {
    Ok(match body {
        Body::Size(size) => pattern(usize::try_from(*size).context("the body does not fit into memory")?),
        Body::Like { kind, size } => {
            like::body(*kind, usize::try_from(*size).context("the body does not fit into memory")?)
        }
        Body::Text(text) => text.clone().into_bytes(),
        Body::File(path) => bounded::read(path, bounded::BODY)
            .with_context(|| format!("cannot read the body from {}", path.display()))?,
    })
}

/// Printable text that is always the same. The period of the text is not a power of two. The text therefore
/// differs if a broken proxy shifts or repeats a block.
pub(super) fn pattern(size: usize) -> Vec<u8> {
    const LINE: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\n";
    LINE.iter().copied().cycle().take(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_wire::events::MEDIA_TYPE;

    fn settings(status: u16, body: Body) -> BuiltInUpstream {
        let headers = vec![("x-a".into(), "b".into())];
        BuiltInUpstream { status, headers, ..BuiltInUpstream::with_body(body) }
    }

    fn text(settings: &BuiltInUpstream, to: AnswerTo) -> String {
        let answers = Answers::new(settings, false).expect("good settings");
        let (head, body) = answers.get(to);
        String::from_utf8([head, body].concat()).expect("printable")
    }

    const PLAIN: AnswerTo =
        AnswerTo { version: Version::Http11, keep_alive: true, head: false, failed: false };

    #[test]
    fn every_answer_has_an_index_of_its_own() {
        for index in 0..AnswerTo::COUNT {
            assert_eq!(AnswerTo::from_index(index).index(), index);
        }
    }

    #[test]
    fn bodies_like_json_have_its_type() {
        let json = text(&settings(200, Body::Like { kind: BodyKind::Json, size: 9 }), PLAIN);
        assert!(
            json.contains("content-type: application/json\r\n") && json.contains("content-length: 9\r\n"),
            "{json}"
        );
    }

    #[test]
    fn heads_of_events_have_no_length() {
        let headers = [("X-A", "b"), ("Content-Type", "text/html")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut answers = Answers::of_events(MEDIA_TYPE, true, (&headers, true)).expect("good headers");
        let text = |answers: &Answers, to| {
            let (head, body) = answers.get(to);
            assert!(body.is_empty());
            String::from_utf8(head.to_vec()).expect("printable")
        };
        let own = "content-type: text/event-stream\r\ncache-control: no-cache\r\nX-A: b\r\n";
        answers.stamp(PLAIN, Stamp { received: 12, replied: 3456 });
        let expected = format!(
            "HTTP/1.1 200 OK\r\nhoptax-stamp: 0000000000000000012 0000000000000003456\r\n{own}\
             transfer-encoding: chunked\r\n\r\n"
        );
        assert_eq!(text(&answers, PLAIN), expected);
        let to = AnswerTo { version: Version::Http10, keep_alive: false, ..PLAIN };
        let old = text(&answers, to);
        assert!(old.ends_with(&format!("{own}connection: close\r\n\r\n")), "{old}");
        let names: Vec<_> = answers.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, [":status", "content-type", "cache-control", "x-a"]);
        let cached = [("Cache-Control".to_owned(), "no-store".to_owned())];
        let cached =
            text(&Answers::of_events(MEDIA_TYPE, true, (&cached, false)).expect("good headers"), PLAIN);
        assert_eq!(cached.to_lowercase().matches("cache-control").count(), 1, "{cached}");
    }

    #[test]
    fn answers_over_http2_have_the_same_bodies() {
        for (status, body, length) in [
            (200, Body::Text("hi".into()), 2),
            (200, Body::Size(0), 0),
            (200, Body::Size(1 << 20), 1 << 20),
            (204, Body::Size(5), 0),
        ] {
            let mut with_keep_alive = settings(status, body);
            with_keep_alive.headers.push(("Keep-Alive".into(), "timeout=5".into()));
            for stamps in [false, true] {
                let mut answers = Answers::new(&with_keep_alive, stamps).expect("good settings");
                let names: Vec<_> = answers.fields.iter().map(|field| field.name.clone()).collect();
                let expected = match status {
                    204 => vec![":status", "x-a"],
                    _ => vec![":status", "content-type", "x-a", "content-length"],
                };
                assert_eq!(names, expected);
                encode(std::iter::once(&mut answers));
                for (head, failed) in [(false, false), (true, false), (false, true), (true, true)] {
                    let (_, body) = answers.of_stream(StreamAnswerTo { head, failed });
                    let to = AnswerTo { head, failed, ..PLAIN };
                    let whole = [answers.get(to).0, answers.get(to).1].concat();
                    assert!(whole.ends_with(body), "{status} {to:?}");
                    let expected = match (head, failed) {
                        (true, _) => 0,
                        (false, true) => FAILURE_BODY.len(),
                        (false, false) => length,
                    };
                    assert_eq!(body.len(), expected, "{status} {to:?}");
                }
            }
        }
    }

    #[test]
    fn impossible_settings_are_refused() {
        let message =
            |settings: &BuiltInUpstream| format!("{:#}", Answers::new(settings, false).expect_err("refused"));
        assert!(message(&settings(101, Body::Size(0))).contains("101"));
        assert!(message(&settings(200, Body::File("/no/such".into()))).contains("/no/such"));
        let mut broken = settings(200, Body::Size(0));
        broken.headers = vec![("x".into(), "a\r\nb: c".into())];
        assert!(message(&broken).contains("control character"));
        broken.headers = vec![("Connection".into(), "close".into())];
        assert!(message(&broken).contains("`connection`"));
    }

    #[test]
    fn every_answer_is_stamped_in_its_place() {
        for settings in [settings(200, Body::Text("hi".into())), settings(204, Body::Size(0))] {
            let mut answers = Answers::new(&settings, true).expect("good settings");
            let plain = Answers::new(&settings, false).expect("good settings");
            assert!(answers.are_stamped() && !plain.are_stamped());
            for index in 0..AnswerTo::COUNT {
                let to = AnswerTo::from_index(index);
                answers.stamp(to, Stamp { received: 12, replied: 3456 });
                let line = "hoptax-stamp: 0000000000000000012 0000000000000003456\r\n";
                let text =
                    |answers: &Answers| String::from_utf8(answers.get(to).0.to_vec()).expect("printable");
                assert_eq!(text(&answers).replacen(line, "", 1), text(&plain), "but for that line: {to:?}");
                assert_eq!(text(&answers).matches(line).count(), 1, "{to:?}");
            }
        }
        let mut own = settings(200, Body::Size(0));
        own.headers = vec![("Hoptax-Stamp".into(), "1 2".into())];
        assert!(Answers::new(&own, false).is_ok());
        assert!(Answers::new(&own, true).is_err());
    }
}

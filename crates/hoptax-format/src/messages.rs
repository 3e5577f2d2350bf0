//! Messages of streams: exchanges that carry many messages, each with a number and a time of its own.
//!
//! Gateways change everything but the content, so number and time are in the content: [`Stamp`].

use crate::fields::add_fields;
use crate::histogram::Encoded;
use crate::llm::{TokenLimits, TokenSpec, TokensRecord};
use memchr::memchr;
use serde::{Deserialize, Serialize};

/// Which side of a call sends a stream of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// The client sends one message, and the server a stream.
    ServerStream,
    /// The client sends a stream, and the server one message.
    ClientStream,
    /// Both send a stream: the server answers each message with one message.
    BothWays,
}

impl StreamKind {
    /// The name in plans, such as `both-ways`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServerStream => "server-stream",
            Self::ClientStream => "client-stream",
            Self::BothWays => "both-ways",
        }
    }
}

/// What carries the messages of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// A gRPC call. Messages have [`Stamp::write`]'s stamp.
    #[default]
    Grpc,
    /// A response with server-sent events ([`hoptax_wire::events`]). The data of events have
    /// [`Stamp::write_text`]'s stamp. Only the server sends a stream, and the request has no stamp.
    Events,
    /// A WebSocket ([`hoptax_wire::websocket`]). Messages are binary and have [`Stamp::write`]'s stamp.
    WebSocket,
}

impl Carrier {
    /// True for gRPC calls.
    pub fn is_grpc(&self) -> bool {
        *self == Self::Grpc
    }
}

/// An exchange with many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// What carries the messages.
    #[serde(default, skip_serializing_if = "Carrier::is_grpc")]
    pub carrier: Carrier,
    /// Who sends a stream.
    pub kind: StreamKind,
    /// Number of messages in each stream of an exchange, [`UNKNOWN`] or [`ENDLESS`]. gRPC calls have at least
    /// 1, and at most `ENDLESS` - 1.
    pub messages: u32,
    /// Time between the moments when two messages of a stream are due, nanoseconds. If it is 0 and one side
    /// sends a stream, all messages are due at once. If it is 0 and both send, each message of the client is
    /// due when the answer to the previous one has arrived (closed loop).
    pub every_ns: u64,
    /// True if the times in the server's messages come from the clock of the generator's host. Only then are
    /// ages of messages recorded.
    #[serde(default)]
    pub same_clock: bool,
    /// WebSocket: true if the server sends each message to all connections of its instance at the same time.
    /// The instance then numbers its messages, so the first message of a connection can have any number. Only
    /// with `server-stream`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fan_out: bool,
    /// The stream is the response of a language model. The messages are its tokens. Events without content
    /// are not messages. Only with [`Carrier::Events`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenSpec>,
}

/// Value of [`StreamSpec::messages`] if the client does not know how many messages follow. No messages are
/// then counted as lost at the end.
pub const UNKNOWN: u32 = 0;
/// Value of [`StreamSpec::messages`] for streams that last until the client ends them. The client ends them
/// when the measured time ends, and the exchange then counts as completed.
pub const ENDLESS: u32 = u32::MAX;

impl StreamSpec {
    /// A stream of gRPC messages, with the clock of another host.
    pub fn grpc(kind: StreamKind, messages: u32, every_ns: u64) -> Self {
        Self {
            carrier: Carrier::Grpc,
            kind,
            messages,
            every_ns,
            same_clock: false,
            fan_out: false,
            tokens: None,
        }
    }

    /// Server-sent events, with the clock of another host.
    pub fn events(messages: u32, every_ns: u64) -> Self {
        Self { carrier: Carrier::Events, ..Self::grpc(StreamKind::ServerStream, messages, every_ns) }
    }

    /// Sets the limits of the tokens, if the stream has tokens.
    pub fn with_goodput(self, goodput: Option<TokenLimits>) -> Self {
        Self { tokens: self.tokens.map(|tokens| TokenSpec { goodput, ..tokens }), ..self }
    }

    /// Number of messages that the client sends in an exchange. A request for server-sent events counts as a
    /// message, and the handshake of a WebSocket does not.
    pub fn to_send(self) -> u32 {
        match (self.kind, self.carrier) {
            (StreamKind::ServerStream, Carrier::WebSocket) => 0,
            (StreamKind::ServerStream, _) => 1,
            _ => self.messages,
        }
    }

    /// Number of messages that the client should receive in an exchange that ends well. `None` if any number
    /// is right.
    pub fn to_receive(self) -> Option<u32> {
        match (self.kind, self.messages) {
            (StreamKind::ClientStream, _) => Some(1),
            (_, UNKNOWN | ENDLESS) => None,
            (_, messages) => Some(messages),
        }
    }

    /// True if the client ends the stream when the measured time ends.
    pub fn is_endless(self) -> bool {
        self.messages == ENDLESS
    }

    /// Time from the first message of a stream to the last, nanoseconds. 0 if it is not known, or if the
    /// client ends the stream.
    pub fn length_ns(self) -> u64 {
        match self.messages {
            ENDLESS => 0,
            messages => u64::from(messages.saturating_sub(1)).saturating_mul(self.every_ns),
        }
    }
}

/// The number and the time of a message. It is the first field of the message, and decoders of protocol
/// buffers ignore it, because they do not know its number 2047 (type `bytes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the message in its stream, from 0. An echoed message has the number of the client's message.
    pub number: u64,
    /// When the message was due, nanoseconds of the sender's monotonic clock. An echoed message has the time
    /// of the client's message.
    pub due: u64,
}

impl Stamp {
    /// Length of a stamp, bytes. Messages of this length have nothing else.
    pub const LENGTH: usize = TAG.len() + 16;
    /// Length of a stamp in text, bytes: `~hx`, number and time in 16 hexadecimal digits each.
    pub const TEXT_LENGTH: usize = TEXT_TAG.len() + 32;

    /// Writes a stamp.
    pub fn write(self, to: &mut [u8; Self::LENGTH]) {
        let (tag, numbers) = to.split_at_mut(TAG.len());
        tag.copy_from_slice(&TAG);
        numbers[..8].copy_from_slice(&self.number.to_be_bytes());
        numbers[8..].copy_from_slice(&self.due.to_be_bytes());
    }

    /// The stamp of a message that begins with these bytes. `None` if it has none.
    pub fn read(start: &[u8]) -> Option<Self> {
        let numbers = start.get(..Self::LENGTH)?.strip_prefix(&TAG)?;
        let (number, due) = numbers.split_at(8);
        let number = u64::from_be_bytes(number.try_into().ok()?);
        Some(Self { number, due: u64::from_be_bytes(due.try_into().ok()?) })
    }

    /// Writes a stamp in printable characters that need no escape in JSON or HTML.
    pub fn write_text(self, to: &mut [u8; Self::TEXT_LENGTH]) {
        let (tag, digits) = to.split_at_mut(TEXT_TAG.len());
        tag.copy_from_slice(&TEXT_TAG);
        for (place, digit) in digits.iter_mut().enumerate() {
            let value = if place < 16 { self.number } else { self.due };
            *digit = DIGITS[(value >> (60 - 4 * (place % 16)) & 0xf) as usize];
        }
    }
}

/// Finds the stamps in a text that comes in parts. They can be anywhere in it, because AI gateways put the
/// text of a model into JSON of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextStamps {
    /// Number of bytes of a stamp that were read.
    read: u8,
    number: u64,
    due: u64,
}

impl TextStamps {
    /// Reads a part of a text. Calls `found` with each stamp that ends in it.
    pub fn read(&mut self, part: &[u8], mut found: impl FnMut(Stamp)) {
        let mut at = 0;
        while at < part.len() {
            if self.read == 0 {
                let Some(start) = memchr(TEXT_TAG[0], &part[at..]) else { return };
                (at, self.read) = (at + start + 1, 1);
                continue;
            }
            let (byte, read) = (part[at], usize::from(self.read));
            if read < TEXT_TAG.len() {
                // The byte can begin another stamp.
                self.read = if byte == TEXT_TAG[read] { self.read + 1 } else { 0 };
                at += usize::from(self.read > 0);
                continue;
            }
            let Some(digit) = (byte as char).to_digit(16) else {
                self.read = 0;
                continue;
            };
            let value = if read < TEXT_TAG.len() + 16 { &mut self.number } else { &mut self.due };
            *value = *value << 4 | u64::from(digit);
            (self.read, at) = (self.read + 1, at + 1);
            if usize::from(self.read) == Stamp::TEXT_LENGTH {
                found(Stamp { number: self.number, due: self.due });
                *self = Self::default();
            }
        }
    }

    /// Called when the text has ended. Forgets an incomplete stamp.
    pub fn end(&mut self) {
        *self = Self::default();
    }
}

/// Beginning of a stamp in text.
const TEXT_TAG: [u8; 3] = *b"~hx";
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Makes room for a stamp at the beginning of a message. If the content is a filler, the stamp replaces its
/// beginning.
pub fn with_room(mut content: Vec<u8>, is_filler: bool) -> Vec<u8> {
    if is_filler {
        content.resize(content.len().max(Stamp::LENGTH), b'x');
        return content;
    }
    let mut message = vec![0; Stamp::LENGTH];
    message.append(&mut content);
    message
}

/// Key of the field 2047 of type `bytes`, and its length.
const TAG: [u8; 3] = [0xfa, 0x7f, 16];

/// Messages of the calls of a load that have streams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesRecord {
    /// Numbers of messages.
    pub counts: MessageCounts,
    /// Times of messages, nanoseconds.
    pub histograms: MessageHistograms,
    /// True if the load also had requests without streams, whose messages are not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
    /// Streams of tokens. Absent if the load has none, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensRecord>,
}

/// Numbers of messages that were due in the measured time, whenever their call began. If it is not known when
/// a message was due, the time of its arrival counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Messages that the client sent, at least in part. If a call is sent again, its messages count again.
    pub sent: u64,
    /// Messages that arrived whole.
    pub received: u64,
    /// Messages that did not arrive, of successful calls that ended in the measured time or later. Calls that
    /// failed, or that had no outcome when the load ended, lose no messages. If the number of messages is not
    /// known, only gaps between the first and the last message count.
    pub lost: u64,
    /// Messages whose number had arrived before, in the same call.
    pub repeated: u64,
    /// Messages that arrived after one with a larger number, and had not arrived before.
    pub reordered: u64,
    /// Messages without a number, of the same calls. The answer to a client's stream needs no number. Events
    /// of other servers never have one, and do not count.
    pub unnumbered: u64,
    /// Messages that arrived in the same read as the message before them, although they were due at
    /// different times. A busy generator causes this too, because it reads late.
    pub merged_in_read: u64,
    /// Messages that arrived inside another message, because a gateway has merged them. They also count as
    /// received.
    #[serde(default)]
    pub merged_into_one: u64,
    /// Comments of event streams, which keep connections open.
    #[serde(default)]
    pub comments: u64,
    /// WebSocket pings that the client answered.
    #[serde(default)]
    pub pings: u64,
    /// WebSockets that ended without a close frame, after their handshake.
    #[serde(default)]
    pub cut: u64,
    /// WebSocket handshakes that were answered with another status than 101 (HTTP/2: 200), or with a wrong
    /// answer to the key.
    #[serde(default)]
    pub refused: u64,
    /// WebSockets on which both sides have agreed to compress messages.
    #[serde(default)]
    pub compressed: u64,
}

impl MessageCounts {
    /// All counts, in the order of the fields.
    pub fn all(&self) -> [u64; 13] {
        [
            self.sent,
            self.received,
            self.lost,
            self.repeated,
            self.reordered,
            self.unnumbered,
            self.merged_in_read,
            self.merged_into_one,
            self.comments,
            self.pings,
            self.cut,
            self.refused,
            self.compressed,
        ]
    }

    /// Adds the counts of another worker or trial.
    pub fn add(&mut self, other: &Self) {
        add_fields!(self, other:
            all sent received lost repeated reordered unnumbered merged_in_read merged_into_one comments pings
            cut refused compressed
        );
    }
}

/// Times of messages that were due in the measured time, nanoseconds. Ages and gaps leave out tokens after a
/// [`Pause`](crate::llm::Pause), because these say nothing about the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageHistograms {
    /// From when the client's message was due until its answer arrived. Empty unless both sides send a
    /// stream.
    pub response_time: Encoded,
    /// From sending the request until the first message arrived. Only of calls that were scheduled in the
    /// measured time.
    pub first_message: Encoded,
    /// From when the server's message was due at the server until it arrived. Empty unless only the server
    /// sends a stream, and server and generator have the same clock.
    pub age: Encoded,
    /// From the arrival of a message to the arrival of the next message of the same call.
    pub gap: Encoded,
    /// From sending the request until the whole head of the response had arrived; for WebSockets, from
    /// sending the handshake. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Encoded>,
    /// Fan-out: from when a message was due until the last connection of this generator had it. With several
    /// generators, this has the times of all generators. Absent unless the stream is a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Encoded>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_the_first_field_of_a_message() {
        let stamp = Stamp { number: 7, due: 1_234_567_890_123 };
        let mut message = [0; Stamp::LENGTH];
        stamp.write(&mut message);
        assert_eq!(Stamp::read(&message), Some(stamp));
        assert_eq!(Stamp::read(&[message.as_slice(), b"more"].concat()), Some(stamp));
        assert_eq!(Stamp::read(&message[..18]), None);
        assert_eq!(Stamp::read(b"a text that is long enough"), None);
        // The key of a field is its number and its type: 2 is `bytes`.
        assert_eq!(u32::from(TAG[0] & 0x7f) | u32::from(TAG[1]) << 7, 2047 << 3 | 2);
    }

    #[test]
    fn a_stamp_replaces_only_what_has_no_meaning() {
        assert_eq!(with_room(vec![b'x'; 100], true).len(), 100);
        assert_eq!(with_room(Vec::new(), true).len(), Stamp::LENGTH);
        assert_eq!(with_room(b"text".to_vec(), false)[Stamp::LENGTH..], *b"text");
    }

    #[test]
    fn stamps_in_text_are_found_in_any_parts() {
        let stamps = [Stamp { number: 0, due: 1 }, Stamp { number: u64::MAX, due: 0xfeed }];
        let mut text = b"~h{\"~~hx12z".to_vec();
        for stamp in stamps {
            let mut written = [0; Stamp::TEXT_LENGTH];
            stamp.write_text(&mut written);
            text.extend_from_slice(b"~~h");
            text.extend_from_slice(&written);
        }
        for split in 0..=text.len() {
            let (mut reader, mut found) = (TextStamps::default(), Vec::new());
            let (start, rest) = text.split_at(split);
            reader.read(start, |stamp| found.push(stamp));
            reader.read(rest, |stamp| found.push(stamp));
            assert_eq!(found, stamps, "{split}");
        }
        let (mut reader, mut found) = (TextStamps::default(), 0);
        reader.read(&text[..text.len() - 1], |_| found += 1);
        reader.end();
        reader.read(&text[text.len() - 1..], |_| found += 1);
        assert_eq!(found, 1);
    }

    #[test]
    fn who_sends_a_stream_says_how_many_messages_each_side_has() {
        let of = |kind| StreamSpec::grpc(kind, 10, 1000);
        let numbers = [StreamKind::ServerStream, StreamKind::ClientStream, StreamKind::BothWays]
            .map(|kind| (of(kind).to_send(), of(kind).to_receive()));
        assert_eq!(numbers, [(1, Some(10)), (10, Some(1)), (10, Some(10))]);
        assert_eq!(of(StreamKind::BothWays).length_ns(), 9000);
        for kind in [StreamKind::ServerStream, StreamKind::ClientStream, StreamKind::BothWays] {
            let json = serde_json::to_value(of(kind)).expect("plain data");
            assert_eq!(json["kind"], kind.name());
        }
    }
}

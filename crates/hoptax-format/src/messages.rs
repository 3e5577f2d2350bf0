//! Messages of streams: exchanges that carry many messages, each with a number and a time of its own.
//!
//! Gateways change everything but the content, so number and time are in the content: [`Stamp`].

use crate::histogram::Encoded;
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

/// A call with many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Who sends a stream.
    pub kind: StreamKind,
    /// Number of messages in each stream of a call; at least 1.
    pub messages: u32,
    /// Time between the moments when two messages of a stream are due, nanoseconds. With 0, the messages of
    /// the server or of the client alone are due at once. If both send, the next message is then due when the
    /// answer to the one before has arrived (closed loop).
    pub every_ns: u64,
    /// True if the times in the server's messages come from the clock of the generator's host. Only then are
    /// ages of messages recorded.
    #[serde(default)]
    pub same_clock: bool,
}

impl StreamSpec {
    /// Number of messages that the client sends in a call.
    pub fn to_send(self) -> u32 {
        if self.kind == StreamKind::ServerStream { 1 } else { self.messages }
    }

    /// Number of messages that the response to a call has.
    pub fn to_receive(self) -> u32 {
        if self.kind == StreamKind::ClientStream { 1 } else { self.messages }
    }

    /// Time from the first message of a stream to the last, nanoseconds.
    pub fn length_ns(self) -> u64 {
        u64::from(self.messages.saturating_sub(1)).saturating_mul(self.every_ns)
    }
}

/// The number and the time of a message. It is the first field of the message, so that a decoder of
/// protocol buffers takes it for an unknown field: number 2047 of type `bytes`.
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
}

/// A message with room for a stamp. The stamp replaces the beginning of a filler, which has no meaning, and
/// comes before other contents.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesRecord {
    /// Numbers of messages.
    pub counts: MessageCounts,
    /// Times of messages, nanoseconds.
    pub histograms: MessageHistograms,
    /// True if the load also had requests without streams, whose messages are not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
}

/// Numbers of messages that were due in the measured time, whenever their call began. If it is not known when
/// a message was due, the time of its arrival counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Messages that the client sent, at least in part. If a call is sent again, its messages count again.
    pub sent: u64,
    /// Messages that arrived whole.
    pub received: u64,
    /// Messages that calls with the status OK should have received, and did not. Calls count that ended in
    /// the measured time or later. Calls that failed, or that had no outcome when the load ended, lose no
    /// messages.
    pub lost: u64,
    /// Messages whose number had arrived before, in the same call.
    pub repeated: u64,
    /// Messages that arrived after one with a larger number, for the first time.
    pub reordered: u64,
    /// Messages without a number, of the same calls. The answer to a client's stream needs none.
    pub unnumbered: u64,
    /// Messages that arrived in the same read as the message before them, although they were due at
    /// different times. A busy generator causes this too, because it reads late.
    pub merged_in_read: u64,
}

impl MessageCounts {
    /// Adds the counts of another worker or trial.
    pub fn add(&mut self, other: &Self) {
        let Self { sent, received, lost, repeated, reordered, unnumbered, merged_in_read } = other;
        self.sent += sent;
        self.received += received;
        self.lost += lost;
        self.repeated += repeated;
        self.reordered += reordered;
        self.unnumbered += unnumbered;
        self.merged_in_read += merged_in_read;
    }
}

/// Times of messages that were due in the measured time, nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageHistograms {
    /// From when the client's message was due until its answer arrived. Empty unless both sides send a
    /// stream.
    pub response_time: Encoded,
    /// From sending the request until the first message arrived. Only of calls that were scheduled in the
    /// measured time.
    pub first_message: Encoded,
    /// From when the server's message was due at the server until it arrived. Empty unless only the server
    /// sends a stream, and its clock is that of the generator.
    pub age: Encoded,
    /// From the arrival of a message to that of the next message of the same call.
    pub gap: Encoded,
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
    fn who_sends_a_stream_says_how_many_messages_each_side_has() {
        let of = |kind| StreamSpec { kind, messages: 10, every_ns: 1000, same_clock: false };
        let numbers = [StreamKind::ServerStream, StreamKind::ClientStream, StreamKind::BothWays]
            .map(|kind| (of(kind).to_send(), of(kind).to_receive()));
        assert_eq!(numbers, [(1, 10), (10, 1), (10, 10)]);
        assert_eq!(of(StreamKind::BothWays).length_ns(), 9000);
        for kind in [StreamKind::ServerStream, StreamKind::ClientStream, StreamKind::BothWays] {
            let json = serde_json::to_value(of(kind)).expect("plain data");
            assert_eq!(json["kind"], kind.name());
        }
    }
}

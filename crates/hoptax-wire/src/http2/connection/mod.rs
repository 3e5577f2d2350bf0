//! One connection: its settings, its events, and the state that both directions share.

use super::credit::Credit;
use super::frame::{self, PREFACE};
use super::hpack::Decoder;
use super::settings::{self, Config, DEFAULT_TABLE, DEFAULT_WINDOW, MAX_WINDOW, Role, Settings};
use super::streams::{Stream, Streams};
use super::{Code, Fault};
use std::ops::Range;

mod data;
mod headers;
mod receive;
mod send;
#[cfg(test)]
mod tests;

/// Maximum number of requests in flight before the server's settings are known. RFC 9113, section 6.5.2,
/// advises servers to allow at least 100.
const STREAMS_BEFORE_SETTINGS: u32 = 100;

/// A stream, as events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRef {
    /// The stream's number on the connection.
    pub id: u32,
    /// The tag that the caller has given to the stream, or 0.
    pub tag: u32,
}

/// An event of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The input is incomplete: append more bytes and call again.
    NeedMore,
    /// An interim head (status 1xx) is in [`Sections::head`](super::Sections::head). The final response
    /// follows.
    Interim {
        /// The stream.
        stream: StreamRef,
    },
    /// The head of a request or a response is in [`Sections::head`](super::Sections::head).
    Head {
        /// The stream.
        stream: StreamRef,
        /// True if the peer has ended the stream.
        end: bool,
    },
    /// A part of a body, possibly an empty part.
    Body {
        /// The stream.
        stream: StreamRef,
        /// Position of the data in the input.
        data: Range<usize>,
        /// True if the peer has ended the stream.
        end: bool,
    },
    /// Trailers are in [`Sections::trailers`](super::Sections::trailers). The peer has ended the stream.
    Trailers {
        /// The stream.
        stream: StreamRef,
    },
    /// The peer has closed a stream.
    Reset {
        /// The stream.
        stream: StreamRef,
        /// The code of the RST_STREAM or GOAWAY frame.
        code: Code,
        /// True if the server has not processed the request: the stream was refused, or GOAWAY excludes it
        /// (RFC 9113, section 8.7). The request can be sent again.
        unprocessed: bool,
    },
    /// The peer violated the protocol on a stream. The stream is closed, and the peer was informed.
    Failed {
        /// The stream.
        stream: StreamRef,
        /// The violation.
        fault: Fault,
    },
    /// A stream on which [`Connection::send_data`] did not accept all data can send again.
    Writable {
        /// The stream.
        stream: StreamRef,
    },
    /// The peer's settings have arrived and were acknowledged.
    Settings,
    /// The peer accepts no new streams. [`Step::Reset`] follows for each request that the server does not
    /// process.
    GoAway {
        /// The last stream that the peer processes or has processed.
        last: u32,
        /// The reason.
        code: Code,
        /// Position of the peer's explanation in the input. It is for people.
        debug: Range<usize>,
    },
    /// The peer has answered [`Connection::ping`].
    Pong([u8; 8]),
}

/// The kind of the next input bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Preface,
    Frame,
    Data(Data),
    /// Bytes that have no meaning.
    Skip {
        left: usize,
    },
}

/// The rest of a DATA frame: `left` bytes, then `padding` bytes. `end` is true if the frame ends the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Data {
    stream: u32,
    left: usize,
    padding: usize,
    end: bool,
}

/// A header block whose end has not arrived. Its bytes are in [`Connection::block`].
#[derive(Debug, Clone, Copy)]
struct Continued {
    stream: u32,
    end_stream: bool,
    frames: u32,
}

/// The entries that our blocks have added to the peer's dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Nothing,
    /// The entries of this set, see [`Block::shared`](super::Block::shared).
    Set(u64),
    /// The table became too small for the entries.
    TooSmall,
}

/// Decodes what the peer sends, and encodes what we send.
///
/// All bytes to send are appended to a vector `output`, in order. The caller sends them.
#[derive(Debug, Clone)]
pub struct Connection {
    role: Role,
    config: Config,
    reading: Reading,
    fault: Option<Fault>,
    decoder: Decoder,
    /// Fragments of the block that `continued` describes.
    block: Vec<u8>,
    continued: Option<Continued>,
    streams: Streams,
    /// The peer's settings. `peer_settings_known` is true after its first SETTINGS frame.
    peer: Settings,
    peer_settings_known: bool,
    settings_acknowledged: bool,
    /// Size that we use of the peer's dynamic table. `table_size_changed` is true while we must still
    /// announce this size to the peer.
    table_size: u32,
    table_size_changed: bool,
    sent: Sent,
    /// Client: number of our next stream.
    next_stream: u32,
    /// Server: number of the last stream that the client has opened. The second field has the stream numbers
    /// that the client last skipped.
    last_stream: u32,
    skipped: Range<u32>,
    /// The highest stream that we have reset. On streams up to this one, frames can still arrive that the
    /// peer sent before it received the reset.
    reset_up_to: u32,
    send_window: i64,
    receive_window: i64,
    /// Number of received bytes that no WINDOW_UPDATE of the connection has given back yet.
    to_release: u32,
    credit: Credit,
    pings: u32,
    going_away: bool,
    refused_by_peer: Option<(u32, Code)>,
    /// True if some streams have events without new input: GOAWAY has excluded them, or they were blocked and
    /// may send again.
    search: bool,
}

impl Connection {
    /// Begins a connection as a client. Appends the preface and our settings to `output`.
    pub fn client(config: Config, output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(PREFACE);
        Self::begin(Role::Client, config, output)
    }

    /// Begins a connection as a server. Appends our settings to `output`.
    pub fn server(config: Config, output: &mut Vec<u8>) -> Self {
        Self::begin(Role::Server, config, output)
    }

    fn begin(role: Role, config: Config, output: &mut Vec<u8>) -> Self {
        let config = Config {
            window: config.window.min(MAX_WINDOW),
            connection_window: config.connection_window.clamp(DEFAULT_WINDOW, MAX_WINDOW),
            ..config
        };
        settings::write(output, &config, role);
        if config.connection_window > DEFAULT_WINDOW {
            frame::write_window_update(output, 0, config.connection_window - DEFAULT_WINDOW);
        }
        Self {
            role,
            config,
            reading: if role == Role::Server { Reading::Preface } else { Reading::Frame },
            fault: None,
            decoder: Decoder::new(config.header_table.max(DEFAULT_TABLE)),
            block: Vec::new(),
            continued: None,
            streams: Streams::default(),
            peer: Settings::default(),
            peer_settings_known: false,
            settings_acknowledged: false,
            table_size: DEFAULT_TABLE,
            table_size_changed: false,
            sent: Sent::Nothing,
            next_stream: 1,
            last_stream: 0,
            skipped: 0..0,
            reset_up_to: 0,
            send_window: i64::from(DEFAULT_WINDOW),
            receive_window: i64::from(config.connection_window),
            to_release: 0,
            credit: Credit::default(),
            pings: 0,
            going_away: false,
            refused_by_peer: None,
            search: false,
        }
    }

    /// The peer's settings.
    pub fn peer(&self) -> &Settings {
        &self.peer
    }

    /// True if the peer's first settings have arrived.
    pub fn peer_settings_known(&self) -> bool {
        self.peer_settings_known
    }

    /// Number of open streams. If the connection ends, there are no further events for these streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// True if no new stream can ever be opened: one side has sent GOAWAY, the connection has failed, or all
    /// stream numbers are used.
    pub fn is_closing(&self) -> bool {
        self.going_away
            || self.refused_by_peer.is_some()
            || self.fault.is_some()
            || self.next_stream > MAX_WINDOW
    }

    /// Client: number of requests that can be sent now.
    pub fn capacity(&self) -> u32 {
        if self.is_closing() || self.role == Role::Server {
            return 0;
        }
        let unknown = if self.peer_settings_known { u32::MAX } else { STREAMS_BEFORE_SETTINGS };
        let limit = self.peer.max_concurrent_streams.unwrap_or(unknown).min(self.config.streams);
        limit.saturating_sub(self.streams.len() as u32)
    }

    /// Sets the tag of a stream. Later events of the stream contain this tag.
    pub fn set_tag(&mut self, stream: u32, tag: u32) {
        if let Some(stream) = self.streams.get(stream) {
            stream.tag = tag;
        }
    }

    /// Number of the last stream that the client has opened. Only clients open streams.
    fn last_opened(&self) -> u32 {
        match self.role {
            Role::Client => self.next_stream - 1,
            Role::Server => self.last_stream,
        }
    }

    /// True if the stream has not been opened yet. After our GOAWAY, a client can open streams that we
    /// ignore, so its streams then never count as idle.
    fn is_idle(&self, stream: u32) -> bool {
        let is_ignored = self.role == Role::Server && self.going_away;
        stream.is_multiple_of(2) || (stream > self.last_opened() && !is_ignored)
    }

    fn new_stream(&self, id: u32) -> Stream {
        let window = if self.settings_acknowledged {
            self.config.window
        } else {
            // The peer can use the initial window until it has applied our settings.
            self.config.window.max(DEFAULT_WINDOW)
        };
        Stream {
            send_window: i64::from(self.peer.initial_window_size),
            receive_window: i64::from(window),
            ..Stream::new(id)
        }
    }

    /// Closes a stream that both sides have ended.
    fn close_if_ended(&mut self, id: u32) {
        if self.streams.get(id).is_some_and(|stream| !stream.sending && !stream.receiving) {
            self.streams.remove(id);
            self.credit.completed();
        }
    }
}

impl Stream {
    fn named(&self) -> StreamRef {
        StreamRef { id: self.id, tag: self.tag }
    }
}

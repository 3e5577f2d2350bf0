//! The WebSockets of a worker's exchanges: their states, and the frames that they must send.

use crate::exchange::ExchangeId;
use crate::inflate::{Inflater, LONGEST_COMPRESSED};
use crate::spares::Spares;
use crate::target::{Mix, Target};
use hoptax_format::messages::{Carrier, Stamp};
use hoptax_format::random::Random;
use hoptax_wire::websocket::{Decoder, Opcode, Side, close, write_frame};

/// The WebSockets of a worker.
#[derive(Debug)]
pub(super) struct Sockets {
    /// One for each exchange.
    all: Vec<Socket>,
    /// A message of each target, whose stamp is written before each use. Empty if the client sends none.
    messages: Vec<Vec<u8>>,
    /// Frames that leave next. Empty between two events.
    pub(super) out: Vec<u8>,
    /// Source of the keys that mask frames. Masks protect proxies that would mistake frames for requests. A
    /// load needs no such protection, so the keys can be predictable.
    keys: Random,
    /// Absent until the first compressed message.
    inflater: Option<Box<Inflater>>,
}

/// The WebSocket of an exchange.
#[derive(Debug)]
pub(super) struct Socket {
    phase: Phase,
    pub(super) decoder: Decoder,
    /// When the server accepted the handshake.
    pub(super) opened: u64,
    /// True if both sides have agreed to compress messages.
    pub(super) deflate: bool,
    /// True if the current message is compressed.
    is_compressed: bool,
    /// The part of a compressed message that has arrived.
    compressed: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The server has not accepted the handshake.
    Handshake,
    Open,
    /// The client has sent its close frame.
    Closing,
}

impl Sockets {
    /// Room for the WebSockets of `exchanges` exchanges. `None` if no target is a WebSocket.
    pub(super) fn new(mix: &Mix<'_>, exchanges: u32, seed: u64) -> Option<Box<Self>> {
        let has_any = mix.targets().any(|target| target.carrier() == Some(Carrier::WebSocket));
        has_any.then(|| {
            let all = (0..exchanges).map(|_| Socket::new()).collect();
            let messages = mix.targets().map(message_of).collect();
            Box::new(Self { all, messages, out: Vec::new(), keys: Random::new(seed), inflater: None })
        })
    }

    /// The WebSocket of an exchange.
    pub(super) fn of(&mut self, exchange: ExchangeId) -> &mut Socket {
        &mut self.all[exchange.index()]
    }

    /// True if the server has accepted the handshake of an exchange.
    #[inline]
    pub(super) fn is_accepted(&self, exchange: ExchangeId) -> bool {
        self.all[exchange.index()].phase != Phase::Handshake
    }

    /// Appends a frame to the output.
    pub(super) fn write(&mut self, opcode: Opcode, payload: &[u8]) {
        write_frame(&mut self.out, opcode, Some(key(&mut self.keys)), payload);
    }

    /// Appends a message of a target.
    pub(super) fn write_message(&mut self, target: u32, stamp: Stamp) {
        let message = &mut self.messages[target as usize];
        if let Some(room) = message.first_chunk_mut() {
            stamp.write(room);
        }
        write_frame(&mut self.out, Opcode::Binary, Some(key(&mut self.keys)), message);
    }

    /// Appends the answer to the ping that the decoder of an exchange has read.
    pub(super) fn write_pong(&mut self, exchange: ExchangeId) {
        let payload = self.all[exchange.index()].decoder.control();
        write_frame(&mut self.out, Opcode::Pong, Some(key(&mut self.keys)), payload);
    }

    /// Appends a close frame, unless the client has sent one. No message follows it.
    pub(super) fn write_close(&mut self, exchange: ExchangeId, code: u16) {
        let socket = &mut self.all[exchange.index()];
        if socket.phase == Phase::Open {
            socket.phase = Phase::Closing;
            self.write(Opcode::Close, &code.to_be_bytes());
        }
    }

    /// Reads a part of a message of the server. Calls `read` with each part of its content. `end` is true if
    /// the message has ended.
    ///
    /// # Errors
    /// If the message cannot be inflated.
    pub(super) fn part(
        &mut self,
        exchange: ExchangeId,
        (data, end): (&[u8], bool),
        spares: &mut Spares,
        mut read: impl FnMut(&[u8]),
    ) -> Result<(), &'static str> {
        let socket = &mut self.all[exchange.index()];
        if !socket.is_compressed {
            read(data);
            return Ok(());
        }
        if socket.compressed.capacity() == 0 {
            socket.compressed = spares.take();
        }
        socket.compressed.extend_from_slice(data);
        if socket.compressed.len() > LONGEST_COMPRESSED {
            return Err("a compressed message is too long");
        }
        if !end {
            return Ok(());
        }
        let inflater = self.inflater.get_or_insert_with(|| Box::new(Inflater::new()));
        let result = inflater.inflate(&mut socket.compressed, read);
        spares.give_back(std::mem::take(&mut socket.compressed));
        result
    }
}

impl Socket {
    fn new() -> Self {
        Self {
            phase: Phase::Handshake,
            decoder: Decoder::new(Side::Server, false),
            opened: 0,
            deflate: false,
            is_compressed: false,
            compressed: Vec::new(),
        }
    }

    /// Called when a request was sent, which can be a handshake.
    pub(super) fn begin(&mut self) {
        self.phase = Phase::Handshake;
    }

    /// Called when the server has accepted the handshake. `deflate` is true if messages can be compressed.
    pub(super) fn open(&mut self, now: u64, deflate: bool) {
        self.phase = Phase::Open;
        self.decoder = Decoder::new(Side::Server, deflate);
        (self.opened, self.deflate, self.is_compressed) = (now, deflate, false);
        // The previous WebSocket may have ended in the middle of a message.
        self.compressed.clear();
    }

    /// True if messages can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Called when a message of the server begins.
    pub(super) fn message_begins(&mut self, is_compressed: bool) {
        self.is_compressed = is_compressed;
    }
}

/// The client's message, if the target is a WebSocket.
fn message_of(target: &Target) -> Vec<u8> {
    let stream = target.stream.as_ref().filter(|stream| stream.spec.carrier == Carrier::WebSocket);
    stream.map(|stream| stream.message.clone()).unwrap_or_default()
}

/// The next key that masks a frame.
fn key(keys: &mut Random) -> [u8; 4] {
    (keys.next_u64() as u32).to_ne_bytes()
}

/// The code of our close frame in answer to one with this code.
pub(super) fn answer(code: Option<u16>) -> u16 {
    code.unwrap_or(close::NORMAL)
}

/// True if a close frame of the server with this code is a success. Many servers send no code.
pub(super) fn is_good(code: Option<u16>) -> bool {
    matches!(code, None | Some(close::NORMAL | close::GOING_AWAY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_wire::websocket::{Step, mask};

    fn sockets() -> Sockets {
        let (all, messages) = (vec![Socket::new()], vec![vec![b'x'; Stamp::LENGTH + 1]]);
        Sockets { all, messages, out: Vec::new(), keys: Random::new(1), inflater: None }
    }

    /// What a server reads of the output: control frames with their payloads.
    fn controls(sockets: &Sockets) -> Vec<(Opcode, Vec<u8>)> {
        let mut decoder = Decoder::new(Side::Client, false);
        let (mut found, mut rest) = (Vec::new(), &sockets.out[..]);
        loop {
            let (consumed, step) = decoder.advance(rest).expect("well-formed");
            rest = &rest[consumed..];
            match step {
                Step::NeedMore => return found,
                Step::Control(opcode) => found.push((opcode, decoder.control().to_vec())),
                step => panic!("{step:?}"),
            }
        }
    }

    #[test]
    fn a_websocket_is_closed_once() {
        let (mut sockets, id) = (sockets(), ExchangeId(0));
        sockets.write_close(id, close::NORMAL);
        assert!(sockets.out.is_empty() && !sockets.is_accepted(id), "no handshake");
        sockets.of(id).open(7, false);
        assert!(sockets.of(id).is_open());
        sockets.write_close(id, close::NORMAL);
        sockets.write_close(id, close::PROTOCOL_ERROR);
        assert_eq!(controls(&sockets), [(Opcode::Close, vec![3, 232])]);
        assert!(sockets.is_accepted(id) && !sockets.of(id).is_open());
        sockets.of(id).begin();
        assert!(!sockets.is_accepted(id), "the next exchange");
    }

    #[test]
    fn a_ping_is_answered_with_its_payload() {
        let (mut sockets, id) = (sockets(), ExchangeId(0));
        sockets.of(id).open(0, false);
        let mut ping = Vec::new();
        write_frame(&mut ping, Opcode::Ping, None, b"payload");
        assert_eq!(sockets.of(id).decoder.advance(&ping), Ok((9, Step::Control(Opcode::Ping))));
        sockets.write_pong(id);
        assert_eq!(controls(&sockets), [(Opcode::Pong, b"payload".to_vec())]);
    }

    #[test]
    fn a_message_has_its_stamp() {
        let (mut sockets, stamp) = (sockets(), Stamp { number: 5, due: 6 });
        sockets.write_message(0, stamp);
        let mut decoder = Decoder::new(Side::Client, false);
        let (head, _) = decoder.advance(&sockets.out).expect("a head");
        let (_, step) = decoder.advance(&sockets.out[head..]).expect("a payload");
        assert_eq!(step, Step::Data { data: 0..Stamp::LENGTH + 1, end: true });
        let (key, offset) = decoder.unmask().expect("masked");
        mask(&mut sockets.out[head..], key, offset);
        assert_eq!(Stamp::read(&sockets.out[head..]), Some(stamp));
        assert_eq!(sockets.out.last(), Some(&b'x'));
    }

    #[test]
    fn each_frame_has_another_mask() {
        let mut sockets = sockets();
        (0..2).for_each(|_| sockets.write(Opcode::Pong, b"same payload"));
        let (first, second) = sockets.out.split_at(sockets.out.len() / 2);
        assert_ne!(first, second);
    }

    #[test]
    fn a_compressed_message_is_read_once_it_is_whole() {
        let (mut sockets, id, mut spares) = (sockets(), ExchangeId(0), Spares::new(1000));
        sockets.of(id).message_begins(true);
        // RFC 7692, section 7.2.3.1.
        let (start, rest) = ([0xf2, 0x48, 0xcd], [0xc9, 0xc9, 0x07, 0x00]);
        let mut text = Vec::new();
        sockets.part(id, (&start, false), &mut spares, |_| panic!("not whole")).expect("not read yet");
        sockets.part(id, (&rest, true), &mut spares, |part| text.extend_from_slice(part)).expect("valid");
        assert_eq!(text, b"Hello");
        sockets.of(id).message_begins(false);
        text.clear();
        sockets.part(id, (b"plain", true), &mut spares, |part| text.extend_from_slice(part)).expect("valid");
        assert_eq!(text, b"plain");
    }

    #[test]
    fn codes_of_close_frames_say_how_a_websocket_ended() {
        let good = [None, Some(1000), Some(1001), Some(1002), Some(1011), Some(4000)].map(is_good);
        assert_eq!(good, [true, true, true, false, false, false]);
        assert_eq!((answer(None), answer(Some(1001))), (1000, 1001));
    }
}

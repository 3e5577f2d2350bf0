//! Frames of WebSockets.

use hoptax_wire::websocket::{self, Decoder, Opcode, Side as Sender, Step, mask};

/// A frame of a WebSocket, without its mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) opcode: Opcode,
    pub(super) fin: bool,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    pub(super) fn new(opcode: Opcode, payload: impl Into<Vec<u8>>) -> Self {
        Self { opcode, fin: true, payload: payload.into() }
    }

    /// A close frame.
    pub(super) fn close(code: u16, reason: &str) -> Self {
        Self::new(Opcode::Close, [&code.to_be_bytes()[..], reason.as_bytes()].concat())
    }

    /// Appends the frame. `key` masks it.
    pub(super) fn write(&self, output: &mut Vec<u8>, key: Option<[u8; 4]>) {
        let Self { opcode, fin, payload } = self;
        let length = payload.len() as u64;
        let (fin, opcode) = (*fin, *opcode);
        websocket::Frame { fin, compressed: false, opcode, mask: key, length }.write(output);
        let start = output.len();
        output.extend_from_slice(payload);
        if let Some(key) = key {
            mask(&mut output[start..], key, 0);
        }
    }
}

/// Collects whole frames.
pub(super) struct Frames {
    decoder: Decoder,
    /// The frame that has begun, and the length of its payload.
    begun: Option<(Frame, u64)>,
}

impl Frames {
    /// Collects the frames that `from` sends.
    pub(super) fn new(from: Sender) -> Self {
        Self { decoder: Decoder::new(from, false), begun: None }
    }

    /// The frames that end in these bytes.
    ///
    /// # Errors
    /// If the bytes violate the protocol, with the reason.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, String> {
        let (mut whole, mut rest) = (Vec::new(), bytes);
        loop {
            let (consumed, step) = self.decoder.advance(rest).map_err(|fault| fault.to_string())?;
            match step {
                Step::NeedMore => return Ok(whole),
                Step::Begin { opcode, fin, length, .. } => {
                    self.begun = Some((Frame { opcode, fin, payload: Vec::new() }, length));
                }
                Step::Data { data, .. } => {
                    let mut part = rest[data].to_vec();
                    if let Some((key, offset)) = self.decoder.unmask() {
                        mask(&mut part, key, offset);
                    }
                    if let Some((frame, _)) = &mut self.begun {
                        frame.payload.extend_from_slice(&part);
                    }
                }
                Step::Control(opcode) => whole.push(Frame::new(opcode, self.decoder.control())),
            }
            if let Some((frame, length)) = self.begun.take() {
                if frame.payload.len() as u64 == length {
                    whole.push(frame);
                } else {
                    self.begun = Some((frame, length));
                }
            }
            rest = &rest[consumed..];
        }
    }
}

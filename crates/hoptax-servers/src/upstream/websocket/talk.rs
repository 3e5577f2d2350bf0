//! The messages of one WebSocket: each message from the client is sent back when it is whole, as one frame.

use super::tools::{MOST_MESSAGE, MOST_SPARE, Tools};
use hoptax_wire::websocket::{Decoder, Opcode, Side, Step, close, mask, write_frame};
use std::mem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// Our close frame was sent, and the client has not answered yet.
    Closing,
    /// Nothing more is sent or read.
    Over,
}

/// The messages of a WebSocket. While the client has not sent a part of a message, no memory is held for one.
#[derive(Debug)]
pub(in crate::upstream) struct Talk {
    decoder: Decoder,
    /// True if both sides have agreed to compress messages.
    deflates: bool,
    /// False if the client's messages are only counted.
    echoes: bool,
    stage: Stage,
    /// Type of the message that is incomplete.
    opcode: Opcode,
    is_compressed: bool,
    message: Vec<u8>,
    /// Number of bytes at the beginning of a text that are whole characters.
    checked: usize,
}

/// Number of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::upstream) struct Passed {
    pub(in crate::upstream) received: u64,
    pub(in crate::upstream) sent: u64,
}

impl Talk {
    pub(in crate::upstream) fn new(deflates: bool, echoes: bool) -> Self {
        Self {
            decoder: Decoder::new(Side::Client, deflates),
            deflates,
            echoes,
            stage: Stage::Open,
            opcode: Opcode::Binary,
            is_compressed: false,
            message: Vec::new(),
            checked: 0,
        }
    }

    /// True if messages are compressed.
    pub(in crate::upstream) fn deflates(&self) -> bool {
        self.deflates
    }

    /// True if messages can be sent.
    pub(in crate::upstream) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// True if the connection ends once everything is sent.
    pub(in crate::upstream) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Ends the WebSocket from our side.
    pub(in crate::upstream) fn close(&mut self, output: &mut Vec<u8>) {
        if self.stage == Stage::Open {
            write_close(output, close::NORMAL);
            self.stage = Stage::Closing;
        }
    }

    /// Receives bytes, and appends the answers to `output`.
    pub(in crate::upstream) fn receive(
        &mut self,
        input: &[u8],
        tools: &mut Tools,
        output: &mut Vec<u8>,
    ) -> Passed {
        let mut passed = Passed::default();
        if self.message.capacity() == 0 {
            mem::swap(&mut self.message, &mut tools.spare);
        }
        let mut rest = input;
        while self.stage != Stage::Over {
            let outcome = match self.decoder.advance(rest) {
                Ok((_, Step::NeedMore)) => break,
                Ok((consumed, step)) => {
                    let outcome = self.step(step, rest, tools, output, &mut passed);
                    rest = &rest[consumed..];
                    outcome
                }
                Err(fault) => Err(fault.code()),
            };
            if let Err(code) = outcome {
                if self.stage == Stage::Open {
                    write_close(output, code);
                }
                self.stage = Stage::Over;
            }
        }
        if self.message.is_empty() || self.stage == Stage::Over {
            let mut unused = mem::take(&mut self.message);
            if unused.capacity() <= MOST_SPARE {
                unused.clear();
                tools.spare = unused;
            }
        }
        passed
    }

    /// Handles an event of the decoder. Returns the status code of the close frame if the client has violated
    /// the protocol.
    fn step(
        &mut self,
        step: Step,
        input: &[u8],
        tools: &mut Tools,
        output: &mut Vec<u8>,
        passed: &mut Passed,
    ) -> Result<(), u16> {
        match step {
            Step::NeedMore => Ok(()),
            Step::Begin { opcode, fin, compressed, length } => {
                if opcode != Opcode::Continuation {
                    (self.opcode, self.is_compressed, self.checked) = (opcode, compressed, 0);
                }
                if length > (MOST_MESSAGE - self.message.len()) as u64 {
                    return Err(close::TOO_LONG);
                }
                if fin && length == 0 { self.ended(tools, output, passed) } else { Ok(()) }
            }
            Step::Data { data, end } => {
                let start = self.message.len();
                self.message.extend_from_slice(&input[data]);
                if let Some((key, offset)) = self.decoder.unmask() {
                    mask(&mut self.message[start..], key, offset);
                }
                if end {
                    return self.ended(tools, output, passed);
                }
                if self.is_compressed { Ok(()) } else { self.check(false) }
            }
            Step::Control(opcode) => {
                self.control(opcode, output);
                Ok(())
            }
        }
    }

    /// Checks a text. A character can be in two parts of it, unless it `is_whole`.
    fn check(&mut self, is_whole: bool) -> Result<(), u16> {
        if self.opcode != Opcode::Text {
            return Ok(());
        }
        match std::str::from_utf8(&self.message[self.checked..]) {
            Ok(_) => self.checked = self.message.len(),
            Err(error) if is_whole || error.error_len().is_some() => return Err(close::INVALID_DATA),
            Err(error) => self.checked += error.valid_up_to(),
        }
        Ok(())
    }

    /// Called when a message is whole.
    fn ended(&mut self, tools: &mut Tools, output: &mut Vec<u8>, passed: &mut Passed) -> Result<(), u16> {
        if self.is_compressed {
            tools.inflate(&mut self.message)?;
        }
        self.check(true)?;
        passed.received += 1;
        if self.echoes && self.stage == Stage::Open {
            tools.write(self.deflates, self.opcode, &self.message, output);
            passed.sent += 1;
        }
        self.message.clear();
        Ok(())
    }

    fn control(&mut self, opcode: Opcode, output: &mut Vec<u8>) {
        match opcode {
            Opcode::Ping if self.stage == Stage::Open => {
                write_frame(output, Opcode::Pong, None, self.decoder.control());
            }
            Opcode::Close => {
                if self.stage == Stage::Open {
                    write_close(output, self.decoder.close_code().unwrap_or(close::NORMAL));
                }
                self.stage = Stage::Over;
            }
            _ => {}
        }
    }
}

fn write_close(output: &mut Vec<u8>, code: u16) {
    write_frame(output, Opcode::Close, None, &code.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_wire::websocket::Frame;

    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    /// A frame of a client.
    fn frame(fin: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let (mut bytes, length) = (Vec::new(), payload.len() as u64);
        Frame { fin, compressed: false, opcode, mask: Some(KEY), length }.write(&mut bytes);
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        mask(&mut bytes[start..], KEY, 0);
        bytes
    }

    /// A frame of the server.
    fn answer(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, opcode, None, payload);
        bytes
    }

    fn closed(code: u16) -> Vec<u8> {
        answer(Opcode::Close, &code.to_be_bytes())
    }

    #[test]
    fn a_long_message_is_sent_back_whole() {
        let message = vec![7; MOST_MESSAGE];
        let parts: Vec<_> = message.chunks(1 << 20).collect();
        let (mut talk, mut tools, mut output) = (Talk::new(false, true), Tools::default(), Vec::new());
        let mut passed = Passed::default();
        for (place, part) in parts.iter().enumerate() {
            let opcode = if place == 0 { Opcode::Binary } else { Opcode::Continuation };
            let bytes = frame(place + 1 == parts.len(), opcode, part);
            passed = talk.receive(&bytes, &mut tools, &mut output);
        }
        assert_eq!(passed, Passed { received: 1, sent: 1 });
        assert_eq!(output.len(), 10 + MOST_MESSAGE);
        assert_eq!((talk.message.capacity(), tools.spare.capacity()), (0, 0), "its memory is freed");
    }

    #[test]
    fn a_close_of_the_server_waits_for_the_answer() {
        let (mut talk, mut tools, mut output) = (Talk::new(false, false), Tools::default(), Vec::new());
        talk.close(&mut output);
        talk.close(&mut output);
        assert_eq!(output, closed(close::NORMAL));
        output.clear();
        let late = [frame(true, Opcode::Binary, b"late"), frame(true, Opcode::Ping, b"late")].concat();
        assert_eq!(talk.receive(&late, &mut tools, &mut output), Passed { received: 1, sent: 0 });
        assert!(!talk.is_open() && !talk.is_over());
        talk.receive(&frame(true, Opcode::Close, &[0x03, 0xe8]), &mut tools, &mut output);
        assert!(talk.is_over() && output.is_empty());
    }
}

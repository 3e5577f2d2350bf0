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

    /// What an echo answers, and whether it is over.
    fn echo(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let (mut talk, mut tools, mut output) = (Talk::new(false, true), Tools::default(), Vec::new());
        for piece in pieces {
            talk.receive(piece, &mut tools, &mut output);
        }
        (output, talk.is_over())
    }

    #[test]
    fn every_split_gives_the_same_answers() {
        let input = [
            frame(true, Opcode::Text, "grüße".as_bytes()),
            frame(false, Opcode::Text, b"gr\xc3"),
            frame(true, Opcode::Ping, b"are you there"),
            frame(false, Opcode::Continuation, b""),
            frame(true, Opcode::Continuation, b"\xbc\xc3\x9fe"),
            frame(true, Opcode::Pong, b"unasked"),
            frame(true, Opcode::Binary, &[0xff; 200]),
            frame(true, Opcode::Binary, b""),
            frame(true, Opcode::Close, &[0x0f, 0xa1, b'o', b'k']),
            b"ignored".to_vec(),
        ]
        .concat();
        let expected = [
            answer(Opcode::Text, "grüße".as_bytes()),
            answer(Opcode::Pong, b"are you there"),
            answer(Opcode::Text, "grüße".as_bytes()),
            answer(Opcode::Binary, &[0xff; 200]),
            answer(Opcode::Binary, b""),
            closed(4001),
        ]
        .concat();
        for split in 0..=input.len() {
            let (start, rest) = input.split_at(split);
            assert_eq!(echo(&[start, rest]), (expected.clone(), true), "{split}");
        }
        assert_eq!(echo(&input.chunks(1).collect::<Vec<_>>()), (expected, true));
    }

    #[test]
    fn faults_are_answered_with_their_code() {
        let long = (MOST_MESSAGE as u64 + 1).to_be_bytes();
        for (input, code) in [
            (vec![0x81, 0x01, b'a'], close::PROTOCOL_ERROR),
            (frame(true, Opcode::Continuation, b"a"), close::PROTOCOL_ERROR),
            (frame(true, Opcode::Close, b"\x03"), close::PROTOCOL_ERROR),
            (frame(true, Opcode::Close, b"\x03\xe8\xff"), close::INVALID_DATA),
            (frame(true, Opcode::Text, b"\xff"), close::INVALID_DATA),
            (frame(true, Opcode::Text, b"\xc3"), close::INVALID_DATA),
            // The fault is found before the message is whole.
            (frame(false, Opcode::Text, b"\xf4\x90"), close::INVALID_DATA),
            (
                [frame(false, Opcode::Text, b"\xc3"), frame(true, Opcode::Continuation, b"")].concat(),
                close::INVALID_DATA,
            ),
            ([&[0x82, 0xff][..], &long, &KEY].concat(), close::TOO_LONG),
        ] {
            assert_eq!(echo(&[&input]), (closed(code), true), "{input:x?}");
        }
        assert_eq!(echo(&[&frame(true, Opcode::Close, b"")]), (closed(close::NORMAL), true));
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
    fn compressed_messages_return_compressed() {
        let mut tools = Tools::default();
        let mut talk = Talk::new(true, true);
        // "Hello", RFC 7692, section 7.2.3.1, in two frames.
        let mut input = Vec::new();
        for (place, part) in [&[0xf2, 0x48, 0xcd][..], &[0xc9, 0xc9, 0x07, 0x00]].into_iter().enumerate() {
            let opcode = if place == 0 { Opcode::Text } else { Opcode::Continuation };
            let mut bytes = frame(place == 1, opcode, part);
            bytes[0] |= if place == 0 { 0x40 } else { 0 };
            input.extend_from_slice(&bytes);
        }
        input.extend_from_slice(&frame(true, Opcode::Text, b"plain"));
        let mut output = Vec::new();
        let passed = talk.receive(&input, &mut tools, &mut output);
        assert_eq!(passed, Passed { received: 2, sent: 2 });
        let mut found = Vec::new();
        let mut rest = output.as_slice();
        while let [first, length, after @ ..] = rest {
            assert_eq!(*first, 0xc1, "one frame, compressed");
            let (message, after) = after.split_at(usize::from(*length));
            let mut message = message.to_vec();
            tools.inflate(&mut message).expect("compressed");
            found.push(String::from_utf8(message).expect("text"));
            rest = after;
        }
        assert_eq!(found, ["Hello", "plain"]);
        // Without an agreement, the bit is a fault.
        let mut input = frame(true, Opcode::Text, b"a");
        input[0] |= 0x40;
        assert_eq!(echo(&[&input]).0, closed(close::PROTOCOL_ERROR));
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

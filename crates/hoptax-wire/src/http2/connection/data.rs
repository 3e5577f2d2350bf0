//! DATA frames. Their data is returned as it arrives, so that the caller need not keep a whole frame.

use super::super::frame::{FrameHeader, HEADER, flag};
use super::super::{Fault, Release};
use super::receive::Found;
use super::{Connection, Data, Reading, Step};

/// What the connection does with the data of a frame.
enum Fate {
    Returned,
    /// We have reset the stream.
    Skipped,
    Refused(Fault),
}

impl Connection {
    /// Reads the header of a DATA frame, and the length of its padding.
    pub(super) fn data_frame(
        &mut self,
        header: FrameHeader,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        let id = header.stream;
        if id == 0 {
            return Err(Fault::StreamZero);
        }
        let (begin, padding) = match header.has(flag::PADDED) {
            false => (0, 0),
            true if header.length == 0 => return Err(Fault::DataLength),
            true => match input.get(HEADER) {
                Some(&padding) => (1, padding as usize),
                None => return Ok(None),
            },
        };
        let left = header.length.checked_sub(begin + padding).ok_or(Fault::Padding)?;
        self.receive_window -= header.length as i64;
        if self.receive_window < 0 {
            return Err(Fault::ConnectionWindowExceeded);
        }
        let end = header.has(flag::END_STREAM);
        let step = match self.fate(header, left, end)? {
            Fate::Returned => {
                if left == 0 && !end {
                    self.credit.spend(Fault::EmptyDataFlood)?;
                } else {
                    self.credit.progress();
                }
                self.reading = Reading::Data(Data { stream: id, left, padding, end });
                if begin > 0 {
                    self.release(id, (begin + padding) as u32, output);
                }
                return Ok(Some((HEADER + begin, None)));
            }
            Fate::Skipped => None,
            Fate::Refused(fault) => Some(self.fail(id, fault, output)),
        };
        self.reading = Reading::Skip { left: left + padding };
        self.give_back(header.length as u32, output);
        Ok(Some((HEADER + begin, step)))
    }

    /// Counts the data of a frame.
    fn fate(&mut self, header: FrameHeader, data: usize, end: bool) -> Result<Fate, Fault> {
        let Some(stream) = self.streams.get(header.stream) else {
            self.check_closed(header.stream)?;
            self.credit.spend(Fault::LateDataFlood)?;
            return Ok(Fate::Skipped);
        };
        if !stream.receiving {
            return Ok(Fate::Refused(Fault::EndedStream));
        }
        if !stream.has_head {
            return Ok(Fate::Refused(Fault::DataBeforeHead));
        }
        stream.receive_window -= header.length as i64;
        if stream.receive_window < 0 {
            return Ok(Fate::Refused(Fault::StreamWindowExceeded));
        }
        if let Some(expected) = &mut stream.expected {
            match expected.checked_sub(data as u64) {
                None => return Ok(Fate::Refused(Fault::BodyTooLong)),
                Some(1..) if end => return Ok(Fate::Refused(Fault::BodyTooShort)),
                Some(rest) => *expected = rest,
            }
        }
        Ok(Fate::Returned)
    }

    /// Returns the next part of a DATA frame. `available` bytes of input have arrived.
    #[inline]
    pub(super) fn data(&mut self, data: Data, available: usize, output: &mut Vec<u8>) -> Found {
        let Data { stream: id, left, padding, end } = data;
        if available == 0 && left > 0 {
            return None;
        }
        let part = left.min(available);
        let is_last = part == left;
        self.reading = match is_last {
            false => Reading::Data(Data { left: left - part, ..data }),
            true if padding == 0 => Reading::Frame,
            true => Reading::Skip { left: padding },
        };
        let end = end && is_last;
        let Some(stream) = self.streams.get(id) else {
            // The caller has reset the stream meanwhile.
            self.give_back(part as u32, output);
            return Some((part, None));
        };
        let named = stream.named();
        stream.receiving &= !end;
        if self.config.release == Release::AtOnce {
            self.release(id, part as u32, output);
        }
        if end {
            self.close_if_ended(id);
        } else if part == 0 {
            return Some((0, None));
        }
        Some((part, Some(Step::Body { stream: named, data: 0..part, end })))
    }
}

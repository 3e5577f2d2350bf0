//! Handles the events of connections over HTTP/1 to upstreams.

use super::fields::interim_from_http1;
use super::state::Worker;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_wire::http1::{Malformed, Step};
use std::mem;

impl Worker {
    pub(super) fn received_on_http1(&mut self, io: &mut impl EventLoop, token: Token, bytes: &[u8]) {
        let Some(http1) = self.peers.http1(token) else { return };
        let mut kept = mem::take(&mut http1.kept);
        if kept.is_empty() {
            let consumed = self.read_response(io, token, bytes);
            kept.extend_from_slice(&bytes[consumed..]);
        } else {
            kept.extend_from_slice(bytes);
            let consumed = self.read_response(io, token, &kept);
            kept.drain(..consumed);
        }
        if let Some(http1) = self.peers.http1(token) {
            http1.kept = kept;
        }
    }

    /// Reads a response from the front of `input`. Returns the number of bytes consumed.
    fn read_response(&mut self, io: &mut impl EventLoop, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            match self.response_step(io, token, &input[at..]) {
                Ok(Some(consumed)) => at += consumed,
                Ok(None) => return at,
                Err(malformed) => {
                    let why = malformed.describe(&input[at..]);
                    self.drop_upstream(io, token, &format!("sent a malformed response: {why}"));
                    return input.len();
                }
            }
        }
    }

    /// Handles one step of the response. Returns the number of bytes consumed, or `None` if more are needed.
    fn response_step(
        &mut self,
        io: &mut impl EventLoop,
        token: Token,
        input: &[u8],
    ) -> Result<Option<usize>, Malformed> {
        let Some(http1) = self.peers.http1(token) else { return Ok(None) };
        let Some(place) = http1.exchange else {
            return if input.is_empty() { Ok(None) } else { Err(Malformed::UnexpectedBytes) };
        };
        let step = http1.decoder.advance_with(&mut self.http1_heads, input)?;
        let exchange = self.exchanges.get(place).ok_or(Malformed::UnexpectedBytes)?;
        match step {
            Step::NeedMore => Ok(None),
            Step::Interim { consumed } => {
                let mut head = Vec::new();
                interim_from_http1(&input[..consumed], &mut head)?;
                self.pass_interim(place, &head);
                Ok(Some(consumed))
            }
            Step::Head { consumed, head } => {
                self.http1_responses.or_write(&input[..consumed], &head, &mut exchange.response.head)?;
                self.hold_answer(place);
                Ok(Some(consumed))
            }
            Step::Body { consumed, data } => {
                self.pass_response(io, place, &input[data]);
                Ok(Some(consumed))
            }
            Step::End { consumed, keep_alive } => {
                let is_reusable = keep_alive && consumed == input.len() && exchange.request.done;
                self.response_ended(io, token, place, is_reusable);
                Ok(Some(consumed))
            }
        }
    }

    /// The upstream has sent the whole response. The connection returns to the pool if it can be reused.
    pub(super) fn response_ended(
        &mut self,
        io: &mut impl EventLoop,
        token: Token,
        place: u32,
        is_reusable: bool,
    ) {
        if let Some(exchange) = self.exchanges.get(place) {
            exchange.response.ended = true;
            exchange.upstream = None;
        }
        if let Some(http1) = self.peers.http1(token) {
            http1.exchange = None;
            if mem::take(&mut http1.paused) {
                io.resume(token);
            }
            if is_reusable {
                self.pools[http1.index].push(token);
            } else {
                self.drop_upstream(io, token, "has ended the connection");
            }
        }
        self.pass_response(io, place, &[]);
    }

    /// Called when the upstream has ended its side, or the connection has failed.
    pub(super) fn http1_closed(&mut self, io: &mut impl EventLoop, token: Token, result: Result<(), String>) {
        let Some(http1) = self.peers.http1(token) else { return };
        if let (Ok(()), Some(place)) = (&result, http1.exchange)
            && http1.decoder.end_of_input() == Ok(true)
        {
            // The end of the connection completes the response.
            return self.response_ended(io, token, place, false);
        }
        let why = result.map_or_else(
            |error| format!("failed: {error}"),
            |()| "closed the connection before its response".to_owned(),
        );
        self.drop_upstream(io, token, &why);
    }
}

//! The control socket: `GET /ledger`.

use super::counts::Counts;
use crate::lab::ledger::Ledger;
use crate::lab::net::Tokens;
use crate::lab::threads::Stop;
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
use hoptax_load::stamp::ClockId;
use hoptax_wire::http1::{RequestDecoder, RequestStep, Version, response_head};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Serves `counts`, those of each instance's listeners, until told to stop.
pub(super) fn serve(listener: TcpListener, counts: &[Vec<Arc<Counts>>], stop: &Stop) -> io::Result<()> {
    let mut io = Epoll::new()?;
    let mut control = Control { counts, tokens: Tokens::default(), connections: Vec::new() };
    let token = control.new_connection();
    io.listen(token, listener)?;
    while !stop.asked() {
        io.turn(&mut control, None)?;
    }
    Ok(())
}

#[derive(Default)]
struct Connection {
    decoder: RequestDecoder,
    input: Vec<u8>,
    found: bool,
}

struct Control<'a> {
    counts: &'a [Vec<Arc<Counts>>],
    tokens: Tokens,
    connections: Vec<Connection>,
}

impl Control<'_> {
    fn new_connection(&mut self) -> Token {
        let token = self.tokens.take();
        match self.connections.get_mut(token.index()) {
            Some(old) => *old = Connection::default(),
            None => self.connections.push(Connection::default()),
        }
        token
    }

    /// Appends the answers to everything in the connection's input; `false`: it is to be closed after them.
    fn answer(&mut self, token: Token, answers: &mut Vec<u8>) -> bool {
        let connection = &mut self.connections[token.index()];
        loop {
            let consumed = match connection.decoder.advance(&connection.input) {
                Ok(RequestStep::NeedMore) => return true,
                Ok(RequestStep::Head { consumed, head }) => {
                    let path = |whole: &[u8]| whole == b"/ledger";
                    connection.found = &connection.input[head.method.clone()] == b"GET"
                        && path(&connection.input[head.target.clone()]);
                    consumed
                }
                Ok(RequestStep::Body { consumed, .. }) => consumed,
                Ok(RequestStep::End { consumed, keep_alive }) => {
                    answers.extend(response(self.counts, connection.found, keep_alive));
                    if !keep_alive {
                        return false;
                    }
                    consumed
                }
                Err(_) => {
                    answers.extend_from_slice(super::answer::BAD_REQUEST);
                    return false;
                }
            };
            connection.input.drain(..consumed);
        }
    }

    fn close(&mut self, io: &mut impl EventLoop, token: Token) {
        io.close(token);
        self.tokens.give_back(token);
    }
}

fn response(counts: &[Vec<Arc<Counts>>], found: bool, keep_alive: bool) -> Vec<u8> {
    let (status, kind, body) = if found {
        let instances = counts.iter().map(|listeners| Counts::read(listeners)).collect();
        let ledger = Ledger { instances, clock: ClockId::here() };
        (200, "application/json", serde_json::to_vec(&ledger).expect("counts and names only"))
    } else {
        (404, "text/plain", b"ask for GET /ledger\n".to_vec())
    };
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let headers = [("content-type", kind), ("connection", connection)];
    let mut response = response_head(Version::Http11, status, headers, Some(body.len() as u64))
        .expect("the headers are constants");
    response.extend(body);
    response
}

impl<L: EventLoop> Handler<L> for Control<'_> {
    fn connected(&mut self, _: &mut L, _: Token, _: io::Result<()>) {}

    fn accepted(&mut self, _: &mut L, _: Token, _: SocketAddr) -> Option<Token> {
        Some(self.new_connection())
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        self.connections[token.index()].input.extend_from_slice(bytes);
        let mut answers = Vec::new();
        let stays = self.answer(token, &mut answers);
        // The answers are far smaller than a socket's buffer, so closing right after them loses nothing.
        if io.send(token, &answers).is_err() || !stays {
            self.close(io, token);
        }
    }

    fn closed(&mut self, _: &mut L, token: Token, _: io::Result<()>) -> AfterEnd {
        self.tokens.give_back(token);
        AfterEnd::Close
    }
}

//! The control socket. It answers `GET /ledger`, `POST /instances/0/close` and `POST /instances/0/open`.
//!
//! A web page that is open on the same host can send requests to loopback. So an order needs the header
//! [`OWN`]. A page cannot send this header, because its browser first asks the server for permission
//! (`OPTIONS`), and the control socket refuses that.

use super::counts::Counts;
use super::switch::{Order, Switch};
use crate::ledger::Ledger;
use crate::net::Tokens;
use crate::readiness;
use anyhow::Context as _;
use hoptax_format::stamp::ClockId;
use hoptax_host::threads::Stop;
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
use hoptax_wire::http1::{RequestDecoder, RequestStep, Version, fields, response_head};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Header that each order must carry.
const OWN: (&str, &str) = ("x-hoptax", "1");

/// Serves the control socket until stopped. `counts` holds, for each instance, the counts of its listeners.
pub(super) fn serve(
    listener: TcpListener,
    counts: &[Vec<Arc<Counts>>],
    switches: &[Vec<Arc<Switch>>],
    stop: &Stop,
) -> io::Result<()> {
    let mut io = Epoll::new()?;
    let mut control = Control { counts, switches, tokens: Tokens::default(), connections: Vec::new() };
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
    asked: Asked,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Asked {
    Ledger,
    Instance(usize, Order),
    /// An order without [`OWN`].
    Unproved,
    #[default]
    Nothing,
}

impl Asked {
    fn read(method: &[u8], target: &[u8], is_own: bool) -> Self {
        let instance = || {
            let path = std::str::from_utf8(target).ok()?.strip_prefix("/instances/")?;
            let (number, order) = path.split_once('/')?;
            let order = [Order::Close, Order::Open].into_iter().find(|one| one.name() == order)?;
            Some(Self::Instance(number.parse().ok()?, order))
        };
        match (method, target) {
            (b"GET", b"/ledger") => Self::Ledger,
            (b"POST", _) if is_own => instance().unwrap_or_default(),
            (b"POST", _) => Self::Unproved,
            _ => Self::Nothing,
        }
    }
}

struct Control<'a> {
    counts: &'a [Vec<Arc<Counts>>],
    switches: &'a [Vec<Arc<Switch>>],
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

    /// Appends the responses to all requests in the connection's input. Returns false if the connection must
    /// be closed after them.
    fn answer(&mut self, token: Token, answers: &mut Vec<u8>) -> bool {
        let connection = &mut self.connections[token.index()];
        loop {
            let consumed = match connection.decoder.advance(&connection.input) {
                Ok(RequestStep::NeedMore) => return true,
                Ok(RequestStep::Head { consumed, head }) => {
                    let (method, target) = (head.method.clone(), head.target.clone());
                    let is_own = has_own_header(&connection.input[..consumed]);
                    let input = &connection.input;
                    connection.asked = Asked::read(&input[method], &input[target], is_own);
                    consumed
                }
                Ok(RequestStep::Body { consumed, .. }) => consumed,
                Ok(RequestStep::End { consumed, keep_alive }) => {
                    answers.extend(response(self.counts, self.switches, connection.asked, keep_alive));
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

fn response(
    counts: &[Vec<Arc<Counts>>],
    switches: &[Vec<Arc<Switch>>],
    asked: Asked,
    keep_alive: bool,
) -> Vec<u8> {
    const KNOWN: &str = "use GET /ledger, POST /instances/0/close or POST /instances/0/open\n";
    let (status, kind, body) = match asked {
        Asked::Ledger => {
            let instances = counts.iter().map(|listeners| Counts::read(listeners)).collect();
            let ledger = Ledger { instances, clock: ClockId::here(), requests_only: false };
            (200, "application/json", serde_json::to_vec(&ledger).expect("counts and names only"))
        }
        Asked::Instance(index, order) => {
            match switches.get(index).map(|of| of.iter().all(|switch| switch.send(order))) {
                Some(true) => (200, "text/plain", b"done\n".to_vec()),
                Some(false) => (503, "text/plain", b"the instance did not react in time\n".to_vec()),
                None => (404, "text/plain", b"there is no such instance\n".to_vec()),
            }
        }
        Asked::Unproved => (403, "text/plain", b"send the header `X-Hoptax: 1`\n".to_vec()),
        Asked::Nothing => (404, "text/plain", KNOWN.into()),
    };
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let headers = [("content-type", kind), ("connection", connection)];
    let mut response = response_head(Version::Http11, status, headers, Some(body.len() as u64))
        .expect("the headers are constants");
    response.extend(body);
    response
}

/// True if a head carries [`OWN`].
fn has_own_header(head: &[u8]) -> bool {
    let mut found = false;
    let read = fields(head, |field| {
        found |= field.name.eq_ignore_ascii_case(OWN.0) && field.value == OWN.1.as_bytes();
    });
    read.is_ok() && found
}

/// Closes or opens an instance of the upstream that has this control socket. Returns when the instance is
/// closed or open.
///
/// # Errors
/// If the upstream does not answer or has no such instance, or the instance does not react in time.
pub fn send_order(control: SocketAddr, instance: u32, order: Order) -> anyhow::Result<()> {
    let path = format!("/instances/{instance}/{}", order.name());
    let status = readiness::send(control, "POST", &path, &[OWN])
        .with_context(|| format!("cannot {} instance {instance} of the upstream", order.name()))?;
    anyhow::ensure!(
        status == 200,
        "cannot {} instance {instance} of the upstream: status {status}",
        order.name()
    );
    Ok(())
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
        // The responses are far smaller than a socket's buffer, so closing right after them loses nothing.
        if io.send(token, &answers).is_err() || !stays {
            self.close(io, token);
        }
    }

    fn closed(&mut self, _: &mut L, token: Token, _: io::Result<()>) -> AfterEnd {
        self.tokens.give_back(token);
        AfterEnd::Close
    }
}

//! Every case, through a proxy that keeps its rule, and through one that does not.

use super::frames::{Frame, Frames};
use super::link::Head;
use super::*;
use hoptax_wire::websocket::{Opcode, Side as Sender};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

/// What a proxy does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    HoldsHead,
    HoldsAll,
    ChangesLineEnds,
    LosesMark,
    LosesLastId,
    EndsIdle,
    HidesEnd,
    InventsEnd,
    HidesLeaving,
    HidesDrop,
    ChangesAccept,
    LosesSubprotocol,
    LosesExtension,
    HidesRefusal,
    DropsEarly,
    MakesBinary,
    SwallowsLarge,
    JoinsFragments,
    DropsOne,
    AnswersPings,
    ChangesCode,
    ClosesAtFin,
    DropsClose,
    /// Replaces a text in what this side sends by another text of the same length.
    Replaces(Sender, &'static str, &'static str),
    AsksTwice,
}

/// Time after which [`Wrong::EndsIdle`] ends a connection, and the silence of the cases.
const IDLE: Duration = Duration::from_millis(100);
const SILENCE: Duration = Duration::from_millis(600);

/// Number of bytes after which [`Wrong::SwallowsLarge`] forwards nothing.
const LARGEST: usize = 100_000;

/// One direction of a connection of the proxy.
struct Direction {
    wrong: Wrong,
    sender: Sender,
    from: TcpStream,
    to: TcpStream,
    held: Vec<u8>,
    total: usize,
    /// Reads frames, once the head has passed.
    frames: Option<Frames>,
    joined: Option<Frame>,
}

impl Direction {
    fn new(wrong: Wrong, sender: Sender, from: TcpStream, to: TcpStream) -> Self {
        Self { wrong, sender, from, to, held: Vec::new(), total: 0, frames: None, joined: None }
    }

    /// Forwards until one side ends the connection.
    fn run(mut self) {
        if self.wrong == Wrong::EndsIdle {
            self.from.set_read_timeout(Some(IDLE)).expect("not zero");
        }
        let mut piece = vec![0; 64 * 1024];
        loop {
            match self.from.read(&mut piece) {
                Ok(count) if count > 0 => {
                    self.total += count;
                    let output = self.change(piece[..count].to_vec());
                    if self.to.write_all(&output).is_err() {
                        break;
                    }
                }
                // An idle client is no fault while the upstream sends.
                Err(error) if super::link::is_temporary(error.kind()) && self.sender == Sender::Client => {}
                _ => break,
            }
        }
        self.finish();
    }

    fn finish(&mut self) {
        match (self.wrong, self.sender) {
            (Wrong::InventsEnd, Sender::Server) => {
                let _ = self.to.write_all(b"0\r\n\r\n");
            }
            (Wrong::HidesLeaving, Sender::Client) | (Wrong::HidesDrop, Sender::Server) => {
                // Keeps the connection open for longer than the case waits.
                thread::sleep(Duration::from_secs(5));
            }
            (Wrong::ClosesAtFin, Sender::Client) | (Wrong::EndsIdle, _) => {
                let _ = self.from.shutdown(Shutdown::Both);
            }
            _ => {}
        }
        let _ = self.to.write_all(&std::mem::take(&mut self.held));
        let _ = self.to.shutdown(Shutdown::Write);
    }

    fn change(&mut self, input: Vec<u8>) -> Vec<u8> {
        let is_client = self.sender == Sender::Client;
        match self.wrong {
            Wrong::Replaces(sender, text, by) if sender == self.sender => replaced(input, text, by),
            Wrong::AsksTwice if is_client => {
                let upstream = self.to.peer_addr().expect("connected");
                let mut other = TcpStream::connect(upstream).expect("it listens");
                other.write_all(&input).expect("it is open");
                assert!(other.read(&mut [0; 1024]).expect("it answers") > 0);
                input
            }
            Wrong::LosesLastId if is_client => replaced(input, "last-event-id", "x-last-id"),
            Wrong::LosesSubprotocol if is_client => replaced(input, "sec-websocket-protocol", "x-protocol"),
            Wrong::SwallowsLarge if is_client && self.total > LARGEST => Vec::new(),
            Wrong::MakesBinary | Wrong::JoinsFragments | Wrong::AnswersPings | Wrong::ChangesCode
                if is_client =>
            {
                self.change_frames(input)
            }
            _ if is_client => input,
            Wrong::HoldsHead | Wrong::HoldsAll => {
                self.held.extend(input);
                let body = Head::read(&self.held).map_or(0, |head| self.held.len() - head.length);
                let is_over = self.held.ends_with(b"0\r\n\r\n");
                match body > 0 && self.wrong == Wrong::HoldsHead || is_over {
                    true => std::mem::take(&mut self.held),
                    false => Vec::new(),
                }
            }
            Wrong::ChangesLineEnds => replaced(input, "data: a\r\r", "data: a\n\n"),
            Wrong::LosesMark => replaced(input, "\u{feff}", "   "),
            Wrong::HidesEnd => replaced(input, "0\r\n\r\n", ""),
            Wrong::ChangesAccept => replaced(input, "sec-websocket-accept", "x-accept"),
            Wrong::LosesExtension => replaced(input, "sec-websocket-extensions", "x-extensions"),
            Wrong::HidesRefusal => replaced(input, "HTTP/1.1 403", "HTTP/1.1 200"),
            Wrong::DropsEarly => {
                let length = Head::read(&input).map_or(input.len(), |head| head.length);
                input[..length].to_vec()
            }
            Wrong::DropsOne | Wrong::DropsClose | Wrong::AnswersPings | Wrong::ChangesCode => {
                self.change_frames(input)
            }
            _ => input,
        }
    }

    /// Passes the head as it is, and then each frame.
    fn change_frames(&mut self, input: Vec<u8>) -> Vec<u8> {
        let mut output = Vec::new();
        let mut rest = input.as_slice();
        if self.frames.is_none() {
            let length = Head::read(rest).expect("a head arrives in one piece").length;
            output.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
        let frames = self.frames.get_or_insert_with(|| Frames::new(self.sender));
        let key = (self.sender == Sender::Client).then_some(*b"mask");
        for mut frame in frames.read(rest).expect("both sides keep the rules") {
            match (self.wrong, frame.opcode) {
                (Wrong::MakesBinary, Opcode::Text) => frame.opcode = Opcode::Binary,
                (Wrong::DropsOne, Opcode::Text) if frame.payload == b"500" => continue,
                (Wrong::DropsClose, Opcode::Close) => continue,
                (Wrong::ChangesCode, Opcode::Close) => frame = Frame::close(1000, ""),
                (Wrong::AnswersPings, Opcode::Ping) => {
                    let mut answer = Vec::new();
                    let other = if key.is_some() { None } else { Some(*b"mask") };
                    Frame::new(Opcode::Pong, frame.payload).write(&mut answer, other);
                    self.from.write_all(&answer).expect("it is open");
                    continue;
                }
                (Wrong::JoinsFragments, Opcode::Text | Opcode::Continuation) => {
                    let text = || Frame { fin: false, ..Frame::new(Opcode::Text, Vec::<u8>::new()) };
                    let joined = self.joined.get_or_insert_with(text);
                    joined.payload.extend(frame.payload);
                    joined.fin = frame.fin;
                    match self.joined.take_if(|joined| joined.fin) {
                        Some(joined) => frame = joined,
                        None => continue,
                    }
                }
                _ => {}
            }
            frame.write(&mut output, key);
        }
        output
    }
}

/// Replaces a text where it occurs.
fn replaced(mut bytes: Vec<u8>, text: &str, by: &str) -> Vec<u8> {
    if let Some(at) = bytes.windows(text.len()).position(|part| part == text.as_bytes()) {
        bytes.splice(at..at + text.len(), by.bytes());
    }
    bytes
}

/// Starts a proxy in front of an upstream. Its threads end with their connections.
fn proxy(wrong: Wrong, upstream: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(upstream).expect("it listens");
            client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).expect("open");
            let copy = |stream: &TcpStream| stream.try_clone().expect("descriptors are left");
            let requests = Direction::new(wrong, Sender::Client, copy(&client), copy(&server));
            let responses = Direction::new(wrong, Sender::Server, server, client);
            thread::spawn(move || requests.run());
            thread::spawn(move || responses.run());
        }
    });
    address
}

fn outcome(case: &MessagesCase, upstream: &MessagesUpstream, wrong: Wrong) -> Outcome {
    let patience = if wrong == Wrong::Nothing { PATIENCE } else { Duration::from_millis(500) };
    let address = proxy(wrong, upstream.address());
    let (upstream, model) = (&upstream.shared, "gpt-4o-mini");
    (case.test)(&Side { address, upstream, prefix: "", headers: &[], model, silence: SILENCE, patience })
}

/// Each case with the deviation that it finds behind this proxy.
fn found(cases: &[MessagesCase], table: &[(&str, Wrong)]) -> String {
    let upstream = MessagesUpstream::start().expect("it listens");
    assert_eq!(cases.len(), table.len());
    let all: Vec<(&MessagesCase, &(&str, Wrong))> = cases.iter().zip(table).collect();
    let found = concurrently(AT_ONCE, &all, |(case, (name, wrong))| {
        assert_eq!(case.name, *name);
        assert_eq!(outcome(case, &upstream, Wrong::Nothing), Ok(()), "{name}");
        format!("{name}: {}\n", outcome(case, &upstream, *wrong).expect_err(name).0)
    });
    found.concat()
}

#[test]
fn each_case_of_events_finds_a_proxy_that_breaks_its_rule() {
    let found = found(
        &EVENTS_CASES,
        &[
            ("events-head", Wrong::HoldsHead),
            ("events-first", Wrong::HoldsAll),
            ("events-each", Wrong::HoldsAll),
            ("events-comment", Wrong::HoldsAll),
            ("events-line-ends", Wrong::ChangesLineEnds),
            ("events-mark", Wrong::LosesMark),
            ("events-last-id", Wrong::LosesLastId),
            ("events-silence", Wrong::EndsIdle),
            ("events-end", Wrong::HidesEnd),
            ("events-abort", Wrong::InventsEnd),
            ("events-leave", Wrong::HidesLeaving),
        ],
    );
    insta::assert_snapshot!(found);
}

#[test]
fn each_case_of_websockets_finds_a_proxy_that_breaks_its_rule() {
    let found = found(
        &WEBSOCKET_CASES,
        &[
            ("websocket-handshake", Wrong::ChangesAccept),
            ("websocket-subprotocol", Wrong::LosesSubprotocol),
            ("websocket-extension", Wrong::LosesExtension),
            ("websocket-refused", Wrong::HidesRefusal),
            ("websocket-early", Wrong::DropsEarly),
            ("websocket-types", Wrong::MakesBinary),
            ("websocket-1m", Wrong::SwallowsLarge),
            ("websocket-fragments", Wrong::JoinsFragments),
            ("websocket-1000", Wrong::DropsOne),
            ("websocket-client-ping", Wrong::AnswersPings),
            ("websocket-server-ping", Wrong::AnswersPings),
            ("websocket-client-close", Wrong::ChangesCode),
            ("websocket-server-close", Wrong::ChangesCode),
            ("websocket-silence", Wrong::EndsIdle),
            ("websocket-server-end", Wrong::HidesDrop),
            ("websocket-client-end", Wrong::HidesLeaving),
            ("websocket-client-half", Wrong::ClosesAtFin),
            ("websocket-close-behind-data", Wrong::DropsClose),
        ],
    );
    insta::assert_snapshot!(found);
}

#[test]
fn each_case_of_language_models_finds_a_proxy_that_breaks_its_rule() {
    let client = |text, by| Wrong::Replaces(Sender::Client, text, by);
    let server = |text, by| Wrong::Replaces(Sender::Server, text, by);
    let word = server("Hello", "Hallo");
    let tokens = server("\"completion_tokens\":1234567", "\"completion_tokens\":20     ");
    let user = "\"user\":\"0123456789abcdef0123456789abcd\"";
    let asks_for_usage = client(user, "\"stream_options\":{\"include_usage\":true}");
    let openai = found(
        &OPENAI_CASES,
        &[
            ("llm-request", client("0.7", "0.8")),
            ("llm-unknown", client("4740993", "4740992")),
            ("llm-tools", client("true", "null")),
            ("llm-2m", Wrong::SwallowsLarge),
            ("llm-text", client("ä", "ae")),
            ("llm-model", client("mini", "maxi")),
            ("llm-key", client("Bearer hoptax", "Bearer secret")),
            ("llm-path", client("/v1/", "/v2/")),
            ("llm-response", server("\"fp_1\"", "null  ")),
            ("llm-usage", tokens),
            ("llm-stream", word),
            ("llm-stream-text", word),
            ("llm-stream-end", server("[DONE]", "[GONE]")),
            ("llm-stream-usage", tokens),
            ("llm-stream-no-usage", asks_for_usage),
            ("llm-stream-tools", server("Köln", "Bonn!")),
            ("llm-each", Wrong::HoldsAll),
            ("llm-split-event", word),
            ("llm-split-character", word),
            ("llm-split-line", server("[DONE]", "[GONE]")),
            ("llm-heartbeat", Wrong::HoldsAll),
            ("llm-429", server("retry-after", "retry-other")),
            ("llm-500", Wrong::AsksTwice),
            ("llm-error-event", server("\"error\":{", "\"other\":{")),
            ("llm-cut", Wrong::InventsEnd),
            ("llm-leave-head", Wrong::HidesLeaving),
            ("llm-leave-first", Wrong::HidesLeaving),
            ("llm-leave-midway", Wrong::HidesLeaving),
            ("llm-embeddings", server("0.25", "0.26")),
            ("llm-embeddings-base64", client("base64", "float1")),
            ("llm-models", server("\"me\"", "null")),
        ],
    );
    let anthropic = found(
        &ANTHROPIC_CASES,
        &[
            ("llm-anthropic-stream", server("t: ping", "t: pong")),
            ("llm-anthropic-ping", server("\"ping\"", "\"pong\"")),
            ("llm-anthropic-429", server("rate_limit", "rate-limit")),
        ],
    );
    insta::assert_snapshot!(openai + &anthropic);
}

/// If the gateway does not remove the prefix, the upstream sees it, and does not know the path of the models.
#[test]
fn paths_of_requests_to_the_gateway_begin_with_its_prefix() {
    let upstream = MessagesUpstream::start().expect("it listens");
    let change = Change { prefix: "/openai".to_owned(), ..Change::default() };
    let differences = |wrong| {
        let gateway = proxy(wrong, upstream.address());
        let seen = observe(&OPENAI_CASES, &upstream, gateway, &change, "m", SILENCE);
        let seen = seen.expect("the upstream keeps every rule").into_iter();
        seen.filter_map(|(case, difference)| difference.map(|_| case)).collect::<Vec<_>>()
    };
    assert_eq!(differences(Wrong::Replaces(Sender::Client, " /openai/v1/", " /v1/")), [""; 0]);
    assert_eq!(differences(Wrong::Nothing), ["llm-path", "llm-models"]);
}

#[test]
fn every_rule_names_its_source() {
    let sources = ["RFC ", "HTML, section ", "OpenAI, ", "Anthropic, "];
    let all = EVENTS_CASES.iter().chain(&WEBSOCKET_CASES).chain(&OPENAI_CASES).chain(&ANTHROPIC_CASES);
    for case in all {
        assert!(sources.iter().any(|source| case.rule.starts_with(source)), "{case:?}");
        assert!(!case.about.is_empty(), "{case:?}");
    }
}

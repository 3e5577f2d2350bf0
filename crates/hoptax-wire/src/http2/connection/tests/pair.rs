//! Our client and our server exchange messages, in random pieces and with small windows.

use super::*;
use std::collections::BTreeMap;

/// Pseudo-random numbers (xorshift) below `most`.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % most
    }
}

/// The messages of one stream.
#[derive(Default)]
struct Exchange {
    /// Data that is not sent yet. The second field is true if no more data will be added.
    unsent: Vec<u8>,
    is_complete: bool,
    received: Vec<u8>,
    ended: bool,
}

struct Side {
    connection: Connection,
    /// Received bytes that are not decoded yet.
    input: Vec<u8>,
    output: Vec<u8>,
    sections: Sections,
    exchanges: BTreeMap<u32, Exchange>,
}

impl Side {
    fn new(role: Role, config: Config) -> Self {
        let mut output = Vec::new();
        let connection = match role {
            Role::Client => Connection::client(config, &mut output),
            Role::Server => Connection::server(config, &mut output),
        };
        let (input, sections, exchanges) = (Vec::new(), Sections::new(), BTreeMap::new());
        Self { connection, input, output, sections, exchanges }
    }

    /// Sends what the windows allow.
    fn send(&mut self, stream: u32) {
        let exchange = self.exchanges.get_mut(&stream).expect("a known stream");
        let Exchange { unsent, is_complete, .. } = exchange;
        if let Some(sent) = self.connection.send_data(stream, unsent, *is_complete, &mut self.output) {
            unsent.drain(..sent);
        }
    }

    /// Receives a random number of bytes. Returns the steps and the bodies in them.
    fn receive(&mut self, from: &mut Vec<u8>, random: &mut Random, most: usize) -> Vec<Step> {
        let count = random.below(most).min(from.len());
        self.input.extend(from.drain(..count));
        let mut steps = Vec::new();
        loop {
            let found = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = found.expect("our own bytes are valid");
            if let Step::Body { stream, data, .. } = &step {
                let data = &self.input[data.clone()];
                self.exchanges.entry(stream.id).or_default().received.extend_from_slice(data);
            }
            self.input.drain(..consumed);
            if step == Step::NeedMore {
                return steps;
            }
            steps.push(step);
        }
    }
}

/// A plan for a pair of connections.
#[derive(Debug, Clone, Copy)]
struct Case {
    streams: u32,
    requests: u32,
    client_window: u32,
    server_window: u32,
    /// Maximum length of a body.
    body: usize,
    /// Maximum number of bytes that arrive at once.
    piece: usize,
}

/// Sends requests with random bodies. The server sends each body back, in upper case, while it is received.
/// The client checks the answers.
fn exchange(case: Case, seed: u64) {
    let config =
        |window| Config { streams: case.streams, window, connection_window: 65_535, ..Config::default() };
    let mut random = Random(seed);
    let mut client = Side::new(Role::Client, config(case.client_window));
    let mut server = Side::new(Role::Server, config(case.server_window));
    let fields = request_fields(
        RequestParts { method: "POST", scheme: "http", authority: "a", path: "/echo", content_length: None },
        [("user-agent", "x")],
    );
    let post = Block::shared(&[&fields.expect("valid")]).remove(0);
    let ok = Block::shared(&[&response_fields(200, [("server", "y")], None).expect("valid")]).remove(0);
    let trailers = Block::plain(&[OutField { name: "grpc-status".into(), value: "0".into() }]);
    let mut bodies: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let (mut begun, mut done, mut idle) = (0, 0, 0);
    while done < case.requests {
        while begun < case.requests && client.connection.capacity() > 0 && random.below(3) > 0 {
            let body: Vec<u8> =
                (0..random.below(case.body + 1)).map(|_| b'a' + random.below(26) as u8).collect();
            let end = body.is_empty();
            let stream = client.connection.request(begun, false, &post, &[], end, &mut client.output);
            let stream = stream.expect("there is room for a stream");
            let sent = Exchange { unsent: body.clone(), is_complete: true, ..Exchange::default() };
            client.exchanges.insert(stream, sent);
            bodies.insert(stream, body.to_ascii_uppercase());
            begun += 1;
            if !end {
                client.send(stream);
            }
        }
        for step in server.receive(&mut client.output, &mut random, case.piece) {
            match step {
                Step::Head { stream, end } => {
                    assert_eq!(server.sections.head.path(), Some(&b"/echo"[..]));
                    server.exchanges.entry(stream.id).or_default().ended = end;
                    assert!(server.connection.send_head(stream.id, &ok, &[], false, &mut server.output));
                }
                Step::Body { stream, end, .. } => {
                    server.exchanges.entry(stream.id).or_default().ended |= end;
                }
                Step::Writable { stream } => server.send(stream.id),
                Step::Settings => {}
                other => panic!("{other:?}"),
            }
        }
        for stream in server.exchanges.keys().copied().collect::<Vec<_>>() {
            let echo = server.exchanges.get_mut(&stream).expect("a known stream");
            let with_trailers = stream % 4 == 1;
            let received = std::mem::take(&mut echo.received).to_ascii_uppercase();
            let has_news = !received.is_empty() || (echo.ended && !echo.is_complete);
            echo.unsent.extend(received);
            echo.is_complete = echo.ended && !with_trailers;
            if has_news {
                server.send(stream);
            }
            let echo = &server.exchanges[&stream];
            if echo.ended && echo.unsent.is_empty() {
                if with_trailers {
                    server.connection.send_head(stream, &trailers, &[], true, &mut server.output);
                }
                server.exchanges.remove(&stream);
            }
        }
        let steps = client.receive(&mut server.output, &mut random, case.piece);
        idle = if steps.is_empty() { idle + 1 } else { 0 };
        assert!(idle < 100_000, "no progress: {case:?}, seed {seed}");
        for step in steps {
            let ended = match step {
                Step::Head { stream, end: false } => {
                    assert_eq!(client.sections.head.status(), 200);
                    assert!(stream.tag < case.requests);
                    None
                }
                Step::Body { stream, end, .. } => end.then_some((stream, false)),
                Step::Trailers { stream } => Some((stream, true)),
                Step::Writable { stream } => {
                    client.send(stream.id);
                    None
                }
                Step::Settings => None,
                other => panic!("{other:?}"),
            };
            if let Some((stream, with_trailers)) = ended {
                let answer = client.exchanges.remove(&stream.id).expect("a known stream");
                assert!(answer.received == bodies[&stream.id], "{case:?}, seed {seed}, stream {}", stream.id);
                assert_eq!(with_trailers, stream.id % 4 == 1);
                done += 1;
            }
        }
    }
    assert_eq!((client.connection.open_streams(), server.connection.open_streams()), (0, 0));
}

#[test]
fn every_body_arrives() {
    for streams in [1, 10, 100] {
        for (client_window, server_window, body) in
            [(1, 1, 60), (1, 65_535, 60), (1 << 20, 1, 60), (100, 1000, 5000), (1 << 20, 1 << 20, 60_000)]
        {
            for piece in [2, 50, 100_000] {
                let (requests, body) = match piece {
                    _ if cfg!(miri) => (2, body.min(20)),
                    2 => (20, body.min(1000)),
                    _ => (streams + 50, body),
                };
                let case = Case { streams, requests, client_window, server_window, body, piece };
                exchange(case, u64::from(streams) * 1000 + piece as u64);
            }
        }
    }
}

/// Many seeds, few requests.
#[test]
fn every_body_arrives_with_many_seeds() {
    for seed in 1..if cfg!(miri) { 3 } else { 300 } {
        let mut random = Random(seed * 7919);
        let window = |random: &mut Random| [1, 2, 7, 100, 65_535, 1 << 20][random.below(6)];
        let case = Case {
            streams: 1 + random.below(20) as u32,
            requests: 12,
            client_window: window(&mut random),
            server_window: window(&mut random),
            body: 1 + random.below(300),
            piece: 2 + random.below(3000),
        };
        exchange(case, seed * 31);
    }
}

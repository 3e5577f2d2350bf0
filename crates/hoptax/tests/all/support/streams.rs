//! An HTTP/2 server for tests, by prior knowledge. It can misbehave. It has one thread per connection.

use super::own_listener;
use hoptax_format::grpc;
use hoptax_wire::http2::{
    Block, Code, Config, Connection, OutField, Release, Sections, Step, response_fields,
};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a server misbehaves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wrong {
    /// Number of streams that it allows on a connection. Default: 100.
    pub(crate) streams: Option<u32>,
    /// Refuses every stream with this number on its connection.
    pub(crate) refuse_every: Option<u32>,
    /// Sends GOAWAY after this number of requests on a connection.
    pub(crate) go_away_after: Option<u32>,
    /// The code of this GOAWAY is ENHANCE_YOUR_CALM.
    pub(crate) is_annoyed: bool,
    /// Window for bodies, and the delay before it is given back.
    pub(crate) window: Option<(u32, Duration)>,
    /// Answers every request with this number on its connection after this delay.
    pub(crate) slow_every: Option<(u32, Duration)>,
    /// Answers the requests of a connection in their order, so that those behind a slow one wait.
    pub(crate) in_order: bool,
    /// Every gRPC call with this number on its connection fails.
    pub(crate) fail_every: Option<u32>,
    /// The answer to every gRPC call with this number on its connection has no trailers.
    pub(crate) lose_trailers_every: Option<u32>,
}

/// A running server. It accepts no more connections when it is dropped.
pub(crate) struct StreamServer {
    pub(crate) address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl StreamServer {
    pub(crate) fn start(wrong: Wrong) -> Self {
        let listener = own_listener();
        let address = listener.local_addr().expect("bound");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let stream = stream.expect("accepted");
                std::thread::spawn(move || serve(stream, wrong));
            }
        });
        Self { address, is_over }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// The parts of answers to gRPC calls.
struct Calls {
    head: Block,
    message: Vec<u8>,
    trailers: Block,
    failure: Block,
}

impl Calls {
    fn new() -> Self {
        let typed = ("content-type", "application/grpc");
        let head = response_fields(200, [typed], None).expect("valid");
        let failure = response_fields(200, [typed, ("grpc-status", "14")], None).expect("valid");
        let trailers = [OutField { name: "grpc-status".into(), value: "0".into() }];
        Self {
            head: Block::plain(&head),
            message: grpc::body(b"hello").expect("short"),
            trailers: Block::plain(&trailers),
            failure: Block::plain(&failure),
        }
    }

    /// Answers call number `number` of a connection.
    fn answer(
        &self,
        wrong: Wrong,
        number: u32,
        stream: u32,
        connection: &mut Connection,
        output: &mut Vec<u8>,
    ) {
        let is_due = |every: Option<u32>| every.is_some_and(|every| number.is_multiple_of(every));
        if is_due(wrong.fail_every) {
            connection.send_head(stream, &self.failure, &[], true, output);
            return;
        }
        let is_lost = is_due(wrong.lose_trailers_every);
        connection.send_head(stream, &self.head, &[], false, output);
        connection.send_data(stream, &self.message, is_lost, output);
        if !is_lost {
            connection.send_head(stream, &self.trailers, &[], true, output);
        }
    }
}

/// Answers the requests of a connection until the client ends it, or until the last answer after GOAWAY.
fn serve(mut socket: TcpStream, wrong: Wrong) {
    let _ = socket.set_nodelay(true);
    let mut output = Vec::new();
    let config = Config {
        streams: wrong.streams.unwrap_or(100),
        window: wrong.window.map_or(1 << 20, |(bytes, _)| bytes),
        release: Release::ByCaller,
        ..Config::default()
    };
    let mut connection = Connection::server(config, &mut output);
    let fields = response_fields(200, [("content-type", "text/plain")], Some(2)).expect("valid");
    let (ok, mut sections, mut input) = (Block::plain(&fields), Sections::new(), Vec::new());
    let (mut requests, mut is_leaving) = (0_u32, false);
    let (calls, mut number) = (Calls::new(), 0);
    let mut piece = [0; 16 * 1024];
    let mut late: VecDeque<(Instant, u32)> = VecDeque::new();
    loop {
        let Ok((consumed, step)) = connection.advance(&input, &mut sections, &mut output) else { return };
        let mut ended = None;
        match &step {
            Step::Head { stream, end } => {
                requests += 1;
                if wrong.refuse_every.is_some_and(|every: u32| u32::is_multiple_of(requests, every)) {
                    connection.reset(stream.id, Code::REFUSED_STREAM, &mut output);
                } else if *end {
                    ended = Some(stream.id);
                }
            }
            Step::Body { stream, data, end } => {
                if let Some((_, delay)) = wrong.window {
                    std::thread::sleep(delay);
                }
                connection.release(stream.id, data.len() as u32, &mut output);
                ended = end.then_some(stream.id);
            }
            _ => {}
        }
        let delay = wrong.slow_every.filter(|(every, _)| requests.is_multiple_of(*every));
        if let (Some(stream), Some((_, delay))) = (ended, delay) {
            if wrong.in_order {
                if socket.write_all(&output).is_err() {
                    return;
                }
                output.clear();
                std::thread::sleep(delay);
            } else {
                late.push_back((Instant::now() + delay, stream));
                ended = None;
            }
        }
        // All delays are equal, so the first one ends first.
        while let Some((_, stream)) = late.front().filter(|(due, _)| *due <= Instant::now()).copied() {
            late.pop_front();
            answer(&mut connection, stream, &ok, &mut output);
        }
        let content_type = sections.head.fields().get("content-type");
        if let Some(stream) = ended
            && content_type.is_some_and(hoptax_wire::grpc::is_grpc)
        {
            number += 1;
            calls.answer(wrong, number, stream, &mut connection, &mut output);
        } else if let Some(stream) = ended {
            answer(&mut connection, stream, &ok, &mut output);
        }
        input.drain(..consumed);
        if !is_leaving && wrong.go_away_after.is_some_and(|after| requests >= after) {
            is_leaving = true;
            let code = if wrong.is_annoyed { Code::ENHANCE_YOUR_CALM } else { Code::NO_ERROR };
            connection.go_away(code, &mut output);
        }
        if step != Step::NeedMore {
            continue;
        }
        if socket.write_all(&output).is_err() {
            return;
        }
        output.clear();
        if is_leaving && connection.open_streams() == 0 {
            return;
        }
        let until_due = late.front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        // A timeout of zero is an error.
        let _ = socket.set_read_timeout(until_due.map(|time| time.max(Duration::from_millis(1))));
        match socket.read(&mut piece) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&piece[..count]),
        }
    }
}

fn answer(connection: &mut Connection, stream: u32, head: &Block, output: &mut Vec<u8>) {
    connection.send_head(stream, head, &[], false, output);
    connection.send_data(stream, b"ok", true, output);
}

//! An HTTP/2 server for tests, by prior knowledge. It can misbehave. It has one thread per connection.

use super::own_listener;
use hoptax_wire::http2::{Block, Code, Config, Connection, Release, Sections, Step, response_fields};
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
        if let Some(stream) = ended {
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

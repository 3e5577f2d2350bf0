//! An HTTP/1.1 server for tests. It has one thread per connection and persistent connections, with or without
//! TLS. A function creates the responses. The server stores all requests. Servers that misbehave are in
//! `proxy.rs` and `origin.rs`.

use super::own_listener;
use hoptax_wire::http1::{RequestDecoder, RequestStep};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Number of requests that arrived earlier.
    pub(crate) number: usize,
    pub(crate) method: String,
    /// The request target, as sent.
    pub(crate) path: String,
    /// Request line and headers, as received, with the empty line at the end.
    pub(crate) head: String,
    pub(crate) body: String,
    /// TLS version; absent without TLS.
    pub(crate) tls: Option<rustls::ProtocolVersion>,
}

impl Request {
    /// The value of the header `name`, which must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (this, value) = line.split_once(':')?;
            this.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

pub(crate) struct Response {
    status: u16,
    headers: String,
    body: String,
    is_last: bool,
}

impl Response {
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: String::new(), body: body.into(), is_last: false }
    }

    pub(crate) fn text(body: impl Into<String>) -> Self {
        Self::new(200, body).with("content-type", "text/plain")
    }

    pub(crate) fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }

    pub(crate) fn last(mut self) -> Self {
        self.is_last = true;
        self.with("connection", "close")
    }

    fn bytes(&self, is_head: bool) -> Vec<u8> {
        let (status, length) = (self.status, self.body.len());
        let reason = hyper::StatusCode::from_u16(status).expect("a status");
        let reason = reason.canonical_reason().expect("a status that has a name");
        let body = if is_head { "" } else { &self.body };
        format!("HTTP/1.1 {status} {reason}\r\n{}content-length: {length}\r\n\r\n{body}", self.headers)
            .into_bytes()
    }
}

/// A running server. When it is dropped, it accepts no more connections. Its threads end when their
/// connections end.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Box<dyn Fn(&Request) -> Response + Send + Sync>,
    tls: Option<Arc<rustls::ServerConfig>>,
    connections: AtomicUsize,
    requests: Mutex<Vec<Request>>,
    stop: AtomicBool,
}

fn at_localhost() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        Self::over(None, answer)
    }

    /// Like [`Server::start`], but uses TLS if `tls` is a configuration. Certificates are for 127.0.0.1, so a
    /// server with TLS listens there. A request of another test fails at such a server, because it is plain.
    pub(crate) fn over(
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        let listener = if tls.is_some() { at_localhost() } else { own_listener() };
        Self::on(listener, tls, answer)
    }

    /// Like [`Server::start`], but listens on 127.0.0.1, which all tests share.
    pub(crate) fn at_localhost(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        Self::on(at_localhost(), None, answer)
    }

    fn on(
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            tls,
            connections: AtomicUsize::new(0),
            requests: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let server = Self { address: listener.local_addr().expect("bound"), shared };
        let shared = Arc::clone(&server.shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // The thread ends when its peer disconnects. A disconnect is not a fault.
                std::thread::spawn(move || shared.serve(stream).ok());
            }
        });
        server
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("not poisoned").clone()
    }

    /// Number of connections with at least one request. Connections that only check readiness have none.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // This connection wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

trait Stream: Read + Write {
    fn version(&self) -> Option<rustls::ProtocolVersion>;
}

impl Stream for TcpStream {
    fn version(&self) -> Option<rustls::ProtocolVersion> {
        None
    }
}

impl Stream for rustls::StreamOwned<rustls::ServerConnection, TcpStream> {
    fn version(&self) -> Option<rustls::ProtocolVersion> {
        self.conn.protocol_version()
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        match &self.tls {
            None => self.answer_all(stream),
            Some(config) => {
                let session = rustls::ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                self.answer_all(rustls::StreamOwned::new(session, stream))
            }
        }
    }

    fn answer_all(&self, mut stream: impl Stream) -> io::Result<()> {
        let (mut decoder, mut input) = (RequestDecoder::new(), Vec::new());
        let (mut is_first, mut request, mut body, mut is_head) = (true, None, Vec::new(), false);
        loop {
            let consumed = match decoder.advance(&input).map_err(io::Error::other)? {
                RequestStep::NeedMore => {
                    let mut piece = [0; 16 * 1024];
                    let count = stream.read(&mut piece)?;
                    if count == 0 {
                        return Ok(());
                    }
                    input.extend_from_slice(&piece[..count]);
                    0
                }
                RequestStep::Head { consumed, head } => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    if head.expect_continue {
                        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                    }
                    is_head = head.is_head;
                    if std::mem::take(&mut is_first) {
                        self.connections.fetch_add(1, Ordering::SeqCst);
                    }
                    request = Some(Request {
                        number: 0,
                        method: text(&input[head.method]),
                        path: text(&input[head.target]),
                        head: text(&input[..consumed]),
                        body: String::new(),
                        tls: stream.version(),
                    });
                    consumed
                }
                RequestStep::Body { consumed, data } => {
                    body.extend_from_slice(&input[data]);
                    consumed
                }
                RequestStep::End { consumed, keep_alive } => {
                    let mut request = request.take().expect("the head was read before");
                    request.body = String::from_utf8(std::mem::take(&mut body)).map_err(io::Error::other)?;
                    let response = self.answer(request);
                    stream.write_all(&response.bytes(is_head))?;
                    stream.flush()?;
                    if response.is_last || !keep_alive {
                        return Ok(());
                    }
                    consumed
                }
            };
            input.drain(..consumed);
        }
    }

    /// Stores the request before the response is sent. So the request is already stored when the client
    /// receives the response.
    fn answer(&self, mut request: Request) -> Response {
        let mut requests = self.requests.lock().expect("not poisoned");
        request.number = requests.len();
        let response = (self.answer)(&request);
        requests.push(request);
        response
    }
}

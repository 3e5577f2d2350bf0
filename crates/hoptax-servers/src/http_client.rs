//! A small HTTP client for requests that are not part of a load. A request uses its own connection, or a
//! connection that carries requests one after the other. Requests are written for HTTP/1.1, also if they are
//! sent over HTTP/2.

pub use crate::answer::Answer;
use crate::http2_client::Http2;
use crate::http2_session::Http2Session;
use crate::request_error::{Awaited, RequestError};
use crate::socket::Socket;
use crate::transport::Transport;
use hoptax_format::Address;
use hoptax_format::spec::Tunnel;
use hoptax_format::spec::{HttpVersion, ProxyProtocol, TlsSpec};
use hoptax_load::proxy_protocol;
use hoptax_load::tls::{client_config, of_proxy};
use hoptax_load::tunnel::{self, TunnelAnswer};
use hoptax_plan::units;
use hoptax_wire::http1::{ResponseDecoder, Step, Version, fields, request_head};
use hoptax_wire::http2::Config;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

const SHOWN: usize = 300;

/// The version in which requests for the client are written that it sends in `version`.
pub fn written_in(version: HttpVersion) -> HttpVersion {
    match version {
        HttpVersion::Http10 => HttpVersion::Http10,
        HttpVersion::Http11 | HttpVersion::Http2 => HttpVersion::Http11,
    }
}

/// The name of HTTP/2 in ALPN.
const H2: &str = "h2";

/// Parameters that client and server agreed on in the TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Whether ALPN selected HTTP/2.
    pub http2: bool,
    /// Version.
    pub version: Option<rustls::ProtocolVersion>,
    /// Cipher suite.
    pub cipher: Option<rustls::CipherSuite>,
}

/// Where and how to send requests.
#[derive(Debug, Clone)]
pub struct HttpClient<'a> {
    /// Address of the server.
    pub address: Address,
    /// TLS settings; absent for plain connections.
    pub tls: Option<&'a TlsSpec>,
    /// Tunnel to open first, if `address` belongs to a forward proxy.
    pub tunnel: Option<&'a Tunnel>,
    /// Source address of TCP connections. If absent, the kernel chooses the address.
    pub from: Option<IpAddr>,
    /// The header of the PROXY protocol at the start of each connection. Absent if none is sent.
    pub proxy_header: Option<ProxyHeader>,
    /// Whether requests are sent over HTTP/2: by ALPN over TLS, and by prior knowledge without TLS.
    pub http2: bool,
    /// Time limit for the whole response.
    pub timeout: Duration,
}

/// A header of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Version of the protocol.
    pub version: ProxyProtocol,
    /// The source address in the header. If absent, the header has the source address of the connection.
    pub source: Option<SocketAddr>,
}

impl ProxyHeader {
    /// A header with the client's own addresses.
    pub fn of_client(version: ProxyProtocol) -> Self {
        Self { version, source: None }
    }

    /// Sends the header. It contains no addresses if `connection` is a Unix socket, because such sockets have
    /// none.
    fn send(self, connection: &mut Socket) -> io::Result<()> {
        let ends = connection.ends()?.map(|(from, to)| (self.source.unwrap_or(from), to));
        connection.write_all(&proxy_protocol::header(self.version, ends))
    }
}

trait Stream: std::io::Read + std::io::Write {
    fn agreed(&self) -> Option<Agreed>;
}

impl Stream for Socket {
    fn agreed(&self) -> Option<Agreed> {
        None
    }
}

impl Stream for Box<dyn Stream> {
    fn agreed(&self) -> Option<Agreed> {
        (**self).agreed()
    }
}

impl Stream for rustls::StreamOwned<rustls::ClientConnection, Box<dyn Stream>> {
    fn agreed(&self) -> Option<Agreed> {
        Some(Agreed {
            http2: self.conn.alpn_protocol() == Some(H2.as_bytes()),
            version: self.conn.protocol_version(),
            cipher: self.conn.negotiated_cipher_suite().map(|suite| suite.suite()),
        })
    }
}

impl HttpClient<'_> {
    /// A client without TLS. The kernel chooses the source address.
    pub fn plain(address: impl Into<Address>, timeout: Duration) -> Self {
        let address = address.into();
        Self { address, tls: None, tunnel: None, from: None, proxy_header: None, http2: false, timeout }
    }

    /// The same client, which sends requests in `version`.
    #[must_use]
    pub fn speaking(self, version: HttpVersion) -> Self {
        Self { http2: version == HttpVersion::Http2, ..self }
    }

    /// Sends `request` and reads the whole response. Set `to_head` for a HEAD request, because its response
    /// has no body.
    ///
    /// # Errors
    /// If connecting fails, no complete response arrives in time, or the response is not HTTP/1.x.
    pub fn send(&self, request: &[u8], to_head: bool) -> anyhow::Result<Answer> {
        Ok(self.send_noting_tls(request, to_head)?.0)
    }

    /// Like [`Self::send`], but also returns the parameters that the TLS handshake agreed on.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_noting_tls(&self, request: &[u8], to_head: bool) -> anyhow::Result<(Answer, Option<Agreed>)> {
        self.exchange(request, to_head, usize::MAX)
    }

    /// Sends a GET request for `path` and returns the body of the response. If the body is longer than `most`
    /// bytes, returns only its first `most` bytes.
    ///
    /// # Errors
    /// As [`Self::send`], and if the status is not 200.
    pub fn get(&self, path: &str, most: usize) -> anyhow::Result<Vec<u8>> {
        let host = units::host_header_of(self.tls.is_some(), &self.address);
        let headers = [("host", host.as_str()), ("connection", "close")];
        let request = request_head(Version::Http11, "GET", path, headers, None)?;
        let (answer, _) = self.exchange(&request, false, most)?;
        anyhow::ensure!(answer.status == 200, "it answered with status {}", answer.status);
        Ok(answer.body)
    }

    /// Sends `request` and returns the status of the response, without waiting for the body.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn status(&self, request: &[u8]) -> anyhow::Result<u16> {
        Ok(self.head(request)?.status)
    }

    /// Sends `request` and returns the head of the response, without waiting for the body. The status can be
    /// 101, if the request asks for another protocol.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn head(&self, request: &[u8]) -> anyhow::Result<Answer> {
        Ok(self.exchange(request, false, 0)?.0)
    }

    /// Opens a connection for requests one after the other. With TLS, the first request performs the
    /// handshake.
    ///
    /// # Errors
    /// If connecting fails, or the TLS settings are wrong.
    pub fn connect(&self) -> anyhow::Result<HttpConnection> {
        self.connect_by(&Deadline::after(self.timeout))
    }

    /// Opens a connection over HTTP/2 whose caller chooses the frames. All requests have this `authority`.
    /// Each wait takes at most the client's time limit.
    ///
    /// # Errors
    /// If connecting fails, or the TLS settings are wrong.
    pub fn session(&self, config: Config, authority: &str) -> anyhow::Result<Http2Session> {
        let deadline = Deadline::after(self.timeout);
        let client = Self { http2: true, ..self.clone() };
        let HttpConnection { plain, stream, .. } = client.connect_by(&deadline)?;
        let wire = Box::new(Wire { plain, stream, deadline });
        Ok(Http2Session::new(config, self.tls.is_some(), authority, self.timeout, wire))
    }

    fn connect_by(&self, deadline: &Deadline) -> anyhow::Result<HttpConnection> {
        let plain = match (self.from, &self.address) {
            (Some(from), Address::Tcp(to)) => Socket::connect_from(from, *to),
            _ => Socket::connect(&self.address, deadline.left(Awaited::Connection)?),
        };
        let mut plain = plain.map_err(|error| RequestError::of_connect(error, self.timeout))?;
        if let Some(header) = self.proxy_header {
            header.send(&mut plain).map_err(|error| RequestError::of_connect(error, self.timeout))?;
        }
        let mut stream: Box<dyn Stream> = Box::new(plain.try_clone()?);
        if let Some(tunnel) = self.tunnel {
            if let Some(spec) = &tunnel.tls {
                stream = with_tls(spec, stream)?;
            }
            open_tunnel(&plain, &mut stream, tunnel, deadline)?;
        }
        match self.tls {
            Some(spec) if self.http2 => {
                stream = with_tls(&TlsSpec { alpn: vec![H2.to_owned()], ..spec.clone() }, stream)?;
            }
            Some(spec) => stream = with_tls(spec, stream)?,
            None => {}
        }
        let http2 = self.http2.then(|| Http2::new(self.tls.is_some()));
        let timeout = self.timeout;
        Ok(HttpConnection { plain, stream, http2, timeout, input: Vec::new(), can_be_reused: true })
    }

    fn exchange(
        &self,
        request: &[u8],
        to_head: bool,
        most: usize,
    ) -> anyhow::Result<(Answer, Option<Agreed>)> {
        let deadline = Deadline::after(self.timeout);
        let mut connection = self.connect_by(&deadline)?;
        let answer = connection.exchange(request, to_head, most, &deadline)?;
        Ok((answer, connection.stream.agreed()))
    }
}

/// The time at which a response must be complete.
struct Deadline {
    at: Instant,
    timeout: Duration,
}

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self { at: Instant::now() + timeout, timeout }
    }

    /// The time that is left.
    ///
    /// # Errors
    /// If no time is left. The error says that `awaited` did not happen.
    fn left(&self, awaited: Awaited) -> Result<Duration, RequestError> {
        match self.at.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(RequestError::Timeout { awaited, limit: self.timeout }),
            left => Ok(left),
        }
    }
}

/// An open connection that carries requests one after the other.
pub struct HttpConnection {
    plain: Socket,
    stream: Box<dyn Stream>,
    /// The state of HTTP/2; absent for HTTP/1.
    http2: Option<Http2>,
    timeout: Duration,
    /// Bytes that arrived after the last response.
    input: Vec<u8>,
    can_be_reused: bool,
}

impl HttpConnection {
    /// Sends `request` and reads the whole response, as [`HttpClient::send`] does.
    ///
    /// # Errors
    /// If the server has closed the connection, no complete response arrives in time, or it is not HTTP/1.x.
    pub fn send(&mut self, request: &[u8], to_head: bool) -> anyhow::Result<Answer> {
        self.exchange(request, to_head, usize::MAX, &Deadline::after(self.timeout))
    }

    /// True if the server keeps the connection open after the last response.
    pub fn can_be_reused(&self) -> bool {
        self.can_be_reused
    }

    fn exchange(
        &mut self,
        request: &[u8],
        to_head: bool,
        most: usize,
        deadline: &Deadline,
    ) -> anyhow::Result<Answer> {
        let Self { plain, stream, http2, input, .. } = self;
        if let Some(http2) = http2 {
            let outcome = http2.exchange(request, most, &mut Transfer { plain, stream, deadline });
            self.can_be_reused = outcome.is_ok() && most == usize::MAX && http2.can_be_reused();
            return Ok(outcome?);
        }
        // With TLS, the first write also waits for the handshake.
        let is_first = stream.agreed().is_some_and(|agreed| agreed.version.is_none());
        let writing = if is_first { Awaited::Handshake } else { Awaited::Response };
        plain.set_write_timeout(deadline.left(writing)?)?;
        plain.set_read_timeout(deadline.left(writing)?)?;
        // A server that refuses a request may answer and close before it has read the whole request. The
        // answer contains the reason. So a failed write is reported only if there is no answer.
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        let sent = sent.map_err(|error| RequestError::of_transfer(error, writing, deadline.timeout));
        let answer = match &sent {
            // If the handshake failed, there is no response to read.
            Err(RequestError::Tls(text)) => Err(RequestError::Tls(text.clone())),
            _ => {
                let mut transfer = Transfer { plain, stream, deadline };
                read_answer(to_head, most, input, |piece, awaited| transfer.receive(piece, awaited))
            }
        };
        self.can_be_reused = matches!(answer, Ok((_, true)));
        match (answer, sent) {
            (Ok((answer, _)), _) => Ok(answer),
            (Err(_), Err(unsent)) => Err(unsent.into()),
            (Err(error), Ok(())) => Err(error.into()),
        }
    }
}

/// Transfers bytes until the deadline.
struct Transfer<'a> {
    plain: &'a Socket,
    stream: &'a mut Box<dyn Stream>,
    deadline: &'a Deadline,
}

impl Transport for Transfer<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        // The first write over TLS also waits for the handshake.
        let is_first = self.stream.agreed().is_some_and(|agreed| agreed.version.is_none());
        let writing = if is_first { Awaited::Handshake } else { Awaited::Response };
        let left = self.deadline.left(writing)?;
        self.plain.set_write_timeout(left).map_err(RequestError::Other)?;
        self.plain.set_read_timeout(left).map_err(RequestError::Other)?;
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|error| RequestError::of_transfer(error, writing, self.deadline.timeout))?;
        match self.stream.agreed() {
            Some(agreed) if is_first && !agreed.http2 => {
                Err(RequestError::Http2("the server did not select it by ALPN".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn receive(&mut self, piece: &mut [u8], awaited: Awaited) -> Result<usize, RequestError> {
        loop {
            self.plain.set_read_timeout(self.deadline.left(awaited)?).map_err(RequestError::Other)?;
            match self.stream.read(piece) {
                // The read timed out, or a signal interrupted it, for example when a run resumes after
                // Ctrl-Z. The next iteration checks the time limit.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                // A TLS connection was closed without notice.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => {
                    let of = |error| RequestError::of_transfer(error, awaited, self.deadline.timeout);
                    return read.map_err(of);
                }
            }
        }
    }
}

/// A connection with a time limit.
struct Wire {
    plain: Socket,
    stream: Box<dyn Stream>,
    deadline: Deadline,
}

impl Wire {
    fn transfer(&mut self) -> Transfer<'_> {
        Transfer { plain: &self.plain, stream: &mut self.stream, deadline: &self.deadline }
    }
}

impl Transport for Wire {
    fn send(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        self.transfer().send(bytes)
    }

    fn receive(&mut self, piece: &mut [u8], awaited: Awaited) -> Result<usize, RequestError> {
        self.transfer().receive(piece, awaited)
    }

    fn set_limit(&mut self, limit: Duration) {
        self.deadline = Deadline::after(limit);
    }
}

/// Adds TLS to `stream`. The first write performs the handshake.
fn with_tls(spec: &TlsSpec, stream: Box<dyn Stream>) -> anyhow::Result<Box<dyn Stream>> {
    let (config, name) = client_config(spec)?;
    let session = rustls::ClientConnection::new(config, name)?;
    Ok(Box::new(rustls::StreamOwned::new(session, stream)))
}

/// Asks a forward proxy for a tunnel, and waits until it is open. `plain` is the socket below `stream`.
fn open_tunnel(
    plain: &Socket,
    stream: &mut impl Stream,
    tunnel: &Tunnel,
    deadline: &Deadline,
) -> Result<(), RequestError> {
    const AWAITED: Awaited = Awaited::Connection;
    let of = |error| match RequestError::of_transfer(error, AWAITED, deadline.timeout) {
        RequestError::Tls(text) => RequestError::Tls(of_proxy(&text)),
        other => other,
    };
    plain.set_write_timeout(deadline.left(AWAITED)?).map_err(RequestError::Other)?;
    plain.set_read_timeout(deadline.left(AWAITED)?).map_err(RequestError::Other)?;
    stream.write_all(&tunnel::request(tunnel)).and_then(|()| stream.flush()).map_err(of)?;
    let mut input = Vec::new();
    loop {
        match tunnel::answer(&input) {
            TunnelAnswer::Open => return Ok(()),
            TunnelAnswer::Refused(text) => return Err(RequestError::Tunnel(text)),
            TunnelAnswer::More => {}
        }
        plain.set_read_timeout(deadline.left(AWAITED)?).map_err(RequestError::Other)?;
        let mut piece = [0; 1024];
        match stream.read(&mut piece) {
            Ok(0) => {
                let text = "CONNECT: the proxy closed the connection without an answer";
                return Err(RequestError::Tunnel(text.to_owned()));
            }
            Ok(count) => input.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(of(error)),
        }
    }
}

/// Assembles a response from `input` and the data that `read` returns, with at most `most` bytes of its body.
/// If `most` is 0, stops after the head. Also returns whether the connection can carry another request. Bytes
/// after the response remain in `input`.
fn read_answer(
    to_head: bool,
    most: usize,
    input: &mut Vec<u8>,
    mut read: impl FnMut(&mut [u8], Awaited) -> Result<usize, RequestError>,
) -> Result<(Answer, bool), RequestError> {
    let mut decoder = ResponseDecoder::new();
    match most {
        0 => decoder.begin_upgrade(),
        _ => decoder.begin(to_head),
    }
    let mut answer = Answer { status: 0, headers: BTreeMap::new(), body: Vec::new() };
    let mut begun = !input.is_empty();
    loop {
        let step = decoder.advance(input);
        let step = step.map_err(|malformed| RequestError::Malformed(malformed.describe(input)))?;
        let consumed = match step {
            Step::NeedMore => {
                let mut piece = [0; 16 * 1024];
                let count = read(&mut piece, if begun { Awaited::Rest } else { Awaited::Response })?;
                if count == 0 {
                    return match decoder.end_of_input() {
                        Ok(true) => Ok((answer, false)),
                        _ => Err(RequestError::Ended { begun, reset: false }),
                    };
                }
                begun = true;
                input.extend_from_slice(&piece[..count]);
                0
            }
            Step::Interim { consumed } => consumed,
            Step::Head { consumed, head } => {
                answer.status = head.status;
                let read_fields = fields(&input[..consumed], |field| {
                    let value = field.unfolded();
                    let value = String::from_utf8_lossy(&value);
                    let known = answer.headers.entry(field.name.to_ascii_lowercase()).or_default();
                    *known = if known.is_empty() { value.into_owned() } else { format!("{known}, {value}") };
                });
                read_fields.map_err(|malformed| RequestError::Malformed(malformed.to_string()))?;
                if most == 0 {
                    return Ok((answer, false));
                }
                consumed
            }
            Step::Body { consumed, data } => {
                answer.body.extend_from_slice(&input[data]);
                if answer.body.len() >= most {
                    answer.body.truncate(most);
                    return Ok((answer, false));
                }
                consumed
            }
            Step::End { consumed, keep_alive } => {
                input.drain(..consumed);
                return Ok((answer, keep_alive));
            }
        };
        input.drain(..consumed);
    }
}

/// Formats a response for people: indented, and with a shortened body.
pub fn show(answer: &Answer) -> String {
    let mut text = format!("  {}\n", answer.status);
    for (name, value) in &answer.headers {
        let _ = writeln!(text, "  {name}: {value}");
    }
    let shown = String::from_utf8_lossy(&answer.body[..answer.body.len().min(SHOWN)]).into_owned();
    for line in shown.lines() {
        let _ = writeln!(text, "  | {line}");
    }
    if answer.body.len() > SHOWN {
        let _ = writeln!(text, "  | … {} bytes in all", answer.body.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_testing::own_listener;

    fn get(answer: &'static str, most: usize) -> anyhow::Result<String> {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accepted");
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(answer.as_bytes());
        });
        let body = HttpClient::plain(address, Duration::from_secs(10)).get("/stats", most);
        serving.join().expect("served");
        Ok(String::from_utf8(body?)?)
    }

    #[test]
    fn a_connection_carries_requests_until_the_server_closes_it() {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accepted");
            for answer in ["content-length: 2\r\n\r\nab", "connection: close\r\ncontent-length: 1\r\n\r\nc"] {
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{answer}").as_bytes());
            }
        });
        let mut connection =
            HttpClient::plain(address, Duration::from_secs(10)).connect().expect("it listens");
        let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!(connection.send(request, false).expect("answered").body, b"ab");
        assert!(connection.can_be_reused());
        assert_eq!(connection.send(request, false).expect("answered").body, b"c");
        assert!(!connection.can_be_reused());
        serving.join().expect("served");
        assert!(connection.send(request, false).is_err(), "it is closed");
        let refused =
            HttpClient::plain(address, Duration::from_secs(10)).connect().err().expect("nothing listens");
        assert!(refused.downcast_ref::<RequestError>().is_some_and(RequestError::is_refused), "{refused:#}");
    }

    #[test]
    fn a_body_is_read_with_and_without_chunks_up_to_its_bound() {
        let plain = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(get(plain, 1 << 20).expect("answered"), "hello");
        assert_eq!(get(plain, 3).expect("answered"), "hel");
        let chunks =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na: \r\n2;x=y\r\n17\r\n0\r\n\r\n";
        assert_eq!(get(chunks, 1 << 20).expect("answered"), "a: 17");
        let refused = get("HTTP/1.1 404 Not Found\r\n\r\nno", 1 << 20).expect_err("no");
        assert!(refused.to_string().contains("status 404"), "{refused}");
    }
}

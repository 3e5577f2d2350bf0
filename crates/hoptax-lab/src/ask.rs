//! One request, one answer, on a connection of its own: for everything that is asked and not timed.

use hoptax_load::spec::TlsSpec;
use hoptax_load::tls::client_config;
use hoptax_wire::http1::{ResponseDecoder, Step, fields};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How much of a body is shown.
const SHOWN: usize = 300;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Values by lower-case name; several of one name in their order, joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// Body, chunks put together.
    pub body: Vec<u8>,
}

/// What TLS agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Version.
    pub version: Option<rustls::ProtocolVersion>,
    /// Cipher suite.
    pub cipher: Option<rustls::CipherSuite>,
}

/// Whom to ask, and how.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Where.
    pub address: SocketAddr,
    /// Over TLS, where it is given.
    pub tls: Option<&'a TlsSpec>,
    /// From this address of ours; the kernel's choice when absent.
    pub from: Option<IpAddr>,
    /// For the whole answer.
    pub timeout: Duration,
}

/// What a request is written to and its answer read from.
trait Stream: std::io::Read + std::io::Write {
    fn agreed(&self) -> Option<Agreed>;
}

impl Stream for TcpStream {
    fn agreed(&self) -> Option<Agreed> {
        None
    }
}

impl Stream for rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    fn agreed(&self) -> Option<Agreed> {
        Some(Agreed {
            version: self.conn.protocol_version(),
            cipher: self.conn.negotiated_cipher_suite().map(|suite| suite.suite()),
        })
    }
}

impl Asker<'_> {
    /// Sends `request` and reads the whole answer; `to_head`: it has no body, as it answers a HEAD.
    ///
    /// # Errors
    /// If there is no connection, no whole answer in time, or what comes is not HTTP/1.x.
    pub fn ask(&self, request: &[u8], to_head: bool) -> anyhow::Result<Answer> {
        Ok(self.ask_noting(request, to_head)?.0)
    }

    /// The same, and what TLS agreed on.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_noting(&self, request: &[u8], to_head: bool) -> anyhow::Result<(Answer, Option<Agreed>)> {
        let timeout = self.timeout;
        let deadline = Instant::now() + timeout;
        let left = || {
            let left = deadline.saturating_duration_since(Instant::now());
            anyhow::ensure!(!left.is_zero(), "no whole answer within {timeout:?}");
            Ok(left)
        };
        let plain = match self.from {
            None => TcpStream::connect_timeout(&self.address, left()?)?,
            Some(from) => connect_from(from, self.address)?,
        };
        plain.set_write_timeout(Some(left()?))?;
        plain.set_read_timeout(Some(left()?))?;
        let mut stream: Box<dyn Stream> = match self.tls {
            None => Box::new(plain.try_clone()?),
            Some(spec) => {
                let (config, name) = client_config(spec)?;
                let session = rustls::ClientConnection::new(config, name)?;
                Box::new(rustls::StreamOwned::new(session, plain.try_clone()?))
            }
        };
        // Who refuses a request may answer and close before all of it was sent: the answer says why.
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        let answer = read_answer(to_head, |piece| {
            loop {
                plain.set_read_timeout(Some(left()?))?;
                match stream.read(piece) {
                    // Time is up, which is looked at, or a signal came, as one does when a run goes on after Ctrl-Z.
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    read => return Ok(read?),
                }
            }
        });
        match (answer, sent) {
            (Ok(answer), _) => Ok((answer, stream.agreed())),
            (Err(_), Err(unsent)) => Err(unsent.into()),
            (Err(error), Ok(())) => Err(error),
        }
    }
}

/// A connection from one of this host's addresses. Not bounded in time: it is for addresses of this host, which answer or
/// refuse at once.
fn connect_from(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// Puts an answer together from what `read` fills in.
fn read_answer(
    to_head: bool,
    mut read: impl FnMut(&mut [u8]) -> anyhow::Result<usize>,
) -> anyhow::Result<Answer> {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(to_head);
    let mut answer = Answer { status: 0, headers: BTreeMap::new(), body: Vec::new() };
    let mut input = Vec::new();
    loop {
        let consumed = match decoder.advance(&input)? {
            Step::NeedMore => {
                let mut piece = [0; 16 * 1024];
                let count = read(&mut piece)?;
                if count == 0 {
                    anyhow::ensure!(decoder.end_of_input()?, "the connection was closed without an answer");
                    return Ok(answer);
                }
                input.extend_from_slice(&piece[..count]);
                0
            }
            Step::Interim { consumed } => consumed,
            Step::Head { consumed, head } => {
                answer.status = head.status;
                fields(&input[..consumed], |field| {
                    let value = String::from_utf8_lossy(field.value);
                    let known = answer.headers.entry(field.name.to_ascii_lowercase()).or_default();
                    *known = if known.is_empty() { value.into_owned() } else { format!("{known}, {value}") };
                })?;
                consumed
            }
            Step::Body { consumed, data } => {
                answer.body.extend_from_slice(&input[data]);
                consumed
            }
            Step::End { .. } => return Ok(answer),
        };
        input.drain(..consumed);
    }
}

/// An answer for people: indented, the body shortened.
pub(super) fn show(answer: &Answer) -> String {
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

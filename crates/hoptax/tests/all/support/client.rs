//! An HTTP/1.1 client. It uses one connection per exchange, plain or over TLS, from a given source address.
//! It stops reading at the end of the response, because some gateways keep the connection open for another
//! second.

use super::PATIENCE;
use hoptax_format::spec::{ProxyProtocol, TlsSpec};
use hoptax_load::proxy_protocol;
use hoptax_load::tls::client_config;
use hoptax_wire::http1::{ResponseDecoder, Step};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and headers, as received.
    pub(crate) head: String,
    /// The body. A chunked body is decoded.
    pub(crate) body: Vec<u8>,
    /// The negotiated TLS version and cipher suite.
    pub(crate) tls: Option<(rustls::ProtocolVersion, rustls::CipherSuite)>,
}

impl Answer {
    /// The value of the header `name`, which must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (this, value) = line.split_once(':')?;
            this.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends the text of one request and reads the response.
pub(crate) fn exchange(
    from: Option<Ipv4Addr>,
    to: SocketAddr,
    tls: Option<&TlsSpec>,
    request: &str,
) -> io::Result<Answer> {
    let answers = exchange_all(from, to, (tls, None), request, 1)?;
    Ok(answers.into_iter().next().expect("one answer"))
}

/// Sends `requests`, the text of several requests, pipelined on one connection. Reads `count` responses. The
/// connection begins with a header of the PROXY protocol, if a version of it is given.
pub(crate) fn exchange_all(
    from: Option<Ipv4Addr>,
    to: SocketAddr,
    (tls, proxy_protocol): (Option<&TlsSpec>, Option<ProxyProtocol>),
    requests: &str,
    count: usize,
) -> io::Result<Vec<Answer>> {
    let is_head = requests.starts_with("HEAD ");
    let mut plain = connect(from, to)?;
    if let Some(version) = proxy_protocol {
        plain.write_all(&proxy_protocol::header(version, Some((plain.local_addr()?, to))))?;
    }
    let Some(spec) = tls else {
        plain.write_all(requests.as_bytes())?;
        return read(&mut plain, is_head, count);
    };
    let (config, name) = client_config(spec).expect("a spec that fits");
    let session = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut stream = rustls::StreamOwned::new(session, plain);
    stream.write_all(requests.as_bytes())?;
    let mut answers = read(&mut stream, is_head, count)?;
    let version = stream.conn.protocol_version().expect("agreed");
    let suite = stream.conn.negotiated_cipher_suite().expect("agreed").suite();
    answers.iter_mut().for_each(|answer| answer.tls = Some((version, suite)));
    Ok(answers)
}

/// Connects from a given address. All addresses of 127.0.0.0/8 belong to this machine.
fn connect(from: Option<Ipv4Addr>, to: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    if let Some(from) = from {
        bind(&descriptor, &SocketAddrV4::new(from, 0))?;
    }
    connect(&descriptor, &to)?;
    let stream = TcpStream::from(descriptor);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn read(stream: &mut impl Read, is_head: bool, count: usize) -> io::Result<Vec<Answer>> {
    let (mut decoder, mut input, mut answers) = (ResponseDecoder::new(), Vec::new(), Vec::new());
    let mut answer = None;
    decoder.begin(is_head);
    while answers.len() < count {
        let consumed = match decoder.advance(&input).map_err(io::Error::other)? {
            Step::NeedMore => {
                let mut piece = [0; 16 * 1024];
                let read = match stream.read(&mut piece) {
                    // Some peers close the connection without the close message of TLS.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
                    read => read?,
                };
                if read == 0 {
                    let is_whole = decoder.end_of_input().map_err(io::Error::other)?;
                    let whole = answer.take().filter(|_| is_whole);
                    answers.push(whole.ok_or(ErrorKind::UnexpectedEof)?);
                    continue;
                }
                input.extend_from_slice(&piece[..read]);
                0
            }
            Step::Interim { consumed } => consumed,
            Step::Head { consumed, head } => {
                let text = String::from_utf8_lossy(&input[..consumed]).into_owned();
                answer = Some(Answer { status: head.status, head: text, body: Vec::new(), tls: None });
                consumed
            }
            Step::Body { consumed, data } => {
                let body = &mut answer.as_mut().expect("the head was read before").body;
                body.extend_from_slice(&input[data]);
                consumed
            }
            Step::End { consumed, .. } => {
                answers.push(answer.take().expect("the head was read before"));
                decoder.begin(is_head);
                consumed
            }
        };
        input.drain(..consumed);
    }
    Ok(answers)
}

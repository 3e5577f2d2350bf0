//! Waits until a gateway is ready: repeats an HTTP request within a time limit.

use crate::http_client::HttpClient;
use crate::request_error::{Awaited, RequestError};
use hoptax_format::spec::{HttpVersion, TlsSpec};
use hoptax_wire::http1::{Version, request_head};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Pause between two attempts. The fastest gateway needs about the same time to start. An attempt takes much
/// less time.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Time limit of one attempt. On loopback, even a busy machine usually answers sooner. After the time limit,
/// the next attempt begins.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for a request that changes something, or for any other request that is not repeated.
const ACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// A readiness check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Address to which the check sends its request.
    pub address: SocketAddr,
    /// Path, beginning with `/`.
    pub path: String,
    /// Status that means ready.
    pub status: u16,
    /// Address for traffic. Once the status is right, this address must also accept a connection.
    pub accepting: SocketAddr,
    /// Time limit for the whole wait.
    pub timeout: Duration,
    /// Whether a request without TLS is sent over HTTP/2, because the port speaks nothing else.
    pub http2: bool,
    /// The request over TLS; absent for a GET without TLS.
    pub over_tls: Option<OverTls>,
}

/// A request over TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct OverTls {
    /// TLS settings.
    pub tls: TlsSpec,
    /// The request as it is sent. It may contain credentials.
    pub request: Vec<u8>,
}

impl std::fmt::Debug for OverTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverTls").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl OverTls {
    /// Sends the request once and returns the status.
    fn ask(&self, address: SocketAddr) -> Result<u16, RequestError> {
        let client = HttpClient { tls: Some(&self.tls), ..HttpClient::plain(address, ATTEMPT_TIMEOUT) };
        client.send(&self.request, false).map(|answer| answer.status).map_err(as_request_error)
    }
}

/// Sends one GET over HTTP/2 by prior knowledge and returns the status.
fn ask_over_http2(address: SocketAddr, path: &str) -> Result<u16, RequestError> {
    let host = address.to_string();
    let request = request_head(Version::Http11, "GET", path, [("host", host.as_str())], None);
    let request = request.map_err(|bad| RequestError::Http2(bad.to_string()))?;
    let client = HttpClient::plain(address, ATTEMPT_TIMEOUT).speaking(HttpVersion::Http2);
    client.status(&request).map_err(as_request_error)
}

fn as_request_error(error: anyhow::Error) -> RequestError {
    let other = |other| RequestError::Other(std::io::Error::other(format!("{other:#}")));
    error.downcast().unwrap_or_else(other)
}

/// Why the service did not become ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// The service ended.
    Ended,
    /// The time limit was reached. Contains the result of the last attempt.
    TimedOut(String),
}

/// Waits until `probe` succeeds. `ended` returns true if the service has ended.
///
/// # Errors
/// If the service ended, or the time limit was reached.
pub fn wait(probe: &Probe, mut ended: impl FnMut() -> bool) -> Result<(), NotReady> {
    let deadline = Instant::now() + probe.timeout;
    loop {
        let outcome = attempt(probe);
        // Check this after the attempt, because another process on the same port may have answered instead of
        // the service.
        if ended() {
            return Err(NotReady::Ended);
        }
        match outcome {
            Ok(()) => return Ok(()),
            Err(met) if Instant::now() >= deadline => return Err(NotReady::TimedOut(met)),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

fn attempt(probe: &Probe) -> Result<(), String> {
    let scheme = if probe.over_tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}{}", probe.address, probe.path);
    let status = match &probe.over_tls {
        Some(over_tls) => over_tls.ask(probe.address),
        None if probe.http2 => ask_over_http2(probe.address, &probe.path),
        None => ask(probe.address, &probe.path, ATTEMPT_TIMEOUT),
    };
    let status = status.map_err(|error| match error.is_refused() {
        true => format!("nothing listens on {}", probe.address),
        false => format!("{url}: {error}"),
    })?;
    if status != probe.status {
        return Err(format!("{url} answered {status}; {} means ready", probe.status));
    }
    TcpStream::connect_timeout(&probe.accepting, ATTEMPT_TIMEOUT).map(drop).map_err(|error| {
        format!("its readiness check succeeds, but {} does not accept connections: {error}", probe.accepting)
    })
}

/// Sends one GET and returns the status.
///
/// # Errors
/// If nothing answers in time, or the response is not HTTP/1.x.
pub fn ask(address: SocketAddr, path: &str, timeout: Duration) -> Result<u16, RequestError> {
    exchange(address, "GET", path, &[], timeout)
}

/// Sends one request without a body and returns the status. Waits up to ten seconds for the response.
///
/// # Errors
/// If there is no response within ten seconds, or it is not HTTP/1.x.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<u16, RequestError> {
    exchange(address, method, path, headers, ACTION_TIMEOUT)
}

fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    timeout: Duration,
) -> Result<u16, RequestError> {
    let stream = TcpStream::connect_timeout(&address, timeout);
    let stream = stream.map_err(|error| RequestError::of_connect(error, timeout))?;
    beginning(stream, method, path, headers, timeout)
        .map_err(|error| RequestError::of_transfer(error, Awaited::Response, timeout))
        .and_then(|answer| status(&answer))
}

/// The first bytes of a response, `HTTP/1.1 200`. The connection is closed afterwards.
fn beginning(
    mut stream: TcpStream,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    timeout: Duration,
) -> std::io::Result<Vec<u8>> {
    let address = stream.peer_addr()?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    // Send the request in a single write: `write!` on a socket would send a segment for each piece. A server
    // might answer the first segment and close the connection.
    let length = if method == "GET" { "" } else { "content-length: 0\r\n" };
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{length}{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(12).read_to_end(&mut answer)?;
    Ok(answer)
}

fn status(answer: &[u8]) -> Result<u16, RequestError> {
    if answer.is_empty() {
        return Err(RequestError::Ended { begun: false, reset: false });
    }
    let digits = answer.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    digits
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| RequestError::Other(std::io::Error::other("the answer is not HTTP/1.x")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_testing::own_listener;
    use hoptax_wire::http2::{Block, Config, Connection, Sections, Step, response_fields};
    use std::net::TcpListener;

    /// Answers each connection with the next element of `answers`. After the last element, answers all
    /// further connections with that element.
    fn serve(answers: &'static [&'static str]) -> SocketAddr {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        std::thread::spawn(move || {
            let last = answers.last().into_iter().cycle();
            for (stream, answer) in listener.incoming().zip(answers.iter().chain(last)) {
                let mut stream = stream.expect("accepted");
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    fn probe(address: SocketAddr) -> Probe {
        let timeout = Duration::from_secs(20);
        let path = "/ready".into();
        Probe { address, path, status: 200, accepting: address, timeout, http2: false, over_tls: None }
    }

    #[test]
    fn waits_until_the_status_is_right() {
        let address = serve(&["HTTP/1.1 503 Busy\r\n\r\n", "", "HTTP/1.1 200 OK\r\n\r\n"]);
        assert_eq!(wait(&probe(address), || false), Ok(()));
    }

    #[test]
    fn reports_the_result_of_the_last_attempt() {
        let wrong = serve(&["HTTP/1.1 404 Not Found\r\n\r\n"]);
        let nobody = hoptax_host::ports::Ports::take(1).expect("a port").numbers().expect("known")[0];
        let told = [wrong, hoptax_host::ports::local(nobody)].map(|address| {
            let once = Probe { timeout: Duration::ZERO, ..probe(address) };
            let Err(NotReady::TimedOut(met)) = wait(&once, || false) else { panic!("cannot be ready") };
            met.replace(&address.to_string(), "ADDRESS")
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn a_port_that_speaks_only_http2_is_asked_over_http2() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("known");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                let mut output = Vec::new();
                let mut server = Connection::server(Config::default(), &mut output);
                let _ = stream.write_all(&output);
                let ok = Block::plain(&response_fields(200, [], Some(0)).expect("valid"));
                let (mut input, mut sections, mut piece) = (Vec::new(), Sections::new(), [0; 512]);
                // A client of HTTP/1 violates the protocol.
                while let Ok((consumed, step)) = server.advance(&input, &mut sections, &mut output) {
                    input.drain(..consumed);
                    if let Step::Head { stream, .. } = step {
                        server.send_head(stream.id, &ok, &[], true, &mut output);
                    }
                    let _ = stream.write_all(&std::mem::take(&mut output));
                    if step == Step::NeedMore {
                        match stream.read(&mut piece) {
                            Ok(0) | Err(_) => break,
                            Ok(count) => input.extend_from_slice(&piece[..count]),
                        }
                    }
                }
            }
        });
        assert_eq!(wait(&Probe { http2: true, ..probe(address) }, || false), Ok(()));
        let by_http1 = wait(&Probe { timeout: Duration::ZERO, ..probe(address) }, || false);
        assert!(matches!(by_http1, Err(NotReady::TimedOut(_))), "{by_http1:?}");
    }

    #[test]
    fn a_service_that_ended_is_not_waited_for() {
        let address = serve(&["HTTP/1.1 200 OK\r\n\r\n"]);
        assert_eq!(wait(&probe(address), || true), Err(NotReady::Ended));
    }

    #[test]
    fn ready_without_accepting_traffic_is_not_ready() {
        let address = serve(&["HTTP/1.1 200 OK\r\n\r\n"]);
        let deaf = hoptax_host::ports::Ports::take(1).expect("a port").numbers().expect("known")[0];
        let probe =
            Probe { accepting: hoptax_host::ports::local(deaf), timeout: Duration::ZERO, ..probe(address) };
        let Err(NotReady::TimedOut(met)) = wait(&probe, || false) else { panic!("cannot be ready") };
        assert!(met.contains(&probe.accepting.to_string()), "{met}");
    }
}

//! The means of a case: connections to one side, and a view of what the upstream has seen.

use super::state::{Seen, Shared};
use crate::conformance::http2::side::Deviation;
use crate::features::SERVER_NAME;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time in which the upstream must notice that a client has left.
pub(super) const NOTICE: Duration = Duration::from_secs(1);
/// Pause between two looks at what the upstream has seen, and the longest wait of a read.
const PAUSE: Duration = Duration::from_millis(5);

/// The gateway or direct.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) address: SocketAddr,
    pub(super) upstream: &'a Shared,
    /// Prefix of the paths of requests to this side.
    pub(super) prefix: &'a str,
    /// Headers that requests to it need.
    pub(super) headers: &'a [(String, String)],
    /// The model that requests to a language model name.
    pub(super) model: &'a str,
    /// How long cases of silence wait.
    pub(super) silence: Duration,
    /// How long to wait for data that may never arrive.
    pub(super) patience: Duration,
}

impl Side<'_> {
    /// Connects, and sends a GET for a path of the upstream's script. Also returns the request's number.
    pub(super) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<(Link, u64), Deviation> {
        let number = self.upstream.next();
        Ok((self.send("GET", &format!("{path}?{number}"), headers, b"")?, number))
    }

    /// Connects, and sends a request. The side's own headers replace those of the case.
    pub(super) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Link, Deviation> {
        let mut request = format!("{method} {}{target} HTTP/1.1\r\nhost: {SERVER_NAME}\r\n", self.prefix);
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let is_own = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        for (name, value) in own.chain(headers.iter().copied().filter(|(name, _)| !is_own(name))) {
            request += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            request += &format!("content-length: {}\r\n", body.len());
        }
        let stream = TcpStream::connect(self.address).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PAUSE))?;
            // Some gateways stop reading a long request.
            stream.set_write_timeout(Some(Duration::from_secs(20)))?;
            Ok(stream)
        });
        let stream = stream.map_err(|error| Deviation(format!("cannot connect: {error}")))?;
        let mut link = Link { stream, input: Vec::new(), is_over: false };
        link.send(&[(request + "\r\n").as_bytes(), body].concat())?;
        Ok(link)
    }

    /// Waits until the upstream has seen of this request what `is_expected` accepts. Returns false after
    /// `limit`.
    pub(super) fn sees(&self, number: u64, limit: Duration, is_expected: impl Fn(&Seen) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if is_expected(&self.upstream.seen(number)) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// A connection of a client.
pub(super) struct Link {
    stream: TcpStream,
    /// Bytes that have arrived and were not handled yet.
    pub(super) input: Vec<u8>,
    /// True if the other side has ended the connection.
    pub(super) is_over: bool,
}

impl Link {
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Deviation> {
        self.stream.write_all(bytes).map_err(|_| Deviation::new("the connection ends early"))
    }

    /// Stops sending; the other direction stays open.
    pub(super) fn stop_sending(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads until `is_enough` returns true, the connection ends, or the time is over. Returns true in the
    /// first case.
    pub(super) fn until(&mut self, limit: Duration, mut is_enough: impl FnMut(&mut Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut piece = vec![0; 64 * 1024];
        loop {
            if is_enough(self) {
                return true;
            }
            if self.is_over || Instant::now() >= deadline {
                return false;
            }
            match self.stream.read(&mut piece) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
                Err(error) if is_temporary(error.kind()) => {}
                Err(_) => self.is_over = true,
            }
        }
    }
}

/// True if the same read can succeed later.
pub(super) fn is_temporary(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A head that has arrived, and its length in bytes.
pub(super) struct Head {
    /// The request line or the status line.
    pub(super) first: String,
    /// Names, in lower case, and values.
    pub(super) fields: Vec<(String, String)>,
    pub(super) length: usize,
}

impl Head {
    /// The head at the beginning of `bytes`. `None` if it is not whole.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let length = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let mut lines = text.lines();
        let first = lines.next()?.to_owned();
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        Some(Self { first, fields: lines.filter_map(field).collect(), length })
    }

    /// The values of a header, joined by commas.
    pub(super) fn value(&self, name: &str) -> String {
        value_of(&self.fields, name)
    }

    /// The status of a response; 0 if it has none.
    pub(super) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// The values of a header, joined by commas.
pub(super) fn value_of(fields: &[(String, String)], name: &str) -> String {
    let values = fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
    values.collect::<Vec<_>>().join(", ")
}

/// What has arrived of a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) is_whole: bool,
}

impl Body {
    /// The body after this head. Without a length, it is whole when the connection is over.
    pub(super) fn read(head: &Head, rest: &[u8], is_over: bool) -> Self {
        if head.value("transfer-encoding").to_ascii_lowercase().contains("chunked") {
            return Self::chunks(rest);
        }
        match head.value("content-length").parse::<usize>() {
            Ok(length) => {
                Self { bytes: rest[..length.min(rest.len())].to_vec(), is_whole: rest.len() >= length }
            }
            Err(_) => Self { bytes: rest.to_vec(), is_whole: is_over },
        }
    }

    fn chunks(mut rest: &[u8]) -> Self {
        let mut body = Self::default();
        while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
            let line = String::from_utf8_lossy(&rest[..end]).into_owned();
            let size = line.split(';').next().unwrap_or_default().trim();
            let Ok(size) = usize::from_str_radix(size, 16) else { return body };
            rest = &rest[end + 2..];
            if size == 0 {
                body.is_whole = rest.starts_with(b"\r\n") || rest.windows(4).any(|end| end == b"\r\n\r\n");
                return body;
            }
            body.bytes.extend_from_slice(&rest[..size.min(rest.len())]);
            let Some(next) = rest.get(size + 2..) else { return body };
            rest = next;
        }
        body
    }
}

const MARK: &str = "hoptax-lint-";

/// The mark of a request. It makes the upstream answer as `script` says.
pub(super) fn mark(number: u64, script: &str) -> String {
    format!("{MARK}{number}-{script}.")
}

/// The number and the script in a body with a mark.
pub(super) fn marked(body: &[u8]) -> Option<(u64, &str)> {
    let (_, rest) = std::str::from_utf8(body).ok()?.split_once(MARK)?;
    let (number, script) = rest.split_once('.')?.0.split_once('-')?;
    Some((number.parse().ok()?, script))
}

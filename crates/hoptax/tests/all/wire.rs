//! Helpers for tests of servers: a running `hoptax` server, and a client. The client writes raw bytes and
//! reads responses.

use crate::load::KilledOnDrop;
use crate::support::{PATIENCE, hoptax, own_loopback};
use hoptax_wire::http1::{Framing, ResponseDecoder, Step, Version};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};

pub(crate) struct Server {
    child: KilledOnDrop,
    pub(crate) ready: serde_json::Value,
}

impl Server {
    /// An upstream listens on this process's own address, unless `args` say where.
    pub(crate) fn start(args: &[&str]) -> Self {
        let own = own_loopback().to_string();
        let address = ["--address", own.as_str()];
        let says_where = ["--address", "--port", "--unix"].iter().any(|option| args.contains(option));
        let more: &[&str] = if args[0] == "upstream" && !says_where { &address[..] } else { &[] };
        Self::spawn(hoptax().args(args).args(more))
    }

    /// Like [`start`](Self::start), but the server can have at most `limit` file descriptors.
    pub(crate) fn start_with_descriptors(limit: u32, args: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
        Self::spawn(shell.arg(hoptax().get_program()).args(args))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        let ready =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{command:?} said {line:?}: {error}"));
        Self { child: KilledOnDrop(child), ready }
    }

    /// Starts a hop of this kind in front of `upstream`. Returns the hop and its address.
    pub(crate) fn hop(kind: &str, upstream: SocketAddr, more: &[&str]) -> (Self, SocketAddr) {
        let (upstream, own) = (upstream.to_string(), format!("{}:0", own_loopback()));
        let hop = Self::start(&[&["hop", kind, "--upstream", &upstream, "--listen", &own], more].concat());
        let listen = address(&hop.ready["listen"]);
        (hop, listen)
    }

    pub(crate) fn instance(&self, index: usize) -> SocketAddr {
        address(&self.ready["instances"][index])
    }

    pub(crate) fn control(&self) -> SocketAddr {
        address(&self.ready["control"])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn memory(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).expect("it runs");
        let pages: u64 = statm.split(' ').nth(1).expect("a second field").parse().expect("a number");
        pages * 4096
    }

    /// Stops the server with a signal. Returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("our child").code()
    }
}

fn address(value: &serde_json::Value) -> SocketAddr {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("not an address: {value}"))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) framing: Framing,
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    pub(crate) body: Vec<u8>,
    pub(crate) interim: usize,
}

/// An address on which no process listens. It stays reserved while this value exists.
pub(crate) struct UnusedAddress {
    pub(crate) address: SocketAddr,
    _bound: rustix::fd::OwnedFd,
}

impl UnusedAddress {
    pub(crate) fn new() -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&bound, &SocketAddr::from((own_loopback(), 0))).expect("a port");
        let address = getsockname(&bound).expect("present").try_into().expect("an address of IP");
        Self { address, _bound: bound }
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&to, PATIENCE).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, input: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).expect("sent");
        self
    }

    pub(crate) fn finish(&mut self) -> &mut Self {
        self.stream.shutdown(Shutdown::Write).expect("open");
        self
    }

    pub(crate) fn response(&mut self) -> Response {
        self.read(false).expect("a whole response")
    }

    pub(crate) fn response_to_head(&mut self) -> Response {
        self.read(true).expect("a whole response")
    }

    /// The next response, or the reason why it could not be read.
    pub(crate) fn read(&mut self, to_head: bool) -> Result<Response, String> {
        let mut decoder = ResponseDecoder::new();
        decoder.begin(to_head);
        let (mut found, mut interim): (Option<Response>, usize) = (None, 0);
        loop {
            let step = decoder.advance(&self.input).map_err(|error| format!("{error}: {found:?}"))?;
            let consumed = match step {
                Step::NeedMore => {
                    if self.more()? == 0 {
                        decoder.end_of_input().map_err(|error| format!("{error}: {found:?}"))?;
                        return found.ok_or_else(|| "nothing".to_owned());
                    }
                    0
                }
                Step::Interim { consumed } => {
                    interim += 1;
                    consumed
                }
                Step::Head { consumed, head } => {
                    found = Some(Response {
                        status: head.status,
                        head: String::from_utf8_lossy(&self.input[..consumed]).into_owned(),
                        framing: head.framing,
                        version: head.version,
                        keep_alive: head.keep_alive,
                        body: Vec::new(),
                        interim,
                    });
                    consumed
                }
                Step::Body { consumed, data } => {
                    let data = self.input[data].to_vec();
                    found.as_mut().expect("a head came first").body.extend(data);
                    consumed
                }
                Step::End { consumed, .. } => {
                    self.input.drain(..consumed);
                    return Ok(found.expect("a head came first"));
                }
            };
            self.input.drain(..consumed);
        }
    }

    fn more(&mut self) -> Result<usize, String> {
        let mut piece = [0; 65536];
        let count = loop {
            match self.stream.read(&mut piece) {
                // If a process is stopped and continued, its read can fail with this error.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| error.to_string())?,
            }
        };
        self.input.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.input.is_empty() && matches!(self.more(), Ok(0))
    }
}

/// Pseudo-random bytes. No part of them repeats within the length of a buffer.
pub(crate) fn sample(length: usize) -> Vec<u8> {
    let mut random = hoptax_format::random::Random::new(length as u64);
    (0..length.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(length).collect()
}

/// `body` in chunks of different sizes, with an extension and a trailer.
pub(crate) fn chunked(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = body;
    let mut size = 1;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        out.extend(format!("{:X};of=many\r\n", chunk.len()).bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        (rest, size) = (after, size * 3 % 40_009);
    }
    out.extend_from_slice(b"0\r\nx-sum: none\r\n\r\n");
    out
}

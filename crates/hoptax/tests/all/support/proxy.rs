//! A proxy that can misbehave. Each field of [`Misbehaviour`] plants one of the faults that findings report.
//!
//! It runs in the test's process and is attached as an `external` gateway. Without faults it is a correct
//! HTTP/1.1 proxy with persistent connections on both sides. Each client connection has one thread and one
//! upstream connection.

use super::own_loopback;
use hoptax_wire::http1::{HeadCache, RequestDecoder, RequestStep, ResponseDecoder, Step};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Faults of the proxy; none by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Misbehaviour {
    /// Closes each client connection after one response, with `connection: close`.
    pub(crate) close_clients: bool,
    /// Answers in HTTP/1.0 and closes the connection.
    pub(crate) http_10: bool,
    /// Opens a new upstream connection for each request.
    pub(crate) fresh_upstream: bool,
    /// Sends every Nth request to the upstream twice.
    pub(crate) duplicate_every: Option<u64>,
    /// Maximum number of requests to forward in each second. All other requests get status 429.
    pub(crate) limit_per_second: Option<u64>,
    /// Changes the last byte of every Nth response body.
    pub(crate) alter_every: Option<u64>,
    /// Caches every response. The key is the request line.
    pub(crate) cached: bool,
    /// Number of bytes to leak per request.
    pub(crate) leak_bytes: usize,
    /// Delays each request by this duration.
    pub(crate) delay: Option<Duration>,
    /// Rounds each response time up to a multiple of this duration.
    pub(crate) quantum: Option<Duration>,
    /// Length of the listen queue, and the time for which the proxy waits before it accepts each connection.
    pub(crate) backlog: Option<(i32, Duration)>,
    /// Sends every Nth request to an upstream that is not the first, and all other requests to the first
    /// upstream.
    pub(crate) favour_first: Option<u64>,
    /// When the request with this number arrives, stalls all connections for this duration. This happens only
    /// once.
    pub(crate) stall: Option<(u64, Duration)>,
    /// Acts like a cold gateway. While a client connection is younger than the first duration, each of its
    /// requests is delayed by the second duration.
    pub(crate) cold: Option<(Duration, Duration)>,
    /// Forwards only one request at a time, with this interval between two requests.
    pub(crate) one_every: Option<Duration>,
}

/// A running proxy. When it is dropped, it accepts no more connections. Its threads end when their
/// connections end.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    wrong: Misbehaviour,
    upstreams: Vec<SocketAddr>,
    requests: AtomicU64,
    stop: AtomicBool,
    /// The start of the current second, and the number of requests in this second.
    limiter: Mutex<(Option<Instant>, u64)>,
    cache: Mutex<std::collections::BTreeMap<Vec<u8>, Vec<u8>>>,
    leak: Mutex<Vec<Vec<u8>>>,
    stalled_until: Mutex<Option<Instant>>,
    /// With `one_every`: the time at which the last request was due.
    last_due: Mutex<Option<Instant>>,
}

impl Proxy {
    pub(crate) fn start(upstreams: &[SocketAddr], wrong: Misbehaviour) -> Self {
        let listener = listener(wrong.backlog.map_or(1024, |(length, _)| length));
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            wrong,
            upstreams: upstreams.to_vec(),
            requests: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            limiter: Mutex::default(),
            cache: Mutex::default(),
            leak: Mutex::default(),
            stalled_until: Mutex::default(),
            last_due: Mutex::default(),
        });
        let all = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &all));
        Self { address, shared, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn leaked(&self) -> usize {
        self.shared.leak.lock().expect("not poisoned").iter().map(Vec::len).sum()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // This connection wakes the thread that accepts connections. If the backlog is full, this connection
        // fails, but then the waiting connections wake the thread.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

fn listener(backlog: i32) -> TcpListener {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    bind(&socket, &SocketAddr::from((own_loopback(), 0))).expect("a port");
    listen(&socket, backlog).expect("it listens");
    TcpListener::from(socket)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        if let Some((_, pause)) = shared.wrong.backlog {
            std::thread::sleep(pause);
        }
        let accepted = listener.accept();
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok((client, _)) = accepted else { continue };
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            // Timer slack 1 ns (PR_SET_TIMERSLACK), so that delays are exact.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let _ = serve(client, &shared);
        });
    }
}

fn serve(mut client: TcpStream, shared: &Shared) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let (mut decoder, mut cache) = (RequestDecoder::new(), HeadCache::new());
    let mut upstreams: Vec<Option<TcpStream>> = shared.upstreams.iter().map(|_| None).collect();
    let mut input = Vec::new();
    let connected = Instant::now();
    loop {
        let Some(request) = request(&mut client, &mut decoder, &mut cache, &mut input)? else {
            return Ok(());
        };
        let received = Instant::now();
        let number = shared.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((_, pause)) = shared.wrong.cold.filter(|(until, _)| connected.elapsed() < *until) {
            std::thread::sleep(pause);
        }
        let mut answer = shared.answer(&request, number, &mut upstreams)?;
        if shared.wrong.alter_every.is_some_and(|every| number.is_multiple_of(every))
            && let Some(last) = answer.bytes.last_mut()
        {
            *last = last.wrapping_add(1);
        }
        let last = shared.wrong.close_clients || shared.wrong.http_10 || !request.keep_alive;
        if shared.wrong.http_10 {
            answer.bytes[..8].copy_from_slice(b"HTTP/1.0");
        }
        if shared.wrong.close_clients {
            let end = answer.bytes.windows(2).position(|pair| pair == b"\r\n").expect("a status line") + 2;
            answer.bytes.splice(end..end, b"connection: close\r\n".iter().copied());
        }
        if let Some(quantum) = shared.wrong.quantum {
            let steps = received.elapsed().as_nanos() / quantum.as_nanos() + 1;
            let due = received + quantum * u32::try_from(steps).expect("few steps");
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        client.write_all(&answer.bytes)?;
        if last {
            return Ok(());
        }
    }
}

struct Request {
    bytes: Vec<u8>,
    is_head: bool,
    keep_alive: bool,
}

struct Answer {
    bytes: Vec<u8>,
}

/// The next complete request; `None` at the end of the connection.
fn request(
    client: &mut TcpStream,
    decoder: &mut RequestDecoder,
    cache: &mut HeadCache<hoptax_wire::http1::RequestHead>,
    input: &mut Vec<u8>,
) -> std::io::Result<Option<Request>> {
    let (mut bytes, mut is_head) = (Vec::new(), false);
    loop {
        let step = decoder.advance_with(cache, input).map_err(std::io::Error::other)?;
        let (consumed, end) = match step {
            RequestStep::NeedMore => {
                if !read_more(client, input)? {
                    return Ok(None);
                }
                continue;
            }
            RequestStep::Head { consumed, head } => {
                is_head = head.is_head;
                (consumed, None)
            }
            RequestStep::Body { consumed, .. } => (consumed, None),
            RequestStep::End { consumed, keep_alive } => (consumed, Some(keep_alive)),
        };
        bytes.extend(input.drain(..consumed));
        if let Some(keep_alive) = end {
            return Ok(Some(Request { bytes, is_head, keep_alive }));
        }
    }
}

/// Reads more bytes into `input`. Returns `false` at the end of the stream.
fn read_more(stream: &mut TcpStream, input: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut buffer = [0; 16 * 1024];
    let count = stream.read(&mut buffer)?;
    input.extend_from_slice(&buffer[..count]);
    Ok(count > 0)
}

impl Shared {
    fn answer(
        &self,
        request: &Request,
        number: u64,
        upstreams: &mut [Option<TcpStream>],
    ) -> std::io::Result<Answer> {
        if self.wrong.leak_bytes > 0 {
            self.leak.lock().expect("not poisoned").push(vec![1; self.wrong.leak_bytes]);
        }
        self.stall(number);
        self.queue();
        if self.refuses() {
            let head =
                "HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\n";
            return Ok(Answer { bytes: format!("{head}too many\n").into_bytes() });
        }
        let line = request.bytes.split(|&byte| byte == b'\r').next().unwrap_or_default().to_vec();
        if self.wrong.cached
            && let Some(kept) = self.cache.lock().expect("not poisoned").get(&line)
        {
            return Ok(Answer { bytes: kept.clone() });
        }
        std::thread::sleep(self.wrong.delay.unwrap_or_default());
        let mut bytes = self.ask(request, self.turn(number), upstreams)?;
        if self.wrong.duplicate_every.is_some_and(|every| number.is_multiple_of(every)) {
            bytes = self.ask(request, self.turn(number), upstreams)?;
        }
        if self.wrong.cached {
            self.cache.lock().expect("not poisoned").insert(line, bytes.clone());
        }
        Ok(Answer { bytes })
    }

    fn turn(&self, number: u64) -> usize {
        let count = self.upstreams.len() as u64;
        let turn = match self.wrong.favour_first {
            Some(every) if number.is_multiple_of(every) => 1 + (number / every) % (count - 1).max(1),
            Some(_) => 0,
            None => number,
        };
        usize::try_from(turn % count).expect("small")
    }

    fn stall(&self, number: u64) {
        let Some((at, time)) = self.wrong.stall else { return };
        let mut until = self.stalled_until.lock().expect("not poisoned");
        if number == at {
            *until = Some(Instant::now() + time);
        }
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        drop(until);
        std::thread::sleep(left);
    }

    fn queue(&self) {
        let Some(apart) = self.wrong.one_every else { return };
        let mut last = self.last_due.lock().expect("not poisoned");
        let now = Instant::now();
        // Each due time is relative to the previous one, so that a late wake-up does not lower the rate.
        let due = last.map_or(now, |last| (last + apart).max(now));
        *last = Some(due);
        drop(last);
        std::thread::sleep(due.saturating_duration_since(now));
    }

    fn refuses(&self) -> bool {
        let Some(limit) = self.wrong.limit_per_second else { return false };
        let mut limiter = self.limiter.lock().expect("not poisoned");
        if limiter.0.is_none_or(|began| began.elapsed() >= Duration::from_secs(1)) {
            *limiter = (Some(Instant::now()), 0);
        }
        limiter.1 += 1;
        limiter.1 > limit
    }

    /// Sends a request to one upstream and returns its response. If the upstream has closed the kept
    /// connection, tries once more on a new connection.
    fn ask(
        &self,
        request: &Request,
        index: usize,
        upstreams: &mut [Option<TcpStream>],
    ) -> std::io::Result<Vec<u8>> {
        let kept = if self.wrong.fresh_upstream { None } else { upstreams[index].take() };
        if let Some(Ok(answer)) = kept.map(|kept| exchange(kept, request)) {
            upstreams[index] = answer.1;
            return Ok(answer.0);
        }
        let fresh = TcpStream::connect(self.upstreams[index])?;
        fresh.set_nodelay(true)?;
        let (bytes, stays) = exchange(fresh, request)?;
        upstreams[index] = stays;
        Ok(bytes)
    }
}

/// Returns the complete response. Also returns the connection if it can be reused.
fn exchange(mut upstream: TcpStream, request: &Request) -> std::io::Result<(Vec<u8>, Option<TcpStream>)> {
    upstream.write_all(&request.bytes)?;
    let mut decoder = ResponseDecoder::new();
    decoder.begin(request.is_head);
    let (mut cache, mut input, mut bytes) = (HeadCache::new(), Vec::new(), Vec::new());
    loop {
        let (consumed, end) = match decoder.advance_with(&mut cache, &input).map_err(std::io::Error::other)? {
            Step::NeedMore => {
                if !read_more(&mut upstream, &mut input)? {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            Step::Interim { consumed } | Step::Head { consumed, .. } | Step::Body { consumed, .. } => {
                (consumed, None)
            }
            Step::End { consumed, keep_alive } => (consumed, Some(keep_alive)),
        };
        bytes.extend(input.drain(..consumed));
        if let Some(keep_alive) = end {
            return Ok((bytes, keep_alive.then_some(upstream)));
        }
    }
}

//! A small world for the lab's tests: upstreams inside the test, a client, and services that stop with their test.

use hoptax_lab::packs::{PackSet, binary};
use hoptax_lab::{Service, fake};
use hoptax_plan::{Gateway, Plan};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Generous: only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary under test.
pub(crate) fn exe() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hoptax"))
}

/// Whether a gateway's tests may be skipped: it is not installed, and HOPTAX_ALLOW_MISSING says that this is fine.
pub(crate) fn is_missing(pack: &str) -> bool {
    let packs = PackSet::load(None).expect("the packs are right");
    let missing = binary::find(packs.get(pack).expect("a pack")).is_none();
    assert!(
        !missing || std::env::var_os("HOPTAX_ALLOW_MISSING").is_some(),
        "{pack} is not installed; install it, or set HOPTAX_ALLOW_MISSING to go without"
    );
    missing
}

/// A plan of one load point with these gateways.
pub(crate) fn running_plan(gateways: Vec<Gateway>) -> Plan {
    fake::plan(gateways, 50)
}

/// A service that is stopped even if the test fails.
pub(crate) struct Running(pub(crate) Box<dyn Service>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// An upstream inside the test: one thread per connection, as many requests on each as come.
pub(crate) struct HttpUpstream {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    last_host: Arc<Mutex<String>>,
}

impl HttpUpstream {
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn last_host(&self) -> String {
        self.last_host.lock().expect("not poisoned").clone()
    }
}

/// Starts an upstream that answers everything with `body`.
pub(crate) fn http_upstream(body: &'static str) -> HttpUpstream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = HttpUpstream {
        address: listener.local_addr().expect("told"),
        requests: Arc::default(),
        connections: Arc::default(),
        last_host: Arc::default(),
    };
    let (requests, connections) = (Arc::clone(&upstream.requests), Arc::clone(&upstream.connections));
    let last_host = Arc::clone(&upstream.last_host);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (requests, last_host) = (Arc::clone(&requests), Arc::clone(&last_host));
            let connections = Arc::clone(&connections);
            std::thread::spawn(move || serve(stream, body, &connections, &requests, &last_host));
        }
    });
    upstream
}

fn serve(
    stream: TcpStream,
    body: &str,
    connections: &AtomicU64,
    requests: &AtomicU64,
    last_host: &Mutex<String>,
) {
    let mut answers = stream.try_clone().expect("cloned");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok).peekable();
    // A connection that is closed again without a request, as by a readiness probe, is none.
    if lines.peek().is_some() {
        connections.fetch_add(1, Ordering::SeqCst);
    }
    while let Some(request) = lines.next() {
        let mut last = request.ends_with("HTTP/1.0");
        for header in lines.by_ref().take_while(|line| !line.is_empty()) {
            let header = header.to_ascii_lowercase();
            last |= header == "connection: close";
            if let Some(host) = header.strip_prefix("host: ") {
                host.clone_into(&mut last_host.lock().expect("not poisoned"));
            }
        }
        requests.fetch_add(1, Ordering::SeqCst);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length:";
        let _ = answers.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes());
        if last {
            return;
        }
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// One request on a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it accepts connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = format!("GET {path} HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered in time");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, body: body.to_owned() }
}

/// One request on a connection that is then kept open.
pub(crate) fn keep(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it accepts connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(b"GET / HTTP/1.1\r\nhost: echo.com\r\n\r\n").expect("sent");
    let mut lines = BufReader::new(&stream).lines();
    let status = lines.next().expect("an answer").expect("in time");
    assert!(status.contains(" 200"), "{status}");
    stream
}

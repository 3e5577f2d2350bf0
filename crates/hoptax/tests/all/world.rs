//! A small world for the lab's tests: an upstream inside the test, a client, and services that stop with their test.

use crate::support::server::{Response, Server};
use crate::support::{PATIENCE, skip};
use hoptax_lab::packs::{PackSet, binary};
use hoptax_lab::{Service, fake};
use hoptax_plan::{Gateway, Plan};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// The binary under test.
pub(crate) fn exe() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hoptax"))
}

/// Whether a gateway's tests are skipped: it is not installed, and HOPTAX_ALLOW_MISSING says that this is fine.
#[track_caller]
pub(crate) fn is_missing(pack: &str) -> bool {
    let packs = PackSet::load(None).expect("the packs are right");
    let missing = binary::find(packs.get(pack).expect("a pack")).is_none();
    assert!(
        !missing || std::env::var_os("HOPTAX_ALLOW_MISSING").is_some(),
        "{pack} is not installed; install it, or set HOPTAX_ALLOW_MISSING to go without"
    );
    if missing {
        skip(format!("{pack} is not installed"));
    }
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

/// Starts an upstream that answers everything with `body`.
pub(crate) fn http_upstream(body: &'static str) -> Server {
    Server::start(move |_| Response::text(body))
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

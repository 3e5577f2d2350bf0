//! Helpers for tests of services: an upstream inside the test, a client, and services that stop when their
//! test ends.

use crate::support::client::exchange;
use crate::support::server::{Response, Server};
use crate::support::{PATIENCE, skip};
use hoptax_lab::packs::{PackSet, binary};
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Service, fake};
use hoptax_plan::{Feature, Gateway, GatewayKind, Plan};
use hoptax_record::Failure;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::LazyLock;

pub(crate) fn exe() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hoptax"))
}

/// The packs of the project, loaded once.
pub(crate) fn packs() -> PackSet {
    static PACKS: LazyLock<PackSet> = LazyLock::new(|| PackSet::load(None).expect("the packs are right"));
    PACKS.clone()
}

/// Whether tests of a gateway must be skipped. This is the case if the gateway is not installed and
/// HOPTAX_ALLOW_MISSING allows that.
#[track_caller]
pub(crate) fn is_missing(pack: &str) -> bool {
    let packs = packs();
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

/// A gateway of this pack, which runs as processes.
pub(crate) fn pack_gateway(label: &str, pack: &str, workers: u32, features: &[Feature]) -> Gateway {
    let kind = GatewayKind::Pack {
        pack: pack.into(),
        workers,
        features: features.to_vec(),
        instances: None,
        driver: Default::default(),
        upstream_http2: false,
    };
    Gateway { label: label.into(), kind }
}

/// A driver with the packs of the project.
pub(crate) fn driver_for(plan: &Plan, run: &Path) -> ProcessDriver {
    ProcessDriver::new(plan, packs(), run).expect("a driver").with_exe(exe())
}

/// A service that must have started.
#[track_caller]
pub(crate) fn started(service: Result<Box<dyn Service>, Failure>) -> Running {
    match service {
        Ok(service) => Running(service),
        Err(failure) => panic!("{failure:#?}"),
    }
}

pub(crate) fn running_plan(gateways: Vec<Gateway>) -> Plan {
    fake::plan(gateways, 50)
}

/// A service. It is stopped even if the test fails.
pub(crate) struct Running(pub(crate) Box<dyn Service>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) fn http_upstream(body: &'static str) -> Server {
    Server::start(move |_| Response::text(body))
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Sends one request on its own connection.
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n\r\n");
    let answer = exchange(None, address, None, &request).unwrap_or_else(|error| panic!("{path}: {error}"));
    Answer { status: answer.status, body: answer.text() }
}

/// Sends one request on a connection that stays open.
pub(crate) fn keep(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it accepts connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(b"GET / HTTP/1.1\r\nhost: echo.com\r\n\r\n").expect("sent");
    let mut lines = BufReader::new(&stream).lines();
    let status = lines.next().expect("an answer").expect("in time");
    assert!(status.contains(" 200"), "{status}");
    stream
}

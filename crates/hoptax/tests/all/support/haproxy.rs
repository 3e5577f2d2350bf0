//! A real HAProxy with a configuration of the test.

use super::{Scratch, unused_address};
use crate::load::KilledOnDrop;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

/// A running HAProxy. When it is dropped, it is killed.
pub(crate) struct Haproxy {
    _process: KilledOnDrop,
    pub(crate) address: SocketAddr,
}

impl Haproxy {
    /// Starts HAProxy in front of `upstream`. It serves at most `most` client connections, and lets the
    /// others wait.
    pub(crate) fn with_at_most(most: u32, upstream: SocketAddr, scratch: &Scratch) -> Self {
        let address = unused_address();
        let config = format!(
            "global\n  maxconn {most}\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
             timeout server 60s\n\
             frontend f\n  bind {address}\n  maxconn {most}\n  default_backend b\nbackend b\n  server s \
             {upstream}\n"
        );
        let file = scratch.file("haproxy.cfg", &config);
        let program =
            if std::path::Path::new("/usr/sbin/haproxy").exists() { "/usr/sbin/haproxy" } else { "haproxy" };
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("HAProxy is installed");
        let process = KilledOnDrop(process);
        super::wait_until("HAProxy listens", super::PATIENCE, || TcpStream::connect(address).is_ok());
        Self { _process: process, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

//! `hoptax hop`.

use super::upstream::{cpus, print_ready};
use super::{BadInput, Exit};
use crate::lab::hop::{HopSettings, RunningHop};
use crate::lab::threads::StopSignals;
use crate::plan::HopKind;
use clap::ValueEnum;
use std::net::{SocketAddr, ToSocketAddrs as _};

/// Run a built-in reference proxy until it is stopped by SIGTERM or Ctrl-C.
///
/// When it is ready it prints one line of JSON with the address it listens on.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// l4 forwards bytes without reading them; l7 parses HTTP/1.1, pools upstream connections, forwards
    kind: Kind,
    /// Where to listen; with port 0 the kernel chooses
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Where to forward; several take turns, by connection (l4) or by request (l7)
    #[arg(long = "upstream", value_name = "HOST:PORT", required = true)]
    upstreams: Vec<String>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    /// CPUs to pin the workers to, one after the other: 0, 0,2 or 2-3
    #[arg(long, value_name = "CPUS")]
    cpus: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    L4,
    L7,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let settings = HopSettings {
            kind: match self.kind {
                Kind::L4 => HopKind::L4,
                Kind::L7 => HopKind::L7,
            },
            listen: resolve("--listen", &self.listen)?,
            upstreams: self
                .upstreams
                .iter()
                .map(|typed| resolve("--upstream", typed))
                .collect::<Result<_, _>>()?,
            workers: self.workers,
            cpus: cpus(self.cpus.as_deref())?,
        };
        let signals = StopSignals::catch()?;
        let hop = RunningHop::start(&settings)?;
        print_ready(hop.ready())?;
        hop.threads().wait(signals)?;
        Ok(Exit::Success)
    }
}

/// The address that was typed as `HOST:PORT`.
pub(super) fn resolve(option: &str, typed: &str) -> Result<SocketAddr, BadInput> {
    let wrong = |why: &dyn std::fmt::Display| {
        BadInput(format!("{option} {typed}: {why}; write it as HOST:PORT, such as 127.0.0.1:8080"))
    };
    let mut found = typed.to_socket_addrs().map_err(|error| wrong(&error))?;
    found.next().ok_or_else(|| wrong(&"the name has no address"))
}

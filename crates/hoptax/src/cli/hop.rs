//! `hoptax hop`.

use super::exit::{BadInput, Exit};
use super::upstream::{cpus, print_ready};
use clap::ValueEnum;
use hoptax_host::threads::StopSignals;
use hoptax_plan::{HopDelay, HopDelayHow, HopKind, units};
use hoptax_servers::hop::{HopSettings, RunningHop};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

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
    #[command(flatten)]
    delay: DelayArgs,
}

/// Known delays: whether hoptax can be believed is seen when it finds, in front of this hop, the time that was planted.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Known delays (l7), to see whether a measurement finds what was planted")]
struct DelayArgs {
    /// Hold each request back for so long before it goes upstream [default: 0ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    delay_in: Option<Duration>,
    /// Hold each answer back for so long before it goes to the client [default: 0ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    delay_out: Option<Duration>,
    /// Do so to this share of the requests only, 1% or 0.01, drawn at random [default: 100%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    delay_share: Option<f64>,
    /// Spend the time on a timer, or by a busy CPU, for which other requests wait [default: sleep]
    #[arg(long, value_name = "HOW")]
    delay_how: Option<HopDelayHow>,
    /// Decides which requests are delayed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl DelayArgs {
    fn read(&self, kind: HopKind) -> Result<Option<HopDelay>, BadInput> {
        if self.delay_in.is_none() && self.delay_out.is_none() {
            return match self.delay_share.is_some() || self.delay_how.is_some() {
                true => Err(BadInput(
                    "--delay-share and --delay-how say more of a delay; add --delay-in or --delay-out".into(),
                )),
                false => Ok(None),
            };
        }
        if kind != HopKind::L7 {
            return Err(BadInput("l4 does not know requests and cannot delay them; use l7".into()));
        }
        let delay = HopDelay {
            inbound: self.delay_in.unwrap_or_default(),
            outbound: self.delay_out.unwrap_or_default(),
            share: self.delay_share.unwrap_or(1.0),
            how: self.delay_how.unwrap_or_default(),
        };
        delay.check().map_err(|(what, help)| BadInput(format!("{what}; {help}")))?;
        Ok(Some(delay))
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    L4,
    L7,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let kind = match self.kind {
            Kind::L4 => HopKind::L4,
            Kind::L7 => HopKind::L7,
        };
        let settings = HopSettings {
            kind,
            listen: resolve("--listen", &self.listen)?,
            upstreams: self
                .upstreams
                .iter()
                .map(|typed| resolve("--upstream", typed))
                .collect::<Result<_, _>>()?,
            workers: self.workers,
            cpus: cpus(self.cpus.as_deref())?,
            delay: self.delay.read(kind)?,
            seed: self.delay.seed,
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

//! `hoptax hop`.

use super::exit::{BadInput, Exit};
use super::help;
use super::upstream::{cpus, print_ready};
use super::words::{Words, word};
use clap::ValueEnum;
use hoptax_format::Address;
use hoptax_host::threads::StopSignals;
use hoptax_load::names::{self, Use};
use hoptax_plan::units::{self, UnitError};
use hoptax_plan::{
    HopDeadline, HopDeflate, HopDelay, HopDelayHow, HopFaults, HopLlm, HopWarming, HopWarmingFall,
    check_hop_delay,
};
use hoptax_servers::hop::{self, ForwardProxy, HopSettings, RunningHop};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

/// Run a built-in reference proxy until SIGTERM or Ctrl-C
///
/// When it is ready, it prints one line of JSON with the address that it listens on.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Kind of proxy
    kind: Kind,
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Forward to this address, or to a Unix socket (unix:/path). If repeated, the addresses are used in
    /// turn: for each connection (l4) or each request (l7, h2)
    #[arg(long = "upstream", value_name = "HOST:PORT", required = true)]
    upstreams: Vec<String>,
    /// Be a forward proxy for this host and port (l7 only): accept requests with the whole URL, and CONNECT;
    /// refuse others with status 403. Can be repeated
    #[arg(long, value_name = "HOST:PORT")]
    forward_proxy: Vec<String>,
    /// HTTP version for upstreams (h2 only) [default: 2]
    #[arg(long, value_name = "VERSION", value_parser = word(UPSTREAM_HTTP))]
    upstream_http: Option<hop::UpstreamHttp>,
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    #[arg(long, value_name = "CPUS", help = help::CPUS)]
    cpus: Option<String>,
    #[command(flatten)]
    delay: DelayArgs,
}

/// Known delays and a known warm-up. A measurement of this hop must find them; this tests hoptax itself.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Known delays (l7 and h2 only), to check that hoptax measures a known tax correctly"
)]
struct DelayArgs {
    /// Delay each request by this long before forwarding it [default: 0ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    delay_in: Option<Duration>,
    /// Delay each response by this long before returning it [default: 0ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    delay_out: Option<Duration>,
    /// Delay each gRPC message of a response by this long (h2 only) [default: 0ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    delay_message: Option<Duration>,
    /// Share of requests to delay, at random, such as 0.01 or 1% [default: 100%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    delay_share: Option<f64>,
    /// How to spend the delay [default: sleep]
    #[arg(long, value_name = "HOW", value_parser = word(HOW))]
    delay_how: Option<HopDelayHow>,
    /// Seed of the random choice of delayed requests
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Warm up over the first N requests: each costs extra CPU time
    #[arg(long, value_name = "N", requires = "warming_extra")]
    warming_requests: Option<u64>,
    /// Extra CPU time of the first request of the warm-up, such as 140us
    #[arg(long, value_name = "TIME", requires = "warming_requests", value_parser = units::duration)]
    warming_extra: Option<Duration>,
    /// How the extra time falls to zero [default: linear]
    #[arg(long, value_name = "HOW", requires = "warming_requests", value_parser = word(FALL))]
    warming_fall: Option<HopWarmingFall>,
    /// Drop this share of the gRPC messages (h2) or events (l7) of responses [default: 0%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    fault_drop: Option<f64>,
    /// Send this share of the gRPC messages (h2) or events (l7) of responses twice [default: 0%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    fault_repeat: Option<f64>,
    /// Keep the gRPC messages (h2) or events (l7) of a response for this long, and send them together; l7
    /// sends them at the end of the response at the latest [default: 0ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    fault_hold: Option<Duration>,
    /// Drop the deadline of gRPC calls (drop), or replace it by this time limit (h2 only)
    #[arg(long, value_name = "drop|TIME", value_parser = deadline)]
    fault_deadline: Option<HopDeadline>,
    /// Merge this share of the events of responses with the next one (l7 only) [default: 0%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    fault_merge: Option<f64>,
    /// After the first event of a response, collect this many and send them together (l7 only)
    #[arg(long, value_name = "N")]
    fault_bunch: Option<u32>,
    /// Answer this share of the handshakes of WebSockets with status 502 (l7 only) [default: 0%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    fault_refuse: Option<f64>,
    /// Close WebSockets this long after their handshake, without a close frame (l7 only)
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    fault_cut: Option<Duration>,
    /// Remove the extensions from handshakes of WebSockets, so that messages are not compressed (l7 only)
    #[arg(long, value_name = "HOW", value_parser = word(DEFLATE))]
    fault_deflate: Option<HopDeflate>,
    #[command(flatten)]
    llm: LlmFaultArgs,
}

/// Faults of AI gateways.
#[derive(Debug, clap::Args)]
struct LlmFaultArgs {
    /// Keep the first event of a response for this long, and those behind it (l7 only) [default: 0ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    fault_hold_first: Option<Duration>,
    /// End event streams that the upstream cuts with `data: [DONE]` (l7 only)
    #[arg(long)]
    fault_false_end: bool,
    /// Read responses to their end although the client has left (l7 only)
    #[arg(long)]
    fault_ignore_abort: bool,
    /// Send a request that was answered with 429 or 5xx again, up to N times (l7 only)
    #[arg(long, value_name = "N")]
    fault_retry: Option<u32>,
    /// Change `completion_tokens` and `output_tokens` in responses (l7 only)
    #[arg(long)]
    fault_rewrite_usage: bool,
    /// Add a field to the JSON of requests (l7 only)
    #[arg(long)]
    fault_add_field: bool,
    /// Add a field to the JSON of responses that are not streamed (l7 only)
    #[arg(long)]
    fault_alter_response: bool,
    /// Drop the comments between events (l7 only)
    #[arg(long)]
    fault_drop_comments: bool,
    /// Read all that the upstream sends, although the client does not read (l7 only)
    #[arg(long)]
    fault_unbounded: bool,
}

impl LlmFaultArgs {
    /// The faults, if an option plants one.
    fn read(&self) -> Option<HopLlm> {
        let llm = HopLlm {
            hold_first: self.fault_hold_first.unwrap_or_default(),
            false_end: self.fault_false_end,
            ignore_abort: self.fault_ignore_abort,
            retry: self.fault_retry.unwrap_or_default(),
            rewrite_usage: self.fault_rewrite_usage,
            add_field: self.fault_add_field,
            alter_response: self.fault_alter_response,
            drop_comments: self.fault_drop_comments,
            unbounded: self.fault_unbounded,
        };
        Some(llm).filter(|llm| *llm != HopLlm::default())
    }
}

fn deadline(typed: &str) -> Result<HopDeadline, UnitError> {
    if typed == "drop" { Ok(HopDeadline::Drop) } else { units::duration(typed).map(HopDeadline::Replace) }
}

impl DelayArgs {
    fn read(&self, kind: hop::Kind) -> Result<Option<HopDelay>, BadInput> {
        let is_delayed = self.delay_in.is_some() || self.delay_out.is_some() || self.delay_message.is_some();
        if !is_delayed && (self.delay_share.is_some() || self.delay_how.is_some()) {
            return Err(BadInput(
                "--delay-share and --delay-how need a delay; add --delay-in or --delay-out".into(),
            ));
        }
        let (warming, faults) = (self.warming(), self.faults());
        let forwards_calls = kind == hop::Kind::H2(hop::UpstreamHttp::Http2);
        let of_calls = self.delay_message.is_some() || faults.is_some_and(|faults| faults.is_of_calls());
        if !forwards_calls && of_calls {
            return Err(BadInput(
                "--delay-message and --fault-deadline are for gRPC calls; use h2 without --upstream-http"
                    .into(),
            ));
        }
        if kind != hop::Kind::L7 && faults.is_some_and(|faults| faults.is_of_streams()) {
            return Err(BadInput(
                "faults other than --fault-drop, --fault-repeat, --fault-hold and --fault-deadline are for \
                 event streams and WebSockets; use l7"
                    .into(),
            ));
        }
        if !forwards_calls && kind != hop::Kind::L7 && faults.is_some() {
            return Err(BadInput("--fault-… needs l7, or h2 without --upstream-http".into()));
        }
        if !is_delayed && warming.is_none() && faults.is_none() {
            return Ok(None);
        }
        if kind == hop::Kind::L4 {
            return Err(BadInput("l4 cannot delay requests, because it does not parse them; use l7".into()));
        }
        let delay = HopDelay {
            inbound: self.delay_in.unwrap_or_default(),
            outbound: self.delay_out.unwrap_or_default(),
            share: self.delay_share.unwrap_or(1.0),
            how: self.delay_how.unwrap_or_default(),
            warming,
            message: self.delay_message.unwrap_or_default(),
            faults,
        };
        check_hop_delay(&delay).map_err(|error| BadInput(error.to_string()))?;
        Ok(Some(delay))
    }

    /// The warm-up. clap accepts the number of requests and the extra time only together.
    fn warming(&self) -> Option<HopWarming> {
        let fall = self.warming_fall.unwrap_or_default();
        Some(HopWarming { requests: self.warming_requests?, extra: self.warming_extra?, fall })
    }

    /// The faults, if an option plants one.
    fn faults(&self) -> Option<HopFaults> {
        let llm = self.llm.read();
        let is_given = self.fault_drop.is_some()
            || self.fault_repeat.is_some()
            || self.fault_hold.is_some()
            || self.fault_deadline.is_some()
            || self.fault_merge.is_some()
            || self.fault_bunch.is_some()
            || self.fault_refuse.is_some()
            || self.fault_cut.is_some()
            || self.fault_deflate.is_some()
            || self.llm.fault_hold_first.is_some()
            || self.llm.fault_retry.is_some()
            || llm.is_some();
        is_given.then(|| HopFaults {
            drop: self.fault_drop.unwrap_or_default(),
            repeat: self.fault_repeat.unwrap_or_default(),
            hold: self.fault_hold.unwrap_or_default(),
            deadline: self.fault_deadline,
            merge: self.fault_merge.unwrap_or_default(),
            bunch: self.fault_bunch.unwrap_or_default(),
            refuse: self.fault_refuse.unwrap_or_default(),
            cut: self.fault_cut.unwrap_or_default(),
            deflate: self.fault_deflate,
            llm,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Forwards bytes without parsing them
    L4,
    /// Parses HTTP/1.1, keeps a pool of upstream connections, and forwards requests
    L7,
    /// Parses HTTP/2, and forwards requests over HTTP/2 or HTTP/1.1
    H2,
}

const UPSTREAM_HTTP: Words<hop::UpstreamHttp> = &[
    ("1.1", "HTTP/1.1, with a pool of connections", hop::UpstreamHttp::Http1),
    ("2", "HTTP/2, by prior knowledge", hop::UpstreamHttp::Http2),
];
const HOW: Words<HopDelayHow> = &[
    ("sleep", "Wait on a timer", HopDelayHow::Sleep),
    (
        "spin",
        "Keep the CPU busy, as a computation does; the worker then handles no other request",
        HopDelayHow::Spin,
    ),
];
const FALL: Words<HopWarmingFall> = &[
    (
        "linear",
        "The extra time of request n, counted from 0, is extra × (1 − n/requests)",
        HopWarmingFall::Linear,
    ),
    ("step", "Each of the first `requests` requests has the full extra time", HopWarmingFall::Step),
];
const DEFLATE: Words<HopDeflate> = &[("drop", "Remove them", HopDeflate::Drop)];

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let settings = HopSettings {
            kind: self.kind()?,
            listen: resolve("--listen", &self.listen)?,
            upstreams: self.upstreams.iter().map(|typed| upstream(typed)).collect::<Result<_, _>>()?,
            workers: self.workers,
            cpus: cpus(self.cpus.as_deref())?,
            forward: self.forward()?,
            delay: self.delay.read(self.kind()?)?,
            seed: self.delay.seed,
        };
        let signals = StopSignals::catch()?;
        let hop = RunningHop::start(&settings)?;
        print_ready(hop.ready())?;
        hop.threads().wait(signals)?;
        Ok(Exit::Success)
    }

    fn kind(&self) -> Result<hop::Kind, BadInput> {
        match (self.kind, self.upstream_http) {
            (Kind::H2, http) => Ok(hop::Kind::H2(http.unwrap_or(hop::UpstreamHttp::Http2))),
            (_, Some(_)) => Err(BadInput("--upstream-http is only for h2; leave it out".to_owned())),
            (Kind::L4, None) => Ok(hop::Kind::L4),
            (Kind::L7, None) => Ok(hop::Kind::L7),
        }
    }

    fn forward(&self) -> Result<Option<ForwardProxy>, BadInput> {
        if self.forward_proxy.is_empty() {
            return Ok(None);
        }
        let why = match self.kind {
            Kind::L4 => "l4 cannot be a forward proxy, because it does not parse requests; use l7",
            Kind::H2 => "h2 cannot be a forward proxy; use l7",
            Kind::L7 => "",
        };
        if !why.is_empty() {
            return Err(BadInput(why.to_owned()));
        }
        let forward = ForwardProxy::new(&self.forward_proxy);
        forward.map(Some).map_err(|error| BadInput(format!("--forward-proxy: {error}")))
    }
}

/// The address of an upstream. If a name has several addresses, this is the first that accepts connections.
/// If none accepts connections, it is the first of all, because the upstream need not run yet.
fn upstream(typed: &str) -> Result<Address, BadInput> {
    if typed.starts_with("unix:") {
        return typed.parse().map_err(|error| BadInput(format!("--upstream: {error}")));
    }
    let first = resolve("--upstream", typed)?;
    let Some((host, port)) = typed.rsplit_once(':').filter(|_| typed.parse::<SocketAddr>().is_err()) else {
        return Ok(first.into());
    };
    let port = port.parse().unwrap_or(first.port());
    let Ok(found) = names::find(host, port, Use::First, None) else { return Ok(first.into()) };
    if let Some(note) = found.note(host) {
        eprintln!("note: {note}");
    }
    Ok(found.used.first().copied().unwrap_or(first).into())
}

pub(super) fn resolve(option: &str, typed: &str) -> Result<SocketAddr, BadInput> {
    let wrong = |why: &dyn std::fmt::Display| {
        BadInput(format!("{option} {typed}: {why}; use HOST:PORT, such as 127.0.0.1:8080"))
    };
    let mut found = typed.to_socket_addrs().map_err(|error| wrong(&error))?;
    found.next().ok_or_else(|| wrong(&"the name has no address"))
}

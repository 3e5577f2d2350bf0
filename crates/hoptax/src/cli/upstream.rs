//! `hoptax upstream`.

use super::exit::{BadInput, Exit};
use hoptax_host::threads::{StopSignals, check_cpus};
use hoptax_plan::{Body, BuiltInUpstream, Delay, units};
use hoptax_servers::upstream::{IDENTITY, Placement, RunningUpstream, TOKEN_SECRET};
use hoptax_wire::http1::{is_field_value, is_token};
use std::io::Write as _;
use std::path::PathBuf;

/// Run the built-in upstream until it is stopped by SIGTERM or Ctrl-C.
///
/// When it is ready it prints one line of JSON: the addresses of its instances and of its control socket, where
/// `GET /ledger` tells what it has counted.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Listeners, each with its own port and thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    instances: u32,
    /// Status of the answers
    #[arg(long, value_name = "STATUS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// Header added to the answers; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Body of the answers, by size: 0B, 1KiB, 1MB [default: 1KiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, group = "content")]
    body: Option<u64>,
    /// Body of the answers, as text
    #[arg(long, value_name = "TEXT", group = "content")]
    body_text: Option<String>,
    /// Body of the answers, from a file that is read once
    #[arg(long, value_name = "FILE", group = "content")]
    body_file: Option<PathBuf>,
    /// How long answers are held back: 2ms, "uniform(1ms, 5ms)", "exponential(2ms)" or "choice(99% 0ms, 1% 50ms)"
    #[arg(long, value_name = "DELAY", default_value = "0ms")]
    delay: Delay,
    /// Share of requests answered with 500 instead: 0.01 or 1%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = units::share)]
    failures: f64,
    /// Port of the first instance, the others follow; the kernel chooses when absent
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Address of everything that listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: std::net::Ipv4Addr,
    /// Further ports of the first instance: 8080 or 8080,8081
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    also: Vec<u16>,
    /// Port of the control socket; the kernel chooses when absent
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    control_port: Option<u16>,
    /// CPUs to pin the instances to, one after the other: 0, 0,2 or 2-3
    #[arg(long, value_name = "CPUS")]
    cpus: Option<String>,
    /// Seed of delays and failures
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Tell in a header of each answer when its request had been read and when it was answered
    #[arg(long)]
    stamps: bool,
    /// Answer over TLS as well, on a second port of each instance, with the certificate and key (PEM) in the environment variable HOPTAX_UPSTREAM_IDENTITY
    #[arg(long)]
    tls: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let cpus = cpus(self.cpus.as_deref())?;
        let settings = BuiltInUpstream {
            instances: self.instances,
            status: self.status,
            headers: self.headers,
            body: match (self.body, self.body_text, self.body_file) {
                (_, Some(text), _) => Body::Text(text),
                (_, _, Some(file)) => Body::File(file),
                (size, None, None) => Body::Size(size.unwrap_or(1024)),
            },
            delay: self.delay,
            failures: self.failures,
            port: self.port,
        };
        let placement = Placement {
            control_port: self.control_port,
            cpus,
            seed: self.seed,
            address: Some(self.address),
            also: self.also,
            stamps: self.stamps,
            identity: if self.tls { Some(identity()?) } else { None },
            token_secret: std::env::var(TOKEN_SECRET).ok(),
        };
        let signals = StopSignals::catch()?;
        let upstream = RunningUpstream::start(&settings, &placement)?;
        print_ready(upstream.ready())?;
        upstream.threads().wait(signals)?;
        Ok(Exit::Success)
    }
}

/// Certificate and key for TLS. Not on the command line, which every user of the machine can read.
fn identity() -> anyhow::Result<String> {
    std::env::var(IDENTITY).map_err(|_| {
        let how = "put a certificate and its key into it, both PEM, or leave out --tls";
        BadInput(format!("--tls: there is no environment variable {IDENTITY}; {how}")).into()
    })
}

/// Prints what whoever started us waits for: one line of JSON.
pub(super) fn print_ready(ready: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(ready)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

/// The CPUs named by `--cpus`, all of which this process may use.
pub(super) fn cpus(typed: Option<&str>) -> anyhow::Result<Vec<u32>> {
    let Some(typed) = typed else { return Ok(Vec::new()) };
    let cpus = units::cpu_list(typed).map_err(|error| BadInput(format!("--cpus: {error}")))?;
    check_cpus(&cpus).map_err(|error| BadInput(format!("--cpus: {error:#}")))?;
    Ok(cpus)
}

fn header(typed: &str) -> Result<(String, String), String> {
    let (name, value) = typed.split_once(':').ok_or("write it as \"name: value\"")?;
    let value = value.trim();
    if !is_token(name) {
        return Err(format!("`{name}` is not a header name: use letters, digits and hyphens"));
    }
    if !is_field_value(value) {
        return Err("the value has a control character".to_owned());
    }
    let own = ["connection", "content-length", "transfer-encoding"];
    if own.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(format!("`{name}` is written by hoptax itself; leave it out"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

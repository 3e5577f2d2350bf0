//! The flags of `hoptax load`, by family; what they mean is `ask`'s to say.

use hoptax_load::spec::{Arrivals, Check, HttpVersion, Rate, TlsVersion};
use hoptax_plan::units;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::values;

/// Load one URL and print what it did.
///
/// Closed loop unless a rate is given: each connection sends its next request when the previous response ends. With
/// --rate, requests are due at scheduled times whatever the responses do, and response times count from there.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// What to request: http://HOST[:PORT][/PATH], or https://…; the path may hold templates such as {{seq}}
    #[arg(required_unless_present_any = ["spec", "watched_spec"])]
    pub(super) url: Option<String>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) request: RequestArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) generator: GeneratorArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Carry out the load spec (JSON) of this file, or of standard input with `-`; phases go to standard error, the
    /// load record to standard output, one JSON document per line. Stands alone
    #[arg(long, value_name = "FILE|-", exclusive = true, help_heading = "Output")]
    pub(super) spec: Option<PathBuf>,
    /// As --spec, and each second is told beside the phases: for `hoptax run`, where somebody watches
    #[arg(long, value_name = "FILE|-", exclusive = true, hide = true)]
    pub(super) watched_spec: Option<PathBuf>,
}

/// When requests are due.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// Connections, over all workers
    #[arg(short, long, default_value = "10", value_parser = values::count32, value_name = "N")]
    pub(super) connections: u32,
    /// How long to measure, e.g. 10s or 500ms [default: 10s; with --requests, until they are done; with stages, theirs]
    #[arg(short, long, value_parser = units::duration, value_name = "TIME")]
    pub(super) duration: Option<Duration>,
    /// Stop after this many requests, e.g. 100000 or 100k
    #[arg(short = 'n', long, value_parser = values::count, value_name = "N")]
    pub(super) requests: Option<u64>,
    /// Open loop: requests due per second, e.g. 1000/s, or stages: '100/s for 10s, ramp to 5000/s over 1m'
    #[arg(short, long, value_parser = units::pace, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// How due times are spread: constant, jitter, jitter(20%) or poisson [default: constant]
    #[arg(long, value_parser = units::arrivals, requires = "rate", value_name = "HOW")]
    pub(super) arrivals: Option<Arrivals>,
    /// Traffic before the measured time, thrown away
    #[arg(long, default_value = "0s", value_parser = units::duration, value_name = "TIME")]
    pub(super) warmup: Duration,
    /// From the moment a request was sent to the end of its response
    #[arg(long, default_value = "10s", value_parser = units::duration, value_name = "TIME")]
    pub(super) timeout: Duration,
    /// From the moment a request was sent to the first byte of its response [default: as --timeout]
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    pub(super) first_byte_timeout: Option<Duration>,
    /// Given to each connect, and then to each TLS handshake [default: as --timeout]
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    pub(super) connect_timeout: Option<Duration>,
}

/// What is requested, and what makes its response a success.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Request")]
pub(super) struct RequestArgs {
    /// Request the targets of this file instead: a list in YAML or JSON as below `target` in a plan; the URL is then
    /// without a path, and -H goes to each that lacks the header
    #[arg(long, value_name = "FILE")]
    pub(super) targets: Option<PathBuf>,
    /// Add a request header; may stand several times, and hold templates
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
    /// Method [default: GET, with a body POST]
    #[arg(short = 'X', long)]
    pub(super) method: Option<String>,
    /// Request body: a text, @FILE for a file's content, or @- for standard input's; may hold templates
    #[arg(short, long, value_name = "TEXT|@FILE|@-")]
    pub(super) body: Option<String>,
    /// Request body of this size, e.g. 64KiB
    #[arg(long, value_parser = units::size, value_name = "SIZE", conflicts_with = "body")]
    pub(super) body_size: Option<u64>,
    /// Send {{ as it stands in path, headers and body
    #[arg(long)]
    pub(super) no_templates: bool,
    /// Statuses that are successes: 200, 2xx, 200-299, with commas between them [default: 200-399]
    #[arg(long, value_parser = values::statuses, value_name = "STATUSES")]
    pub(super) expect_status: Option<Check>,
    /// Only responses with this text in their body are successes; may stand several times
    #[arg(long, value_name = "TEXT")]
    pub(super) expect_body: Vec<String>,
    /// Only responses with just this body are successes: a text, or @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(super) expect_body_equals: Option<String>,
    /// Only responses whose body has this length are successes: 1KiB, or a range such as 1B-64KiB
    #[arg(long, value_parser = values::lengths, value_name = "SIZE[-SIZE]")]
    pub(super) expect_length: Option<Check>,
    /// Only responses with this header, and this value if one is given, are successes; may stand several times
    #[arg(long, value_parser = values::expected_header, value_name = "NAME[: VALUE]")]
    pub(super) expect_header: Vec<Check>,
}

/// Where connections go, and how long they last.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct ConnectionArgs {
    /// Connect there instead of to the URL's host: HOST:PORT; may stand several times, and is taken in turns
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) connect_to: Vec<String>,
    /// Connect to this Unix socket instead of to the URL's host
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "source"])]
    pub(super) unix: Option<PathBuf>,
    /// Local addresses to connect from, in turns: each has about 28,000 ports
    #[arg(long, value_parser = values::address, value_delimiter = ',', value_name = "ADDR,…")]
    pub(super) source: Vec<IpAddr>,
    /// Version of HTTP spoken: 1.1 or 1.0
    #[arg(long, default_value = "1.1", value_parser = values::http_version, value_name = "VERSION")]
    pub(super) http: HttpVersion,
    /// A new connection for each request
    #[arg(long, conflicts_with = "requests_per_connection")]
    pub(super) no_keepalive: bool,
    /// Replace a connection after this many requests
    #[arg(long, value_parser = values::count32, value_name = "N")]
    pub(super) requests_per_connection: Option<u32>,
}

/// TLS; all of it needs an https URL.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS (https URLs)")]
pub(super) struct TlsArgs {
    /// Accept any certificate
    #[arg(short = 'k', long, conflicts_with = "ca")]
    pub(super) insecure: bool,
    /// Accept certificates signed by these authorities (PEM) instead of those that the system trusts
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Show this client certificate (PEM, chain included) to servers that ask
    #[arg(long, value_name = "FILE")]
    pub(super) cert: Option<PathBuf>,
    /// Its private key (PEM) [default: in the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(super) key: Option<PathBuf>,
    /// Name sent as SNI, which the certificate must be for [default: the URL's host]
    #[arg(long, value_name = "NAME")]
    pub(super) server_name: Option<String>,
    /// Protocols offered by ALPN: http/1.1, http/1.0 or none [default: that of --http]
    #[arg(long, value_parser = values::alpn, value_name = "NAME,…")]
    pub(super) alpn: Option<values::Alpn>,
    /// Versions offered: 1.2, 1.3, or both [default: both]
    #[arg(long, value_parser = values::tls_version, value_delimiter = ',', value_name = "VERSION,…")]
    pub(super) tls: Vec<TlsVersion>,
    /// A full handshake for each connection
    #[arg(long)]
    pub(super) no_resumption: bool,
}

/// The generator's own make.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Generator")]
pub(super) struct GeneratorArgs {
    /// Threads [default: one per CPU of --cpus, or 1]
    #[arg(short = 't', long, value_parser = values::count32, value_name = "N")]
    pub(super) workers: Option<u32>,
    /// CPUs to pin the workers to: 0, 0,2 or 2-3; taken to be theirs alone, and kept busy shortly before due times
    #[arg(long, value_name = "CPUS")]
    pub(super) cpus: Option<String>,
    /// Seed of everything random: arrivals, the mix of targets, templates
    #[arg(long, default_value_t = 0, value_parser = values::seed, value_name = "N")]
    pub(super) seed: u64,
}

/// What is shown and kept.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print JSON instead of the summary
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print a time series as CSV instead of the summary: one row per 100 ms
    #[arg(long)]
    pub(super) csv: bool,
    /// Write what --json or --csv asks for to this file, and print the summary
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Also write the percentiles of the response time for HdrHistogram's plotters
    #[arg(long, value_name = "FILE")]
    pub(super) hgrm: Option<PathBuf>,
    /// Also write a result that `fortio report` shows
    #[arg(long, value_name = "FILE")]
    pub(super) fortio: Option<PathBuf>,
    /// No live view while it runs (there is none where output is not a terminal)
    #[arg(long)]
    pub(super) no_live: bool,
}

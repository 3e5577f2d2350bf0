//! The options of `hoptax load`. `to_spec` turns them into a load spec.

use clap::builder::ArgPredicate;
use hoptax_format::llm::{Api, Leave, Pause, TokenLimits};
use hoptax_format::messages::StreamKind;
use hoptax_format::spec::{Arrivals, Check, HttpVersion, ProxyProtocol, Rate, Retry, TlsVersion};
use hoptax_load::names::Use;
use hoptax_plan::{llm, units};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::limits::{self, Limit};
use super::values;
use crate::cli::help;

/// Send load to one URL; print throughput, response times, failures
///
/// Without --rate, each connection sends its next request when the previous response ends (closed loop). With
/// --rate, requests are due at scheduled times, and response times count from these (open loop). Workers that
/// are pinned with --cpus then keep their CPUs busy shortly before each due time.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// URL to request: http://HOST[:PORT][/PATH] or https://…; ws:// or wss:// for WebSockets. The path can
    /// contain templates such as {{seq}}
    #[arg(value_name = "URL", required_unless_present_any = ["spec", "watched_spec"])]
    pub(super) url: Option<String>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) request: RequestArgs,
    #[command(flatten)]
    pub(super) llm: LlmArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) generator: GeneratorArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Run the load spec (JSON) in this file, or on standard input with -. Prints the load record to standard
    /// output, the phases to standard error. Excludes other options
    #[arg(long, value_name = "FILE|-", exclusive = true, help_heading = "Output")]
    pub(super) spec: Option<PathBuf>,
    /// Same as --spec, and also print a JSON document for each second; `hoptax run` uses this for live views
    #[arg(long, value_name = "FILE|-", exclusive = true, hide = true)]
    pub(super) watched_spec: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// Number of connections, divided among the workers
    #[arg(short, long, default_value = "10", value_parser = values::count32, value_name = "N")]
    pub(super) connections: u32,
    /// Measure for this long, such as 10s or 500ms [default: 10s; with --requests: until all are done; with
    /// stages: their total duration]
    #[arg(short, long, value_parser = units::duration, value_name = "TIME")]
    pub(super) duration: Option<Duration>,
    /// Stop after this many requests, such as 100000 or 100k
    #[arg(short = 'n', long, value_parser = values::count, value_name = "N")]
    pub(super) requests: Option<u64>,
    /// Open loop with this rate, such as 1000/s, or with stages, such as '100/s for 10s, ramp to 5000/s over
    /// 1m'
    #[arg(short, long, value_parser = units::pace, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// Spacing of due times: constant, jitter, jitter(20%) or poisson [default: constant]
    #[arg(long, value_parser = units::arrivals, requires = "rate", value_name = "HOW")]
    pub(super) arrivals: Option<Arrivals>,
    /// Send load for this long before measuring
    #[arg(long, default_value = "0s", value_parser = units::duration, value_name = "TIME")]
    pub(super) warmup: Duration,
    /// Time limit from sending a request to the end of its response
    #[arg(long, default_value = "10s", value_parser = units::duration, value_name = "TIME")]
    pub(super) timeout: Duration,
    /// Time limit from sending a request to the first byte of its response [default: same as --timeout]
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    pub(super) first_byte_timeout: Option<Duration>,
    /// Time limit for each connect. The TLS handshake that follows has a separate limit of the same length
    /// [default: same as --timeout]
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    pub(super) connect_timeout: Option<Duration>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Request")]
pub(super) struct RequestArgs {
    /// Request the targets in this file: a YAML or JSON list like `target` in a plan. The URL then has no
    /// path, and -H adds its header to each target that lacks it
    #[arg(long, value_name = "FILE")]
    pub(super) targets: Option<PathBuf>,
    /// Add this header to each request; can be repeated, and can contain templates
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
    /// Request method [default: GET; with a body POST]
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(super) method: Option<String>,
    /// Request body: a text, @FILE for the content of a file, or @- for standard input; can contain
    /// templates. For a WebSocket, its message, without templates
    #[arg(short, long, value_name = "TEXT|@FILE|@-")]
    pub(super) body: Option<String>,
    /// Request body of this size, such as 64KiB
    #[arg(long, value_parser = units::size, value_name = "SIZE", conflicts_with = "body")]
    pub(super) body_size: Option<u64>,
    /// Send the body in chunks (transfer-encoding: chunked)
    #[arg(long)]
    pub(super) chunked: bool,
    /// Data in each chunk, such as 4KiB [default: 16KiB]
    #[arg(long, value_parser = units::size, value_name = "SIZE", requires = "chunked")]
    pub(super) chunk_size: Option<u64>,
    /// Time between two chunks, such as 10ms [default: the whole request is sent at once]
    #[arg(long, value_parser = units::duration, value_name = "TIME", requires = "chunked")]
    pub(super) chunk_pause: Option<Duration>,
    /// Call this gRPC method, such as echo.Echo/Say, over HTTP/2. The body is the encoded message, without
    /// templates, and the URL has no path
    #[arg(long, value_parser = values::call, value_name = "SERVICE/METHOD")]
    pub(super) grpc: Option<String>,
    /// Make the gRPC call as browsers do (gRPC-Web); --http can be 1.1 too
    #[arg(long, requires = "grpc")]
    pub(super) grpc_web: bool,
    /// File that declares the gRPC method; it can import files in its directory and in those above. The body
    /// is then the message as JSON
    #[arg(long, value_name = "FILE", requires = "grpc")]
    pub(super) proto: Option<PathBuf>,
    /// Which side of a gRPC call sends a stream of messages: unary, server-stream, client-stream or both-ways
    /// [default: as in --proto, or unary]
    #[arg(long, value_parser = values::call_kind, value_name = "KIND", requires = "grpc")]
    pub(super) grpc_kind: Option<values::CallKind>,
    /// Read responses as server-sent events, each with its times
    #[arg(long, conflicts_with = "grpc")]
    pub(super) events: bool,
    /// Who sends the messages of a WebSocket (ws:// URL): echo (the client, and the server sends them back),
    /// push or fan-out (the server, to each connection or to all at once) [default: echo]
    #[arg(long, value_parser = values::socket_kind, value_name = "KIND")]
    pub(super) websocket_kind: Option<(StreamKind, bool)>,
    /// Offer to compress the messages of a WebSocket (permessage-deflate)
    #[arg(long)]
    pub(super) websocket_compression: bool,
    /// Number of messages of a gRPC stream, a WebSocket or --events, or endless: until the load ends; not for
    /// gRPC [default: 10; what the server sends by itself: any number]
    #[arg(long, value_parser = values::messages, value_name = "N|endless")]
    pub(super) messages: Option<u32>,
    /// Time between two messages, such as 10ms [default: 0s; both ways then answer by answer]
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    pub(super) every: Option<Duration>,
    /// Compression of the gRPC message: off or gzip; not with streams [default: off]
    #[arg(long, value_parser = values::compression, value_name = "HOW", requires = "grpc")]
    pub(super) grpc_compression: Option<values::Compression>,
    /// Tell the server that a call has this time limit, such as 500ms [default: none]
    #[arg(long, value_parser = units::duration, value_name = "TIME", requires = "grpc")]
    pub(super) deadline: Option<Duration>,
    /// Do not expand templates: send {{ unchanged in path, headers and body
    #[arg(long)]
    pub(super) no_templates: bool,
    /// Count a response as a success only if it has one of these statuses, such as 200,2xx,300-399 [default:
    /// 200-399]
    #[arg(long, value_parser = values::statuses, value_name = "STATUS,…")]
    pub(super) expect_status: Option<Check>,
    /// Count a gRPC call as a success only if its status is one of these, such as ok,not-found [default: ok]
    #[arg(long, value_parser = values::call_statuses, value_name = "STATUS,…", requires = "grpc")]
    pub(super) expect_grpc: Option<Check>,
    /// Count a response as a success only if its body contains this text; can be repeated
    #[arg(long, value_name = "TEXT")]
    pub(super) expect_body: Vec<String>,
    /// Count a response as a success only if its body is exactly this text, or the content of @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(super) expect_body_equals: Option<String>,
    /// Count a response as a success only if its body has this length: 1KiB, or a range such as 1B-64KiB
    #[arg(long, value_parser = values::lengths, value_name = "SIZE[-SIZE]")]
    pub(super) expect_length: Option<Check>,
    /// Count a response as a success only if it has this header, with this value if a value is given; can be
    /// repeated
    #[arg(long, value_parser = values::expected_header, value_name = "NAME[: VALUE]")]
    pub(super) expect_header: Vec<Check>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Language models")]
pub(super) struct LlmArgs {
    /// Send requests to a language model with this API: openai, responses or anthropic. The URL can leave the
    /// path out; --body is the prompt
    #[arg(long, value_parser = llm::api, value_name = "API")]
    #[arg(conflicts_with_all = ["grpc", "events", "targets"])]
    pub(super) llm: Option<Api>,
    /// Name of the model [default: gpt-4o-mini]
    #[arg(long, value_parser = llm::model, value_name = "NAME", requires = "llm")]
    pub(super) llm_model: Option<String>,
    /// Length of the prompt [default: 1KiB]
    #[arg(long, value_parser = llm::prompt, value_name = "SIZE", requires = "llm")]
    #[arg(conflicts_with_all = ["body", "body_size"])]
    pub(super) llm_prompt: Option<u64>,
    /// Maximum number of tokens of a response [default: none; anthropic: 1024]
    #[arg(long, value_parser = values::count32, value_name = "N", requires = "llm")]
    pub(super) llm_max_tokens: Option<u32>,
    /// Number of tools that requests offer [default: 0]
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=1000), value_name = "N", requires = "llm")]
    pub(super) llm_tools: Option<u32>,
    /// Require a call of one of these tools
    #[arg(long, requires = "llm_tools")]
    pub(super) llm_tool_call: bool,
    /// Request whole responses instead of streams of tokens
    #[arg(long, requires = "llm")]
    pub(super) llm_no_stream: bool,
    /// Begin each prompt differently, so that no cache knows it
    #[arg(long, requires = "llm")]
    pub(super) llm_unique: bool,
    /// Leave before the end of each response: this time after the request, or after tokens, such as 200ms or
    /// '5 tokens' [default: never]
    #[arg(long, value_parser = llm::leave, value_name = "AFTER", requires = "llm")]
    #[arg(conflicts_with = "llm_no_stream")]
    pub(super) llm_leave: Option<Leave>,
    /// Stop reading each response after this many tokens, for this time, such as '5 tokens,2s' [default:
    /// never]
    #[arg(long, value_parser = llm::pause, value_name = "TOKENS,TIME", requires = "llm")]
    #[arg(conflicts_with_all = ["llm_no_stream", "llm_leave"])]
    pub(super) llm_pause: Option<Pause>,
    /// Count the requests that exceed none of these limits, such as
    /// first_content=300ms,token_time=50ms,response_time=5s
    #[arg(long, value_parser = llm::goodput, value_name = "LIMIT=TIME,…", requires = "llm")]
    #[arg(conflicts_with_all = ["llm_no_stream", "llm_leave"])]
    pub(super) goodput: Option<TokenLimits>,
    /// API key to send [default: hoptax]
    #[arg(long, value_name = "KEY", requires = "llm")]
    pub(super) llm_key: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct ConnectionArgs {
    /// Connect to this address instead of the URL's host; if repeated, the addresses are used in turn
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) connect_to: Vec<String>,
    /// Which addresses of a name to connect to: `all` that accept connections, in turn, or only the `first`
    /// of them
    #[arg(long, default_value = "all", value_parser = values::resolve, value_name = "WHICH")]
    pub(super) resolve: Use,
    /// Connect to this Unix socket instead of the URL's host
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "source"])]
    pub(super) unix: Option<PathBuf>,
    /// Send the requests to this forward proxy, http[s]://[USER:PASSWORD@]HOST:PORT: with their whole URL, or
    /// through CONNECT tunnels if the URL is https
    #[arg(short = 'x', long, value_name = "URL", conflicts_with_all = ["unix", "connect_to"])]
    pub(super) proxy: Option<String>,
    /// Also use CONNECT tunnels for http URLs
    #[arg(long, requires = "proxy")]
    pub(super) proxy_tunnel: bool,
    /// Connect from these local addresses in turn; each address has about 28,000 ports
    #[arg(long, value_parser = values::address, value_delimiter = ',', value_name = "ADDRESS,…")]
    pub(super) source: Vec<IpAddr>,
    /// Begin each connection with a header of the PROXY protocol, before TLS: v1 (text) or v2 (binary)
    #[arg(long, value_parser = values::proxy_protocol, value_name = "VERSION")]
    pub(super) proxy_protocol: Option<ProxyProtocol>,
    /// HTTP version: 1.1, 1.0 or 2; --grpc uses 2
    #[arg(long, default_value = "1.1", value_parser = values::http_version, value_name = "VERSION")]
    #[arg(default_value_if("grpc", ArgPredicate::IsPresent, "2"))]
    pub(super) http: HttpVersion,
    /// Send up to this many requests at a time on each connection; more than 1 needs --http 2
    #[arg(long, default_value = "1", value_parser = values::streams, value_name = "N")]
    pub(super) streams: u32,
    /// Open a new connection for each request
    #[arg(long, conflicts_with = "requests_per_connection")]
    pub(super) no_keepalive: bool,
    /// Replace a connection after this many requests
    #[arg(long, value_parser = values::count32, value_name = "N")]
    pub(super) requests_per_connection: Option<u32>,
    /// Send a request again, once and on a new connection, if the server closes its reused connection before
    /// the response: off or idle-close; only GET, HEAD, OPTIONS, PUT, DELETE and TRACE
    #[arg(long, default_value = "off", value_parser = values::retry, value_name = "WHEN")]
    pub(super) retry: Retry,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS (https URLs and proxies)")]
pub(super) struct TlsArgs {
    /// Accept any server certificate
    #[arg(short = 'k', long, conflicts_with = "ca")]
    pub(super) insecure: bool,
    /// Trust the certificate authorities in this file (PEM) instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Client certificate (PEM, with its chain) for servers that request one
    #[arg(long, value_name = "FILE")]
    pub(super) cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM) [default: in the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(super) key: Option<PathBuf>,
    /// Server name to send (SNI) and to verify the certificate against [default: the URL's host]
    #[arg(long, value_name = "NAME")]
    pub(super) server_name: Option<String>,
    /// Protocols to offer by ALPN: http/1.1, http/1.0, h2 or none [default: http/1.1; none with --http 1.0;
    /// h2 with --http 2]
    #[arg(long, value_parser = values::alpn, value_name = "NAME,…")]
    pub(super) alpn: Option<values::Alpn>,
    /// TLS versions to offer: 1.2, 1.3 or 1.2,1.3 [default: both]
    #[arg(long, value_parser = values::tls_version, value_delimiter = ',', value_name = "VERSION,…")]
    pub(super) tls: Vec<TlsVersion>,
    /// Make a full TLS handshake for each connection, without session resumption
    #[arg(long)]
    pub(super) no_resumption: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Generator")]
pub(super) struct GeneratorArgs {
    /// Worker threads [default: one per CPU of --cpus, or 1]
    #[arg(short = 't', long, value_parser = values::count32, value_name = "N")]
    pub(super) workers: Option<u32>,
    #[arg(long, value_name = "CPUS", help = help::CPUS)]
    pub(super) cpus: Option<String>,
    /// Seed of random arrivals, choice of targets, and templates
    #[arg(long, default_value_t = 0, value_parser = values::seed, value_name = "N")]
    pub(super) seed: u64,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits (exit code 3 if one is exceeded)")]
pub(super) struct LimitArgs {
    /// Maximum share of requests that fail or are not successes [default: 50%; with --expect-…: 0%]
    #[arg(long, value_parser = units::share, value_name = "SHARE")]
    pub(super) fail_above: Option<f64>,
    /// Maximum of a statistic of the response times, such as p99=20ms, mean=5ms or max=1s, or of the times to
    /// the first content, such as first_content_p99=300ms; can be repeated
    #[arg(long, value_parser = limits::maximum, value_name = "METRIC=TIME")]
    pub(super) max: Vec<Limit>,
    /// Minimum throughput, such as throughput=1000/s
    #[arg(long, value_parser = limits::minimum, value_name = "METRIC=RATE")]
    pub(super) min: Vec<Limit>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    #[arg(long, conflicts_with = "csv", help = help::JSON)]
    pub(super) json: bool,
    /// Print a time series as CSV instead of text, one row per 100 ms
    #[arg(long)]
    pub(super) csv: bool,
    /// Write the output of --json or --csv to this file, and print the text summary
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Also write the percentiles of the response time to this file, in the format of HdrHistogram's plotters
    #[arg(long, value_name = "FILE")]
    pub(super) hgrm: Option<PathBuf>,
    /// Also write the result to this file, in the format of `fortio report`
    #[arg(long, value_name = "FILE")]
    pub(super) fortio: Option<PathBuf>,
    #[arg(long, help = help::NO_LIVE)]
    pub(super) no_live: bool,
}

//! `hoptax upstream`.

mod llm;
mod websocket;

use super::exit::{BadInput, Exit};
use super::help;
use hoptax_format::field::{is_field_value, is_token};
use hoptax_format::grpc::{self, Status};
use hoptax_format::messages::StreamSpec;
use hoptax_host::threads::{StopSignals, check_cpus};
use hoptax_plan::calls::{self, MOST_MESSAGES, USUAL_MESSAGES};
use hoptax_plan::{
    Answer, Body, BodyKind, BuiltInUpstream, Delay, Listen, PathStream, UpstreamEvents, event_streams, units,
};
use hoptax_servers::upstream::{IDENTITY, Placement, RunningUpstream, TOKEN_SECRET};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Run the built-in upstream until SIGTERM or Ctrl-C
///
/// When it is ready, it prints one line of JSON: the addresses of its instances and of its control socket.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of instances, each with its own port and thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    instances: u32,
    /// Status of each response
    #[arg(long, value_name = "STATUS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// Add this header to each response; can be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Body of this size in each response, such as 0B, 64KiB or 1MB [default: 1KiB]
    #[arg(long = "body-size", alias = "body", value_name = "SIZE", value_parser = units::size, group = "content")]
    body: Option<u64>,
    /// Fill the body with content that compresses like real text or json [default: a fixed pattern]
    #[arg(long, value_name = "KIND", value_parser = BodyKind::parse, conflicts_with_all = ["body_text", "body_file"])]
    body_kind: Option<BodyKind>,
    /// This text as the body of each response
    #[arg(long, value_name = "TEXT", group = "content")]
    body_text: Option<String>,
    /// Content of this file, read once, as the body of each response
    #[arg(long, value_name = "FILE", group = "content")]
    body_file: Option<PathBuf>,
    /// Delay each response by this time, such as 2ms, "uniform(1ms, 5ms)", "exponential(2ms)" or "choice(99%
    /// 0ms, 1% 50ms)"
    #[arg(long, value_name = "DELAY", default_value = "0ms", value_parser = units::delay)]
    delay: Delay,
    /// Share of requests to answer with status 500, at random, such as 0.01 or 1%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = units::share)]
    failures: f64,
    /// Close each connection after this number of requests, with GOAWAY on HTTP/2 [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    close_after: Option<u64>,
    /// Answer of one path, as in a plan's `upstream.answers`: '{ path: "/users/*", status: 404, body: 20B }';
    /// can be repeated
    #[arg(long = "answer", value_name = "ANSWER", value_parser = hoptax_plan::parse_answer)]
    answers: Vec<Answer>,
    /// Streams of one gRPC method: server-stream, client-stream or both-ways; the number of messages; the
    /// time between them, as in /echo.Echo/Watch=server-stream,10,20ms; can be repeated
    #[arg(long = "grpc-stream", value_name = "PATH=KIND[,MESSAGES[,EVERY]]", value_parser = grpc_stream)]
    streams: Vec<PathStream>,
    /// gRPC status of calls without an --answer, such as not-found [default: ok]
    #[arg(long, value_name = "STATUS", value_parser = grpc_status)]
    grpc_status: Option<Status>,
    /// Server-sent events for requests that accept text/event-stream: the number of events, or endless; the
    /// time between two writes; the data of an event, as in 20,100ms,64B
    #[arg(long, value_name = "COUNT[,GAP[,BYTES]]", value_parser = events)]
    events: Option<UpstreamEvents>,
    /// Time from the head of the response until the first event [default: 0s]
    #[arg(long, value_name = "TIME", requires = "events", value_parser = units::duration)]
    events_first: Option<Duration>,
    /// Number of events that are sent in one write [default: 1]
    #[arg(long, value_name = "N", requires = "events")]
    events_per_write: Option<u32>,
    /// Number of writes that each event is sent in [default: 1]
    #[arg(long, value_name = "N", requires = "events")]
    events_split: Option<u32>,
    /// Send a comment whenever nothing was sent for this time [default: never]
    #[arg(long, value_name = "TIME", requires = "events", value_parser = units::duration)]
    events_heartbeat: Option<Duration>,
    /// Messages that the upstream pushes on a WebSocket's path: push, or fan-out to all connections at the
    /// same time; their number, or endless; the time between them, as in /feed=fan-out,endless,100ms; can be
    /// repeated. WebSockets on other paths get their messages back
    #[arg(long = "websocket", value_name = "PATH=KIND[,MESSAGES[,EVERY]]", value_parser = websocket::pushed)]
    websockets: Vec<PathStream>,
    /// Compress the messages of WebSockets if the client offers it
    #[arg(long)]
    websocket_compression: bool,
    #[command(flatten)]
    llm: llm::LlmArgs,
    /// Port of the first instance; the other instances use the next ports [default: free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Address to listen on; the control socket is always on loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: std::net::IpAddr,
    /// Listen on this Unix socket instead of a port; further instances use PATH.2, PATH.3 and so on, and TLS
    /// adds .tls
    #[arg(long, value_name = "PATH", conflicts_with_all = ["port", "also"])]
    unix: Option<PathBuf>,
    /// More ports for the first instance to listen on, such as 8080 or 8080,8081
    #[arg(long, value_name = "PORT,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    also: Vec<u16>,
    /// Address of the control socket, for an upstream in a network namespace of its own
    #[arg(long, value_name = "ADDRESS", hide = true)]
    control_address: Option<std::net::IpAddr>,
    /// Port of the control socket [default: a free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    control_port: Option<u16>,
    #[arg(long, value_name = "CPUS", help = help::CPUS)]
    cpus: Option<String>,
    /// Seed of random delays and failures
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Add a header to each response with the times of the request and the response
    #[arg(long)]
    stamps: bool,
    /// Also serve TLS, on a second port of each instance. HOPTAX_UPSTREAM_IDENTITY must contain the
    /// certificate and its key (PEM)
    #[arg(long)]
    tls: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let cpus = cpus(self.cpus.as_deref())?;
        refuse_twice("--grpc-stream", &self.streams)?;
        refuse_twice("--websocket", &self.websockets)?;
        let events = self.server_events()?;
        let llm = self.llm.model()?;
        let settings = BuiltInUpstream {
            instances: self.instances,
            status: self.status,
            headers: self.headers,
            body: match (self.body.unwrap_or(1024), self.body_kind, self.body_text, self.body_file) {
                (_, _, Some(text), _) => Body::Text(text),
                (_, _, _, Some(file)) => Body::File(file),
                (size, Some(kind), None, None) => Body::Like { kind, size },
                (size, None, None, None) => Body::Size(size),
            },
            delay: self.delay,
            failures: self.failures,
            port: self.port,
            listen: Listen::Ports,
            answers: self.answers,
            streams: [self.streams, self.websockets].concat(),
            events,
            llm,
            websocket_compression: self.websocket_compression,
            grpc_status: self.grpc_status,
        };
        let placement = Placement {
            control_address: self.control_address,
            control_port: self.control_port,
            cpus,
            seed: self.seed,
            address: Some(self.address),
            unix: self.unix,
            also: self.also,
            stamps: self.stamps,
            close_after: self.close_after,
            identity: if self.tls { Some(identity()?) } else { None },
            token_secret: std::env::var(TOKEN_SECRET).ok(),
        };
        let signals = StopSignals::catch()?;
        let upstream = RunningUpstream::start(&settings, &placement)?;
        print_ready(upstream.ready())?;
        upstream.threads().wait(signals)?;
        Ok(Exit::Success)
    }

    /// The server-sent events, with all their settings.
    fn server_events(&self) -> Result<Option<UpstreamEvents>, BadInput> {
        let Some(events) = &self.events else { return Ok(None) };
        let events = UpstreamEvents {
            first: self.events_first.unwrap_or(events.first),
            per_write: self.events_per_write.unwrap_or(events.per_write),
            split: self.events_split.unwrap_or(events.split),
            heartbeat: self.events_heartbeat.or(events.heartbeat),
            ..events.clone()
        };
        event_streams::check(&events).map_err(|error| BadInput(format!("--events: {error}")))?;
        Ok(Some(events))
    }
}

/// Reads the certificate and key for TLS from the environment. They are not passed as arguments, because
/// every user of the machine can read the arguments of a process.
fn identity() -> anyhow::Result<String> {
    std::env::var(IDENTITY).map_err(|_| {
        let help = "set it to a certificate and its key (PEM), or leave out --tls";
        BadInput(format!("--tls: the environment variable {IDENTITY} is not set; {help}")).into()
    })
}

/// Prints one line of JSON. The parent process waits for this line.
pub(super) fn print_ready(ready: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(ready)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

/// The CPUs of `--cpus`.
///
/// # Errors
/// [`BadInput`] if `--cpus` names a CPU that this process may not use.
pub(super) fn cpus(typed: Option<&str>) -> anyhow::Result<Vec<u32>> {
    let Some(typed) = typed else { return Ok(Vec::new()) };
    let cpus = units::cpu_list(typed).map_err(|error| BadInput(format!("--cpus: {error}")))?;
    check_cpus(&cpus).map_err(|error| BadInput(format!("--cpus: {error:#}")))?;
    Ok(cpus)
}

/// Reads the streams of a gRPC method: `PATH=KIND,MESSAGES,EVERY`.
fn grpc_stream(typed: &str) -> Result<PathStream, String> {
    const FORM: &str = "write /SERVICE/METHOD=KIND, such as /echo.Echo/Watch=server-stream,10,20ms";
    let (path, rest) = typed.split_once('=').ok_or(FORM)?;
    let (service, method) = grpc::split(path).ok_or(FORM)?;
    let mut parts = rest.split(',').map(str::trim);
    let kind = calls::kind(parts.next().unwrap_or_default()).map_err(|error| error.to_string())?;
    let kind = kind.ok_or("calls are unary by default; leave this option out")?;
    let messages = match parts.next() {
        None => USUAL_MESSAGES,
        Some(text) => {
            let count = text.parse::<u32>().ok().filter(|count| (1..=MOST_MESSAGES).contains(count));
            count.ok_or_else(|| format!("`{text}` is not a number of messages; use 1 to {MOST_MESSAGES}"))?
        }
    };
    let every = parts.next().map_or(Ok(Duration::ZERO), units::duration);
    let every = every.map_err(|error| error.to_string())?;
    if parts.next().is_some() {
        return Err(FORM.to_owned());
    }
    let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
    let stream = StreamSpec::grpc(kind, messages, every_ns);
    Ok(PathStream { path: grpc::path(service, method), stream })
}

/// Reads server-sent events: `COUNT,GAP,BYTES`. Other options have the rest.
fn events(typed: &str) -> Result<UpstreamEvents, String> {
    const FORM: &str = "write COUNT,GAP,BYTES, such as 20,100ms,64B";
    let mut parts = typed.split(',').map(str::trim);
    let count = event_streams::count(parts.next().unwrap_or_default()).map_err(|error| error.to_string())?;
    let gap = parts.next().map_or(Ok(Duration::ZERO), units::duration).map_err(|error| error.to_string())?;
    let usual = u64::from(UpstreamEvents::USUAL_BYTES);
    let bytes = parts.next().map_or(Ok(usual), units::size).map_err(|error| error.to_string())?;
    if parts.next().is_some() {
        return Err(FORM.to_owned());
    }
    let events = UpstreamEvents {
        count,
        gap,
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        first: Duration::ZERO,
        per_write: 1,
        split: 1,
        heartbeat: None,
    };
    event_streams::check(&events).map_err(|error| error.to_string())?;
    Ok(events)
}

/// Refuses two kinds of streams of one path.
fn refuse_twice(option: &str, streams: &[PathStream]) -> Result<(), BadInput> {
    let mut paths: Vec<&str> = streams.iter().map(|stream| stream.path.as_str()).collect();
    paths.sort_unstable();
    match paths.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(BadInput(format!("{option} names {} twice; leave one out", pair[0]))),
        None => Ok(()),
    }
}

fn grpc_status(typed: &str) -> Result<Status, String> {
    let known = || format!("`{typed}` is not a gRPC status; use a name such as not-found");
    Status::from_name(typed).ok_or_else(known)
}

fn header(typed: &str) -> Result<(String, String), String> {
    let (name, value) = typed.split_once(':').ok_or("a header is written as \"name: value\"")?;
    let value = value.trim();
    if !is_token(name) {
        return Err(format!("`{name}` is not a valid header name; use letters, digits and hyphens"));
    }
    if !is_field_value(value) {
        return Err("the value contains a control character; remove it".to_owned());
    }
    let own = ["connection", "content-length", "transfer-encoding"];
    if own.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(format!("hoptax itself sets `{name}`; leave it out"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::messages::{ENDLESS, StreamKind};

    #[derive(Debug, clap::Parser)]
    struct Upstream {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn server_sent_events_are_read() {
        use clap::Parser as _;
        let read = |typed: &str| {
            let words = std::iter::once("upstream").chain(typed.split_whitespace());
            let read = Upstream::try_parse_from(words).map_err(|error| error.to_string())?;
            read.args.server_events().map_err(|BadInput(error)| error)
        };
        let usual = UpstreamEvents {
            count: 20,
            gap: Duration::ZERO,
            bytes: 64,
            first: Duration::ZERO,
            per_write: 1,
            split: 1,
            heartbeat: None,
        };
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("--events 20"), Ok(Some(usual.clone())));
        let paced = UpstreamEvents { gap: Duration::from_millis(100), ..usual.clone() };
        let endless = UpstreamEvents { count: ENDLESS, bytes: 1024, per_write: 3, ..paced.clone() };
        assert_eq!(read("--events endless,100ms,1KiB --events-per-write 3"), Ok(Some(endless)));
        let (first, heartbeat) = (Duration::from_secs(1), Some(Duration::from_secs(15)));
        let typed = "--events 20,100ms --events-first 1s --events-split 2 --events-heartbeat 15s";
        assert_eq!(read(typed), Ok(Some(UpstreamEvents { first, split: 2, heartbeat, ..paced })));
        let told = [
            "--events 0",
            "--events many",
            "--events endless",
            "--events 1,20",
            "--events 1,20ms,34B",
            "--events 1,20ms,64",
            "--events 1,20ms,64B,1",
            "--events 1 --events-per-write 0",
            "--events 1 --events-split 0",
            "--events 1 --events-split 2 --events-per-write 2",
            "--events 1 --events-heartbeat 0s",
            "--events-first 1s",
        ]
        .map(|typed| format!("{typed}\n=> {}\n", read(typed).expect_err("wrong").trim_end()))
        .concat();
        insta::assert_snapshot!(told);
    }

    #[test]
    fn streams_of_methods_are_read() {
        for (typed, kind, messages, every_ns) in [
            ("/echo.Echo/Watch=server-stream,7,20ms", StreamKind::ServerStream, 7, 20_000_000),
            ("echo.Echo/Watch=both-ways,1", StreamKind::BothWays, 1, 0),
            ("/echo.Echo/Watch=client-stream", StreamKind::ClientStream, USUAL_MESSAGES, 0),
        ] {
            let stream = StreamSpec::grpc(kind, messages, every_ns);
            assert_eq!(grpc_stream(typed), Ok(PathStream { path: "/echo.Echo/Watch".into(), stream }));
        }
        let told = [
            "/echo.Echo/Watch",
            "/Watch=both-ways",
            "/a.B/C=unary",
            "/a.B/C=bidi",
            "/a.B/C=both-ways,0",
            "/a.B/C=both-ways,1,20",
            "/a.B/C=both-ways,1,20ms,3",
        ]
        .map(|typed| format!("{typed}\n=> {}\n", grpc_stream(typed).expect_err("wrong")))
        .concat();
        insta::assert_snapshot!(told);
        let [one, same, other] = ["a.B/C=both-ways", "/a.B/C=server-stream", "a.B/D=both-ways"]
            .map(|typed| grpc_stream(typed).expect("right"));
        assert!(refuse_twice("--grpc-stream", &[one.clone(), other]).is_ok());
        let BadInput(error) = refuse_twice("--grpc-stream", &[one, same]).expect_err("twice");
        insta::assert_snapshot!(error);
        assert_eq!(grpc_status("not-found"), Ok(Status::NotFound));
        assert!(grpc_status("5").is_err());
    }
}

//! The built-in upstream and hops. They are this binary, started with another subcommand.

use super::driver::{ProcessDriver, Wait, failed_to_start};
use super::service::{Started, by_kind, how};
use crate::features::Change;
use crate::login::Login;
use crate::{Facts, Service};
use hoptax_format::Address;
use hoptax_format::messages::Carrier;
use hoptax_format::spec::HttpVersion;
use hoptax_host::guarded::{Guarded, Launch};
use hoptax_host::namespace::{DIRECT_PORT, Namespace};
use hoptax_host::ports::Ports;
use hoptax_plan::calls::kind_name;
use hoptax_plan::event_streams::show_count;
use hoptax_plan::units::{self, show_duration};
use hoptax_plan::{
    Body, BuiltInUpstream, Feature, HopDeadline, HopDeflate, HopDelay, HopFaults, Listen, PathSplit,
    PathStream, ProxyForm, UpstreamEvents, UpstreamLlm, llm,
};
use hoptax_record::{Failure, Setting};
use hoptax_servers::hop::HopReady;
use hoptax_servers::upstream::{IDENTITY, TOKEN_SECRET, UpstreamReady};
use serde::de::DeserializeOwned;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::Duration;

/// Time limit for the ready line. The line usually appears within milliseconds; the limit is for busy
/// machines.
const READY_BOUND: Duration = Duration::from_secs(60);

/// Grace period. It is short because the built-in services have nothing to finish.
const GRACE: Duration = Duration::from_secs(2);

/// A subcommand of this binary to start.
struct Verb<'a> {
    /// Name of the service.
    name: &'a str,
    arguments: Vec<OsString>,
    environment: BTreeMap<String, String>,
    cpus: &'a [u32],
    namespace: Option<&'a Namespace>,
    /// Directory that the guard removes when the service has ended.
    remove: Option<PathBuf>,
}

/// A built-in hop to start.
pub(super) struct Hop<'a> {
    /// Its kind, as for `hoptax hop`.
    pub(super) kind: &'static str,
    /// HTTP version for upstreams; `None` if it cannot be chosen.
    pub(super) upstream: Option<HttpVersion>,
    pub(super) delay: Option<&'a HopDelay>,
    /// How requests ask the hop, if it is a forward proxy.
    pub(super) proxy: Option<ProxyForm>,
}

impl ProcessDriver {
    pub(super) fn start_built_in(&mut self, upstream: &BuiltInUpstream) -> Result<Box<dyn Service>, Failure> {
        let mut arguments = upstream_arguments(upstream);
        let namespace = self.namespace();
        let socket = self.upstream_socket(upstream);
        match (namespace, &socket) {
            (Some(namespace), _) => arguments.extend(self.in_namespace(namespace)),
            (None, Some(path)) => arguments.extend(["--unix".into(), path.into()]),
            (None, None) => {
                self.check_address()?;
                arguments.extend(["--address".into(), self.address.to_string().into()]);
            }
        }
        if let Some(seed) = self.seed {
            arguments.extend(["--seed".into(), seed.to_string().into()]);
        }
        if self.path_split == PathSplit::On {
            arguments.push("--stamps".into());
        }
        let mut secrets = BTreeMap::new();
        if self.features.contains(&Feature::UpstreamTls) {
            let server = &self.credentials.server;
            arguments.push("--tls".into());
            secrets.insert(IDENTITY.to_owned(), server.certificate.clone() + &server.key);
        }
        if self.features.iter().any(|feature| matches!(feature, Feature::TokenReview { .. })) {
            secrets.insert(TOKEN_SECRET.to_owned(), self.credentials.jwt_secret.clone());
        }
        let ours = socket.is_some_and(|path| path.starts_with(&self.upstream_directory));
        if ours {
            make_open_to_all(&self.upstream_directory).map_err(|error| {
                let directory = self.upstream_directory.display();
                let message = format!("cannot create {directory} for the upstream's socket: {error}");
                failed_to_start(message, &self.log_directory("upstream"))
            })?;
        }
        let verb = Verb {
            name: "upstream",
            arguments,
            environment: secrets,
            cpus: &self.cpus.upstream,
            namespace,
            remove: ours.then(|| self.upstream_directory.clone()),
        };
        let (ready, mut started) = self.start_verb::<UpstreamReady>(verb)?;
        self.tls_upstreams = ready.tls_instances;
        (started.addresses, started.sockets) = by_kind(ready.instances);
        started.control = Some(ready.control);
        Ok(Box::new(started))
    }

    /// Path of the Unix socket of the upstream's first instance; `None` if it listens on ports.
    pub(super) fn upstream_socket(&self, upstream: &BuiltInUpstream) -> Option<PathBuf> {
        match &upstream.listen {
            Listen::Ports => None,
            Listen::Unix(Some(path)) => Some(path.clone()),
            Listen::Unix(None) => Some(self.upstream_directory.join("upstream.sock")),
        }
    }

    /// Arguments for an upstream in a namespace. The upstream listens on the ports that sidecars intercept,
    /// and on one port that is not intercepted. The port that is not intercepted is the upstream's own
    /// address.
    fn in_namespace(&self, namespace: &Namespace) -> Vec<OsString> {
        let applications = self.interceptions.values().map(|one| one.application.to_string());
        let applications: Vec<_> = applications.collect();
        let mut arguments = Vec::new();
        let mut give = |name: &str, value: String| arguments.extend([OsString::from(name), value.into()]);
        give("--address", namespace.address().to_string());
        give("--control-address", namespace.address().to_string());
        give("--port", DIRECT_PORT.to_string());
        give("--also", applications.join(","));
        arguments
    }

    pub(super) fn start_hop(
        &self,
        label: &str,
        Hop { kind, upstream, delay, proxy }: Hop<'_>,
        upstreams: &[Address],
        wait: Wait,
    ) -> Result<Box<dyn Service>, Failure> {
        self.check_address()?;
        // A caller that waits by itself must know the port before the hop reports it.
        let listen = match wait {
            Wait::UntilReady => SocketAddr::new(self.address, 0),
            Wait::Caller => free_address(self.address).map_err(|error| {
                failed_to_start(
                    format!("cannot reserve a port for {label}: {error}"),
                    &self.log_directory(label),
                )
            })?,
        };
        let mut arguments: Vec<OsString> = ["hop", kind, "--listen"].map(OsString::from).to_vec();
        arguments.push(listen.to_string().into());
        for upstream in upstreams {
            arguments.extend(["--upstream".into(), upstream.to_string().into()]);
        }
        let version = upstream.map(|version| if version == HttpVersion::Http2 { "2" } else { "1.1" });
        if let Some(version) = version {
            arguments.extend(["--upstream-http".into(), version.into()]);
        }
        let asked = proxy.and_then(|form| Some((form, self.upstream_behind_proxy(upstreams)?)));
        if let Some((_, (host, port))) = &asked {
            arguments.extend(["--forward-proxy".into(), units::authority(host, *port).into()]);
        }
        arguments.extend(delay.into_iter().flat_map(|delay| self.delay_arguments(delay)));
        let verb = Verb {
            name: label,
            arguments,
            environment: BTreeMap::new(),
            cpus: &self.cpus.gateway,
            namespace: None,
            remove: None,
        };
        let mut started = match wait {
            Wait::Caller => {
                let (mut launched, stdout) = self.launch_verb(verb)?;
                (launched.addresses, launched._stdout) = (vec![listen], Some(stdout));
                launched
            }
            Wait::UntilReady => {
                let (ready, mut started) = self.start_verb::<HopReady>(verb)?;
                started.addresses = vec![ready.listen];
                started
            }
        };
        // Hops forward requests unchanged, so a TLS connection must end at the upstream. TLS works only
        // through `hop-l4`, because `hop-l4` does not parse the requests.
        started.facts.change = Change::for_login(&self.upstream_login, &self.credentials);
        if let Some((form, (host, port))) = &asked {
            started.facts.change.ask_proxy(*form, &Login::default(), (host, *port), &self.upstream_login);
        }
        started.facts.workers = Some(1);
        let spoken = |version: &str| Setting {
            setting: format!("--upstream-http {version}"),
            reason: "HTTP version for upstreams; the default is 2".to_owned(),
        };
        started.facts.settings = version.map(spoken).into_iter().chain(delay.map(planted)).collect();
        Ok(Box::new(started))
    }

    fn delay_arguments(&self, delay: &HopDelay) -> Vec<OsString> {
        let mut arguments = vec![
            "--delay-in".to_owned(),
            show_duration(delay.inbound),
            "--delay-out".to_owned(),
            show_duration(delay.outbound),
            "--delay-share".to_owned(),
            delay.share.to_string(),
            "--delay-how".to_owned(),
            delay.how.to_string(),
        ];
        if let Some(warming) = delay.warming {
            arguments.extend([
                "--warming-requests".to_owned(),
                warming.requests.to_string(),
                "--warming-extra".to_owned(),
                show_duration(warming.extra),
                "--warming-fall".to_owned(),
                warming.fall.to_string(),
            ]);
        }
        if !delay.message.is_zero() {
            arguments.extend(["--delay-message".to_owned(), show_duration(delay.message)]);
        }
        if let Some(faults) = delay.faults {
            arguments.extend(fault_arguments(&faults));
        }
        if let Some(seed) = self.seed {
            arguments.extend(["--seed".to_owned(), seed.to_string()]);
        }
        arguments.into_iter().map(OsString::from).collect()
    }

    /// Starts a subcommand of this binary under a guard and waits for its ready line.
    fn start_verb<R: DeserializeOwned + Send + 'static>(
        &self,
        verb: Verb<'_>,
    ) -> Result<(R, Started), Failure> {
        let name = verb.name;
        let (mut started, stdout) = self.launch_verb(verb)?;
        match ready_line(stdout) {
            Ok((ready, stdout)) => {
                started._stdout = Some(stdout);
                Ok((ready, started))
            }
            Err(met) => {
                let guarded = &mut started.guarded;
                let ended = guarded.ended().map(how);
                guarded.stop();
                // The end of the output means that the process has exited. Its guard may still be running.
                let ended = ended.or_else(|| guarded.ended().filter(|status| !status.success()).map(how));
                let what = ended.map_or(met, |how| format!("{how} before it was ready"));
                Err(failed_to_start(format!("{name} {what}"), &started.log_directory))
            }
        }
    }

    /// Starts a subcommand of this binary under a guard. Its addresses are not known yet. Also returns its
    /// standard output, which must stay open.
    fn launch_verb(&self, verb: Verb<'_>) -> Result<(Started, ChildStdout), Failure> {
        let Verb { name, arguments, environment, cpus, namespace, remove } = verb;
        let log_directory = self.log_directory(name);
        let launch = Launch {
            program: self.exe.clone().into(),
            arguments,
            environment,
            cpus: cpus.to_vec(),
            grace: GRACE,
            remove,
            started: Some(self.started_file(name)),
            stderr: log_directory.join("stderr.log"),
            ..Launch::default()
        };
        let launch = match namespace {
            Some(namespace) => namespace.enter(launch),
            None => launch,
        };
        let mut guarded = Guarded::start(&self.exe, &launch)
            .map_err(|error| failed_to_start(format!("{name} cannot be started: {error}"), &log_directory))?;
        let stdout = guarded.take_stdout().expect("its output is a pipe");
        let started = Started {
            name: name.to_owned(),
            addresses: Vec::new(),
            sockets: Vec::new(),
            facts: Facts { version: Some(env!("CARGO_PKG_VERSION").into()), ..Facts::default() },
            started: launch.started,
            container: None,
            contained: OnceCell::new(),
            guarded,
            log_directory,
            control: None,
            secrets: None,
            counters: None,
            tools: None,
            _stdout: None,
        };
        Ok((started, stdout))
    }
}

/// Creates a directory, and its parent. Every user may enter both, but not list their content.
fn make_open_to_all(directory: &Path) -> std::io::Result<()> {
    for directory in directory.parent().into_iter().chain([directory]) {
        match std::fs::create_dir(directory) {
            // An upstream that is started again finds the directory of the first one.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        // Independent of the umask. This fails for a directory of another user.
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o711))?;
    }
    Ok(())
}

/// A free port at `address`, released for the hop.
fn free_address(address: IpAddr) -> std::io::Result<SocketAddr> {
    Ok(SocketAddr::new(address, Ports::take_at(address, 1)?.numbers()?[0]))
}

fn fault_arguments(faults: &HopFaults) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut give = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    let HopFaults { drop, repeat, hold, deadline, merge, bunch, refuse, cut, deflate, llm } = *faults;
    let llm = llm.unwrap_or_default();
    for (option, share) in [
        ("--fault-drop", drop),
        ("--fault-repeat", repeat),
        ("--fault-merge", merge),
        ("--fault-refuse", refuse),
    ] {
        if share > 0.0 {
            give(option, share.to_string());
        }
    }
    let times = [("--fault-hold", hold), ("--fault-cut", cut), ("--fault-hold-first", llm.hold_first)];
    for (option, time) in times {
        if !time.is_zero() {
            give(option, show_duration(time));
        }
    }
    if bunch > 0 {
        give("--fault-bunch", bunch.to_string());
    }
    if llm.retry > 0 {
        give("--fault-retry", llm.retry.to_string());
    }
    if let Some(HopDeflate::Drop) = deflate {
        give("--fault-deflate", "drop".to_owned());
    }
    match deadline {
        Some(HopDeadline::Drop) => give("--fault-deadline", "drop".to_owned()),
        Some(HopDeadline::Replace(time)) => give("--fault-deadline", show_duration(time)),
        None => {}
    }
    let switches = [
        ("--fault-false-end", llm.false_end),
        ("--fault-ignore-abort", llm.ignore_abort),
        ("--fault-rewrite-usage", llm.rewrite_usage),
        ("--fault-add-field", llm.add_field),
        ("--fault-alter-response", llm.alter_response),
        ("--fault-drop-comments", llm.drop_comments),
        ("--fault-unbounded", llm.unbounded),
    ];
    arguments.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(option, _)| option.to_owned()));
    arguments
}

/// The hop's configured delay, warm-up and faults, as a setting. Reports show this setting with the hop.
fn planted(delay: &HopDelay) -> Setting {
    Setting { setting: format!("delay: {delay}"), reason: "planted by the plan".to_owned() }
}

/// Parses the first line of a subcommand's output.
fn ready_line<R: DeserializeOwned + Send + 'static>(stdout: ChildStdout) -> Result<(R, ChildStdout), String> {
    let (said, heard) = std::sync::mpsc::channel();
    // This thread ends when it has read the line, or when the process ends. If the line does not appear in
    // time, the caller stops the process.
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        let read = reader.read_line(&mut line);
        let _ = said.send(read.map(|_| (line, reader.into_inner())));
    });
    let (line, stdout) = heard
        .recv_timeout(READY_BOUND)
        .map_err(|_| format!("was not ready within {}", humantime::format_duration(READY_BOUND)))?
        .map_err(|error| format!("its output cannot be read: {error}"))?;
    if line.is_empty() {
        return Err("ended before it was ready".into());
    }
    let ready = serde_json::from_str(&line).map_err(|error| format!("said `{}`: {error}", line.trim()))?;
    Ok((ready, stdout))
}

/// The arguments of `hoptax upstream` for the plan's upstream.
fn upstream_arguments(upstream: &BuiltInUpstream) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["upstream".into()];
    let mut give = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    give("--instances", upstream.instances.to_string().into());
    give("--status", upstream.status.to_string().into());
    for (name, value) in &upstream.headers {
        give("--header", format!("{name}: {value}").into());
    }
    match &upstream.body {
        Body::Size(bytes) => give("--body", format!("{bytes}B").into()),
        Body::Like { kind, size } => {
            give("--body", format!("{size}B").into());
            give("--body-kind", kind.name().into());
        }
        Body::Text(text) => give("--body-text", text.into()),
        Body::File(path) => give("--body-file", path.into()),
    }
    give("--delay", upstream.delay.to_string().into());
    give("--failures", upstream.failures.to_string().into());
    if let Some(port) = upstream.port {
        give("--port", port.to_string().into());
    }
    for answer in &upstream.answers {
        give("--answer", answer.to_string().into());
    }
    for PathStream { path, stream } in &upstream.streams {
        if stream.carrier == Carrier::WebSocket {
            let kind = if stream.fan_out { "fan-out" } else { "push" };
            let (messages, every) = (show_count(stream.messages), stream.every_ns);
            give("--websocket", format!("{path}={kind},{messages},{every}ns").into());
            continue;
        }
        let (kind, messages, every) = (kind_name(Some(stream.kind)), stream.messages, stream.every_ns);
        give("--grpc-stream", format!("{path}={kind},{messages},{every}ns").into());
    }
    if let Some(status) = upstream.grpc_status {
        give("--grpc-status", status.name().into());
    }
    if let Some(events) = &upstream.events {
        let UpstreamEvents { count, gap, bytes, first, per_write, split, heartbeat } = events;
        let time = |time: Duration| format!("{}ns", time.as_nanos());
        give("--events", format!("{},{},{bytes}B", show_count(*count), time(*gap)).into());
        give("--events-first", time(*first).into());
        give("--events-per-write", per_write.to_string().into());
        give("--events-split", split.to_string().into());
        if let Some(heartbeat) = heartbeat {
            give("--events-heartbeat", time(*heartbeat).into());
        }
    }
    if let Some(model) = &upstream.llm {
        model_arguments(model, give);
    }
    if upstream.websocket_compression {
        arguments.push("--websocket-compression".into());
    }
    if let Some(model) = &upstream.llm {
        let switches = [("--llm-crlf", model.crlf), ("--llm-provider-headers", model.headers_of_provider)];
        arguments.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(option, _)| option.into()));
    }
    arguments
}

/// Gives the options for a language model that have values.
fn model_arguments(model: &UpstreamLlm, mut give: impl FnMut(&str, OsString)) {
    let time = |time: Duration| -> OsString { format!("{}ns", time.as_nanos()).into() };
    let apis: Vec<&str> = model.apis.iter().map(|api| api.name()).collect();
    give("--llm", apis.join(",").into());
    give("--llm-first-token", model.first_token.to_string().into());
    give("--llm-gap", time(model.gap));
    for (option, number) in [
        ("--llm-tokens", model.tokens),
        ("--llm-token-bytes", model.bytes_per_token),
        ("--llm-per-write", model.per_write),
        ("--llm-split", model.split),
    ] {
        give(option, number.to_string().into());
    }
    if let Some(usage) = model.usage {
        give("--llm-usage", usage.to_string().into());
    }
    if let Some(heartbeat) = model.heartbeat {
        give("--llm-heartbeat", time(heartbeat));
    }
    for failure in &model.failures {
        give("--llm-failure", llm::show_failure(failure).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::llm::Api;
    use hoptax_plan::{LlmFailure, LlmFailureKind};

    #[test]
    fn a_language_model_becomes_options() {
        let model = UpstreamLlm {
            apis: vec![Api::OpenAi, Api::Anthropic],
            gap: Duration::from_micros(1500),
            crlf: true,
            headers_of_provider: true,
            usage: Some(7),
            heartbeat: Some(Duration::from_secs(5)),
            failures: vec![LlmFailure { kind: LlmFailureKind::Cut, share: 0.1, at: 5 }],
            ..UpstreamLlm::default()
        };
        let plain = BuiltInUpstream::with_body(Body::Size(0));
        let usual = upstream_arguments(&plain);
        let arguments = upstream_arguments(&BuiltInUpstream { llm: Some(model), ..plain });
        let own: Vec<&str> = arguments[usual.len()..].iter().filter_map(|word| word.to_str()).collect();
        let expected = "--llm openai,anthropic --llm-first-token 0s --llm-gap 1500000ns --llm-tokens 20 \
                        --llm-token-bytes 40 --llm-per-write 1 --llm-split 1 --llm-usage 7 --llm-heartbeat \
                        5000000000ns --llm-failure cut,0.1,5 --llm-crlf --llm-provider-headers";
        assert_eq!(own.join(" "), expected);
    }
}

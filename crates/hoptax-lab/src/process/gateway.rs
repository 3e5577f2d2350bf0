//! Gateways started from packs.

use super::controller::Tools;
use super::driver::{ProcessDriver, Wait, failed_to_start};
use super::ready;
use super::refusals::{not_installed, refuse_unix_upstream, refuse_upstream_http2};
use super::service::{Started, how};
use crate::counters::Counters;
use crate::docker::{self, Container};
use crate::features::{self, Change, FeatureVariables};
use crate::login::Login;
use crate::packs::manifest::{AccessLogTo, CounterSpec, ReadyPort};
use crate::packs::{Pack, PackError, binary};
use crate::render::{self, InterceptVariables, Rendered, UpstreamAddress, Variables};
use crate::{Facts, Launched, Profiling, Service, cpus};
use hoptax_format::Address;
use hoptax_format::messages::Carrier;
use hoptax_host::guard::{SECRETS, StopSignal};
use hoptax_host::guarded::{Guarded, Launch};
use hoptax_host::logs::{self, ACCESS_LOG};
use hoptax_host::namespace::{Interception, Namespace};
use hoptax_host::ports::{LOOPBACK, Ports, local};
use hoptax_host::private;
use hoptax_plan::{
    AccessLog, ClientHttp2, Feature, Gateway, GatewayKind, PackDriver, Profile, ProgramVersion, Upstream,
    units,
};
use hoptax_record::{Counter, Failure, Setting, Stage, digest};
use hoptax_servers::readiness::{self, NotReady, Probe};
use hoptax_servers::upstream::socket_path;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum number of retries with other ports. A retry is needed if another process takes a port between the
/// moment when hoptax releases the port and the moment when the gateway opens it.
const PORT_ATTEMPTS: u32 = 3;

/// Time limit for a connection that finds out whether a gateway listens on 127.0.0.1.
const LISTENS_BOUND: Duration = Duration::from_secs(1);

/// Time that docker needs to remove a stopped container, in addition to the gateway's grace period.
const CONTAINER_GRACE: Duration = Duration::from_secs(5);

/// The values that stay the same in all attempts to start one gateway.
struct Attempt<'a> {
    driver: &'a ProcessDriver,
    pack: &'a Pack,
    label: &'a str,
    program: Program,
    /// The version that the plan chooses. Absent for the installed program, and in a container.
    version: Option<&'a ProgramVersion>,
    workers: u32,
    /// Features to render: the features of the plan, and the features that the upstream requires of every
    /// gateway.
    features: Vec<Feature>,
    upstreams: &'a [Address],
    upstream_http2: bool,
    /// Ports and namespace of a sidecar; absent for other gateways. A preview has no namespace.
    sidecar: Option<(Interception, Option<&'a Namespace>)>,
    /// Directory of the configuration, which is also the working directory. It is [`Self::shown`], or a
    /// private directory if the configuration contains secrets.
    directory: PathBuf,
    /// Directory `rendered/<label>`, which contains the configuration without secrets.
    shown: PathBuf,
    log_directory: PathBuf,
    /// Directory for the gateway's sockets. It exists only if the configuration mentions it.
    socket_directory: PathBuf,
}

enum Program {
    Here(PathBuf),
    In(Container),
}

impl Program {
    fn path(&self) -> String {
        match self {
            Self::Here(path) => path.to_string_lossy().into_owned(),
            Self::In(container) => container.program.clone(),
        }
    }

    fn version(&self, pack: &Pack) -> Result<Option<String>, PackError> {
        match self {
            Self::Here(path) => binary::version(pack, path),
            Self::In(container) => {
                let command = render::version_command(pack, Path::new(&container.program))?;
                Ok(container.version(&command, &pack.manifest().version.pattern))
            }
        }
    }
}

impl ProcessDriver {
    /// Starts a gateway from a pack.
    ///
    /// # Panics
    /// If `gateway` is not started from a pack.
    pub(super) fn start_pack(&self, gateway: &Gateway, upstreams: &[Address], wait: Wait) -> Launched {
        let GatewayKind::Pack { pack, workers, features, driver: within, upstream_http2, .. } = &gateway.kind
        else {
            panic!("`{}` is not started from a pack", gateway.label)
        };
        let (label, workers) = (gateway.label.as_str(), *workers);
        let pack = self.packs.get(pack).ok_or_else(|| {
            Failure::new(
                Stage::Missing,
                format!("there is no pack `{pack}`. Packs are {}", self.packs.names().join(", ")),
            )
        })?;
        self.refuse_unsupported(pack, workers, features)?;
        refuse_unix_upstream(pack, upstreams)?;
        refuse_upstream_http2(pack, *upstream_http2)?;
        self.check_address()?;
        let program = match within {
            PackDriver::Process => Program::Here(binary::find(pack).ok_or_else(|| not_installed(pack))?),
            PackDriver::Docker { image } => Program::In(self.container(pack, features, image.as_deref())?),
            PackDriver::Version(version) => Program::Here(binary::of_version(pack, version)?),
        };
        if self.interceptions.contains_key(label) {
            self.refuse_without_namespace()?;
        }
        let mut attempt = self.attempt(label, pack, workers, features, upstreams, program);
        attempt.version = chosen(within);
        attempt.upstream_http2 = *upstream_http2;
        if wait == Wait::Caller {
            let (launched, _) = attempt.launched()?;
            return Ok(Box::new(launched));
        }
        let mut attempts_left = PORT_ATTEMPTS;
        loop {
            attempts_left -= 1;
            match attempt.start() {
                Ok(started) => return Ok(Box::new(started)),
                Err(failure) if attempts_left > 0 && logs::reports_taken_port(&failure.detail) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The files and the command of a gateway. The gateway is not started, and its ports are placeholders. If
    /// its program is not installed, the command contains the program's name without a path.
    ///
    /// # Errors
    /// If there is no such pack, or one of its templates is wrong.
    ///
    /// # Panics
    /// If `gateway` is not started from a pack.
    pub fn preview(&self, gateway: &Gateway) -> Result<Rendered, PackError> {
        let GatewayKind::Pack { pack, workers, features, instances, driver, upstream_http2 } = &gateway.kind
        else {
            panic!("`{}` is not started from a pack", gateway.label)
        };
        let pack = self.packs.get(pack).ok_or_else(|| PackError {
            file: String::new(),
            line: None,
            message: format!("there is no pack `{pack}`. Packs are {}", self.packs.names().join(", ")),
            help: None,
        })?;
        let called = || PathBuf::from(&pack.manifest().binary);
        let program = match driver {
            PackDriver::Process => Program::Here(binary::find(pack).unwrap_or_else(called)),
            PackDriver::Docker { image } => Program::In(Container::preview(pack, image.as_deref())),
            PackDriver::Version(version) => {
                Program::Here(binary::of_version(pack, version).unwrap_or_else(|_| called()))
            }
        };
        let there = match &self.upstream {
            Upstream::BuiltIn(upstream) => upstream.instances,
            Upstream::Running(_) => 1,
        };
        let there = instances.unwrap_or(there).min(there);
        let sample = Variables::sample(self.profile, None).of(pack.manifest());
        let socket = match &self.upstream {
            Upstream::BuiltIn(upstream) => self.upstream_socket(upstream),
            Upstream::Running(running) => {
                units::unix_socket(&running.url).and_then(Result::ok).map(|socket| socket.path)
            }
        };
        let upstream_at = |index: u16| match &socket {
            Some(path) => Address::Unix(socket_path(path, u32::from(index), false)),
            None => local(sample.admin_port + 1 + index).into(),
        };
        let upstreams: Vec<Address> = (0..).map(upstream_at).take(there as usize).collect();
        let mut attempt = self.attempt(&gateway.label, pack, *workers, features, &upstreams, program);
        attempt.upstream_http2 = *upstream_http2;
        let ports = attempt.sidecar.map(|(interception, _)| (interception.inbound, interception.admin));
        let (port, admin_port) = ports.unwrap_or((sample.port, sample.admin_port));
        let mut rendered = render::render(pack, &attempt.variables(port, admin_port))?;
        attempt.start_in_container(&mut rendered, "hoptax-NAME");
        Ok(rendered)
    }

    fn attempt<'a>(
        &'a self,
        label: &'a str,
        pack: &'a Pack,
        workers: u32,
        features: &[Feature],
        upstreams: &'a [Address],
        program: Program,
    ) -> Attempt<'a> {
        let mut features = features.to_vec();
        if self.credentials.upstream.is_some() && !features.contains(&Feature::UpstreamTls) {
            features.push(Feature::UpstreamTls);
        }
        // Logs may contain secrets of the plan's requests. A guard removes secrets from logs only if the
        // gateway has a private directory.
        let is_private = features::needs_credentials(&features) || !self.credentials.given.is_empty();
        Attempt {
            driver: self,
            pack,
            label,
            program,
            version: None,
            workers,
            upstreams,
            upstream_http2: false,
            sidecar: self.interceptions.get(label).map(|one| (*one, self.namespace())),
            directory: match is_private {
                true => self.private_directory.join(label),
                false => self.run_directory.join("rendered").join(label),
            },
            shown: self.run_directory.join("rendered").join(label),
            log_directory: self.log_directory(label),
            // A digest, because a label can be too long for the path of a socket.
            socket_directory: self.socket_directory.join(digest(label)),
            features,
        }
    }

    fn container(
        &self,
        pack: &Pack,
        features: &[Feature],
        image: Option<&str>,
    ) -> Result<Container, Failure> {
        let to_stdout = pack.manifest().access_log == Some(AccessLogTo::Stdout);
        if to_stdout && (self.access_log == AccessLog::File || features.contains(&Feature::AccessLog)) {
            let message = format!(
                "{} writes its access log to its standard output. Docker copies the output of a container, \
                 which costs more CPU than the log itself. Remove the access log, or remove `driver: docker`",
                pack.name()
            );
            return Err(Failure::new(Stage::Start, message));
        }
        let container =
            Container::find(pack, image).map_err(|message| Failure::new(Stage::Missing, message))?;
        container.remove_abandoned();
        Ok(container)
    }
}

/// The version that the plan chooses, unless the gateway runs in a container.
fn chosen(driver: &PackDriver) -> Option<&ProgramVersion> {
    match driver {
        PackDriver::Version(version) => Some(version),
        PackDriver::Process | PackDriver::Docker { .. } => None,
    }
}

/// The version as a setting of the gateway.
fn named(version: &ProgramVersion) -> Setting {
    let reason = "the plan chooses this version".to_owned();
    Setting { setting: format!("program: {version}"), reason }
}

impl Attempt<'_> {
    /// Starts the gateway and waits until it is ready.
    fn start(&self) -> Result<Started, Failure> {
        let (mut started, probe) = self.launched()?;
        self.await_ready(&mut started.guarded, &probe)?;
        // A sidecar is alone in its network namespace.
        if let Some(watched) = started.process().filter(|_| self.sidecar.is_none())
            && let Some(message) = self.answered_by_another(&probe, watched.pid, &started)
        {
            started.guarded.stop();
            return Err(self.fail(format!("{}: {message}", self.label)));
        }
        Ok(started)
    }

    /// A message if another process than the started one answered the readiness check.
    fn answered_by_another(&self, probe: &Probe, root: u32, started: &Started) -> Option<String> {
        let guard = started.guarded.pid();
        ready::answered_by_another(probe, root, guard).or_else(|| {
            // The processes of a container are no descendants of the guard, and its first process may be an
            // init process.
            let may_be_child = started.container.is_some() || self.pack.manifest().ready.by_child;
            (!may_be_child).then(|| ready::answered_by_child(probe, guard)).flatten()
        })
    }

    /// Starts the gateway. Also returns its readiness check.
    fn launched(&self) -> Result<(Started, Probe), Failure> {
        let (ports, port, admin_port) =
            self.ports().map_err(|error| self.fail(format!("cannot reserve a port: {error}")))?;
        let variables = self.variables(port, admin_port);
        let mut rendered = render::render(self.pack, &variables).map_err(|e| self.fail(e))?;
        if self.driver.profiles {
            let more = render::profiling_environment(self.pack, &variables).map_err(|e| self.fail(e))?;
            rendered.environment.extend(more);
        }
        let version = self.program.version(self.pack).map_err(|error| self.fail(error))?;
        self.write(&rendered).map_err(|(place, error)| {
            self.fail(format!("cannot write its configuration to {}: {error}", place.display()))
        })?;
        if self.needs_sockets(&rendered) {
            self.make_socket_directory().map_err(|error| {
                let place = self.socket_directory.display();
                let help = "set TMPDIR to use another directory";
                self.fail(format!("cannot create its directory for sockets {place}: {error}; {help}"))
            })?;
        }
        let probe = self
            .probe(&rendered, port, admin_port)
            .map_err(|error| self.fail(format!("cannot build its readiness request: {error:#}")))?;
        let name = docker::new_name(self.label);
        self.start_in_container(&mut rendered, &name);
        rendered.settings.extend(self.version.map(named));
        let launch = self.launch(&rendered, &name);
        drop(ports);
        let guarded = Guarded::start(&self.driver.exe, &launch)
            .map_err(|error| self.fail(format!("cannot start {}: {error}", self.label)))?;
        let tools = Tools::new(self.pack, &self.features, variables, probe.clone());
        let started = Started {
            sockets: Vec::new(),
            started: launch.started,
            container: match &self.program {
                Program::Here(_) => None,
                Program::In(container) => Some((container.clone(), name)),
            },
            contained: OnceCell::new(),
            name: self.label.to_owned(),
            addresses: vec![self.traffic_to(port)],
            facts: self.facts(version, &rendered),
            guarded,
            log_directory: self.log_directory.clone(),
            control: None,
            secrets: (self.directory != self.shown).then(|| self.driver.credentials.clone()),
            counters: Some(Counters::new(
                &self.pack.manifest().counters,
                self.at(LOOPBACK, admin_port),
                &self.log_directory,
            )),
            tools: Some(tools),
            _stdout: None,
        };
        Ok((started, probe))
    }

    /// Chooses the gateway's ports. The first part of the result reserves the ports. This part is absent in a
    /// namespace, because no other process uses ports there.
    fn ports(&self) -> std::io::Result<(Option<Ports>, u16, u16)> {
        if let Some((interception, _)) = self.sidecar {
            return Ok((None, interception.inbound, interception.admin));
        }
        let ports = Ports::take_at(self.driver.address, 2)?;
        let numbers = ports.numbers()?;
        let [port, admin_port] = numbers[..] else { unreachable!("two were taken") };
        Ok((Some(ports), port, admin_port))
    }

    /// `port` at `address`. A sidecar has only the address of its namespace.
    fn at(&self, address: IpAddr, port: u16) -> SocketAddr {
        match self.sidecar {
            Some((_, Some(namespace))) => namespace.at(port),
            _ => SocketAddr::new(address, port),
        }
    }

    /// Address for requests. For a sidecar this is the application's port, from which the sidecar receives
    /// all traffic.
    fn traffic_to(&self, port: u16) -> SocketAddr {
        let port = self.sidecar.map_or(port, |(interception, _)| interception.application);
        self.at(self.driver.address, port)
    }

    /// Writes the configuration to the gateway's directory, and a copy without secrets to the run directory.
    fn write(&self, rendered: &Rendered) -> Result<(), (&Path, std::io::Error)> {
        if self.directory != self.shown {
            private::create(&self.driver.private_directory)
                .map_err(|error| (self.driver.private_directory.as_path(), error))?;
        }
        rendered.write(&self.directory).map_err(|error| (self.directory.as_path(), error))?;
        if self.directory != self.shown {
            let made = &self.driver.credentials;
            features::write_files(&self.features, made, &self.directory)
                .and_then(|()| {
                    features::write_private(&self.directory.join(SECRETS), &made.secrets().join("\n"))
                })
                .map_err(|error| (self.directory.as_path(), error))?;
            rendered.redacted(made).write(&self.shown).map_err(|error| (self.shown.as_path(), error))?;
        }
        Ok(())
    }

    fn needs_sockets(&self, rendered: &Rendered) -> bool {
        rendered.mentions(&self.socket_directory.to_string_lossy())
    }

    /// Creates the directory for sockets, or empties it: a gateway that was killed may have left its sockets,
    /// and then it cannot listen on them again.
    fn make_socket_directory(&self) -> std::io::Result<()> {
        private::create(&self.driver.socket_directory)?;
        match std::fs::remove_dir_all(&self.socket_directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        private::create(&self.socket_directory)
    }

    fn facts(&self, version: Option<String>, rendered: &Rendered) -> Facts {
        // In the stock profile the gateway chooses the number of its workers.
        let workers = (self.driver.profile == Profile::Equalised).then_some(self.workers);
        let counter = |spec: &CounterSpec| Counter {
            name: spec.name.clone(),
            meaning: spec.meaning.clone(),
            overflow: spec.overflow,
            advice: spec.advice.clone(),
        };
        let change = self.change();
        Facts {
            address_note: None,
            version,
            workers,
            settings: rendered.settings.clone(),
            counters: self.pack.manifest().counters.iter().map(counter).collect(),
            rendered: rendered.digests(),
            change: Change {
                access_log: self.access_log(),
                replacements: rendered.llm_headers.clone(),
                prefix: self.pack.llm().map_or_else(String::new, |llm| llm.prefix.clone()) + &change.prefix,
                ..change
            },
            profiling: self.profiling(),
            found_process: None,
        }
    }

    fn profiling(&self) -> Profiling {
        let manifest = &self.pack.manifest().profiling;
        Profiling {
            callers: manifest.callers,
            needs_restart: !manifest.environment.is_empty(),
            map: manifest.map.clone(),
            symbols: manifest.symbols.clone(),
        }
    }

    /// The change that the gateway's features require in requests. Features that only the upstream requires
    /// are left out, because they are not verified.
    fn change(&self) -> Change {
        let made = &self.driver.credentials;
        let mut asked = self.features.clone();
        asked.retain(|feature| made.upstream.is_none() || *feature != Feature::UpstreamTls);
        let mut change = Change::new(&asked, made);
        change.refusals.clone_from(&self.pack.manifest().refusals);
        change.ignored_headers = self.pack.manifest().changed_headers();
        if self.features.contains(&Feature::GrpcJson) {
            change.json_messages.clone_from(&self.driver.json_calls.messages);
        }
        change.add_token(&self.driver.upstream_login);
        if let Some(form) = self.pack.proxy_form()
            && let Some((host, port)) = self.driver.upstream_behind_proxy(self.upstreams)
        {
            change.ask_proxy(form, &Login::default(), (&host, port), &self.driver.upstream_login);
        }
        if !made.given.is_empty() {
            change.credentials.get_or_insert_with(|| Arc::new(made.clone()));
        }
        change
    }

    /// CPUs to pin the gateway to; empty means that it is not pinned.
    fn cpus(&self) -> Vec<u32> {
        let set = &self.driver.cpus.gateway;
        match self.pack.manifest().held_to_cpus && self.driver.profile == Profile::Equalised {
            true => cpus::limit_to(set, &self.driver.allowed, self.workers),
            false => set.clone(),
        }
    }

    fn access_log(&self) -> Option<PathBuf> {
        let asked = self.driver.access_log == AccessLog::File || self.features.contains(&Feature::AccessLog);
        asked.then(|| self.log_directory.join(ACCESS_LOG))
    }

    fn variables(&self, port: u16, admin_port: u16) -> Variables {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Variables {
            binary: self.program.path(),
            address: self.sidecar.map_or(self.driver.address, |_| Ipv4Addr::UNSPECIFIED.into()),
            port,
            admin_port,
            upstreams: self.upstreams.iter().map(UpstreamAddress::new).collect(),
            workers: self.workers,
            profile: self.driver.profile,
            variant: self.pack.variant().map(str::to_owned),
            intercept: self.intercept_variables(),
            access_log: self.access_log().as_deref().map(text),
            dir: text(&self.directory),
            log_dir: text(&self.log_directory),
            socket_dir: text(&self.socket_directory),
            connections: self.driver.connections,
            streams: self.driver.streams,
            http2: self.driver.http2,
            upstream_http2: self.upstream_http2,
            grpc: self.driver.grpc.clone(),
            websocket: self.driver.carriers.contains(&Carrier::WebSocket),
            sse: self.driver.carriers.contains(&Carrier::Events),
            cpus: self.cpus(),
            features: FeatureVariables::new(&self.features, &self.driver.credentials, &text(&self.directory))
                .with_calls(&self.driver.json_calls),
            asked: self.features.clone(),
            descriptors: crate::descriptors::limit(),
            root: rustix::process::geteuid().is_root(),
            container: matches!(self.program, Program::In(_)),
            reloadable: self.is_reloaded(),
        }
    }

    /// Whether the run reloads the gateway.
    fn is_reloaded(&self) -> bool {
        let mut events = self.driver.events.iter();
        self.driver.measures_reloads
            || events.any(|event| event.action.reloads() && event.concerns(Some(self.label)))
    }

    fn intercept_variables(&self) -> Option<InterceptVariables> {
        let (interception, namespace) = self.sidecar?;
        let sample = || Variables::sample(self.driver.profile, None).of(self.pack.manifest()).intercept;
        let address = match namespace {
            Some(namespace) => namespace.address().to_string(),
            None => sample()?.address,
        };
        Some(InterceptVariables { address, application_port: interception.application })
    }

    /// Changes `rendered` so that the gateway starts in a container with this name. Adds the container to the
    /// reported settings.
    fn start_in_container(&self, rendered: &mut Rendered, name: &str) {
        let Program::In(container) = &self.program else { return };
        let mut directories = vec![&*self.directory, &*self.log_directory];
        directories.extend(self.needs_sockets(rendered).then_some(&*self.socket_directory));
        // After an event has stopped and started an instance, the instance has a new socket. So mount the
        // directory of the sockets if it is ours.
        let ours = &self.driver.upstream_directory;
        let sockets: BTreeSet<&Path> = self
            .upstreams
            .iter()
            .filter_map(|upstream| match upstream {
                Address::Unix(path) if path.starts_with(ours) => Some(&**ours),
                Address::Unix(path) => Some(&**path),
                Address::Tcp(_) => None,
            })
            .collect();
        directories.extend(sockets);
        rendered.start = container.run(&docker::Run {
            name,
            directories: &directories,
            cpus: &self.cpus(),
            descriptors: crate::descriptors::limit(),
            environment: &rendered.environment,
            command: &rendered.start,
        });
        rendered.environment.clear();
        rendered.settings.push(Setting {
            setting: format!("docker, {} ({})", container.image, container.id),
            reason: "the plan says `driver: docker`: a container on the host's network, under \
                                docker's own seccomp profile"
                .to_owned(),
        });
    }

    fn launch(&self, rendered: &Rendered, name: &str) -> Launch {
        let manifest = self.pack.manifest();
        let to_stdout = manifest.access_log == Some(AccessLogTo::Stdout);
        let access_log = self.access_log().filter(|_| to_stdout);
        let (program, arguments) = rendered.start.split_first().expect("checked with the pack");
        let finally = match &self.program {
            Program::Here(_) => Vec::new(),
            Program::In(container) => container.remove(name),
        };
        let launch = Launch {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: rendered.environment.clone(),
            directory: Some(self.directory.clone()),
            cpus: self.cpus(),
            stop_signal: manifest.stop.signal.parse().unwrap_or(StopSignal::TERM),
            grace: duration(&manifest.stop.grace)
                + if finally.is_empty() { Duration::ZERO } else { CONTAINER_GRACE },
            remove: (self.directory != self.shown).then(|| self.directory.clone()),
            scrub: (self.directory != self.shown).then(|| self.log_directory.clone()),
            finally,
            started: Some(self.driver.started_file(self.label)),
            stdout: Some(access_log.unwrap_or_else(|| self.log_directory.join("stdout.log"))),
            stderr: self.log_directory.join("stderr.log"),
        };
        match self.sidecar {
            Some((_, Some(namespace))) => namespace.enter(launch),
            _ => launch,
        }
    }

    fn probe(&self, rendered: &Rendered, port: u16, admin_port: u16) -> anyhow::Result<Probe> {
        let ready = &self.pack.manifest().ready;
        let address = match ready.port {
            ReadyPort::Main => self.at(self.driver.address, port),
            ReadyPort::Admin => self.at(LOOPBACK, admin_port),
        };
        Ok(Probe {
            address,
            path: rendered.ready_path.clone(),
            status: ready.status,
            accepting: self.traffic_to(port),
            timeout: duration(&ready.timeout),
            http2: self.speaks_only_http2() && ready.port == ReadyPort::Main,
            over_tls: ready::over_tls(ready, &self.change(), &rendered.ready_path)?,
        })
    }

    /// Whether the port for traffic does not accept HTTP/1.
    fn speaks_only_http2(&self) -> bool {
        let is_exclusive = self.pack.manifest().http2 == ClientHttp2::Exclusive;
        is_exclusive && self.driver.http2 && !self.features.contains(&Feature::Tls)
    }

    fn await_ready(&self, guarded: &mut Guarded, probe: &Probe) -> Result<(), Failure> {
        let interrupted = || self.driver.interrupted.load(Ordering::Relaxed);
        let outcome = readiness::wait(probe, || guarded.ended().is_some() || interrupted());
        let (key, met) = match outcome {
            Ok(()) => return Ok(()),
            Err(NotReady::Ended) if interrupted() => {
                guarded.stop();
                return Err(self.fail(format!("{}: interrupted by a signal before it was ready", self.label)));
            }
            Err(NotReady::Ended) => {
                let how = guarded.ended().map_or_else(|| "ended".to_owned(), how);
                ("start", format!("{} {how} before it was ready", self.label))
            }
            Err(NotReady::TimedOut(met)) => {
                let met = met + &self.listens_elsewhere(probe).unwrap_or_default();
                // Stop the gateway first, because its last log lines may show the reason.
                guarded.stop();
                let bound = &self.pack.manifest().ready.timeout;
                ("ready", format!("{} was not ready within {bound}: {met}", self.label))
            }
        };
        Err(self.fail(format!("{met}. See `{key}` in {}", self.pack.place_of(key))))
    }

    /// A message if the gateway listens on 127.0.0.1 instead of the address of this machine's services.
    fn listens_elsewhere(&self, probe: &Probe) -> Option<String> {
        let (asked, here) = (probe.accepting, local(probe.accepting.port()));
        if self.sidecar.is_some() || asked == here {
            return None;
        }
        TcpStream::connect_timeout(&here, LISTENS_BOUND).ok()?;
        Some(format!(
            "; it listens on {here} instead of {asked}. Write `{{{{ listen }}}}` or `{{{{ address }}}}` \
             instead of 127.0.0.1 in the templates of its pack"
        ))
    }

    /// A failure that contains the last log lines and the path of the rendered files.
    fn fail(&self, message: impl std::fmt::Display) -> Failure {
        if self.directory != self.shown {
            logs::scrub(&self.log_directory, &self.driver.credentials.secrets());
        }
        let mut failure = failed_to_start(message, &self.log_directory);
        if self.shown.exists() {
            let place = match self.pack.manifest().files.as_slice() {
                [only] => self.shown.join(&only.to),
                _ => self.shown.clone(),
            };
            failure.message += &format!(". Its rendered configuration is in {}", place.display());
        }
        let made = &self.driver.credentials;
        Failure { message: made.redact(&failure.message), detail: made.redact(&failure.detail), ..failure }
    }
}

fn duration(text: &str) -> Duration {
    units::duration(text).expect("checked with the pack")
}

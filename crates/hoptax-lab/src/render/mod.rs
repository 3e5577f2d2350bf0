//! Renders a pack's templates to the files and the command that start a gateway.
//!
//! The template engine is minijinja; an undefined variable is an error. Each file has a digest: FNV-1a, 64
//! bits, as 16 hexadecimal digits. The digest is computed from a variant of the file in which *placeholders
//! replace values that change with each run* (addresses, ports, directories). So equal digests mean equal
//! configurations.

use super::features::{Credentials, FeatureVariables, passwords};
use super::packs::manifest::Manifest;
use super::packs::{Pack, PackError};
use hoptax_format::Address;
use hoptax_host::guard::StopSignal;
use hoptax_host::logs::ACCESS_LOG;
use hoptax_host::namespace::Interception;
use hoptax_host::ports::{LOOPBACK, local};
use hoptax_plan::units::{self, nearest};
use hoptax_plan::{Feature, Profile, Target};
use hoptax_record::{Setting, digest};
use minijinja::{Environment, UndefinedBehavior};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Component, Path};

/// Variables of templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variables {
    /// Absolute path of the gateway's program.
    pub binary: String,
    /// Address to listen on for traffic. A sidecar listens on all addresses of its namespace.
    pub address: IpAddr,
    /// Port at `address` for traffic.
    pub port: u16,
    /// A second port, at 127.0.0.1, for readiness and statistics.
    pub admin_port: u16,
    /// Addresses of the upstream's instances. The gateway sends requests to them in turn.
    pub upstreams: Vec<UpstreamAddress>,
    /// Number of worker threads or processes that the plan sets.
    pub workers: u32,
    /// Profile: `stock` or `equalised`.
    pub profile: Profile,
    /// Selected variant of the pack; absent if the pack has no variants.
    pub variant: Option<String>,
    /// Addresses of a sidecar, which intercepts traffic; absent for other gateways.
    pub intercept: Option<InterceptVariables>,
    /// Path of the access log; absent if the gateway writes no access log.
    pub access_log: Option<String>,
    /// The gateway's working directory, which contains its rendered files.
    pub dir: String,
    /// Directory for the gateway's own logs.
    pub log_dir: String,
    /// Directory for Unix sockets: empty at each start, only for its owner, and with a short path. The path
    /// of a socket has at most 107 bytes (unix(7)), so a socket in `dir` fails if the run directory's path is
    /// long.
    pub socket_dir: String,
    /// Largest number of connections of the plan's load points that are measured.
    pub connections: u32,
    /// Largest number of streams on a connection of these load points: requests in flight at a time.
    pub streams: u32,
    /// Whether one of these load points uses HTTP/2.
    pub http2: bool,
    /// Whether the gateway must speak HTTP/2 to upstreams.
    pub upstream_http2: bool,
    /// The plan's gRPC calls; absent if it has none.
    pub grpc: Option<GrpcVariables>,
    /// Whether the plan has targets that are WebSockets.
    pub websocket: bool,
    /// Whether the plan has targets whose responses are server-sent events.
    pub sse: bool,
    /// CPUs that the gateway is pinned to; empty if it is not pinned.
    pub cpus: Vec<u32>,
    /// The plan's features, each with the values needed to render it. A feature that is off has no value or
    /// an empty value.
    pub features: FeatureVariables,
    /// The enabled features, as in the plan.
    #[serde(skip)]
    pub asked: Vec<Feature>,
    /// Descriptor limit of a process.
    pub descriptors: u64,
    /// Whether the gateway runs as root.
    pub root: bool,
    /// Whether the gateway runs in a container.
    pub container: bool,
    /// Whether the plan has events that make the running gateway reload its configuration.
    pub reloadable: bool,
}

/// Variables for gRPC calls. Gateways with `upstream_http2` pass calls on as they pass other requests, and
/// rarely need these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrpcVariables {
    /// Paths of the calls, such as `/echo.Echo/Say`, in alphabetical order.
    pub paths: Vec<String>,
    /// Whether the plan also has other requests.
    pub is_mixed: bool,
}

impl GrpcVariables {
    /// The calls among a plan's targets; absent if there are none.
    pub fn of(targets: &[Target]) -> Option<Self> {
        let calls = targets.iter().filter(|target| target.grpc);
        let paths: BTreeSet<&String> = calls.map(|call| &call.path).collect();
        let is_mixed = targets.iter().any(|target| !target.grpc);
        (!paths.is_empty()).then(|| Self { paths: paths.into_iter().cloned().collect(), is_mixed })
    }
}

/// Variables of a sidecar, which intercepts traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InterceptVariables {
    /// Address of the application and of `admin_port` in the run's network namespace.
    pub address: String,
    /// The application's own port. Connections to it are redirected to `port`.
    pub application_port: u16,
}

/// Sample address in a namespace.
const NAMESPACE: &str = "198.18.0.2";

/// Address of an upstream instance. Templates also have it as `host_port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// IP address; `localhost` for a Unix socket.
    pub host: String,
    /// Port; 80 for a Unix socket.
    pub port: u16,
    /// Path of the Unix socket; absent if the instance listens on a port.
    pub socket: Option<String>,
}

impl UpstreamAddress {
    /// The address for templates.
    pub fn new(address: &Address) -> Self {
        match address {
            Address::Tcp(address) => {
                Self { host: address.ip().to_string(), port: address.port(), socket: None }
            }
            Address::Unix(path) => Self {
                host: units::LOCALHOST.to_owned(),
                port: 80,
                socket: Some(path.to_string_lossy().into_owned()),
            },
        }
    }
}

impl Serialize for UpstreamAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Parts<'a> {
            host: &'a str,
            port: u16,
            host_port: String,
            socket: Option<&'a str>,
        }
        let Self { host, port, socket } = self;
        // As in URLs, brackets around an IPv6 address keep it apart from the port.
        let host_port =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Parts { host, port: *port, host_port, socket: socket.as_deref() }.serialize(serializer)
    }
}

impl Variables {
    /// Names of all variables.
    pub fn names() -> Vec<String> {
        let value = minijinja::Value::from_serialize(Self::sample(Profile::Stock, None));
        let mut names: Vec<_> = value.try_iter().into_iter().flatten().map(|name| name.to_string()).collect();
        names.extend(["listen".into(), "needs".into()]);
        names
    }

    /// Sample values, for checking a pack without a run.
    pub fn sample(profile: Profile, access_log: Option<String>) -> Self {
        Self {
            binary: "/usr/bin/gateway".into(),
            address: LOOPBACK,
            port: 20001,
            admin_port: 20002,
            upstreams: vec![UpstreamAddress::new(&local(20003).into())],
            workers: 1,
            profile,
            variant: None,
            intercept: None,
            access_log,
            dir: "/run-directory/rendered".into(),
            log_dir: "/run-directory/logs".into(),
            socket_dir: "/tmp/sockets".into(),
            connections: 100,
            streams: 1,
            http2: false,
            upstream_http2: false,
            grpc: None,
            websocket: false,
            sse: false,
            cpus: Vec::new(),
            features: FeatureVariables::default(),
            asked: Vec::new(),
            descriptors: 20_000,
            root: false,
            container: false,
            reloadable: false,
        }
    }

    /// Copy of these variables for a pack with this manifest. For a sidecar, the ports and addresses come
    /// from the manifest.
    #[must_use]
    pub fn of(self, manifest: &Manifest) -> Self {
        let Some(ports) = manifest.intercept else { return self };
        let first = Interception::new(0, ports.inbound_port, ports.admin_port);
        let address = NAMESPACE.to_owned();
        Self {
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: first.inbound,
            admin_port: first.admin,
            intercept: Some(InterceptVariables { address, application_port: first.application }),
            ..self
        }
    }

    /// Copy of these variables with `features` enabled. The credentials are placeholders.
    #[must_use]
    pub fn with_sample_features(self, features: Vec<Feature>) -> Self {
        let made = Credentials::placeholders(
            features
                .iter()
                .map(|feature| match feature {
                    Feature::Consumers { count } => *count as usize,
                    _ => 1,
                })
                .max()
                .unwrap_or(1),
        );
        Self { features: FeatureVariables::new(&features, &made, &self.dir), asked: features, ..self }
    }

    /// Copy of these variables in which placeholders replace the values that change with each run.
    fn canonical(&self) -> Self {
        let sample =
            Self::sample(self.profile, self.access_log.as_ref().map(|_| format!("/logs/{ACCESS_LOG}")));
        let placeholder = |(index, upstream): (usize, &UpstreamAddress)| match &upstream.socket {
            Some(_) => Address::Unix(format!("/upstream/{index}.sock").into()),
            None => local(30_000_u16.saturating_add(u16::try_from(index).unwrap_or(u16::MAX))).into(),
        };
        let upstreams = self.upstreams.iter().enumerate().map(placeholder);
        let upstreams = upstreams.map(|address| UpstreamAddress::new(&address)).collect();
        let intercept = self.intercept.as_ref().map(|_| InterceptVariables {
            address: NAMESPACE.into(),
            application_port: Interception::new(0, 0, 0).application,
        });
        Self {
            binary: sample.binary,
            intercept,
            address: sample.address,
            port: sample.port,
            admin_port: sample.admin_port,
            upstreams,
            access_log: sample.access_log,
            dir: sample.dir,
            log_dir: sample.log_dir,
            socket_dir: sample.socket_dir,
            features: FeatureVariables {
                // They are the same in each run of a plan.
                grpc_json: self.features.grpc_json.clone(),
                ..FeatureVariables::new(
                    &self.asked,
                    &Credentials::placeholders(self.features.consumers.len()),
                    "/run-directory/rendered",
                )
            },
            ..self.clone()
        }
    }
}

/// The variables of one pack's templates.
#[derive(Serialize)]
struct Known<'a> {
    #[serde(flatten)]
    variables: &'a Variables,
    /// Address and port to listen on for traffic, such as `10.0.0.2:8080` or `[::1]:8080`.
    listen: String,
    /// Paths of the files that the pack requires.
    needs: BTreeMap<String, String>,
}

impl<'a> Known<'a> {
    fn new(variables: &'a Variables, needs: BTreeMap<String, String>) -> Self {
        let listen = SocketAddr::new(variables.address, variables.port).to_string();
        Self { variables, listen, needs }
    }
}

/// The files and the command that start a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Files to write below the gateway's working directory.
    pub files: Vec<RenderedFile>,
    /// Command and arguments.
    pub start: Vec<String>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// Settings that differ from the gateway's shipped defaults.
    pub settings: Vec<Setting>,
    /// Path of the readiness request.
    pub ready_path: String,
    /// Headers of all requests to a gateway for language models.
    pub llm_headers: Vec<(String, String)>,
}

/// One rendered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Path below the gateway's working directory.
    pub name: String,
    /// Content.
    pub text: String,
    /// Digest; see the module's description.
    pub digest: String,
}

impl Rendered {
    /// Writes the files to `directory`, which is created if needed.
    ///
    /// # Errors
    /// If the directory or a file cannot be written.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        for file in &self.files {
            let path = directory.join(&file.name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, &file.text)?;
        }
        Ok(())
    }

    /// Replaces each file in `directory` atomically: a reader sees either the old or the new content.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn replace(&self, directory: &Path) -> std::io::Result<()> {
        for file in &self.files {
            let path = directory.join(&file.name);
            let mut aside = path.clone().into_os_string();
            aside.push(".new");
            std::fs::write(&aside, &file.text)?;
            std::fs::rename(&aside, path)?;
        }
        Ok(())
    }

    /// True if a file or the command contains this text.
    pub fn mentions(&self, text: &str) -> bool {
        let mut texts = self.files.iter().map(|file| &file.text).chain(&self.start);
        texts.any(|one| one.contains(text)) || self.environment.values().any(|value| value.contains(text))
    }

    /// Copy of these files without secrets.
    #[must_use]
    pub fn redacted(&self, made: &Credentials) -> Self {
        let file = |file: &RenderedFile| RenderedFile { text: made.redact(&file.text), ..file.clone() };
        Self { files: self.files.iter().map(file).collect(), ..self.clone() }
    }

    /// The digest of each file, by file name.
    pub fn digests(&self) -> BTreeMap<String, String> {
        self.files.iter().map(|file| (file.name.clone(), file.digest.clone())).collect()
    }
}

/// Renders all templates of `pack`.
///
/// # Errors
/// If a template is wrong or uses an unknown variable. The error contains the position.
pub fn render(pack: &Pack, variables: &Variables) -> Result<Rendered, PackError> {
    let manifest = pack.manifest();
    let (profile, asked) = (variables.profile, variables.asked.as_slice());
    let canonical = variables.canonical();
    let thought_of = |(name, places): (&'_ String, &'_ Vec<String>)| (name.clone(), places[0].clone());
    let canonical = Known::new(&canonical, manifest.needs.iter().map(thought_of).collect());
    let variables = &Known::new(variables, pack.needed());
    let mut files = Vec::new();
    for file in &manifest.files {
        let source = pack.template(&file.template)?;
        let template = Template { file: pack.path_of(&file.template), source, first_line: 1 };
        let text = template.render(variables)?;
        // A file that only some features need renders to an empty text if these features are off.
        if text.trim().is_empty() {
            continue;
        }
        let digest = digest(&template.render(&canonical)?);
        files.push(RenderedFile { name: file.to.clone(), text, digest });
    }
    let docker = manifest.docker.as_ref().filter(|_| variables.variables.container);
    let start = docker.and_then(|docker| docker.start.as_ref()).unwrap_or(&manifest.start);
    let mut start = render_all(pack, start, variables)?;
    start.retain(|argument| !argument.is_empty());
    let mut environment = BTreeMap::new();
    let there = docker.map(|docker| docker.environment.iter()).into_iter().flatten();
    for (name, value) in manifest.environment.iter().chain(there) {
        environment.insert(name.clone(), render_inline(pack, value, variables)?);
    }
    let differing = match profile {
        Profile::Stock => &manifest.settings.stock,
        Profile::Equalised => &manifest.settings.equalised,
    };
    let brought = asked.iter().filter_map(|feature| manifest.settings.features.get(feature.name()));
    let mut settings = Vec::new();
    for text in differing.iter().chain(brought.flatten()) {
        let setting = render_inline(pack, &text.setting, variables)?;
        if !setting.is_empty() {
            settings.push(Setting { setting, reason: text.reason.clone() });
        }
    }
    let ready_path = render_inline(pack, &manifest.ready.path, variables)?;
    let mut llm_headers = Vec::new();
    let llm = manifest.llm_of(variables.variables.variant.as_deref());
    for (name, value) in llm.into_iter().flat_map(|llm| &llm.headers) {
        let value = render_inline(pack, value, variables)?;
        // A header that only some variants need renders to an empty text in the others.
        if !value.is_empty() {
            llm_headers.push((name.clone(), value));
        }
    }
    Ok(Rendered { files, start, environment, settings, ready_path, llm_headers })
}

/// Renders the environment variables that the gateway gets for passes under a profiler.
///
/// # Errors
/// If a template is wrong or uses an unknown variable.
pub fn profiling_environment(
    pack: &Pack,
    variables: &Variables,
) -> Result<BTreeMap<String, String>, PackError> {
    let known = &Known::new(variables, pack.needed());
    let all = pack.manifest().profiling.environment.iter();
    all.map(|(name, value)| Ok((name.clone(), render_inline(pack, value, known)?))).collect()
}

/// How to make a gateway reload its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// Send this signal to the gateway's process.
    Signal(StopSignal),
    /// Run this command.
    Command(Vec<String>),
    /// Send a request with this method and path to the admin port.
    Request(String, String),
    /// Do nothing more, because the gateway watches its files.
    Watched,
}

/// Renders the way to reload the gateway of `pack`; `None` if the pack has no key `reload`.
///
/// # Errors
/// If a template is wrong or uses an unknown variable. The error contains the position.
pub fn reload(pack: &Pack, variables: &Variables) -> Result<Option<Reload>, PackError> {
    let Some(way) = &pack.manifest().reload else { return Ok(None) };
    let variables = &Known::new(variables, pack.needed());
    Ok(Some(match (&way.signal, &way.command, &way.request) {
        (Some(signal), ..) => Reload::Signal(signal.parse().unwrap_or(StopSignal::TERM)),
        (_, Some(command), _) => Reload::Command(render_all(pack, command, variables)?),
        (.., Some(request)) => {
            Reload::Request(request.method.clone(), render_inline(pack, &request.path, variables)?)
        }
        _ => Reload::Watched,
    }))
}

/// Renders the version command, which may use only the variable `binary`.
///
/// # Errors
/// If a template is wrong or uses another variable.
pub fn version_command(pack: &Pack, binary: &Path) -> Result<Vec<String>, PackError> {
    #[derive(Serialize)]
    struct Program<'a> {
        binary: &'a Path,
    }
    render_all(pack, &pack.manifest().version.command, &Program { binary })
}

fn render_all<V: Serialize>(
    pack: &Pack,
    templates: &[String],
    variables: &V,
) -> Result<Vec<String>, PackError> {
    templates.iter().map(|template| render_inline(pack, template, variables)).collect()
}

/// Renders a template that is part of `gateway.yaml` itself.
fn render_inline<V: Serialize>(pack: &Pack, source: &str, variables: &V) -> Result<String, PackError> {
    if !source.contains('{') {
        return Ok(source.to_owned());
    }
    let file = pack.path_of(super::packs::MANIFEST);
    Template { file, source, first_line: pack.line_of(source) }.render(variables)
}

/// The filter `bcrypt`. The hash is not a field of the consumer, because few gateways need hashes, and
/// hashing 10,000 passwords takes seconds.
fn bcrypt(password: &str) -> Result<String, minijinja::Error> {
    passwords::bcrypt(password).map_err(|error| {
        minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, "cannot hash this password")
            .with_source(error)
    })
}

struct Template<'a> {
    file: String,
    source: &'a str,
    /// Line of `file` on which the template begins.
    first_line: usize,
}

impl Template<'_> {
    fn render<V: Serialize>(&self, variables: &V) -> Result<String, PackError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_keep_trailing_newline(true);
        environment.add_filter("bcrypt", bcrypt);
        let compiled = environment.template_from_str(self.source).map_err(|error| self.refuse(&error))?;
        let text = compiled.render(variables).map_err(|error| self.refuse(&error))?;
        Ok(text)
    }

    fn refuse(&self, error: &minijinja::Error) -> PackError {
        let used = error.range().and_then(|range| whole_name(self.source, range));
        let message = match (error.kind(), used) {
            (minijinja::ErrorKind::UndefinedError, Some(used)) => {
                format!("`{used}` is not defined")
            }
            (kind, _) => match error.detail() {
                Some(detail) => format!("{kind}: {detail}"),
                None => kind.to_string(),
            },
        };
        let help = (error.kind() == minijinja::ErrorKind::UndefinedError).then(|| did_you_mean(used));
        let line = error.line().map(|line| self.first_line + line - 1);
        PackError { file: self.file.clone(), line, message, help }
    }
}

/// The text of an expression in `source`. The engine's range of a chain such as `a.b.c` leaves out its
/// beginning, which this function adds.
fn whole_name(source: &str, range: std::ops::Range<usize>) -> Option<&str> {
    let used = source.get(range.clone())?.trim();
    if !used.starts_with(['.', '[']) {
        return Some(used);
    }
    let in_name = |letter: char| letter.is_alphanumeric() || "_.[]\"'".contains(letter);
    let before = source.get(..range.start)?;
    let begins = before.trim_end_matches(in_name).len();
    let whole = source.get(begins..range.end)?.trim();
    Some(whole.trim_start_matches(|letter: char| !(letter.is_alphanumeric() || letter == '_')))
}

/// Names the variable that is most similar to the unknown one, and lists all variables.
fn did_you_mean(used: Option<&str>) -> String {
    let names = Variables::names();
    let word = used.map(|used| used.split(['.', '[', '|', ' ']).next().unwrap_or(used));
    let nearest = word.and_then(|word| nearest(word, names.iter().map(String::as_str)));
    let list = names.join(", ");
    match nearest {
        Some(name) if Some(name) != word => format!("did you mean `{name}`? The variables are {list}"),
        _ => format!("the variables are {list}"),
    }
}

/// Whether a relative path stays within its base directory.
pub(crate) fn stays_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests;

//! Gateways started from packs.

use super::hand::Tools;
use super::service::{Started, how};
use super::{ProcessDriver, failed_to_start};
use crate::lab::counters::Counters;
use crate::lab::features::{self, Change, FeatureVariables};
use crate::lab::guard::StopSignal;
use crate::lab::guarded::{Guarded, Launch};
use crate::lab::packs::manifest::{AccessLogTo, CounterSpec, ReadyPort};
use crate::lab::packs::{Pack, PackError, binary};
use crate::lab::ports::{Ports, local};
use crate::lab::readiness::{self, NotReady, Probe};
use crate::lab::render::{self, ACCESS_LOG, Rendered, UpstreamAddress, Variables};
use crate::lab::{Facts, Service, logs};
use crate::plan::{AccessLog, Feature, Gateway, GatewayKind, Profile, Upstream, units};
use crate::record::{Counter, Failure, Stage};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often other ports are tried when a gateway finds its own taken between hoptax's letting go and its taking them.
const PORT_ATTEMPTS: u32 = 3;

/// What stays the same over the attempts to start one gateway.
struct Attempt<'a> {
    driver: &'a ProcessDriver,
    pack: &'a Pack,
    label: &'a str,
    binary: PathBuf,
    workers: u32,
    features: &'a [Feature],
    upstreams: &'a [SocketAddr],
    /// Configuration and working directory: [`Self::shown`], or a private one where it holds secrets.
    directory: PathBuf,
    /// `rendered/<label>`: the configuration as it may be kept.
    shown: PathBuf,
    log_directory: PathBuf,
}

impl ProcessDriver {
    /// Starts the pack called `pack` as `label`.
    pub(super) fn start_pack(
        &self,
        label: &str,
        pack: &str,
        workers: u32,
        features: &[Feature],
        upstreams: &[SocketAddr],
    ) -> Result<Box<dyn Service>, Failure> {
        let pack = self.packs.get(pack).ok_or_else(|| Failure {
            stage: Stage::Missing,
            message: format!("there is no pack `{pack}`; there are {}", self.packs.names().join(", ")),
            detail: String::new(),
        })?;
        self.refuse_unsupported(pack, workers, features)?;
        let binary = binary::find(pack).ok_or_else(|| not_installed(pack))?;
        let attempt = self.attempt(label, pack, workers, features, upstreams, binary);
        let mut attempts_left = PORT_ATTEMPTS;
        loop {
            attempts_left -= 1;
            match attempt.start() {
                Ok(started) => return Ok(Box::new(started)),
                Err(failure) if attempts_left > 0 && logs::tells_of_taken_port(&failure.detail) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// What a gateway of a pack would be started with; ports are stand-ins, and the program is called by its bare name
    /// where it is not installed.
    ///
    /// # Errors
    /// If there is no such pack, or a template of it is wrong.
    ///
    /// # Panics
    /// If `gateway` is not started from a pack.
    pub fn preview(&self, gateway: &Gateway) -> Result<Rendered, PackError> {
        let GatewayKind::Pack { pack, workers, features, instances } = &gateway.kind else {
            panic!("`{}` is not started from a pack", gateway.label)
        };
        let pack = self.packs.get(pack).ok_or_else(|| PackError {
            file: String::new(),
            line: None,
            message: format!("there is no pack `{pack}`; there are {}", self.packs.names().join(", ")),
            help: None,
        })?;
        let binary = binary::find(pack).unwrap_or_else(|| pack.manifest().binary.clone().into());
        let there = match &self.upstream {
            Upstream::BuiltIn(upstream) => upstream.instances,
            Upstream::Running { .. } => 1,
        };
        let there = instances.unwrap_or(there).min(there);
        let sample = Variables::sample(self.profile, None);
        let upstreams: Vec<_> =
            (0..).map(|index| local(sample.admin_port + 1 + index)).take(there as usize).collect();
        let attempt = self.attempt(&gateway.label, pack, *workers, features, &upstreams, binary);
        render::render(pack, &attempt.variables(sample.port, sample.admin_port))
    }

    fn attempt<'a>(
        &'a self,
        label: &'a str,
        pack: &'a Pack,
        workers: u32,
        features: &'a [Feature],
        upstreams: &'a [SocketAddr],
        binary: PathBuf,
    ) -> Attempt<'a> {
        Attempt {
            driver: self,
            pack,
            label,
            binary,
            workers,
            features,
            upstreams,
            directory: match features::needs_credentials(features) {
                true => self.private_directory.join(label),
                false => self.run_directory.join("rendered").join(label),
            },
            shown: self.run_directory.join("rendered").join(label),
            log_directory: self.log_directory(label),
        }
    }

    fn refuse_unsupported(&self, pack: &Pack, workers: u32, features: &[Feature]) -> Result<(), Failure> {
        let manifest = pack.manifest();
        let several = (workers != 1 && self.profile == Profile::Equalised).then_some("workers");
        let log = (self.access_log == AccessLog::File).then_some("access_log");
        let asked = features.iter().map(|feature| feature.name()).chain(several).chain(log);
        for what in asked {
            if let Some(reason) = manifest.unsupported.get(what) {
                let message = format!("{} does not support `{what}`: {reason}", pack.name());
                return Err(Failure { stage: Stage::Start, message, detail: String::new() });
            }
        }
        Ok(())
    }
}

fn not_installed(pack: &Pack) -> Failure {
    let tools = binary::tools_directory().map_or_else(String::new, |tools| format!(", {}", tools.display()));
    let ways = binary::how_to_install(pack);
    let how =
        if ways.is_empty() { "its pack does not say how to install it".into() } else { ways.join("; ") };
    Failure {
        stage: Stage::Missing,
        message: format!(
            "{} is not installed: there is no `{}` on PATH{tools} or in /usr/sbin. Install it ({how}) or leave it out",
            pack.name(),
            pack.manifest().binary
        ),
        detail: String::new(),
    }
}

impl Attempt<'_> {
    fn start(&self) -> Result<Started, Failure> {
        let ports = Ports::take(2).map_err(|error| self.fail(format!("no free port: {error}")))?;
        let numbers = ports.numbers().map_err(|error| self.fail(format!("no free port: {error}")))?;
        let [port, admin_port] = numbers[..] else { unreachable!("two were taken") };
        let variables = self.variables(port, admin_port);
        let rendered = render::render(self.pack, &variables).map_err(|e| self.fail(e))?;
        let version = binary::version(self.pack, &self.binary).map_err(|error| self.fail(error))?;
        self.write(&rendered).map_err(|(place, error)| {
            self.fail(format!("cannot write its configuration to {}: {error}", place.display()))
        })?;
        let launch = self.launch(&rendered);
        drop(ports);
        let mut guarded = Guarded::start(&self.driver.exe, &launch)
            .map_err(|error| self.fail(format!("{} could not be started: {error}", self.label)))?;
        let probe = self.probe(&rendered, port, admin_port);
        self.await_ready(&mut guarded, &probe)?;
        let tools = Tools::new(self.pack, self.features, variables, probe);
        Ok(Started {
            name: self.label.to_owned(),
            addresses: vec![local(port)],
            facts: self.facts(version, &rendered),
            guarded,
            log_directory: self.log_directory.clone(),
            control: None,
            counters: Some(Counters::new(
                &self.pack.manifest().counters,
                local(admin_port),
                &self.log_directory,
            )),
            tools: Some(tools),
            _stdout: None,
        })
    }

    /// Writes the configuration where the gateway reads it, and where it is kept.
    fn write(&self, rendered: &Rendered) -> Result<(), (&Path, std::io::Error)> {
        rendered.write(&self.directory).map_err(|error| (self.directory.as_path(), error))?;
        if self.directory != self.shown {
            let made = &self.driver.credentials;
            features::write_files(self.features, made, &self.directory)
                .map_err(|error| (self.directory.as_path(), error))?;
            rendered.redacted(made).write(&self.shown).map_err(|error| (self.shown.as_path(), error))?;
        }
        Ok(())
    }

    fn facts(&self, version: Option<String>, rendered: &Rendered) -> Facts {
        // In the stock profile the gateway decides for itself.
        let workers = (self.driver.profile == Profile::Equalised).then_some(self.workers);
        let counter = |spec: &CounterSpec| Counter {
            name: spec.name.clone(),
            meaning: spec.meaning.clone(),
            overflow: spec.overflow,
            advice: spec.advice.clone(),
        };
        Facts {
            version,
            workers,
            settings: rendered.settings.clone(),
            counters: self.pack.manifest().counters.iter().map(counter).collect(),
            rendered: rendered.digests(),
            change: Change::new(self.features, &self.driver.credentials),
        }
    }

    fn access_log(&self) -> Option<PathBuf> {
        let asked = self.driver.access_log == AccessLog::File || self.features.contains(&Feature::AccessLog);
        asked.then(|| self.log_directory.join(ACCESS_LOG))
    }

    fn variables(&self, port: u16, admin_port: u16) -> Variables {
        let upstream =
            |address: &SocketAddr| UpstreamAddress { host: address.ip().to_string(), port: address.port() };
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Variables {
            binary: text(&self.binary),
            port,
            admin_port,
            upstreams: self.upstreams.iter().map(upstream).collect(),
            workers: self.workers,
            profile: self.driver.profile,
            access_log: self.access_log().as_deref().map(text),
            dir: text(&self.directory),
            log_dir: text(&self.log_directory),
            connections: self.driver.connections,
            cpus: self.driver.cpus.gateway.clone(),
            features: FeatureVariables::new(self.features, &self.driver.credentials, &text(&self.directory)),
            asked: self.features.to_vec(),
            descriptors: crate::lab::descriptors::limit(),
            root: rustix::process::geteuid().is_root(),
            reloadable: self
                .driver
                .events
                .iter()
                .any(|event| event.action.reloads() && event.concerns(Some(self.label))),
        }
    }

    fn launch(&self, rendered: &Rendered) -> Launch {
        let manifest = self.pack.manifest();
        let to_stdout = manifest.access_log == Some(AccessLogTo::Stdout);
        let access_log = self.access_log().filter(|_| to_stdout);
        let (program, arguments) = rendered.start.split_first().expect("checked with the pack");
        Launch {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: rendered.environment.clone(),
            directory: Some(self.directory.clone()),
            cpus: self.driver.cpus.gateway.clone(),
            stop_signal: manifest.stop.signal.parse().unwrap_or(StopSignal::TERM),
            grace: duration(&manifest.stop.grace),
            stdout: Some(access_log.unwrap_or_else(|| self.log_directory.join("stdout.log"))),
            stderr: self.log_directory.join("stderr.log"),
        }
    }

    fn probe(&self, rendered: &Rendered, port: u16, admin_port: u16) -> Probe {
        let ready = &self.pack.manifest().ready;
        let asked = match ready.port {
            ReadyPort::Main => port,
            ReadyPort::Admin => admin_port,
        };
        Probe {
            address: local(asked),
            path: rendered.ready_path.clone(),
            status: ready.status,
            accepting: local(port),
            timeout: duration(&ready.timeout),
        }
    }

    fn await_ready(&self, guarded: &mut Guarded, probe: &Probe) -> Result<(), Failure> {
        let interrupted = || self.driver.interrupted.load(Ordering::Relaxed);
        let outcome = readiness::wait(probe, || guarded.ended().is_some() || interrupted());
        let met = match outcome {
            Ok(()) => return Ok(()),
            Err(NotReady::Ended) if interrupted() => {
                guarded.stop();
                format!("{}: a signal came before it was ready", self.label)
            }
            Err(NotReady::Ended) => {
                let how = guarded.ended().map_or_else(|| "ended".to_owned(), how);
                format!("{} {how} before it was ready", self.label)
            }
            Err(NotReady::TimedOut(met)) => {
                // What it says on its way out may be what is wrong with it.
                guarded.stop();
                let bound = &self.pack.manifest().ready.timeout;
                format!("{} was not ready within {bound}: {met}", self.label)
            }
        };
        Err(self.fail(met))
    }

    /// A failure that quotes the last log lines and names the rendered files.
    fn fail(&self, message: impl std::fmt::Display) -> Failure {
        let mut failure = failed_to_start(message, &self.log_directory);
        if self.shown.exists() {
            failure.message += &format!(". Its rendered configuration is in {}", self.shown.display());
        }
        let made = &self.driver.credentials;
        Failure { message: made.redact(&failure.message), detail: made.redact(&failure.detail), ..failure }
    }
}

fn duration(text: &str) -> Duration {
    units::duration(text).expect("checked with the pack")
}

//! Performs a plan's events on services of this machine.

use crate::features::{changed_prefix, place_of};
use crate::packs::Pack;
use crate::render::{self, Reload, Variables};
use crate::{Controller, Effect};
use hoptax_format::clock;
use hoptax_host::guarded::RestartHandle;
use hoptax_host::ports::local;
use hoptax_host::programs::kill_group;
use hoptax_plan::{Action, Feature, RoutePosition};
use hoptax_servers::http_client::HttpClient;
use hoptax_servers::readiness::{self, NotReady, Probe};
use hoptax_servers::upstream;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit for a command that reloads a gateway. Some gateways check thousands of routes before they
/// reload.
const COMMAND_BOUND: Duration = Duration::from_secs(30);

/// Time limit for reading a page of metrics, and the number of bytes to read of it. Prometheus also waits 10
/// s.
const SCRAPE_BOUND: Duration = Duration::from_secs(10);
const MOST_METRICS: usize = 64 << 20;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The pack, variables and probe that are needed to change a running gateway.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    pack: Arc<Pack>,
    variables: Arc<Variables>,
    routes: u32,
    probe: Probe,
    /// Number of routes added so far. Each added route gets a new name, so a gateway cannot know the name
    /// from an earlier trial.
    given: Arc<AtomicU32>,
}

impl Tools {
    pub(super) fn new(pack: &Pack, features: &[Feature], variables: Variables, probe: Probe) -> Self {
        let routes = features.iter().find_map(|feature| match feature {
            Feature::Routes { count, .. } => Some(*count),
            _ => None,
        });
        Self {
            pack: Arc::new(pack.clone()),
            variables: Arc::new(variables),
            routes: routes.unwrap_or(0),
            probe,
            given: Arc::default(),
        }
    }

    fn directory(&self) -> &Path {
        Path::new(&self.variables.dir)
    }

    /// Adds a route with a new name. For this, replaces the gateway's files by files that have one more route
    /// than the plan.
    fn add_route(&self, ask: RoutePosition) -> Result<String, String> {
        let prefix = changed_prefix(self.given.fetch_add(1, Ordering::Relaxed) + 1);
        let mut variables = (*self.variables).clone();
        let index = match ask {
            RoutePosition::Last => self.routes as usize,
            _ => place_of(ask, self.routes) as usize,
        };
        variables.features.routes.insert(index, prefix.clone());
        let rendered = render::render(&self.pack, &variables).map_err(|error| error.to_string())?;
        rendered
            .replace(self.directory())
            .map_err(|error| format!("cannot write to {}: {error}", self.directory().display()))?;
        Ok(prefix)
    }
}

pub(super) struct GatewayController {
    pub(super) tools: Tools,
    pub(super) handle: RestartHandle,
}

impl GatewayController {
    /// Reloads the gateway. Its files were replaced at `replaced_ns`. Returns the time right before the
    /// gateway was asked.
    fn reload(&self, replaced_ns: u64) -> Result<u64, String> {
        let tools = &self.tools;
        let way = render::reload(&tools.pack, &tools.variables).map_err(|error| error.to_string())?;
        let mut began_ns = clock::now();
        match way.ok_or("its pack has no key `reload`")? {
            // The gateway can notice its files as soon as they are replaced.
            Reload::Watched => began_ns = replaced_ns,
            Reload::Signal(signal) => {
                let pid = self.handle.command().ok_or("it has ended")?;
                began_ns = clock::now();
                signal.send(pid).map_err(|error| format!("cannot send SIG{}: {error}", signal.name()))?;
            }
            Reload::Command(command) => run(&command, tools.directory())?,
            Reload::Request(method, path) => {
                let address = local(tools.variables.admin_port);
                match readiness::send(address, &method, &path, &[]) {
                    Ok(status) if (200..300).contains(&status) => {}
                    Ok(status) => return Err(format!("{method} {path} returned status {status}")),
                    Err(error) => return Err(format!("{method} http://{address}{path}: {error}")),
                }
            }
        }
        Ok(began_ns)
    }

    fn scrape(&self) -> Result<(), String> {
        let path = self.tools.pack.manifest().metrics.as_deref().ok_or("its pack has no key `metrics`")?;
        let address = local(self.tools.variables.admin_port);
        let page = HttpClient::plain(address, SCRAPE_BOUND).get(path, MOST_METRICS);
        page.map(drop).map_err(|error| format!("GET http://{address}{path}: {error:#}"))
    }

    fn restart(&mut self) -> Result<(), String> {
        self.handle.restart().map_err(|error| format!("it could not be restarted: {error}"))?;
        let handle = &self.handle;
        readiness::wait(&self.tools.probe, || handle.command().is_none()).map_err(|met| match met {
            NotReady::Ended => "it ended before it was ready again".to_owned(),
            NotReady::TimedOut(met) => format!("it was not ready again in time: {met}"),
        })
    }
}

impl Controller for GatewayController {
    fn act(&mut self, action: Action) -> Result<Effect, String> {
        match action {
            Action::Reload => {
                // A gateway that watches its files reloads only when a file changes. So write the files
                // again.
                let rendered = render::render(&self.tools.pack, &self.tools.variables);
                let rendered = rendered.map_err(|error| error.to_string())?;
                let directory = self.tools.directory();
                let replaced_ns = clock::now();
                rendered
                    .replace(directory)
                    .map_err(|error| format!("cannot write to {}: {error}", directory.display()))?;
                let began_ns = self.reload(replaced_ns)?;
                Ok(Effect { reload_began_ns: Some(began_ns), ..Effect::default() })
            }
            Action::ChangeRoute { route } => {
                let replaced_ns = clock::now();
                let new_route = self.tools.add_route(route)?;
                let began_ns = self.reload(replaced_ns)?;
                Ok(Effect { new_route: Some(new_route), reload_began_ns: Some(began_ns) })
            }
            Action::RestartGateway => self.restart().map(|()| Effect::default()),
            Action::Scrape => self.scrape().map(|()| Effect::default()),
            Action::RestartUpstream { .. } => Err("a gateway cannot restart the upstream".into()),
        }
    }

    fn can_reload(&self) -> bool {
        matches!(render::reload(&self.tools.pack, &self.tools.variables), Ok(Some(_)))
    }
}

/// Runs a command until it ends, within a time limit. If the command fails, the error contains its output.
fn run(command: &[String], directory: &Path) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("the command is empty")?;
    let log = directory.join("reload.log");
    let said = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let also = said.try_clone().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(said)
        .stderr(also)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start `{program}`: {error}"))?;
    let deadline = Instant::now() + COMMAND_BOUND;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("`{}` failed ({status}): {}", command.join(" "), said.trim()));
            }
            None if Instant::now() > deadline => {
                // This also kills processes that the command has started.
                kill_group(&child);
                let _ = child.wait();
                return Err(format!("`{}` took longer than {COMMAND_BOUND:?}", command.join(" ")));
            }
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

pub(super) struct UpstreamController {
    pub(super) control: SocketAddr,
}

impl Controller for UpstreamController {
    fn act(&mut self, action: Action) -> Result<Effect, String> {
        let Action::RestartUpstream { instance, down } = action else {
            return Err("only a gateway can do that".into());
        };
        let tell = |what| upstream::send_order(self.control, instance, what);
        tell(upstream::Order::Close).map_err(|error| format!("{error:#}"))?;
        std::thread::sleep(down);
        tell(upstream::Order::Open).map_err(|error| format!("{error:#}"))?;
        Ok(Effect::default())
    }
}

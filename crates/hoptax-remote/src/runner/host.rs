//! A host of a run, as the runner sees it: the command that leads to its agent, and the settings that the
//! agent needs.

use super::agent_channel::{AgentChannel, PROMPT};
use crate::protocol::files;
use crate::protocol::message::{KeptFile, Prepare, Request, RunId, Welcome};
use hoptax_format::clock;
use hoptax_host::probe::fitness::Moment;
use hoptax_record::{Failure, HostLook, Stage};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time limit for making a host ready. Files of the plan may be large, and links slow.
const PREPARE: Duration = Duration::from_secs(10 * 60);

/// Time limit for collecting the files of a host. They are at most some tens of MiB.
const COLLECT: Duration = Duration::from_secs(120);

/// A trial waits this long for a host that was lost, ns. A machine starts again within a minute.
const PATIENCE_NS: u64 = 60 * clock::SECOND;
/// A run waits this long in all, ns. After that, trials that need the host fail at once.
const WAIT_AT_MOST_NS: u64 = 180 * clock::SECOND;
/// Time between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// A host with an agent. If its agent is lost, the next use starts another agent. The services of the lost
/// agent have ended by then.
#[derive(Debug)]
pub struct Host {
    name: String,
    command: Vec<String>,
    address: Option<IpAddr>,
    run: RunId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    link: Arc<AgentChannel>,
    prepare: Option<Prepare>,
    /// Set by a signal. It ends all waiting for the host.
    interrupted: Arc<AtomicBool>,
    /// How long trials have waited for the host in vain, ns.
    waited_ns: u64,
}

impl Host {
    /// Connects to a host.
    ///
    /// `command` leads to its agent: `ssh edge hoptax agent`. `address` is the address at which the other
    /// hosts reach it; it may be absent if the host only sends load.
    ///
    /// # Errors
    /// If the command does not lead to an agent of this version, or another run uses the host.
    pub fn connect(
        name: &str,
        command: &[String],
        address: Option<IpAddr>,
        run: &RunId,
    ) -> Result<Arc<Self>, Failure> {
        let link = Arc::new(AgentChannel::open(name, command, run)?);
        Ok(Arc::new(Self {
            name: name.to_owned(),
            command: command.to_vec(),
            address,
            run: run.clone(),
            state: Mutex::new(State { link, prepare: None, interrupted: Arc::default(), waited_ns: 0 }),
        }))
    }

    /// The host's name in the plan.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The command that leads to its agent.
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// The address at which the other hosts reach it.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// What the agent said about its host.
    pub fn welcome(&self) -> Welcome {
        self.state().link.welcome().clone()
    }

    /// The link to the host's agent. If the agent was lost, waits for the host, starts another agent, and
    /// makes it ready for the run.
    ///
    /// # Errors
    /// If the host cannot be reached.
    pub fn link(&self) -> Result<Arc<AgentChannel>, Failure> {
        let mut state = self.state();
        if state.link.is_alive() {
            return Ok(Arc::clone(&state.link));
        }
        let begun = clock::now();
        let left_ns = WAIT_AT_MOST_NS.saturating_sub(state.waited_ns).min(PATIENCE_NS);
        loop {
            let failure = match self.connect_again(state.prepare.as_ref()) {
                Ok(link) => {
                    state.link = Arc::clone(&link);
                    state.waited_ns = 0;
                    return Ok(link);
                }
                Err(failure) => failure,
            };
            let waited_ns = clock::now() - begun;
            if waited_ns > left_ns || state.interrupted.load(Ordering::Relaxed) {
                state.waited_ns += waited_ns;
                return Err(failure);
            }
            thread::sleep(AGAIN);
        }
    }

    fn connect_again(&self, prepare: Option<&Prepare>) -> Result<Arc<AgentChannel>, Failure> {
        let link = AgentChannel::open(&self.name, &self.command, &self.run)?;
        if let Some(prepare) = prepare {
            link.ask::<()>(Request::Prepare(Box::new(prepare.clone())), PREPARE)?;
        }
        Ok(Arc::new(link))
    }

    /// Makes the host ready for a run. `interrupted` is the flag that ends the run. Fails if the host cannot
    /// do what the plan needs, or it is lost.
    pub(super) fn prepare(&self, prepare: Prepare, interrupted: &Arc<AtomicBool>) -> Result<(), Failure> {
        let link = self.link()?;
        link.ask::<()>(Request::Prepare(Box::new(prepare.clone())), PREPARE)?;
        let mut state = self.state();
        (state.prepare, state.interrupted) = (Some(prepare), Arc::clone(interrupted));
        Ok(())
    }

    /// Checks whether the host is fit for measurements. `None` if it is lost.
    pub fn fitness(&self, moment: Moment) -> Option<HostLook> {
        let link = self.link().ok()?;
        link.ask(Request::Fitness(moment), PROMPT).ok().flatten()
    }

    /// Copies the logs and the rendered configurations of the host to this directory. Must be called after
    /// the services of the run have been stopped, because the guards remove secrets from logs at the end.
    ///
    /// # Errors
    /// If the host is lost, or a file cannot be written.
    pub fn collect_files(&self, directory: &Path) -> Result<(), Failure> {
        let link = Arc::clone(&self.state().link);
        let kept: Vec<KeptFile> = link.ask(Request::Files, COLLECT)?;
        files::write(directory, &kept).map_err(|error| {
            let (host, to) = (&self.name, directory.display());
            Failure::new(Stage::Trial, format!("cannot write the files of host {host} to {to}: {error}"))
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Agents for tests: each test has a temporary directory of its own, so that its agents do not meet those of
//! other tests.

use crate::support::{Scratch, skip};
use crate::world::{exe, packs};
use hoptax_format::clock;
use hoptax_format::spec::LoadSpec;
use hoptax_lab::Service;
use hoptax_lab::fake;
use hoptax_lab::packs::PackSet;
use hoptax_plan::{CpuSets, Gateway, GatewayKind, HopKind, Idle, LoadPoint, Plan};
use hoptax_record::{DirectTrial, Environment};
use hoptax_remote::protocol::RunId;
use hoptax_remote::runner::{Host, HostRef, Hosts, Ready, Setup};
use hoptax_run::schedule::{Contender, Slot};
use hoptax_run::{Contents, Loaded, Run, Traffic, TrialUpdate, WatchedRoles, load_spec};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Difference between the clocks of this machine and of [`Site::elsewhere`], ns.
pub(super) const AHEAD_NS: u64 = 86_400 * clock::SECOND;

/// A directory, and agents whose files are in it.
pub(super) struct Site {
    pub(super) scratch: Scratch,
    run: RunId,
}

/// One generator, and the services.
pub(super) fn hosts_of(generator: HostRef, gateway: HostRef, upstream: HostRef) -> Hosts {
    Hosts { generator, more_generators: Vec::new(), vantages: BTreeMap::new(), gateway, upstream }
}

impl Site {
    pub(super) fn new() -> Self {
        Self { scratch: Scratch::new(), run: RunId::new("this test") }
    }

    /// Id of the run that the site's hosts take part in.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// The command of an agent. It begins with the words of `prefix`, such as `unshare`.
    pub(super) fn command(&self, prefix: &[&str]) -> Vec<String> {
        let temporary = format!("TMPDIR={}", self.scratch.path().display());
        let agent = ["env".to_owned(), temporary, exe().display().to_string(), "agent".to_owned()];
        prefix.iter().map(|word| (*word).to_owned()).chain(agent).collect()
    }

    /// A host that is this machine.
    pub(super) fn near(&self, name: &str) -> Arc<Host> {
        self.connect(name, &[])
    }

    /// A host that looks like another machine to its agent: it has its own processes and another clock.
    /// `None` if this user cannot create the necessary namespaces.
    #[track_caller]
    pub(super) fn elsewhere(&self, name: &str) -> Option<Arc<Host>> {
        let seconds = (AHEAD_NS / clock::SECOND).to_string();
        let prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--time", "--monotonic", &seconds];
        let tried = Command::new(prefix[0]).args(&prefix[1..]).arg("true").output();
        if !tried.is_ok_and(|output| output.status.success()) {
            skip("namespaces of processes and clocks need root");
            return None;
        }
        Some(self.connect(name, &prefix))
    }

    fn connect(&self, name: &str, prefix: &[&str]) -> Arc<Host> {
        let address = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let host = Host::connect(name, &self.command(prefix), address, &self.run);
        host.unwrap_or_else(|failure| panic!("{failure:#?}"))
    }

    /// This process as a host.
    pub(super) fn here(&self) -> HostRef {
        HostRef::Local { name: "here".into(), address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)) }
    }

    pub(super) fn prepare(&self, plan: &Plan, generator: HostRef, services: HostRef) -> Ready {
        let hosts = hosts_of(generator, services.clone(), services);
        self.try_prepare(plan, &hosts).unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub(super) fn try_prepare(&self, plan: &Plan, hosts: &Hosts) -> anyhow::Result<Ready> {
        self.try_prepare_with(plan, hosts, &packs())
    }

    pub(super) fn try_prepare_with(
        &self,
        plan: &Plan,
        hosts: &Hosts,
        packs: &PackSet,
    ) -> anyhow::Result<Ready> {
        self.prepare_all(plan, hosts, packs, false)
    }

    /// Like [`Self::try_prepare`], but the figures of each second are also reported, for a live view.
    pub(super) fn try_prepare_live(&self, plan: &Plan, hosts: &Hosts) -> anyhow::Result<Ready> {
        self.prepare_all(plan, hosts, &packs(), true)
    }

    fn prepare_all(&self, plan: &Plan, hosts: &Hosts, packs: &PackSet, live: bool) -> anyhow::Result<Ready> {
        let run_directory = self.scratch.path().join("results");
        std::fs::create_dir_all(&run_directory).expect("made");
        let setup = Setup {
            plan,
            packs,
            exe: exe(),
            run_directory: &run_directory,
            interrupted: Arc::default(),
            live,
        };
        hosts.prepare(setup)
    }

    /// Process ids of the agents of this site, and of everything that they have started.
    pub(super) fn processes(&self) -> Vec<(u32, String)> {
        let mark = format!("TMPDIR={}", self.scratch.path().display());
        let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            let is_ours = environment.split(|&byte| byte == 0).any(|one| one == mark.as_bytes());
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|_| is_ours)?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            (!command.is_empty()).then_some((pid, command.trim().to_owned()))
        })
        .collect()
    }

    /// The only agent of this site.
    pub(super) fn agent(&self) -> u32 {
        let agents: Vec<_> =
            self.processes().into_iter().filter(|(_, command)| command.ends_with("hoptax agent")).collect();
        let [(pid, _)] = agents[..] else { panic!("one agent: {agents:?}") };
        pid
    }

    /// The directories that agents have made.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let name = format!("hoptax-agent-{}", rustix::process::geteuid().as_raw());
        let entries = std::fs::read_dir(self.scratch.path().join(name)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Only a failed test leaves processes.
        for (pid, _) in self.processes() {
            signal(pid, Signal::KILL);
        }
    }
}

pub(super) fn signal(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid above zero"), signal);
}

/// A plan with `hop-l7` and one load point.
pub(super) fn plan(load: LoadPoint) -> Plan {
    let hop = Gateway { label: "hop".into(), kind: GatewayKind::Hop(HopKind::L7) };
    Plan { load: vec![load], idle: Some(Idle::Sleep), ..fake::plan(vec![hop], 1) }
}

/// The spec of the plan's load for a service.
pub(super) fn spec(plan: &Plan, service: &dyn Service) -> LoadSpec {
    let interrupted = AtomicBool::new(false);
    let run = run(plan, &interrupted);
    let slot = Slot { round: 0, load: 0, contender: Contender::Direct(DirectTrial::First), step: None };
    load_spec(&run, &slot, service.addresses().to_vec())
}

pub(super) fn run<'a>(plan: &'a Plan, interrupted: &'a AtomicBool) -> Run<'a> {
    Run {
        plan,
        plan_text: String::new(),
        command: Vec::new(),
        contents: Contents::default(),
        seed: 7,
        cpus: CpuSets::default(),
        environment: Environment::default(),
        hosts: BTreeMap::new(),
        look: &|_| None,
        shares: hoptax_record::Shares::BUILT_IN,
        look_at_others: &|_| BTreeMap::new(),
        interrupted,
    }
}

/// The upstream and the hop of a plan. They are stopped even if the test fails.
pub(super) struct Services {
    pub(super) upstream: Box<dyn Service>,
    pub(super) hop: Box<dyn Service>,
}

impl Services {
    pub(super) fn start(plan: &Plan, ready: &mut Ready) -> Self {
        use hoptax_lab::Driver as _;
        let upstream = ready.driver.start_upstream().unwrap_or_else(|failure| panic!("{failure:#?}"));
        let hop = ready.driver.start_gateway(&plan.gateways[0], &upstream.endpoints());
        Self { upstream, hop: hop.unwrap_or_else(|failure| panic!("{failure:#?}")) }
    }

    pub(super) fn watched(&self) -> WatchedRoles {
        WatchedRoles { upstream: self.upstream.process(), gateway: self.hop.process() }
    }

    /// Sends the plan's load to the hop.
    pub(super) fn load(
        &self,
        plan: &Plan,
        traffic: &mut dyn Traffic,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded {
        traffic.load(None, &spec(plan, &*self.hop), &self.watched(), &AtomicBool::new(false), report)
    }
}

pub(super) fn closed(duration: Duration) -> LoadPoint {
    LoadPoint::closed(4, duration)
}

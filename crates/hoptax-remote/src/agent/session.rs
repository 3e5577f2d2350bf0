//! One run on this host: what the main thread of an agent owns, and how it handles requests.

use super::answers::Answers;
use super::input::Job;
use super::jobs::Handle;
use super::place::Place;
use super::services::ServicesById;
use crate::protocol::greeting::Versions;
use crate::protocol::inspection::Inspection;
use crate::protocol::message::{
    Hello, Inspect, KeptFile, Prepare, Request, Services, Started, Verify, Welcome,
};
use crate::protocol::{files, machine};
use anyhow::Context as _;
use hoptax_format::Address;
use hoptax_format::stamp::ClockId;
use hoptax_host::idle::{self, Polling};
use hoptax_host::probe::{self, fitness};
use hoptax_host::profile::Span;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::{ProcessDriver, Secrets};
use hoptax_lab::{Driver as _, Service};
use hoptax_plan::{Body, Gateway, Plan, Upstream};
use hoptax_record::plan::Idle;
use hoptax_record::{Failure, Stage, Verified};
use hoptax_run::{LocalTraffic, Recorded, StackRecording, Traffic as _};
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An agent's main thread. Fields are dropped in this order, because services need their files until they
/// have stopped.
pub(super) struct Session {
    answers: Answers,
    /// Interrupts starts of services.
    starting: Arc<AtomicBool>,
    services: ServicesById,
    recordings: BTreeMap<u64, Box<dyn StackRecording>>,
    driver: Option<Starter>,
    traffic: Option<LocalTraffic>,
    _polling: Option<Polling>,
    place: Option<Place>,
}

/// Starts the services of a plan.
struct Starter {
    plan: Plan,
    driver: ProcessDriver,
}

impl Session {
    pub(super) fn new(answers: Answers, starting: Arc<AtomicBool>) -> Self {
        Self {
            answers,
            starting,
            services: ServicesById::default(),
            recordings: BTreeMap::new(),
            driver: None,
            traffic: None,
            _polling: None,
            place: None,
        }
    }

    /// Handles a request. It is answered here or by a thread that starts here.
    pub(super) fn handle(&mut self, mut job: Job) {
        let answers = self.answers.clone();
        let id = job.id;
        let request = std::mem::replace(&mut job.request, Request::Clock);
        let is_early = self.place.is_none() && !matches!(request, Request::Hello(_));
        if is_early {
            return answers.answer::<()>(id, Err(start_failed("the first request must be `Hello`")));
        }
        match request {
            Request::Clock => {}
            Request::Hello(hello) => answers.answer(id, self.hello(&hello)),
            Request::Inspect(inspect) => answers.answer(id, self.inspect(*inspect)),
            Request::Prepare(prepare) => answers.answer(id, self.prepare(*prepare)),
            Request::Fitness(moment) => {
                let look = fitness::at(moment, self.directory());
                answers.answer(id, Ok(Some(look)));
            }
            Request::StartUpstream => answers.answer(id, self.start_upstream()),
            Request::StartGateway { label, upstreams, tls_upstreams, waits } => {
                answers.answer(id, self.start_gateway(&label, &upstreams, tls_upstreams, waits));
            }
            Request::PrepareProfiles => {
                let prepared = self.starter().map(|starter| starter.driver.prepare_profiles());
                answers.answer(id, prepared);
            }
            Request::Service { id: service, request } => {
                self.services.handle(job, service, request, &answers);
            }
            Request::Verify(verify) => answers.answer(id, self.verify(*verify)),
            Request::AskRoute(ask) => Handle::new(job, &answers).ask_route(*ask),
            Request::FirstRequests(asked) => Handle::new(job, &answers).first_requests(*asked),
            Request::Look(roles) => {
                answers.answer(id, self.traffic().map(|traffic| traffic.look(&roles)));
            }
            Request::Load { spec, roles, live } => Handle::new(job, &answers).load(*spec, roles, live),
            Request::Sample { only_network: true, .. } => Handle::new(job, &answers).count_network(),
            Request::Sample { roles, live, .. } => Handle::new(job, &answers).sample(roles, live),
            Request::RecordStacks { gateway, kind, profiling } => {
                let recording =
                    self.traffic().and_then(|traffic| traffic.record_stacks(gateway, kind, &profiling));
                answers
                    .answer(id, recording.map(|recording| self.recordings.insert(id, recording)).map(|_| id));
            }
            Request::FinishStacks { recording, spans } => {
                answers.answer(id, self.finish_stacks(recording, &spans));
            }
            Request::FileSize(path) => {
                answers.answer(id, Ok(fs::metadata(path).map_or(0, |file| file.len())));
            }
            Request::Bandwidth { message_bytes } => {
                answers.answer(id, self.traffic().map(|traffic| traffic.link(message_bytes)));
            }
            Request::OpenReceiver { address, limit } => {
                Handle::new(job, &answers).open_receiver(address, limit);
            }
            Request::MeasureLeg { to, messages, with_bandwidth } => {
                Handle::new(job, &answers).measure_leg(to, messages, with_bandwidth);
            }
            Request::CpuRoundTrip([one, other]) => {
                answers.answer(id, self.traffic().map(|traffic| traffic.cpu_round_trip_ns(one, other)));
            }
            Request::Files => answers.answer::<Vec<KeptFile>>(id, Ok(files::collect(self.directory()))),
        }
    }

    /// Locks this host for the run, and describes the host.
    fn hello(&mut self, hello: &Hello) -> Result<Welcome, Failure> {
        if let Some(what) = hello.versions.mismatch(&Versions::own()) {
            return Err(start_failed(what));
        }
        if self.place.is_some() {
            return Err(start_failed("the request `Hello` was sent twice"));
        }
        let place = Place::take(&hello.run).map_err(|error| start_failed(error.to_string()))?;
        let cpus = hoptax_host::cpus::allowed()
            .map_err(|error| start_failed(format!("cannot find out which CPUs may be used: {error}")))?;
        let traffic = LocalTraffic::new()
            .map_err(|error| start_failed(format!("cannot find the running hoptax program: {error}")))?;
        let directory = place.directory().to_owned();
        (self.place, self.traffic) = (Some(place), Some(traffic));
        Ok(Welcome {
            environment: probe::environment(Idle::Sleep),
            machine: machine::machine(),
            network: machine::network(),
            clock: ClockId::here(),
            cpus,
            can_poll: idle::possible().is_ok(),
            directory,
        })
    }

    fn inspect(&self, inspect: Inspect) -> Result<Inspection, Failure> {
        let inspected = || {
            let packs = packs(self.directory(), &inspect.packs)?;
            let plan = inspect.plan;
            anyhow::Ok(Inspection::here(&plan, &packs, inspect.versions))
        };
        inspected().map_err(|error| start_failed(format!("{error:#}")))
    }

    fn prepare(&mut self, prepare: Prepare) -> Result<(), Failure> {
        self.try_prepare(prepare).map_err(|error| start_failed(format!("{error:#}")))
    }

    fn try_prepare(&mut self, prepare: Prepare) -> anyhow::Result<()> {
        if prepare.idle == Idle::Poll {
            self._polling = Some(Polling::begin().context("cannot make idle CPUs poll")?);
        }
        let Some(services) = prepare.services else { return Ok(()) };
        let directory = self.directory().to_owned();
        let packs = packs(&directory, &services.packs)?;
        let secrets = match services.secrets.clone() {
            Some(secrets) => secrets,
            None => Secrets::unused()?,
        };
        let (cpus, address) = (services.cpus.clone(), services.address);
        let plan = plan(&directory, services)?;
        let driver = ProcessDriver::with_secrets(&plan, packs, &directory, secrets)?
            .with_cpus(cpus)
            .with_address(address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
            .with_interrupt(Arc::clone(&self.starting));
        driver.check_address().map_err(|failure| anyhow::anyhow!(failure.message))?;
        self.driver = Some(Starter { plan, driver });
        Ok(())
    }

    fn start_upstream(&mut self) -> Result<Started, Failure> {
        let starter = self.starter()?;
        let service = starter.driver.start_upstream()?;
        let tls_upstreams = starter.driver.tls_upstreams().to_vec();
        Ok(self.services.add(service, tls_upstreams))
    }

    fn start_gateway(
        &mut self,
        label: &str,
        upstreams: &[Address],
        tls_upstreams: Vec<Address>,
        waits: bool,
    ) -> Result<Started, Failure> {
        let Starter { plan, driver } = self.starter()?;
        let gateway: &Gateway = plan
            .gateways
            .iter()
            .find(|gateway| gateway.label == label)
            .ok_or_else(|| start_failed(format!("the plan has no gateway {label}")))?;
        driver.set_tls_upstreams(tls_upstreams);
        let service: Box<dyn Service> = match waits {
            true => driver.start_gateway(gateway, upstreams)?,
            false => driver.launch_gateway(gateway, upstreams)?,
        };
        Ok(self.services.add(service, Vec::new()))
    }

    fn verify(&mut self, verify: Verify) -> Result<Verified, Failure> {
        let Verify { requests, timeout, direct, gateway, mut change, credentials } = verify;
        change.credentials = credentials.map(Arc::new);
        self.traffic()?.verify(&requests, timeout, &direct, &gateway, &change)
    }

    fn finish_stacks(&mut self, recording: u64, spans: &[Span]) -> Result<Recorded, Failure> {
        let recording = self.recordings.remove(&recording);
        recording.ok_or_else(|| Failure::new(Stage::Trial, "there is no such recording"))?.finish(spans)
    }

    fn starter(&mut self) -> Result<&mut Starter, Failure> {
        self.driver.as_mut().ok_or_else(|| start_failed("this host was not prepared to start services"))
    }

    fn traffic(&mut self) -> Result<&mut LocalTraffic, Failure> {
        self.traffic.as_mut().ok_or_else(|| start_failed("this host was not prepared"))
    }

    fn directory(&self) -> &Path {
        self.place.as_ref().map_or(Path::new("/"), Place::directory)
    }
}

/// The built-in packs, and those that the runner sent.
fn packs(directory: &Path, sent: &BTreeMap<String, BTreeMap<String, String>>) -> anyhow::Result<PackSet> {
    if sent.is_empty() {
        return Ok(PackSet::load(None)?);
    }
    let folder = directory.join("packs");
    for (pack, texts) in sent {
        for (name, text) in texts {
            let path = folder.join(pack).join(name);
            fs::create_dir_all(path.parent().unwrap_or(&folder))
                .and_then(|()| fs::write(&path, text))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(PackSet::load(Some(&folder))?)
}

/// The plan, with the upstream's body in a file of this host.
fn plan(directory: &Path, services: Services) -> anyhow::Result<Plan> {
    let mut plan = services.plan;
    if let (Some(body), Upstream::BuiltIn(upstream)) = (services.upstream_body, &mut plan.upstream) {
        let path = directory.join("upstream-body");
        fs::write(&path, body.0).with_context(|| format!("cannot write {}", path.display()))?;
        upstream.body = Body::File(path);
    }
    Ok(plan)
}

fn start_failed(message: impl Into<String>) -> Failure {
    Failure::new(Stage::Start, message)
}

//! An agent that the test speaks with itself, in frames.

use super::faults::assert_nothing_runs;
use super::site::{Site, closed, plan, signal};
use crate::load::KilledOnDrop;
use crate::support::{PATIENCE, wait_until};
use hoptax_plan::CpuSets;
use hoptax_record::plan::Idle;
use hoptax_record::{Failure, Stage};
use hoptax_remote::protocol::frame::{self, Decoder};
use hoptax_remote::protocol::message::{
    FromAgent, Hello, Prepare, Request, Services, Started, ToAgent, Welcome,
};
use hoptax_remote::protocol::{RunId, Versions};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Agent {
    child: KilledOnDrop,
    decoder: Decoder,
    requests: u64,
}

impl Agent {
    /// Starts an agent and reads its greeting.
    fn start(site: &Site) -> Self {
        let command = site.command(&[]);
        let mut agent = Command::new(&command[0]);
        agent.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = KilledOnDrop(agent.spawn().expect("it starts"));
        let mut greeting = vec![0; Versions::own().line().len()];
        child.stdout.as_mut().expect("piped").read_exact(&mut greeting).expect("a greeting");
        assert_eq!(String::from_utf8_lossy(&greeting), Versions::own().line());
        Self { child, decoder: Decoder::default(), requests: 0 }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().expect("open").write_all(bytes).expect("sent");
    }

    fn ask<T: DeserializeOwned>(&mut self, request: Request) -> Result<T, Failure> {
        self.requests += 1;
        let message = ToAgent::Request { id: self.requests, request: Box::new(request) };
        self.send(&frame::encode(&message).expect("short"));
        loop {
            while let Some(message) = self.decoder.next_message().expect("frames") {
                match serde_json::from_slice(&message).expect("a message") {
                    FromAgent::Done { value, .. } => return Ok(value),
                    FromAgent::Failed { failure, .. } => return Err(failure),
                    FromAgent::Beat | FromAgent::Update { .. } => {}
                }
            }
            let mut piece = [0; 4096];
            let length = self.child.stdout.as_mut().expect("piped").read(&mut piece).expect("read");
            assert!(length > 0, "the agent ended");
            self.decoder.push(&piece[..length]);
        }
    }

    fn hello(&mut self, versions: Versions) -> Result<Welcome, Failure> {
        self.ask(Request::Hello(Hello { versions, run: RunId::new("raw") }))
    }

    /// Starts the upstream and a hop.
    fn start_services(&mut self) {
        self.hello(Versions::own()).expect("welcome");
        let plan = plan(closed(Duration::from_secs(1)));
        let services = Services {
            plan: plan.clone(),
            upstream_body: None,
            packs: BTreeMap::new(),
            cpus: CpuSets::default(),
            address: None,
            secrets: None,
        };
        let prepare = Prepare { idle: Idle::Sleep, services: Some(services) };
        self.ask::<()>(Request::Prepare(Box::new(prepare))).expect("prepared");
        let upstream: Started = self.ask(Request::StartUpstream).expect("started");
        let (label, upstreams) = ("hop".to_owned(), upstream.endpoints);
        let start = Request::StartGateway { label, upstreams, tls_upstreams: Vec::new(), waits: true };
        self.ask::<Started>(start).expect("started");
    }

    /// Waits until the agent ends by itself. Returns its exit code and its standard error.
    fn end(mut self) -> (Option<i32>, String) {
        wait_until("the agent ends", PATIENCE, || self.child.try_wait().expect("ours").is_some());
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (self.child.wait().expect("ours").code(), said)
    }
}

#[test]
fn the_end_of_the_input_ends_everything() {
    let site = Site::new();
    let mut agent = Agent::start(&site);
    agent.start_services();
    assert_eq!(site.processes().len(), 5, "the agent, two guards, two services: {:?}", site.processes());
    drop(agent.child.stdin.take());
    let ended = Instant::now();
    assert_eq!(agent.end(), (Some(0), String::new()));
    assert_nothing_runs(&site, ended);
    assert!(site.directories().is_empty(), "{:?}", site.directories());
}

#[test]
fn signals_end_everything() {
    let errors = [Signal::TERM, Signal::INT, Signal::HUP].map(|wanted| {
        let site = Site::new();
        let mut agent = Agent::start(&site);
        agent.start_services();
        signal(agent.child.id(), wanted);
        let ended = Instant::now();
        let (code, said) = agent.end();
        assert_eq!(code, Some(0), "{wanted:?}");
        assert_nothing_runs(&site, ended);
        said
    });
    insta::assert_snapshot!(errors.concat());
}

#[test]
fn a_killed_agent_leaves_no_process_and_the_next_one_removes_its_files() {
    let site = Site::new();
    let mut agent = Agent::start(&site);
    agent.start_services();
    signal(agent.child.id(), Signal::KILL);
    let killed = Instant::now();
    assert_eq!(agent.end().0, None);
    assert_nothing_runs(&site, killed);
    assert_eq!(site.directories().len(), 1);
    let mut next = Agent::start(&site);
    let welcome = next.hello(Versions::own()).expect("the place is free");
    assert_eq!(site.directories(), [welcome.directory]);
}

#[test]
fn a_silent_runner_ends_everything() {
    let site = Site::new();
    let mut agent = Agent::start(&site);
    agent.start_services();
    let begun = Instant::now();
    // The input stays open, as if the network between the hosts had failed.
    let (code, said) = agent.end();
    assert_eq!(code, Some(0), "{said}");
    insta::assert_snapshot!(said);
    assert!(begun.elapsed() >= Duration::from_secs(7), "not before: {:?}", begun.elapsed());
    assert_nothing_runs(&site, Instant::now());
}

#[test]
fn a_runner_of_another_version_is_refused() {
    let site = Site::new();
    let mut agent = Agent::start(&site);
    let other = Versions { hoptax: "0.0.1".into(), ..Versions::own() };
    let failure = agent.hello(other).expect_err("another version");
    let expected = format!(
        "{} runs there, and hoptax 0.0.1 (protocol 1) here. Install the same version on both",
        Versions::own()
    );
    assert_eq!((failure.stage, failure.message), (Stage::Start, expected));
    assert!(site.directories().is_empty(), "it took no place");
}

#[test]
fn nothing_is_done_before_hello_and_without_preparation() {
    let site = Site::new();
    let mut agent = Agent::start(&site);
    let early = agent.ask::<Started>(Request::StartUpstream).expect_err("too early");
    agent.hello(Versions::own()).expect("welcome");
    let unprepared = agent.ask::<Started>(Request::StartUpstream).expect_err("too early");
    insta::assert_snapshot!(format!("{}\n{}", early.message, unprepared.message));
}

#[test]
fn input_that_is_no_message_ends_the_agent() {
    let errors = [&b"GET / HTTP/1.1\r\n\r\n"[..], &[2, 0, 0, 0, b'{', b'}']].map(|input| {
        let site = Site::new();
        let mut agent = Agent::start(&site);
        agent.send(input);
        agent.end().1
    });
    insta::assert_snapshot!(errors.concat());
}

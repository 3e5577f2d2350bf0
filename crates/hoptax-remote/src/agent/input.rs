//! The agent's input: requests and orders.

use super::answers::Answers;
use crate::protocol::frame::Decoder;
use crate::protocol::message::{ClockReading, Order, Request, ToAgent};
use crate::protocol::silence::{LIMIT_NS, Silence};
use hoptax_format::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Interval at which the reading thread checks for signals and for silence of the runner, ns.
const LOOK_NS: u64 = 200 * clock::MILLISECOND;

/// A request, and how its runner can still influence it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) request: Request,
    /// Set if the request must end soon.
    pub(super) interrupted: Arc<AtomicBool>,
    pub(super) orders: Receiver<Order>,
}

/// The thread that reads the input.
#[derive(Debug)]
pub(super) struct Input {
    jobs: Receiver<Job>,
    starting: Arc<AtomicBool>,
    why: Arc<OnceLock<String>>,
}

struct Reading {
    input: File,
    decoder: Decoder,
    jobs: Sender<Job>,
    answers: Answers,
    starting: Arc<AtomicBool>,
    signalled: Arc<AtomicBool>,
}

impl Input {
    /// Starts to read. SIGTERM, SIGINT and SIGHUP count as the end of the input.
    pub(super) fn start(input: File, answers: Answers) -> io::Result<Self> {
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&signalled))?;
        }
        let (sender, jobs) = mpsc::channel();
        let starting = Arc::new(AtomicBool::new(false));
        let why = Arc::new(OnceLock::new());
        let decoder = Decoder::default();
        let (shared, noted) = (Arc::clone(&starting), Arc::clone(&why));
        let reading = Reading { input, decoder, jobs: sender, answers, starting: shared, signalled };
        thread::spawn(move || reading.run(&noted));
        Ok(Self { jobs, starting, why })
    }

    /// The flag that interrupts starts of services.
    pub(super) fn starting(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.starting)
    }

    /// The requests, until the input ends.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.jobs.iter()
    }

    /// Why reading stopped before the end of the input. `None` if the runner closed the input.
    pub(super) fn why_ended(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }
}

impl Reading {
    fn run(mut self, why: &OnceLock<String>) {
        if let Err(reason) = self.read() {
            let _ = why.set(reason);
        }
        self.starting.store(true, Ordering::Relaxed);
        self.answers.interrupt_all();
        // The main thread now notices that there are no more jobs, because the channel is closed.
    }

    fn read(&mut self) -> Result<(), String> {
        let mut silence = Silence::new(clock::now());
        let mut piece = vec![0; 64 << 10];
        loop {
            while let Some(message) = self.decoder.next_message().map_err(|error| error.to_string())? {
                self.take(&message)?;
            }
            if self.signalled.load(Ordering::Relaxed) {
                return Err("a signal ended the agent".to_owned());
            }
            let cannot = |error: io::Error| format!("cannot read standard input: {error}");
            if self.is_readable().map_err(cannot)? {
                match self.input.read(&mut piece) {
                    Ok(0) => return Ok(()),
                    Ok(length) => self.decoder.push(&piece[..length]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(cannot(error)),
                }
                silence.heard(clock::now());
            }
            if silence.is_too_long(clock::now()) {
                return Err(format!("hoptax has sent nothing for {} s", LIMIT_NS / clock::SECOND));
            }
        }
    }

    /// Waits at most [`LOOK_NS`]. Returns whether a read would return at once, with data or with the end of
    /// the input.
    fn is_readable(&self) -> io::Result<bool> {
        let limit = Timespec { tv_sec: 0, tv_nsec: LOOK_NS as i64 };
        match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], Some(&limit)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn take(&mut self, message: &[u8]) -> Result<(), String> {
        let message = serde_json::from_slice(message);
        match message
            .map_err(|error| format!("a message cannot be read: {error}. Is it the same build of hoptax?"))?
        {
            ToAgent::Beat => {}
            ToAgent::Order { of, order } => self.answers.order(of, order),
            // Answered here, because the main thread may be busy.
            ToAgent::Request { id, request } if matches!(*request, Request::Clock) => {
                let reading = ClockReading { monotonic_ns: clock::now(), unix_ns: clock::unix() };
                self.answers.answer(id, Ok(reading));
            }
            ToAgent::Request { id, request } => {
                let starts = matches!(*request, Request::StartUpstream | Request::StartGateway { .. });
                let interrupted = if starts { Arc::clone(&self.starting) } else { Arc::default() };
                interrupted.store(false, Ordering::Relaxed);
                let orders = self.answers.expect(id, Arc::clone(&interrupted));
                let _ = self.jobs.send(Job { id, request: *request, interrupted, orders });
            }
        }
        Ok(())
    }
}

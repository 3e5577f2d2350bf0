//! The pipes of a command that leads to an agent: requests go to its standard input, and messages come from
//! its standard output.
//!
//! Three threads serve the pipes. So a request can be sent while another one waits for its answer, and a host
//! that reads no more input cannot block a caller.

use super::advice;
use crate::protocol::frame::{self, Decoder};
use crate::protocol::greeting::{self, MOST_BEFORE, Versions};
use crate::protocol::message::{FromAgent, Order, Request, ToAgent, Update};
use crate::protocol::silence::{LIMIT_NS, Silence, send_frames};
use hoptax_format::clock;
use hoptax_plan::shown_words;
use hoptax_record::{Failure, Stage, printable};
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Time limit for the greeting. Logging in to a distant host takes some seconds.
const CONNECT: Duration = Duration::from_secs(30);
/// Interval at which a waiting caller checks the connection.
const POLL: Duration = Duration::from_millis(50);
/// Time for a command to exit after it has closed its output.
const EXIT: Duration = Duration::from_secs(2);
/// Time for a command to exit after its input was closed. The agent first stops its services.
const END: Duration = Duration::from_secs(10);
/// Length of the end of the command's standard error that is kept, bytes.
const COMPLAINTS: usize = 4096;
/// Maximum length of the output that an error quotes, characters.
const QUOTED: usize = 200;

/// The reason for the end of the messages if the command closed its output.
const ENDED: &str = "closed its output";

/// A command that leads to an agent. Dropping it closes the agent's input, and the agent stops everything
/// that it has started.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: String,
    /// The command as messages show it.
    command: Vec<String>,
    child: Mutex<Child>,
    /// Frames to send. Absent once the input is closed.
    outgoing: Mutex<Option<Sender<Vec<u8>>>>,
    calls: Mutex<Calls>,
    next: AtomicU64,
    /// When anything was received last, on our clock.
    heard_ns: AtomicU64,
    complaints: Mutex<Vec<u8>>,
    /// Whether the command has closed its standard error, so that `complaints` is complete.
    has_complained: AtomicBool,
    /// The agent's directory. The runner copies its files to `hosts/<host>` in the run directory.
    directory: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Calls {
    /// Where to deliver messages, by the number of their request.
    waiting: BTreeMap<u64, Sender<Vec<u8>>>,
    /// Why there will be no more messages.
    ended: Option<String>,
}

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Call {
    shared: Arc<Shared>,
    id: u64,
    stage: Stage,
    inbox: Receiver<Vec<u8>>,
    silence: Silence,
}

/// Sends orders that belong to a request, from any thread.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    shared: Arc<Shared>,
    id: u64,
}

/// A message that belongs to a request.
pub(super) enum Event<T> {
    Done(T),
    Update(Update),
    /// The time is over, and there was no message.
    Nothing,
}

impl Connection {
    /// Starts the command, and waits until an agent of this version has greeted. Fails if the command does
    /// not lead to an agent of this version.
    pub(super) fn open(host: &str, command: &[String]) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().expect("a host has a command");
        let mut starting = Command::new(program);
        // Ctrl-C on the terminal must reach only our process, which then decides what to stop.
        starting.args(arguments).process_group(0);
        starting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = starting.spawn().map_err(|error| {
            Failure::new(Stage::Start, format!("host {host}: cannot start `{program}`: {error}"))
        })?;
        let mut stdin = child.stdin.take().expect("piped");
        let mut stdout = child.stdout.take().expect("piped");
        let mut stderr = child.stderr.take().expect("piped");
        let (sender, frames) = mpsc::channel();
        let shared = Arc::new(Shared {
            host: host.to_owned(),
            command: shown_words(command),
            child: Mutex::new(child),
            outgoing: Mutex::new(Some(sender)),
            calls: Mutex::default(),
            next: AtomicU64::new(1),
            heard_ns: AtomicU64::new(clock::now()),
            complaints: Mutex::default(),
            has_complained: AtomicBool::new(false),
            directory: OnceLock::new(),
        });
        let (greeted, greeting) = mpsc::channel();
        let (receiving, collecting) = (Arc::clone(&shared), Arc::clone(&shared));
        thread::spawn(move || send_frames(&mut stdin, &frames, &ToAgent::Beat));
        thread::spawn(move || receiving.receive(&mut stdout, &greeted));
        thread::spawn(move || collecting.collect(&mut stderr));
        let connection = Self { shared };
        connection.shared.await_greeting(&greeting)?;
        Ok(connection)
    }

    pub(super) fn host(&self) -> &str {
        &self.shared.host
    }

    /// Sets the agent's directory, which errors must not name: it is removed after the run.
    pub(super) fn set_directory(&self, directory: &Path) {
        let _ = self.shared.directory.set(directory.to_string_lossy().into_owned());
    }

    /// A text of the agent, with paths as they are in the run directory.
    pub(super) fn shown(&self, text: &str) -> String {
        self.shared.shown(text)
    }

    /// Whether the agent can still be asked.
    pub(super) fn is_alive(&self) -> bool {
        lock(&self.shared.calls).ended.is_none()
    }

    /// Why the agent can no longer be asked. `None` if it can.
    pub(super) fn lost(&self) -> Option<Failure> {
        let why = lock(&self.shared.calls).ended.clone();
        why.map(|why| self.shared.lost(Stage::Trial, &why))
    }

    /// Sends a request and waits for its answer. Fails if the request failed, or there is no answer within
    /// `limit`.
    pub(super) fn ask<T: DeserializeOwned>(&self, request: Request, limit: Duration) -> Result<T, Failure> {
        self.begin(request)?.answer(limit)
    }

    /// Sends a request. Fails if the connection has ended, or the request is too long.
    pub(super) fn begin(&self, request: Request) -> Result<Call, Failure> {
        let shared = Arc::clone(&self.shared);
        let (id, stage) = (shared.next.fetch_add(1, Ordering::Relaxed), request.stage());
        let message = ToAgent::Request { id, request: Box::new(request) };
        let frame = frame::encode(&message)
            .map_err(|error| Failure::new(stage, format!("host {}: {error}", shared.host)))?;
        let (sender, inbox) = mpsc::channel();
        {
            let mut calls = lock(&shared.calls);
            if let Some(why) = calls.ended.clone() {
                drop(calls);
                return Err(shared.lost(stage, &why));
            }
            calls.waiting.insert(id, sender);
        }
        shared.put(frame);
        Ok(Call { shared, id, stage, inbox, silence: Silence::new(clock::now()) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Call {
    /// Waits for the answer. Fails if the request failed, or there is no answer within `limit`.
    pub(super) fn answer<T: DeserializeOwned>(mut self, limit: Duration) -> Result<T, Failure> {
        let deadline = clock::now() + limit.as_nanos() as u64;
        loop {
            match self.wait(deadline)? {
                Event::Done(value) => return Ok(value),
                Event::Update(_) => {}
                Event::Nothing => return Err(self.too_late(limit)),
            }
        }
    }

    /// The next message, or [`Event::Nothing`] at the moment `until` of our clock. Fails if the request
    /// failed, or the connection has ended.
    pub(super) fn wait<T: DeserializeOwned>(&mut self, until: u64) -> Result<Event<T>, Failure> {
        loop {
            let left = Duration::from_nanos(until.saturating_sub(clock::now()));
            match self.inbox.recv_timeout(left.min(POLL)) {
                Ok(message) => return self.read(&message),
                Err(RecvTimeoutError::Disconnected) => {
                    let why = lock(&self.shared.calls).ended.clone();
                    return Err(self.shared.lost(self.stage, why.as_deref().unwrap_or(ENDED)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = clock::now();
            self.silence.heard(self.shared.heard_ns.load(Ordering::Relaxed));
            if self.silence.is_too_long(now) {
                let why = format!("has sent nothing for {} s", LIMIT_NS / clock::SECOND);
                self.shared.give_up(&why);
                return Err(self.shared.lost(self.stage, &why));
            }
            if now >= until {
                return Ok(Event::Nothing);
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, message: &[u8]) -> Result<Event<T>, Failure> {
        match serde_json::from_slice(message) {
            Ok(FromAgent::Done { value, .. }) => Ok(Event::Done(value)),
            Ok(FromAgent::Update { update, .. }) => Ok(Event::Update(update)),
            Ok(FromAgent::Failed { failure, .. }) => {
                let message = self.shared.shown(&failure.message);
                let message = format!("host {}: {message}", self.shared.host);
                let detail = self.shared.shown(&failure.detail);
                Err(Failure { message, detail, ..failure })
            }
            Ok(FromAgent::Beat) => Ok(Event::Nothing),
            Err(error) => {
                let why =
                    format!("sent an answer that cannot be read: {error}. Is it the same build of hoptax?");
                Err(self.shared.failure(self.stage, &why))
            }
        }
    }

    /// Sends an order that belongs to this request. If the connection has ended, the next [`Self::wait`] says
    /// so.
    pub(super) fn order(&self, order: Order) {
        self.orders().send(order);
    }

    /// A sender of orders for this request, which can be used on any thread.
    pub(super) fn orders(&self) -> Orders {
        Orders { shared: Arc::clone(&self.shared), id: self.id }
    }

    /// Gives up waiting for the answer, and ends the connection.
    pub(super) fn too_late(&self, limit: Duration) -> Failure {
        let why = format!("did not answer within {}", humantime::format_duration(limit));
        self.shared.give_up(&why);
        self.shared.failure(self.stage, &why)
    }
}

impl Orders {
    /// Sends an order. If the connection has ended, the next [`Call::wait`] says so.
    pub(super) fn send(&self, order: Order) {
        let message = ToAgent::Order { of: self.id, order };
        self.shared.put(frame::encode(&message).expect("orders are short"));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        lock(&self.shared.calls).waiting.remove(&self.id);
    }
}

impl Shared {
    fn await_greeting(&self, greeting: &Receiver<Result<Versions, String>>) -> Result<(), Failure> {
        match greeting.recv_timeout(CONNECT) {
            Ok(Ok(versions)) => match Versions::own().mismatch(&versions) {
                None => Ok(()),
                Some(what) => {
                    let message = format!("host {}: `{}`: {what}", self.host, self.command.join(" "));
                    Err(Failure::new(Stage::Start, message))
                }
            },
            Ok(Err(why)) => Err(self.lost(Stage::Start, &why)),
            Err(_) => {
                let limit = humantime::format_duration(CONNECT);
                let why = format!("printed no greeting of an agent within {limit}");
                self.give_up(&why);
                Err(self.lost(Stage::Start, &why))
            }
        }
    }

    /// Reads the command's output until its end, and delivers the messages.
    fn receive(&self, from: &mut impl Read, greeted: &Sender<Result<Versions, String>>) {
        let why = match self.greet(from) {
            Ok((versions, decoder)) => {
                let _ = greeted.send(Ok(versions));
                self.deliver(from, decoder)
            }
            Err(why) => {
                let _ = greeted.send(Err(why.clone()));
                why
            }
        };
        let mut calls = lock(&self.calls);
        calls.ended.get_or_insert(why);
        // Callers that wait notice that their channels are closed.
        calls.waiting.clear();
    }

    /// Reads up to the greeting. Returns the versions, and a decoder with what was received after it.
    fn greet(&self, from: &mut impl Read) -> Result<(Versions, Decoder), String> {
        let mut received = Vec::new();
        loop {
            if let Some((versions, end)) = greeting::find(&received) {
                let mut decoder = Decoder::default();
                decoder.push(&received[end..]);
                return Ok((versions, decoder));
            }
            if received.len() > MOST_BEFORE || !self.read(from, |bytes| received.extend(bytes)) {
                let printed = printable(String::from_utf8_lossy(&received).trim());
                let printed: String = printed.chars().take(QUOTED).collect();
                if printed.is_empty() {
                    return Err(ENDED.to_owned());
                }
                return Err(format!("is not an agent. It printed `{printed}`, and"));
            }
        }
    }

    /// Delivers messages until the end of the output. Returns why there will be no more.
    fn deliver(&self, from: &mut impl Read, mut decoder: Decoder) -> String {
        loop {
            let next = decoder.next_message().map_err(|error| error.to_string());
            let delivered = next.and_then(|message| message.map(|one| self.deliver_one(one)).transpose());
            match delivered {
                Ok(Some(())) => {}
                Ok(None) if self.read(from, |bytes| decoder.push(bytes)) => {}
                Ok(None) => return ENDED.to_owned(),
                Err(error) => {
                    let why = format!("sent data that is not a message: {error}");
                    self.give_up(&why);
                    return why;
                }
            }
        }
    }

    fn deliver_one(&self, message: Vec<u8>) -> Result<(), String> {
        let head = serde_json::from_slice::<FromAgent<IgnoredAny>>(&message);
        let (id, is_last) = match head.map_err(|error| error.to_string())? {
            FromAgent::Done { id, .. } | FromAgent::Failed { id, .. } => (id, true),
            FromAgent::Update { id, .. } => (id, false),
            FromAgent::Beat => return Ok(()),
        };
        let mut calls = lock(&self.calls);
        if let Some(sender) = calls.waiting.get(&id) {
            let _ = sender.send(message);
        }
        if is_last {
            calls.waiting.remove(&id);
        }
        Ok(())
    }

    /// Reads some bytes. Returns `false` at the end.
    fn read(&self, from: &mut impl Read, take: impl FnOnce(&[u8])) -> bool {
        let mut piece = vec![0; 64 << 10];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return false,
                Ok(length) => {
                    self.heard_ns.store(clock::now(), Ordering::Relaxed);
                    take(&piece[..length]);
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Keeps the end of the command's standard error.
    fn collect(&self, from: &mut impl Read) {
        let mut piece = [0; COMPLAINTS];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let mut complaints = lock(&self.complaints);
            complaints.extend_from_slice(&piece[..length]);
            let surplus = complaints.len().saturating_sub(COMPLAINTS);
            complaints.drain(..surplus);
        }
        self.has_complained.store(true, Ordering::Relaxed);
    }

    fn put(&self, frame: Vec<u8>) {
        if let Some(sender) = &*lock(&self.outgoing) {
            // If the sending thread has ended, the receiving thread ends too, and records the reason.
            let _ = sender.send(frame);
        }
    }

    /// Kills the command. All later requests fail for this reason.
    fn give_up(&self, why: &str) {
        lock(&self.calls).ended.get_or_insert_with(|| why.to_owned());
        let _ = lock(&self.child).kill();
    }

    fn shown(&self, text: &str) -> String {
        match self.directory.get() {
            Some(directory) => text.replace(directory, &format!("hosts/{}", self.host)),
            None => text.to_owned(),
        }
    }

    /// Closes the input, and waits until the command has exited.
    fn end(&self) {
        lock(&self.outgoing).take();
        if self.exited_within(END).is_none() {
            let mut child = lock(&self.child);
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn exited_within(&self, limit: Duration) -> Option<ExitStatus> {
        let deadline = clock::now() + limit.as_nanos() as u64;
        loop {
            let status = lock(&self.child).try_wait().ok().flatten();
            if status.is_some() || clock::now() > deadline {
                return status;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the standard error of a command that has exited is complete. A process that the command
    /// left behind may keep it open.
    fn await_complaints(&self) {
        let deadline = clock::now() + EXIT.as_nanos() as u64;
        while !self.has_complained.load(Ordering::Relaxed) && clock::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The failure after the output of the command has ended, or after we gave up.
    fn lost(&self, stage: Stage, why: &str) -> Failure {
        let status = self.exited_within(EXIT);
        if status.is_some() {
            self.await_complaints();
        }
        let how = match status {
            Some(status) if why == ENDED => how(status),
            Some(status) if why.ends_with("and") => format!("{why} {}", how(status)),
            _ => why.trim_end_matches(", and").to_owned(),
        };
        let failure = self.failure(stage, &how);
        let advice = advice::after(&self.command, status.and_then(|status| status.code()));
        Failure { message: format!("{}. {advice}", failure.message), ..failure }
    }

    /// A failure that names host and command, and quotes the command's standard error.
    fn failure(&self, stage: Stage, what: &str) -> Failure {
        let complaints = lock(&self.complaints).clone();
        // ssh ends its lines as terminals do.
        let complaints = printable(String::from_utf8_lossy(&complaints).replace('\r', "").trim());
        let last = complaints.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map_or_else(String::new, |line| format!(": {}", line.trim().trim_end_matches('.')));
        let message = format!("host {}: `{}` {what}{last}", self.host, self.command.join(" "));
        Failure { stage, message, detail: complaints }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Locks a mutex, even after a panic: no panic can leave the content of our mutexes half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A link to the agent of a host.

use super::connection::{Call, Connection};
use crate::protocol::greeting::Versions;
use crate::protocol::message::{ClockReading, Hello, Request, RunId, Welcome};
use crate::protocol::offset::{Offset, RoundTrip};
use hoptax_format::clock;
use hoptax_format::stamp::ClockId;
use hoptax_record::Failure;
use serde::de::DeserializeOwned;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time limit for answers that need no work.
pub(super) const PROMPT: Duration = Duration::from_secs(30);

/// Number of round trips that measure the offset of the clocks.
const ROUND_TRIPS: usize = 8;

/// A link to an agent that has accepted a run. Dropping it ends the agent, which stops everything that it has
/// started.
#[derive(Debug)]
pub struct AgentChannel {
    connection: Connection,
    welcome: Welcome,
    offset: Mutex<Offset>,
}

impl AgentChannel {
    /// Starts the command of a host, and waits until its agent has accepted this run.
    ///
    /// # Errors
    /// If the command does not lead to an agent of this version, or another run uses the host. The message
    /// names the host and the command, and says what to try.
    pub fn open(host: &str, command: &[String], run: &RunId) -> Result<Self, Failure> {
        let connection = Connection::open(host, command)?;
        let hello = Request::Hello(Hello { versions: Versions::own(), run: run.clone() });
        let welcome: Welcome = connection.ask(hello, PROMPT)?;
        connection.set_directory(&welcome.directory);
        let link = Self { connection, welcome, offset: Mutex::default() };
        link.measure_clock()?;
        Ok(link)
    }

    /// Name of the host.
    pub fn host(&self) -> &str {
        self.connection.host()
    }

    /// What the agent said about its host.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// A text of the agent, with paths as they are in the run directory.
    pub(super) fn shown(&self, text: &str) -> String {
        self.connection.shown(text)
    }

    /// Whether the agent can still be asked.
    pub fn is_alive(&self) -> bool {
        self.connection.is_alive()
    }

    /// Why the agent can no longer be asked. `None` if it can.
    pub(super) fn lost(&self) -> Option<Failure> {
        self.connection.lost()
    }

    /// The difference of the clocks, as it was measured last.
    pub fn offset(&self) -> Offset {
        *self.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures the difference of the clocks. Clocks drift, so this is repeated in a long run.
    ///
    /// # Errors
    /// If the agent does not answer.
    pub fn measure_clock(&self) -> Result<Offset, Failure> {
        let is_same = self.welcome.clock.is_some() && self.welcome.clock == ClockId::here();
        let mut trips = Vec::new();
        for _ in 0..if is_same { 0 } else { ROUND_TRIPS } {
            let asked_ns = clock::now();
            let there: ClockReading = self.ask(Request::Clock, PROMPT)?;
            trips.push(RoundTrip { asked_ns, answered_ns: clock::now(), there });
        }
        let offset = Offset::best(&trips).unwrap_or_default();
        *self.offset.lock().unwrap_or_else(PoisonError::into_inner) = offset;
        Ok(offset)
    }

    /// Sends a request and waits for its answer. Fails if the request failed, or there is no answer within
    /// `limit`.
    pub(super) fn ask<T: DeserializeOwned>(&self, request: Request, limit: Duration) -> Result<T, Failure> {
        self.connection.ask(request, limit)
    }

    /// Sends a request whose answer comes later. Fails if the link has ended.
    pub(super) fn begin(&self, request: Request) -> Result<Call, Failure> {
        self.connection.begin(request)
    }
}

//! The means of a case: connections to one side, and the upstream's own counts.

use crate::concurrent::concurrently;
use hoptax_servers::http2_session::{Http2Session, StreamAnswer, StreamRequest};
use hoptax_servers::request_error::RequestError;
use hoptax_wire::http2::Config;
use std::time::{Duration, Instant};

/// Pause between two looks at the upstream's counts.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of cases that are sent to a gateway at the same time. Most cases only wait.
pub(in crate::conformance) const AT_ONCE: usize = 8;

/// Numbers of delayed responses at the upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Delays {
    /// All.
    pub(super) delayed: u64,
    /// Those whose client went away before they were due.
    pub(super) abandoned: u64,
}

/// The gateway or direct.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    /// Opens a connection to it.
    pub(super) connect: &'a dyn Fn(Config) -> anyhow::Result<Http2Session>,
    /// Asks the upstream for its counts.
    pub(super) upstream: &'a dyn Fn() -> anyhow::Result<Delays>,
    /// How long to wait for data that may never arrive.
    pub(super) patience: Duration,
}

/// How a server differs from what a case expects, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::conformance) struct Deviation(pub(in crate::conformance) String);

impl Deviation {
    pub(in crate::conformance) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<RequestError> for Deviation {
    fn from(error: RequestError) -> Self {
        Self(match error {
            RequestError::Ended { .. } => "the connection ends early".to_owned(),
            RequestError::Timeout { .. } => "no whole answer".to_owned(),
            other => other.to_string(),
        })
    }
}

impl From<anyhow::Error> for Deviation {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<RequestError>() {
            Ok(error) => error.into(),
            Err(error) => Self(format!("{error:#}")),
        }
    }
}

/// Result of a case on one side.
pub(in crate::conformance) type Outcome = Result<(), Deviation>;

/// Runs all cases on direct and on the gateway at the same time. Returns the outcomes of each case on both.
/// A case on one side must not change what the other side sees.
pub(in crate::conformance) fn on_both<S: Sync>(
    sides: &[S; 2],
    run: impl Fn(&S) -> Vec<Outcome> + Sync,
) -> Vec<(Outcome, Outcome)> {
    let mut outcomes = concurrently(2, sides, run).into_iter();
    let mut next = || outcomes.next().unwrap_or_default();
    let (direct, gateway) = (next(), next());
    direct.into_iter().zip(gateway).collect()
}

/// Compares the outcomes of a case of this name and rule without a gateway and with it. Returns the name, and
/// how the gateway differs.
///
/// # Errors
/// If the rule is not kept without a gateway.
pub(in crate::conformance) fn compare(
    (name, rule): (&'static str, &str),
    (direct, gateway): (Outcome, Outcome),
) -> anyhow::Result<(&'static str, Option<String>)> {
    if let Err(Deviation(what)) = direct {
        anyhow::bail!(
            "the upstream did not keep {rule} in the case `{name}` when it was asked directly, without a \
             gateway: {what}"
        );
    }
    Ok((name, gateway.err().map(|Deviation(what)| what)))
}

impl Side<'_> {
    /// Opens a connection.
    pub(super) fn open(&self, config: Config) -> Result<Http2Session, Deviation> {
        Ok((self.connect)(config)?)
    }

    /// The upstream's counts of delayed responses.
    pub(super) fn delays(&self) -> Result<Delays, Deviation> {
        Ok((self.upstream)()?)
    }

    /// Waits until the upstream's counts are as expected. Returns false after a time limit.
    pub(super) fn upstream_sees(&self, is_expected: impl Fn(Delays) -> bool) -> Result<bool, Deviation> {
        let deadline = Instant::now() + self.patience;
        loop {
            if is_expected(self.delays()?) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// A GET.
pub(super) fn get(path: &str) -> StreamRequest<'_> {
    StreamRequest { method: "GET", path, headers: &[], content_length: None, end: true }
}

/// A POST whose body follows.
pub(super) fn post(path: &str) -> StreamRequest<'_> {
    StreamRequest { method: "POST", end: false, ..get(path) }
}

/// Checks that an answer is whole and has the status 200.
pub(super) fn check(answer: &StreamAnswer) -> Outcome {
    match answer.reset {
        _ if answer.is_whole && answer.answer.status == 200 => Ok(()),
        Some(code) if !answer.is_whole => Err(Deviation(format!("the stream ends with {code}"))),
        None if !answer.is_whole => Err(Deviation::new("no whole answer")),
        _ => Err(Deviation(format!("status {} instead of 200", answer.answer.status))),
    }
}

/// The upstream's echo of a request.
pub(super) fn echo(answer: &StreamAnswer) -> Result<serde_json::Value, Deviation> {
    check(answer)?;
    let echo: Option<serde_json::Value> = serde_json::from_slice(&answer.answer.body).ok();
    echo.filter(|echo| echo["hoptax"] == "echo").ok_or_else(|| Deviation::new("the echo is incomplete"))
}

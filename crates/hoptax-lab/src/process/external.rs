//! Services that already run. hoptax connects to them and watches their process if the plan names it. It
//! never stops them.

use super::pods::ControlGroups;
use super::probe::Probe;
use super::prometheus::Metrics;
use super::service::{by_kind, endpoints};
use crate::external_ledger::ExternalLedger;
use crate::features::Change;
use crate::{Facts, Observed, Service};
use hoptax_format::Address;
use hoptax_format::spec::HttpVersion;
use hoptax_host::{Watched, listeners, log_files};
use hoptax_load::names::{self, Use};
use hoptax_plan::units::{self, origin};
use hoptax_plan::{LedgerSource, Prometheus, Resolve, WatchedPods};
use hoptax_record::{Failure, FoundProcess, RoleUsage, Stage};
use hoptax_servers::ledger::Ledger;
use procfs::process::Process;
use std::net::SocketAddr;
use std::time::Duration;

/// A service that already runs.
#[derive(Debug)]
struct Attached {
    url: String,
    addresses: Vec<SocketAddr>,
    /// The Unix socket of an upstream without addresses.
    sockets: Vec<Address>,
    facts: Facts,
    process: Option<Identity>,
    /// Size of the process's logs when hoptax connected, bytes.
    logs_at_start: u64,
    metrics: Option<Metrics>,
    control_groups: Option<ControlGroups>,
    count: Option<ExternalLedger>,
}

/// Where CPU time and memory of a service come from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watch<'a> {
    /// Id of the process, if it runs on this machine. Without `pid`, `prometheus` and `pods`, hoptax looks
    /// for the process that listens on the service's address.
    pub(super) pid: Option<u32>,
    /// A process that is already watched for another service. hoptax does not watch it for this one too.
    pub(super) other: Option<u32>,
    /// The Prometheus server that monitors the service, and the shortest trial.
    pub(super) prometheus: Option<(&'a Prometheus, Duration)>,
    /// The pods of the service, and the shortest trial.
    pub(super) pods: Option<(&'a WatchedPods, Duration)>,
}

/// A process id together with the start time of its process. The kernel reuses ids, so the id alone is
/// ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    pid: u32,
    /// Start time in clock ticks after boot.
    started: u64,
}

/// Connects to the service at `url` (`http://host:port`, `https://…` or `http+unix:/path`). Sends the request
/// of `probe` with `change` applied, to check that the service responds. If `ledger` is given, the service
/// has a ledger.
///
/// # Errors
/// If the URL does not resolve, nothing responds at the URL, the process does not exist, Prometheus lacks the
/// series, the pods cannot be watched, or the ledger cannot be read.
pub(super) fn attach(
    url: &str,
    resolve: Resolve,
    watch: Watch<'_>,
    probe: &Probe,
    change: Change,
    ledger: Option<&LedgerSource>,
) -> Result<Box<dyn Service>, Failure> {
    let fail = |message: String| Failure::new(Stage::Start, change.redact(&message));
    let (endpoints, address_note) = match units::unix_socket(url) {
        Some(socket) => (vec![Address::Unix(socket.map_err(|error| fail(error.message))?.path)], None),
        None => {
            let (addresses, note) = locate(url, resolve).map_err(fail)?;
            (addresses.into_iter().map(Address::from).collect(), note)
        }
    };
    for address in &endpoints {
        probe.ask(url, address, &change).map_err(fail)?;
    }
    let address = &endpoints[0];
    let found = (watch.prometheus.is_none() && watch.pods.is_none() && watch.pid.is_none())
        .then(|| listeners::owner(address))
        .flatten()
        .filter(|(pid, _)| watch.other != Some(*pid))
        .map(|(pid, name)| FoundProcess { pid, name });
    let process = match watch.pid {
        None => found.as_ref().and_then(|found| identify(found.pid)),
        Some(pid) => Some(identify(pid).ok_or_else(|| {
            fail(format!(
                "there is no process {pid} to watch for {url}. Give its current pid, or leave `pid` out"
            ))
        })?),
    };
    let open = |(from, shortest): (&Prometheus, _)| Metrics::open(from, first(&from.url)?, shortest);
    let metrics = watch.prometheus.map(open).transpose().map_err(fail)?;
    let open = |(pods, shortest)| ControlGroups::open(pods, shortest);
    let control_groups = watch.pods.map(open).transpose().map_err(fail)?;
    let count = ledger.map(|ledger| open_ledger(ledger, address, &change, probe.version()));
    let count = count.transpose().map_err(|error| fail(format!("{error:#}")))?;
    let found_process = found.filter(|_| process.is_some());
    let facts = Facts { change, address_note, found_process, ..Facts::default() };
    let url = url.to_owned();
    let logs_at_start = process.map_or(0, |process| log_files::of_tree(process.pid).bytes);
    let (addresses, sockets) = by_kind(endpoints);
    Ok(Box::new(Attached {
        url,
        addresses,
        sockets,
        facts,
        process,
        logs_at_start,
        metrics,
        control_groups,
        count,
    }))
}

/// Opens the ledger and reads it once, so that an unreadable ledger is reported before any trial. A ledger at
/// the upstream's own address is read over `version`, because the port may speak nothing else.
fn open_ledger(
    ledger: &LedgerSource,
    upstream: &Address,
    change: &Change,
    version: HttpVersion,
) -> anyhow::Result<ExternalLedger> {
    let count = match &ledger.url {
        None => ExternalLedger::new(ledger, upstream.clone(), change.clone())?.speaking(version),
        Some(url) => {
            let address = first(url).map_err(anyhow::Error::msg)?;
            ExternalLedger::new(ledger, address, Change::default())?
        }
    };
    count.read()?;
    Ok(count)
}

/// The addresses of a service, and a note if its name has several.
///
/// # Errors
/// If the name does not resolve, or none of its addresses accepts connections.
fn locate(url: &str, resolve: Resolve) -> Result<(Vec<SocketAddr>, Option<String>), String> {
    let origin = origin(url).map_err(|error| format!("{url}: {} ({})", error.message, error.help))?;
    let which = match resolve {
        Resolve::All => Use::All,
        Resolve::First => Use::First,
    };
    let found = names::find(&origin.host, origin.port, which, None)
        .map_err(|error| format!("{url}: cannot be resolved: {error}"))?;
    if found.used.is_empty() {
        let reasons = found.reasons();
        return Err(format!("nothing answers at {url}: {reasons}. Start it before the run"));
    }
    let note = found.note(&origin.host);
    Ok((found.used, note))
}

/// The first address that accepts connections.
fn first(url: &str) -> Result<SocketAddr, String> {
    Ok(locate(url, Resolve::First)?.0[0])
}

fn identify(pid: u32) -> Option<Identity> {
    let stat = Process::new(i32::try_from(pid).ok()?).and_then(|process| process.stat()).ok()?;
    (stat.state != 'Z').then_some(Identity { pid, started: stat.starttime })
}

impl Service for Attached {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn endpoints(&self) -> Vec<Address> {
        endpoints(&self.addresses, &self.sockets)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn process(&self) -> Option<Watched> {
        self.process.map(|process| Watched { pid: process.pid, include_root: true })
    }

    fn used(&self, from_ns: u64, to_ns: u64) -> Option<Result<RoleUsage, String>> {
        match (&self.metrics, &self.control_groups) {
            (Some(metrics), _) => Some(metrics.used(from_ns, to_ns)),
            (None, Some(control_groups)) => Some(control_groups.used(from_ns, to_ns)),
            (None, None) => None,
        }
    }

    /// The size of the log files that the process has open. Unknown if the process also writes to a pipe,
    /// because it may log there. But if its files have grown since hoptax's first request, the process logs
    /// to these files.
    fn observe(&mut self) -> Observed {
        let logs = self.process.map(|process| log_files::of_tree(process.pid));
        let seen = logs.filter(|logs| !logs.elsewhere || logs.bytes > self.logs_at_start);
        Observed { log_bytes: seen.map(|logs| logs.bytes), ..Observed::default() }
    }

    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        self.count.as_ref().map(ExternalLedger::read)
    }

    /// Checks only that the process exists, if the plan names a process. A process that was found by its
    /// socket may be replaced: its successor is found again. Sends no request, because a request would add to
    /// the measured work of the service. The trial shows whether the service responds.
    fn check(&mut self) -> Result<(), Failure> {
        match self.process {
            Some(known) if identify(known.pid) != Some(known) && self.facts.found_process.is_some() => {
                self.process = listeners::owner(&self.endpoints()[0]).and_then(|(pid, _)| identify(pid));
                Ok(())
            }
            Some(known) if identify(known.pid) != Some(known) => Err(Failure::new(
                Stage::Trial,
                format!("process {} of {} ended in the middle of the run", known.pid, self.url),
            )),
            _ => Ok(()),
        }
    }

    fn stop(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_testing::{own_listener, unused_address};
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    fn answering() -> SocketAddr {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n");
            }
        });
        address
    }

    fn probe() -> Probe {
        Probe::new(&crate::fake::plan(vec![], 1))
    }

    #[test]
    fn attaches_with_any_status_and_watches_the_named_process() {
        let address = answering();
        let mut watched = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("starts");
        let (url, pid) = (format!("http://{address}"), Some(watched.id()));
        let attached = || {
            let watch = Watch { pid, ..Watch::default() };
            attach(&url, Resolve::All, watch, &probe(), Change::default(), None)
        };
        let mut service = attached().expect("it answers");
        assert_eq!(service.addresses(), [address]);
        assert_eq!(service.process(), Some(Watched { pid: watched.id(), include_root: true }));
        assert_eq!(service.check(), Ok(()));
        service.stop();
        assert!(watched.try_wait().expect("ours").is_none(), "what is not ours is not stopped");
        watched.kill().expect("ours");
        watched.wait().expect("ours");
        let failure = service.check().expect_err("it is gone");
        assert_eq!(failure.stage, Stage::Trial);
        let gone = attached().err().expect("no process");
        assert!(gone.message.contains(&format!(" {} ", watched.id())), "{}", gone.message);
    }

    #[test]
    fn reports_what_is_wrong_with_the_address() {
        let nobody = unused_address();
        let refused = |url: &str| {
            attach(url, Resolve::All, Watch::default(), &probe(), Change::default(), None)
                .err()
                .expect("nothing there")
                .message
        };
        let message = refused(&format!("http://{nobody}"));
        assert!(message.contains(&format!("http://{nobody}")), "{message}");
        let message = refused("ftp://127.0.0.1:1");
        assert!(message.starts_with("ftp://127.0.0.1:1: "), "{message}");
    }

    #[test]
    fn the_port_is_80_unless_given() {
        assert_eq!(first("http://127.0.0.1"), Ok("127.0.0.1:80".parse().expect("an address")));
        assert_eq!(first("http://[::1]:8080/"), Ok("[::1]:8080".parse().expect("an address")));
        assert_eq!(first("http://[::1]"), Ok("[::1]:80".parse().expect("an address")));
    }
}

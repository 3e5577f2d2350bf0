//! Services that already run: attached to, watched where a process is named, and never stopped.

use crate::features::Change;
use crate::told::ToldCount;
use crate::{Facts, Service};
use hoptax_host::Watched;
use hoptax_load::spec::{HttpVersion, TargetSpec};
use hoptax_load::target;
use hoptax_plan::ToldLedger;
use hoptax_plan::units::origin;
use hoptax_record::{Failure, Stage};
use hoptax_servers::http_client::HttpClient;
use hoptax_servers::ledger::Ledger;
use hoptax_servers::readiness;
use procfs::process::Process;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

/// Given to what already runs to answer once. What is not there refuses at once; the bound is for machines that are busy otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that ran before and will run on.
#[derive(Debug)]
struct Attached {
    url: String,
    addresses: Vec<SocketAddr>,
    facts: Facts,
    process: Option<Identity>,
    /// Its own count of requests.
    count: Option<ToldCount>,
}

/// A process and when it started: pids are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    pid: u32,
    /// Clock ticks after boot.
    started: u64,
}

/// Attaches to what answers at `url` (`http://host:port` or `https://…`), to requests changed as `change` says; `path` is asked to
/// see whether it does. With `ledger` it keeps one.
///
/// # Errors
/// If the URL names nothing, nothing answers there, there is no process `pid`, or the ledger's counts are not told.
pub(super) fn attach(
    url: &str,
    pid: Option<u32>,
    path: &str,
    change: Change,
    ledger: Option<&ToldLedger>,
) -> Result<Box<dyn Service>, Failure> {
    let fail = |message: String| Failure {
        stage: Stage::Start,
        message: change.redact(&message),
        detail: String::new(),
    };
    let address = resolve(url).map_err(|error| fail(format!("{url}: {error}")))?;
    answers(address, path, &change).map_err(|error| {
        fail(format!("nothing answers at {url} ({address}): {error:#}. It must run before the run begins"))
    })?;
    let process = match pid {
        None => None,
        Some(pid) => Some(identify(pid).ok_or_else(|| {
            fail(format!(
                "there is no process {pid} to watch for {url}; give its pid of now, or leave `pid` out"
            ))
        })?),
    };
    let count = match ledger {
        None => None,
        Some(ledger) => Some(told(ledger, address, &change).map_err(|error| fail(format!("{error:#}")))?),
    };
    let facts = Facts { change, ..Facts::default() };
    Ok(Box::new(Attached { url: url.to_owned(), addresses: vec![address], facts, process, count }))
}

/// Asks once; any answer will do.
fn answers(address: SocketAddr, path: &str, change: &Change) -> anyhow::Result<()> {
    let Some(tls) = &change.tls else { return Ok(readiness::ask(address, path, PATIENCE).map(drop)?) };
    let mut headers = vec![("host".to_owned(), address.to_string())];
    headers.extend(change.headers.iter().cloned());
    let spec = TargetSpec::only("GET", path, headers, Vec::new());
    let request = target::first_request(&spec, &BTreeMap::new(), 0, HttpVersion::Http11)?;
    HttpClient { address, tls: Some(tls), from: None, timeout: PATIENCE }.send(&request, false).map(drop)
}

/// The ledger, read once: what cannot be read is told before anything is timed.
fn told(ledger: &ToldLedger, upstream: SocketAddr, change: &Change) -> anyhow::Result<ToldCount> {
    let count = match &ledger.url {
        None => ToldCount::new(ledger, upstream, change.clone())?,
        Some(url) => {
            let address = resolve(url).map_err(|error| anyhow::anyhow!("{url}: {error}"))?;
            ToldCount::new(ledger, address, Change::default())?
        }
    };
    count.read()?;
    Ok(count)
}

/// The first address of an origin.
fn resolve(url: &str) -> Result<SocketAddr, String> {
    let origin = origin(url).map_err(|error| format!("{} ({})", error.message, error.help))?;
    let mut addresses = (origin.host.as_str(), origin.port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot be resolved: {error}"))?;
    addresses.next().ok_or_else(|| "resolves to nothing".to_owned())
}

fn identify(pid: u32) -> Option<Identity> {
    let stat = Process::new(i32::try_from(pid).ok()?).and_then(|process| process.stat()).ok()?;
    (stat.state != 'Z').then_some(Identity { pid, started: stat.starttime })
}

impl Service for Attached {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn process(&self) -> Option<Watched> {
        self.process.map(|process| Watched { pid: process.pid, include_root: true })
    }

    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        self.count.as_ref().map(ToldCount::read)
    }

    /// Only a named process is looked at: connecting would add to what the service is measured doing, and a trial
    /// tells soon enough when nobody answers.
    fn check(&mut self) -> Result<(), Failure> {
        match self.process {
            Some(known) if identify(known.pid) != Some(known) => Err(Failure {
                stage: Stage::Trial,
                message: format!("process {} of {} has ended in the middle of the run", known.pid, self.url),
                detail: String::new(),
            }),
            _ => Ok(()),
        }
    }

    fn stop(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    fn answering() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("told");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n");
            }
        });
        address
    }

    #[test]
    fn attaches_to_what_answers_whatever_the_status_and_watches_the_named_process() {
        let address = answering();
        let mut watched = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("starts");
        let mut service =
            attach(&format!("http://{address}"), Some(watched.id()), "/", Change::default(), None)
                .expect("it answers");
        assert_eq!(service.addresses(), [address]);
        assert_eq!(service.process(), Some(Watched { pid: watched.id(), include_root: true }));
        assert_eq!(service.check(), Ok(()));
        service.stop();
        assert!(watched.try_wait().expect("ours").is_none(), "what is not ours is not stopped");
        watched.kill().expect("ours");
        watched.wait().expect("ours");
        let failure = service.check().expect_err("it is gone");
        assert_eq!(failure.stage, Stage::Trial);
        let gone = attach(&format!("http://{address}"), Some(watched.id()), "/", Change::default(), None)
            .err()
            .expect("no process");
        assert!(gone.message.contains("there is no process"), "{}", gone.message);
    }

    #[test]
    fn says_what_is_wrong_with_the_address() {
        let nobody = hoptax_host::ports::Ports::take(1).expect("a port").numbers().expect("told")[0];
        let refused =
            |url: &str| attach(url, None, "/", Change::default(), None).err().expect("nothing there").message;
        let message = refused(&format!("http://127.0.0.1:{nobody}"));
        assert!(message.starts_with(&format!("nothing answers at http://127.0.0.1:{nobody}")), "{message}");
        let message = refused("ftp://127.0.0.1:1");
        assert!(message.starts_with("ftp://127.0.0.1:1: "), "{message}");
    }

    #[test]
    fn the_port_is_80_unless_given() {
        assert_eq!(resolve("http://127.0.0.1"), Ok("127.0.0.1:80".parse().expect("an address")));
        assert_eq!(resolve("http://[::1]:8080/"), Ok("[::1]:8080".parse().expect("an address")));
        assert_eq!(resolve("http://[::1]"), Ok("[::1]:80".parse().expect("an address")));
    }
}

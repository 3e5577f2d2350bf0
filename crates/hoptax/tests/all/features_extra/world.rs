//! A gateway with features, in front of upstreams that echo requests.

use crate::support::client::{Answer, exchange_all};
use crate::support::server::{Response, Server};
use crate::support::sockets::listening;
use crate::support::{PATIENCE, wait_until};
use crate::world::{Running, driver_for, pack_gateway, running_plan, started};
use hoptax_format::spec::TlsSpec;
use hoptax_host::tree::descendants;
use hoptax_lab::Driver as _;
use hoptax_lab::features::Change;
use hoptax_lab::process::ProcessDriver;
use hoptax_plan::{AccessLog, Feature, Profile};
use std::net::Ipv4Addr;
use std::path::PathBuf;

const LABEL: &str = "extra";

/// A running gateway, stopped when dropped.
pub(super) struct Extra {
    pub(super) change: Change,
    service: Running,
    run: tempfile::TempDir,
    upstreams: Vec<Server>,
    // Owns the directory with the gateway's secrets.
    _driver: ProcessDriver,
}

/// A request. The fields are its differences from the request that the gateway's features require.
#[derive(Debug, Default, Clone)]
pub(super) struct Request<'a> {
    pub(super) method: Option<&'a str>,
    /// The path of the request. If `without_prefix` is set, the prefix that features require is not added.
    pub(super) path: &'a str,
    pub(super) without_prefix: bool,
    pub(super) without: &'a str,
    pub(super) with: Vec<(String, String)>,
    pub(super) from: Option<Ipv4Addr>,
}

impl Extra {
    pub(super) fn start(
        pack: &str,
        features: &[Feature],
        upstreams: usize,
        profile: Profile,
        access_log: AccessLog,
    ) -> Self {
        let upstreams: Vec<_> = (0..upstreams).map(upstream).collect();
        let mut plan = running_plan(vec![pack_gateway(LABEL, pack, 1, features)]);
        (plan.profile, plan.access_log) = (profile, access_log);
        let run = tempfile::tempdir().expect("a directory");
        let mut driver = driver_for(&plan, run.path());
        let addresses: Vec<_> = upstreams.iter().map(|upstream| upstream.address.into()).collect();
        let mut service = started(driver.start_gateway(&plan.gateways[0], &addresses));
        assert_eq!(service.0.check(), Ok(()), "{pack}");
        assert!(service.0.facts().version.is_some(), "{pack} reports its version");
        Self { change: service.0.facts().change.clone(), service, run, upstreams, _driver: driver }
    }

    pub(super) fn stop(mut self) {
        let root = self.service.0.process().expect("watched").pid;
        self.service.0.stop();
        assert!(descendants(root).is_empty(), "nothing is left");
    }

    /// Sends a request with everything that the features require.
    pub(super) fn ask(&self, path: &str) -> Answer {
        self.send(&Request { path, ..Request::default() }).expect("answered")
    }

    pub(super) fn send(&self, request: &Request<'_>) -> std::io::Result<Answer> {
        self.send_over(request, self.change.tls.as_ref())
    }

    pub(super) fn send_over(&self, request: &Request<'_>, tls: Option<&TlsSpec>) -> std::io::Result<Answer> {
        let prefix = if request.without_prefix { "" } else { self.change.prefix.as_str() };
        let mut text = format!("{} {prefix}{} HTTP/1.1\r\n", request.method.unwrap_or("GET"), request.path);
        // Without `connection: close`: Express Gateway passes it on to the upstream, and may still use that
        // connection again.
        text += "host: echo.com\r\n";
        let own = self.change.headers.iter().filter(|(name, _)| name != request.without);
        for (name, value) in own.chain(&request.with) {
            // If there are several consumers, the request has the credentials of the first consumer.
            let value = match value.starts_with("{{line ") {
                true => self.lines().into_iter().next().expect("a line"),
                false => value.clone(),
            };
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let how = (tls, self.change.proxy_protocol);
        let answers = exchange_all(request.from, self.service.0.addresses()[0], how, &text, 1)?;
        Ok(answers.into_iter().next().expect("one answer"))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.change.files.values().flat_map(|text| text.lines().map(str::to_owned)).collect()
    }

    pub(super) fn upstream_connections(&self) -> usize {
        self.upstreams.iter().map(Server::connections).sum()
    }

    pub(super) fn access_log(&self) -> PathBuf {
        self.run.path().join("logs").join(LABEL).join("access.log")
    }

    /// Requests `path` again and again until the access log contains it. One request is not enough for two
    /// reasons. Gateways buffer log lines. And the separate program varnishncsa, which writes Varnish's log,
    /// logs only requests that arrive after it has found varnishd.
    pub(super) fn logged(&self, path: &str) {
        wait_until(&format!("`{path}` is in the access log"), PATIENCE, || {
            assert_eq!(self.ask(path).status, 200);
            std::fs::read_to_string(self.access_log()).unwrap_or_default().contains(path)
        });
    }

    /// Asserts that no process of the gateway listens on an address other than loopback.
    pub(super) fn listens_on_loopback_alone(&self) {
        let root = self.service.0.process().expect("watched").pid;
        let sockets = listening(descendants(root));
        assert!(sockets.contains(&self.service.0.addresses()[0].to_string()), "{sockets:?}");
        // Java uses dual-stack sockets, so an address can be an IPv4-mapped one, which is shown as IPv4.
        assert!(sockets.iter().all(|socket| socket.starts_with("127.")), "{sockets:?}");
    }
}

/// Answers with the head of the request. Header names are in lower case.
fn upstream(number: usize) -> Server {
    Server::start(move |request| {
        let mut lines = request.head.lines();
        let mut body = lines.next().expect("a request line").to_owned() + "\n";
        for header in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = header.split_once(':').unwrap_or((header, ""));
            body += &format!("{}: {}\n", name.to_ascii_lowercase(), value.trim());
        }
        // The text is long enough to be worth compressing.
        body += &"filler\n".repeat(100);
        Response::text(body)
            .with("x-instance", number)
            .with("x-count", request.number)
            .with("x-hoptax-internal", "internal")
            .with("cache-control", "public, max-age=3600")
    })
}

//! Helpers for tests of features: an upstream that stores requests, a gateway with features, and a client.
//! The client can use TLS and other source addresses.

use crate::support::client::{Answer, exchange_all};
use crate::support::server::{self, Response, Server};
use crate::world::{Running, driver_for, running_plan};
use hoptax_format::spec::{ProxyProtocol, TlsSpec};
use hoptax_lab::Driver as _;
use hoptax_lab::features::{Change, TOKEN_REVIEW_PATH};
use hoptax_lab::process::ProcessDriver;
use hoptax_plan::{Feature, Gateway, GatewayKind, Profile};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

type Headers = Vec<(String, String)>;

fn value<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// An upstream that stores requests. It also reviews tokens, and accepts only one token. A posted review of
/// the token `refused` gets status 403. A review of any other token says that the token is not authenticated.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    server: Server,
    good_token: Arc<Mutex<String>>,
}

impl Origin {
    pub(super) fn start(name: &'static str) -> Self {
        let good_token = Arc::<Mutex<String>>::default();
        let good = Arc::clone(&good_token);
        let server = Server::start(move |request| answer(request, name, &good.lock().expect("not poisoned")));
        Self { address: server.address, server, good_token }
    }

    pub(super) fn trust(&self, token: &str) {
        token.clone_into(&mut self.good_token.lock().expect("not poisoned"));
    }

    /// Plain requests and token reviews since the last call.
    pub(super) fn seen(&self) -> (Vec<server::Request>, Vec<server::Request>) {
        self.server.take_requests().into_iter().partition(|seen| seen.path != TOKEN_REVIEW_PATH)
    }
}

fn answer(seen: &server::Request, name: &str, good_token: &str) -> Response {
    // A Kubernetes API server sends this header too.
    let uncached = |response: Response| response.with("cache-control", "no-cache, private");
    if seen.path != TOKEN_REVIEW_PATH {
        let body = format!("{name} {}", "and much more of it ".repeat(40));
        return Response::text(body).with("x-hoptax-internal", "for nobody else");
    }
    if seen.body.is_empty() {
        // nginx's `auth_request` sees only the status, so the result of the review is the status.
        let shown = seen.header("authorization").unwrap_or_default().trim_start_matches("Bearer ");
        return uncached(Response::new(if shown == good_token { 200 } else { 401 }, ""));
    }
    let review: serde_json::Value = serde_json::from_str(&seen.body).expect("JSON");
    let token = review["spec"]["token"].as_str().expect("a token");
    let known = !token.is_empty() && token == good_token;
    let body = serde_json::json!({ "status": { "authenticated": known } }).to_string();
    let status = if token == "refused" { 403 } else { 201 };
    uncached(Response::new(status, body).with("content-type", "application/json"))
}

pub(super) struct Started {
    pub(super) service: Running,
    pub(super) address: SocketAddr,
    pub(super) change: Change,
    pub(super) run: tempfile::TempDir,
    pub(super) what: String,
    // The driver must be dropped last, because dropping it deletes the gateway's files.
    _driver: ProcessDriver,
}

/// Starts `pack` with these features and their settings, in front of `origins`.
pub(super) fn start(pack: &str, profile: Profile, features: &[Feature], origins: &[&Origin]) -> Started {
    let addresses: Vec<_> = origins.iter().map(|origin| origin.address).collect();
    let (mut driver, run, gateways) = driver(&[(pack, features)], profile);
    started(&mut driver, &gateways[0], &addresses, profile)
        .map(|(service, address, change, what)| Started {
            service,
            address,
            change,
            run,
            what,
            _driver: driver,
        })
        .unwrap_or_else(|failure| panic!("{pack} {features:?}: {failure:#?}"))
}

/// Creates a driver for gateways with these packs and features. Returns the driver and the gateways.
pub(super) fn driver(
    wanted: &[(&str, &[Feature])],
    profile: Profile,
) -> (ProcessDriver, tempfile::TempDir, Vec<Gateway>) {
    let gateway = |(index, (pack, features)): (usize, &(&str, &[Feature]))| {
        let (pack, features) = ((*pack).to_owned(), features.to_vec());
        let label = format!("{pack}-{index}");
        Gateway {
            label,
            kind: GatewayKind::Pack {
                pack,
                workers: 1,
                features,
                instances: None,
                driver: Default::default(),
                upstream_http2: false,
            },
        }
    };
    let run = tempfile::tempdir().expect("a directory");
    let mut plan = running_plan(wanted.iter().enumerate().map(gateway).collect());
    plan.profile = profile;
    let driver = driver_for(&plan, run.path());
    (driver, run, plan.gateways)
}

type Up = (Running, SocketAddr, Change, String);

pub(super) fn started(
    driver: &mut ProcessDriver,
    gateway: &Gateway,
    upstreams: &[SocketAddr],
    profile: Profile,
) -> Result<Up, hoptax_record::Failure> {
    let upstreams: Vec<_> = upstreams.iter().map(|upstream| (*upstream).into()).collect();
    let service = Running(driver.start_gateway(gateway, &upstreams)?);
    let (address, change) = (service.0.addresses()[0], service.0.facts().change.clone());
    let what = format!("{} {profile:?} {:?}", gateway.label, gateway.features());
    Ok((service, address, change, what))
}

/// A request. Most of the methods below change one part of the request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    to: SocketAddr,
    method: &'static str,
    path: String,
    headers: Headers,
    body: &'static str,
    pub(super) tls: Option<TlsSpec>,
    pub(super) proxy_protocol: Option<ProxyProtocol>,
    from: Option<Ipv4Addr>,
}

impl Started {
    /// A request with everything that the features require.
    pub(super) fn ask(&self, path: &str) -> Ask {
        let mut headers = self.change.headers.clone();
        for (_, value) in &mut headers {
            // If there are several consumers, the request has the credentials of the first consumer.
            if let Some(file) = value.strip_prefix("{{line ").and_then(|rest| rest.strip_suffix("}}")) {
                *value = self.change.files[file].lines().next().expect("a line").to_owned();
            }
        }
        let path = format!("{}{path}", self.change.prefix);
        let tls = self.change.tls.clone();
        let proxy_protocol = self.change.proxy_protocol;
        Ask { to: self.address, method: "GET", path, headers, body: "", tls, proxy_protocol, from: None }
    }

    pub(super) fn rendered(&self, file: &str) -> String {
        let all = self.run.path().join("rendered");
        let directory: PathBuf =
            std::fs::read_dir(all).expect("rendered").next().expect("one").expect("readable").path();
        std::fs::read_to_string(directory.join(file)).expect("readable")
    }
}

impl Ask {
    pub(super) fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    pub(super) fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub(super) fn post(mut self, body: &'static str) -> Self {
        (self.method, self.body) = ("POST", body);
        self.with("content-length", &body.len().to_string())
    }

    /// Sets a header. Replaces a header of the same name.
    pub(super) fn with(self, name: &str, value: &str) -> Self {
        let mut without = self.without(name);
        without.headers.push((name.to_owned(), value.to_owned()));
        without
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(super) fn from(mut self, address: Ipv4Addr) -> Self {
        self.from = Some(address);
        self
    }

    pub(super) fn header(&self, name: &str) -> &str {
        value(&self.headers, name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }

    fn text(&self, close: bool) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: echo.com\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text + if close { "connection: close\r\n\r\n" } else { "\r\n" } + self.body
    }

    /// Sends the request on its own connection.
    pub(super) fn send(&self) -> Answer {
        self.try_send().unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Like [`Self::send`], for a request that may get no response.
    pub(super) fn try_send(&self) -> std::io::Result<Answer> {
        Ok(self.exchange_all(&self.text(true), 1)?.remove(0))
    }

    fn exchange_all(&self, text: &str, count: usize) -> std::io::Result<Vec<Answer>> {
        exchange_all(self.from, self.to, (self.tls.as_ref(), self.proxy_protocol), text, count)
    }

    /// Sends the request over TLS. Returns the negotiated version and cipher suite.
    pub(super) fn agreed(&self) -> std::io::Result<(rustls::ProtocolVersion, rustls::CipherSuite)> {
        Ok(self.try_send()?.tls.expect("TLS"))
    }

    /// Sends the request `count` times, pipelined on one connection. Returns the statuses of the responses.
    pub(super) fn statuses_of(&self, count: usize) -> Vec<u16> {
        let text = self.text(false).repeat(count - 1) + &self.text(true);
        let answers = self.exchange_all(&text, count).expect("answers");
        answers.iter().map(|answer| answer.status).collect()
    }
}

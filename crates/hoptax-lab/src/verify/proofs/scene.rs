//! Sends requests for proofs through a gateway, and reads the requests that the gateway's upstream received.

use crate::features::{Change, Credentials, credential};
use crate::verify::messages::plain_headers;
use crate::verify::{Requests, SEED};
use hoptax_format::Address;
use hoptax_format::spec::{HttpVersion, TargetSpec, TlsSpec};
use hoptax_load::target;
use hoptax_plan::{Feature, units};
use hoptax_record::{Failure, Stage};
use hoptax_servers::http_client::{Agreed, Answer, HttpClient, ProxyHeader, show};
use hoptax_servers::upstream::MARK;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// A gateway under test, its upstream, and its requests.
pub(super) struct Scene<'a> {
    pub(super) upstreams: &'a [Address],
    pub(super) gateway: Address,
    pub(super) requests: &'a Requests,
    pub(super) change: &'a Change,
    pub(super) made: &'a Credentials,
    pub(super) timeout: Duration,
    /// Whether the upstream echoes the requests that it receives.
    pub(super) echoes: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) tls: Option<TlsSpec>,
    pub(super) from: Option<IpAddr>,
    pub(super) proxy_header: Option<ProxyHeader>,
}

impl Request {
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }
}

/// The request as the upstream received it.
pub(super) struct Echo(pub(super) serde_json::Value);

impl Echo {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.0["headers"].as_array()?;
        fields.iter().find(|field| field[0] == name)?[1].as_str()
    }

    pub(super) fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap_or_default()
    }

    pub(super) fn number(&self, member: &str) -> u64 {
        self.0[member].as_u64().unwrap_or_default()
    }
}

pub(super) type Proof = Result<(), Failure>;

impl Scene<'_> {
    /// A request that satisfies all features. If the upstream echoes requests, the request is for `path`;
    /// otherwise it is for the plan's target.
    pub(super) fn request(&self, path: &str) -> Request {
        let target = &self.requests.targets[0];
        let path = if self.echoes { format!("{MARK}{path}") } else { target.path.clone() };
        let mut request = Request {
            method: "GET",
            path: self.change.prefix.clone() + &path,
            headers: plain_headers(&target.headers),
            tls: self.change.tls.clone(),
            from: None,
            proxy_header: self.change.proxy_protocol.map(ProxyHeader::of_client),
        };
        for (name, value) in &self.change.headers {
            request = request.with(name, value);
        }
        self.as_consumer(request, 0)
    }

    /// Replaces the credentials in the request by those of consumer `index`.
    pub(super) fn as_consumer(&self, mut request: Request, index: usize) -> Request {
        for feature in &self.change.features {
            if let Some((name, value)) = credential(*feature, &self.made.consumers[index]) {
                request = request.with(name, &value);
            }
        }
        request
    }

    /// A client that can send `request` to the gateway, and the bytes of the request.
    pub(super) fn client<'b>(&self, request: &'b Request) -> anyhow::Result<(HttpClient<'b>, Vec<u8>)> {
        let spec = TargetSpec::only(request.method, &request.path, request.headers.clone(), Vec::new());
        let bytes = target::first_request(&spec, &self.requests.files, SEED, HttpVersion::Http11)?;
        let client = HttpClient {
            tls: request.tls.as_ref(),
            from: request.from,
            proxy_header: request.proxy_header,
            ..HttpClient::plain(self.gateway.clone(), self.timeout)
        };
        Ok((client.speaking(self.requests.usual_version()), bytes))
    }

    pub(super) fn send_noting_tls(&self, request: &Request) -> anyhow::Result<(Answer, Option<Agreed>)> {
        let (client, bytes) = self.client(request)?;
        client.send_noting_tls(&bytes, request.method == "HEAD")
    }

    /// The response to `request`, with any status. If the rate limit is expected to reject some requests, a
    /// request that got 429 is repeated.
    pub(super) fn answer(&self, request: &Request) -> anyhow::Result<Answer> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let (answer, _) = self.send_noting_tls(request)?;
            if !(self.change.expects_429 && answer.status == 429) || Instant::now() > deadline {
                return Ok(answer);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The response to a request that the gateway must let through.
    pub(super) fn must_accept(&self, feature: Feature, request: &Request) -> Result<Answer, Failure> {
        let answer = self.answer(request).map_err(|error| {
            not_on(
                feature,
                &format!("it does not answer a request that it should let through: {error:#}"),
                &[],
            )
        })?;
        if answer.status >= 400 {
            let what = format!("it answers {} to a request that it should let through", answer.status);
            return Err(not_on(feature, &what, &[("it answered", &answer)]));
        }
        Ok(answer)
    }

    /// The request as the upstream received it, and the response. The gateway must let the request through.
    pub(super) fn echo(&self, feature: Feature, request: &Request) -> Result<(Echo, Answer), Failure> {
        let answer = self.must_accept(feature, request)?;
        match parsed(&answer) {
            Some(echo) => Ok((echo, answer)),
            None => Err(not_on(feature, "the upstream's echo is incomplete", &[("it answered", &answer)])),
        }
    }

    /// Proves that the gateway responds with `status` to a request; `how` describes the request.
    pub(super) fn must_refuse(&self, feature: Feature, request: &Request, status: u16, how: &str) -> Proof {
        let good = self.must_accept(feature, &self.request("echo"))?;
        let answer = self.answer(request).map_err(|error| {
            not_on(feature, &format!("it gives no answer {how}, but should answer {status}: {error:#}"), &[])
        })?;
        if answer.status == status {
            return Ok(());
        }
        let what = format!("it answers {} {how}, but should answer {status}", answer.status);
        Err(not_on(feature, &what, &[("a correct request", &good), ("this request", &answer)]))
    }

    /// The response to the plan's first target, as clients of this gateway send it. `alter` changes the
    /// request.
    pub(super) fn call(
        &self,
        feature: Feature,
        alter: impl FnOnce(&mut TargetSpec),
    ) -> Result<Answer, Failure> {
        let (mut targets, mut files) = (self.requests.targets.clone(), self.requests.files.clone());
        self.change.apply_to(&mut targets, &mut files);
        alter(&mut targets[0]);
        let version = self.requests.usual_version();
        let client = self.change.client(self.gateway.clone(), self.timeout).speaking(version);
        let bytes = target::first_request(&targets[0], &files, SEED, HttpVersion::Http11);
        let answer = bytes.map_err(anyhow::Error::from).and_then(|bytes| client.send(&bytes, false));
        answer.map_err(|error| not_on(feature, &format!("it does not answer a call: {error:#}"), &[]))
    }

    pub(super) fn direct(&self, address: &Address, path: &str) -> anyhow::Result<Answer> {
        let direct = &self.requests.direct;
        let mut headers = vec![("host".to_owned(), units::host_header_of(direct.tls.is_some(), address))];
        headers.extend(direct.headers.iter().cloned());
        let spec = TargetSpec::only("GET", &format!("{MARK}{path}"), headers, Vec::new());
        let bytes = target::first_request(&spec, &BTreeMap::new(), SEED, HttpVersion::Http11)?;
        let client = direct.client(address.clone(), self.timeout);
        client.speaking(self.requests.usual_version()).send(&bytes, false)
    }

    pub(super) fn upstream_echoes(&self) -> bool {
        let answer = self.upstreams.first().and_then(|address| self.direct(address, "echo").ok());
        answer.as_ref().and_then(parsed).is_some()
    }
}

/// The echo in the body of a response. The body may be compressed.
pub(super) fn parsed(answer: &Answer) -> Option<Echo> {
    let encoded = answer.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip");
    let body =
        if encoded { crate::verify::tolerance::unpacked(&answer.body).ok()? } else { answer.body.clone() };
    let echo: serde_json::Value = serde_json::from_slice(&body).ok()?;
    (echo["hoptax"] == "echo").then_some(Echo(echo))
}

/// A failure that names the feature and shows the responses.
pub(super) fn not_on(feature: Feature, what: &str, answers: &[(&str, &Answer)]) -> Failure {
    let detail = answers.iter().map(|(name, answer)| format!("{name}:\n{}", show(answer))).collect();
    Failure { stage: Stage::Verify, message: format!("feature `{feature}` is not on: {what}"), detail }
}

pub(super) fn is(feature: Feature, holds: bool, what: &str, answers: &[(&str, &Answer)]) -> Proof {
    if holds { Ok(()) } else { Err(not_on(feature, what, answers)) }
}

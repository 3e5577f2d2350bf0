//! The ledger of an upstream that is not built in: request counters read over HTTP before and after each
//! trial.

use super::features::Change;
use anyhow::Context as _;
use hoptax_format::Address;
use hoptax_format::spec::{HttpVersion, TargetSpec};
use hoptax_load::target;
use hoptax_plan::selector::Selector;
use hoptax_plan::{LedgerSource, units};
use hoptax_servers::ledger::{InstanceCounts, Ledger};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time limit for reading the counters. A service with many metrics, such as a Kubernetes API server, needs
/// some time to send them.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads an upstream's request counters.
#[derive(Debug)]
pub struct ExternalLedger {
    address: Address,
    /// Credentials to send with each request for the counters.
    change: Change,
    version: HttpVersion,
    request: Vec<u8>,
    /// URL, for messages.
    place: String,
    /// Each selector finds one counter. The sum of all counters is the count of requests.
    selectors: Vec<Selector>,
    typed: Vec<String>,
}

impl ExternalLedger {
    /// Creates a reader for the counters that `ledger` describes, at `address`. `change` adds credentials to
    /// the reader's requests.
    ///
    /// # Errors
    /// If the request cannot be built, or a selector is invalid.
    pub fn new(ledger: &LedgerSource, address: impl Into<Address>, change: Change) -> anyhow::Result<Self> {
        let address = address.into();
        let selector = |text: &String| Selector::parse(ledger.kind, text).map_err(anyhow::Error::msg);
        let mut headers = vec![("host".to_owned(), units::host_header_of(change.tls.is_some(), &address))];
        headers.extend(change.headers.iter().cloned());
        let spec = TargetSpec::only("GET", &ledger.path, headers, Vec::new());
        Ok(Self {
            address,
            request: target::first_request(&spec, &BTreeMap::new(), 0, HttpVersion::Http11)?,
            place: format!("{}{}", ledger.url.as_deref().unwrap_or_default(), ledger.path),
            selectors: ledger.select.iter().map(selector).collect::<anyhow::Result<_>>()?,
            typed: ledger.select.clone(),
            change,
            version: HttpVersion::Http11,
        })
    }

    /// The same reader, which sends its requests in `version`.
    #[must_use]
    pub fn speaking(self, version: HttpVersion) -> Self {
        Self { version, ..self }
    }

    /// The current count of requests. A selector that matches nothing counts as 0 if another selector
    /// matches, because many servers report a series only after its first event.
    ///
    /// # Errors
    /// If there is no response, or no selector matches.
    pub fn read(&self) -> anyhow::Result<Ledger> {
        let client = self.change.client(self.address.clone(), TIMEOUT).speaking(self.version);
        let place = &self.place;
        let answer = client
            .send(&self.request, false)
            .with_context(|| format!("cannot read the upstream's counts at {place}"))?;
        anyhow::ensure!(
            answer.status == 200,
            "cannot read the upstream's counts: {place} answered with status {}",
            answer.status
        );
        let text = String::from_utf8_lossy(&answer.body);
        let found: Vec<f64> = self.selectors.iter().filter_map(|selector| selector.value(&text)).collect();
        anyhow::ensure!(
            !found.is_empty(),
            "`{}` selects nothing in the response of {place}. Check `upstream.ledger` of the plan",
            self.typed.join("` or `")
        );
        let requests = found.iter().sum::<f64>().max(0.0) as u64;
        let counts = InstanceCounts { requests, ..InstanceCounts::default() };
        Ok(Ledger { instances: vec![counts], clock: None, requests_only: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::selector::SelectorKind;
    use hoptax_plan::{Body, BuiltInUpstream};
    use hoptax_servers::ledger;
    use hoptax_servers::upstream::{Placement, RunningUpstream};
    use hoptax_testing::own_listener;
    use std::io::{Read as _, Write as _};
    use std::net::SocketAddr;

    fn telling(body: &'static str) -> SocketAddr {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                let mut request = [0; 1024];
                let count = stream.read(&mut request).unwrap_or_default();
                let let_in = String::from_utf8_lossy(&request[..count]).contains("authorization: Bearer abc");
                let status = if let_in { "200 OK" } else { "401 Unauthorized" };
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + body).as_bytes());
            }
        });
        address
    }

    fn count(body: &'static str, select: &[&str], token: &str) -> Result<u64, String> {
        let ledger = LedgerSource {
            url: None,
            path: "/metrics".into(),
            kind: SelectorKind::Prometheus,
            select: select.iter().map(|text| (*text).to_owned()).collect(),
        };
        let change = Change {
            headers: vec![("authorization".into(), format!("Bearer {token}"))],
            ..Change::default()
        };
        let count = ExternalLedger::new(&ledger, telling(body), change).expect("right");
        let ledger = count.read().map_err(|error| format!("{error:#}"))?;
        assert!(ledger.requests_only);
        Ok(ledger.instances[0].requests)
    }

    #[test]
    fn counters_are_read_over_http2_if_the_loads_use_it() {
        let settings = BuiltInUpstream::with_body(Body::Text("requests 12\n".into()));
        let upstream = RunningUpstream::start(&settings, &Placement::default()).expect("starts");
        let source = LedgerSource {
            url: None,
            path: "/metrics".into(),
            kind: SelectorKind::Prometheus,
            select: vec!["requests".into()],
        };
        let address = upstream.ready().instances[0].clone();
        let count = ExternalLedger::new(&source, address, Change::default()).expect("right");
        let read = count.speaking(HttpVersion::Http2).read().expect("answered");
        assert_eq!(read.instances[0].requests, 12);
        let own = ledger::fetch(upstream.ready().control).expect("a ledger");
        assert_eq!(own.instances[0].http_version, BTreeMap::from([("2".to_owned(), 1)]));
    }

    #[test]
    fn selected_counters_are_added_and_missing_ones_are_zero() {
        const TEXT: &str =
            "# TYPE requests counter\nrequests{verb=\"GET\"} 7\nrequests{verb=\"POST\"} 5\nother 100\n";
        assert_eq!(count(TEXT, &["requests{verb=\"GET\"}", "requests{verb=\"PUT\"}"], "abc"), Ok(7));
        assert_eq!(count(TEXT, &["requests"], "abc"), Ok(12));
        let nothing = count(TEXT, &["request"], "abc").expect_err("no such series");
        assert!(nothing.contains("`request`"), "{nothing}");
        let outside = count(TEXT, &["requests"], "wrong").expect_err("not let in");
        assert!(outside.contains("401"), "{outside}");
    }
}

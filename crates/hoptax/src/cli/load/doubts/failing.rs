//! Requests that failed, and responses that are not successes.

use super::{Doubt, FAILED};
use hoptax_analysis::thresholds::MISDIRECTED;
use hoptax_format::record::{Cause, Counts, LoadRecord};
use hoptax_format::spec::{HttpVersion, LoadSpec};

pub(in super::super) fn failed(counts: &Counts) -> u64 {
    counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses
}

pub(super) fn misdirected(spec: &LoadSpec, record: &LoadRecord) -> Option<Doubt> {
    let count = record.counts.status.get(&MISDIRECTED).copied().unwrap_or(0);
    (count as f64 > FAILED * record.counts.completed as f64)
        .then_some(Doubt::Misdirected { count, over_tls: spec.tls.is_some() })
}

pub(super) fn never_answered(spec: &LoadSpec, record: &LoadRecord) -> Option<Doubt> {
    let counts = &record.counts;
    let of = |cause: Cause| counts.causes.get(&cause).copied().unwrap_or(0);
    let unanswered = of(Cause::ClosedBeforeResponse) + of(Cause::ResetBeforeResponse);
    (counts.completed == 0 && 2 * unanswered > failed(counts)).then_some(Doubt::NeverAnswered {
        over_tls: spec.tls.is_some(),
        proxied: spec.proxy_protocol.is_some(),
        http2: spec.http == HttpVersion::Http2,
    })
}

pub(super) fn failures(record: &LoadRecord) -> Option<Doubt> {
    let counts = &record.counts;
    let failed = failed(counts);
    let most = counts.causes.iter().max_by_key(|(_, count)| **count).map(|(cause, _)| *cause);
    (failed as f64 > FAILED * counts.scheduled as f64).then_some(Doubt::Failures {
        failed,
        scheduled: counts.scheduled,
        most,
    })
}

pub(super) fn not_successes(spec: &LoadSpec, record: &LoadRecord) -> Option<Doubt> {
    let counts = &record.counts;
    let failed = counts.completed.saturating_sub(counts.ok);
    if failed == 0 || failed as f64 <= FAILED * counts.completed as f64 {
        return None;
    }
    // A status is reported as the reason only if its count is at most the number of failures, and more than
    // half of that number.
    let statuses = counts.status.iter().filter(|(status, count)| **count <= failed && **status >= 300);
    let status = statuses.max_by_key(|(_, count)| **count).filter(|(_, count)| 2 * **count > failed);
    let status = status.map(|(status, _)| *status);
    if status == Some(MISDIRECTED) {
        // This status has a separate warning.
        return None;
    }
    let proxied = spec.proxy_protocol.is_some();
    Some(Doubt::NotSuccesses { failed, completed: counts.completed, status, proxied })
}

/// What to do about a cause of failed requests.
pub(in super::super) fn advice_on(cause: Cause) -> &'static str {
    use Cause as C;
    match cause {
        C::ConnectRefused => "Check that a server listens there.",
        C::ConnectTimeout | C::Unreachable => {
            "Check the address, firewalls between here and there, and the server's listen backlog."
        }
        C::ConnectReset | C::ConnectFailed => "Read the log of the server, and of firewalls before it.",
        C::ProxyRefused => {
            "Check the proxy's credentials (--proxy http://USER:PASSWORD@HOST:PORT), and which hosts and \
            ports it allows."
        }
        C::PortsExhausted => "Use more source addresses (--source), or keep connections alive.",
        C::DescriptorsExhausted => {
            "Raise the limit of open files (ulimit -n), or use fewer connections (-c)."
        }
        C::TlsCertificate => {
            "Trust the certificate's authority (--ca), fix the name (--server-name), or accept any \
             certificate (--insecure)."
        }
        C::TlsTimeout | C::TlsRefused | C::TlsClosed | C::TlsMalformed => {
            "Check that the server speaks TLS there, and with these versions (--tls)."
        }
        C::FirstByteTimeout | C::ResponseTimeout | C::ReadTimeout => {
            "The server was too slow: read its log, send less load, or wait longer (--timeout)."
        }
        C::ClosedBeforeResponse | C::ResetBeforeResponse => {
            "The server ends connections without a response. Read its log. Common causes are a limit, an \
             unknown host name, or another protocol: TLS, HTTP/2, PROXY protocol."
        }
        C::ClosedInResponse | C::ResetInResponse => {
            "The server ends connections in the middle of a response: read its log."
        }
        C::MalformedResponse => "Check that the server speaks this version of HTTP there (--http).",
        C::NotHttp2 => {
            "Use HTTP/1.1 (leave out --http 2), or switch on HTTP/2 in the server: over TLS by ALPN, without \
             TLS by prior knowledge. It may also expect TLS, or the PROXY protocol (--proxy-protocol v2)."
        }
        C::NoStream | C::StreamRefused => "The server allows fewer requests at a time: use fewer --streams.",
        C::StreamReset => "The server ends requests without a response: read its log.",
        C::GoawayUnprocessed => {
            "The server closes connections before it processes requests: read its log. Common causes are a \
             low limit of requests (nginx: keepalive_requests), and the PROXY protocol."
        }
        C::NoWebSockets => {
            "Use HTTP/1.1 (leave out --http 2), or switch on WebSockets over HTTP/2 (extended CONNECT, RFC \
             8441) in the server."
        }
        C::TunnelCut => {
            "A gateway or the server ends WebSockets without a close frame: read its log. A common cause is \
             an idle time limit that is shorter than the time between messages."
        }
        C::TunnelClosed => "The server closes WebSockets with an error: read its log.",
        C::StreamUnended => {
            "Responses end before the model has announced the end. A gateway can hide that its upstream cut \
             the response: read the logs of both."
        }
        C::StreamError => "The model failed within its response: read the log of the server.",
    }
}

/// What to do about responses with this status.
pub(super) fn advice_on_status(status: Option<u16>) -> &'static str {
    match status {
        Some(401 | 403 | 407) => "Send what the server requires, for example -H 'authorization: …'.",
        Some(404 | 410) => "Check the path, and the host name (-H 'host: …').",
        Some(405) => "Use a method that the server accepts (-X).",
        Some(400 | 411 | 413..=415 | 422) => {
            "Check what the server requires of a request: its body, its headers."
        }
        Some(429) => "The server limits the rate: send less load, or raise its limit.",
        Some(500..) => "Read the server's log.",
        _ => "Compare a response with what you expect, for example with curl -i.",
    }
}

//! Tests whether a gateway passes on requests and responses unchanged. hoptax sends the same requests to
//! direct and to the gateway, over HTTP/1.1 or HTTP/2. HTTP/2 has further cases. Calls of gRPC are tested
//! with a scripted upstream, and so are server-sent events, WebSockets and requests to language models.
//!
//! The gateway must answer as direct does. The upstream must receive the client's request unchanged, except
//! for headers that a hop may change ([`HOP_BY_HOP`]). A pack lists the known differences of its gateway
//! under `differences`. A listed difference must occur.

mod case_of_rule;
mod cases;
mod grpc;
mod http2;
mod listening;
mod messages;

pub use cases::{CASES, ConformanceCase};
pub use grpc::{GRPC_CASES, GrpcCase, GrpcUpstream};
pub use http2::{HTTP2_CASES, Http2Case};
pub use messages::{
    ANTHROPIC_CASES, EVENTS_CASES, MessagesCase, MessagesUpstream, OPENAI_CASES, WEBSOCKET_CASES,
};

use super::concurrent::concurrently;
use super::features::Change;
use super::legs::Legs;
use super::packs::manifest::Difference;
use super::verify::difference;
use cases::Sent;
use hoptax_format::Address;
use hoptax_format::llm::Api;
use hoptax_format::spec::HttpVersion;
use hoptax_record::printable;
use hoptax_servers::http_client::{Answer, HttpClient};
use http2::side::AT_ONCE;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Result of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Name of the case.
    pub case: &'static str,
    /// How the gateway differs from direct; absent if both behave the same.
    pub difference: Option<String>,
}

impl Seen {
    fn of((case, difference): (&'static str, Option<String>)) -> Self {
        Self { case, difference: difference.as_deref().map(printable) }
    }
}

/// A contradiction between the results and the pack's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// A difference that the pack does not list.
    Unlisted {
        /// Name of the case.
        case: &'static str,
        /// The difference.
        seen: String,
    },
    /// The gateway differs from direct in this case, but not as the pack's list says.
    Otherwise {
        /// Name of the case.
        case: &'static str,
        /// The difference.
        seen: String,
        /// The listed difference.
        listed: String,
    },
    /// A listed difference that did not occur.
    Unseen {
        /// Name of the case.
        case: String,
        /// The listed difference.
        listed: String,
    },
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unlisted { case, seen } => {
                write!(f, "{case}: {seen}; the pack does not list it under `differences`")
            }
            Self::Otherwise { case, seen, listed } => write!(f, "{case}: {seen}; the pack lists `{listed}`"),
            Self::Unseen { case, listed } => {
                write!(f, "{case}: same as direct; the pack lists `{listed}`, which did not occur")
            }
        }
    }
}

/// The names of all cases: both versions of HTTP, gRPC, server-sent events, WebSockets and language models.
pub fn names() -> impl Iterator<Item = &'static str> {
    let http = CASES.iter().map(|case| case.name).chain(HTTP2_CASES.iter().map(|case| case.name));
    let messages = EVENTS_CASES.iter().chain(&WEBSOCKET_CASES).chain(&OPENAI_CASES).chain(&ANTHROPIC_CASES);
    let messages = messages.map(|case| case.name);
    http.chain(GRPC_CASES.iter().map(|case| case.name)).chain(messages)
}

/// The cases that do not exist in this version of HTTP although they exist in another one, with the reason.
pub fn left_out(http: HttpVersion) -> impl Iterator<Item = (&'static str, &'static str)> {
    CASES.iter().filter_map(move |case| Some((case.name, case.left_out(http)?)))
}

/// A case of HTTP.
#[derive(Clone, Copy)]
enum HttpCase {
    Exchange(&'static ConformanceCase),
    Rule(&'static Http2Case),
}

/// A part of the cases of HTTP.
#[derive(PartialEq, Eq)]
enum Stage {
    /// The case that reads the upstream's counts. It comes first, because cancels can arrive late.
    Counting,
    /// Cases that can run at the same time.
    Independent,
    /// Cases in which the upstream closes a connection early, one after the other.
    Breaking,
}

impl HttpCase {
    fn stage(self) -> Stage {
        match self {
            Self::Exchange(case) if case.breaks => Stage::Breaking,
            Self::Rule(case) if case.name == http2::COUNTING => Stage::Counting,
            _ => Stage::Independent,
        }
    }
}

/// Runs every case of the clients' version of HTTP against `direct`, which is the built-in upstream, and
/// against a gateway in front of it. Nobody else may use this upstream meanwhile. `change` says whether the
/// gateway uses TLS, and which headers are not compared. `timeout` is the time limit for each response.
///
/// # Errors
/// If direct itself does not answer, or not as the case expects.
pub fn observe(
    direct: impl Into<Address>,
    gateway: SocketAddr,
    change: &Change,
    legs: Legs,
    timeout: Duration,
) -> anyhow::Result<Vec<Seen>> {
    let http = legs.clients;
    let direct = HttpClient::plain(direct, timeout).speaking(http);
    let gateway = change.client(gateway, timeout).speaking(http);
    let exchanges = CASES.iter().filter(|case| case.left_out(http).is_none()).map(HttpCase::Exchange);
    let rules = HTTP2_CASES.iter().filter(|_| http == HttpVersion::Http2).map(HttpCase::Rule);
    let all: Vec<HttpCase> = exchanges.chain(rules).collect();
    // Over HTTP/2, requests of several cases could share a connection to the upstream.
    let at_once = if legs.upstream == HttpVersion::Http2 { 1 } else { AT_ONCE };
    let mut seen = Vec::new();
    for (stage, at_once) in [(Stage::Counting, 1), (Stage::Independent, at_once), (Stage::Breaking, 1)] {
        let cases: Vec<HttpCase> = all.iter().copied().filter(|case| case.stage() == stage).collect();
        let results = concurrently(at_once, &cases, |case| match *case {
            HttpCase::Exchange(case) => one(case, &direct, &gateway, &change.ignored_headers),
            HttpCase::Rule(case) => http2::observe(case, &direct, &gateway).map(Seen::of),
        });
        seen.extend(results.into_iter().collect::<anyhow::Result<Vec<Seen>>>()?);
    }
    seen.sort_by_key(|seen| names().position(|name| name == seen.case));
    Ok(seen)
}

/// Runs every case of gRPC against a gateway in front of `upstream`, and against another such upstream.
/// For `change` and `timeout`, see [`observe`].
///
/// # Errors
/// If the other upstream does not start, or does not keep a rule.
pub fn observe_calls(
    upstream: &GrpcUpstream,
    gateway: SocketAddr,
    change: &Change,
    timeout: Duration,
) -> anyhow::Result<Vec<Seen>> {
    let other = GrpcUpstream::start()?;
    let direct = HttpClient::plain(other.address(), timeout).speaking(HttpVersion::Http2);
    let gateway = change.client(gateway, timeout).speaking(HttpVersion::Http2);
    let seen = grpc::observe([(&direct, &other), (&gateway, upstream)])?;
    Ok(seen.into_iter().map(Seen::of).collect())
}

/// The cases of an API of language models, over HTTP/1.1. `None` if there are none.
pub fn llm_cases(api: Api) -> Option<&'static [MessagesCase]> {
    match api {
        Api::OpenAi => Some(&OPENAI_CASES),
        Api::Anthropic => Some(&ANTHROPIC_CASES),
        Api::Responses => None,
    }
}

/// Runs [`EVENTS_CASES`], [`WEBSOCKET_CASES`] or [`llm_cases`] against `upstream` itself, and against a
/// gateway in front of it that uses no TLS. `model` is the model that requests to a language model name.
/// `silence` is the time in which neither side sends in the cases of silence. For `change`, see [`observe`].
///
/// # Errors
/// If the upstream itself does not keep a rule.
pub fn observe_messages(
    cases: &'static [MessagesCase],
    upstream: &MessagesUpstream,
    gateway: SocketAddr,
    change: &Change,
    model: &str,
    silence: Duration,
) -> anyhow::Result<Vec<Seen>> {
    let seen = messages::observe(cases, upstream, gateway, change, model, silence)?;
    Ok(seen.into_iter().map(Seen::of).collect())
}

fn one(
    case: &'static ConformanceCase,
    direct: &HttpClient<'_>,
    gateway: &HttpClient<'_>,
    ignored_headers: &BTreeMap<String, String>,
) -> anyhow::Result<Seen> {
    let sent = case.sent();
    let ask = |client: &HttpClient<'_>| -> anyhow::Result<Answer> {
        let mut answer = client.send(&sent.bytes, case.method == "HEAD")?;
        answer.headers.retain(|name, _| !ignored_headers.contains_key(name));
        Ok(answer)
    };
    let (there, here) = (ask(direct), ask(gateway));
    if let Err(error) = &there
        && !case.breaks
    {
        anyhow::bail!(
            "the upstream did not answer the request `{}` when it was sent directly, without a gateway: \
            {error:#}",
            case.name
        );
    }
    let difference = match (&there, &here) {
        (Ok(there), Ok(here)) => seen_upstream(&sent, there, here).unwrap_or_else(|| difference(there, here)),
        (Err(_), Err(_)) => None,
        (Ok(_), Err(_)) => Some("no whole answer".to_owned()),
        (Err(_), Ok(here)) => Some(format!("status {} where direct ends the connection early", here.status)),
    };
    Ok(Seen { case: case.name, difference: difference.as_deref().map(printable) })
}

/// Compares the sent request with the request that the upstream received through the gateway, and returns the
/// difference. The outer `None` means that direct's answer is not the upstream's echo, so there is nothing to
/// compare.
fn seen_upstream(sent: &Sent, there: &Answer, here: &Answer) -> Option<Option<String>> {
    let echo = |answer: &Answer| {
        let value: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
        (value["hoptax"] == "echo").then_some(value)
    };
    let there = echo(there)?;
    if here.status != 200 {
        return Some(Some(format!("status {} instead of 200", here.status)));
    }
    let Some(here) = echo(here) else { return Some(Some("the echo is incomplete".to_owned())) };
    for member in ["method", "path", "body_bytes", "body_digest"] {
        if there[member] != here[member] {
            let what = format!("the upstream saw {member} {} instead of {}", here[member], there[member]);
            return Some(Some(what));
        }
    }
    let lost = sent.headers.iter().find(|(name, value)| {
        let fields = here["headers"].as_array().into_iter().flatten();
        !fields.into_iter().any(|field| field[0] == *name && field[1] == *value)
    });
    Some(lost.map(|(name, value)| {
        format!("the upstream did not see the header `{name}` as it was sent, {} bytes", value.len())
    }))
}

/// Compares the results over these versions of HTTP with the pack's list.
pub fn mismatches(seen: &[Seen], listed: &[Difference], legs: Legs) -> Vec<Mismatch> {
    let mut all = Vec::new();
    for Seen { case, difference } in seen {
        let known = listed.iter().find(|known| known.case == *case && known.is_over(legs));
        match (difference.clone(), known) {
            (Some(seen), None) => all.push(Mismatch::Unlisted { case, seen }),
            (Some(seen), Some(known)) if seen != known.what => {
                all.push(Mismatch::Otherwise { case, seen, listed: known.what.clone() });
            }
            (None, Some(known)) if !known.sometimes => {
                all.push(Mismatch::Unseen { case: known.case.clone(), listed: known.what.clone() });
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_http1(seen: &[Seen], listed: &[Difference]) -> Vec<Mismatch> {
        mismatches(seen, listed, Legs::with_http1_upstream(HttpVersion::Http11))
    }

    #[test]
    fn unlisted_and_unseen_differences_are_reported() {
        let seen = [
            Seen { case: "get", difference: None },
            Seen {
                case: "close",
                difference: Some("status 502 where direct ends the connection early".into()),
            },
        ];
        let list = |case: &str, what: &str| Difference {
            case: case.into(),
            what: what.into(),
            http: None,
            upstream_http: None,
            header: None,
            reason: "as its documentation says".into(),
            sometimes: false,
        };
        assert_eq!(
            over_http1(&seen, &[list("close", "status 502 where direct ends the connection early")]),
            []
        );
        let error_of = |listed: &[Difference]| {
            over_http1(&seen, listed).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let both =
            [list("close", "status 502 where direct ends the connection early"), list("get", "status 404")];
        let told = [error_of(&[]), error_of(&[list("close", "status 503")]), error_of(&both)];
        insta::assert_snapshot!(told.join("\n"));

        let sometimes = Difference { sometimes: true, ..list("get", "status 404") };
        let close = || list("close", "status 502 where direct ends the connection early");
        assert_eq!(over_http1(&seen, &[close(), sometimes.clone()]), [], "it need not be seen");
        let other = [Seen { case: "get", difference: Some("status 500".into()) }];
        assert_eq!(over_http1(&other, &[sometimes]).len(), 1, "but nothing else may be");
    }

    #[test]
    fn a_difference_can_be_listed_for_one_version_of_http_on_each_leg() {
        let seen = [Seen { case: "get", difference: Some("status 400".into()) }];
        let listed = |http, upstream_http| Difference {
            case: "get".into(),
            what: "status 400".into(),
            http,
            upstream_http,
            header: None,
            reason: "as its documentation says".into(),
            sometimes: false,
        };
        let (http1, http2) = (HttpVersion::Http11, HttpVersion::Http2);
        // To HTTP/1.1 from clients with each version, and the same to HTTP/2.
        let all = |listed: Difference| {
            [(http1, http1), (http2, http1), (http1, http2), (http2, http2)].map(|(clients, upstream)| {
                mismatches(&seen, std::slice::from_ref(&listed), Legs { clients, upstream }).is_empty()
            })
        };
        assert_eq!(all(listed(None, None)), [true; 4]);
        assert_eq!(all(listed(Some(http1), None)), [true, false, true, false]);
        assert_eq!(all(listed(Some(http2), None)), [false, true, false, true]);
        assert_eq!(all(listed(None, Some(http2))), [false, false, true, true]);
        assert_eq!(all(listed(Some(http2), Some(http1))), [false, true, false, false]);
    }

    #[test]
    fn names_are_unique_and_cases_without_http2_are_named() {
        let unique: std::collections::BTreeSet<&str> = names().collect();
        assert_eq!(unique.len(), CASES.len() + HTTP2_CASES.len() + GRPC_CASES.len() + 63);
        assert_eq!(left_out(HttpVersion::Http11).count(), 0);
        let left_out: Vec<_> = left_out(HttpVersion::Http2).map(|(name, _)| name).collect();
        assert_eq!(left_out, ["post-chunked-1k", "post-chunked-1m"]);
    }
}

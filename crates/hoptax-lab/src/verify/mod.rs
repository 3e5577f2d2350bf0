//! Verification before the first trial: checks that a gateway responds as direct does.
//!
//! For each target, and each HTTP version of the load, one real request is sent to direct and to the gateway.
//! Templates are expanded once, so both receive the same request. Status, body and the relevant headers must
//! be equal. A gateway may add headers, except for a content encoding. Headers that a hop may change are not
//! compared: see [`HOP_BY_HOP`]. Neither are the headers that the plan or the gateway's pack names. If the
//! request accepts compressed bodies, decoded bodies are compared. Both responses must also meet the target's
//! `expect`. Of server-sent events and WebSockets, only heads are compared, and handshakes only over HTTP/1.

mod cache;
mod expected;
mod messages;
pub mod proofs;
mod tolerance;
mod translation;

pub use hoptax_servers::http_client::Answer;

use crate::features::Change;
use hoptax_format::Address;
use hoptax_format::grpc::Status;
use hoptax_format::spec::{Check, HttpVersion, TargetSpec};
use hoptax_load::target;
use hoptax_record::{BodyLengths, Failure, IgnoredHeader, Stage, Verified, printable};
use hoptax_servers::http_client::{show, written_in};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Headers that a hop may remove, add or change. Some belong to one connection (RFC 9110 §7.6.1) or frame the
/// message (RFC 9112 §6). The others name the sender or the time, like the built-in upstream's stamps.
pub const HOP_BY_HOP: [&str; 13] = [
    "connection",
    "content-length",
    "date",
    hoptax_format::stamp::HEADER,
    "keep-alive",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-powered-by",
];

/// The header that a gateway must not add.
const CONTENT_ENCODING: &str = "content-encoding";

/// Number of attempts. A gateway counts as different only if every attempt shows a difference. One attempt
/// would not be enough, because an upstream that sometimes fails causes differences even between two
/// responses of direct.
const ATTEMPTS: u32 = 3;

/// Number of times that direct is asked again in an attempt after it has refused a request. A language model
/// of the plan may refuse many.
const REFUSALS: u32 = 10;

const LIMIT_PAUSE: Duration = Duration::from_millis(50);
/// If a rate limit rejects a request although the plan names no limit, the request is repeated for this time.
const LIMITED: Duration = Duration::from_secs(2);

/// Seed for random values in templates, so that both sides receive the same request.
const SEED: u64 = 1;

/// The requests that verification sends to both sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// The targets; each is requested once.
    pub targets: Vec<TargetSpec>,
    /// The content of each file, by file name. The targets' templates read lines from these files.
    pub files: BTreeMap<String, String>,
    /// HTTP versions to test.
    pub versions: Vec<HttpVersion>,
    /// For each target, whether the body differs from one response to the next. A missing entry means that
    /// the body does not differ.
    pub varies: Vec<bool>,
    /// For each target, the names of the headers that are not compared, in lower case. A missing entry means
    /// none.
    pub ignored_headers: Vec<Vec<String>>,
    /// Changes that requests to direct need.
    pub direct: Change,
}

impl Requests {
    /// The version for requests that need not be sent in each version: HTTP/2 if the loads use no other,
    /// since a port may speak nothing else, and HTTP/1.1 otherwise.
    pub fn usual_version(&self) -> HttpVersion {
        match self.versions.as_slice() {
            [HttpVersion::Http2] => HttpVersion::Http2,
            _ => HttpVersion::Http11,
        }
    }
}

impl From<TargetSpec> for Requests {
    fn from(target: TargetSpec) -> Self {
        Self { targets: vec![target], versions: vec![HttpVersion::Http11], ..Self::default() }
    }
}

/// Sends one request for each target and HTTP version to both sides and compares the responses. `timeout` is
/// the time limit for each response.
///
/// # Errors
/// If one side does not respond, the responses differ, or they do not meet `expect`. The error contains both
/// responses.
pub fn verify(
    direct: impl Into<Address>,
    gateway: impl Into<Address>,
    requests: &Requests,
    change: &Change,
    timeout: Duration,
) -> Result<(), Failure> {
    verify_and_note(direct, gateway, requests, change, timeout).map(drop)
}

/// Like [`verify`], but also returns what was left out of the comparison.
///
/// # Errors
/// The same errors as [`verify`].
pub fn verify_and_note(
    direct: impl Into<Address>,
    gateway: impl Into<Address>,
    requests: &Requests,
    change: &Change,
    timeout: Duration,
) -> Result<Verified, Failure> {
    let (direct, gateway) = (direct.into(), gateway.into());
    let mut ignored = BTreeMap::new();
    let mut bodies: Vec<BodyLengths> = Vec::new();
    let mut cached = None;
    let mut changed = requests.clone();
    change.apply_to(&mut changed.targets, &mut changed.files);
    let mut plain = requests.clone();
    requests.direct.apply_to(&mut plain.targets, &mut plain.files);
    for version in &requests.versions {
        for (index, (target, via)) in plain.targets.iter().zip(&changed.targets).enumerate() {
            if *version == HttpVersion::Http2 && messages::is_handshake(target) {
                continue;
            }
            let varies = requests.varies.get(index).copied().unwrap_or(false);
            let not_compared = requests.ignored_headers.get(index).map_or(&[][..], Vec::as_slice);
            let (version, written) = (*version, written_in(*version));
            let outcome = match (
                target::first_request(target, &plain.files, SEED, written),
                target::first_request(via, &changed.files, SEED, written),
            ) {
                (Ok(bytes), Ok(changed)) => {
                    let there =
                        Asked { target, bytes, version, change: &requests.direct, varies, not_compared };
                    let here = Asked { target: via, bytes: changed, change, ..there };
                    compare((&direct, &there), (&gateway, &here), change, timeout)
                }
                (Err(error), _) | (_, Err(error)) => {
                    Err(Failure::new(Stage::Verify, format!("cannot build a request: {error}")))
                }
            };
            let found = outcome.map_err(|failure| {
                let message = format!("{}{}", which(requests, target, version), failure.message);
                change.shown(Failure { message, ..failure })
            })?;
            for one in found.ignored_headers {
                ignored.entry(one.name.clone()).or_insert(one);
            }
            cached = cached.or(found.cached);
            let is_new = |one: &BodyLengths| bodies.iter().all(|earlier| earlier.target != one.target);
            let new: Vec<BodyLengths> = found.bodies.into_iter().filter(is_new).collect();
            bodies.extend(new);
        }
    }
    let shown = |value: Option<String>| value.map(|value| printable(&change.redact(&value)));
    let shown_header =
        |one: IgnoredHeader| IgnoredHeader { direct: shown(one.direct), gateway: shown(one.gateway), ..one };
    let cached = shown(cached);
    Ok(Verified { ignored_headers: ignored.into_values().map(shown_header).collect(), bodies, cached })
}

/// Start of a message. The start names the request if there are several requests.
fn which(requests: &Requests, target: &TargetSpec, version: HttpVersion) -> String {
    let version = match version {
        HttpVersion::Http10 => "over HTTP/1.0: ",
        HttpVersion::Http11 => "",
        HttpVersion::Http2 => "over HTTP/2: ",
    };
    match requests.targets.len() {
        1 => version.to_owned(),
        _ => format!("{version}target {}: ", target.name),
    }
}

fn compare(
    direct: (&Address, &Asked<'_>),
    gateway: (&Address, &Asked<'_>),
    change: &Change,
    timeout: Duration,
) -> Result<Verified, Failure> {
    let mut attempts_left = ATTEMPTS;
    loop {
        attempts_left -= 1;
        let compared = once(direct, gateway, change, timeout);
        if compared.is_ok() || attempts_left == 0 {
            return compared;
        }
    }
}

fn once(
    (direct, direct_asked): (&Address, &Asked<'_>),
    (gateway, asked): (&Address, &Asked<'_>),
    change: &Change,
    timeout: Duration,
) -> Result<Verified, Failure> {
    let fail = |message: String, detail: String| Err(Failure { stage: Stage::Verify, message, detail });
    let there = match direct_asked.of_direct(direct, timeout) {
        Ok(answer) => answer,
        Err(error) => {
            let message = format!(
                "the upstream did not answer a request that was sent directly, without a gateway: {error:#}"
            );
            return fail(message, String::new());
        }
    };
    if let Some(what) = expected::unmet(&direct_asked.target.checks, &there) {
        return fail(format!("the answer of direct does not meet `expect`: {what}"), both(&there, None));
    }
    let is_limited = change.expects_429 || change.limits_rate;
    let deadline = Instant::now() + if is_limited { timeout } else { timeout.min(LIMITED) };
    let here = loop {
        let answer = asked.of(gateway, timeout);
        // A limiter may also count the requests of this verification.
        let turned_away = matches!(&answer, Ok(answer) if change.may_reject_with(answer.status))
            && !change.may_reject_with(there.status);
        if !(turned_away && Instant::now() < deadline) {
            break answer;
        }
        std::thread::sleep(LIMIT_PAUSE);
    };
    let here = match here {
        Ok(answer) => answer,
        Err(error) => return fail(format!("it gave no answer: {error:#}"), both(&there, None)),
    };
    let again = || direct_asked.of(direct, timeout).ok();
    let mut ignored = Vec::new();
    let compared = tolerance::as_if_without(&change.features, &there, here.clone())
        .and_then(|here| asked.undo_compression(there.clone(), here));
    let different = match compared {
        Err(what) => Some(Different { header: None, is_body: false, what }),
        Ok((mut there, mut here)) => {
            ignored = take_ignored(&mut there, &mut here, asked.not_compared, &change.ignored_headers);
            let again = || Some(asked.undo_compression(again()?, Answer::default()).ok()?.0);
            lasting_difference(&there, &here, asked.varies, again)
        }
    };
    if let Some(Different { header, what, .. }) = different {
        let ways_out = header.map_or_else(String::new, |name| {
            format!(
                ". If this header does not matter, add expect: {{ ignore_headers: [{name}] }} to the \
                 target, or list the header under `differences` in the gateway's pack"
            )
        });
        return fail(
            format!("its answer differs from the answer of direct: {what}{ways_out}"),
            both(&there, Some(&here)),
        );
    }
    match expected::unmet(&asked.target.checks, &here) {
        None => Ok(Verified {
            ignored_headers: ignored,
            bodies: lengths(asked.target, &there, &here).into_iter().collect(),
            cached: cache::found(&there, &here, || asked.of(gateway, timeout).ok()),
        }),
        Some(what) => fail(format!("it does not meet `expect`: {what}"), both(&there, Some(&here))),
    }
}

/// The lengths of the two bodies, if they differ.
fn lengths(target: &TargetSpec, there: &Answer, here: &Answer) -> Option<BodyLengths> {
    let encoding = |answer: &Answer| answer.headers.get(CONTENT_ENCODING).map(|value| printable(value));
    (there.body.len() != here.body.len()).then(|| BodyLengths {
        target: target.name.clone(),
        direct: there.body.len() as u64,
        gateway: here.body.len() as u64,
        direct_encoding: encoding(there),
        gateway_encoding: encoding(here),
    })
}

/// Removes the headers that are not compared from both answers. Returns the removed headers that differ. A
/// header that only the gateway has is not a difference.
fn take_ignored(
    there: &mut Answer,
    here: &mut Answer,
    by_plan: &[String],
    by_pack: &BTreeMap<String, String>,
) -> Vec<IgnoredHeader> {
    let names: BTreeSet<&String> = by_plan.iter().chain(by_pack.keys()).collect();
    let taken = names.into_iter().map(|name| IgnoredHeader {
        name: name.clone(),
        direct: there.headers.remove(name),
        gateway: here.headers.remove(name),
        reason: by_pack.get(name).cloned(),
    });
    let differs = |one: &IgnoredHeader| {
        one.direct != one.gateway && (one.direct.is_some() || one.name == CONTENT_ENCODING)
    };
    taken.filter(differs).collect()
}

struct Asked<'a> {
    target: &'a TargetSpec,
    bytes: Vec<u8>,
    version: HttpVersion,
    change: &'a Change,
    varies: bool,
    /// Names of the headers that are not compared.
    not_compared: &'a [String],
}

impl Asked<'_> {
    /// Both answers with decoded bodies, if the request accepts compressed ones. Each side may then have
    /// compressed its body.
    ///
    /// # Errors
    /// If a body cannot be decoded.
    fn undo_compression(&self, mut there: Answer, mut here: Answer) -> Result<(Answer, Answer), String> {
        let accepts = |(name, value): &(String, String)| {
            name.eq_ignore_ascii_case("accept-encoding") && !value.eq_ignore_ascii_case("identity")
        };
        if self.target.headers.iter().any(accepts) {
            tolerance::decode(&mut there, &mut here)?;
        }
        Ok((there, here))
    }

    /// Sends the request to direct until it is not refused, or too often.
    fn of_direct(&self, address: &Address, timeout: Duration) -> anyhow::Result<Answer> {
        let mut left = REFUSALS;
        loop {
            let answer = self.of(address, timeout)?;
            let is_refusal = answer.status == 429 || answer.status >= 500;
            if left == 0 || !is_refusal || expected::unmet(&self.target.checks, &answer).is_none() {
                return Ok(answer);
            }
            left -= 1;
        }
    }

    /// Sends the request once and reads the response: the whole one, unless its body has messages.
    fn of(&self, address: &Address, timeout: Duration) -> anyhow::Result<Answer> {
        let client = self.change.client(address.clone(), timeout).speaking(self.version);
        if messages::reads_head(self.target) {
            return client.head(&self.bytes);
        }
        client.send(&self.bytes, self.target.method == "HEAD")
    }
}

/// Sends one request for `target` and reads the whole response. The templates of `target` must not use files.
///
/// # Errors
/// If connecting fails, there is no complete response within `timeout`, or the response is not HTTP/1.x.
pub fn ask(address: SocketAddr, target: &TargetSpec, timeout: Duration) -> anyhow::Result<Answer> {
    let version = HttpVersion::Http11;
    let bytes = target::first_request(target, &BTreeMap::new(), SEED, version)?;
    let change = &Change::default();
    Asked { target, bytes, version, change, varies: false, not_compared: &[] }.of(&address.into(), timeout)
}

/// Sends one request for the first target, with `change` applied, and reads the whole response.
///
/// # Errors
/// The same errors as [`ask`].
pub fn ask_changed(
    address: SocketAddr,
    requests: &Requests,
    change: &Change,
    timeout: Duration,
) -> anyhow::Result<Answer> {
    let mut changed = requests.clone();
    change.apply_to(&mut changed.targets, &mut changed.files);
    let target = &changed.targets[0];
    let version = requests.usual_version();
    let bytes = target::first_request(target, &changed.files, SEED, written_in(version))?;
    Asked { target, bytes, version, change, varies: false, not_compared: &[] }.of(&address.into(), timeout)
}

/// Whether an answer to a request for `target` counts as successful: it passes the target's checks. Without a
/// check of the status, the status must be 200 to 399, or OK for a gRPC call.
pub fn is_right(target: &TargetSpec, answer: &Answer) -> bool {
    let is_of_status = |check: &Check| match check {
        Check::Status(_) => !target.grpc,
        Check::Grpc(_) => target.grpc,
        _ => false,
    };
    let is_success = match target.grpc {
        true => expected::call_status(answer) == Status::Ok,
        false => (200..400).contains(&answer.status),
    };
    (target.checks.iter().any(is_of_status) || is_success)
        && expected::unmet(&target.checks, answer).is_none()
}

/// The first difference that the upstream does not cause. A difference that also occurs between two responses
/// of direct is left out, for example a request identifier that changes each time. Bodies are ignored if the
/// plan says that they vary.
fn lasting_difference(
    there: &Answer,
    here: &Answer,
    varies: bool,
    again: impl FnOnce() -> Option<Answer>,
) -> Option<Different> {
    let (mut there, mut here) = (there.clone(), here.clone());
    if varies {
        there.body.clear();
        here.body.clear();
    }
    let first = Different::first(&there, &here)?;
    let Some(again) = again().filter(|again| again.status == there.status) else { return Some(first) };
    let own_body = again.body != there.body;
    there.headers.retain(|name, value| {
        let changing = again.headers.get(name).is_some_and(|another| another != value);
        let keep = !(changing && here.headers.contains_key(name));
        if !keep {
            here.headers.remove(name);
        }
        keep
    });
    let mut lasting = Different::first(&there, &here)?;
    if lasting.is_body && !varies {
        lasting.what += match own_body {
            true => {
                ". Direct itself answers with a different body each time. If that is intended, add expect: \
                 { varies: true } to the target"
            }
            false => {
                ". If bodies show the request, as those of echo services do, add expect: { varies: true } to \
                the target"
            }
        };
    }
    Some(lasting)
}

/// Describes the first relevant difference.
pub fn difference(direct: &Answer, gateway: &Answer) -> Option<String> {
    Different::first(direct, gateway).map(|different| different.what)
}

/// A difference between two answers.
struct Different {
    /// Name of the header that differs, if it is a header.
    header: Option<String>,
    /// True if only the bodies differ.
    is_body: bool,
    what: String,
}

impl Different {
    /// The first relevant difference.
    fn first(direct: &Answer, gateway: &Answer) -> Option<Self> {
        if direct.status != gateway.status {
            let what = format!("status {} instead of {}", gateway.status, direct.status);
            return Some(Self { header: None, is_body: false, what });
        }
        if let Some(name) = different_header(direct, gateway) {
            let shown = |answer: &Answer| {
                answer.headers.get(&name).map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"))
            };
            let what = format!("header `{name}` is {} instead of {}", shown(gateway), shown(direct));
            return Some(Self { header: Some(name), is_body: false, what });
        }
        if direct.body != gateway.body {
            let at = direct.body.iter().zip(&gateway.body).take_while(|(a, b)| a == b).count();
            let what = match (gateway.body.len(), direct.body.len()) {
                (here, there) if here == there => format!("the body differs from byte {at} on"),
                (here, there) => {
                    format!("the body has {here} bytes instead of {there}, and differs from byte {at} on")
                }
            };
            return Some(Self { header: None, is_body: true, what });
        }
        None
    }
}

/// Name of the first relevant header that differs.
fn different_header(direct: &Answer, gateway: &Answer) -> Option<String> {
    let compared = direct.headers.keys().map(String::as_str).chain([CONTENT_ENCODING]);
    let mut compared = compared.filter(|name| !HOP_BY_HOP.contains(name));
    compared.find(|name| direct.headers.get(*name) != gateway.headers.get(*name)).map(str::to_owned)
}

fn both(direct: &Answer, gateway: Option<&Answer>) -> String {
    let gateway = gateway.map_or_else(|| "no answer\n".to_owned(), show);
    format!("direct:\n{}gateway:\n{gateway}", show(direct))
}

#[cfg(test)]
mod tests;

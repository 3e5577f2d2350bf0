//! Compares the gateway's answers with direct's, and the differences with those that its pack lists.

use super::observe::{RunningGateway, plan, plan_of_calls, plan_of_llm};
use super::scope::Scope;
use hoptax_format::messages::{self, Carrier, StreamKind, StreamSpec};
use hoptax_format::spec::HttpVersion;
use hoptax_lab::conformance::{
    self, EVENTS_CASES, GrpcUpstream, MessagesCase, MessagesUpstream, Seen, WEBSOCKET_CASES,
};
use hoptax_lab::legs::Legs;
use hoptax_lab::packs::{Pack, PackSet, manifest};
use hoptax_record::plan::LlmRequest;
use hoptax_record::{Failure, Stage};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Time limit for each response. It is long enough for any gateway, because the gateway has no other load.
/// Some gateways never answer some cases.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a gateway's answers differ from direct's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answers {
    /// True if every difference is listed in the pack, and every listed difference occurred.
    pub as_listed: bool,
    /// Number of requests that were sent to the gateway and to direct.
    pub cases: usize,
    /// The differences.
    pub differences: Vec<Difference>,
    /// What contradicts the pack's list, in words.
    pub mismatches: Vec<String>,
    /// The cases that the version of HTTP does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A case that the version of HTTP does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Name of the case.
    pub case: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// A request that the gateway answers differently from direct.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Name of the case.
    pub case: &'static str,
    /// The difference.
    pub what: String,
    /// Why, according to the pack; absent if the pack does not list the difference.
    pub reason: Option<String>,
}

/// Starts the gateway of one installed pack, and sends every case of the clients' version of HTTP to it and
/// to direct. Also returns the version that the gateway reported.
///
/// # Errors
/// If the gateway does not start, or if the upstream does not answer.
pub(super) fn compare(
    pack: &Pack,
    legs: Legs,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<(Answers, Option<String>), Failure> {
    let name = pack.name();
    let plan = plan(&format!("name: \"{name}\", workers: 1"), "", legs, packs)?;
    let running = RunningGateway::start(&plan, packs, exe, &directory.join(format!("{name}-answers")))?;
    let facts = running.facts();
    let seen = conformance::observe(running.direct(), running.address(), &facts.change, legs, PATIENCE);
    let left_out = conformance::left_out(legs.clients).map(|(case, reason)| LeftOut { case, reason });
    let answers = answers(pack, &seen.map_err(failed)?, legs, left_out.collect());
    Ok((answers, facts.version.clone()))
}

/// Like [`compare`], with the cases of gRPC and an upstream for them.
pub(super) fn compare_calls(
    pack: &Pack,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<(Answers, Option<String>), Failure> {
    let name = pack.name();
    let plan = plan_of_calls(&format!("name: \"{name}\", workers: 1"), packs)?;
    let upstream = GrpcUpstream::start().map_err(|error| failed(error.into()))?;
    let directory = directory.join(format!("{name}-calls"));
    let running = RunningGateway::start_before(Some(upstream.address()), &plan, packs, exe, &directory)?;
    let facts = running.facts();
    let seen = conformance::observe_calls(&upstream, running.address(), &facts.change, PATIENCE);
    let legs = Legs { clients: HttpVersion::Http2, upstream: HttpVersion::Http2 };
    let answers = answers(pack, &seen.map_err(failed)?, legs, Vec::new());
    Ok((answers, facts.version.clone()))
}

/// Like [`compare`], with the cases of server-sent events, WebSockets or language models, and an upstream for
/// them.
pub(super) fn compare_messages(
    pack: &Pack,
    scope: Scope,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<(Answers, Option<String>), Failure> {
    let name = pack.name();
    let legs = Legs::with_http1_upstream(HttpVersion::Http11);
    let model = pack.llm().and_then(|llm| llm.model.as_deref());
    let model = model.unwrap_or(LlmRequest::USUAL_MODEL);
    let variant = pack.variant().map_or_else(String::new, |variant| format!(", variant: \"{variant}\""));
    let gateway = format!("name: \"{name}\", workers: 1{variant}");
    let mut plan = match scope {
        Scope::Llm(api) => plan_of_llm(&gateway, api, model, packs)?,
        _ => plan(&gateway, "", legs, packs)?,
    };
    let cases: &'static [MessagesCase] = match scope {
        Scope::WebSockets(_) => &WEBSOCKET_CASES,
        Scope::Llm(api) => conformance::llm_cases(api).unwrap_or_default(),
        _ => &EVENTS_CASES,
    };
    let (carrier, silence) = match scope {
        Scope::WebSockets(silence) => (Carrier::WebSocket, silence),
        Scope::Events(silence) => (Carrier::Events, silence),
        _ => (Carrier::Events, Duration::ZERO),
    };
    let kind = StreamKind::ServerStream;
    let stream = StreamSpec { carrier, ..StreamSpec::grpc(kind, messages::UNKNOWN, 0) };
    plan.targets.iter_mut().for_each(|target| target.stream = Some(stream));
    let folder = format!("{name}-messages");
    let upstream = MessagesUpstream::start().map_err(|error| failed(error.into()))?;
    let (address, directory) = (Some(upstream.address()), directory.join(folder));
    let running = RunningGateway::start_before(address, &plan, packs, exe, &directory)?;
    let facts = running.facts();
    let change = &facts.change;
    let seen = conformance::observe_messages(cases, &upstream, running.address(), change, model, silence);
    let answers = answers(pack, &seen.map_err(failed)?, legs, Vec::new());
    Ok((answers, facts.version.clone()))
}

fn failed(error: anyhow::Error) -> Failure {
    Failure { stage: Stage::Trial, message: format!("{error:#}"), detail: String::new() }
}

/// Compares the results with the pack's list.
fn answers(pack: &Pack, seen: &[Seen], legs: Legs, left_out: Vec<LeftOut>) -> Answers {
    let listed = &pack.manifest().differences;
    let reason = |case: &str, what: &str| {
        let is_known =
            |known: &&manifest::Difference| known.case == case && known.what == what && known.is_over(legs);
        listed.iter().find(is_known).map(|known| known.reason.clone())
    };
    let differences = seen.iter().filter_map(|seen| {
        let what = seen.difference.clone()?;
        Some(Difference { case: seen.case, reason: reason(seen.case, &what), what })
    });
    let mismatches = conformance::mismatches(seen, listed, legs);
    Answers {
        as_listed: mismatches.is_empty(),
        cases: seen.len(),
        differences: differences.collect(),
        mismatches: mismatches.iter().map(ToString::to_string).collect(),
        left_out,
    }
}

//! Features that translate calls to gRPC. Every target of the plan must be a call that they can translate.

use super::reader::Reader;
use super::target;
use crate::calls::kind_name;
use crate::raw::{RawTarget, Sweep};
use crate::{Body, Feature, Gateway, Target, Upstream};
use hoptax_format::grpc::Status;
use hoptax_format::messages::StreamKind;
use hoptax_format::spec::Check;

/// Reads the targets, and checks that the gateways can translate them. `features: each` measures only what
/// is possible: this removes its other gateways.
pub(super) fn read_targets(
    reader: &mut Reader<'_>,
    typed: Option<Sweep<RawTarget>>,
    upstream: &Upstream,
    gateways: &mut Vec<Gateway>,
) -> Vec<Target> {
    reader.needs_descriptors = has(gateways, Feature::GrpcJson);
    let faults_before = reader.faults.len();
    let mut targets = target::read(reader, typed, upstream);
    // A call with an error would be reported again.
    if reader.faults.len() > faults_before {
        return targets;
    }
    for feature in [Feature::GrpcWeb, Feature::GrpcJson] {
        let of_target = targets.iter().find_map(|target| obstacle(feature, target));
        let Some((message, help)) = of_target.or_else(|| answer_obstacle(feature, upstream)) else {
            continue;
        };
        let typed = reader.translations.iter().filter(|(_, one)| *one == feature);
        let places: Vec<_> = typed.map(|(place, _)| *place).collect();
        for place in places {
            reader.fault(place, message.clone(), help);
        }
        gateways.retain(|one| !one.features().contains(&feature));
    }
    if !has(gateways, Feature::GrpcJson) {
        targets.iter_mut().for_each(|target| target.descriptors = None);
    }
    targets
}

fn has(gateways: &[Gateway], feature: Feature) -> bool {
    gateways.iter().any(|one| one.features().contains(&feature))
}

/// Why a gateway with this feature cannot translate the answers of the upstream, and what to do. A content
/// that the plan gives is checked before the first trial, by the gateway itself.
fn answer_obstacle(feature: Feature, upstream: &Upstream) -> Option<(String, &'static str)> {
    let Upstream::BuiltIn(upstream) = upstream else { return None };
    if feature != Feature::GrpcJson {
        return None;
    }
    // A call that fails has the HTTP status 200 directly, and another one as JSON.
    let fails = upstream.failures > 0.0
        || !(200..300).contains(&upstream.status)
        || upstream.grpc_status.is_some_and(|status| status != Status::Ok);
    if fails {
        let message = "`grpc-json` needs calls that end with OK, but the upstream lets calls fail".to_owned();
        return Some((message, "remove `failures`, `status` and `grpc_status` from `upstream`"));
    }
    let is_filler = matches!(upstream.body, Body::Size(1..) | Body::Like { .. });
    if !is_filler || !upstream.answers.is_empty() {
        return None;
    }
    let message = "`grpc-json` needs answers that are messages of the method's type, but the upstream's body \
                   has only a size";
    Some((message.to_owned(), "write upstream: { body: 0B } for an empty message, or a `text` or a `file`"))
}

/// Why a gateway with this feature cannot translate the calls of a target, and what to do.
fn obstacle(feature: Feature, target: &Target) -> Option<(String, &'static str)> {
    let (feature_name, name) = (feature.name(), &target.name);
    if !target.grpc {
        let message = format!("`{feature_name}` translates calls, but the target `{name}` is not a call");
        return Some((message, "write `grpc: { service: …, method: … }` in each target"));
    }
    if feature == Feature::GrpcWeb {
        if let Some(stream) = target.stream.filter(|stream| stream.kind != StreamKind::ServerStream) {
            let message = format!(
                "clients of gRPC-Web cannot send a stream, but `{name}` has `kind: {}`",
                kind_name(Some(stream.kind))
            );
            return Some((message, "use calls with `kind: unary` or `server-stream`"));
        }
        let is_of_whole = |check: &Check| match check {
            Check::BodyEquals(_) => true,
            Check::BodyLength { most, .. } => *most < u64::MAX,
            _ => false,
        };
        return target.checks.iter().any(is_of_whole).then(|| {
            let message = format!(
                "`{feature_name}` adds the status of a call to the body, but `{name}` expects a certain body"
            );
            (message, "use `contains` in `expect.body`, or `length` with `least` alone")
        });
    }
    let is_ok = |check: &Check| !matches!(check, Check::Grpc(statuses) if !statuses.contains(&Status::Ok));
    if target.stream.is_some() {
        let message = format!("`{feature_name}` needs unary calls, but `{name}` is a stream");
        Some((message, "use a method without streams"))
    } else if target.encoded.is_none() {
        let message = format!("`{feature_name}` needs the message of `{name}` as JSON");
        Some((message, "write `proto: FILE` and `message: { json: { … } }`"))
    } else if target.gzip {
        let message = format!("`{feature_name}` needs messages without compression, but `{name}` has it");
        Some((message, "remove `compression`"))
    } else if !target.checks.iter().all(is_ok) {
        let message = format!("`{feature_name}` needs calls that end with OK, unlike those of `{name}`");
        Some((message, "remove `expect.grpc`"))
    } else {
        None
    }
}

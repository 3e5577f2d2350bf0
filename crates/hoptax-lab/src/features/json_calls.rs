//! Calls whose messages clients send as JSON, for gateways that translate them to gRPC.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_format::grpc;
use hoptax_format::spec::{Check, TargetSpec};
use hoptax_plan::{Body, EncodedMessage, Target};
use std::collections::{BTreeMap, BTreeSet};

/// Headers that only gRPC has, or whose values JSON changes. The deadline of a call stays, because gateways
/// pass it on.
const REPLACED: [&str; 5] = ["te", "content-type", "content-length", "grpc-encoding", "grpc-accept-encoding"];

/// The calls of a plan that have their messages as JSON too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonCalls {
    /// The message of each call, by the name of its target.
    pub messages: BTreeMap<String, String>,
    /// Names of the services, in alphabetical order.
    pub services: Vec<String>,
    /// Descriptors of their `.proto` files: a `google.protobuf.FileDescriptorSet`, in base64.
    pub descriptors: String,
}

impl JsonCalls {
    /// The calls among a plan's targets. The plan has the descriptors only if a gateway needs them.
    pub fn of(targets: &[Target]) -> Self {
        let message = |target: &Target| match (&target.encoded, &target.body) {
            (Some(_), Some(Body::Text(json))) => Some((target.name.clone(), json.clone())),
            _ => None,
        };
        let calls = targets.iter().filter(|target| target.grpc);
        let services = calls.filter_map(|call| Some(grpc::split(&call.path)?.0.to_owned()));
        let services: BTreeSet<String> = services.collect();
        // Two concatenated sets are one set, because protobuf merges messages in this way.
        let mut sets: Vec<&[u8]> = Vec::new();
        for EncodedMessage(set) in targets.iter().filter_map(|target| target.descriptors.as_ref()) {
            if !sets.contains(&set.as_slice()) {
                sets.push(set);
            }
        }
        Self {
            messages: targets.iter().filter_map(message).collect(),
            services: services.into_iter().collect(),
            descriptors: STANDARD.encode(sets.concat()),
        }
    }
}

/// Turns a call into a request with its message as JSON. Its answer is JSON too, so only its status and its
/// headers are checked.
pub(super) fn send_as_json(target: &mut TargetSpec, message: &str) {
    let is_replaced = |name: &str| REPLACED.iter().any(|known| name.eq_ignore_ascii_case(known));
    target.grpc = false;
    target.body = message.as_bytes().to_vec();
    target.headers.retain(|(name, _)| !is_replaced(name));
    target.headers.push(("content-type".to_owned(), "application/json".to_owned()));
    target.checks.retain(|check| matches!(check, Check::Status(_) | Check::Header { .. }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::grpc::Status;

    fn call(name: &str, path: &str, set: &[u8]) -> Target {
        Target {
            name: name.to_owned(),
            grpc: true,
            body: Some(Body::Text(format!("{{\"text\":\"{name}\"}}"))),
            encoded: Some(EncodedMessage(vec![1])),
            descriptors: Some(EncodedMessage(set.to_vec())),
            ..Target::get(path)
        }
    }

    #[test]
    fn calls_of_several_files_have_one_set_of_descriptors() {
        let targets = [
            call("one", "/b.Echo/Say", b"first"),
            call("two", "/b.Echo/Ask", b"first"),
            call("three", "/a.Echo/Say", b"second"),
        ];
        let calls = JsonCalls::of(&targets);
        assert_eq!(calls.services, ["a.Echo", "b.Echo"]);
        assert_eq!(calls.descriptors, STANDARD.encode(b"firstsecond"));
        assert_eq!(calls.messages.len(), 3);
        assert_eq!(calls.messages["two"], r#"{"text":"two"}"#);
        assert_eq!(JsonCalls::of(&[Target::get("/")]), JsonCalls::default());
    }

    #[test]
    fn a_call_as_json_has_no_part_of_grpc_but_its_deadline() {
        let headers = [
            ("host", "a"),
            ("te", "trailers"),
            ("Content-Type", "application/grpc"),
            ("grpc-timeout", "1S"),
            ("x-api-key", "k"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut target = TargetSpec::only("POST", "/a.Echo/Say", headers, b"\0\0\0\0\x01\x01".to_vec());
        target.grpc = true;
        target.checks = vec![Check::Grpc(vec![Status::Ok]), Check::Status(vec![(200, 200)])];
        send_as_json(&mut target, "{}");
        assert_eq!((target.grpc, target.body.as_slice()), (false, &b"{}"[..]));
        let names: Vec<&str> = target.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["host", "grpc-timeout", "x-api-key", "content-type"]);
        assert_eq!(target.checks, [Check::Status(vec![(200, 200)])]);
    }
}

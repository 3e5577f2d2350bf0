//! Options of gRPC calls: the method in a `.proto` file, streams, and the message.

use super::super::args::RequestArgs;
use super::super::values::{CallKind, Compression};
use crate::cli::exit::BadInput;
use hoptax_format::grpc;
use hoptax_format::messages::{self, StreamKind, StreamSpec};
use hoptax_format::spec::{HttpVersion, TargetSpec};
use hoptax_plan::calls::{self, kind_name};
use hoptax_plan::{Method, Proto, gzip};
use std::time::Duration;

/// The method of this path in the file of `--proto`.
///
/// # Errors
/// If the file is wrong, or has no such method.
pub(super) fn method(args: &RequestArgs, path: &str) -> Result<Option<Method>, BadInput> {
    let Some((file, (service, method))) = args.proto.as_ref().zip(grpc::split(path)) else { return Ok(None) };
    let found =
        Proto::compile(file).and_then(|proto| proto.service(service)).and_then(|found| found.method(method));
    found.map(Some).map_err(|error| BadInput(format!("--proto {}: {error}", file.display())))
}

/// The streams of a call. `None` if it is unary.
///
/// # Errors
/// If an option does not fit the kind of the call.
pub(super) fn stream(args: &RequestArgs, method: Option<&Method>) -> Result<Option<StreamSpec>, BadInput> {
    let declared = method.map(Method::kind);
    if let (Some(CallKind(typed)), Some(declared)) = (args.grpc_kind, declared)
        && typed != declared
    {
        let (typed, declared) = (kind_name(typed), kind_name(declared));
        return Err(BadInput(format!(
            "--grpc-kind {typed} contradicts --proto, where the method is {declared}; leave out --grpc-kind"
        )));
    }
    let typed = args.grpc_kind.and_then(|CallKind(kind)| kind);
    let Some(kind) = declared.unwrap_or(typed) else {
        let given = [("--messages", args.messages.is_some()), ("--every", args.every.is_some())];
        return match given.iter().find(|(_, given)| *given) {
            None => Ok(None),
            Some((flag, _)) => Err(BadInput(format!(
                "{flag} needs a stream, but the call is unary; add --grpc-kind server-stream, client-stream \
                 or both-ways, or leave out {flag}"
            ))),
        };
    };
    if args.grpc_web && kind != StreamKind::ServerStream {
        let text = "gRPC-Web has no streams of the client; leave out --grpc-web, or use a method that is \
                    unary or server-stream";
        return Err(BadInput(text.to_owned()));
    }
    if args.grpc_compression == Some(Compression::Gzip) {
        let text = "--grpc-compression gzip would hide the number and the time in each message of a stream; \
                    leave it out";
        return Err(BadInput(text.to_owned()));
    }
    if args.messages == Some(messages::ENDLESS) {
        let text = "--messages endless is for --events and WebSockets; give gRPC calls a number of messages";
        return Err(BadInput(text.to_owned()));
    }
    let every = args.every.unwrap_or(Duration::ZERO);
    let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
    // The URL does not say on which host the server is, so the clock is not the same.
    Ok(Some(StreamSpec::grpc(kind, args.messages.unwrap_or(calls::USUAL_MESSAGES), every_ns)))
}

/// The message of a call, made of the body that is typed. With `--proto`, it is encoded from JSON.
///
/// # Errors
/// If the body is not JSON that fits the method.
pub(super) fn message(
    args: &RequestArgs,
    method: Option<&Method>,
    body: Option<Vec<u8>>,
) -> Result<Vec<u8>, BadInput> {
    let Some(body) = body else { return Ok(Vec::new()) };
    let Some(method) = method.filter(|_| args.body_size.is_none()) else { return Ok(body) };
    let json = str::from_utf8(&body)
        .map_err(|_| BadInput("--body is not UTF-8 text; with --proto, write it as JSON".to_owned()))?;
    if json.contains("{{") && !args.no_templates {
        return Err(BadInput(
            "--body: a message cannot contain templates, because they would change the lengths in it; write \
             fixed values, or add --no-templates to send {{ unchanged"
                .to_owned(),
        ));
    }
    method.encode(json).map_err(|error| BadInput(format!("--body: {error}")))
}

/// The body of a spec, made of a message. Adds the headers that the body needs.
///
/// # Errors
/// If the message is too long, or too short for a stream.
pub(super) fn body(
    args: &RequestArgs,
    stream: Option<StreamSpec>,
    message: Vec<u8>,
    headers: &mut Vec<(String, String)>,
) -> Result<Vec<u8>, BadInput> {
    if stream.is_some() {
        let is_filler = args.body.is_none();
        if args.body.is_some() || args.body_size.is_some() {
            let flag = if is_filler { "--body-size" } else { "--body" };
            let checked = calls::check_message(message.len() as u64, is_filler);
            checked.map_err(|error| BadInput(format!("{flag}: {error}")))?;
        }
        return Ok(messages::with_room(message, is_filler));
    }
    let body = if args.grpc_compression == Some(Compression::Gzip) {
        grpc::add_gzip(headers);
        grpc::compressed_body(&gzip(&message))
    } else {
        grpc::body(&message)
    };
    body.map_err(|fault| BadInput(format!("--body: {fault}")))
}

/// Refuses calls that this HTTP version cannot carry.
///
/// # Errors
/// If there is one.
pub(super) fn check_version(targets: &[TargetSpec], version: HttpVersion) -> Result<(), BadInput> {
    let mut calls = targets.iter().filter(|target| target.grpc);
    match version {
        HttpVersion::Http2 => Ok(()),
        HttpVersion::Http11 if calls.all(|call| call.grpc_web) => Ok(()),
        HttpVersion::Http10 if calls.next().is_none() => Ok(()),
        HttpVersion::Http11 | HttpVersion::Http10 => Err(BadInput("gRPC needs HTTP/2; use --http 2".into())),
    }
}

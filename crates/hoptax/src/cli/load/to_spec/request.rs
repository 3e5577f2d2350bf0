//! Request options. This module builds the target from its method, path, headers, body and checks.

use super::super::args::RequestArgs;
use super::super::url::Url;
use super::{calls, chunks, messages, read, read_text};
use crate::cli::exit::BadInput;
use anyhow::Context as _;
use hoptax_format::grpc;
use hoptax_format::spec::{Check, TargetSpec};
use hoptax_format::template::{self, Place, TemplateError};
use hoptax_format::websocket;
use hoptax_plan::Body;
use hoptax_record::bounded;
use hoptax_run::state_empty_body;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// Returns the target, and the contents of the files that its templates read lines from.
///
/// # Errors
/// [`BadInput`] if an option is wrong. Another error if standard input cannot be read.
pub(super) fn target(
    args: &RequestArgs,
    url: &Url,
) -> anyhow::Result<(TargetSpec, BTreeMap<String, String>)> {
    let mut headers = headers(args, url)?;
    if url.websocket {
        return socket(args, url, headers);
    }
    if let Some(path) = &args.grpc {
        return call(args, url, path, headers);
    }
    let body = body(args)?;
    let default_method = if body.is_some() { "POST" } else { "GET" };
    let method = args.method.as_deref().unwrap_or(default_method);
    state_empty_body(&mut headers, body.as_deref(), args.chunked);
    let chunked = chunks::given(args, body.is_some())?;
    let stream = messages::events(args);
    if stream.is_some() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
        headers.push(("accept".to_owned(), "text/event-stream".to_owned()));
    }
    let plain = TargetSpec::only(method, &url.path, headers, body.unwrap_or_default());
    let mut target = TargetSpec { chunked, stream, ..plain };
    target.checks = checks(args)?;
    if args.no_templates {
        escape_path_and_headers(&mut target);
        return Ok((target, BTreeMap::new()));
    }
    // A body that is not UTF-8 cannot be a template.
    let body =
        str::from_utf8(&target.body).ok().filter(|text| args.body_size.is_none() && text.contains("{{"));
    target.body_is_template = body.is_some();
    let files = templates(&target, body)?;
    Ok((target, files))
}

/// The headers of the options, and `host`. Also refuses options that the request cannot have.
pub(super) fn headers(args: &RequestArgs, url: &Url) -> Result<Vec<(String, String)>, BadInput> {
    let mut headers =
        args.headers.iter().map(|header| split_header(header)).collect::<Result<Vec<_>, _>>()?;
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.insert(0, ("host".to_owned(), url.authority.clone()));
    }
    messages::check_options(args, url)?;
    Ok(headers)
}

/// Returns the target of a gRPC call, as [`target`] does.
fn call(
    args: &RequestArgs,
    url: &Url,
    path: &str,
    mut headers: Vec<(String, String)>,
) -> anyhow::Result<(TargetSpec, BTreeMap<String, String>)> {
    let beside = [("--method", args.method.is_some()), ("--chunked", args.chunked)];
    if let Some((flag, _)) = beside.iter().find(|(_, given)| *given) {
        return Err(BadInput(format!("--grpc sends a POST over HTTP/2; leave out {flag}")).into());
    }
    if url.path != "/" {
        let text = format!("--grpc names the path; leave {} out of the URL", url.path);
        return Err(BadInput(text).into());
    }
    let deadline_ns = args.deadline.map(super::nanoseconds);
    if deadline_ns == Some(0) {
        return Err(BadInput("--deadline 0s makes every call fail; use a longer time".into()).into());
    }
    grpc::add_headers(&mut headers, deadline_ns);
    let method = calls::method(args, path)?;
    let stream = calls::stream(args, method.as_ref())?;
    let message = calls::message(args, method.as_ref(), body(args)?)?;
    let body = calls::body(args, stream, message, &mut headers)?;
    if args.grpc_web {
        grpc::web_headers(&mut headers);
    }
    let mut target = TargetSpec {
        name: path.trim_start_matches('/').to_owned(),
        grpc: true,
        grpc_web: args.grpc_web,
        stream,
        checks: checks(args)?,
        ..TargetSpec::only(grpc::METHOD, path, headers, body)
    };
    if args.no_templates {
        target.headers.iter_mut().for_each(|(_, value)| *value = escape_templates(value));
        return Ok((target, BTreeMap::new()));
    }
    let files = templates(&target, None)?;
    Ok((target, files))
}

/// Returns the target of a WebSocket, as [`target`] does.
fn socket(
    args: &RequestArgs,
    url: &Url,
    mut headers: Vec<(String, String)>,
) -> anyhow::Result<(TargetSpec, BTreeMap<String, String>)> {
    websocket::add_headers(&mut headers, args.websocket_compression);
    let stream = messages::socket(args);
    let message = messages::message(args, stream, body(args)?)?;
    let mut target = TargetSpec {
        name: format!("WebSocket {}", url.path),
        stream: Some(stream),
        checks: checks(args)?,
        ..TargetSpec::only("GET", &url.path, headers, message)
    };
    if args.no_templates {
        escape_path_and_headers(&mut target);
        return Ok((target, BTreeMap::new()));
    }
    let files = templates(&target, None)?;
    Ok((target, files))
}

/// Checks the templates, and reads the files that the templates read lines from.
pub(super) fn templates(
    target: &TargetSpec,
    body: Option<&str>,
) -> Result<BTreeMap<String, String>, BadInput> {
    let mut texts = vec![("the URL".to_owned(), target.path.as_str(), Place::Path)];
    texts.extend(
        target.headers.iter().map(|(name, value)| (format!("-H {name}"), value.as_str(), Place::Header)),
    );
    texts.extend(body.map(|body| ("the body".to_owned(), body, Place::Body)));
    let mut files = BTreeMap::new();
    // Text without templates is checked later, with the rest of the request.
    for (what, text, place) in texts.into_iter().filter(|(_, text, _)| text.contains("{{")) {
        template(&what, text, place, &mut files)?;
    }
    Ok(files)
}

/// Checks the template in `text`. Reads the files that the template reads lines from, and adds their contents
/// to `files`. `what` is a name of the text for errors.
pub(super) fn template(
    what: &str,
    text: &str,
    place: Place,
    files: &mut BTreeMap<String, String>,
) -> Result<(), BadInput> {
    let wrong = |error: TemplateError| BadInput(format!("{what}: {error}"));
    for name in template::files_named(text).map_err(wrong)? {
        if let Entry::Vacant(unread) = files.entry(name) {
            let flag = format!("{{{{line {}}}}}", unread.key());
            let lines = read_text(&flag, Path::new(unread.key()), bounded::LINES)?;
            unread.insert(lines);
        }
    }
    template::check(text, place, files).map_err(wrong)
}

pub(super) fn escape_path_and_headers(target: &mut TargetSpec) {
    target.path = escape_templates(&target.path);
    target.headers.iter_mut().for_each(|(_, value)| *value = escape_templates(value));
}

/// Escapes a text, so that the escaped text, used as a template, expands to the original text.
fn escape_templates(text: &str) -> String {
    text.replace("{{", "\\{{")
}

pub(super) fn body(args: &RequestArgs) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(size) = args.body_size {
        return hoptax_servers::upstream::bytes(&Body::Size(size)).map(Some);
    }
    let Some(typed) = args.body.as_deref() else { return Ok(None) };
    Ok(Some(match typed.strip_prefix('@') {
        None => typed.as_bytes().to_vec(),
        Some("") => {
            return Err(BadInput("--body @ names no file; use @FILE, or @- for standard input".into()).into());
        }
        Some("-") => {
            bounded::read_stdin(bounded::BODY).context("cannot read the body from standard input")?
        }
        Some(file) => read("--body", Path::new(file), bounded::BODY)?,
    }))
}

pub(super) fn checks(args: &RequestArgs) -> Result<Vec<Check>, BadInput> {
    let mut checks: Vec<Check> = args.expect_status.iter().chain(&args.expect_grpc).cloned().collect();
    checks.extend(args.expect_header.iter().cloned());
    checks.extend(args.expect_length.clone());
    if let Some(typed) = &args.expect_body_equals {
        checks.push(Check::BodyEquals(match typed.strip_prefix('@') {
            Some(file) => read_text("--expect-body-equals", Path::new(file), bounded::BODY)?,
            None => typed.clone(),
        }));
    }
    for text in &args.expect_body {
        if text.is_empty() {
            return Err(BadInput("--expect-body '' matches every body; use a text, or leave it out".into()));
        }
        checks.push(Check::BodyContains(text.clone()));
    }
    Ok(checks)
}

pub(super) fn split_header(text: &str) -> Result<(String, String), BadInput> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(BadInput(format!("-H {text:?} is not a valid header; use -H 'name: value'"))),
    }
}

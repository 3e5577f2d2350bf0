//! `--targets`: reads targets from a file, in the format of `target` in a plan.

use super::super::args::RequestArgs;
use super::super::url::Url;
use super::request::split_header;
use crate::cli::exit::BadInput;
use hoptax_format::spec::TargetSpec;
use hoptax_plan as plan;
use hoptax_run::Contents;
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the targets in `file`, and the contents of the files that their templates read lines from. Each
/// `-H` header is added to every target that does not have this header.
///
/// # Errors
/// [`BadInput`] if an option or `file` is wrong. Another error if hoptax cannot read a file that is named in
/// `file`.
pub(super) fn targets(
    file: &Path,
    args: &RequestArgs,
    url: &Url,
) -> anyhow::Result<(Vec<TargetSpec>, BTreeMap<String, String>)> {
    check_conflicts(file, args, url)?;
    let typed = args.headers.iter().map(|header| split_header(header)).collect::<Result<Vec<_>, _>>()?;
    let mut read = plan::load_targets(file).map_err(BadInput::from)?;
    for target in &mut read.targets {
        let own = target.headers.len();
        for (name, value) in &typed {
            if !target.headers[..own].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                target.headers.push((name.clone(), value.clone()));
            }
        }
    }
    let contents = Contents::of(&read.targets, &read.files)?;
    let targets = contents.targets(&read.targets, &url.authority);
    let mut files = contents.files;
    // If only an `-H` header names a file, the name is relative to the current directory.
    for (name, value) in typed.iter().filter(|(_, value)| value.contains("{{")) {
        super::request::template(
            &format!("-H {name}"),
            value,
            hoptax_format::template::Place::Header,
            &mut files,
        )?;
    }
    Ok((targets, files))
}

/// Checks that no option contradicts the file.
fn check_conflicts(file: &Path, args: &RequestArgs, url: &Url) -> Result<(), BadInput> {
    let beside = [
        ("--method", args.method.is_some(), "method: POST"),
        ("--body", args.body.is_some(), "body: { text: … }"),
        ("--body-size", args.body_size.is_some(), "body: 64KiB"),
        ("--chunked", args.chunked, "body: { size: 64KiB, chunked: true }"),
        ("--grpc", args.grpc.is_some(), "grpc: { service: …, method: … }"),
        ("--events", args.events, "events: true"),
        ("--messages", args.messages.is_some(), "events: { count: 20 }, or websocket: { messages: 20 }"),
        ("--every", args.every.is_some(), "events: { every: 1s }, or websocket: { every: 1s }"),
        ("--websocket-kind", args.websocket_kind.is_some(), "websocket: { kind: push }"),
        ("--websocket-compression", args.websocket_compression, "websocket: { compression: deflate }"),
        ("--no-templates", args.no_templates, "\\{{ instead of {{"),
        ("--expect-status", args.expect_status.is_some(), "expect: { status: 200 }"),
        ("--expect-body", !args.expect_body.is_empty(), "expect: { body: { contains: … } }"),
        ("--expect-body-equals", args.expect_body_equals.is_some(), "expect: { body: { equals: … } }"),
        ("--expect-length", args.expect_length.is_some(), "expect: { body: { length: 1KiB } }"),
        ("--expect-header", !args.expect_header.is_empty(), "expect: { headers: { etag: any } }"),
    ];
    if let Some((flag, _, there)) = beside.iter().find(|(_, given, _)| *given) {
        return Err(BadInput(format!(
            "{flag} cannot be used with --targets; write this in the file, for each target: {there}"
        )));
    }
    if url.websocket {
        return Err(BadInput(format!(
            "with --targets, the URL begins with http:// or https://; {} says which targets are WebSockets",
            file.display()
        )));
    }
    if url.path != "/" {
        return Err(BadInput(format!(
            "the URL has the path {}, but each target in {} has its own; leave the path out of the URL",
            url.path,
            file.display()
        )));
    }
    Ok(())
}

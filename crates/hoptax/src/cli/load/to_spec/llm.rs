//! `--llm`: requests to language models.

use super::super::args::{LlmArgs, RequestArgs};
use super::super::url::Url;
use super::request::{body, checks, escape_path_and_headers, headers, templates};
use crate::cli::exit::BadInput;
use hoptax_format::llm::Api;
use hoptax_format::messages::UNKNOWN;
use hoptax_format::spec::TargetSpec;
use hoptax_format::template;
use hoptax_plan::units::show_size;
use hoptax_plan::{Body, BodyKind, LlmRequest, llm};
use std::collections::BTreeMap;
use std::time::Duration;

/// Returns the target of requests with this API, and the contents of the files that its templates read lines
/// from.
///
/// # Errors
/// [`BadInput`] if an option is wrong. Another error if standard input cannot be read.
pub(super) fn target(
    (args, of_model): (&RequestArgs, &LlmArgs),
    api: Api,
    url: &Url,
) -> anyhow::Result<(TargetSpec, BTreeMap<String, String>)> {
    let mut headers = headers(args, url)?;
    if url.websocket {
        return Err(BadInput("--llm needs a URL with http:// or https://".to_owned()).into());
    }
    let beside = [("--method", args.method.is_some()), ("--chunked", args.chunked)];
    if let Some((flag, _)) = beside.iter().find(|(_, given)| *given) {
        return Err(BadInput(format!("--llm sends a POST with JSON; leave out {flag}")).into());
    }
    let usual = LlmRequest::usual(api);
    let request = LlmRequest {
        model: of_model.llm_model.clone().unwrap_or(usual.model),
        stream: !of_model.llm_no_stream,
        max_tokens: of_model.llm_max_tokens,
        tools: of_model.llm_tools.unwrap_or(0),
        tool_call: of_model.llm_tool_call,
        unique: of_model.llm_unique,
        pause: of_model.llm_pause,
        ..usual
    };
    let size = of_model.llm_prompt.unwrap_or(LlmRequest::USUAL_PROMPT);
    let prompt = match body(args)? {
        Some(typed) => typed,
        None => hoptax_servers::upstream::bytes(&Body::Like { kind: BodyKind::Text, size })?,
    };
    let prompt = String::from_utf8(prompt)
        .map_err(|_| BadInput("--body: the prompt is not UTF-8 text; use other text".to_owned()))?;
    llm::check_prompt(prompt.len() as u64).map_err(|error| BadInput(format!("--body: {error}")))?;
    let is_template = args.body.is_some() && !args.no_templates && prompt.contains("{{");
    let body = if is_template { request.body_of_template(&prompt) } else { request.body(&prompt) };
    request.add_headers(of_model.llm_key.as_deref().unwrap_or(LlmRequest::USUAL_KEY), &mut headers);
    let path = if url.path == "/" { api.path() } else { url.path.as_str() };
    let size = show_size(prompt.len() as u64);
    let stream = request.tokens(UNKNOWN, Duration::ZERO, of_model.llm_leave);
    let mut target = TargetSpec {
        name: format!("{} {}, {size}", api.name(), request.model),
        stream: stream.map(|stream| stream.with_goodput(of_model.goodput)),
        body_is_template: is_template || request.unique,
        checks: checks(args)?,
        ..TargetSpec::only("POST", path, headers, body.into_bytes())
    };
    if args.no_templates {
        escape_path_and_headers(&mut target);
        return Ok((target, BTreeMap::new()));
    }
    let files = templates(&target, Some(prompt.as_str()).filter(|_| is_template))?;
    for name in template::files_named(&prompt).ok().filter(|_| is_template).unwrap_or_default() {
        let lines = files.get(&name).map(String::as_str).unwrap_or_default();
        llm::check_lines(&name, lines).map_err(|error| BadInput(format!("--body: {error}")))?;
    }
    Ok((target, files))
}

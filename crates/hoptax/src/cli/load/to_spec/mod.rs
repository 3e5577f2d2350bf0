//! Turns options, or the file of `--spec`, into the load spec to run.

use super::args::{Args, LoadArgs};
use super::url::Url;
use crate::cli::exit::BadInput;
use anyhow::Context as _;
use hoptax_format::spec::{Arrivals, HttpVersion, LoadSpec, Rate, Shape, Timeouts, Tunnel};
use hoptax_plan::stages;
use hoptax_plan::units::{show_duration, show_pace};
use hoptax_record::bounded;
use proxy::Proxy;
use std::path::Path;
use std::time::Duration;

mod calls;
mod chunks;
mod connections;
mod llm;
mod messages;
mod proxy;
mod request;
mod targets;
mod tls;

/// Measured time if neither `--duration` nor `--requests` is given.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// Measured time if only `--requests` ends the load: one year.
pub(super) const UNBOUNDED: Duration = Duration::from_secs(365 * 24 * 3600);

/// Builds the load spec from the options.
///
/// # Errors
/// [`BadInput`] if an option is wrong.
pub(super) fn spec(args: &Args) -> anyhow::Result<LoadSpec> {
    let url =
        Url::parse(args.url.as_deref().unwrap_or_default(), !args.request.no_templates).map_err(BadInput)?;
    let cpus = crate::cli::upstream::cpus(args.generator.cpus.as_deref())?;
    let default_workers = cpus.len().max(1) as u32;
    let single = |(target, files)| (vec![target], files);
    let (mut targets, files) = match (&args.request.targets, args.llm.llm) {
        (Some(file), _) => targets::targets(file, &args.request, &url)?,
        (None, Some(api)) => llm::target((&args.request, &args.llm), api, &url).map(single)?,
        (None, None) => request::target(&args.request, &url).map(single)?,
    };
    calls::check_version(&targets, args.connection.http)?;
    let timeouts = timeouts(&args.load)?;
    let duration_ns = nanoseconds(duration(&args.load)?);
    chunks::check(&targets, args.connection.http, timeouts)?;
    messages::check_load(args, &targets)?;
    messages::check(&targets, timeouts, duration_ns)?;
    connections::check_streams(args)?;
    let proxy = args.connection.proxy.as_deref().map(Proxy::parse).transpose()?;
    let tls::Settings { server, proxy: to_proxy } =
        tls::settings(&args.tls, &args.connection, &url, proxy.as_ref())?;
    let tunnel = proxy.as_ref().and_then(|proxy| {
        // RFC 6455, section 4.1: WebSockets go through tunnels.
        let always = args.connection.proxy_tunnel || url.websocket;
        proxy.apply(&url, always, &mut targets)
    });
    if proxy.is_some() && tunnel.is_none() && args.connection.http == HttpVersion::Http2 {
        let text = "--http 2 needs a tunnel through the proxy; add --proxy-tunnel";
        return Err(BadInput(text.to_owned()).into());
    }
    // Without a tunnel, the proxy is the server.
    let (tls, tunnel) = match tunnel {
        None => (server.or(to_proxy), None),
        Some(tunnel) => (server, Some(Tunnel { tls: to_proxy, ..tunnel })),
    };
    Ok(LoadSpec {
        tunnel,
        addresses: connections::addresses(&args.connection, &url, proxy.as_ref())?,
        sources: args.connection.source.clone(),
        tls,
        http: args.connection.http,
        streams: args.connection.streams,
        requests_per_connection: match args.connection.no_keepalive {
            true => Some(1),
            false => args.connection.requests_per_connection,
        },
        retry: connections::retry(&args.connection, &targets)?,
        files,
        shape: match &args.load.rate {
            None => Shape::Closed,
            Some(rate) => {
                Shape::Open { rate: rate.clone(), arrivals: args.load.arrivals.unwrap_or(Arrivals::Constant) }
            }
        },
        connections: args.load.connections,
        warmup_ns: nanoseconds(args.load.warmup),
        duration_ns,
        requests: args.load.requests,
        timeouts,
        workers: args.generator.workers.unwrap_or(default_workers),
        cpus,
        gives_up: true,
        seed: args.generator.seed,
        windows: args.output.csv,
        proxy_protocol: args.connection.proxy_protocol,
        ..LoadSpec::closed(Vec::new(), targets)
    })
}

fn duration(args: &LoadArgs) -> Result<Duration, BadInput> {
    if let (Some(rate @ Rate::Stages(stages)), typed) = (&args.rate, args.duration) {
        let length = stages::length(stages);
        return match typed.filter(|typed| *typed != length) {
            None => Ok(length),
            Some(typed) => Err(BadInput(format!(
                "--duration {} contradicts --rate '{}', whose stages take {} in total; leave out --duration",
                show_duration(typed),
                show_pace(rate),
                show_duration(length)
            ))),
        };
    }
    match args.duration {
        Some(Duration::ZERO) => Err(BadInput("--duration 0s is too short; use at least 1ms".into())),
        Some(typed) => Ok(typed),
        None if args.requests.is_some() => Ok(UNBOUNDED),
        None => Ok(DEFAULT_DURATION),
    }
}

fn timeouts(args: &LoadArgs) -> Result<Timeouts, BadInput> {
    let given = [
        ("--timeout", Some(args.timeout)),
        ("--first-byte-timeout", args.first_byte_timeout),
        ("--connect-timeout", args.connect_timeout),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, time)| *time == Some(Duration::ZERO)) {
        return Err(BadInput(format!(
            "{flag} 0s makes every request fail at once; use a longer time, such as 10s"
        )));
    }
    let first_byte = args.first_byte_timeout.unwrap_or(args.timeout);
    if first_byte > args.timeout {
        return Err(BadInput(format!(
            "--first-byte-timeout {} is longer than --timeout {} and would have no effect; make it shorter, \
             or make --timeout longer",
            show_duration(first_byte),
            show_duration(args.timeout)
        )));
    }
    Ok(Timeouts {
        connect_ns: nanoseconds(args.connect_timeout.unwrap_or(args.timeout)),
        first_byte_ns: nanoseconds(first_byte),
        total_ns: nanoseconds(args.timeout),
    })
}

/// Reads the spec in `file`, or on standard input if `file` is `-`. Also returns whether standard input
/// continues after the spec.
///
/// # Errors
/// [`BadInput`] if the content is not a load spec. Another error if the content cannot be read.
pub(super) fn read_spec(file: &Path) -> anyhow::Result<(LoadSpec, bool)> {
    let (text, goes_on) = if file == Path::new("-") {
        bounded::read_stdin_up_to_zero(bounded::SPEC)
            .context("cannot read the load spec from standard input")?
    } else {
        let text = bounded::read_text(file, bounded::SPEC)
            .with_context(|| format!("cannot read the load spec {}", file.display()))?;
        (text, false)
    };
    let spec = parsed(&text).map_err(|error| {
        BadInput(format!(
            "{} is not a valid load spec: {error}; docs/reference/load.md describes the format",
            file.display()
        ))
    })?;
    Ok((spec, goes_on))
}

/// The spec in a JSON text. Older specs could name an event loop; the name is ignored.
fn parsed(text: &str) -> serde_json::Result<LoadSpec> {
    serde_json::from_str(text).or_else(|error| {
        let mut json: serde_json::Value = serde_json::from_str(text)?;
        match json.as_object_mut().and_then(|spec| spec.remove("event_loop")) {
            Some(_) => serde_json::from_value(json),
            None => Err(error),
        }
    })
}

/// Reads the file that the option `flag` names.
fn read(flag: &str, file: &Path, most: u64) -> Result<Vec<u8>, BadInput> {
    bounded::read(file, most).map_err(|error| {
        // Other errors (wrong kind of file, too long) already say what to do.
        let help = if error.raw_os_error().is_some() { "; check the path" } else { "" };
        BadInput(format!("{flag}: cannot read {}: {error}{help}", file.display()))
    })
}

/// Reads the text file that the option `flag` names.
fn read_text(flag: &str, file: &Path, most: u64) -> Result<String, BadInput> {
    String::from_utf8(read(flag, file, most)?)
        .map_err(|_| BadInput(format!("{flag}: {} is not UTF-8 text; name a text file", file.display())))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

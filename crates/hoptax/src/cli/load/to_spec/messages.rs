//! Options of server-sent events and of WebSockets, and checks of all streams of messages.

use super::super::args::{Args, RequestArgs};
use super::super::url::Url;
use crate::cli::exit::BadInput;
use hoptax_format::messages::{self, Carrier, StreamKind, StreamSpec};
use hoptax_format::spec::{HttpVersion, TargetSpec, Timeouts};
use hoptax_plan::calls;
use hoptax_plan::units::show_duration;
use std::time::Duration;

/// Length of the messages of a WebSocket if no option gives one, bytes.
const USUAL_MESSAGE: usize = 64;

/// Refuses options that the request cannot have.
///
/// # Errors
/// The first of these options.
pub(super) fn check_options(args: &RequestArgs, url: &Url) -> Result<(), BadInput> {
    if url.websocket {
        let beside = [
            ("--method", args.method.is_some()),
            ("--chunked", args.chunked),
            ("--grpc", args.grpc.is_some()),
            ("--events", args.events),
            ("--expect-status", args.expect_status.is_some()),
            ("--expect-body", !args.expect_body.is_empty()),
            ("--expect-body-equals", args.expect_body_equals.is_some()),
            ("--expect-length", args.expect_length.is_some()),
        ];
        return match beside.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(BadInput(format!("the URL is that of a WebSocket, which has no {flag}; leave it out")))
            }
            None => Ok(()),
        };
    }
    let of_sockets = [
        ("--websocket-kind", args.websocket_kind.is_some()),
        ("--websocket-compression", args.websocket_compression),
    ];
    if let Some((flag, _)) = of_sockets.iter().find(|(_, given)| *given) {
        return Err(BadInput(format!("{flag} needs a WebSocket; use a URL with ws:// or wss://")));
    }
    let of_messages = [("--messages", args.messages.is_some()), ("--every", args.every.is_some())];
    let has_messages = args.grpc.is_some() || args.events;
    if let Some((flag, _)) = of_messages.iter().find(|(_, given)| *given && !has_messages) {
        let text = format!("{flag} needs messages; use a ws:// URL, --events, or --grpc with --grpc-kind");
        return Err(BadInput(text));
    }
    if args.events && args.method.as_deref() == Some("HEAD") {
        let text = "the response to HEAD has no body, and so no events; leave out --events";
        return Err(BadInput(text.to_owned()));
    }
    Ok(())
}

/// The events of `--events`. `None` without it.
pub(super) fn events(args: &RequestArgs) -> Option<StreamSpec> {
    let messages = args.messages.unwrap_or(messages::UNKNOWN);
    args.events.then(|| StreamSpec::events(messages, every_ns(args)))
}

/// The messages of a WebSocket.
pub(super) fn socket(args: &RequestArgs) -> StreamSpec {
    let (kind, fan_out) = args.websocket_kind.unwrap_or((StreamKind::BothWays, false));
    let usual = if kind == StreamKind::BothWays { calls::USUAL_MESSAGES } else { messages::UNKNOWN };
    let stream = StreamSpec::grpc(kind, args.messages.unwrap_or(usual), every_ns(args));
    StreamSpec { carrier: Carrier::WebSocket, fan_out, ..stream }
}

/// Time between two messages, nanoseconds.
fn every_ns(args: &RequestArgs) -> u64 {
    args.every.map_or(0, |every| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX))
}

/// The message of a WebSocket, with room for its stamp. `typed` is the content of `--body` or `--body-size`.
///
/// # Errors
/// If the client sends no messages, or the message contains templates, is too long, or too short.
pub(super) fn message(
    args: &RequestArgs,
    stream: StreamSpec,
    typed: Option<Vec<u8>>,
) -> Result<Vec<u8>, BadInput> {
    let is_filler = args.body.is_none();
    let flag = if is_filler { "--body-size" } else { "--body" };
    let Some(typed) = typed else {
        let length = if stream.kind == StreamKind::BothWays { USUAL_MESSAGE } else { 0 };
        return Ok(messages::with_room(vec![b'x'; length], true));
    };
    if stream.kind != StreamKind::BothWays {
        let text = format!("{flag} needs --websocket-kind echo, because otherwise only the server sends");
        return Err(BadInput(text));
    }
    let is_template = str::from_utf8(&typed).is_ok_and(|text| text.contains("{{"));
    if is_template && !args.no_templates {
        let text = "--body: the message of a WebSocket cannot contain templates; write a fixed text, or add \
                    --no-templates to send {{ unchanged";
        return Err(BadInput(text.to_owned()));
    }
    let checked = calls::check_websocket_message(typed.len() as u64, is_filler);
    checked.map_err(|error| BadInput(format!("{flag}: {error}")))?;
    Ok(messages::with_room(typed, is_filler))
}

/// Refuses WebSockets over HTTP/1.0, and loads that need requests that end, if messages are endless.
///
/// # Errors
/// The first of these problems.
pub(super) fn check_load(args: &Args, targets: &[TargetSpec]) -> Result<(), BadInput> {
    let mut streams = targets.iter().filter_map(|target| target.stream);
    let is_old = args.connection.http == HttpVersion::Http10;
    if is_old && streams.any(|stream| stream.carrier == Carrier::WebSocket) {
        return Err(BadInput("HTTP/1.0 has no WebSockets; use --http 1.1".to_owned()));
    }
    let is_endless = |target: &&TargetSpec| target.stream.is_some_and(StreamSpec::is_endless);
    let endless = targets.iter().filter(is_endless).count();
    if endless == 0 {
        return Ok(());
    }
    if endless < targets.len() {
        let text = "endless messages keep a connection, which then never sends the other targets; make all \
                    targets endless, or none";
        return Err(BadInput(text.to_owned()));
    }
    let needs_ends = [("--rate", args.load.rate.is_some()), ("--requests", args.load.requests.is_some())];
    match needs_ends.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(BadInput(format!(
            "{flag} needs requests that end, but the messages are endless; leave it out, or give a number of \
             messages"
        ))),
        None => Ok(()),
    }
}

/// Refuses streams that could not succeed: streams that are longer than the load, and streams whose messages
/// are further apart than the timeout. The timeout begins again with each message.
///
/// # Errors
/// The first of these problems.
pub(super) fn check(targets: &[TargetSpec], timeouts: Timeouts, duration_ns: u64) -> Result<(), BadInput> {
    for (target, stream) in targets.iter().filter_map(|target| Some((target, target.stream?))) {
        let shown = |ns| show_duration(Duration::from_nanos(ns));
        let pause = stream.tokens.and_then(|tokens| tokens.pause).map_or(0, |pause| pause.time_ns);
        if pause >= timeouts.total_ns {
            return Err(BadInput(format!(
                "every response would time out: --llm-pause is {}, and --timeout is {}; use a longer \
                 --timeout or a shorter pause",
                shown(pause),
                shown(timeouts.total_ns)
            )));
        }
        let length = stream.length_ns();
        if length == 0 && !stream.is_endless() {
            continue;
        }
        let (exchange, to, messages) = match stream.carrier {
            Carrier::Grpc => ("call", "to", "messages"),
            Carrier::Events => ("response", "of", "events"),
            Carrier::WebSocket => ("session", "of", "messages"),
        };
        let long = format!("the {} {messages} of a {exchange} take {}", stream.messages, shown(length));
        // Servers can send comments between events.
        if stream.every_ns >= timeouts.total_ns && stream.carrier != Carrier::Events {
            return Err(BadInput(format!(
                "every {exchange} {to} target {} would time out: its {messages} are {} apart, and --timeout \
                 is {}; use a longer --timeout or a shorter time between {messages}",
                target.name,
                shown(stream.every_ns),
                shown(timeouts.total_ns)
            )));
        }
        if length >= duration_ns {
            return Err(BadInput(format!(
                "no {exchange} {to} target {} would end in the measured time: {long}, and --duration is {}; \
                 use a longer --duration, fewer {messages} or a shorter time between them",
                target.name,
                shown(duration_ns)
            )));
        }
    }
    Ok(())
}

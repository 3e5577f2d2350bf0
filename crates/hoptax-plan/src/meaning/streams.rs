//! Streams of messages: the kind of gRPC calls, lengths, and the settings that the built-in upstream needs
//! for them.

use super::reader::{Reader, Timed};
use super::{llm, websocket};
use crate::calls::{self, kind_name};
use crate::error::Place;
use crate::raw::{Placed, RawCallKind, Time};
use crate::units::show_duration;
use crate::{LoadPoint, Method, PathStream, Target, Timeouts, Upstream, UpstreamEvents};
use hoptax_format::messages::{Carrier, StreamKind, StreamSpec};
use hoptax_format::spec::Shape;
use std::time::Duration;

/// What a call says about its streams.
pub(super) struct Typed {
    /// The name of the call.
    pub(super) call: String,
    pub(super) kind: Option<Placed<RawCallKind>>,
    pub(super) messages: Option<Placed<u32>>,
    pub(super) every: Option<Placed<Time>>,
    /// Time limit of the call. Absent if calls may end at it.
    pub(super) deadline: Option<Duration>,
}

/// Reads the streams of a call. `None` if it is unary. `method` is its method in a `.proto` file. Who has the
/// same clock is known only during a run.
pub(super) fn read(reader: &mut Reader<'_>, typed: Typed, method: Option<&Method>) -> Option<StreamSpec> {
    let Typed { call, kind, messages, every, deadline } = typed;
    let (messages_place, every_place) =
        (messages.as_ref().map(|typed| typed.place), every.as_ref().map(|typed| typed.place));
    let declared = method.map(Method::kind);
    if let (Some(kind), Some(declared)) = (&kind, declared)
        && of(kind.value) != declared
    {
        let (typed, declared) = (kind_name(of(kind.value)), kind_name(declared));
        let message = format!("`kind` is {typed}, but {call} is {declared} in the `.proto` file");
        reader.fault(kind.place, message, format!("write {declared}, or remove `kind`"));
    }
    let Some(kind) = declared.unwrap_or_else(|| kind.and_then(|typed| of(typed.value))) else {
        for (key, place) in [("messages", messages_place), ("every", every_place)] {
            if let Some(place) = place {
                let help = "add `kind`: server-stream, client-stream or both-ways; or remove it";
                reader.fault(place, format!("a unary call has no `{key}`"), help);
            }
        }
        return None;
    };
    let count = reader.count(messages.as_ref(), "messages", calls::USUAL_MESSAGES, calls::MOST_MESSAGES);
    let every = reader.time(every, Duration::ZERO);
    let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
    let stream = StreamSpec::grpc(kind, count, every_ns);
    if let Some(place) = every_place.or(messages_place) {
        let length = Duration::from_nanos(stream.length_ns());
        reader.streams.push(Timed { place, stream, length, silence: every, deadline });
    }
    Some(stream)
}

fn of(kind: RawCallKind) -> Option<StreamKind> {
    match kind {
        RawCallKind::Unary => None,
        RawCallKind::ServerStream => Some(StreamKind::ServerStream),
        RawCallKind::ClientStream => Some(StreamKind::ClientStream),
        RawCallKind::BothWays => Some(StreamKind::BothWays),
    }
}

/// The words of a carrier in errors.
struct Words {
    /// What has the messages.
    exchange: &'static str,
    messages: &'static str,
    /// How to keep below the timeout, after "raise `timeout`, or".
    sooner: &'static str,
    /// How to make the stream shorter.
    shorter: &'static str,
}

impl Words {
    fn of(stream: StreamSpec) -> Self {
        let (exchange, messages) = match stream.carrier {
            Carrier::Grpc => ("call", "messages"),
            Carrier::Events if stream.tokens.is_some() => ("response", "tokens"),
            Carrier::Events => ("response", "events"),
            Carrier::WebSocket => ("WebSocket", "messages"),
        };
        let (sooner, shorter) = match messages {
            "tokens" => ("add a shorter `heartbeat`", "fewer tokens or less time between them"),
            "events" => ("add a shorter `heartbeat`", "fewer events or less time between them"),
            _ => ("use a shorter `every`", "fewer `messages` or a shorter `every`"),
        };
        Self { exchange, messages, sooner, shorter }
    }
}

/// Refuses streams that could not succeed: streams that are longer than their deadline or than a trial, and
/// streams whose messages are further apart than the timeout. The timeout begins again with each message.
pub(super) fn check_lengths(reader: &mut Reader<'_>, timeouts: &Timeouts, load: &[LoadPoint]) {
    let shortest = load.iter().map(|point| point.duration).min();
    check_whole(reader, timeouts, shortest);
    for (place, pause) in std::mem::take(&mut reader.unread) {
        if pause >= timeouts.total {
            let (pause, timeout) = (show_duration(pause), show_duration(timeouts.total));
            let message =
                format!("every response would time out: the pause is {pause}, and the timeout is {timeout}");
            reader.fault(place, message, "raise `timeout`, or use a shorter `time`");
        }
    }
    for Timed { place, stream, length, silence, deadline } in std::mem::take(&mut reader.streams) {
        if length.is_zero() && !stream.is_endless() {
            continue;
        }
        let Words { exchange, messages, sooner, shorter } = Words::of(stream);
        let long =
            format!("the {} {messages} of a {exchange} take {}", stream.messages, show_duration(length));
        if silence >= timeouts.total {
            let (apart, timeout) = (show_duration(silence), show_duration(timeouts.total));
            let message = format!(
                "every {exchange} would time out: its {messages} are {apart} apart, and the timeout is \
                 {timeout}"
            );
            reader.fault(place, message, format!("raise `timeout`, or {sooner}"));
        } else if let Some(deadline) = deadline.filter(|deadline| length >= *deadline) {
            let deadline = show_duration(deadline);
            let message =
                format!("every call would end at its deadline: {long}, and `deadline` is {deadline}");
            let help = "raise `deadline`, use fewer `messages` or a shorter `every`, or write \
                        `expect: { grpc: deadline-exceeded }`";
            reader.fault(place, message, help);
        } else if let Some(shortest) = shortest.filter(|shortest| length >= *shortest) {
            let trial = show_duration(shortest);
            let message = format!("no {exchange} would end in a trial: {long}, and a trial takes {trial}");
            reader.fault(place, message, format!("raise `duration` in `load`, or use {shorter}"));
        }
    }
}

/// Refuses responses without streams that come too late.
fn check_whole(reader: &mut Reader<'_>, timeouts: &Timeouts, shortest: Option<Duration>) {
    let timeout = timeouts.first_byte.min(timeouts.total);
    for (place, length) in std::mem::take(&mut reader.whole) {
        let takes = format!("a response without `stream` takes {}", show_duration(length));
        if length >= timeout {
            let timeout = show_duration(timeout);
            let message = format!("every request would time out: {takes}, and the timeout is {timeout}");
            reader.fault(place, message, "raise `timeout`, or use fewer tokens or less time between them");
        } else if let Some(trial) = shortest.filter(|trial| length >= *trial) {
            let trial = show_duration(trial);
            let message = format!("no response would end in a trial: {takes}, and a trial takes {trial}");
            reader.fault(place, message, "raise `duration` in `load`, or use fewer tokens");
        }
    }
}

/// True if a target has a stream that ends only with the trial.
pub(super) fn is_endless(target: &Target) -> bool {
    target.stream.is_some_and(StreamSpec::is_endless)
}

/// Refuses loads that need requests that end, if messages are endless. `start` is the place of `start`.
pub(super) fn check_load(
    reader: &mut Reader<'_>,
    load: &[LoadPoint],
    targets: &[Target],
    start: Option<Place>,
) {
    if let Some(place) = start.filter(|_| targets.iter().any(websocket::is_socket)) {
        let message = "`start` measures single requests, but a target is a WebSocket";
        reader.fault(place, message, "remove `start`, or use other targets");
    }
    let endless = targets.iter().filter(|target| is_endless(target)).count();
    let Some(place) = reader.endless.filter(|_| endless > 0) else { return };
    let has = |is_refused: fn(&LoadPoint) -> bool| load.iter().any(is_refused);
    let (message, help) = if endless < targets.len() {
        let message = "endless messages keep a connection, which then never sends the other targets";
        (message, "use endless messages in all targets, or write a number")
    } else if start.is_some() {
        ("`start` measures requests that end, but these messages are endless", "write a number of messages")
    } else if has(|point| point.search.is_some() && point.shape != Shape::Closed) {
        ("a search needs requests that end, but these messages are endless", "write a number of messages")
    } else if has(|point| matches!(point.shape, Shape::Open { .. })) {
        let message = "an open loop needs requests that end, but these messages are endless";
        (message, "write `loop: closed`, or a number of messages")
    } else if has(|point| point.requests.is_some()) {
        let message = "`requests` counts requests that end, but these messages are endless";
        (message, "remove `requests` from `load`, or write a number of messages")
    } else {
        return;
    };
    reader.fault(place, message, help);
}

/// Mean length of the streams of a request. For endless streams, the time between two messages.
pub(super) fn mean_length(targets: &[Target], upstream: &Upstream) -> Duration {
    let length = |target: &Target| {
        if let Some(length) = llm::mean_length(target, upstream) {
            return length;
        }
        let Some(stream) = target.stream else { return Duration::ZERO };
        match (stream.is_endless(), stream.carrier, upstream) {
            (true, ..) => Duration::from_nanos(stream.every_ns),
            (false, Carrier::Events, Upstream::BuiltIn(built_in)) => {
                built_in.events.as_ref().map_or(Duration::ZERO, UpstreamEvents::length)
            }
            _ => Duration::from_nanos(stream.length_ns()),
        }
    };
    let weighted = |target: &Target| f64::from(target.weight) * length(target).as_nanos() as f64;
    let weight: f64 = targets.iter().map(|target| f64::from(target.weight)).sum();
    Duration::from_nanos((targets.iter().map(weighted).sum::<f64>() / weight) as u64)
}

/// Sets the streams that the built-in upstream sends and receives. It knows a call only by its method, and a
/// WebSocket by its path. So two targets with the same method or path must have the same streams.
pub(super) fn set_upstream(reader: &mut Reader<'_>, targets: &[Target], upstream: &mut Upstream) {
    let Upstream::BuiltIn(built_in) = upstream else { return };
    let places = reader.calls.clone();
    let calls: Vec<(&Target, Place)> = targets.iter().filter(|target| target.grpc).zip(places).collect();
    for (at, (target, place)) in calls.iter().enumerate() {
        match calls[..at].iter().find(|(earlier, _)| earlier.path == target.path) {
            Some((earlier, _)) if earlier.stream != target.stream => {
                let (first, second) = (&earlier.name, &target.name);
                let message = format!("`{first}` and `{second}` call one method with different streams");
                let help = "write the same `kind`, `messages` and `every`, or call another method";
                reader.fault(*place, message, help);
            }
            Some(_) => {}
            None => {
                let stream = target.stream.map(|stream| PathStream { path: target.path.clone(), stream });
                built_in.streams.extend(stream);
            }
        }
    }
    websocket::set_upstream(reader, targets, built_in);
}

//! Streams of gRPC calls: their kind, their length, and what the built-in upstream must know of them.

use super::reader::{Reader, Timed};
use crate::calls::{self, kind_name};
use crate::error::Place;
use crate::raw::{Placed, RawCallKind, Time};
use crate::units::show_duration;
use crate::{LoadPoint, Method, PathStream, Target, Timeouts, Upstream};
use hoptax_format::messages::{StreamKind, StreamSpec};
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
        reader.streams.push(Timed { place, stream, deadline });
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

/// Refuses calls that could not succeed: calls that are longer than their deadline or than a trial, and calls
/// whose messages are further apart than the timeout. The timeout begins again with each message.
pub(super) fn check_lengths(reader: &mut Reader<'_>, timeouts: &Timeouts, load: &[LoadPoint]) {
    let shortest = load.iter().map(|point| point.duration).min();
    for Timed { place, stream, deadline } in std::mem::take(&mut reader.streams) {
        let length = Duration::from_nanos(stream.length_ns());
        if length.is_zero() {
            continue;
        }
        let long = format!("the {} messages of a call take {}", stream.messages, show_duration(length));
        let every = Duration::from_nanos(stream.every_ns);
        if every >= timeouts.total {
            let (every, timeout) = (show_duration(every), show_duration(timeouts.total));
            let message = format!(
                "every call would time out: its messages are {every} apart, and the timeout is {timeout}"
            );
            reader.fault(place, message, "raise `timeout`, or use a shorter `every`");
        } else if let Some(deadline) = deadline.filter(|deadline| length >= *deadline) {
            let deadline = show_duration(deadline);
            let message =
                format!("every call would end at its deadline: {long}, and `deadline` is {deadline}");
            let help = "raise `deadline`, use fewer `messages` or a shorter `every`, or write \
                        `expect: { grpc: deadline-exceeded }`";
            reader.fault(place, message, help);
        } else if let Some(shortest) = shortest.filter(|shortest| length >= *shortest) {
            let trial = show_duration(shortest);
            let message = format!("no call would end in a trial: {long}, and a trial takes {trial}");
            let help = "raise `duration` in `load`, or use fewer `messages` or a shorter `every`";
            reader.fault(place, message, help);
        }
    }
}

/// Mean length of the streams of a request.
pub(super) fn mean_length(targets: &[Target]) -> Duration {
    let length = |target: &Target| target.stream.map_or(0, StreamSpec::length_ns);
    let weighted = |target: &Target| f64::from(target.weight) * length(target) as f64;
    let weight: f64 = targets.iter().map(|target| f64::from(target.weight)).sum();
    Duration::from_nanos((targets.iter().map(weighted).sum::<f64>() / weight) as u64)
}

/// Sets the streams that the built-in upstream sends and receives. It knows a call only by its method. So two
/// targets with the same method must have the same streams.
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
}

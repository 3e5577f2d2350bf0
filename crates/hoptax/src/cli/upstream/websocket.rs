//! `hoptax upstream --websocket`.

use hoptax_format::messages::{Carrier, ENDLESS, StreamKind, StreamSpec};
use hoptax_plan::calls::USUAL_MESSAGES;
use hoptax_plan::{PathStream, event_streams, units};
use std::time::Duration;

const FORM: &str = "write PATH=KIND, such as /feed=push,10,20ms";

/// Reads the messages that the upstream pushes on a path: `PATH=KIND,MESSAGES,EVERY`.
pub(super) fn pushed(typed: &str) -> Result<PathStream, String> {
    let (path, rest) = typed.rsplit_once('=').ok_or(FORM)?;
    if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
        return Err(format!("`{path}` is not a path; begin with `/`, and leave the query out"));
    }
    let mut parts = rest.split(',').map(str::trim);
    let fan_out = match parts.next() {
        Some("push") => false,
        Some("fan-out") => true,
        Some(kind) => return Err(format!("`{kind}` is not push or fan-out; other paths echo messages")),
        None => return Err(FORM.to_owned()),
    };
    let messages = parts.next().map_or(Ok(USUAL_MESSAGES), messages)?;
    let every = parts.next().map_or(Ok(Duration::ZERO), units::duration);
    let every = every.map_err(|error| error.to_string())?;
    if parts.next().is_some() {
        return Err(FORM.to_owned());
    }
    if messages == ENDLESS && every.is_zero() {
        return Err("endless messages need a time between them; write endless,100ms".to_owned());
    }
    let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
    let stream = StreamSpec::grpc(StreamKind::ServerStream, messages, every_ns);
    let stream = StreamSpec { carrier: Carrier::WebSocket, fan_out, ..stream };
    Ok(PathStream { path: path.to_owned(), stream })
}

fn messages(text: &str) -> Result<u32, String> {
    let most = event_streams::MOST_EVENTS;
    let count = event_streams::count(text);
    count.map_err(|_| format!("`{text}` is not a number of messages; use 1 to {most}, or endless"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_messages_are_read() {
        for (typed, messages, every_ns, fan_out) in [
            ("/feed=push", USUAL_MESSAGES, 0, false),
            ("/feed=push,7,20ms", 7, 20_000_000, false),
            ("/feed=fan-out, endless, 1s", ENDLESS, 1_000_000_000, true),
        ] {
            let PathStream { path, stream } = pushed(typed).expect("right");
            let expected = StreamSpec {
                carrier: Carrier::WebSocket,
                fan_out,
                ..StreamSpec::grpc(StreamKind::ServerStream, messages, every_ns)
            };
            assert_eq!((path.as_str(), stream), ("/feed", expected));
        }
        let told = [
            "/feed",
            "feed=push",
            "/feed?x=push",
            "/feed=echo",
            "/feed=push,0",
            "/feed=push,1,20",
            "/feed=push,endless",
            "/feed=push,1,20ms,3",
        ]
        .map(|typed| format!("{typed}\n=> {}\n", pushed(typed).expect_err("wrong")))
        .concat();
        insta::assert_snapshot!(told);
    }
}

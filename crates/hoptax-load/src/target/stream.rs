//! Targets with streams: gRPC calls, server-sent events and WebSockets.

use super::error::{TargetError, TargetPart};
use super::length::refuse_own_length;
use hoptax_format::llm::{Leave, Pause, TokenSpec};
use hoptax_format::messages::{Carrier, ENDLESS, Stamp, StreamKind, StreamSpec, UNKNOWN};
use hoptax_format::spec::TargetSpec;

/// The messages of an exchange with streams.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) spec: StreamSpec,
    /// A message of the client, which begins with room for a stamp. Empty if the client sends none: the
    /// request of server-sent events is an ordinary one.
    pub(crate) message: Vec<u8>,
}

impl Stream {
    /// # Errors
    /// If the target cannot have this stream.
    pub(super) fn new(target: &TargetSpec, spec: StreamSpec) -> Result<Self, TargetError> {
        if spec.fan_out && (spec.carrier, spec.kind) != (Carrier::WebSocket, StreamKind::ServerStream) {
            let message = "only WebSockets on which the server sends a stream have a fan-out";
            return fault(target, TargetPart::Body, message, "leave out `fan_out`");
        }
        if let Some(tokens) = spec.tokens {
            of_tokens(target, spec, tokens)?;
        }
        match spec.carrier {
            Carrier::Grpc => of_call(target, spec)?,
            Carrier::Events => of_events(target, spec)?,
            Carrier::WebSocket => of_web_socket(target, spec)?,
        }
        let sends = match spec.carrier {
            Carrier::Grpc => true,
            Carrier::Events => false,
            Carrier::WebSocket => spec.to_send() > 0,
        };
        if !sends {
            return Ok(Self { spec, message: Vec::new() });
        }
        if target.body_is_template {
            let message = "messages of streams cannot have templates";
            return fault(target, TargetPart::Body, message, "leave the templates out");
        }
        refuse_own_length(target, "the messages of a stream have their own lengths")?;
        if target.body.len() < Stamp::LENGTH || u32::try_from(target.body.len()).is_err() {
            let message = "a message has no room for its stamp";
            return fault(target, TargetPart::Body, message, "begin it with 19 bytes of room");
        }
        Ok(Self { spec, message: target.body.clone() })
    }
}

fn fault<T>(target: &TargetSpec, part: TargetPart, message: &str, help: &str) -> Result<T, TargetError> {
    Err(TargetError::new(target, part, message, help))
}

fn of_call(target: &TargetSpec, spec: StreamSpec) -> Result<(), TargetError> {
    let fault = |message, help| fault(target, TargetPart::Body, message, help);
    if !target.grpc {
        return fault("only gRPC calls have streams", "set `grpc`, or leave out `stream`");
    }
    if target.grpc_web && spec.kind != StreamKind::ServerStream {
        return fault("gRPC-Web has no streams of the client", "use `server-stream`, or gRPC");
    }
    match spec.messages {
        UNKNOWN => fault("a stream has no message", "give at least 1 message"),
        ENDLESS => fault("a gRPC call cannot be endless", "give a number of messages"),
        _ => Ok(()),
    }
}

fn of_events(target: &TargetSpec, spec: StreamSpec) -> Result<(), TargetError> {
    let fault = |part, message, help| fault(target, part, message, help);
    if target.grpc {
        return fault(TargetPart::Body, "a gRPC call has no server-sent events", "leave out `grpc`");
    }
    if spec.kind != StreamKind::ServerStream {
        return fault(TargetPart::Body, "only the server sends events", "use `server-stream`");
    }
    if target.method == "HEAD" {
        return fault(TargetPart::Method, "responses to HEAD have no events", "use GET");
    }
    Ok(())
}

fn of_tokens(target: &TargetSpec, spec: StreamSpec, tokens: TokenSpec) -> Result<(), TargetError> {
    let fault = |message, help| fault(target, TargetPart::Body, message, help);
    if (spec.carrier, spec.kind) != (Carrier::Events, StreamKind::ServerStream) {
        return fault("only server-sent events have tokens", "leave out `tokens`");
    }
    if spec.is_endless() {
        return fault("a stream of tokens cannot be endless", "give a number of messages");
    }
    if tokens.leave == Some(Leave::AfterTokens(0)) {
        return fault("a client cannot leave after 0 tokens", "give at least 1 token, or a time");
    }
    match tokens.pause {
        Some(_) if tokens.leave.is_some() => {
            fault("a client cannot pause and leave", "leave out `pause` or `leave`")
        }
        Some(Pause { after_tokens: 0, .. } | Pause { time_ns: 0, .. }) => {
            fault("a pause needs tokens and a time", "give at least 1 token and 1 ns")
        }
        _ => Ok(()),
    }
}

fn of_web_socket(target: &TargetSpec, spec: StreamSpec) -> Result<(), TargetError> {
    let fault = |part, message, help| fault(target, part, message, help);
    if target.grpc {
        return fault(TargetPart::Body, "a gRPC call cannot be a WebSocket", "leave out `grpc`");
    }
    if target.method != "GET" {
        return fault(TargetPart::Method, "the handshake of a WebSocket uses GET", "use GET");
    }
    if target.chunked.is_some() {
        return fault(TargetPart::Body, "the handshake of a WebSocket has no body", "leave out `chunked`");
    }
    match (spec.kind, spec.messages) {
        (StreamKind::ClientStream, _) => {
            let message = "a WebSocket has no stream of the client alone";
            fault(TargetPart::Body, message, "use `both-ways`, or `server-stream`")
        }
        (StreamKind::BothWays, UNKNOWN) => {
            fault(TargetPart::Body, "a stream has no message", "give at least 1 message")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::llm::Api;
    use hoptax_format::spec::Chunked;

    const TOKENS: TokenSpec =
        TokenSpec { api: Api::OpenAi, usage: false, leave: None, pause: None, goodput: None };

    fn target(carrier: Carrier) -> TargetSpec {
        let stream = StreamSpec { carrier, ..StreamSpec::grpc(StreamKind::ServerStream, 3, 0) };
        let headers = vec![("host".to_owned(), "test".to_owned())];
        TargetSpec { stream: Some(stream), ..TargetSpec::only("GET", "/", headers, Vec::new()) }
    }

    fn outcome(target: &TargetSpec) -> Result<Vec<u8>, String> {
        let stream = Stream::new(target, target.stream.expect("set"));
        stream.map(|stream| stream.message).map_err(|error| error.to_string())
    }

    #[test]
    fn the_request_of_events_is_an_ordinary_one() {
        let good = target(Carrier::Events);
        let posted = TargetSpec {
            method: "POST".into(),
            body: b"{{seq}}".to_vec(),
            body_is_template: true,
            ..good.clone()
        };
        for mut target in [good, posted] {
            for messages in [UNKNOWN, 1, ENDLESS] {
                target.stream.as_mut().expect("set").messages = messages;
                assert_eq!(outcome(&target), Ok(Vec::new()));
            }
        }
    }

    #[test]
    fn a_web_socket_sends_messages_with_room_for_a_stamp() {
        let mut target = target(Carrier::WebSocket);
        assert_eq!(outcome(&target), Ok(Vec::new()), "only the server sends");
        target.stream.as_mut().expect("set").kind = StreamKind::BothWays;
        assert!(outcome(&target).expect_err("no room").contains("no room for its stamp"));
        target.body = vec![b'x'; Stamp::LENGTH];
        assert_eq!(outcome(&target), Ok(target.body.clone()));
        target.body_is_template = true;
        assert!(outcome(&target).expect_err("templates").contains("cannot have templates"));
    }

    #[test]
    fn impossible_streams_are_refused() {
        type Change = fn(&mut TargetSpec, &mut StreamSpec);
        let mut told = String::new();
        let cases: [(Carrier, Change); 16] = [
            (Carrier::Grpc, |target, _| target.grpc = false),
            (Carrier::Grpc, |_, stream| stream.messages = ENDLESS),
            (Carrier::Grpc, |_, stream| stream.messages = UNKNOWN),
            (Carrier::Grpc, |_, stream| stream.fan_out = true),
            (Carrier::Events, |target, _| target.grpc = true),
            (Carrier::Events, |_, stream| stream.kind = StreamKind::BothWays),
            (Carrier::Events, |target, _| target.method = "HEAD".into()),
            (Carrier::Grpc, |_, stream| stream.tokens = Some(TOKENS)),
            (Carrier::Events, |_, stream| (stream.tokens, stream.messages) = (Some(TOKENS), ENDLESS)),
            (Carrier::Events, |_, stream| {
                stream.tokens = Some(TokenSpec { leave: Some(Leave::AfterTokens(0)), ..TOKENS });
            }),
            (Carrier::Events, |_, stream| {
                let pause = Some(Pause { after_tokens: 1, time_ns: 0 });
                stream.tokens = Some(TokenSpec { pause, ..TOKENS });
            }),
            (Carrier::Events, |_, stream| {
                let pause = Some(Pause { after_tokens: 1, time_ns: 1 });
                stream.tokens = Some(TokenSpec { pause, leave: Some(Leave::AfterNs(1)), ..TOKENS });
            }),
            (Carrier::WebSocket, |target, _| target.method = "POST".into()),
            (Carrier::WebSocket, |target, _| target.chunked = Some(Chunked { chunk_bytes: 1, pause_ns: 0 })),
            (Carrier::WebSocket, |_, stream| stream.kind = StreamKind::ClientStream),
            (Carrier::WebSocket, |_, stream| (stream.kind, stream.fan_out) = (StreamKind::BothWays, true)),
        ];
        for (carrier, change) in cases {
            let mut target = TargetSpec { grpc: carrier == Carrier::Grpc, ..target(carrier) };
            let mut stream = target.stream.expect("set");
            change(&mut target, &mut stream);
            target.stream = Some(stream);
            told += &format!("{}\n", outcome(&target).expect_err("refused"));
        }
        insta::assert_snapshot!(told);
    }
}

//! The client of tungstenite talks to the upstream.

use super::*;
use tungstenite::client::client;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message};

#[test]
fn tungstenite_gets_its_messages_back() {
    let upstream = start(&settings());
    let (mut socket, response) = client("ws://upstream.test/chat", connect(&upstream)).expect("a handshake");
    assert_eq!(response.status(), 101);
    let long = "grüße ".repeat(100_000);
    let messages = [
        Message::text("hello"),
        Message::text(""),
        Message::text(long),
        Message::binary(vec![0xff; 70_000]),
        Message::binary(Vec::<u8>::new()),
    ];
    for message in messages {
        socket.send(message.clone()).expect("sent");
        assert!(socket.read().expect("a message") == message);
    }
    socket.send(Message::Ping(b"there?".to_vec().into())).expect("sent");
    assert_eq!(socket.read().expect("an answer"), Message::Pong(b"there?".to_vec().into()));
    let frame = CloseFrame { code: CloseCode::from(4001), reason: "done".into() };
    socket.close(Some(frame)).expect("sent");
    let Message::Close(Some(answer)) = socket.read().expect("an answer") else { panic!("no close frame") };
    assert_eq!(u16::from(answer.code), 4001);
    assert!(matches!(socket.read(), Err(Error::ConnectionClosed)));
}

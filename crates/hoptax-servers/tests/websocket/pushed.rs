//! Messages that the upstream pushes, to one connection or to all of a path.

use super::*;
use hoptax_format::clock::{self, MILLISECOND};
use hoptax_format::messages::{Carrier, ENDLESS, Stamp, StreamKind, StreamSpec};
use hoptax_plan::PathStream;

/// An upstream that pushes on `/feed`.
fn pushing(messages: u32, every_ns: u64, fan_out: bool, body: u64) -> BuiltInUpstream {
    let stream = StreamSpec {
        carrier: Carrier::WebSocket,
        fan_out,
        ..StreamSpec::grpc(StreamKind::ServerStream, messages, every_ns)
    };
    BuiltInUpstream {
        streams: vec![PathStream { path: "/feed".into(), stream }],
        ..BuiltInUpstream::with_body(Body::Size(body))
    }
}

#[test]
fn messages_are_pushed_by_a_schedule() {
    let delay = Delay::Fixed(Duration::from_millis(30));
    let upstream = start(&BuiltInUpstream { delay, ..pushing(5, 20 * MILLISECOND, false, 100) });
    let before = clock::now();
    let mut client = Client::open(&upstream, "/feed?x=y", "");
    let mut first = 0;
    for number in 0..5 {
        let stamp = client.next_stamp();
        let now = clock::now();
        if number == 0 {
            first = stamp.due;
        }
        assert_eq!(stamp, Stamp { number, due: first + number * 20 * MILLISECOND });
        assert!(stamp.due <= now, "no message arrives before it is due");
    }
    assert!(first >= before + 30 * MILLISECOND, "the delay");
    client.expect_close(close::NORMAL);
    let mut echo = Client::open(&upstream, "/other", "");
    echo.send(Opcode::Text, b"hello");
    assert_eq!(echo.next(), Some((Opcode::Text, b"hello".to_vec())));
    echo.close();
}

#[test]
fn each_connection_has_its_own_schedule() {
    let upstream = start(&pushing(ENDLESS, 5 * MILLISECOND, false, 40));
    let mut clients: Vec<Client> = (0..20).map(|_| Client::open(&upstream, "/feed", "")).collect();
    for client in &mut clients {
        // What the client sends is not sent back, but pings are answered.
        client.send(Opcode::Text, b"hello");
        client.send(Opcode::Ping, b"there?");
        let (mut stamps, mut pongs) = (Vec::new(), 0);
        // Messages that were sent before the ping come before its answer.
        while stamps.len() < 30 || pongs == 0 {
            match client.next().expect("a message") {
                (Opcode::Binary, message) => stamps.push(Stamp::read(&message).expect("a stamp")),
                other => {
                    assert_eq!(other, (Opcode::Pong, b"there?".to_vec()));
                    pongs += 1;
                }
            }
        }
        let first = stamps[0].due;
        let expected = |number| Stamp { number, due: first + number * 5 * MILLISECOND };
        assert_eq!(stamps, (0..stamps.len() as u64).map(expected).collect::<Vec<_>>());
        assert_eq!(pongs, 1);
    }
    clients.into_iter().for_each(Client::close);
}

#[test]
fn a_push_waits_for_a_slow_reader() {
    let upstream = start(&pushing(300, 0, false, 100_000));
    let mut client = Client::open(&upstream, "/feed", "");
    // The buffers of the kernel hold less than 30 MB.
    eventually(&upstream, |found| found.sent > 5);
    std::thread::sleep(Duration::from_millis(100));
    assert!(counts(&upstream).instances[0].websockets.is_some_and(|found| found.sent < 300));
    for number in 0..300 {
        assert_eq!(client.next_stamp().number, number);
    }
    client.expect_close(close::NORMAL);
    let found = counts(&upstream).instances[0].websockets;
    assert_eq!(found, Some(WebSocketCounts { opened: 1, sent: 300, ..WebSocketCounts::default() }));
}

#[test]
fn all_connections_get_the_same_messages() {
    let configured =
        BuiltInUpstream { websocket_compression: true, ..pushing(200, 10 * MILLISECOND, true, 1000) };
    let upstream = start(&configured);
    let offer = "sec-websocket-extensions: permessage-deflate\r\n";
    let mut first = Client::open(&upstream, "/feed", "");
    let begun = first.next_stamp();
    assert_eq!(begun.number, 0);
    let mut second = Client::open(&upstream, "/feed", "");
    let mut third = Client::open(&upstream, "/feed", offer);
    let expected = |number: u64| Stamp { number, due: begun.due + number * 10 * MILLISECOND };
    let (second_begun, third_begun) = (second.next_stamp(), third.next().expect("a message").1);
    let third_begun = Stamp::read(&inflated(&third_begun)).expect("a stamp");
    assert_eq!(second_begun, expected(second_begun.number), "the schedule of the first");
    assert!(third_begun.number >= second_begun.number && second_begun.number > 0);
    for number in 1..200 {
        assert_eq!(first.next_stamp(), expected(number));
    }
    for number in second_begun.number + 1..200 {
        assert_eq!(second.next_stamp(), expected(number));
    }
    for number in third_begun.number + 1..200 {
        let (_, packed) = third.next().expect("a message");
        assert!(packed.len() < 500, "compressed");
        assert_eq!(Stamp::read(&inflated(&packed)), Some(expected(number)));
    }
    for client in [&mut first, &mut second, &mut third] {
        client.expect_close(close::NORMAL);
    }
    // The next connection begins a new schedule.
    let mut fourth = Client::open(&upstream, "/feed", "");
    let stamp = fourth.next_stamp();
    assert!(stamp.number == 0 && stamp.due > expected(199).due, "{stamp:?}");
    fourth.close();
}

#[test]
fn a_slow_reader_misses_messages_of_all() {
    let upstream = start(&pushing(ENDLESS, MILLISECOND, true, 100_000));
    let mut slow = Client::open(&upstream, "/feed", "");
    let mut fast = Client::open(&upstream, "/feed", "");
    let mut last = fast.next_stamp().number;
    while counts(&upstream).instances[0].websockets.is_none_or(|found| found.left_out < 20) {
        for _ in 0..10 {
            let number = fast.next_stamp().number;
            assert!(number > last, "in order");
            last = number;
        }
    }
    let (mut expected, mut missed) = (slow.next_stamp().number + 1, 0);
    while missed == 0 {
        let number = slow.next_stamp().number;
        assert!(number >= expected, "in order");
        missed += number - expected;
        expected = number + 1;
    }
    slow.close();
    fast.close();
}

#[test]
fn clients_that_leave_during_a_message_are_counted_once() {
    let upstream = start(&pushing(ENDLESS, MILLISECOND / 10, true, 40));
    let mut clients: Vec<Client> = (0..20).map(|_| Client::open(&upstream, "/feed", "")).collect();
    for client in &mut clients {
        client.next_stamp();
    }
    // The clients have not read everything, so that their connections are reset.
    drop(clients);
    eventually(&upstream, |found| found.cut >= 20);
    let found = counts(&upstream).instances[0].websockets;
    assert_eq!(found.map(|found| (found.opened, found.cut)), Some((20, 20)));
}

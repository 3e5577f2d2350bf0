//! Flow control, in both directions.

use super::*;

fn post() -> Block {
    Block::plain(
        &request_fields(
            RequestParts { method: "POST", scheme: "http", authority: "a", path: "/", content_length: None },
            [],
        )
        .expect("valid"),
    )
}

/// The lengths of the DATA frames.
fn lengths(output: &[u8]) -> Vec<usize> {
    frames(output).iter().filter(|frame| frame.0 == kind::DATA).map(|frame| frame.2.len()).collect()
}

fn increments(output: &[u8]) -> Vec<(u32, u32)> {
    let updates = frames(output).into_iter().filter(|frame| frame.0 == kind::WINDOW_UPDATE);
    updates.map(|frame| (frame.1, u32::from_be_bytes(frame.2.try_into().expect("4 bytes")))).collect()
}

#[test]
fn data_is_sent_as_far_as_both_windows_allow() {
    let mut client = client(0);
    let mut output = Vec::new();
    let body = vec![b'x'; 100_000];
    let one = client.request(0, false, &post(), &[], false, &mut output).expect("a stream");
    let two = client.request(0, false, &post(), &[], false, &mut output).expect("a stream");
    output.clear();
    assert_eq!(client.send_data(one, &body, true, &mut output), Some(65_535));
    assert_eq!(lengths(&output), [16_384, 16_384, 16_384, 16_383]);
    output.clear();
    assert_eq!(client.send_data(two, b"abc", true, &mut output), Some(0));
    assert_eq!(output, []);
    // The window of the connection opens. Only the second stream can send again, because the window of the
    // first one is empty.
    assert_eq!(feed(&mut client, &[&window_update(0, 70_000)]).0, [Writable(two)]);
    assert_eq!(client.send_data(two, b"abc", true, &mut output), Some(3));
    assert_eq!(lengths(&output), [3]);
    assert_eq!(client.send_data(two, b"", true, &mut output), None, "the stream has ended");
    // The window of the first stream opens a little.
    output.clear();
    assert_eq!(feed(&mut client, &[&window_update(one, 5)]).0, [Writable(one)]);
    assert_eq!(client.send_data(one, &body[65_535..], true, &mut output), Some(5));
    assert_eq!(feed(&mut client, &[&window_update(one, 50_000)]).0, [Writable(one)]);
    assert_eq!(client.send_data(one, &body[65_540..], true, &mut output), Some(100_000 - 65_540));
    assert_eq!(lengths(&output), [5, 16_384, 16_384, 1692]);
    let last = frames(&output).len();
    assert_eq!(last, 4);
    assert_eq!(feed(&mut client, &[&window_update(one, 1)]).0, []);
}

#[test]
fn an_end_needs_no_window() {
    let mut client = client(0);
    let mut output = Vec::new();
    feed(&mut client, &[&settings(&[(4, 0)])]);
    let stream = client.request(0, false, &post(), &[], false, &mut output).expect("a stream");
    output.clear();
    assert_eq!(client.send_data(stream, b"", false, &mut output), Some(0));
    assert_eq!(output, []);
    assert_eq!(client.send_data(stream, b"", true, &mut output), Some(0));
    assert_eq!(output, data(stream, b"", true));
}

/// RFC 9113, section 6.9.2: the example of a window that becomes negative.
#[test]
fn windows_can_become_negative() {
    let mut client = client(0);
    let mut output = Vec::new();
    let stream = client.request(0, false, &post(), &[], false, &mut output).expect("a stream");
    assert_eq!(client.send_data(stream, &[0; 60 * 1024], false, &mut output), Some(60 * 1024));
    assert_eq!(feed(&mut client, &[&settings(&[(4, 16 * 1024)])]).0, [Event::Settings]);
    let window: i64 = 16 * 1024 - 60 * 1024;
    assert_eq!(client.streams.get(stream).map(|stream| stream.send_window), Some(window));
    assert_eq!(client.send_data(stream, b"x", false, &mut output), Some(0));
    assert_eq!(feed(&mut client, &[&window_update(stream, (-window) as u32)]).0, []);
    assert_eq!(feed(&mut client, &[&window_update(stream, 1)]).0, [Writable(stream)]);
    assert_eq!(client.send_data(stream, b"xy", false, &mut output), Some(1));
    let more = settings(&[(4, 16 * 1024 + 1)]);
    assert_eq!(feed(&mut client, &[&more]).0, [Event::Settings, Writable(stream)]);
    // New streams begin with the new window.
    let other = client.request(0, false, &post(), &[], false, &mut output).expect("a stream");
    assert_eq!(client.streams.get(other).map(|stream| stream.send_window), Some(16 * 1024 + 1));
}

#[test]
fn windows_are_given_back_at_once_or_by_the_caller() {
    for release in [Release::AtOnce, Release::ByCaller] {
        let config = Config { window: 100, connection_window: 65_535, release, ..Config::default() };
        let mut server = server(config);
        feed(&mut server, &[&frame(kind::SETTINGS, flag::ACK, 0, &[]), &headers(1, &GET, false)]);
        let mut found = Vec::new();
        for _ in 0..700 {
            let (_, mut output) = feed(&mut server, &[&data(1, &[b'x'; 100], false)]);
            if release == Release::ByCaller {
                assert_eq!(output, []);
                server.release(1, 50, &mut output);
                server.release(1, 50, &mut output);
            }
            found.extend(increments(&output));
        }
        let of = |stream: u32, list: &[(u32, u32)]| -> u32 {
            list.iter().filter(|update| update.0 == stream).map(|update| update.1).sum()
        };
        assert_eq!(of(1, &found), 70_000);
        // An update of the connection is due after half of its window.
        let updates = found.iter().filter(|update| update.0 == 0).count();
        assert_eq!((of(0, &found) / 32_767, updates), (2, 2));
    }
}

/// A window that grows while a response arrives: before and after our settings are acknowledged.
#[test]
fn windows_can_grow_in_the_middle_of_a_stream() {
    let acknowledgement = frame(kind::SETTINGS, flag::ACK, 0, &[]);
    for is_acknowledged in [false, true] {
        let mut output = Vec::new();
        let config = Config { window: 1000, release: Release::ByCaller, ..Config::default() };
        let mut client = Connection::client(config, &mut output);
        feed(&mut client, &[&settings(&[])]);
        let stream = client.request(0, false, &post(), &[], false, &mut output).expect("a stream");
        if is_acknowledged {
            feed(&mut client, &[&acknowledgement]);
        }
        output.clear();
        client.grow_window(500, &mut output);
        assert_eq!(output, [], "windows do not shrink");
        client.grow_window(70_000, &mut output);
        assert_eq!(output, settings(&[(4, 70_000)]));
        if !is_acknowledged {
            feed(&mut client, &[&acknowledgement]);
        }
        feed(&mut client, &[&acknowledgement]);
        assert_eq!(client.streams.get(stream).map(|stream| stream.receive_window), Some(70_000));
    }
}

/// Data that the caller never sees is given back too: padding, and data on streams that were reset.
#[test]
fn the_window_of_a_stream_is_held_and_those_of_others_are_not() {
    let config = Config { window: 100, connection_window: 65_535, ..Config::default() };
    let mut server = server(config);
    let begin = frame(kind::SETTINGS, flag::ACK, 0, &[]);
    feed(&mut server, &[&begin, &headers(1, &GET, false), &headers(3, &GET, false)]);
    server.hold(1);
    let (_, output) = feed(&mut server, &[&data(1, &[b'x'; 100], false), &data(3, &[b'x'; 100], false)]);
    assert_eq!(increments(&output), [(3, 100)]);
    let mut output = Vec::new();
    server.end_hold(1, &mut output);
    server.end_hold(5, &mut output);
    assert_eq!(increments(&output), [(1, 100)]);
    let (_, output) = feed(&mut server, &[&data(1, &[b'x'; 100], false)]);
    assert_eq!(increments(&output), [(1, 100)], "the next is given back at once");
}

#[test]
fn no_window_is_lost() {
    let config =
        Config { window: 65_535, connection_window: 65_535, release: Release::ByCaller, ..Config::default() };
    let mut server = server(config);
    feed(&mut server, &[&headers(1, &GET, false), &headers(3, &GET, false)]);
    let padded = frame(kind::DATA, flag::PADDED, 1, &[&[99, b'x'][..], &[0; 99]].concat());
    let mut given = 0;
    for _ in 0..1000 {
        let (events, mut output) = feed(&mut server, &[&padded]);
        assert_eq!(events, [Body(1, "x".into(), false)]);
        server.release(1, 1, &mut output);
        given +=
            increments(&output).iter().filter(|update| update.0 == 0).map(|update| update.1).sum::<u32>();
    }
    assert!(given >= 101_000 - 32_767, "{given}");
    // The caller resets a stream within a frame.
    let frame = data(3, &[b'y'; 1000], false);
    let (events, _) = feed(&mut server, &[&frame[..500]]);
    assert!(matches!(&events[..], [Body(3, ..)]));
    let mut output = Vec::new();
    assert!(server.reset(3, Code::CANCEL, &mut output));
    server.release(3, 491, &mut output);
    assert_eq!(feed(&mut server, &[&frame[500..]]).0, []);
    for _ in 0..100 {
        assert_eq!(feed(&mut server, &[&frame]).0, []);
    }
    let outstanding = i64::from(config.connection_window) - server.receive_window;
    assert_eq!(outstanding, i64::from(server.to_release));
}

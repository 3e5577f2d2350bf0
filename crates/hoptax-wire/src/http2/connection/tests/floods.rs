//! Each kind of flood ends with its own fault, and uses no additional memory.

use super::*;

/// The faults of this file.
pub(super) const FLOODS: [Fault; 11] = [
    Fault::SettingsFlood,
    Fault::PingFlood,
    Fault::ResetFlood,
    Fault::ContinuationFlood,
    Fault::EmptyDataFlood,
    Fault::LateDataFlood,
    Fault::WindowUpdateFlood,
    Fault::PriorityFlood,
    Fault::HeadersFlood,
    Fault::GoAwayFlood,
    Fault::UnknownFlood,
];

/// Feeds `frames` until the connection fails. Returns the fault and the number of repetitions.
fn flood(connection: &mut Connection, frames: &[u8]) -> (Option<Fault>, usize) {
    let (mut sections, mut output) = (Sections::new(), Vec::new());
    for round in 0..20_000 {
        let mut at = 0;
        loop {
            match connection.advance(&frames[at..], &mut sections, &mut output) {
                Ok((_, Step::NeedMore)) => break,
                Ok((consumed, _)) => at += consumed,
                Err(fault) => return (Some(fault), round),
            }
        }
        assert!(output.len() <= 2 * frames.len() + 9, "{} bytes of answers", output.len());
        output.clear();
        assert!(connection.block.capacity() < 1 << 18);
    }
    (None, 20_000)
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow for floods")]
fn floods_are_named() {
    let client = {
        let mut client = client(2);
        client.reset(1, Code::CANCEL, &mut Vec::new());
        feed(&mut client, &[&headers(3, &OK, false)]);
        client
    };
    for (fault, frames) in [
        (Fault::SettingsFlood, settings(&[])),
        (Fault::SettingsFlood, frame(kind::SETTINGS, flag::ACK, 0, &[])),
        (Fault::PingFlood, frame(kind::PING, 0, 0, &[0; 8])),
        (Fault::PingFlood, frame(kind::PING, flag::ACK, 0, &[0; 8])),
        (Fault::ResetFlood, reset(1, Code::CANCEL)),
        (Fault::EmptyDataFlood, data(3, b"", false)),
        (Fault::EmptyDataFlood, frame(kind::DATA, flag::PADDED, 3, &[2, 0, 0])),
        (Fault::LateDataFlood, data(1, b"late", false)),
        (Fault::WindowUpdateFlood, window_update(3, 1)),
        (Fault::PriorityFlood, frame(kind::PRIORITY, 0, 1, &[0; 5])),
        (Fault::HeadersFlood, headers(1, &OK, false)),
        (Fault::GoAwayFlood, frame(kind::GOAWAY, 0, 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])),
        (Fault::UnknownFlood, frame(0xee, 0, 0, b"x")),
    ] {
        let (found, rounds) = flood(&mut client.clone(), &frames);
        assert_eq!((found, rounds), (Some(fault), 10_000), "{fault}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow for floods")]
fn interim_responses_are_a_flood() {
    let interim = headers(1, &[(":status", "103")], false);
    assert_eq!(flood(&mut client(1), &interim).0, Some(Fault::HeadersFlood));
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow for floods")]
fn progress_ends_a_flood() {
    let frames = [frame(kind::PING, 0, 0, &[0; 8]), data(1, b"x", false)].concat();
    let mut client = client(1);
    feed(&mut client, &[&headers(1, &OK, false)]);
    assert_eq!(flood(&mut client, &frames), (None, 20_000));
}

/// A stream of small messages in one direction. Some peers answer each of them with three frames.
#[test]
#[cfg_attr(miri, ignore = "Miri is too slow for floods")]
fn answers_to_our_data_are_no_flood() {
    let mut server = server(Config::default());
    feed(&mut server, &[&headers(1, &GET, true)]);
    let answer = Block::plain(&response_fields(200, [], None).expect("valid"));
    assert!(server.send_head(1, &answer, &[], false, &mut Vec::new()));
    let frames = [window_update(1, 1), window_update(0, 1), frame(kind::PING, 0, 0, &[0; 8])].concat();
    for message in 0..20_000 {
        assert_eq!(server.send_data(1, b"x", false, &mut Vec::new()), Some(1), "{message}");
        assert_eq!(feed(&mut server, &[&frames]).0, [], "{message}");
    }
}

#[test]
fn continuations_are_counted() {
    let input =
        [frame(kind::HEADERS, 0, 1, &[0x88]), frame(kind::CONTINUATION, 0, 1, &[]).repeat(256)].concat();
    assert_eq!(feed(&mut client(1), &[&input]).0, []);
    let input = [input, frame(kind::CONTINUATION, 0, 1, &[])].concat();
    assert_eq!(feed(&mut client(1), &[&input]).0, [Event::Fault(Fault::ContinuationFlood)]);
}

/// Opens streams and resets them at once.
#[test]
fn rapid_resets_are_a_flood() {
    let mut server = server(Config::default());
    let mut first = None;
    for round in 0..1100u32 {
        let input = [headers(2 * round + 1, &GET, true), reset(2 * round + 1, Code::CANCEL)].concat();
        let events = feed(&mut server, &[&input]).0;
        if events.last() == Some(&Event::Fault(Fault::ResetFlood)) {
            first = Some(round);
            break;
        }
        assert!(matches!(&events[..], [Head(..), Reset(..)]), "{events:?}");
    }
    assert_eq!(first, Some(1000));
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow for floods")]
fn clients_whose_requests_often_time_out_are_no_flood() {
    let mut server = server(Config::default());
    let answer = Block::plain(&response_fields(200, [], Some(0)).expect("valid"));
    for round in 0..5000u32 {
        let id = 2 * round + 1;
        let mut input = headers(id, &GET, true);
        let is_answered = round % 4 == 0;
        if !is_answered {
            input.extend(reset(id, Code::CANCEL));
        }
        let events = feed(&mut server, &[&input]).0;
        assert!(matches!(events[0], Head(..)), "{events:?}");
        assert_eq!(server.send_head(id, &answer, &[], true, &mut Vec::new()), is_answered);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow for floods")]
fn clients_that_leave_responses_are_no_flood() {
    let mut server = server(Config::default());
    let answer = Block::plain(&response_fields(200, [], None).expect("valid"));
    for round in 0..5000u32 {
        let id = 2 * round + 1;
        feed(&mut server, &[&headers(id, &GET, true)]);
        assert!(server.send_head(id, &answer, &[], false, &mut Vec::new()));
        assert_eq!(server.send_data(id, b"x", false, &mut Vec::new()), Some(1));
        let events = feed(&mut server, &[&reset(id, Code::CANCEL)]).0;
        assert!(matches!(&events[..], [Reset(..)]), "{events:?}");
    }
}

/// Requests beyond the limit of streams are refused, and cost nothing.
#[test]
#[cfg_attr(miri, ignore = "Miri is too slow for floods")]
fn refused_requests_are_a_flood() {
    let mut server = server(Config { streams: 1, ..Config::default() });
    let (events, _) = feed(&mut server, &[&headers(1, &GET, true)]);
    assert_eq!(events.len(), 1);
    for round in 1..=10_001u32 {
        let (events, output) = feed(&mut server, &[&headers(2 * round + 1, &GET, true)]);
        if round <= 10_000 {
            assert_eq!(events, []);
            let refused = (kind::RST_STREAM, 2 * round + 1, Code::REFUSED_STREAM.0.to_be_bytes().to_vec());
            assert_eq!(frames(&output), [refused]);
        } else {
            assert_eq!(events, [Event::Fault(Fault::HeadersFlood)]);
        }
        assert!(server.streams.len() == 1);
    }
}

//! Streams of tokens over HTTP/1.1 and HTTP/2, and clients that leave them.

use super::events::{CHUNKED, HEAD, LAST_CHUNK, length, messages, sending, stamp};
use super::grpc::{CALLS, Reply, replying};
use super::grpc_web::{answering, chunked};
use super::http2::{Peer, multiplexed, server};
use super::*;
use hoptax_format::clock;
use hoptax_format::llm::{Api, Leave, Pause, TokenCounts, TokenLimits, TokenSpec, TokensRecord};
use hoptax_format::messages::{Carrier, MessagesRecord, StreamKind, StreamSpec};
use hoptax_wire::http2::{Block, Config, response_fields};

const TOKENS: u64 = 5;
/// Number of requests of a load whose client leaves.
const FEW: u64 = 20;
const STREAMS: u32 = 2;
const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":7}}\n\n";
const FAILED: &str = "data: {\"error\":{\"message\":\"busy\"}}\n\n";
const END: &str = "data: [DONE]\n\n";

fn token(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

/// Tokens with these numbers.
fn tokens(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(|number| token(&stamp(number, number))).collect()
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

fn target(leave: Option<Leave>) -> TargetSpec {
    let headers = vec![("host".to_owned(), "test".to_owned())];
    let tokens = Some(TokenSpec { api: Api::OpenAi, usage: true, leave, pause: None, goodput: None });
    let stream = StreamSpec::grpc(StreamKind::ServerStream, TOKENS as u32, 0);
    let stream = Some(StreamSpec { carrier: Carrier::Events, tokens, ..stream });
    TargetSpec { stream, ..TargetSpec::only("GET", "/v1/chat/completions", headers, Vec::new()) }
}

/// The stream of [`target`], with a client that pauses.
fn pausing(after_tokens: u32, time_ns: u64) -> Option<StreamSpec> {
    let stream = target(None).stream?;
    let pause = Some(Pause { after_tokens, time_ns });
    Some(StreamSpec { tokens: stream.tokens.map(|tokens| TokenSpec { pause, ..tokens }), ..stream })
}

/// Loads of both HTTP versions, each with a server that sends this reply.
fn loads(reply: &Reply, leave: Option<Leave>) -> [(Server, LoadSpec); 2] {
    let (http1, http2) = (answering(chunked(reply), true), replying(reply.clone()));
    let targets = vec![TargetSpec { method: "POST".into(), body: b"hello".to_vec(), ..target(leave) }];
    let over_http1 = LoadSpec { targets: targets.clone(), connections: 2, ..spec(&[http1.address]) };
    let over_http2 = LoadSpec { targets, ..multiplexed(&http2, 2, 4) };
    [(http1, until_done(CALLS, over_http1)), (http2, until_done(CALLS, over_http2))]
}

/// As [`loads`], with servers that send a part of a body, and then nothing until the client leaves. Without a
/// part, they do not even send a head. Over HTTP/2, they refuse more streams than the client has.
fn stalled(part: Option<&str>, leave: Leave) -> [(Server, LoadSpec); 2] {
    let bytes = part.map(|part| [CHUNKED, &chunk(part)].concat()).unwrap_or_default();
    let http1 = sending(move |socket| socket.write_all(&bytes).is_ok());
    let part = part.map(str::to_owned);
    let http2 = server(Config { streams: STREAMS, ..Config::default() }, move |peer, stream| {
        if let Some(part) = &part {
            let Peer { wire, out, .. } = peer;
            let fields = response_fields(200, HEAD.iter().copied(), None).expect("valid");
            wire.send_head(stream, &Block::plain(&fields), &[], false, out);
            wire.send_data(stream, part.as_bytes(), false, out);
        }
        true
    });
    let targets = vec![target(Some(leave))];
    let over_http1 = LoadSpec { targets: targets.clone(), connections: 2, ..spec(&[http1.address]) };
    let over_http2 = LoadSpec { targets, ..multiplexed(&http2, 1, STREAMS) };
    [(http1, until_done(FEW, over_http1)), (http2, until_done(FEW, over_http2))]
}

fn recorded(record: &LoadRecord) -> &TokensRecord {
    messages(record).tokens.as_ref().expect("a load with streams of tokens records them")
}

/// What several streams have, if each has these counts.
fn times(streams: u64, each: &TokenCounts) -> TokenCounts {
    let mut all = TokenCounts::default();
    (0..streams).for_each(|_| all.add(each));
    all
}

#[test]
fn tokens_are_the_events_with_content() {
    let of = |ended, unended, errors, other_events| TokenCounts {
        ended,
        unended,
        errors,
        other_events,
        ..TokenCounts::default()
    };
    let all = tokens(0..TOKENS);
    let usage = TokenCounts { usage: 1, usage_tokens: 7, ..of(1, 0, 0, 3) };
    let foreign = token("hi").repeat(TOKENS as usize);
    let merged = tokens(0..3) + &token(&format!("{} {}", stamp(3, 3), stamp(4, 4))) + END;
    let (unended, error) = (Some(Cause::StreamUnended), Some(Cause::StreamError));
    for (name, body, (received, lost), cause, expected) in [
        ("with stamps", [ROLE, &all, USAGE, END].concat(), (TOKENS, 0), None, usage),
        ("without stamps", [ROLE, &foreign, END].concat(), (TOKENS, 0), None, of(1, 0, 0, 2)),
        ("two tokens in one event", merged, (TOKENS, 0), None, of(1, 0, 0, 1)),
        ("a false end", tokens(0..3) + END, (3, TOKENS - 3), None, of(1, 0, 0, 1)),
        ("without its end", [ROLE, &all].concat(), (TOKENS, 0), unended, of(0, 1, 0, 1)),
        ("an error event", tokens(0..2) + FAILED, (2, 0), error, of(0, 0, 1, 1)),
        ("no events", "{}".to_owned(), (0, 0), unended, of(0, 1, 0, 0)),
    ] {
        let split: Vec<&[u8]> = body.as_bytes().chunks(7).collect();
        let late = Leave::AfterNs(10 * SECOND);
        for (data, leave) in [(&[body.as_bytes()][..], None), (split.as_slice(), Some(late))] {
            for (_server, spec) in loads(&Reply::new(200, HEAD, data, &[]), leave) {
                let record = load(&spec);
                let (name, counts) = (format!("{name}, {:?}, {leave:?}", spec.http), &record.counts);
                let causes: BTreeMap<Cause, u64> = cause.into_iter().map(|cause| (cause, CALLS)).collect();
                assert_eq!(counts.causes, causes, "{name}");
                assert_eq!(counts.ok, if cause.is_none() { CALLS } else { 0 }, "{name}");
                assert_eq!((counts.ended_by_client, record.lifetime.opened), (0, 2), "{name}");
                let found = messages(&record).counts;
                assert_eq!((found.received, found.lost), (CALLS * received, CALLS * lost), "{name}");
                assert_eq!((found.repeated, found.unnumbered), (0, 0), "{name}");
                let TokensRecord { counts, histograms } = recorded(&record);
                assert_eq!(*counts, times(CALLS, &expected), "{name}");
                let has_events = received + expected.other_events > 0;
                assert_eq!(length(&histograms.first_event), if has_events { CALLS } else { 0 }, "{name}");
                assert_eq!(length(&histograms.per_token), if received > 1 { CALLS } else { 0 }, "{name}");
                assert_eq!(length(&histograms.first_age), 0, "{name}: the clock is another one");
            }
        }
    }
}

#[test]
fn good_requests_are_within_all_limits() {
    let long = Some(60 * SECOND);
    let all = TokenLimits { first_content_ns: long, token_time_ns: long, response_time_ns: long };
    let only_tokens = TokenLimits { token_time_ns: long, ..TokenLimits::default() };
    let early = TokenLimits { first_content_ns: Some(1), ..all };
    let short = TokenLimits { response_time_ns: Some(1), ..all };
    let whole = [ROLE, &tokens(0..TOKENS), END].concat();
    let error = [ROLE, &tokens(0..TOKENS), FAILED, END].concat();
    for (name, status, body, limits, good) in [
        ("all times", 200, &whole, Some(all), Some(CALLS)),
        ("one limit", 200, &whole, Some(only_tokens), Some(CALLS)),
        ("no limits", 200, &whole, None, None),
        ("the first content is late", 200, &whole, Some(early), Some(0)),
        ("the response takes long", 200, &whole, Some(short), Some(0)),
        ("an error event", 200, &error, Some(all), Some(0)),
        ("an error status", 429, &whole, Some(all), Some(0)),
    ] {
        for (_server, mut spec) in loads(&Reply::new(status, HEAD, &[body.as_bytes()], &[]), None) {
            let target = &mut spec.targets[0];
            target.stream = target.stream.map(|stream| stream.with_goodput(limits));
            let found = recorded(&load(&spec)).counts.good;
            assert_eq!(found, good, "{name}, {:?}", spec.http);
        }
    }
}

#[test]
fn a_response_with_an_error_status_is_no_stream() {
    for (_server, spec) in loads(&Reply::new(429, &[], &[b"{\"error\":{}}"], &[]), None) {
        let record = load(&spec);
        let counts = &record.counts;
        assert_eq!((counts.completed, counts.ok, counts.causes.len()), (CALLS, 0, 0), "{counts:?}");
        assert_eq!((recorded(&record).counts, messages(&record).counts.lost), (TokenCounts::default(), 0));
    }
}

#[test]
fn other_streams_have_no_tokens() {
    let stream = target(None).stream.map(|stream| StreamSpec { tokens: None, ..stream });
    let body = [ROLE, END].concat();
    for (_server, mut spec) in loads(&Reply::new(200, HEAD, &[body.as_bytes()], &[]), None) {
        spec.targets[0].stream = stream;
        let record = load(&spec);
        assert_eq!(messages(&record).tokens, None);
        assert_eq!((record.counts.ok, messages(&record).counts.received), (CALLS, 2 * CALLS));
    }
}

#[test]
fn a_client_leaves_before_and_within_a_response() {
    let soon = Leave::AfterNs(20 * MILLISECOND);
    let (midway, gap) = ([ROLE, &tokens(0..2)].concat(), tokens([0, 2]));
    let cases = [
        ("before the head", None, soon, (0_u64, 0_u64), 0),
        ("before the first content", Some(ROLE), soon, (0, 0), 1),
        ("midway", Some(midway.as_str()), soon, (2, 0), 1),
        ("after a gap", Some(gap.as_str()), soon, (2, 1), 0),
        ("after tokens", Some(midway.as_str()), Leave::AfterTokens(2), (2, 0), 1),
    ];
    retry_together(&cases, |&(name, part, leave, (received, lost), other_events)| {
        for (_server, spec) in stalled(part, leave) {
            let record = load(&spec);
            let (name, counts) = (format!("{name}, {:?}", spec.http), &record.counts);
            assert_eq!((counts.ok, counts.ended_by_client), (FEW, FEW), "{name}: {counts:?}");
            assert_eq!(counts.retried, 0, "{name}: {counts:?}");
            let (found, tokens) = (messages(&record).counts, recorded(&record));
            let expected = TokenCounts { left: 1, other_events, ..TokenCounts::default() };
            // On a busy machine, the client can leave before it has read the part.
            let is_right = counts.status == BTreeMap::from([(if part.is_some() { 200 } else { 0 }, FEW)])
                && (found.received, found.lost) == (FEW * received, FEW * lost)
                && tokens.counts == times(FEW, &expected);
            seen(is_right, || format!("{name}: {:?}, {found:?}, {:?}", counts.status, tokens.counts))?;
            let per_token = length(&tokens.histograms.per_token);
            assert_eq!(per_token, if received > 1 { FEW } else { 0 }, "{name}");
            if spec.http == HttpVersion::Http2 {
                assert_eq!(record.lifetime.opened, 1, "{name}: the streams are reset");
            } else {
                assert!(record.lifetime.opened >= FEW, "{name}: the connections are closed");
            }
            // Two clients wait 20 ms for each of 10 responses. After failures, they would wait longer.
            let took = record.measured_ns;
            seen(took < 500 * MILLISECOND, || format!("{name}: {} ms", took / MILLISECOND))?;
        }
        Ok(())
    });
}

#[test]
fn a_connection_with_many_resets_is_followed_by_another_one() {
    let [_, (_server, spec)] = stalled(Some(&tokens([0])), Leave::AfterTokens(1));
    let record = load(&until_done(6 * FEW, spec));
    let counts = &record.counts;
    assert_eq!((counts.ok, counts.ended_by_client), (6 * FEW, 6 * FEW), "{counts:?}");
    // Each connection resets about 50 streams.
    assert!((3..=6).contains(&record.lifetime.opened), "{} connections", record.lifetime.opened);
}

#[test]
fn a_client_that_will_leave_or_read_on_still_has_a_time_limit() {
    for (_server, mut spec) in stalled(Some(&tokens([0])), Leave::AfterNs(60 * SECOND)) {
        spec.timeouts = Timeouts::all(200 * MILLISECOND);
        for stream in [spec.targets[0].stream, pausing(1, 60 * SECOND)] {
            spec.targets[0].stream = stream;
            let record = load(&until_done(4, spec.clone()));
            let counts = &record.counts;
            assert_eq!(counts.causes, BTreeMap::from([(Cause::ReadTimeout, 4)]), "{counts:?}");
            assert_eq!(recorded(&record).counts, TokenCounts::default());
        }
    }
}

#[test]
fn a_client_that_pauses_reads_nothing_and_later_times_do_not_count() {
    const PAUSE: u64 = 300 * MILLISECOND;
    /// Length of a token, bytes. It is more than the kernel keeps for a client that does not read.
    const LONG: usize = 16 << 20;
    let written = Arc::new(AtomicU64::new(u64::MAX));
    let shortest = Arc::clone(&written);
    let server = sending(move |socket| {
        let due = clock::now();
        let start = token(&stamp(0, due)) + &token(&stamp(1, due));
        let long = token(&(stamp(2, due) + &"x".repeat(LONG)));
        let rest = token(&stamp(3, due + 1)) + &token(&stamp(4, due + 2)) + END;
        let mut sent = socket.write_all(&[CHUNKED, &chunk(&start)].concat());
        // The client reads the first tokens alone.
        thread::sleep(Duration::from_millis(20));
        sent = sent.and_then(|()| socket.write_all(&chunk(&long)));
        shortest.fetch_min(clock::now() - due, Ordering::Relaxed);
        sent.and_then(|()| socket.write_all(&[chunk(&rest).as_slice(), LAST_CHUNK].concat())).is_ok()
    });
    let stream = pausing(2, PAUSE).map(|stream| StreamSpec { same_clock: true, ..stream });
    let targets = vec![TargetSpec { stream, ..target(None) }];
    let spec = until_done(4, LoadSpec { targets, connections: 2, ..spec(&[server.address]) });
    retry_if_disturbed(|| {
        written.store(u64::MAX, Ordering::Relaxed);
        let record = load(&spec);
        let MessagesRecord { counts, histograms, .. } = messages(&record);
        assert_eq!((record.counts.ok, counts.received, counts.lost), (4, 4 * TOKENS, 0), "{counts:?}");
        let shortest = written.load(Ordering::Relaxed);
        assert!(shortest >= PAUSE, "the server has written all after {} ms", shortest / MILLISECOND);
        let tokens = recorded(&record);
        assert_eq!((tokens.counts.ended, tokens.counts.paused), (4, 4), "{:?}", tokens.counts);
        let per_token = &tokens.histograms.per_token;
        let times = [&histograms.age, &histograms.gap, per_token].map(length);
        let longest = quantile(&histograms.gap, 1.0).max(quantile(per_token, 1.0));
        seen((times, counts.merged_in_read) == ([8, 4, 4], 0) && longest < PAUSE / 2, || {
            format!("{times:?}, {counts:?}, {} ms", longest / MILLISECOND)
        })
    });
}

#[test]
fn a_response_that_has_arrived_ends_within_the_pause() {
    let body = [ROLE, &tokens(0..TOKENS), END].concat();
    let split: Vec<&[u8]> = body.as_bytes().chunks(7).collect();
    for data in [&[body.as_bytes()][..], split.as_slice()] {
        for (_server, mut spec) in loads(&Reply::new(200, HEAD, data, &[]), None) {
            spec.targets[0].stream = pausing(2, 4 * SECOND);
            let record = load(&spec);
            let (name, found) = (format!("{} parts, {:?}", data.len(), spec.http), messages(&record));
            assert_eq!((record.counts.ok, found.counts.received), (CALLS, CALLS * TOKENS), "{name}");
            let TokenCounts { ended, paused, .. } = recorded(&record).counts;
            assert_eq!((ended, paused), (CALLS, 0), "{name}");
            // A response of HTTP/1 is read at once, before the client could pause.
            let gaps = if spec.http == HttpVersion::Http2 && data.len() > 1 { 1 } else { TOKENS - 1 };
            assert_eq!(length(&found.histograms.gap), CALLS * gaps, "{name}");
        }
    }
}

#[test]
fn the_first_event_comes_before_the_first_token_which_has_an_age() {
    const PAUSE: Duration = Duration::from_millis(20);
    let server = sending(|socket| {
        let mut sent = socket.write_all(&[CHUNKED, &chunk(ROLE)].concat());
        for number in 0..3 {
            thread::sleep(PAUSE);
            sent = sent.and_then(|()| socket.write_all(&chunk(&token(&stamp(number, clock::now())))));
        }
        sent.and_then(|()| socket.write_all(&[chunk(END).as_slice(), LAST_CHUNK].concat())).is_ok()
    });
    let mut target = target(None);
    let stream = target.stream.as_mut().expect("set");
    (stream.same_clock, stream.messages) = (true, 3);
    let spec = LoadSpec { targets: vec![target], connections: 2, ..spec(&[server.address]) };
    let spec = until_done(6, spec);
    retry_if_disturbed(|| {
        let record = load(&spec);
        assert_eq!((record.counts.ok, messages(&record).counts.lost), (6, 0), "{:?}", record.counts);
        let TokensRecord { counts, histograms } = recorded(&record);
        assert_eq!((counts.ended, counts.other_events), (6, 12), "{counts:?}");
        assert_eq!((length(&histograms.first_age), length(&messages(&record).histograms.age)), (6, 18));
        let pause = PAUSE.as_nanos() as u64;
        let (event, age) = (quantile(&histograms.first_event, 0.5), quantile(&histograms.first_age, 0.5));
        seen(event < pause / 2 && age < pause / 2, || format!("event {event}, age {age}"))?;
        let token = quantile(&messages(&record).histograms.first_message, 0.5);
        let each = quantile(&histograms.per_token, 0.5);
        seen(token >= pause * 9 / 10 && each >= pause * 9 / 10, || format!("token {token}, each {each}"))
    });
}

use super::super::figures::cut;
use super::super::json::LoadResults;
use super::super::limits;
use super::super::live::model_spec;
use super::*;
use hoptax_format::histogram::{Encoded, TRIAL_DIGITS, WINDOW_DIGITS, empty, empty_of_counts};
use hoptax_format::llm::{TokenCounts, TokenHistograms, TokensRecord};
use hoptax_format::messages::{MessageCounts, MessageHistograms, MessagesRecord};
use hoptax_format::record::{
    Bytes, Cause, Connections, Counts, GeneratorCpu, Histograms, Http2Tally, Occupancy, Silence,
    TargetRecord, TlsTally, Window,
};
use hoptax_format::spec::{Arrivals, Check, Stage, TlsSpec, TlsVersion, Verify};

const S: u64 = 1_000_000_000;

fn histogram(digits: u8, values: impl IntoIterator<Item = u64>) -> Encoded {
    let mut histogram = empty(digits);
    values.into_iter().for_each(|value| histogram.record(value).expect("in range"));
    Encoded::new(&histogram)
}

/// The record of a load of one second. Its 1,000 response times are between 100 µs and 1.1 ms.
fn record() -> LoadRecord {
    let times = || histogram(TRIAL_DIGITS, (0..1000).map(|at| 100_000 + at * 1000));
    LoadRecord {
        event_loop: "epoll".into(),
        workers: 1,
        measured_ns: S,
        counts: Counts {
            scheduled: 1000,
            sent: 1000,
            completed: 1000,
            ok: 1000,
            status: [(200, 1000)].into(),
            ..Counts::default()
        },
        completed_in_time: 1000,
        connections: Connections { asked: 10, established: 10, reused: 1000, ..Connections::default() },
        bytes: Bytes { sent: 1000, received: 100_000, body: 64_000 },
        histograms: Histograms {
            response_time: times(),
            service_time: times(),
            send_lag: histogram(TRIAL_DIGITS, [0; 1000]),
            first_byte: times(),
            connect: times(),
            ..Histograms::default()
        },
        cpu: GeneratorCpu { used_ns: S / 10, busiest_worker_ns: S / 10 },
        ..LoadRecord::default()
    }
}

/// The summary of `record`. Checks that no line is too long.
#[track_caller]
fn summary(spec: &LoadSpec, record: &LoadRecord) -> String {
    let limits = limits::of(spec, None, &[]);
    let load = LoadOutcome::new("http://127.0.0.1/", spec, record, &limits).expect("readable");
    let text = Summary::new(&load, Paint::OFF).expect("readable").to_string();
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{} columns: {line:?} in\n{text}", line.chars().count());
    }
    text
}

/// The lines of a summary that the summary of a good load does not have.
fn added(text: &str) -> String {
    let usual = summary(&closed(), &record());
    text.lines().filter(|line| usual.lines().all(|other| other != *line)).collect::<Vec<_>>().join("\n")
}

/// The warnings of a summary. They are its last lines.
fn warnings(text: &str) -> &str {
    text.find("\n! ").map_or("", |at| &text[at + 1..])
}

fn closed() -> LoadSpec {
    model_spec(Shape::Closed, 1, 1, None)
}

fn open(rate: Rate) -> LoadSpec {
    model_spec(Shape::Open { rate, arrivals: Arrivals::Jitter(0.1) }, 1, 1, None)
}

#[test]
fn a_good_load_has_no_warnings() {
    let text = summary(&closed(), &record());
    assert!(!text.contains('!'), "{text}");
    insta::assert_snapshot!(text);
    let text = summary(&open(Rate::Fixed(1000.0)), &record());
    assert!(!text.contains('!'), "{text}");
    insta::assert_snapshot!(added(&text));
}

/// Messages whose answers take 50 µs, and the first ones 70 µs.
fn messages(counts: MessageCounts) -> MessagesRecord {
    let times = |us: u64| histogram(TRIAL_DIGITS, vec![us * 1000; 100]);
    let histograms =
        MessageHistograms { response_time: times(50), first_message: times(70), ..Default::default() };
    MessagesRecord { counts, histograms, ..MessagesRecord::default() }
}

fn lossy() -> MessageCounts {
    MessageCounts { sent: 10_000, received: 9998, lost: 2, ..MessageCounts::default() }
}

#[test]
fn messages_have_counts_and_times() {
    let mut record = record();
    record.messages = Some(messages(lossy()));
    insta::assert_snapshot!(added(&summary(&closed(), &record)));
    // The longest lines are wrapped.
    let most = 1_000_000_000;
    let counts = MessageCounts { repeated: most, reordered: most, merged_in_read: most, ..lossy() };
    record.messages = Some(messages(counts));
    insta::assert_snapshot!(added(&summary(&closed(), &record)));
    let rare = MessageCounts { merged_into_one: 1, comments: 2, pings: 3, cut: 4, ..lossy() };
    let mut found = messages(MessageCounts { refused: 5, compressed: 6, ..rare });
    found.histograms.headers = Some(histogram(TRIAL_DIGITS, vec![30_000; 100]));
    found.histograms.reach = Some(histogram(TRIAL_DIGITS, vec![90_000; 100]));
    record.messages = Some(found);
    insta::assert_snapshot!(added(&summary(&closed(), &record)));
}

#[test]
fn messages_are_in_json() {
    let json = |record: &LoadRecord| {
        let spec = closed();
        let limits = limits::of(&spec, None, &[]);
        let load = LoadOutcome::new("http://127.0.0.1/", &spec, record, &limits).expect("readable");
        serde_json::to_value(LoadResults::new(&load).expect("readable")).expect("plain data")
    };
    let mut record = record();
    let without = json(&record);
    assert!(without.get("messages").is_none() && without.get("message").is_none(), "{without}");
    record.messages = Some(messages(lossy()));
    let found = json(&record);
    assert_eq!(found["messages"]["sent"], 10_000);
    assert_eq!(found["messages"]["lost"], 2);
    let times = &found["message"];
    assert_eq!(times["response_time"]["samples"], 100);
    assert_eq!(times["first_message"]["unit"], "us");
    assert!(times.get("age").is_none() && times.get("gap").is_none(), "{times}");
    let without = [found["messages"].get("tokens"), times.get("token_time")];
    assert_eq!(without, [None, None], "{found}");
    record.messages = Some(tokens());
    let found = json(&record);
    let streams = &found["messages"]["tokens"];
    assert_eq!((&streams["ended"], &streams["errors"]), (&90.into(), &2.into()));
    assert_eq!(streams["tokens_per_second"]["estimate"], 9998.0);
    assert_eq!(streams["streams_per_second"]["estimate"], 95.0);
    assert_eq!((&streams["good"], &streams["good_per_second"]["estimate"]), (&80.into(), &80.0.into()));
    assert_eq!(found["message"]["first_event"]["samples"], 100);
}

/// Messages that are tokens, of 100 streams.
fn tokens() -> MessagesRecord {
    let times = |us: u64| histogram(TRIAL_DIGITS, vec![us * 1000; 100]);
    let (ended, unended, errors, left, paused) = (90, 3, 2, 5, 4);
    let (other_events, usage, usage_tokens, good) = (300, 90, 1800, Some(80));
    let counts =
        TokenCounts { ended, unended, errors, left, paused, other_events, usage, usage_tokens, good };
    let histograms = TokenHistograms { first_event: times(60), first_age: times(20), per_token: times(1000) };
    MessagesRecord { tokens: Some(TokensRecord { counts, histograms }), ..messages(lossy()) }
}

#[test]
fn streams_of_tokens_have_lines_of_their_own() {
    let mut record = record();
    record.messages = Some(tokens());
    insta::assert_snapshot!(added(&summary(&closed(), &record)));
}

#[test]
fn streams_and_their_ends_are_shown() {
    let spec = LoadSpec { http: HttpVersion::Http2, streams: 8, ..closed() };
    let mut record = record();
    let tally = Http2Tally { most_streams: 8, stream_ns: 4 * S, ..Http2Tally::default() };
    record.http2 = Some(tally);
    let text = summary(&spec, &record);
    assert!(!text.contains('!'), "{text}");
    insta::assert_snapshot!(added(&text));

    let (goaways, calmed, resets, unprocessed) = (3, 2, 1000, 40);
    record.http2 = Some(Http2Tally { stream_limit: Some(5), goaways, calmed, resets, unprocessed, ..tally });
    record.counts.retried = 40;
    let waits = |ns: u64| Some(histogram(TRIAL_DIGITS, [ns; 9]));
    (record.histograms.connection_wait, record.histograms.stream_wait) = (waits(0), waits(3_000_000));
    record.histograms.window_wait = waits(0);
    insta::assert_snapshot!(added(&summary(&spec, &record)));
}

#[test]
fn tls_is_shown() {
    let mut spec = closed();
    spec.tls = Some(TlsSpec {
        server_name: "a".into(),
        verify: Verify::Nothing,
        client_certificate: None,
        resumption: true,
        alpn: Vec::new(),
        versions: vec![TlsVersion::Tls13],
        cipher_suites: Vec::new(),
    });
    let mut record = record();
    let tally = |name: &str, count| [(name.to_owned(), count)].into();
    record.tls = Some(TlsTally {
        handshakes: 1234,
        resumed: 1000,
        versions: tally("TLSv1.3", 1234),
        cipher_suites: tally("TLS13_AES_256_GCM_SHA384", 1234),
        alpn: tally("http/1.1", 1234),
    });
    record.histograms.tls_handshake = Some(record.histograms.connect.clone());
    insta::assert_snapshot!(added(&summary(&spec, &record)));
    // A table with six columns of times also fits.
    spec.shape = Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant };
    record.tls.as_mut().expect("set").versions.insert("TLSv1.2".into(), 7);
    insta::assert_snapshot!(added(&summary(&spec, &record)));
}

#[test]
fn the_statuses_of_calls_are_shown() {
    let mut record = record();
    let statuses = [("OK", 990), ("UNAVAILABLE", 7), ("UNKNOWN", 3)];
    record.counts.grpc = statuses.map(|(status, count)| (status.to_owned(), count)).into();
    (record.counts.ok, record.counts.trailers_lost) = (990, 3);
    record.counts.failed_checks = [("gRPC status UNAVAILABLE is not OK".to_owned(), 10)].into();
    insta::assert_snapshot!(added(&summary(&closed(), &record)));
}

#[test]
fn failures_are_listed_by_cause_and_check() {
    let mut record = record();
    record.counts = Counts {
        scheduled: 1000,
        sent: 990,
        completed: 900,
        ok: 800,
        status: [(200, 800), (500, 100)].into(),
        failed_checks: [("the body does not contain \"hello\" ".repeat(4), 100)].into(),
        timeouts: 60,
        connect_errors: 30,
        resets: 10,
        causes: [(Cause::ResponseTimeout, 60), (Cause::PortsExhausted, 30), (Cause::ResetInResponse, 10)]
            .into(),
        errors: [("connection reset by peer".to_owned(), 10)].into(),
        ..Counts::default()
    };
    insta::assert_snapshot!(added(&summary(&closed(), &record)));
}

#[test]
fn warnings_have_advice() {
    let mut told = Vec::new();
    let mut add = |spec: &LoadSpec, record: &LoadRecord| {
        let text = summary(spec, record);
        told.push(warnings(&text).to_owned());
        text
    };
    let mut busy = record();
    busy.cpu.busiest_worker_ns = S * 97 / 100;
    add(&closed(), &busy);

    let mut short = record();
    short.connections.established = 9;
    add(&closed(), &short);

    let mut opened = record();
    opened.connections.opened = 1000;
    assert!(!summary(&closed(), &opened).contains('!'), "nothing says that the server closed them");
    opened.connections.closed_by_peer = 1000;
    add(&closed(), &opened);
    let mut asked_for = closed();
    asked_for.requests_per_connection = Some(1);
    assert!(!summary(&asked_for, &opened).contains('!'), "the user asked for new connections");

    let mut closing = opened;
    (closing.connections.closed_after_first, closing.connections.closed_on_reuse) = (1000, 999);
    assert!(add(&closed(), &closing).contains("--retry"));
    closing.counts.retried = 999;
    let retrying = LoadSpec { retry: Retry::IdleClose, ..closed() };
    let text = add(&retrying, &closing);
    assert!(text.contains("999 sent again") && !text.contains("--retry"), "{text}");
    let mut posting = closed();
    posting.targets[0].method = "POST".into();
    let text = add(&posting, &closing);
    assert!(!text.contains("--retry"), "a POST is never sent again: {text}");

    let mut silent = record();
    silent.counts.completed = 0;
    silent.counts.resets = 1000;
    silent.counts.causes = [(Cause::ClosedBeforeResponse, 1000)].into();
    add(&closed(), &silent);

    let mut misdirected = record();
    let completed = misdirected.counts.completed;
    misdirected.counts.status = [(421, completed)].into();
    add(&closed(), &misdirected);

    let mut missed = record();
    missed.completed_in_time = 900;
    let open = open(Rate::Fixed(1000.0));
    add(&open, &missed);
    missed.histograms.service_time = histogram(TRIAL_DIGITS, [11_000_000; 900]);
    missed.occupancy = Some(Occupancy { waited: 900, ..used([90; 10]) });
    add(&open, &missed);
    assert!(!summary(&closed(), &missed).contains('!'), "a closed loop has no rate to miss");

    let mut late = record();
    late.histograms.send_lag = histogram(TRIAL_DIGITS, [2_000_000; 1000]);
    add(&open, &late);
    let multiplexed = LoadSpec { http: HttpVersion::Http2, streams: 8, ..open };
    late.http2 = Some(Http2Tally { stream_limit: Some(5), ..Http2Tally::default() });
    add(&multiplexed, &late);
    insta::assert_snapshot!(told.join("\n"));
}

/// Connections with these numbers of responses.
fn used<const N: usize>(responses: [u64; N]) -> Occupancy {
    let mut counts = empty_of_counts();
    responses.iter().for_each(|count| counts.record(*count).expect("in range"));
    Occupancy {
        responses: Encoded::new(&counts),
        unanswered: responses.iter().filter(|count| **count == 0).count() as u64,
        busy_ns: S,
        waited: 0,
        silence: Silence::default(),
        longest_turn_ns: 50_000_000,
    }
}

#[test]
fn connections_without_a_response_are_a_warning() {
    let mut record = record();
    record.occupancy = Some(used([0, 0, 0, 0, 0, 150, 200, 200, 200, 250]));
    insta::assert_snapshot!(added(&summary(&closed(), &record)));
}

#[test]
fn a_stall_is_named_and_the_generator_is_not_blamed() {
    let mut record = record();
    let silence = Silence { at_ns: 2 * S, for_ns: 5 * S };
    record.measured_ns = 10 * S;
    record.occupancy = Some(Occupancy { silence, waited: 400, ..used([100; 10]) });
    insta::assert_snapshot!(warnings(&summary(&closed(), &record)));
    record.histograms.send_lag = histogram(TRIAL_DIGITS, [4 * S; 1000]);
    let text = summary(&open(Rate::Fixed(100.0)), &record);
    insta::assert_snapshot!(warnings(&text));
    assert!(!text.contains("--cpus"), "{text}");
    // If the generator itself did not run, the server is not blamed.
    record.occupancy = Some(Occupancy { silence, longest_turn_ns: 49 * S / 10, ..used([100; 10]) });
    insta::assert_snapshot!(warnings(&summary(&closed(), &record)));
}

#[test]
fn a_load_of_failures_is_no_overload_and_says_nothing_of_keep_alive() {
    let mut told = Vec::new();
    for cause in
        [Cause::MalformedResponse, Cause::ResponseTimeout, Cause::ConnectRefused, Cause::ClosedBeforeResponse]
    {
        let mut record = record();
        record.completed_in_time = 0;
        record.counts =
            Counts { scheduled: 1000, sent: 1000, causes: [(cause, 1000)].into(), ..Counts::default() };
        match cause {
            Cause::ResponseTimeout => record.counts.timeouts = 1000,
            Cause::ConnectRefused => record.counts.connect_errors = 1000,
            Cause::ClosedBeforeResponse => record.counts.resets = 1000,
            _ => record.counts.bad_responses = 1000,
        }
        record.connections.opened = 1000;
        record.connections.closed_by_peer = record.counts.resets;
        let text = summary(&open(Rate::Fixed(1000.0)), &record);
        told.push(added(&text));
        for wrong in ["keep-alive", "grow"] {
            assert!(!text.contains(wrong), "{wrong:?} in {text}");
        }
    }
    insta::assert_snapshot!(told.join("\n\n"));
}

#[test]
fn refusals_and_redirects_are_warnings() {
    let mut limited = record();
    limited.counts.ok = 200;
    limited.counts.status = [(200, 200), (429, 800)].into();
    insta::assert_snapshot!(warnings(&summary(&closed(), &limited)));
    let mut moved = record();
    moved.counts.status = [(302, 1000)].into();
    moved.redirected_to = Some("/login".into());
    insta::assert_snapshot!(added(&summary(&closed(), &moved)));
    let mut expected = closed();
    expected.targets[0].checks = vec![Check::Status(vec![(300, 399)])];
    let text = summary(&expected, &moved);
    assert!(!text.contains('!') && !text.contains("Limits"), "{text}");
    limited.counts.status = [(304, 1000)].into();
    limited.counts.ok = 1000;
    assert!(!summary(&closed(), &limited).contains('!'), "304 is no redirect");
}

#[test]
fn limits_are_kept_or_exceeded() {
    let mut record = record();
    record.messages = Some(tokens());
    let of_content = ["first_content_p99=1ms", "first_content_p50=50us"];
    let limits = ["p99=2ms", "p50=100us", "max=1ms"].into_iter().chain(of_content);
    let limits: Vec<_> = limits.map(|text| limits::maximum(text).expect("a limit")).collect();
    let limits =
        limits::of(&closed(), Some(0.01), &[&limits, &[limits::minimum("throughput=2000/s").expect("one")]]);
    let spec = closed();
    assert!(limits::check(&limits, &spec).expect_err("no tokens").contains("add --llm openai"));
    let load = LoadOutcome::new("http://127.0.0.1/", &spec, &record, &limits).expect("readable");
    let kept: Vec<bool> = load.limits.iter().map(|limit| limit.kept).collect();
    assert_eq!(kept, [true, true, false, false, true, false, false]);
    insta::assert_snapshot!(added(&Summary::new(&load, Paint::OFF).expect("readable").to_string()));
}

#[test]
fn each_target_has_a_row() {
    let mut record = record();
    let target = |name: &str, ok| TargetRecord {
        name: name.to_owned(),
        scheduled: 500,
        completed: 480,
        ok,
        failed: 20,
        response_time: record.histograms.response_time.clone(),
        service_time: record.histograms.service_time.clone(),
    };
    record.targets = vec![target("orders", 480), target(&"a long name ".repeat(9), 470)];
    let text = summary(&closed(), &record);
    insta::assert_snapshot!(added(&text));
    let row = text.lines().find(|line| line.starts_with("a long name")).expect("a row");
    assert!(row.ends_with("      30"), "20 failed and 10 were not successes: {row}");
}

#[test]
fn stages_are_computed_from_the_windows_inside_them() {
    let stages = vec![
        Stage { from: 100.0, to: 100.0, for_ns: S / 4 },
        Stage { from: 100.0, to: 900.0, for_ns: S / 2 },
        Stage { from: 900.0, to: 0.0, for_ns: S },
    ];
    let mut record = record();
    let window = |index: u64| Window {
        completed: index,
        ok: index,
        response_time: Some(histogram(WINDOW_DIGITS, [(index + 1) * 1_000_000])),
        ..Window::default()
    };
    record.windows = (0..7).map(window).collect();
    let text = summary(&open(Rate::Stages(stages)), &record);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    // Windows 0 and 1 are in the first stage, and windows 3 to 6 are in the second stage. No window is in the
    // third stage.
    let first = row("100/s for 250ms").expect("a row");
    assert!(first.contains(" 5.0/s") && first.contains("2.0"), "{first}");
    let second = row("ramp from 100/s to 900/s over 500ms").expect("a row");
    assert!(second.contains(" 45.0/s"), "{second}");
    assert_eq!(row("ramp from 900/s"), None);
}

#[test]
fn long_lines_are_wrapped_at_spaces() {
    assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    assert_eq!(wrapped("a verylongword b", 5), ["a", "verylongword", "b"]);
    assert_eq!(wrapped("", 5), [""]);
    assert_eq!(["abc", "abcd", "äöüß"].map(|text| cut(text, 3)), ["abc", "ab…", "äö…"].map(str::to_owned));
}

use super::super::figures::cut;
use super::super::live::model_spec;
use super::*;
use hoptax_load::histogram::{Encoded, TRIAL_DIGITS, WINDOW_DIGITS, empty};
use hoptax_load::record::{
    Bytes, Cause, Connections, Counts, GeneratorCpu, Histograms, Lifetime, RECORD_SCHEMA, TargetRecord,
    TlsTally, Window,
};
use hoptax_load::spec::{Arrivals, Stage, TlsSpec, TlsVersion, Verify};

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
        schema: RECORD_SCHEMA,
        event_loop: "epoll".into(),
        workers: 1,
        started_unix_ns: 0,
        started_ns: 0,
        measured_ns: S,
        interrupted: false,
        counts: Counts {
            scheduled: 1000,
            sent: 1000,
            completed: 1000,
            ok: 1000,
            status: [(200, 1000)].into(),
            ..Counts::default()
        },
        completed_in_time: 1000,
        lifetime: Lifetime::default(),
        connections: Connections { asked: 10, established: 10, reused: 1000, ..Connections::default() },
        bytes: Bytes { sent: 1000, received: 100_000, body: 64_000 },
        histograms: Histograms {
            response_time: times(),
            service_time: times(),
            send_lag: histogram(TRIAL_DIGITS, [0; 1000]),
            first_byte: times(),
            connect: times(),
            tls_handshake: None,
            request_path: None,
            response_path: None,
        },
        targets: Vec::new(),
        tls: None,
        stamps: None,
        cpu: GeneratorCpu { used_ns: S / 10, busiest_worker_ns: S / 10 },
        rss_bytes_max: 0,
        windows: Vec::new(),
    }
}

/// The summary of `record`. Checks that no line is too long.
#[track_caller]
fn summary(spec: &LoadSpec, record: &LoadRecord) -> String {
    let load = LoadOutcome { url: "http://127.0.0.1/", spec, record };
    let text = Summary::new(&load, Paint::OFF).expect("readable").to_string();
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{} columns: {line:?} in\n{text}", line.chars().count());
    }
    text
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
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
    says(
        &text,
        &[
            "closed loop, 10 connections, 1 worker on epoll",
            "1,000.0 requests/s",
            "Response times",
            "200: 1,000",
        ],
    );
    assert!(!text.contains('!') && !text.contains("TLS") && !text.contains("Not a success"), "{text}");
    let text = summary(&open(Rate::Fixed(1000.0)), &record());
    says(&text, &["open loop at 1000/s, jitter arrivals", "send lag", "service time"]);
    assert!(!text.contains('!'), "{text}");
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
    says(
        &summary(&spec, &record),
        &[
            "TLS            TLSv1.3, TLS13_AES_256_GCM_SHA384, ALPN http/1.1",
            "1,234 handshakes, 1,000 resumed, certificates not checked",
        ],
    );
    // A table with six columns of times also fits.
    spec.shape = Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant };
    says(&summary(&spec, &record), &["   response    service   send lag first byte    connect        TLS"]);
    record.tls.as_mut().expect("set").versions.insert("TLSv1.2".into(), 7);
    says(&summary(&spec, &record), &["TLSv1.2 (7) TLSv1.3 (1,234)"]);
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
    let text = summary(&closed(), &record);
    says(
        &text,
        &[
            "Not a success  100",
            "100 × the body does not contain",
            "Timeouts       60",
            "60 × no response within --timeout",
            "30 × all local ports in use (see --source)",
            "10 × connection reset by peer",
            "60 of these are timeouts",
            "40 more failed, were not sent",
            "! 100 of 1,000 requests failed",
        ],
    );
}

#[test]
fn warnings_have_advice() {
    let mut busy = record();
    busy.cpu.busiest_worker_ns = S * 97 / 100;
    says(
        &summary(&closed(), &busy),
        &["! The busiest worker was on a CPU for 97 % of the time", "--workers 2"],
    );

    let mut short = record();
    short.connections.established = 9;
    says(&summary(&closed(), &short), &["! Only 9 of 10 connections were established"]);

    let mut opened = record();
    opened.connections.opened = 1000;
    says(
        &summary(&closed(), &opened),
        &["! 1,000 connections were opened for 1,000 requests", "--no-keepalive"],
    );
    let mut asked_for = closed();
    asked_for.requests_per_connection = Some(1);
    assert!(!summary(&asked_for, &opened).contains('!'), "the user asked for new connections");

    let mut closing = opened;
    (closing.connections.closed_after_first, closing.connections.closed_on_reuse) = (1000, 999);
    let said = "! The server closed 1,000 connections after their first response without saying";
    says(&summary(&closed(), &closing), &[said, "--retry"]);
    closing.counts.retried = 999;
    let retrying = LoadSpec { retry: Retry::IdleClose, ..closed() };
    let text = summary(&retrying, &closing);
    says(&text, &["retry idle-close", "Retried        999 sent again on a new connection", "--no-keepalive"]);
    assert!(!text.contains("--retry"), "{text}");
    let mut posting = closed();
    posting.targets[0].method = "POST".into();
    let text = summary(&posting, &closing);
    says(&text, &["without saying", "--no-keepalive"]);
    assert!(!text.contains("--retry"), "a POST is never sent again: {text}");

    let mut silent = record();
    silent.counts.completed = 0;
    silent.counts.resets = 1000;
    silent.counts.causes = [(hoptax_load::record::Cause::ClosedBeforeResponse, 1000)].into();
    says(
        &summary(&closed(), &silent),
        &["before the first byte of a response", "-H 'host: NAME'", "PROXY protocol"],
    );

    let mut misdirected = record();
    let completed = misdirected.counts.completed;
    misdirected.counts.status = [(421, completed)].into();
    says(&summary(&closed(), &misdirected), &["421 Misdirected Request", "-H 'host: NAME'"]);

    let mut missed = record();
    missed.completed_in_time = 900;
    let open = open(Rate::Fixed(1000.0));
    says(
        &summary(&open, &missed),
        &["! 1,000.0 requests/s were due, and 900.0 requests/s were completed", "Lower the rate"],
    );
    missed.histograms.service_time = histogram(TRIAL_DIGITS, [11_000_000; 900]);
    says(&summary(&open, &missed), &["All connections were busy", "-c 20"]);
    assert!(!summary(&closed(), &missed).contains('!'), "a closed loop has no rate to miss");

    let mut late = record();
    late.histograms.send_lag = histogram(TRIAL_DIGITS, [2_000_000; 1000]);
    says(
        &summary(&open, &late),
        &["! 1 % of the requests were sent more than 2.00 ms after they were due", "--cpus"],
    );
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
    says(&text, &["target  ", "\norders ", "…"]);
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
    // Windows 0 and 1 are in the first stage, and windows 3 to 6 are in the second stage. No window is in the third
    // stage.
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

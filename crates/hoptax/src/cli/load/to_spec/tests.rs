use super::*;
use clap::Parser;
use hoptax_format::llm::{Leave, Pause, TokenLimits};
use hoptax_format::messages::{Carrier, ENDLESS, Stamp, StreamKind, StreamSpec, UNKNOWN};
use hoptax_format::spec::{
    Check, Chunked, HttpVersion, Retry, Stage, TargetSpec, TlsSpec, TlsVersion, Verify,
};
use std::path::PathBuf;

#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    args: Args,
}

/// Parses a command line into a load spec. `~` in `line` becomes a space inside an argument.
fn typed(line: &str) -> anyhow::Result<LoadSpec> {
    let words = line.split_whitespace().map(|word| word.replace('~', " "));
    spec(&Typed::try_parse_from(words)?.args)
}

/// The error of a wrong command line.
#[track_caller]
fn error_of(line: &str) -> String {
    let error = typed(line).expect_err(line);
    assert!(
        error.is::<BadInput>() || error.is::<clap::Error>(),
        "{line}: must end with exit code 2: {error}"
    );
    error.to_string()
}

/// Each of these command lines with its error, for a snapshot.
fn refused(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n=> {}\n", error_of(line).trim_end())).collect()
}

/// A directory with PEM files. Their content is not valid, but only the load engine would parse it.
fn pem_files() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let certificate = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n";
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (name, content) in [
        ("cert.pem", certificate.as_bytes().to_vec()),
        ("key.pem", key.into()),
        ("both.pem", format!("{certificate}{key}").into_bytes()),
        ("locked.pem", locked.into()),
        ("cert.der", vec![0x30, 0x82, 0xff]),
    ] {
        std::fs::write(directory.path().join(name), content).expect("written");
    }
    let path = directory.path().to_owned();
    (directory, move |name: &str| path.join(name))
}

#[test]
fn options_have_defaults() {
    let spec = typed("load http://127.0.0.1:99/x").expect("a URL is enough");
    assert_eq!(spec.shape, Shape::Closed);
    assert_eq!((spec.connections, spec.workers, spec.requests), (10, 1, None));
    assert_eq!((spec.duration_ns, spec.warmup_ns), (10_000_000_000, 0));
    assert_eq!(spec.timeouts, Timeouts::all(10_000_000_000));
    assert_eq!((spec.http, spec.requests_per_connection), (HttpVersion::Http11, None));
    assert!(spec.tls.is_none() && spec.sources.is_empty() && spec.files.is_empty() && !spec.windows);
    let target = &spec.targets[0];
    assert_eq!(target.method, "GET");
    assert_eq!(target.headers, [("host".to_owned(), "127.0.0.1:99".to_owned())]);
    assert!(target.checks.is_empty() && !target.body_is_template);
}

#[test]
fn options_reach_the_spec() {
    let spec = typed(
        "load http://127.0.0.1:99/ -c 7 -d 500ms -n 4k -r 60/m --arrivals jitter(20%) -H Host:a -H b:c=d -b \
         hi --timeout 1s --warmup 2s --cpus 0 -t 2 --seed 5",
    )
    .expect("all of it is right");
    assert_eq!(spec.shape, Shape::Open { rate: Rate::Fixed(1.0), arrivals: Arrivals::Jitter(0.2) });
    assert_eq!((spec.connections, spec.workers, spec.requests, spec.seed), (7, 2, Some(4000), 5));
    assert_eq!((spec.duration_ns, spec.warmup_ns), (500_000_000, 2_000_000_000));
    assert_eq!(spec.timeouts, Timeouts::all(1_000_000_000));
    let target = &spec.targets[0];
    assert_eq!((target.method.as_str(), target.body.as_slice()), ("POST", b"hi".as_slice()));
    let headers = [("Host".to_owned(), "a".to_owned()), ("b".to_owned(), "c=d".to_owned())];
    assert_eq!(target.headers, headers);
}

#[test]
fn requests_without_duration_have_no_time_limit() {
    let spec = typed("load http://127.0.0.1:99/ -n 5").expect("right");
    assert!(spec.duration_ns > 300 * 24 * 3600 * 1_000_000_000);
}

#[test]
fn stages_set_the_duration() {
    let spec = typed("load http://127.0.0.1:99/ -r 10/s~for~1s,ramp~to~20/s~over~2s").expect("right");
    let stages = vec![
        Stage { from: 10.0, to: 10.0, for_ns: 1_000_000_000 },
        Stage { from: 10.0, to: 20.0, for_ns: 2_000_000_000 },
    ];
    assert_eq!(spec.shape, Shape::Open { rate: Rate::Stages(stages), arrivals: Arrivals::Constant });
    assert_eq!(spec.duration_ns, 3_000_000_000);
    typed("load http://127.0.0.1:99/ -r 10/s~for~1s -d 1s").expect("the duration is that of the stages");
}

#[test]
fn wrong_load_options_are_errors() {
    let told = refused(&[
        "load http://127.0.0.1/ -d 5",
        "load http://127.0.0.1/ -d 0s",
        "load http://127.0.0.1/ -c 0",
        "load http://127.0.0.1/ -n ten",
        "load http://127.0.0.1/ -t 0",
        "load http://127.0.0.1/ -r 1000",
        "load http://127.0.0.1/ -r 10/s~for~1s -d 5s",
        "load http://127.0.0.1/ -r 10/s~fro~1s",
        "load http://127.0.0.1/ --arrivals poisson",
        "load http://127.0.0.1/ -r 1/s --arrivals poison",
        "load http://127.0.0.1/ --timeout 0s",
        "load http://127.0.0.1/ --connect-timeout 0ms",
        "load http://127.0.0.1/ --first-byte-timeout 20s",
        "load http://127.0.0.1/ --cpus x",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn each_timeout_is_its_own() {
    let spec = typed("load http://127.0.0.1/ --timeout 3s --connect-timeout 5s --first-byte-timeout 1s")
        .expect("right");
    let expected =
        Timeouts { connect_ns: 5_000_000_000, first_byte_ns: 1_000_000_000, total_ns: 3_000_000_000 };
    assert_eq!(spec.timeouts, expected);
}

#[test]
fn https_urls_use_tls() {
    let tls = |line: &str| typed(line).expect(line).tls.expect("TLS");
    let plain = tls("load https://127.0.0.1:8443/");
    assert_eq!((plain.server_name.as_str(), &plain.verify), ("127.0.0.1", &Verify::System));
    assert_eq!((plain.alpn.as_slice(), plain.resumption), (["http/1.1".to_owned()].as_slice(), true));
    assert_eq!(plain.versions, [TlsVersion::Tls12, TlsVersion::Tls13]);
    assert!(plain.client_certificate.is_none());
    let (_kept, path) = pem_files();
    let (ca, cert, key) = (path("cert.pem"), path("cert.pem"), path("key.pem"));
    let line = format!(
        "load https://127.0.0.1/ --ca {} --cert {} --key {} --server-name api.example --alpn none --tls \
         1.3,1.2,1.3 --no-resumption",
        ca.display(),
        cert.display(),
        key.display()
    );
    let full = tls(&line);
    assert!(matches!(&full.verify, Verify::Authorities(pem) if pem.contains("CERTIFICATE")));
    let shown = full.client_certificate.expect("a certificate");
    assert!(shown.chain.contains("CERTIFICATE") && shown.key.contains("PRIVATE KEY"));
    assert_eq!((full.server_name.as_str(), full.alpn.len(), full.resumption), ("api.example", 0, false));
    assert_eq!(full.versions, [TlsVersion::Tls12, TlsVersion::Tls13]);
    let both = tls(&format!("load https://127.0.0.1/ -k --cert {}", path("both.pem").display()));
    assert!(both.verify == Verify::Nothing && both.client_certificate.is_some());
    assert_eq!(tls("load https://127.0.0.1/ --http 1.0").alpn, Vec::<String>::new());
    assert_eq!(tls("load https://127.0.0.1/ --http 2").alpn, ["h2"]);
    assert_eq!(tls("load https://127.0.0.1/ --http 2 --alpn h2").alpn, ["h2"]);
    assert_eq!(typed("load https://127.0.0.1/").expect("right").addresses[0].to_string(), "127.0.0.1:443");
}

#[test]
fn wrong_tls_options_are_errors() {
    let (_kept, path) = pem_files();
    let with = |flags: &str, name: &str| format!("load https://127.0.0.1/ {flags} {}", path(name).display());
    let told = refused(&[
        "load http://127.0.0.1/x -k",
        "load http://127.0.0.1/ --tls 1.3",
        "load https://127.0.0.1/ --ca /nowhere.pem",
        "load https://127.0.0.1/ --tls 1.1",
        "load https://127.0.0.1/ --alpn h2",
        "load https://127.0.0.1/ --alpn h2,http/1.1 --http 2",
        "load https://127.0.0.1/ --alpn none --http 2",
        "load https://127.0.0.1/ --server-name a:80",
        "load https://127.0.0.1/ --key /x",
        &with("-k --ca", "cert.pem"),
        &with("--ca", "key.pem"),
        &with("--ca", "cert.der"),
        &with("--cert", "cert.pem"),
        &with(&format!("--cert {} --key", path("cert.pem").display()), "cert.pem"),
        &with(&format!("--cert {} --key", path("cert.pem").display()), "locked.pem"),
    ]);
    insta::assert_snapshot!(told.replace(&path("").display().to_string(), "DIRECTORY/"));
}

#[test]
fn connections_use_the_given_addresses() {
    let addresses = |line: &str| -> Vec<String> {
        typed(line).expect(line).addresses.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        addresses("load http://nowhere.invalid/ --connect-to 127.0.0.1:81 --connect-to [::1]:82"),
        ["127.0.0.1:81", "[::1]:82"]
    );
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("app.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let to = format!("unix:{}", socket.display());
    assert_eq!(
        addresses(&format!("load http://nowhere.invalid/ --unix {}", socket.display())),
        std::slice::from_ref(&to)
    );
    assert_eq!(addresses(&format!("load http://nowhere.invalid/ --connect-to {to}")), [to]);
    let spec = typed("load http://127.0.0.1/ --source 127.0.0.2,127.0.0.3 --http 1.0 --no-keepalive")
        .expect("right");
    assert_eq!(spec.sources.len(), 2);
    assert_eq!((spec.http, spec.requests_per_connection), (HttpVersion::Http10, Some(1)));
    let multiplexed = "load http://127.0.0.1/ --http 2 --streams 8 --requests-per-connection 9";
    let spec = typed(multiplexed).expect("right");
    assert_eq!((spec.http, spec.streams, spec.requests_per_connection), (HttpVersion::Http2, 8, Some(9)));
    let spec = typed("load http://127.0.0.1/ --requests-per-connection 1k").expect("right");
    assert_eq!((spec.requests_per_connection, spec.retry), (Some(1000), Retry::Off));
    let spec = typed("load http://127.0.0.1/ -X PUT -b x --retry idle-close").expect("right");
    assert_eq!(spec.retry, Retry::IdleClose);
}

#[test]
fn wrong_connection_options_are_errors() {
    let told = refused(&[
        "load http://127.0.0.1/ --unix /nowhere.sock",
        "load http://127.0.0.1/ --unix /dev/null",
        "load http://127.0.0.1/ --unix /x --connect-to 127.0.0.1:1",
        "load http://127.0.0.1/ --unix /x --source 127.0.0.1",
        "load http://127.0.0.1/ --connect-to 127.0.0.1",
        "load http://127.0.0.1/ --connect-to a:80:127.0.0.1:81",
        "load http://127.0.0.1/ --connect-to http://127.0.0.1:1",
        "load http://127.0.0.1/ --connect-to 127.0.0.1:x",
        "load http://127.0.0.1/ --source ::1",
        "load http://127.0.0.1/ --source localhost",
        "load http://127.0.0.1/ --source 127.0.0.1:80",
        "load http://127.0.0.1/ --http 3",
        "load http://127.0.0.1/ --streams 8",
        "load http://127.0.0.1/ --http 2 --streams 0",
        "load http://127.0.0.1/ --http 2 --streams 1001",
        "load http://127.0.0.1/ --http 2 --streams 1k -c 1001",
        "load http://127.0.0.1/ --http 2 --streams 8 --requests-per-connection 7",
        "load http://127.0.0.1/ --http 2 --streams 2 --no-keepalive",
        "load http://127.0.0.1/ --http 2 -b x --chunked",
        "load http://127.0.0.1/ --http 2 --proxy http://127.0.0.1:1",
        "load http://127.0.0.1/ --requests-per-connection 0",
        "load http://127.0.0.1/ --retry on",
        "load http://127.0.0.1/ -b x --retry idle-close",
        "load http://127.0.0.1/ --no-keepalive --requests-per-connection 2",
        "load http://127.0.0.1/ --no-keepalive --no-keepalive",
    ]);
    insta::assert_snapshot!(told);
    let long = format!("load http://127.0.0.1/ --unix /{}", "x".repeat(200));
    assert!(error_of(&long).contains(" 107 "), "{}", error_of(&long));
}

#[test]
fn a_call_of_grpc_is_a_framed_message_over_http2() {
    let line = "load http://127.0.0.1:99 --grpc echo.Echo/Say -b {{hi --deadline 150ms -H a:{{seq}}";
    let spec = typed(line).expect("right");
    let target = &spec.targets[0];
    assert_eq!((spec.http, target.grpc, target.body_is_template), (HttpVersion::Http2, true, false));
    assert_eq!((target.name.as_str(), target.path.as_str()), ("echo.Echo/Say", "/echo.Echo/Say"));
    assert_eq!((target.method.as_str(), &target.body[..]), ("POST", &b"\0\0\0\0\x04{{hi"[..]));
    let expected = [
        ("host", "127.0.0.1:99"),
        ("a", "{{seq}}"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "150m"),
    ];
    let headers: Vec<_> = target.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(headers, expected);
    let spec = typed("load https://127.0.0.1 --grpc a/B --body-size 9B --expect-grpc ok,aborted");
    let spec = spec.expect("right");
    assert_eq!((spec.targets[0].body.len(), spec.tls.expect("https").alpn), (14, vec!["h2".to_owned()]));
    assert!(matches!(&spec.targets[0].checks[..], [Check::Grpc(statuses)] if statuses.len() == 2));
    assert_eq!(typed("load http://127.0.0.1 --grpc a/B").expect("right").targets[0].body, [0; 5]);
    let told = refused(&[
        "load http://127.0.0.1 --grpc Say",
        "load http://127.0.0.1 --grpc a/B --http 1.1",
        "load http://127.0.0.1/x --grpc a/B",
        "load http://127.0.0.1 --grpc a/B -X PUT",
        "load http://127.0.0.1 --grpc a/B --chunked",
        "load http://127.0.0.1 --grpc a/B --deadline 0s",
        "load http://127.0.0.1 --deadline 1s",
        "load http://127.0.0.1 --expect-grpc ok",
        "load http://127.0.0.1 --grpc a/B --expect-grpc fine",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn calls_of_grpc_web_can_use_http1() {
    for (options, version) in [("", HttpVersion::Http2), (" --http 1.1", HttpVersion::Http11)] {
        let line = format!("load http://127.0.0.1:99 --grpc echo.Echo/Say --grpc-web -b hi{options}");
        let spec = typed(&line).expect("right");
        let target = &spec.targets[0];
        assert_eq!((spec.http, target.grpc, target.grpc_web), (version, true, true));
        let headers: Vec<_> = target.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let web = [("content-type", "application/grpc-web+proto"), ("x-grpc-web", "1")];
        assert_eq!(headers, [("host", "127.0.0.1:99"), web[0], web[1]]);
        assert_eq!(target.body, b"\0\0\0\0\x02hi");
    }
    let stream = typed("load http://127.0.0.1 --grpc a/B --grpc-web --grpc-kind server-stream --http 1.1");
    assert!(stream.expect("right").targets[0].stream.is_some());
    let told = refused(&[
        "load http://127.0.0.1 --grpc-web",
        "load http://127.0.0.1 --grpc a/B --grpc-web --http 1.0",
        "load http://127.0.0.1 --grpc a/B --grpc-web --grpc-kind client-stream",
        "load http://127.0.0.1 --grpc a/B --grpc-web --grpc-kind both-ways",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn calls_have_streams() {
    let target = |options: &str| {
        let line = format!("load http://127.0.0.1 --grpc echo.Echo/Say {options}");
        typed(&line).expect(&line).targets.remove(0)
    };
    let stream = |options: &str| target(options).stream.map(|it| (it.kind, it.messages, it.every_ns));
    assert_eq!((stream(""), stream("--grpc-kind unary")), (None, None));
    let usual = (StreamKind::ServerStream, 10, 0);
    assert_eq!(stream("--grpc-kind server-stream"), Some(usual));
    let spaced = "--grpc-kind both-ways --messages 1k --every 5ms --body-size 100B";
    assert_eq!(stream(spaced), Some((StreamKind::BothWays, 1000, 5_000_000)));
    let lengths = [spaced, "--grpc-kind client-stream", "--grpc-kind client-stream -b text"]
        .map(|options| target(options).body.len());
    assert_eq!(lengths, [100, Stamp::LENGTH, Stamp::LENGTH + 4], "without a prefix");
    let longer_than_the_timeout = "--grpc-kind both-ways --every 2s --timeout 3s -d 1m";
    assert_eq!(stream(longer_than_the_timeout), Some((StreamKind::BothWays, 10, 2_000_000_000)));
    let told = refused(&[
        "load http://127.0.0.1 --grpc a/B --grpc-kind bidi",
        "load http://127.0.0.1 --grpc-kind unary",
        "load http://127.0.0.1 --grpc a/B --messages 5",
        "load http://127.0.0.1 --grpc a/B --grpc-kind unary --every 5ms",
        "load http://127.0.0.1 --grpc a/B --grpc-kind both-ways --messages 2M",
        "load http://127.0.0.1 --grpc a/B --grpc-kind both-ways --body-size 9B",
        "load http://127.0.0.1 --grpc a/B --grpc-kind both-ways --grpc-compression gzip",
        "load http://127.0.0.1 --grpc a/B --grpc-kind both-ways --every 2s --timeout 2s -d 1m",
        "load http://127.0.0.1 --grpc a/B --grpc-kind both-ways --messages 3 --every 1s -d 2s",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn events_are_read_one_by_one() {
    let target = |options: &str| {
        let line = format!("load http://127.0.0.1/x --events {options}");
        typed(&line).expect(&line).targets.remove(0)
    };
    let any = target("");
    assert_eq!((any.name.as_str(), any.method.as_str(), any.body.len()), ("GET /x", "GET", 0));
    assert!(any.headers.contains(&("accept".to_owned(), "text/event-stream".to_owned())), "{any:?}");
    let stream = |options: &str| target(options).stream.expect("events");
    let expected = StreamSpec::events(UNKNOWN, 0);
    assert_eq!(stream(""), expected);
    let known = StreamSpec { messages: 20, every_ns: 100_000_000, ..expected };
    assert_eq!(stream("--messages 20 --every 100ms"), known);
    assert_eq!(stream("--messages endless").messages, ENDLESS);
    let posted = target("-b hi -H accept:~*/*");
    assert_eq!((posted.method.as_str(), posted.body.as_slice()), ("POST", &b"hi"[..]));
    assert_eq!(posted.headers.iter().filter(|(name, _)| name == "accept").count(), 1);
    let told = refused(&[
        "load http://127.0.0.1 --messages 5",
        "load http://127.0.0.1 --every 5ms",
        "load http://127.0.0.1 --events -X HEAD",
        "load http://127.0.0.1 --events --grpc a/B",
        "load http://127.0.0.1 --events --messages endless -r 1/s",
        "load http://127.0.0.1 --events --messages endless -n 5",
        "load http://127.0.0.1 --grpc a/B --grpc-kind both-ways --messages endless",
        "load http://127.0.0.1 --events --messages 3 --every 1s -d 2s",
        "load http://127.0.0.1 --websocket-kind push",
        "load http://127.0.0.1 --websocket-compression",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn requests_to_models_have_json_and_tokens() {
    let target = |options: &str| {
        let line = format!("load http://127.0.0.1:9 --llm {options}");
        typed(&line).expect(&line).targets.remove(0)
    };
    let json = |target: &TargetSpec| {
        serde_json::from_slice::<serde_json::Value>(&target.body).expect("the body is JSON")
    };
    let usual = target("openai");
    let names = (usual.name.as_str(), usual.method.as_str(), usual.path.as_str());
    assert_eq!(names, ("openai gpt-4o-mini, 1KiB", "POST", "/v1/chat/completions"));
    let stream = usual.stream.expect("a stream");
    assert_eq!((stream.carrier, stream.messages), (Carrier::Events, UNKNOWN));
    assert_eq!(json(&usual)["stream_options"]["include_usage"], true);
    let options = "anthropic --llm-model m --llm-max-tokens 7 --llm-tools 2 --llm-no-stream --llm-key k";
    let own = target(&format!("{options} --llm-tool-call -b hi~{{{{seq}}}} -H accept:a/b"));
    let body = json(&own);
    assert!(body["model"] == "m" && body["max_tokens"] == 7 && body["tools"][1].is_object(), "{body}");
    assert_eq!(body["messages"][0]["content"], "hi {{seq}}");
    assert_eq!(body["tool_choice"]["type"], "any");
    assert!(own.stream.is_none() && own.body_is_template && own.path == "/v1/messages");
    for (name, value) in [("x-api-key", "k"), ("accept", "a/b")] {
        assert!(own.headers.contains(&(name.to_owned(), value.to_owned())), "{:?}", own.headers);
    }
    let leaving = target("responses --llm-unique --llm-leave 5~tokens");
    let leave = leaving.stream.and_then(|stream| stream.tokens).and_then(|tokens| tokens.leave);
    assert_eq!((leave, leaving.body_is_template), (Some(Leave::AfterTokens(5)), true));
    let pausing = target("openai --llm-pause 5~tokens,2s").stream.and_then(|stream| stream.tokens);
    let pause = Some(Pause { after_tokens: 5, time_ns: 2_000_000_000 });
    assert_eq!(pausing.and_then(|tokens| tokens.pause), pause);
    let limited = target("openai --goodput token_time=50ms,first_content=0.3s");
    let expected = TokenLimits {
        first_content_ns: Some(300_000_000),
        token_time_ns: Some(50_000_000),
        response_time_ns: None,
    };
    let goodput = limited.stream.and_then(|stream| stream.tokens).and_then(|tokens| tokens.goodput);
    assert_eq!(goodput, Some(expected));
    let told = refused(&[
        "load http://127.0.0.1 --goodput token_time=50ms",
        "load http://127.0.0.1 --llm openai --llm-leave 1s --goodput token_time=50ms",
        "load http://127.0.0.1 --llm openai --goodput p99=1s",
        "load http://127.0.0.1 --llm openai -X PUT",
        "load http://127.0.0.1 --llm gemini",
        "load http://127.0.0.1 --llm openai --events",
        "load http://127.0.0.1 --llm openai --every 1s",
        "load http://127.0.0.1 --llm openai --llm-no-stream --llm-leave 1s",
        "load http://127.0.0.1 --llm openai --llm-prompt 9MiB",
        "load http://127.0.0.1 --llm openai --llm-leave 0s",
        "load http://127.0.0.1 --llm openai --llm-pause 2s",
        "load http://127.0.0.1 --llm openai --llm-pause 5~tokens,3s --timeout 3s",
        "load http://127.0.0.1 --llm openai --llm-leave 1s --llm-pause 5~tokens,1s",
        "load http://127.0.0.1 --llm-pause 5~tokens,1s",
        "load http://127.0.0.1 --llm openai --llm-tool-call",
        "load http://127.0.0.1 --llm-model m",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn websockets_have_messages() {
    let spec = |options: &str| typed(&format!("load ws://127.0.0.1/chat {options}")).expect(options);
    let target = |options: &str| spec(options).targets.remove(0);
    let echo = target("");
    assert_eq!((echo.name.as_str(), echo.method.as_str()), ("WebSocket /chat", "GET"));
    assert_eq!((echo.path.as_str(), echo.body.len()), ("/chat", 64));
    let names: Vec<&str> = echo.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "connection", "upgrade", "sec-websocket-version", "sec-websocket-key"]);
    let stream = |options: &str| target(options).stream.expect("messages");
    let expected =
        StreamSpec { carrier: Carrier::WebSocket, ..StreamSpec::grpc(StreamKind::BothWays, 10, 0) };
    assert_eq!(stream(""), expected);
    let push = StreamSpec { kind: StreamKind::ServerStream, messages: UNKNOWN, ..expected };
    assert_eq!(stream("--websocket-kind push"), push);
    assert_eq!(stream("--websocket-kind fan-out"), StreamSpec { fan_out: true, ..push });
    let lengths = ["-b hi", "--body-size 100B", "--websocket-kind push"].map(|it| target(it).body.len());
    assert_eq!(lengths, [Stamp::LENGTH + 2, 100, Stamp::LENGTH]);
    let compressed = target("--websocket-compression");
    assert!(compressed.headers.iter().any(|(name, _)| name == "sec-websocket-extensions"));
    let many = spec("-c 15000 --messages endless --every 1s -d 30s");
    let stream = many.targets[0].stream.expect("messages");
    assert_eq!((many.connections, stream.messages, stream.every_ns), (15_000, ENDLESS, 1_000_000_000));
    let tls = typed("load wss://127.0.0.1/chat -k").expect("right");
    assert!(tls.tls.is_some());
    let told = refused(&[
        "load ws://127.0.0.1 --http 1.0",
        "load ws://127.0.0.1 -X PUT",
        "load ws://127.0.0.1 --grpc a/B",
        "load ws://127.0.0.1 --events",
        "load ws://127.0.0.1 --expect-status 200",
        "load ws://127.0.0.1 --websocket-kind stream",
        "load ws://127.0.0.1 --websocket-kind push -b hi",
        "load ws://127.0.0.1 -b {{seq}}",
        "load ws://127.0.0.1 --body-size 9B",
        "load ws://127.0.0.1 --messages endless -r 5/s",
        "load ws://127.0.0.1 -k",
        "load ws://127.0.0.1/a --messages 3 --every 10s -d 1m",
    ]);
    insta::assert_snapshot!(told);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("targets.yaml");
    let text = "[{ path: /chat, websocket: { kind: push } }, { path: /x, events: true }]";
    std::fs::write(&file, text).expect("written");
    let line = |url: &str| format!("load {url} --targets {}", file.display());
    let read = typed(&line("http://127.0.0.1")).expect("right").targets;
    let carriers: Vec<_> = read.iter().map(|it| it.stream.map(|stream| stream.carrier)).collect();
    assert_eq!(carriers, [Some(Carrier::WebSocket), Some(Carrier::Events)]);
    assert!(error_of(&line("ws://127.0.0.1")).contains("https://"));
}

#[test]
fn messages_can_be_compressed() {
    let line = "load http://127.0.0.1 --grpc a/B --grpc-compression gzip --body-size 10KiB";
    let target = typed(line).expect("right").targets.remove(0);
    assert!(target.body.starts_with(&[1]) && target.body.len() < 1024, "{} bytes", target.body.len());
    let encoding = ("grpc-encoding".to_owned(), "gzip".to_owned());
    assert!(target.headers.contains(&encoding), "{:?}", target.headers);
    let off = typed("load http://127.0.0.1 --grpc a/B --grpc-compression off").expect("right");
    assert_eq!(off.targets[0].body, [0; 5]);
    let told = refused(&["load http://127.0.0.1 --grpc a/B --grpc-compression br"]);
    insta::assert_snapshot!(told);
}

#[test]
fn messages_of_a_proto_file_are_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("echo.proto");
    let text = "syntax = \"proto3\";\npackage echo;\nservice Echo {\n  rpc Say (Text) returns (Text);\n  rpc \
                Watch (Text) returns (stream Text);\n}\nmessage Text { string text = 1; }\n";
    std::fs::write(&file, text).expect("written");
    let line = |rest: &str| format!("load http://127.0.0.1 --proto {} --grpc {rest}", file.display());
    let target = |rest: &str| typed(&line(rest)).expect(rest).targets.remove(0);
    assert_eq!(target(r#"echo.Echo/Say -b {"text":"hi"}"#).body, b"\0\0\0\0\x04\x0a\x02hi");
    let watch = target(r#"echo.Echo/Watch -b {"text":"hi"}"#);
    assert_eq!(watch.stream.map(|it| it.kind), Some(StreamKind::ServerStream));
    assert_eq!(watch.body[Stamp::LENGTH..], *b"\x0a\x02hi");
    assert_eq!(target("echo.Echo/Say").body, [0; 5]);
    assert!(target(r#"echo.Echo/Say --no-templates -b {"text":"{{seq}}"}"#).body.ends_with(b"{{seq}}"));
    let file_name = file.display().to_string();
    let told = [
        "echo.Echo/Sya",
        "echo.Ehco/Say",
        r#"echo.Echo/Say -b {"txet":"hi"}"#,
        "echo.Echo/Say -b hi",
        r#"echo.Echo/Say -b {"text":"{{seq}}"}"#,
        "echo.Echo/Watch --grpc-kind unary",
        "echo.Echo/Say --messages 3",
    ]
    .map(|rest| format!("{rest}\n=> {}\n", error_of(&line(rest)).replace(&file_name, "echo.proto")))
    .concat();
    insta::assert_snapshot!(told);
    let told = refused(&[
        "load http://127.0.0.1 --grpc a/B --proto /nowhere.proto",
        "load http://127.0.0.1 --proto /nowhere.proto",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn files_of_templates_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let tokens = directory.path().join("tokens.txt");
    std::fs::write(&tokens, "one\ntwo\n").expect("written");
    let tokens = tokens.display();
    let line = format!(
        "load http://127.0.0.1/x?n={{{{seq}}}}&u={{{{base64~{{{{line~{tokens}}}}}}}}} -b {{{{uuid}}}} -H \
        a:{{{{random~1~9}}}}"
    );
    let spec = typed(&line).expect("right");
    let target = &spec.targets[0];
    assert_eq!(target.path, format!("/x?n={{{{seq}}}}&u={{{{base64 {{{{line {tokens}}}}}}}}}"));
    assert!(target.body_is_template && target.headers.contains(&("a".into(), "{{random 1 9}}".into())));
    assert_eq!(spec.files.into_iter().collect::<Vec<_>>(), [(tokens.to_string(), "one\ntwo\n".to_owned())]);
    let spec = typed("load http://127.0.0.1/{{x -b {{y -H a:{{z --no-templates").expect("right");
    let target = &spec.targets[0];
    assert_eq!((target.path.as_str(), target.body.as_slice()), ("/\\{{x", b"{{y".as_slice()));
    assert!(!target.body_is_template && target.headers.contains(&("a".into(), "\\{{z".into())));
}

#[test]
fn bodies_come_from_text_file_and_size() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("body");
    std::fs::write(&file, b"\xff{{ is no template").expect("written");
    let target = |line: &str| typed(line).expect(line).targets.remove(0);
    let read = target(&format!("load http://127.0.0.1/ -b @{}", file.display()));
    assert_eq!((read.method.as_str(), read.body.len(), read.body_is_template), ("POST", 18, false));
    let sized = target("load http://127.0.0.1/ --body-size 64KiB -X PUT");
    assert_eq!((sized.method.as_str(), sized.body.len()), ("PUT", 65536));
}

#[test]
fn bodies_are_sent_in_chunks() {
    let chunked = |options: &str| {
        let line = format!("load http://127.0.0.1/ {options}");
        typed(&line).expect(&line).targets.remove(0).chunked
    };
    let some = |chunk_bytes, pause_ns| Some(Chunked { chunk_bytes, pause_ns });
    assert_eq!(chunked("-b x"), None);
    assert_eq!(chunked("-b x --chunked"), some(16_384, 0));
    assert_eq!(
        chunked("--body-size 1MiB --chunked --chunk-size 4KiB --chunk-pause 10ms"),
        some(4096, 10_000_000)
    );
    let empty = typed("load http://127.0.0.1/ --body-size 0B --chunked").expect("right").targets.remove(0);
    assert_eq!((empty.chunked, empty.headers.len()), (some(16_384, 0), 1), "no content-length");
    let told = refused(&[
        "load http://127.0.0.1/ --chunked",
        "load http://127.0.0.1/ -b x --chunk-size 1KiB",
        "load http://127.0.0.1/ -b x --chunk-pause 1s",
        "load http://127.0.0.1/ -b x --chunked --chunk-size 0B",
        "load http://127.0.0.1/ -b x --chunked --http 1.0",
        "load http://127.0.0.1/ --body-size 2MiB --chunked --chunk-size 1B",
        "load http://127.0.0.1/ -b xx --chunked --chunk-size 1B --chunk-pause 10s",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn checks_reach_the_spec() {
    let spec = typed(
        "load http://127.0.0.1/ --expect-status 200,3xx --expect-body hello --expect-body-equals hello~you \
         --expect-length 1B-9B --expect-header a --expect-header b:c",
    )
    .expect("right");
    let header = |name: &str, value: Option<&str>| Check::Header {
        name: name.to_owned(),
        value: value.map(str::to_owned),
    };
    assert_eq!(
        spec.targets[0].checks,
        [
            Check::Status(vec![(200, 200), (300, 399)]),
            header("a", None),
            header("b", Some("c")),
            Check::BodyLength { least: 1, most: 9 },
            Check::BodyEquals("hello you".to_owned()),
            Check::BodyContains("hello".to_owned()),
        ]
    );
}

#[test]
fn wrong_request_options_are_errors() {
    let told = refused(&[
        "load http://127.0.0.1/ -H nonsense",
        "load http://127.0.0.1/ -H :x",
        "load 127.0.0.1",
        "load http://127.0.0.1/ -b @/nowhere/at/all",
        "load http://127.0.0.1/ -b @",
        "load http://127.0.0.1/ -b x --body-size 1B",
        "load http://127.0.0.1/ --body-size 64",
        "load http://127.0.0.1/ --body-size 64kib",
        "load http://127.0.0.1/ -b {{line~/nowhere.txt}}",
        "load http://127.0.0.1/ -b {{line~/dev/null}}",
        "load http://127.0.0.1/{{sek}} -c 1",
        "load http://127.0.0.1/ -H a:{{random~5}}",
        "load http://127.0.0.1/ -b {{seq",
        "load http://127.0.0.1/{{seq",
        "load http://127.0.0.1/ --expect-status ok",
        "load http://127.0.0.1/ --expect-body=",
        "load http://127.0.0.1/ --expect-body-equals @/nowhere",
        "load http://127.0.0.1/ --expect-length 5",
        "load http://127.0.0.1/ --expect-header :x",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn a_spec_with_an_event_loop_is_still_accepted() {
    let spec = typed("load http://127.0.0.1:1/").expect("a spec");
    let mut json = serde_json::to_value(&spec).expect("a spec is JSON");
    assert_eq!(json.get("event_loop"), None);
    let read = |json: &serde_json::Value| parsed(&json.to_string());
    assert_eq!(read(&json).expect("reads"), spec);
    json["event_loop"] = "epoll".into();
    assert_eq!(read(&json).expect("reads"), spec);
    json["event_lop"] = "epoll".into();
    let refused = read(&json).expect_err("an unknown field").to_string();
    assert!(refused.contains("`event_lop`"), "{refused}");
    json.as_object_mut().expect("an object").remove("event_loop");
    let refused = read(&json).expect_err("an unknown field").to_string();
    assert!(refused.contains("`event_lop`") && refused.contains("at line 1 column"), "{refused}");
}

#[test]
fn tls_options_apply_to_an_https_proxy() {
    let own = "--proxy https://user:pw@proxy.test:3128";
    let spec = |url: &str, more: &str| {
        // A literal address needs no name server.
        let line = format!("load {url} {own} {more}").replace("proxy.test", "127.0.0.2");
        typed(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    let name = |tls: &Option<TlsSpec>| tls.as_ref().map(|tls| tls.server_name.clone());
    // Without a tunnel, the proxy is the server.
    let whole = spec("http://a.test/", "-k");
    assert_eq!((name(&whole.tls).as_deref(), &whole.tunnel), (Some("127.0.0.2"), &None));
    assert_eq!(whole.targets[0].path, "http://a.test/");
    let tunnel = spec("http://a.test/", "--proxy-tunnel --server-name other.test");
    let to_proxy = tunnel.tunnel.expect("a tunnel").tls;
    assert_eq!((tunnel.tls, name(&to_proxy).as_deref()), (None, Some("other.test")));
    // The proxy is asked for the tunnel in HTTP/1.1.
    let carrying_http2 = spec("http://a.test/", "--proxy-tunnel --http 2").tunnel.expect("a tunnel");
    assert_eq!(carrying_http2.tls.expect("TLS to the proxy").alpn, ["http/1.1"]);
    // If both use TLS, the name and ALPN are for the server.
    let both = spec("https://a.test/", "-k --server-name other.test --alpn none --tls 1.3");
    let to_proxy = both.tunnel.expect("a tunnel").tls.expect("TLS to the proxy");
    let server = both.tls.expect("TLS to the server");
    assert_eq!((server.server_name.as_str(), server.alpn.len()), ("other.test", 0));
    assert_eq!((to_proxy.server_name.as_str(), to_proxy.alpn), ("127.0.0.2", vec!["http/1.1".to_owned()]));
    assert_eq!((to_proxy.verify, to_proxy.versions), (Verify::Nothing, vec![TlsVersion::Tls13]));
    let told = refused(&["load http://a.test/ -k --proxy http://127.0.0.2:1"]);
    insta::assert_snapshot!(told);
}

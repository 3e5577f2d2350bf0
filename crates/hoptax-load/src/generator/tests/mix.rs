//! Tests mixes of targets, templates and checks, against a server that stores the requests that it receives.

use super::*;
use hoptax_format::spec::Check;
use hoptax_wire::http1::{RequestDecoder, RequestStep};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Checks that the counts of all targets, and the counts of all checks, have the right sums.
pub(super) fn adds_up(record: &LoadRecord) {
    let counts = &record.counts;
    assert_eq!(counts.ok + counts.failed_checks.values().sum::<u64>(), counts.completed, "{counts:?}");
    let targets = &record.targets;
    if targets.is_empty() {
        return;
    }
    let sum = |of: fn(&hoptax_format::record::TargetRecord) -> u64| targets.iter().map(of).sum::<u64>();
    // A request that was never assigned to a connection has no target, so no target counts it.
    let assigned = sum(|target| target.scheduled);
    assert!(
        (counts.scheduled - counts.unsent..=counts.scheduled).contains(&assigned),
        "{assigned}, {counts:?}"
    );
    assert_eq!(sum(|target| target.completed), counts.completed);
    assert_eq!(sum(|target| target.ok), counts.ok);
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
    assert_eq!(sum(|target| target.failed), failed);
    let mut sums = [hoptax_format::histogram::TRIAL_DIGITS; 2].map(hoptax_format::histogram::empty);
    for target in targets {
        sums[0].add(target.response_time.decode().expect("our own")).expect("the same bounds");
        sums[1].add(target.service_time.decode().expect("our own")).expect("the same bounds");
    }
    assert_eq!(sums[0], record.histograms.response_time.decode().expect("our own"));
    assert_eq!(sums[1], record.histograms.service_time.decode().expect("our own"));
}

/// Head and body of a received request.
pub(super) type Asked = (String, Vec<u8>);

/// A server that stores every request and sends the response that `answer` returns.
pub(super) fn keeping(answer: fn(&Asked) -> Vec<u8>) -> (Server, Arc<Mutex<Vec<Asked>>>) {
    let kept: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let server = Server::new(move |mut connection, _| {
        let (mut decoder, mut input, mut asked) = (RequestDecoder::new(), Vec::new(), Asked::default());
        loop {
            let consumed = match decoder.advance(&input).expect("a well-formed request") {
                RequestStep::NeedMore => {
                    let mut buffer = [0; 4096];
                    match connection.read(&mut buffer) {
                        Ok(0) | Err(_) => return,
                        Ok(count) => input.extend_from_slice(&buffer[..count]),
                    }
                    continue;
                }
                RequestStep::Head { consumed, .. } => {
                    asked = (String::from_utf8_lossy(&input[..consumed]).into_owned(), Vec::new());
                    consumed
                }
                RequestStep::Body { consumed, data } => {
                    asked.1.extend_from_slice(&input[data]);
                    consumed
                }
                RequestStep::End { consumed, .. } => {
                    let response = answer(&asked);
                    keep.lock().expect("not poisoned").push(asked.clone());
                    if connection.write_all(&response).is_err() {
                        return;
                    }
                    consumed
                }
            };
            input.drain(..consumed);
        }
    });
    (server, kept)
}

fn target(name: &str, weight: u32, path: &str, checks: &[Check]) -> TargetSpec {
    let headers = vec![("host".to_owned(), "test".to_owned())];
    let only = TargetSpec::only("GET", path, headers, Vec::new());
    TargetSpec { name: name.into(), weight, checks: checks.to_vec(), ..only }
}

/// Answers a request for `/STATUS/BODY` with this status and this body. The body has chunks of three bytes.
fn as_asked(asked: &Asked) -> Vec<u8> {
    let mut parts = asked.0.split([' ', '?']).nth(1).expect("a path").splitn(3, '/').skip(1);
    let (status, body) = (parts.next().expect("a status"), parts.next().unwrap_or_default());
    let head = format!("HTTP/1.1 {status} Status\r\nX-Kind: {status}\r\n");
    if status == "304" || asked.0.starts_with("HEAD") {
        return format!("{head}content-length: 9\r\n\r\n").into_bytes();
    }
    let mut response = format!("{head}transfer-encoding: chunked\r\n\r\n");
    for chunk in body.as_bytes().chunks(3) {
        response += &format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk));
    }
    (response + "0\r\n\r\n").into_bytes()
}

#[test]
fn a_mix_is_sent_by_weight_and_counted_by_target() {
    let (server, _) = keeping(as_asked);
    for (shape, workers) in [(Shape::Closed, 1), (Shape::Closed, 3), (open(2000.0, Arrivals::Poisson), 2)] {
        let targets =
            vec![target("a", 1, "/200/a", &[]), target("b", 3, "/404/b", &[]), target("c", 6, "/200/c", &[])];
        let warmup_ns = 20 * MILLISECOND;
        let spec = LoadSpec { shape, workers, targets, warmup_ns, ..spec(&[server.address]) };
        let record = load(&until_done(1000, spec));
        let names: Vec<&str> = record.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(record.counts.completed, 1000);
        for (target, share) in record.targets.iter().zip([0.1, 0.3, 0.6]) {
            // Allow six standard deviations of a binomial count.
            let spread = 6.0 * (1000.0f64 * share * (1.0 - share)).sqrt();
            assert!((target.completed as f64 - 1000.0 * share).abs() < spread, "{target:?}");
            assert_eq!(target.ok, if target.name == "b" { 0 } else { target.completed });
        }
        let b = record.targets[1].completed;
        assert_eq!(record.counts.failed_checks, [("status 404 is not 200 to 399".to_owned(), b)].into());
        assert_eq!(record.counts.status, [(200, 1000 - b), (404, b)].into());
    }
}

#[test]
fn the_same_seed_sends_the_same_requests() {
    let asked = |seed| {
        let (server, kept) = keeping(|_| OK.to_vec());
        let path = "/{{random 1 1000000}}/{{uuid}}";
        let targets = vec![target("a", 1, path, &[]), target("b", 1, "/b", &[])];
        let spec = LoadSpec { targets, connections: 1, seed, ..spec(&[server.address]) };
        assert_eq!(load(&until_done(100, spec)).counts.ok, 100);
        kept.lock().expect("not poisoned").clone()
    };
    assert_eq!(asked(1), asked(1));
    assert_ne!(asked(1), asked(2));
}

#[test]
fn each_number_is_sent_once_and_all_bytes_are_counted() {
    let (server, kept) = keeping(|_| OK.to_vec());
    let mut made = target("made", 1, "/{{seq}}?t={{line tokens}}", &[]);
    made.method = "POST".into();
    made.headers.push(("authorization".into(), "Basic {{base64 user-{{seq}}:x}}".into()));
    made.body = b"{\"token\":\"{{line tokens}}\",\"pad\":\"{{random 1 100000}}\"}".to_vec();
    made.body_is_template = true;
    let tokens: String = (0..50).map(|index| format!("token-{index}\n")).collect();
    let targets = vec![made, target("plain", 1, "/plain", &[])];
    let files = [("tokens".to_owned(), tokens)].into();
    let spec = LoadSpec { targets, files, workers: 3, ..spec(&[server.address]) };
    let record = load(&until_done(600, spec));
    assert_eq!(record.counts.ok, 600);
    let kept = kept.lock().expect("not poisoned");
    let bytes: usize = kept.iter().map(|(head, body)| head.len() + body.len()).sum();
    assert_eq!(record.bytes.sent, bytes as u64);
    let made: Vec<&Asked> = kept.iter().filter(|(head, _)| head.starts_with("POST")).collect();
    assert_eq!(made.len() as u64, record.targets[0].completed);
    let (mut numbers, mut lines) = (BTreeSet::new(), BTreeMap::<&str, u32>::new());
    for (head, body) in &made {
        let path = head.split(' ').nth(1).expect("a path");
        let (number, token) = path[1..].split_once("?t=").expect("both");
        assert!(numbers.insert(number), "{number} twice");
        *lines.entry(token).or_default() += 1;
        use base64::Engine as _;
        let user = base64::engine::general_purpose::STANDARD.encode(format!("user-{number}:x"));
        assert!(head.contains(&format!("authorization: Basic {user}\r\n")), "{head}");
        let body = String::from_utf8_lossy(body);
        assert!(body.starts_with(&format!("{{\"token\":\"{token}\",\"pad\":\"")), "{body}");
    }
    assert_eq!(lines.len(), 50, "each line was used");
}

#[test]
fn numbers_continue_after_the_warm_up() {
    let (server, kept) = keeping(|_| OK.to_vec());
    let record = load(&LoadSpec {
        targets: vec![target("made", 1, "/{{seq}}", &[])],
        workers: 2,
        warmup_ns: 30 * MILLISECOND,
        ..spec(&[server.address])
    });
    let kept = kept.lock().expect("not poisoned");
    assert!(record.lifetime.sent > record.counts.sent, "the warm-up sent some");
    let paths: BTreeSet<&str> = kept.iter().filter_map(|(head, _)| head.split(' ').nth(1)).collect();
    assert_eq!(paths.len() as u64, record.lifetime.sent);
}

#[test]
fn a_failed_check_is_counted_with_its_description() {
    let (server, _) = keeping(as_asked);
    let header = |value: &str| Check::Header { name: "x-kind".into(), value: Some(value.to_owned()) };
    let length = |least, most| Check::BodyLength { least, most };
    let contains = Check::BodyContains("hello".into());
    for (path, checks, expected) in [
        ("/200/hello?{{seq}}", vec![contains, header("200"), length(5, 5)], None),
        ("/200/hello", vec![length(6, 9), header("x")], Some("body is 5 bytes long, not 6 to 9")),
        ("/200/hello", vec![header("404")], Some("no header x-kind with the value \"404\"")),
        ("/304/", vec![length(0, 0), header("304")], None),
        ("/304/", vec![length(9, 9)], Some("body is 0 bytes long, not 9")),
    ] {
        let targets = vec![target("checked", 1, path, &checks)];
        let spec = LoadSpec { targets, workers: 2, ..spec(&[server.address]) };
        let record = load(&until_done(40, spec));
        let counts = &record.counts;
        let ok = if expected.is_some() { 0 } else { 40 };
        assert_eq!((counts.completed, counts.ok), (40, ok), "{path} {checks:?}");
        assert_eq!(record.windows.iter().map(|window| window.ok).sum::<u64>(), ok);
        let failed = expected.map(|text| (text.to_owned(), 40)).into_iter().collect();
        assert_eq!(counts.failed_checks, failed, "{path} {checks:?}");
        assert!(record.targets.is_empty(), "a single target has no record of its own");
    }
}

#[test]
fn a_response_to_head_has_no_body_to_check() {
    let (server, _) = keeping(as_asked);
    let mut target = target("head", 1, "/200/hello", &[Check::BodyLength { least: 0, most: 0 }]);
    target.method = "HEAD".into();
    target.checks.push(Check::Header { name: "content-length".into(), value: Some("9".into()) });
    let spec = LoadSpec { targets: vec![target], ..spec(&[server.address]) };
    assert_eq!(load(&until_done(20, spec)).counts.ok, 20);
}

#[test]
fn failures_are_counted_by_target() {
    // The server closes the connections of requests for `/no` without an answer.
    let (server, _) = keeping(|(head, _)| if head.starts_with("GET /no") { Vec::new() } else { OK.to_vec() });
    let record = load(&LoadSpec {
        targets: vec![target("no", 1, "/no", &[]), target("yes", 3, "/yes", &[])],
        timeouts: Timeouts { total_ns: 20 * MILLISECOND, ..Timeouts::all(5 * SECOND) },
        ..spec(&[server.address])
    });
    let [no, yes] = record.targets.as_slice() else { panic!("two targets") };
    assert!(no.failed > 0 && no.completed == 0, "{no:?}");
    assert!(yes.completed > 0 && yes.ok == yes.completed, "{yes:?}");
    assert!(quantile(&no.response_time, 0.0) >= 19 * MILLISECOND, "timeouts are in its histogram");
}

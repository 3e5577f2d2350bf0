//! Attacks on the server: pages of other sites in the same browser, odd names, and clients that never finish
//! a request.

use super::lab::{Answer, TOKEN, exchange, get, history, options, request, served, served_history};
use crate::support::{PATIENCE, Scratch, wait_until};
use hoptax_history::serve::{Access, Options, Server};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

const RUN: &str = "/api/v1/runs/20261101T000000Z-nightly";
const JSON: (&str, &str) = ("Content-Type", "application/json");

fn tag(to: SocketAddr, headers: &[(&str, &str)]) -> Answer {
    request(to, "PATCH", RUN, headers, r#"{"tags":["planted"]}"#)
}

#[test]
fn host_names_that_others_control_are_refused() {
    let (_history, _server, to) = served_history();
    for host in
        ["evil.example", "evil.example:7300", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]"]
    {
        for path in ["/", "/api/v1/runs", "/metrics", "/assets/serve.js"] {
            assert_eq!(request(to, "GET", path, &[("Host", host)], "").status, 421, "{host}{path}");
        }
        let changed = tag(to, &[("Host", host), JSON, ("Origin", &format!("http://{host}"))]);
        assert_eq!(changed.status, 421, "{host}");
    }
    assert_eq!(
        exchange(to, b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .status,
        421
    );
    assert_eq!(
        exchange(to, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
            .status,
        400
    );
    assert_eq!(exchange(to, b"GET / HTTP/1.0\r\n\r\n").status, 400);
    for host in ["localhost", "localhost:1", "[::1]:9", "127.0.0.1"] {
        assert_eq!(request(to, "GET", "/", &[("Host", host)], "").status, 200, "{host}");
    }
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let (_history, _server, to) = served_history();
    let own = format!("http://{to}");
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let plain = ("Content-Type", "text/plain");
    let (evil, sandboxed) = (("Origin", "http://evil.example"), ("Origin", "null"));
    let other_port = ("Origin", "http://127.0.0.1:1");
    let cross = ("Sec-Fetch-Site", "cross-site");
    for headers in [
        &[form, evil][..],
        &[plain, evil],
        &[plain, ("Origin", own.as_str())],
        &[JSON, evil],
        &[JSON, sandboxed],
        &[JSON, other_port],
        &[JSON, cross, ("X-Hoptax", "1")],
        &[JSON, evil, ("X-Hoptax", "1")],
        &[JSON],
        &[],
    ] {
        let patched = tag(to, headers).status;
        let deleted = request(to, "DELETE", RUN, headers, "").status;
        assert!(
            [403, 415].contains(&patched) && [403, 415].contains(&deleted),
            "{headers:?}: {patched}, {deleted}"
        );
    }
    // An HTML form of any site can send a POST request to any path.
    for path in [RUN, "/", "/api/v1/runs"] {
        assert_eq!(request(to, "POST", path, &[form, evil], "tags=planted").status, 415, "{path}");
    }
    // Another site may link to a page of the server, but may not embed it.
    let embedded = |mode| request(to, "GET", "/trends", &[cross, ("Sec-Fetch-Mode", mode)], "").status;
    assert_eq!([embedded("no-cors"), embedded("cors"), embedded("navigate")], [403, 403, 200]);
    // The server never permits cross-origin requests.
    let asked = [
        evil,
        ("Access-Control-Request-Method", "PATCH"),
        ("Access-Control-Request-Headers", "content-type"),
    ];
    let preflight = request(to, "OPTIONS", RUN, &asked, "");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (405, None));
    assert_eq!(get(to, RUN).json()["tags"], serde_json::json!([]), "the replacement changed something");
    assert_eq!(tag(to, &[JSON, ("Origin", &own), ("Sec-Fetch-Site", "same-origin")]).status, 200);
    assert_eq!(tag(to, &[JSON, ("X-Hoptax", "1")]).json()["tags"][0], "planted");
}

#[test]
fn no_path_leaves_the_history() {
    let history = history();
    std::fs::create_dir(history.path().join("root")).expect("made");
    std::fs::rename(history.path().join("20261101T000000Z-nightly"), history.path().join("root/one"))
        .expect("moved");
    let server = served(&history.path().join("root"), None);
    let to = server.address();
    assert_eq!(get(to, "/api/v1/runs/one").status, 200);
    for id in [
        "..%2f20261102T000000Z-nightly",
        "..%2F..%2Fetc",
        "%2e%2e",
        "one%2f..%2fone",
        "..",
        "%00",
        "one%00",
        "%ff",
        "..%5cone",
        ".",
        "one%0a",
    ] {
        for path in [
            format!("/api/v1/runs/{id}"),
            format!("/api/v1/runs/{id}/report"),
            format!("/runs/{id}"),
            format!("/runs/{id}/report.html"),
            format!("/api/v1/compare?a={id}&b=one"),
        ] {
            let status = get(to, &path).status;
            assert!([400, 404].contains(&status), "{path}: {status}");
        }
        let deleted =
            request(to, "DELETE", &format!("/api/v1/runs/{id}"), &[JSON, ("X-Hoptax", "1")], "").status;
        assert!([400, 404, 405].contains(&deleted), "{id}: {deleted}");
    }
    for path in [
        "/runs/one/../../Cargo.toml",
        "/runs/one/run.json",
        "/assets/..%2freport%2freport.css",
        "/runs/one/report.exe",
    ] {
        assert_eq!(get(to, path).status, 404, "{path}");
    }
    assert!(history.path().join("20261102T000000Z-nightly/run.json").exists());
}

#[test]
fn every_answer_has_the_isolating_headers() {
    let (_history, _server, to) = served_history();
    for path in
        ["/", "/trends", "/api/v1/runs", "/metrics", "/nowhere", "/runs/20261101T000000Z-nightly/report.html"]
    {
        let answer = get(to, path);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert!(answer.header("referrer-policy").is_some(), "{path}");
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.contains("frame-ancestors 'none'")
                || policy.contains("frame-ancestors 'self'; ")
                || policy.ends_with("frame-ancestors 'self'"),
            "{path}: {policy}"
        );
        assert!(
            !policy.contains("script-src 'unsafe-inline'")
                && answer.header("access-control-allow-origin").is_none()
        );
    }
    let page = get(to, "/").text();
    assert!(!page.contains("<script>") && !page.contains(" onclick"), "the page contains a script");
    assert!(page.contains("&lt;b&gt;other&lt;") && !page.contains("<b>other"), "{page}");
}

#[test]
fn oversized_and_unknown_requests_are_refused_with_a_message() {
    let (_history, _server, to) = served_history();
    let own = [JSON, ("X-Hoptax", "1")];
    let huge = format!(r#"{{"note":"{}"}}"#, "a".repeat(1 << 20));
    // The client may fail to send before it reads the answer, because the server does not read the whole
    // request.
    assert!([0, 413].contains(&request(to, "PATCH", RUN, &own, &huge).status));
    // The server must also stop reading an endless body.
    let endless = format!(
        "PATCH {RUN} HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\nX-Hoptax: \
        1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n"
    );
    assert_eq!(exchange(to, endless.as_bytes()).status, 413);
    let long = format!("/{}", "a".repeat(200_000));
    assert!([0, 414, 431].contains(&get(to, &long).status));
    for (body, status) in [
        ("{", 400),
        ("[]", 422),
        (r#"{"tags":1}"#, 422),
        (r#"{"other":1}"#, 422),
        (r#"{"tags":["a\u0000"]}"#, 400),
    ] {
        let answer = request(to, "PATCH", RUN, &own, body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert!(answer.json()["error"].is_string() && answer.json()["help"].is_string());
    }
    let many: Vec<String> = (0..99).map(|number| format!("\"t{number}\"")).collect();
    assert_eq!(request(to, "PATCH", RUN, &own, &format!(r#"{{"tags":[{}]}}"#, many.join(","))).status, 400);
    for (path, status) in [
        ("/api/v1/runs?state=odd", 400),
        ("/api/v1/runs?limit=-1", 400),
        ("/api/v1/runs?unknown=1", 400),
        ("/api/v1/trend", 400),
        ("/api/v1/trend?name=a&gateway=b&load=c&metric=odd", 400),
        ("/api/v1/compare", 400),
        ("/api/v1/compare?a=20261101T000000Z-nightly", 400),
        ("/api/v1/nothing", 404),
        ("/api/v1/live", 404),
    ] {
        let answer = get(to, path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.json()["error"].is_string() && answer.json()["help"].is_string(), "{path}");
    }
    for method in ["PUT", "POST", "TRACE", "BREW"] {
        let answer = request(to, method, "/api/v1/runs", &own, "");
        assert_eq!(answer.status, 405, "{method}: {}", answer.text());
        assert!(answer.header("allow").is_some_and(|allow| allow.contains("GET")));
    }
    assert_eq!(
        exchange(to, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").status,
        400,
        "TLS spoken to a plain port"
    );
}

#[test]
fn silent_clients_do_not_block_others() {
    let (_history, server, to) = served_history();
    let mut silent: Vec<TcpStream> = (0..40).map(|_| open(to, HALF_A_HEAD)).collect();
    assert_eq!(get(to, "/api/v1/tags").status, 200);
    // The server closes each of these connections after some seconds. If the server is stopped, it exits at
    // once, even while all these connections are open.
    let mut first = silent.swap_remove(0);
    first.set_read_timeout(Some(PATIENCE * 2)).expect("set");
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).expect("it is closed");
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(TcpStream::connect(to).is_err(), "it still listens");
}

/// Opens a connection and sends these bytes. The server may have closed the connection already for a newer
/// one.
fn open(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("it listens");
    let _ = stream.write_all(bytes);
    stream
}

const HALF_A_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: local";

/// Opens connections as often as the server has slots, sends one request on each and reads the response. The
/// connections remain open.
fn idle_connections(to: SocketAddr) -> Vec<TcpStream> {
    let asked = |_| {
        let mut stream = open(
            to,
            format!("GET /api/v1/tags HTTP/1.1\r\nHost: {to}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
                .as_bytes(),
        );
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut status = [0; 15];
        stream.read_exact(&mut status).expect("a response");
        assert_eq!(&status, b"HTTP/1.1 200 OK");
        stream
    };
    (0..128).map(asked).collect()
}

/// Longest time that a client waits if other clients occupy all slots. Those clients have a grace of 0.25 s,
/// and the remaining time is for a slow machine.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

#[test]
fn hundreds_of_silent_clients_keep_nobody_waiting() {
    let (_history, _server, to) = served_history();
    let begun = Instant::now();
    let silent: Vec<TcpStream> = (0..300).map(|_| open(to, HALF_A_HEAD)).collect();
    assert_eq!(get(to, "/api/v1/tags").status, 200);
    assert!(begun.elapsed() < LONGEST_WAIT, "{:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn a_full_server_closes_no_client_that_sends_its_request() {
    let (_history, _server, to) = served_history();
    let idle = idle_connections(to);
    let begun = Instant::now();
    let clients: Vec<_> =
        (0..20).map(|_| std::thread::spawn(move || get(to, "/api/v1/tags").status)).collect();
    let statuses: Vec<u16> = clients.into_iter().map(|client| client.join().expect("an answer")).collect();
    assert_eq!(statuses, [200; 20]);
    assert!(begun.elapsed() < LONGEST_WAIT, "{:?}", begun.elapsed());
    drop(idle);
}

#[test]
fn clients_that_stop_after_a_request_keep_nobody_waiting() {
    let (_history, _server, to) = served_history();
    let mut idle = idle_connections(to);
    for stream in &mut idle {
        stream.write_all(HALF_A_HEAD).expect("sent");
    }
    let begun = Instant::now();
    assert_eq!(get(to, "/api/v1/tags").status, 200);
    assert!(begun.elapsed() < LONGEST_WAIT, "{:?}", begun.elapsed());
    drop(idle);
}

#[test]
fn with_a_token_requests_without_it_are_refused() {
    let history = history();
    let server = Server::start(options(history.path(), None, Access::Token("correct horse+battery".into())));
    let server = server.expect("it listens");
    let to = server.address();
    for path in [
        "/",
        "/api/v1/runs",
        "/metrics",
        "/live",
        "/trends",
        "/compare",
        "/runs/20261101T000000Z-nightly/report.html",
        "/assets",
        "/?token=wrong",
        "/?token=",
    ] {
        let answer = request(to, "GET", path, &[("Cookie", "a=b")], "");
        assert_eq!(answer.status, 401, "{path}");
        assert!(!answer.text().contains("nightly"));
    }
    let program = [JSON, ("X-Hoptax", "1"), ("Cookie", "a=b")];
    assert_eq!([tag(to, &program).status, request(to, "DELETE", RUN, &program, "").status], [401, 401]);
    // The page that asks for a token needs its style, which is the same for everybody.
    let page = request(to, "GET", "/", &[("Cookie", "a=b")], "").text();
    let style = page.split("stylesheet\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
    let style = style.expect("a style").replace("&#x2f;", "/");
    assert_eq!(request(to, "GET", &style, &[("Cookie", "a=b")], "").status, 200);
    let bearer = |token: &str| {
        request(to, "GET", "/api/v1/runs", &[("Authorization", &format!("Bearer {token}"))], "").status
    };
    assert_eq!([bearer("correct horse+battery"), bearer("correct horse"), bearer("")], [200, 401, 401]);
    let let_in = get(to, "/trends?name=a&token=correct%20horse%2Bbattery");
    assert_eq!(let_in.status, 200);
    let cookie = let_in.header("set-cookie").expect("a cookie").to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("horse"),
        "{cookie}"
    );
    assert!(
        let_in.text().contains("trends?name=a\"") && !let_in.text().contains("horse"),
        "{}",
        let_in.text()
    );
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(request(to, "GET", "/", &[("Cookie", pair)], "").status, 200);
    // The cookie alone must not permit a change, because a browser can also send it with requests of another
    // site's page.
    assert_eq!(tag(to, &[("Cookie", pair), JSON, ("Origin", "http://evil.example")]).status, 403);
    assert_eq!(tag(to, &[("Cookie", pair), JSON, ("X-Hoptax", "1")]).status, 200);
}

#[test]
fn a_server_that_only_shows_runs_changes_nothing_and_needs_no_token() {
    let history = history();
    let server = Server::start(options(history.path(), None, Access::ReadOnly(None))).expect("it listens");
    let to = server.address();
    let nobody = ("Cookie", "a=b");
    for path in ["/", "/api/v1/runs", "/metrics", "/runs/20261101T000000Z-nightly/report.md"] {
        assert_eq!(request(to, "GET", path, &[nobody], "").status, 200, "{path}");
    }
    let own = format!("http://{to}");
    let mut told = String::new();
    for proof in [("X-Hoptax", "1"), ("Origin", own.as_str())] {
        let refused = tag(to, &[nobody, JSON, proof]);
        assert_eq!(refused.status, 403);
        told += &format!("{}\n", refused.text());
        assert_eq!(request(to, "DELETE", RUN, &[nobody, JSON, proof], "").status, 403);
    }
    insta::assert_snapshot!(told);
    let run = request(to, "GET", RUN, &[nobody], "");
    assert_eq!((run.status, run.json()["tags"].as_array().map(Vec::len)), (200, Some(0)));
    let page = request(to, "GET", "/runs/20261101T000000Z-nightly", &[nobody], "").text();
    assert!(!page.contains("Delete this run") && page.contains("report.html"), "{page}");
    let token = Access::ReadOnly(Some("correct horse+battery".into()));
    let server = Server::start(options(history.path(), None, token)).expect("it listens");
    assert_eq!(request(server.address(), "GET", "/", &[nobody], "").status, 401);
}

/// A program that writes its process id and then never ends.
fn endless(scratch: &Scratch) -> (std::path::PathBuf, std::path::PathBuf) {
    let (program, pids) = (scratch.file("endless", ""), scratch.path().join("pids"));
    std::fs::write(&program, format!("#!/bin/sh\necho $$ >> {}\nexec sleep 3600\n", pids.display()))
        .expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("ours");
    (program, pids)
}

#[test]
fn reports_that_take_for_ever_block_no_page_and_are_stopped() {
    let history = history();
    let scratch = Scratch::new();
    let (exe, pids) = endless(&scratch);
    let access = Access::Token(TOKEN.into());
    let server = Server::start(Options { exe, ..options(history.path(), None, access) }).expect("it listens");
    let to = server.address();
    let started = || std::fs::read_to_string(&pids).unwrap_or_default().lines().count();
    // The test sends more of these requests than the server draws at the same time.
    let paths = [
        "/runs/20261101T000000Z-nightly/report.html",
        "/api/v1/runs/20261101T000000Z-nightly/report",
        "/compare?a=20261101T000000Z-nightly",
        "/api/v1/compare?a=20261101T000000Z-nightly&labels=nginx,haproxy",
    ];
    let clients: Vec<TcpStream> = paths
        .iter()
        .cycle()
        .take(12)
        .map(|path| {
            let mut client = TcpStream::connect(to).expect("it listens");
            let head = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
            client.write_all(head.as_bytes()).expect("sent");
            client
        })
        .collect();
    wait_until("some are drawn", PATIENCE, || started() == 4);
    for path in ["/", "/api/v1/tags", "/metrics", "/trends", "/runs/20261101T000000Z-nightly"] {
        assert_eq!(get(to, path).status, 200, "{path}");
    }
    // When a client disconnects, the server stops drawing for it, and begins to draw for the next client.
    drop(clients);
    let ends = |pid: &str| !std::path::Path::new("/proc").join(pid).exists();
    wait_until("all are stopped", PATIENCE, || {
        std::fs::read_to_string(&pids).is_ok_and(|text| text.lines().all(ends))
    });
    assert_eq!(get(to, "/").status, 200);
}

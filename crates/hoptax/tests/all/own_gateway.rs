//! Gateways and upstreams as their users configure them: other hosts, the usual certificate, echo services,
//! compression, and what hoptax says if they do not answer.

use crate::findings::two_ports;
use crate::load::KilledOnDrop;
use crate::run::{measured, report, run, run_directory, run_to_success, text};
use crate::support::nginx::Nginx;
use crate::support::server::{Response, Server};
use crate::support::{Json, PATIENCE, Scratch, own_listener, succeed, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The certificate that `openssl req -x509` creates for `127.0.0.1`, and its key, as files.
fn usual_certificate(scratch: &Scratch) -> [String; 2] {
    let files = ["own.pem", "own.key"].map(|name| scratch.path().join(name).display().to_string());
    let usual = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"];
    succeed(Command::new("openssl").args(usual).args(["-out", &files[0], "-keyout", &files[1]]));
    files
}

/// A plan with a running upstream and one external gateway. `more` has further keys.
fn plan(upstream: &str, gateway: &str, more: &str) -> String {
    format!(
        "upstream: {{ {upstream} }}
gateways: [{{ name: external, label: mine, {gateway} }}]
load: [{{ loop: closed, connections: 2, requests: 40, duration: 20s }}]
trials: 3
warmup: 0s
timeout: 2s
{more}"
    )
}

/// The void findings of a report, except those about a busy machine.
fn void(report: &Json) -> Vec<&Json> {
    let findings = report["findings"].as_array().expect("findings").iter();
    findings.filter(|one| one["severity"] == "void").collect()
}

#[test]
fn gateways_that_serve_one_host_only_are_measured_with_the_usual_certificate() {
    needs!("nginx");
    let scratch = Scratch::new();
    let [certificate, key] = usual_certificate(&scratch);
    let [plain, secure] = two_ports();
    // Requests for other hosts get no answer at all.
    let _nginx = Nginx::start(
        plain,
        &format!(
            "access_log off; ssl_certificate {certificate}; ssl_certificate_key {key};
             server {{ listen {plain} default_server; listen {secure} ssl default_server; return 444; }}
             server {{ listen {plain}; listen {secure} ssl; server_name a.test; return 200 hello; }}"
        ),
    );
    let upstream = format!("url: \"http://{plain}\"");
    let host = "target: { headers: { host: a.test } }\n";
    let trusted = format!("url: \"https://{secure}\", authority: {certificate}");
    let any = format!("url: \"https://{secure}\", insecure: true");
    for (gateway, noted) in [(&trusted, false), (&any, true)] {
        let scratch = Scratch::new();
        let directory = run_to_success(&scratch, &plan(&upstream, gateway, host), &["--accept-void"]);
        let page = std::fs::read_to_string(directory.join("report.md")).expect("written");
        assert_eq!(page.contains("accepts any certificate"), noted, "{page}");
    }

    // The same without the host, and with a name that the certificate does not have.
    let output = run(&Scratch::new(), &plan(&upstream, &trusted, ""), &[]);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains("another host"), "{said}");
    let other = format!("{trusted}, server_name: b.test");
    let output = run(&Scratch::new(), &plan(&upstream, &other, host), &[]);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains("`server_name: NAME`"), "{said}");
    assert!(!said.contains("--insecure") && !said.contains("docs.rs"), "{said}");
}

#[test]
fn a_service_that_does_not_answer_is_described_at_once() {
    let listener = own_listener();
    let silent = listener.local_addr().expect("bound");
    let chatty = own_listener();
    let ssh = chatty.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in chatty.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9\r\n\r\n");
        }
    });
    let server = Server::start(|_| Response::text("hello"));
    let upstream = server.address;
    let cases = [
        (format!("http://{silent}"), "no response within 2s"),
        (format!("https://{silent}"), "no TLS handshake within 2s"),
        (format!("http://{ssh}"), "malformed response: "),
        (format!("https://{upstream}"), "(write http://)"),
    ];
    let check = |(url, part): (String, &str)| {
        let begun = Instant::now();
        let gateway = format!("url: \"{url}\"");
        let output = run(&Scratch::new(), &plan(&format!("url: \"http://{upstream}\""), &gateway, ""), &[]);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(said.contains(part) && !said.contains("os error"), "{url}: {part}\n{said}");
        // An earlier version waited for 30 s. The test fails if hoptax does so again, but not if the machine
        // is slow.
        assert!(begun.elapsed() < Duration::from_secs(30), "{url}: {:?}", begun.elapsed());
    };
    // The cases mostly wait.
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || check(case));
        }
    });
}

#[test]
fn echo_services_are_measured_if_the_plan_says_that_bodies_vary() {
    needs!("nginx");
    let echo = Server::start(|request| Response::text(request.head.clone()));
    let [address, _] = two_ports();
    let _nginx = Nginx::start(
        address,
        &format!(
            "access_log off; server {{ listen {address}; location / {{ proxy_pass http://{};
             proxy_http_version 1.1; proxy_set_header Connection \"\";
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
             proxy_set_header X-Request-Start \"{}\"; }} }}",
            echo.address,
            "t".repeat(200)
        ),
    );
    let upstream = format!("url: \"http://{}\"", echo.address);
    let gateway = format!("url: \"http://{address}\"");
    let output = run(&Scratch::new(), &plan(&upstream, &gateway, ""), &["--accept-void"]);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains("{ varies: true }"), "{said}");

    let varies = "target: { expect: { varies: true } }\n";
    let report = measured(&plan(&upstream, &gateway, varies));
    let codes: Vec<&str> =
        void(&report).iter().map(|finding| finding["code"].as_str().expect("a code")).collect();
    assert!(!codes.contains(&"different-work"), "{codes:?}");
}

#[test]
fn compressing_gateways_are_compared_by_decoded_bodies() {
    needs!("nginx");
    let upstream = Server::start(|_| Response::text("words ".repeat(700)));
    let [address, _] = two_ports();
    let _nginx = Nginx::start(
        address,
        &format!(
            "access_log off; gzip on; gzip_types text/plain; gzip_proxied any; gzip_http_version 1.0;
             server {{ listen {address}; location / {{ proxy_pass http://{}; }} }}",
            upstream.address
        ),
    );
    let gateway = format!("url: \"http://{address}\"");
    let of = |target: &str| {
        let scratch = Scratch::new();
        let upstream = format!("url: \"http://{}\"", upstream.address);
        let report =
            report(&run_to_success(&scratch, &plan(&upstream, &gateway, target), &["--accept-void"]));
        assert!(void(&report).iter().all(|finding| finding["code"] != "different-work"), "{report:#}");
        std::fs::read_to_string(run_directory(&scratch).join("report.md")).expect("written")
    };
    let page = of("target: { headers: { accept-encoding: gzip } }\n");
    assert!(page.contains("bytes (gzip); ") && page.contains(" 4,200 "), "{page}");
    assert!(!page.contains("nothing was compressed"), "{page}");
    let page = of("");
    assert!(page.contains("nothing was compressed"), "{page}");
}

/// Codes of the findings about the gateway, with their severities.
fn findings(report: &Json) -> Vec<(String, String)> {
    let text = |finding: &Json, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().expect("findings").iter();
    all.map(|finding| (text(finding, "code"), text(finding, "severity"))).collect()
}

/// No ledger counts requests here. The answers themselves, or the upstream's CPU time, show that the answers
/// come from a cache.
#[test]
fn a_cache_is_found_without_a_ledger() {
    needs!("nginx");
    let [address, origin] = two_ports();
    let body = "x".repeat(2000);
    let server = format!("access_log off; server {{ listen {origin}; return 200 {body}; }}");
    let _upstream = Nginx::start(origin, &server);
    let cache = |header: &str| {
        format!(
            "access_log off; proxy_cache_path ROOT/cache keys_zone=all:1m;
             server {{ listen {address}; location / {{ proxy_pass http://{origin}; proxy_cache all;
             proxy_cache_valid 10m; {header} }} }}"
        )
    };
    let upstream = format!("url: \"http://{origin}\"");
    let gateway = format!("url: \"http://{address}\"");
    let measured = |header: &str, load: &str| {
        let _nginx = Nginx::start(address, &cache(header));
        let plan = plan(&upstream, &gateway, "").replace("requests: 40", load);
        measured(&plan)
    };
    let void = ("cached-answers".to_owned(), "void".to_owned());
    let report = measured("add_header X-Cache-Status $upstream_cache_status;", "requests: 40");
    assert!(findings(&report).contains(&void), "{:?}", findings(&report));
    let report = measured("", "requests: 2000");
    assert!(findings(&report).contains(&void), "{:?}", findings(&report));
    let notes = report["notes"].to_string();
    assert_eq!(notes.matches("(process ").count(), 2, "{notes}");
}

#[test]
fn a_queue_of_the_gateway_is_recognised() {
    needs!("haproxy");
    let [address, _] = two_ports();
    let [upstream, _] = two_ports();
    let scratch = Scratch::new();
    let config = scratch.file(
        "haproxy.cfg",
        &format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n timeout \
             queue 60s\n\
             frontend f\n bind {address}\n default_backend b\nbackend b\n server s {upstream} maxconn 2\n"
        ),
    );
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let haproxy = KilledOnDrop(command.spawn().expect("haproxy starts"));
    wait_until("haproxy listens", PATIENCE, || TcpStream::connect(address).is_ok());
    // The gateway forwards two requests at a time, and each takes 20 ms. This is 100/s with any number of
    // connections. After 160 ms, the queue has its final length.
    let plan = format!(
        "upstream: {{ port: {}, delay: 20ms }}
gateways: [{{ name: external, label: mine, url: \"http://{address}\", pid: {} }}]
load: [{{ loop: closed, connections: [4, 16], duration: 1s }}]
trials: 1
warmup: 200ms
timeout: 30s
",
        upstream.port(),
        haproxy.id()
    );
    let output = run(&scratch, &plan, &["--accept-void"]);
    drop(haproxy);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let found = findings(&report(&run_directory(&scratch)));
    assert!(found.contains(&("queued".into(), "warning".into())), "{found:?}");
}

#[test]
fn a_rate_limit_of_an_external_gateway_is_measured_and_its_log_is_seen() {
    needs!("nginx");
    let upstream = Server::start(|_| Response::text("hello"));
    let [address, _] = two_ports();
    // nginx rejects requests above the limit with 503, even the second of two requests within 10 ms.
    let _nginx = Nginx::start(
        address,
        &format!(
            "access_log ROOT/access.log; limit_req_zone $binary_remote_addr zone=all:1m rate=100r/s;
             server {{ listen {address}; location / {{ limit_req zone=all; proxy_pass http://{}; }} }}",
            upstream.address
        ),
    );
    let url = format!("url: \"http://{}\"", upstream.address);
    let gateway = format!("url: \"http://{address}\"");
    let scratch = Scratch::new();
    let limit = "target: { expect: { rate_limit: 100/s } }\n";
    let closed = "loop: closed, connections: 2, requests: 40, duration: 20s";
    let open = "loop: open, rate: 400/s, connections: 2, duration: 500ms";
    let plan = plan(&url, &gateway, limit).replace(closed, open);
    let directory = run_to_success(&scratch, &plan, &["--accept-void"]);
    let found = findings(&report(&directory));
    assert!(found.contains(&("rejections-counted".into(), "note".into())), "{found:?}");
    let page = std::fs::read_to_string(directory.join("report.md")).expect("written");
    assert!(page.contains(" accepted"), "{page}");
    assert!(!page.contains("cannot be seen"), "{page}");
    let logged = crate::run::trials(&directory).into_iter().filter(|trial| trial["contender"] == "mine");
    let bytes: Vec<u64> = logged.filter_map(|trial| trial["gateway_log_bytes"].as_u64()).collect();
    assert!(bytes.len() == 3 && bytes.iter().all(|bytes| *bytes > 1000), "{bytes:?}");
}

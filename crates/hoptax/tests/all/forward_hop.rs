//! `hop-l7` as a forward proxy. curl, the origin's heads and the upstream's ledger are the second opinion.

use crate::origin::Origin;
use crate::run::{case, report, run_to_success, text, trials};
use crate::support::refusals::{refusals, refused_plans};
use crate::support::{Scratch, hoptax, own_listener};
use crate::wire::{Client, Server, UnusedAddress, sample};
use hoptax_lab::features::Credentials;
use hoptax_servers::ledger;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::{Command, Output};

/// A hop that is a forward proxy for its upstream.
fn proxy_for(upstream: SocketAddr) -> (Server, SocketAddr) {
    Server::hop("l7", upstream, &["--forward-proxy", &upstream.to_string()])
}

/// curl's output, with the status in its last line.
fn curl(proxy: SocketAddr, more: &[&str]) -> Output {
    let proxy = format!("http://user:secret@{proxy}");
    let options = ["-sS", "--max-time", "20", "-w", "\n%{http_code}", "-x", &proxy];
    Command::new("curl").args(options).args(more).output().expect("runs")
}

fn load(url: &str, proxy: SocketAddr, more: &[&str]) -> Output {
    let proxy = format!("http://{proxy}");
    let options = ["load", url, "-x", &proxy, "-n", "50", "-c", "5", "--timeout", "10s"];
    hoptax().args(options).args(more).output().expect("runs")
}

/// Requests and connections that the upstream has counted.
fn counted(upstream: &Server) -> (u64, u64) {
    let counts = &ledger::fetch(upstream.control()).expect("a ledger").instances[0];
    (counts.requests, counts.connections)
}

#[test]
fn requests_with_the_whole_url_reach_the_upstream_as_usual_ones() {
    let origin = Origin::start();
    let (_hop, proxy) = proxy_for(origin.address);
    let url = format!("http://{}/bytes?1000", origin.address);
    let got = curl(proxy, &["-H", "x-mine: 1", "-H", "host: other.test", &url]).stdout;
    assert!(got == [sample(1000), b"\n200".to_vec()].concat(), "{}", text(&got));
    let seen = origin.heads().pop().expect("a request").to_ascii_lowercase();
    assert!(seen.starts_with("get /bytes?1000 http/1.1\r\n"), "{seen}");
    // The host of the URL replaces the header's (RFC 9112, section 3.2.2). The credentials are the proxy's.
    assert!(seen.contains(&format!("\r\nhost: {}\r\n", origin.address)), "{seen}");
    assert!(seen.contains("\r\nx-mine: 1\r\n") && !seen.contains("proxy-"), "{seen}");
    assert!(!seen.contains("other.test"), "{seen}");
}

#[test]
fn load_and_curl_go_through_it_in_both_forms() {
    let upstream = Server::start(&["upstream", "--body-text", "behind a hop"]);
    let address = upstream.instance(0);
    let (url, (_hop, proxy)) = (format!("http://{address}/"), proxy_for(address));
    for tunnel in [false, true] {
        let form: &[&str] = if tunnel { &["--proxytunnel"] } else { &[] };
        let got = text(&curl(proxy, &[form, &[url.as_str()]].concat()).stdout);
        assert_eq!(got, "behind a hop\n200", "{tunnel}");
        let before = counted(&upstream);
        let output = load(&url, proxy, if tunnel { &["--proxy-tunnel"] } else { &[] });
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        let after = counted(&upstream);
        assert_eq!(after.0 - before.0, 50, "{tunnel}");
        let opened = after.1 - before.1;
        // With tunnels, each connection of the load has its own upstream connection. Without tunnels, the hop
        // takes connections from its pool, which already has one.
        assert!(if tunnel { opened == 5 } else { opened <= 5 }, "{tunnel}: {opened}");
    }
    let before = counted(&upstream);
    let output = load(&url, proxy, &["--proxy-tunnel", "--http", "2", "--streams", "4"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let after = counted(&upstream);
    assert_eq!((after.0 - before.0, after.1 - before.1), (50, 5), "a tunnel carries HTTP/2 too");
}

#[test]
fn https_goes_through_its_tunnels() {
    let made = Credentials::make(&[hoptax_plan::Feature::UpstreamTls]).expect("made");
    let identity = made.server.certificate.clone() + &made.server.key;
    let mut command = hoptax();
    command.args(["upstream", "--tls", "--body-text", "over TLS"]);
    let upstream = Server::spawn(command.env("HOPTAX_UPSTREAM_IDENTITY", identity));
    let address = upstream.ready["tls_instances"][0].as_str().expect("an address").parse().expect("one");
    let (_hop, proxy) = proxy_for(address);
    let url = format!("https://{address}/");
    assert_eq!(text(&curl(proxy, &["-k", &url]).stdout), "over TLS\n200");
    let before = counted(&upstream);
    let output = load(&url, proxy, &["--insecure"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let after = counted(&upstream);
    assert_eq!((after.0 - before.0, after.1 - before.1), (50, 5));
}

#[test]
fn it_connects_only_to_its_own_upstream() {
    let (own, other) = (Origin::start(), own_listener());
    other.set_nonblocking(true).expect("set");
    let elsewhere = other.local_addr().expect("bound");
    let (_hop, proxy) = proxy_for(own.address);
    let (url, https) = (format!("http://{elsewhere}/"), format!("https://{}/", own.address));
    let why = format!("this forward proxy only forwards to {}\n\n403", own.address);
    assert_eq!(text(&curl(proxy, &[&url]).stdout), why);
    let refused = curl(proxy, &["--proxytunnel", &url]);
    assert!(text(&refused.stderr).contains("response 403"), "{}", text(&refused.stderr));
    let output = load(&url, proxy, &["--proxy-tunnel"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("CONNECT: ") && said.contains("status 403"), "{said}");
    // The first request does not name the whole URL. The second has an https URL but no tunnel, which curl
    // never sends.
    for (target, status, why) in [("/".to_owned(), 400, "whole URL"), (https, 502, "send CONNECT instead")] {
        let request = format!("GET {target} HTTP/1.1\r\nhost: {}\r\n\r\n", own.address);
        let response = Client::connect(proxy).send(request).response();
        let body = text(&response.body);
        assert!(response.status == status && body.contains(why), "{target}: {} {body}", response.status);
    }
    let connected = other.accept().expect_err("no connection");
    assert_eq!((connected.kind(), own.connections()), (ErrorKind::WouldBlock, 0));

    let (_usual, hop) = Server::hop("l7", own.address, &[]);
    let response =
        Client::connect(hop).send("CONNECT a.test:80 HTTP/1.1\r\nhost: a.test:80\r\n\r\n").response();
    assert!(response.status == 501 && text(&response.body).contains("--forward-proxy"), "{response:?}");
}

#[test]
fn an_unreachable_upstream_is_a_502_that_says_why() {
    let nobody = UnusedAddress::new();
    let (_hop, proxy) = proxy_for(nobody.address);
    let url = format!("http://{}/", nobody.address);
    let got = text(&curl(proxy, &[&url]).stdout);
    assert!(got.contains("cannot be reached: ") && got.ends_with("\n502"), "{got}");
    let mut client = Client::connect(proxy);
    // The client does not wait for the answer before it sends more.
    client.send(format!("CONNECT {0} HTTP/1.1\r\nhost: {0}\r\n\r\nGET / HTTP/1.1\r\n\r\n", nobody.address));
    let response = client.response();
    assert_eq!(response.status, 502);
    assert!(text(&response.body).contains("cannot be reached: "), "{}", text(&response.body));
    assert!(client.is_closed());
    let refused = curl(proxy, &["--proxytunnel", &url]);
    assert!(text(&refused.stderr).contains("response 502"), "{}", text(&refused.stderr));
}

#[test]
fn tunnels_carry_all_bytes_and_both_ends() {
    let origin = Origin::start();
    let (_hop, proxy) = proxy_for(origin.address);
    let connect = format!("CONNECT {0} HTTP/1.1\r\nhost: {0}\r\n\r\n", origin.address);
    let get = |size: usize| format!("GET /bytes?{size} HTTP/1.1\r\nhost: a\r\n\r\n");
    let mut client = Client::connect(proxy);
    // The first request for the upstream comes together with the request for the tunnel.
    client.send(connect.clone() + &get(10));
    assert_eq!(client.response_to_head().status, 200);
    assert!(client.response().body == sample(10));
    let body = sample(1 << 20);
    let post = format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send(post).send(&body);
    assert!(client.response().body == body, "1 MiB came back changed");
    client.send(get(300_001).repeat(3)).finish();
    (0..3).for_each(|_| assert!(client.response().body == sample(300_001)));
    assert!(client.is_closed());
    assert_eq!(origin.connections(), 1);

    // A tunnel can follow usual requests on a connection, and the request for it can come in pieces.
    let mut client = Client::connect(proxy);
    let url = format!("http://{}/bytes?5", origin.address);
    client.send(format!("GET {url} HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!(client.response().body, sample(5));
    for byte in connect.bytes() {
        client.send([byte]);
    }
    assert_eq!(client.response_to_head().status, 200);
    assert_eq!(client.send(get(7)).response().body, sample(7));
}

#[test]
fn plans_measure_the_hop_as_a_forward_proxy() {
    let scratch = Scratch::new();
    let plan = "gateways:\n  - hop-l7\n  - { name: hop-l7, label: forward, proxy: forward }\n  \
                - { name: hop-l7, label: connect, proxy: connect }\n  \
                - { name: hop-l7, label: slow, proxy: forward, delay: { in: 5ms } }\n\
                load: [{ loop: closed, connections: 4, requests: 200, duration: 60s }]\ntrials: 1\nwarmup: 50ms\n";
    let path = scratch.file("check.yaml", plan);
    let checked = text(&hoptax().arg("check").arg(path).output().expect("runs").stdout);
    for words in [
        "built-in hop, a forward proxy (requests with the whole URL)",
        "built-in hop, a forward proxy (CONNECT",
    ] {
        assert!(checked.contains(words), "{checked}");
    }
    let directory = run_to_success(&scratch, plan, &["--accept-void"]);
    let trials = trials(&directory);
    assert_eq!(trials.len(), 6);
    for trial in &trials {
        let who = trial["contender"].as_str().expect("a name");
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        assert_eq!(trial["load_record"]["counts"]["ok"], 200, "{who}");
        let number = |value: &serde_json::Value| value.as_u64().expect("counted");
        let lifetime = &trial["load_record"]["lifetime"];
        let upstream = number(&trial["ledger"]["requests"]);
        assert!((number(&lifetime["completed"])..=number(&lifetime["sent"])).contains(&upstream), "{who}");
        if who == "connect" {
            assert_eq!(trial["ledger"]["connections"], lifetime["opened"], "each connection is a tunnel");
        }
    }
    let report = report(&directory);
    let p50 = &case(&report, "slow")["response_time"]["p50"]["estimate"];
    assert!(p50.as_f64().expect("measured") >= 5000.0, "{p50}");
}

#[test]
fn what_the_hop_cannot_do_is_refused_before_anything_starts() {
    insta::assert_snapshot!(refused_plans(&[
        "gateways: [{ name: hop-l4, proxy: connect }]\n",
        "gateways: [{ name: hop-l7, proxy: connect, delay: { in: 1ms } }]\n",
        "upstream: { listen: unix }\ngateways: [{ name: hop-l7, proxy: forward }]\n",
        "upstream: { url: \"https://b.test\" }\ngateways: [{ name: hop-l7, proxy: forward }]\n",
        "upstream: { url: \"https://b.test\" }\ngateways: [hop-l7]\n",
    ]));
    let lines = [&["l4", "--forward-proxy", "a.test:80"][..], &["l7", "--forward-proxy", "a.test"]];
    insta::assert_snapshot!(refusals(&["hop", "--upstream", "127.0.0.1:1"], &lines));
}

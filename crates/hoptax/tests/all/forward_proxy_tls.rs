//! Forward proxies that are asked over TLS: Apache httpd with `SSLEngine On`. curl, httpd's log and the
//! upstream's ledger are the second opinion.

use crate::findings::two_ports;
use crate::forward_proxy::{Proxy, connections, load, requests, upstream};
use crate::run::{run_to_success, text, trials};
use crate::support::{Scratch, hoptax, own_loopback, succeed};
use crate::wire::Server;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A certificate for `name`, and its key, as files.
fn identity(scratch: &Scratch, file: &str, name: &str) -> (PathBuf, PathBuf) {
    let [certificate, key] = ["crt", "key"].map(|end| scratch.path().join(format!("{file}.{end}")));
    succeed(
        Command::new("openssl")
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(' '))
            .args(["-subj", "/CN=test", "-addext", &format!("subjectAltName={name}"), "-keyout"])
            .args([key.as_os_str(), "-out".as_ref(), certificate.as_os_str()]),
    );
    (certificate, key)
}

fn path(path: &std::path::Path) -> &str {
    path.to_str().expect("text")
}

fn curl(proxy: &Proxy, certificate: &std::path::Path, more: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "20", "-x", &proxy.url("user:secret@"), "--proxy-cacert"]);
    let output = curl.arg(certificate).args(more).output().expect("runs");
    text(&output.stdout) + &text(&output.stderr)
}

fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// An upstream with TLS, and its address.
fn secure_upstream(scratch: &Scratch) -> (Server, String) {
    let (certificate, key) = identity(scratch, "upstream", "IP:127.0.0.1");
    let pem = [certificate, key].map(|file| std::fs::read_to_string(file).expect("read")).concat();
    let mut command = hoptax();
    command.args(["upstream", "--tls", "--body-text", "behind a proxy"]);
    let upstream = Server::spawn(command.env("HOPTAX_UPSTREAM_IDENTITY", pem));
    let address = upstream.ready["tls_instances"][0].as_str().expect("an address").to_owned();
    (upstream, address)
}

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

#[test]
fn load_uses_tls_to_the_proxy_as_curl_does() {
    needs!("apache");
    let scratch = Scratch::new();
    let (certificate, key) = identity(&scratch, "proxy", &format!("IP:{}", own_loopback()));
    let upstream = upstream();
    let address = upstream.instance(0);
    let proxy = Proxy::start_with_tls(&[address.port()], &certificate, &key);
    let (url, to) = (format!("http://{address}/path"), proxy.url("user:secret@"));
    for tunnel in [false, true] {
        let form: &[&str] = if tunnel { &["--proxytunnel"] } else { &[] };
        assert_eq!(curl(&proxy, &certificate, &[form, &[url.as_str()]].concat()), "behind a proxy");
        let form: &[&str] = if tunnel { &["--proxy-tunnel"] } else { &[] };
        for verified in [&["--ca", path(&certificate)][..], &["--insecure"]] {
            let (before, opened) = (requests(&upstream), connections(&upstream));
            let output = load(&url, &to, &[form, verified].concat());
            assert!(output.status.success(), "{tunnel}: {}", said(&output));
            assert!(said(&output).contains("over TLS"), "{}", said(&output));
            assert!(!said(&output).contains("secret"));
            assert_eq!(requests(&upstream) - before, 50, "{tunnel}");
            if tunnel {
                assert_eq!(connections(&upstream) - opened, 5);
            }
        }
        if tunnel {
            let before = requests(&upstream);
            let output = load(&url, &to, &["--proxy-tunnel", "--insecure", "--http", "2", "--streams", "2"]);
            assert!(output.status.success(), "{}", said(&output));
            assert_eq!(requests(&upstream) - before, 50, "HTTP/2 in the tunnel");
        }
        // Without the proxy's authority, the client refuses the proxy's certificate.
        let output = load(&url, &to, form);
        let refused = if tunnel { "TLS to the proxy: the proxy's" } else { "TLS: the server's" };
        let refused = format!("{refused} certificate");
        assert!(!output.status.success() && said(&output).contains(&refused), "{tunnel}: {}", said(&output));
    }
}

#[test]
fn https_goes_through_a_tunnel_in_tls() {
    needs!("apache");
    let scratch = Scratch::new();
    let (certificate, key) = identity(&scratch, "proxy", &format!("IP:{}", own_loopback()));
    let (upstream, address) = secure_upstream(&scratch);
    let proxy = Proxy::start_with_tls(&[port_of(&address)], &certificate, &key);
    let url = format!("https://{address}/");
    assert_eq!(curl(&proxy, &certificate, &["-k", &url]), "behind a proxy");
    let (before, opened) = (requests(&upstream), connections(&upstream));
    let output = load(&url, &proxy.url("user:secret@"), &["--insecure"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((requests(&upstream) - before, connections(&upstream) - opened), (50, 5));
    // Both certificates are verified. With the authority of only one of them, the load must fail.
    let both = scratch.path().join("both.crt");
    let own = std::fs::read_to_string(&certificate).expect("read");
    let other = std::fs::read_to_string(scratch.path().join("upstream.crt")).expect("read");
    std::fs::write(&both, own + &other).expect("written");
    assert!(load(&url, &proxy.url("user:secret@"), &["--ca", path(&both)]).status.success());
    for (only, refused) in [("proxy", "TLS: the server's certificate"), ("upstream", "TLS to the proxy: ")] {
        let only = scratch.path().join(format!("{only}.crt"));
        let output = load(&url, &proxy.url("user:secret@"), &["--ca", path(&only)]);
        assert!(!output.status.success() && said(&output).contains(refused), "{}", said(&output));
    }
}

#[test]
fn a_refusal_inside_tls_is_named_with_its_status() {
    needs!("apache");
    let scratch = Scratch::new();
    let (certificate, key) = identity(&scratch, "proxy", &format!("IP:{}", own_loopback()));
    let upstream = upstream();
    let url = format!("http://{}/", upstream.instance(0));
    let proxy = Proxy::start_with_tls(&[1], &certificate, &key);
    for (credentials, status) in [("", "407"), ("user:secret@", "403")] {
        let output = load(&url, &proxy.url(credentials), &["--proxy-tunnel", "--insecure"]);
        let expected = format!("status {status}");
        assert!(!output.status.success() && said(&output).contains(&expected), "{}", said(&output));
    }
    let plain = Proxy::start(&[upstream.instance(0).port()]);
    let output = load(&url, &plain.url("").replace("http:", "https:"), &["--proxy-tunnel", "--insecure"]);
    assert!(said(&output).contains("plain HTTP"), "{}", said(&output));
    assert_eq!(requests(&upstream), 0);
}

#[test]
fn plans_ask_a_proxy_over_tls_in_both_forms() {
    needs!("apache");
    let scratch = Scratch::new();
    scratch.file("proxy.txt", "user:secret\n");
    let (certificate, key) = identity(&scratch, "proxy", &format!("IP:{}", own_loopback()));
    let port = two_ports()[0].port();
    let (secure, address) = secure_upstream(&scratch);
    let proxy = Proxy::start_with_tls(&[port, port_of(&address)], &certificate, &key);
    let gateway = |form: &str, trust: &str| {
        let url = proxy.url("");
        format!(
            "  - {{ name: external, label: {form}, url: \"{url}\", {trust}, proxy: {form}, \
             proxy_credentials: proxy.txt }}\n"
        )
    };
    let load =
        "load: [{ loop: closed, connections: 4, requests: 200, duration: 60s }]\ntrials: 1\nwarmup: 50ms\n";
    let own = format!("authority: {}", path(&certificate));
    let plain = format!(
        "upstream: {{ port: {port} }}\ngateways:\n{}{}{load}",
        gateway("forward", &own),
        gateway("connect", "insecure: true")
    );
    let over_tls = format!(
        "upstream: {{ url: \"https://{address}\", insecure: true }}\ngateways:\n{}{load}",
        gateway("connect", &own)
    );
    let before = requests(&secure);
    for (name, plan, contenders) in [("plain", plain, 4), ("tls", over_tls, 3)] {
        // Each run has a directory of its own.
        let here = Scratch::new();
        std::fs::copy(scratch.path().join("proxy.txt"), here.path().join("proxy.txt")).expect("copied");
        let directory = run_to_success(&here, &plan, &["--accept-void"]);
        let trials = trials(&directory);
        assert_eq!(trials.len(), contenders, "{name}");
        for trial in &trials {
            let who = &trial["contender"];
            assert!(trial["failed"].is_null(), "{name} {who}: {}", trial["failed"]);
            assert_eq!(trial["load_record"]["counts"]["ok"], 200, "{name} {who}");
            // In the second plan, TLS to the server is recorded also in the tunnel.
            assert_eq!(
                trial["load_record"]["tls"].is_null(),
                name == "plain" && who != "forward",
                "{name} {who}"
            );
        }
    }
    assert!(requests(&secure) - before >= 400);
    let asked = proxy.asked();
    let begins = |with: &str| asked.iter().filter(|line| line.starts_with(with)).count();
    assert!(begins(&format!("GET http://127.0.0.1:{port}/ ")) >= 200, "{:?}", asked.first());
    assert!(begins(&format!("CONNECT 127.0.0.1:{port} ")) >= 4, "{:?}", asked.last());
    assert!(begins(&format!("CONNECT {address} ")) >= 4, "{:?}", asked.last());
}

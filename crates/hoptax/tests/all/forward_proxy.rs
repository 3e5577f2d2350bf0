//! Forward proxies: Apache httpd with `ProxyRequests On`. curl, httpd's log and the upstream's ledger are the
//! second opinion.

use crate::findings::two_ports;
use crate::run::{report, run_to_success, text, trials};
use crate::support::refusals::refused_plans;
use crate::support::{PATIENCE, Scratch, hoptax, unused_address, wait_until};
use crate::wire::Server;
use hoptax_servers::ledger;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// `user:secret`, as a header carries it.
const ENCODED: &str = "dXNlcjpzZWNyZXQ=";

/// Apache httpd as a forward proxy that requires the user `user` with the password `secret`.
pub(crate) struct Proxy {
    process: Child,
    scratch: Scratch,
    address: SocketAddr,
    scheme: &'static str,
}

impl Proxy {
    /// Starts httpd. It allows tunnels to these ports.
    pub(crate) fn start(ports: &[u16]) -> Self {
        Self::start_with(ports, "http", "")
    }

    /// Like [`Self::start`], but clients must use TLS.
    pub(crate) fn start_with_tls(ports: &[u16], certificate: &Path, key: &Path) -> Self {
        let module = "LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so";
        let files = format!(
            "{module}\nSSLEngine On\nSSLCertificateFile {}\nSSLCertificateKeyFile {}\n",
            certificate.display(),
            key.display()
        );
        Self::start_with(ports, "https", &files)
    }

    fn start_with(ports: &[u16], scheme: &'static str, more: &str) -> Self {
        let scratch = Scratch::new();
        // httpd runs its workers as another user.
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
        let address = unused_address();
        // The SHA-1 of `secret`.
        scratch.file("users", "user:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
        let modules = "unixd log_config mpm_event authz_core authz_user auth_basic authn_core authn_file \
            proxy proxy_http proxy_connect";
        let modules: String = modules
            .split(' ')
            .map(|name| {
                format!(
                    "<IfModule !{name}_module>\nLoadModule {name}_module \
                /usr/lib/apache2/modules/mod_{name}.so\n</IfModule>\n"
                )
            })
            .collect();
        let allowed: String = ports.iter().map(|port| format!(" {port}")).collect();
        let directory = scratch.path().display();
        let user = match rustix::process::geteuid().is_root() {
            true => "User #65534\nGroup #65534\n",
            false => "",
        };
        let config = scratch.file(
            "httpd.conf",
            &format!(
                "{modules}ServerRoot {directory}\nDefaultRuntimeDir {directory}\nPidFile {directory}/pid\n\
                 ServerName {address}\n{user}ErrorLog {directory}/error.log\nListen {address}\n\
                 MaxKeepAliveRequests 0\nLogFormat \"%r\" asked\nCustomLog {directory}/access.log asked\n\
                 {more}\
                 ProxyRequests On\nAllowCONNECT{allowed}\n\
                 <Proxy \"*\">\nAuthType Basic\nAuthName proxy\nAuthUserFile {directory}/users\n\
                 Require valid-user\n</Proxy>\n"
            ),
        );
        let mut command = Command::new("apache2");
        command.arg("-f").arg(config).arg("-DFOREGROUND").stderr(Stdio::null());
        let process = command.spawn().expect("it starts");
        let proxy = Self { process, scratch, address, scheme };
        wait_until("httpd listens", PATIENCE, || TcpStream::connect(address).is_ok());
        proxy
    }

    pub(crate) fn url(&self, credentials: &str) -> String {
        format!("{}://{credentials}{}", self.scheme, self.address)
    }

    /// The request lines that httpd has logged.
    pub(crate) fn asked(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.scratch.path().join("access.log")).expect("a log");
        log.lines().map(str::to_owned).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The parent stops its children when it gets SIGTERM.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

pub(crate) fn upstream() -> Server {
    Server::start(&["upstream", "--body-text", "behind a proxy"])
}

pub(crate) fn requests(upstream: &Server) -> u64 {
    ledger::fetch(upstream.control()).expect("a ledger").instances[0].requests
}

pub(crate) fn connections(upstream: &Server) -> u64 {
    ledger::fetch(upstream.control()).expect("a ledger").instances[0].connections
}

pub(crate) fn load(url: &str, proxy: &str, more: &[&str]) -> Output {
    let mut command = hoptax();
    command.args(["load", url, "-x", proxy, "-n", "50", "-c", "5", "--timeout", "10s"]).args(more);
    command.output().expect("runs")
}

fn assert_without_secret(output: &Output) {
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(!printed.contains("secret") && !printed.contains(ENCODED), "{printed}");
}

#[test]
fn load_asks_for_the_whole_url_and_through_tunnels_as_curl_does() {
    needs!("apache");
    let upstream = upstream();
    let address = upstream.instance(0);
    let (url, proxy) = (format!("http://{address}/path"), Proxy::start(&[address.port()]));
    let with_password = proxy.url("user:secret@");
    for (number, tunnel) in [(1, false), (2, true)] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "-x", &with_password]).args(tunnel.then_some("-p")).arg(&url);
        assert_eq!(text(&curl.output().expect("runs").stdout), "behind a proxy", "{tunnel}");

        let (before, opened) = (requests(&upstream), connections(&upstream));
        let output = load(&url, &with_password, if tunnel { &["--proxy-tunnel"] } else { &[] });
        assert!(output.status.success(), "{}", text(&output.stdout));
        assert_without_secret(&output);
        assert_eq!(requests(&upstream) - before, 50, "{tunnel}");
        wait_until("httpd has logged every request", PATIENCE, || {
            proxy.asked().len() >= [51, 51 + 6][number - 1]
        });
        let asked = proxy.asked();
        let whole = asked.iter().filter(|line| **line == format!("GET {url} HTTP/1.1")).count();
        let tunnels = asked.iter().filter(|line| **line == format!("CONNECT {address} HTTP/1.1")).count();
        assert_eq!((whole, tunnels), if tunnel { (51, 6) } else { (51, 0) });
        if tunnel {
            assert_eq!(connections(&upstream) - opened, 5);
        }
        let words = if tunnel { "CONNECT tunnels" } else { "through a forward proxy" };
        assert!(text(&output.stdout).contains(words), "{}", text(&output.stdout));
    }
}

#[test]
fn a_refused_connect_is_named_with_its_status() {
    needs!("apache");
    let upstream = upstream();
    let address = upstream.instance(0);
    let nobody = crate::wire::UnusedAddress::new();
    let proxy = Proxy::start(&[nobody.address.port()]);
    let url = format!("http://{address}/");
    for (target, credentials, status) in [
        (url.clone(), "", "407"),
        (url.clone(), "user:wrong-secret@", "407"),
        (url.clone(), "user:secret@", "403"),
        (format!("http://{}/", nobody.address), "user:secret@", "50"),
    ] {
        let output = load(&target, &proxy.url(credentials), &["--proxy-tunnel"]);
        assert!(!output.status.success());
        let said = text(&output.stdout) + &text(&output.stderr);
        let is_named = said.contains("CONNECT: ") && said.contains(&format!("status {status}"));
        assert!(is_named, "{target}: {said}");
        assert_without_secret(&output);
    }
    assert_eq!(requests(&upstream), 0);
}

#[test]
fn plans_measure_a_forward_proxy_in_both_forms() {
    needs!("apache");
    // The proxy must know which port it may open tunnels to.
    let port = two_ports()[0].port();
    let proxy = Proxy::start(&[port]);
    let scratch = Scratch::new();
    scratch.file("proxy.txt", "user:secret\n");
    let gateway = |form: &str| {
        format!(
            "  - {{ name: external, label: {form}, url: \"{}\", proxy: {form}, proxy_credentials: proxy.txt \
            }}\n",
            proxy.url("")
        )
    };
    let plan = format!(
        "upstream: {{ port: {port} }}\ngateways:\n{}{}load: [{{ loop: closed, connections: 4, requests: \
         200, duration: 60s }}]\n\
         trials: 1\nwarmup: 50ms\n",
        gateway("forward"),
        gateway("connect")
    );
    let directory = run_to_success(&scratch, &plan, &["--accept-void"]);
    let trials = trials(&directory);
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        let who = &trial["contender"];
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        assert_eq!(trial["load_record"]["counts"]["ok"], 200, "{who}");
        let lifetime = &trial["load_record"]["lifetime"];
        let [sent, done] = ["sent", "completed"].map(|name| lifetime[name].as_u64().expect("counted"));
        let upstream = trial["ledger"]["requests"].as_u64().expect("counted");
        assert!((done..=sent).contains(&upstream), "{who}: {upstream} of {done}..={sent}");
    }
    let asked = proxy.asked();
    let begins = |with: &str| asked.iter().filter(|line| line.starts_with(with)).count();
    assert!(begins(&format!("GET http://127.0.0.1:{port}/ ")) >= 200, "{:?}", asked.first());
    assert!(begins(&format!("CONNECT 127.0.0.1:{port} ")) >= 4, "{:?}", asked.last());
    assert_eq!(begins("GET / "), 0);
    assert_eq!(report(&directory)["cases"].as_array().map(Vec::len), Some(3));
    for entry in walk(&directory) {
        let content = text(&std::fs::read(&entry).expect("read"));
        assert!(!content.contains("secret") && !content.contains(ENCODED), "{}", entry.display());
    }
}

/// The pack of Apache httpd in its variants `forward` and `connect`.
#[test]
fn a_pack_can_be_a_forward_proxy() {
    needs!("apache");
    let scratch = Scratch::new();
    let plan = "gateways:\n  - apache\n  - { name: apache, label: forward, variant: forward }\n  - { name: \
                apache, label: connect, variant: connect }\nprofile: stock\naccess_log: file\n\
                load: [{ loop: closed, connections: 4, requests: 200, duration: 60s }]\ntrials: 1\nwarmup: \
                50ms\n";
    let directory = run_to_success(&scratch, plan, &["--accept-void"]);
    for trial in &trials(&directory) {
        let who = &trial["contender"];
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        assert_eq!(trial["load_record"]["counts"]["ok"], 200, "{who}");
    }
    let begins = |label: &str, with: &str| {
        let log =
            std::fs::read_to_string(directory.join("logs").join(label).join("access.log")).expect("a log");
        log.lines().filter(|line| line.contains(&format!("\"{with}"))).count()
    };
    assert!(begins("apache", "GET / ") >= 200 && begins("apache", "GET http://") == 0);
    assert!(begins("forward", "GET http://127.0.0.1:") >= 200 && begins("forward", "GET / ") == 0);
    assert!(begins("connect", "CONNECT 127.0.0.1:") >= 4 && begins("connect", "GET ") == 0);
}

/// The files below a directory.
fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("listed").flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn what_a_proxy_cannot_do_is_refused_before_anything_starts() {
    insta::assert_snapshot!(refused_plans(&[
        "gateways: [{ name: nginx, proxy: forward }]\n",
        "gateways: [{ name: external, url: \"http://a.test\", proxy_credentials: plan.yaml }]\n",
        "upstream: { listen: unix }\n\
         gateways: [{ name: external, url: \"http://a.test\", proxy: connect }]\n",
        "upstream: { instances: 2 }\n\
         gateways: [{ name: external, url: \"http://a.test\", proxy: forward }]\n",
        "gateways: [{ name: apache, variant: forward, features: [gzip] }]\n",
        "upstream: { listen: unix }\ngateways: [{ name: apache, variant: connect }]\n",
        "upstream: { url: \"https://b.test\" }\ngateways: [{ name: external, url: \"http://a.test\", \
         proxy: forward }]\n",
    ]));
    let output = load("http://127.0.0.1:1/", "socks5://user:secret@127.0.0.1:1", &[]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(text(&output.stderr));
    assert_without_secret(&output);
}

//! An upstream that already runs and requires a client certificate or a token over TLS, like a Kubernetes API
//! server. Here it is nginx in front of `hoptax upstream`. The request count of `hoptax upstream` is the
//! ledger.

use crate::load::KilledOnDrop;
use crate::run::{report, run, run_to_success, text, trials};
use crate::support::{PATIENCE, Scratch, hoptax, unused_address, wait_until};
use crate::world::is_missing;
use hoptax_lab::features::Credentials;
use serde_json::Value as Json;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

/// The services that run before hoptax starts.
struct World {
    scratch: Scratch,
    made: Credentials,
    /// Port of nginx (TLS).
    address: SocketAddr,
    /// Address of the upstream's control socket.
    control: String,
    _nginx: KilledOnDrop,
    _upstream: KilledOnDrop,
}

impl World {
    /// `tls` is the TLS version of nginx.
    fn start(tls: &str) -> Self {
        let scratch = Scratch::new();
        let made = Credentials::make(&[]).expect("made");
        let mut upstream = KilledOnDrop(
            hoptax()
                .args(["upstream", "--body", "256B", "--header", "x-request: always"])
                .env("HOPTAX_UPSTREAM_TOKEN_SECRET", &made.jwt_secret)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("starts"),
        );
        let mut line = String::new();
        let stdout = upstream.0.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("present");
        let ready: Json = serde_json::from_str(&line).expect("JSON");
        let behind = ready["instances"][0].as_str().expect("an address");
        let address = unused_address();
        for (name, content) in [
            ("ca.pem", &made.authority),
            ("server.pem", &made.server.certificate),
            ("server.key", &made.server.key),
            ("client.pem", &made.client.certificate),
            ("client.key", &made.client.key),
            ("token", &made.consumers[0].token_hs256),
        ] {
            scratch.file(name, content);
        }
        let configuration = scratch.file("nginx.conf", &nginx(&scratch, &made, (address, tls), behind));
        let mut command = Command::new("nginx");
        command.arg("-c").arg(configuration).arg("-p").arg(scratch.path()).stderr(Stdio::null());
        let nginx = command.spawn().expect("starts");
        let nginx = KilledOnDrop(nginx);
        wait_until("nginx listens", PATIENCE, || TcpStream::connect(address).is_ok());
        let control = format!("http://{}", ready["control"].as_str().expect("an address"));
        Self { scratch, made, address, control, _nginx: nginx, _upstream: upstream }
    }

    /// A plan. `upstream` has additional keys of the upstream.
    fn plan(&self, upstream: &str, gateways: &str) -> String {
        format!(
            "upstream:\n  url: https://{}\n  server_name: hoptax.test\n  authority: \
             ca.pem\n{upstream}  ledger: {{ url: \"{}\", path: /ledger, kind: json, select: \
             /instances/0/requests }}\n\
             gateways:\n{gateways}\
             load: [{{ loop: open, rate: 200/s, connections: 4, requests: 140, duration: 60s }}]\ntrials: \
             1\nwarmup: 100ms\n",
            self.address, self.control
        )
    }

    /// The lines of nginx's log without duplicates. They show which credentials clients sent, with plain
    /// requests and with token reviews.
    fn shown_credentials(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.scratch.path().join("access.log")).expect("a log");
        let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

fn nginx(scratch: &Scratch, made: &Credentials, (address, tls): (SocketAddr, &str), behind: &str) -> String {
    let directory = scratch.path().display();
    let token = &made.consumers[0].token_hs256;
    format!(
        r#"daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/error.log;
events {{ worker_connections 512; }}
http {{
    map_hash_bucket_size 1024;
    map $http_authorization $token {{ default "none"; "Bearer {token}" "right"; }}
    map "$ssl_client_verify $token" $let_in {{ default 0; "~^SUCCESS" 1; "~right$" 1; }}
    map $uri $what {{ default request; "~tokenreviews" review; }}
    log_format shown_credentials '$what certificate=$ssl_client_verify token=$token cipher=$ssl_cipher status=$status';
    access_log {directory}/access.log shown_credentials;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
    upstream behind {{ server {behind}; keepalive 64; }}
    server {{
        listen {address} ssl;
        ssl_certificate {directory}/server.pem; ssl_certificate_key {directory}/server.key;
        ssl_client_certificate {directory}/ca.pem; ssl_verify_client optional; ssl_protocols {tls};
        keepalive_requests 1000000;
        location / {{
            if ($let_in = 0) {{ return 401; }}
            add_header audit-id $request_id always;
            proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection "";
        }}
    }}
}}
"#
    )
}

/// Asserts that every trial succeeded and agrees with the ledger. `times` returns the number of upstream
/// requests that each request of a contender causes.
fn assert_counted(directory: &Path, times: impl Fn(&str) -> u64) {
    let trials = trials(directory);
    assert!(trials.len() >= 2, "{trials:?}");
    for trial in trials {
        let who = trial["contender"].as_str().expect("a label");
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let counts = &trial["load_record"]["counts"];
        assert_eq!(counts["ok"], counts["completed"], "{who}");
        let sent = trial["load_record"]["lifetime"]["sent"].as_u64().expect("counted");
        let upstream = trial["ledger"]["requests"].as_u64().expect("counted");
        assert!(sent >= 140, "{who}: {sent}");
        assert!(upstream.abs_diff(times(who) * sent) <= 4, "{who}: {upstream} upstream of {sent} sent");
        assert_eq!(trial["ledger"]["requests_only"], true);
    }
}

/// Asserts that the run stored no secret from the plan's files.
fn assert_kept_secret(world: &World, directory: &Path) {
    let key = world.made.client.key.lines().nth(1).expect("a line of it");
    let token = &world.made.consumers[0].token_hs256;
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("listed").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let content = String::from_utf8_lossy(&std::fs::read(&path).expect("read")).into_owned();
            assert!(!content.contains(token.as_str()), "{} holds the token", path.display());
            assert!(!content.contains(key), "{} holds the key", path.display());
        }
    }
}

#[test]
fn gateways_use_the_plans_client_certificate() {
    let packs = ["nginx", "haproxy", "envoy", "caddy", "apache", "trafficserver", "nghttpx", "nginx-lua"];
    if packs.iter().any(|pack| is_missing(pack)) {
        return;
    }
    let world = World::start("TLSv1.3");
    let listed: String = packs.iter().map(|pack| format!("  - {pack}\n")).collect();
    let plan = world.plan(
        "  client_certificate: { certificate: client.pem, key: client.key }\n",
        &format!("  - hop-l4\n{listed}  - {{ name: envoy, label: secure, features: [tls, mtls] }}\n"),
    );
    let directory = run_to_success(&world.scratch, &plan, &["--accept-void"]);
    assert_counted(&directory, |_| 1);
    let shown_credentials = "request certificate=SUCCESS token=none cipher=TLS_AES_128_GCM_SHA256 status=200";
    assert_eq!(world.shown_credentials(), [shown_credentials], "direct and every gateway alike");
    assert_kept_secret(&world, &directory);
    let said = report(&directory).to_string();
    assert!(said.contains("its own count of requests"), "{said}");
}

#[test]
fn a_token_is_sent_by_clients_and_reviewed_by_gateways() {
    needs!("envoy", "nginx-lua");
    let world = World::start("TLSv1.2");
    let plan = world.plan(
        "  token_file: token\n  client_certificate: { certificate: client.pem, key: client.key }\n",
        "  - hop-l4\n  - { name: envoy, label: passes }\n  - { name: envoy, label: asks, features: [tls, \
         token-review] }\n  - { name: nginx-lua, label: remembers, features: [{ token-review: 600s }] }\n",
    );
    let directory = run_to_success(&world.scratch, &plan, &["--accept-void"]);
    assert_counted(&directory, |who| if who == "asks" { 2 } else { 1 });
    let shown_credentials = world.shown_credentials();
    for line in [
        "request certificate=NONE token=right cipher=ECDHE-ECDSA-AES128-GCM-SHA256 status=200",
        "request certificate=SUCCESS token=right cipher=ECDHE-ECDSA-AES128-GCM-SHA256 status=200",
        "review certificate=SUCCESS token=none cipher=ECDHE-ECDSA-AES128-GCM-SHA256 status=201",
    ] {
        assert!(shown_credentials.iter().any(|one| one == line), "`{line}` is not in {shown_credentials:?}");
    }
    assert_kept_secret(&world, &directory);
    let document = report(&directory);
    for case in document["cases"].as_array().expect("cases") {
        let codes = case["findings"].as_array().expect("codes");
        let amplified = codes.iter().any(|code| code == "amplification");
        assert_eq!(amplified, case["gateway"] == "asks", "{}: {codes:?}", case["gateway"]);
    }
}

#[test]
fn refused_credentials_are_reported_before_measuring() {
    needs!("nginx");
    let world = World::start("TLSv1.3");
    let says = |plan: &str, part: &str| {
        let output = run(&world.scratch, plan, &[]);
        let reported = text(&output.stderr) + &text(&output.stdout);
        assert!(!output.status.success() && reported.contains(part), "{reported}");
    };
    says(
        &world.plan("", "  - hop-l4\n").replace("authority: ca.pem", "authority: client.pem"),
        &format!("cannot use https://{}", world.address),
    );
    says(
        &world.plan("", "  - hop-l4\n").replace("/instances/0/requests", "/no/such"),
        "`/no/such` selects nothing",
    );
    world.scratch.file("token", "two words");
    says(&world.plan("  token_file: token\n", "  - hop-l4\n"), "one line with a bearer token");
    says(
        &world.plan("  client_certificate: { certificate: ca.pem, key: client.key }\n", "  - hop-l4\n"),
        "does not belong to the first certificate",
    );
}

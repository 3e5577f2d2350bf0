//! Gateways in front of an upstream that requires a client certificate. Each gateway must send the
//! certificate, with each TLS version and also with token reviews.

use crate::features_extra::must_skip;
use crate::findings::two_ports;
use crate::support::PATIENCE;
use crate::support::server::{Response, Server};
use crate::world::{get, is_missing};
use hoptax_lab::concurrent::concurrently;
use hoptax_lab::features::{self, Credentials, FeatureVariables, TOKEN_REVIEW_PATH};
use hoptax_lab::packs::binary;
use hoptax_lab::render::{UpstreamAddress, Variables, render};
use hoptax_plan::{Feature, Profile};
use hoptax_servers::readiness;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;

const PACKS: [&str; 8] =
    ["nginx", "nginx-lua", "haproxy", "envoy", "caddy", "apache", "trafficserver", "nghttpx"];

/// TLS configuration for one TLS version. It requires a client certificate that `made`'s authority signed.
fn strict(
    made: &Credentials,
    version: &'static rustls::SupportedProtocolVersion,
) -> Arc<rustls::ServerConfig> {
    let certificate = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate(&made.authority)).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let key = PrivateKeyDer::from_pem_slice(made.server.key.as_bytes()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_client_cert_verifier(clients.build().expect("a verifier"))
        .with_single_cert(vec![certificate(&made.server.certificate)], key);
    Arc::new(config.expect("they fit"))
}

/// A server that answers every request with the TLS version of the connection. It answers a token review with
/// 201, like an API server.
fn upstream(config: Arc<rustls::ServerConfig>) -> Server {
    Server::over(Some(config), |request| {
        if request.path != TOKEN_REVIEW_PATH {
            return Response::new(200, format!("{:?}", request.tls));
        }
        let verdict = match request.body.contains("\"good\"") {
            true => r#""authenticated":true,"user":{"username":"somebody"}"#,
            false => r#""user":{}"#,
        };
        let review = format!(r#"{{"kind":"TokenReview","status":{{{verdict}}}}}"#);
        Response::new(201, review).with("content-type", "application/json")
    })
}

/// A gateway's process. When dropped, it is stopped together with its workers.
struct Gateway {
    child: Child,
    address: SocketAddr,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Starts `pack` in front of `upstream`. If `shows` is true, the gateway has a client certificate.
fn start(
    pack: &str,
    features: &[Feature],
    made: &Credentials,
    upstream: SocketAddr,
    shows: bool,
    directory: &Path,
) -> Gateway {
    let packs = crate::world::packs();
    let pack = packs.get(pack).expect("a pack");
    let [port, admin_port] = two_ports().map(|address| address.port());
    let directory = &directory.join(port.to_string());
    std::fs::create_dir(directory).expect("made");
    let dir = directory.to_string_lossy().into_owned();
    let mut reported = FeatureVariables::new(features, made, &dir);
    let secure =
        reported.upstream_tls.as_mut().and_then(|value| value.as_object_mut()).expect("TLS to the upstream");
    secure.insert("external".into(), true.into());
    if shows {
        let files = [
            ("certificate", made.client.certificate.clone()),
            ("key", made.client.key.clone()),
            ("bundle", made.client.certificate.clone() + &made.client.key),
        ];
        for (name, text) in files {
            let path = directory.join(format!("shown-{name}.pem"));
            std::fs::write(&path, text).expect("written");
            secure.insert(name.into(), path.to_string_lossy().into());
        }
    }
    let variables = Variables {
        binary: binary::find(pack).expect("installed").to_string_lossy().into_owned(),
        port,
        admin_port,
        upstreams: vec![UpstreamAddress {
            host: upstream.ip().to_string(),
            port: upstream.port(),
            socket: None,
        }],
        features: reported,
        asked: features.to_vec(),
        log_dir: dir.clone(),
        dir,
        root: rustix::process::geteuid().is_root(),
        ..Variables::sample(Profile::Equalised, None)
    };
    let rendered = render(pack, &variables).expect("nothing wrong");
    rendered.write(directory).expect("written");
    features::write_files(features, made, directory).expect("written");
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut command = Command::new(&rendered.start[0]);
    command.args(&rendered.start[1..]).envs(&rendered.environment).current_dir(directory);
    let child = command.spawn().expect("starts");
    let mut gateway = Gateway { child, address: local(port) };
    let probe = readiness::Probe {
        address: local(admin_port),
        path: rendered.ready_path.clone(),
        status: 200,
        accepting: local(port),
        timeout: PATIENCE,
        http2: false,
        over_tls: None,
    };
    let ready = readiness::wait(&probe, || gateway.child.try_wait().is_ok_and(|ended| ended.is_some()));
    ready.unwrap_or_else(|met| panic!("{}: {met:?}", pack.name()));
    gateway
}

#[test]
fn gateways_send_their_client_certificate() {
    let installed: Vec<&str> = PACKS.into_iter().filter(|pack| !is_missing(pack)).collect();
    concurrently(4, &installed, |pack| sends_its_certificate(pack));
}

#[test]
fn traefik_sends_its_client_certificate() {
    if !must_skip("traefik") {
        sends_its_certificate("traefik");
    }
}

fn sends_its_certificate(pack: &str) {
    let features = [Feature::UpstreamTls];
    let made = Credentials::make(&features).expect("made");
    // If a client closes its connection, nghttpx closes the one to the upstream too. A request that comes
    // meanwhile has a 502.
    let reuses = pack != "nghttpx";
    for (version, reported, shown) in [(&TLS12, "TLSv1_2", &[true][..]), (&TLS13, "TLSv1_3", &[true, false])]
    {
        let upstream = upstream(strict(&made, version));
        for &shows in shown {
            let directory = tempfile::tempdir().expect("a directory");
            let gateway = start(pack, &features, &made, upstream.address, shows, directory.path());
            let answer = get(gateway.address, "/some/path");
            let what = format!("{pack} {reported}, shows one: {shows}: {answer:?}");
            assert_eq!(answer.status == 200, shows, "{what}");
            assert_eq!(answer.body.contains(reported), shows, "{what}");
            if shows && reuses {
                assert_eq!(get(gateway.address, "/again").status, 200, "{what}");
            }
        }
        let asked = upstream.requests();
        let paths: Vec<_> = asked.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, ["/some/path", "/again"][..if reuses { 2 } else { 1 }], "{pack} {reported}");
        assert_eq!(upstream.connections(), 1, "{pack} {reported}: a connection is reused");
    }
}

#[test]
fn token_reviews_send_it_too_and_are_read() {
    for pack in ["nginx-lua", "envoy"].into_iter().filter(|pack| !is_missing(pack)) {
        let features = [Feature::UpstreamTls, Feature::TokenReview { cache_s: 0 }];
        let made = Credentials::make(&features).expect("made");
        let upstream = upstream(strict(&made, &TLS13));
        let directory = tempfile::tempdir().expect("a directory");
        let gateway = start(pack, &features, &made, upstream.address, true, directory.path());
        for (token, status) in [("good", 200), ("bad", 401)] {
            let reported = ask(gateway.address, token);
            assert!(reported.starts_with(&format!("HTTP/1.1 {status} ")), "{pack} {token}: {reported}");
        }
        let asked = upstream.requests();
        let paths: Vec<_> = asked.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, [TOKEN_REVIEW_PATH, "/", TOKEN_REVIEW_PATH], "{pack}");
    }
}

/// Some gateways cannot be installed here. For these gateways, the test checks only the rendered files. The
/// files must name the certificate in the setting that the gateway's manual documents.
#[test]
fn packs_from_documentation_name_the_certificate() {
    let packs = crate::world::packs();
    let rendered = |pack: &str, file: &str, shows: bool| {
        let mut variables =
            Variables::sample(Profile::Equalised, None).with_sample_features(vec![Feature::UpstreamTls]);
        let secure = variables.features.upstream_tls.as_mut().and_then(|value| value.as_object_mut());
        let secure = secure.expect("TLS to the upstream");
        secure.insert("external".into(), true.into());
        for name in ["certificate", "key", "bundle"].into_iter().filter(|_| shows) {
            secure.insert(name.into(), format!("/shown/{name}.pem").into());
        }
        let rendered = render(packs.get(pack).expect("a pack"), &variables).expect("nothing wrong");
        rendered.files.into_iter().find(|one| one.name == file).expect("a file").text
    };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");

    for shows in [true, false] {
        let kong = rendered("kong", "kong.conf", shows);
        assert_eq!(
            kong.contains("\nclient_ssl = on\nclient_ssl_cert = /shown/certificate.pem\n"),
            shows,
            "{kong}"
        );
        let traefik = crate::support::yaml::read(&rendered("traefik", "dynamic.yml", shows)).expect("YAML");
        let shown = &traefik["http"]["serversTransports"]["upstreams"]["certificates"][0]["keyFile"];
        assert_eq!(shown == "/shown/key.pem", shows, "{traefik}");
        let krakend = &json(&rendered("krakend", "krakend.json", shows))["client_tls"];
        assert_eq!(krakend["client_certs"][0]["private_key"] == "/shown/key.pem", shows, "{krakend}");
        assert_eq!(krakend["min_version"], "TLS12");
        let tyk = json(&rendered("tyk", "api.json", shows));
        assert_eq!(tyk["upstream_certificates"]["*"] == "/shown/bundle.pem", shows, "{tyk}");
        let versions = json(&rendered("tyk", "tyk.conf", shows));
        assert_eq!(versions["proxy_ssl_min_version"], 771, "{versions}");
        assert_eq!(versions["proxy_ssl_max_version"], 772, "{versions}");
        let apisix = rendered("apisix", "config.yaml", shows);
        assert_eq!(apisix.contains("proxy_ssl_certificate_key /shown/key.pem;"), shows, "{apisix}");
        let yarp = json(&rendered("yarp", "hoptax.json", shows));
        assert_eq!(yarp["upstreamCertificate"] == "/shown/certificate.pem", shows, "{yarp}");
        let pipy = rendered("pipy", "main.js", shows);
        assert_eq!(pipy.contains("new crypto.PrivateKey(os.read('/shown/key.pem'))"), shows, "{pipy}");
        let cluster = &json(&rendered("kubegateway", "cluster.json", shows))["spec"]["clientConfig"];
        assert_eq!(cluster["certData"] == "@certificate@", shows, "{cluster}");
        let start = rendered("kubegateway", "start.sh", shows);
        assert_eq!(start.contains("s#@key@#$(base64 <\"/shown/key.pem\""), shows, "{start}");
    }
}

fn ask(address: SocketAddr, token: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let text = format!(
        "GET / HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

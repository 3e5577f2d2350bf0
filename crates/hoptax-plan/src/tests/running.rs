//! Upstreams and gateways that already run.

use super::*;
use crate::selector::SelectorKind;
use crate::{Access, CertificateFiles, Feature, LedgerSource, Resolve, TlsAccess};
use hoptax_format::spec::ProxyProtocol;
use std::path::{Path, PathBuf};

/// Creates a directory with the files that the plans of these tests name.
pub(super) fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in [
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"),
        ("client.pem", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"),
        ("client.key", "-----BEGIN EC PRIVATE KEY-----\nMII\n-----END EC PRIVATE KEY-----\n"),
        ("token", "abc\n"),
    ] {
        std::fs::write(directory.path().join(name), text).expect("written");
    }
    directory
}

fn read(text: &str, directory: &Path) -> Result<Plan, String> {
    let pack = |name: &str, features: &[&str], unsupported: &[(&str, &str)]| PackInfo {
        name: name.to_owned(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        unsupported: unsupported.iter().map(|(what, why)| ((*what).to_owned(), (*why).to_owned())).collect(),
        ..PackInfo::default()
    };
    let known = vec![
        pack("envoy", &["key-auth", "jwt-hs256", "tls", "upstream-tls", "token-review"], &[]),
        pack("plain", &["key-auth", "proxy-protocol"], &[("upstream-tls", "it was built without TLS")]),
        pack(
            "shy",
            &["upstream-tls", "token-review"],
            &[("client-certificate", "it has none"), ("token-review-external", "it sends no body")],
        ),
        pack("alone", &[], &[("workers", "it has one thread"), ("access_log", "it writes none")]),
    ];
    let context = Context { cpus: 4, known, directory: directory.to_owned() };
    parse("plans/x.yaml", text, &[], &context).map_err(|errors| errors.to_string())
}

const LOAD: &str = "load: [{ loop: closed, connections: 1 }]\n";
const SECURE: &str = "url: \"https://127.0.0.1:6443\", server_name: api.test, authority: ca.pem";

#[test]
fn an_upstream_over_tls_has_a_name_an_authority_and_credentials() {
    let directory = directory();
    let text = format!(
        "upstream: {{ {SECURE}, client_certificate: {{ certificate: ca.pem, key: client.key }}, token_file: \
         token, resolve: first, pid: 4711, ledger: {{ select: 'requests_total{{verb=\"GET\"}}' }} }}\n\
         gateways: [hop-l4, envoy, {{ name: envoy, label: asks, features: [token-review] }}]\n{LOAD}"
    );
    let plan = read(&text, directory.path()).unwrap_or_else(|error| panic!("{error}"));
    let file = |name: &str| directory.path().join(name);
    let expected = Running {
        url: "https://127.0.0.1:6443".into(),
        access: Access {
            tls: Some(TlsAccess {
                server_name: "api.test".into(),
                authority: Some(file("ca.pem")),
                client_certificate: Some(CertificateFiles {
                    certificate: file("ca.pem"),
                    key: file("client.key"),
                }),
                insecure: false,
            }),
            token_file: Some(file("token")),
            resolve: Resolve::First,
            ..Access::default()
        },
        pid: Some(4711),
        ledger: Some(LedgerSource {
            url: None,
            path: "/metrics".into(),
            kind: SelectorKind::Prometheus,
            select: vec!["requests_total{verb=\"GET\"}".into()],
        }),
    };
    assert_eq!(plan.upstream, Upstream::Running(expected));
    assert_eq!(kept(&plan), plan);
}

#[test]
fn an_external_gateway_can_use_the_systems_authorities() {
    let text = format!("gateways: [{{ name: external, url: \"https://gate.test\" }}]\n{LOAD}");
    let plan = read(&text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"));
    let tls = TlsAccess { server_name: "gate.test".into(), ..TlsAccess::default() };
    let access = Access { tls: Some(tls), ..Access::default() };
    let url = "https://gate.test:443".to_owned();
    assert_eq!(
        plan.gateways[0].kind,
        GatewayKind::External { url, pid: None, access, prometheus: None, pods: None }
    );
}

#[test]
fn a_certificate_can_have_an_address_as_its_only_name_or_be_accepted_unseen() {
    let directory = directory();
    let access = |keys: &str| {
        let text = format!(
            "upstream: {{ url: \"https://127.0.0.1:1\", {keys} }}\n\
             gateways: [{{ name: external, url: \"https://[::1]:2\", {keys} }}]\n{LOAD}"
        );
        let plan = read(&text, directory.path()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(kept(&plan), plan);
        let Upstream::Running(upstream) = &plan.upstream else { panic!("running") };
        let GatewayKind::External { access, .. } = &plan.gateways[0].kind else { panic!("external") };
        [&upstream.access, access].map(|access| access.tls.clone().expect("https"))
    };
    let [upstream, gateway] = access("authority: ca.pem");
    assert_eq!((upstream.server_name.as_str(), gateway.server_name.as_str()), ("127.0.0.1", "::1"));
    let [named, _] = access("authority: ca.pem, server_name: 10.0.0.1");
    assert_eq!(named.server_name, "10.0.0.1");
    assert!(access("insecure: true").iter().all(|tls| tls.insecure && tls.authority.is_none()));
}

#[test]
fn only_a_gateway_that_already_runs_has_its_own_token() {
    let directory = directory();
    let read = |gateway: &str| read(&format!("gateways: [{gateway}]\n{LOAD}"), directory.path());
    let plan = read("{ name: external, url: \"http://a.c\", token_file: token }");
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let GatewayKind::External { access, .. } = &plan.gateways[0].kind else { panic!("external") };
    assert_eq!(access.token_file, Some(directory.path().join("token")));
    let error = read("{ name: envoy, token_file: token }").expect_err("hoptax starts it");
    insta::assert_snapshot!(error);
}

#[test]
fn connections_can_begin_with_the_proxy_protocol() {
    let at = Path::new(".");
    let plan = |upstream: &str, gateway: &str| {
        read(&format!("upstream: {{ {upstream} }}\ngateways: [{gateway}]\n{LOAD}"), at)
    };
    let own = "url: \"http://a.b\", proxy_protocol: v2";
    let external = "{ name: external, url: \"http://a.c\", proxy_protocol: v1 }";
    let both = plan(own, external).unwrap_or_else(|error| panic!("{error}"));
    let Upstream::Running(upstream) = &both.upstream else { panic!("running") };
    let GatewayKind::External { access, .. } = &both.gateways[0].kind else { panic!("external") };
    assert_eq!(upstream.access.proxy_protocol, Some(ProxyProtocol::V2));
    assert_eq!(access.proxy_protocol, Some(ProxyProtocol::V1));
    assert_eq!(kept(&both), both);
    let features = |features: &str| {
        let plan = plan("status: 200", &format!("{{ name: plain, features: [{features}] }}"));
        plan.unwrap_or_else(|error| panic!("{error}")).gateways[0].features().to_vec()
    };
    assert_eq!(features("proxy-protocol"), [Feature::ProxyProtocol(ProxyProtocol::V2)]);
    assert_eq!(features("{ proxy-protocol: v1 }"), [Feature::ProxyProtocol(ProxyProtocol::V1)]);
    let told = [
        ("status: 200", "{ name: external, url: \"http://a.c\", proxy_protocol: v3 }"),
        ("status: 200", "{ name: plain, features: [{ proxy-protocol: on }] }"),
        ("status: 200", "{ name: plain, proxy_protocol: v1 }"),
        ("status: 200", "{ name: envoy, features: [proxy-protocol] }"),
        ("proxy_protocol: v1", external),
        (own, "plain"),
        (own, "hop-l4"),
    ]
    .map(|(upstream, gateway)| {
        refusal(&format!("{upstream} | {gateway}"), &plan(upstream, gateway).expect_err("refused"))
    })
    .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn prometheus_can_know_the_cpu_time_of_an_external_gateway() {
    let of = |keys: &str| {
        let text = format!("gateways: [{{ name: external, url: \"http://a.b\", {keys} }}]\n{LOAD}");
        read(&text, Path::new(".")).map_err(|error| error.to_string())
    };
    let watch = |url: &str, cpu: &str| {
        format!("watch: {{ prometheus: {{ url: \"{url}\", cpu: '{cpu}', memory: m }} }}")
    };
    let plan = of(&watch("http://m:9090", "cpu{job=\"a\"}")).unwrap_or_else(|error| panic!("{error}"));
    let expected =
        Prometheus { url: "http://m:9090".into(), cpu: "cpu{job=\"a\"}".into(), memory: "m".into() };
    let GatewayKind::External { prometheus, .. } = &plan.gateways[0].kind else { panic!("external") };
    assert_eq!(*prometheus, Some(expected));
    assert_eq!(kept(&plan), plan);
    let told = refusals(
        &[
            &watch("https://m:9090", "cpu"),
            &watch("http://m:9090", "rate(cpu[1m])"),
            &watch("http://m:9090", "cpu[1m]"),
            &watch("http://m:9090", " "),
            "watch: { prometheus: { url: \"http://m:9090\", cpu: a } }",
            &format!("pid: 7, {}", watch("http://m:9090", "cpu")),
        ],
        |keys| of(keys).expect_err("refused"),
    );
    insta::assert_snapshot!(told);
    let packs = format!("gateways: [{{ name: nginx, {} }}]\n{LOAD}", watch("http://m:9090", "cpu"));
    let shown = read(&packs, Path::new(".")).expect_err("refused").to_string();
    insta::assert_snapshot!(shown);
}

#[test]
fn pods_can_be_watched() {
    let of = |watch: &str| {
        let text =
            format!("gateways: [{{ name: external, url: \"http://a.b\", watch: {{ {watch} }} }}]\n{LOAD}");
        read(&text, Path::new(".")).map_err(|error| error.to_string())
    };
    let plan = of("kubernetes: { selector: \"app=edge,tier!=b\", container: c, namespace: n, context: x }");
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let GatewayKind::External { pods, prometheus: None, .. } = &plan.gateways[0].kind else {
        panic!("external")
    };
    let owned = |text: &str| Some(text.to_owned());
    let (container, namespace, context) = (owned("c"), owned("n"), owned("x"));
    let selector = "app=edge,tier!=b".to_owned();
    assert_eq!(*pods, Some(WatchedPods { selector, container, namespace, context }));
    assert_eq!(kept(&plan), plan);
    let told = refusals(
        &[
            "kubernetes: { selector: -a }",
            "kubernetes: { selector: a, container: A }",
            "",
            "kubernetes: { selector: a }, prometheus: { url: \"http://m:1\", cpu: a, memory: b }",
        ],
        |watch| of(watch).expect_err("refused"),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn wrong_access_is_refused() {
    let directory = directory();
    let certificate = "client_certificate: { certificate: ca.pem, key: client.key }";
    let place = directory.path().display().to_string();
    let told = [
        ("url: \"https://127.0.0.1:1\", authority: ca.pem", "envoy"),
        ("url: \"https://api.test\"", "envoy"),
        ("url: \"https://api.test\", insecure: true", "envoy"),
        (&format!("{SECURE}, insecure: true"), "hop-l4"),
        ("url: \"http://a.b\", insecure: true", "hop-l4"),
        ("url: \"https://a.b\", server_name: \"a b\", authority: ca.pem", "envoy"),
        ("url: \"http://a.b\", authority: ca.pem", "envoy"),
        ("url: \"https://a.b\", authority: none.pem", "envoy"),
        ("url: \"https://a.b\", authority: token", "envoy"),
        ("authority: ca.pem", "envoy"),
        ("url: \"http://a.b\", ledger: { select: 'a{b}' }", "envoy"),
        ("url: \"http://a.b\", ledger: { select: a, path: metrics }", "envoy"),
        ("url: \"http://a.b\", ledger: { select: a, url: \"https://a.b\" }", "envoy"),
        ("url: \"http://a.b\", pid: 0", "envoy"),
        (SECURE, "hop-l7"),
        (SECURE, "plain"),
        (&format!("{SECURE}, {certificate}"), "shy"),
        (SECURE, "{ name: envoy, features: [upstream-tls] }"),
        (SECURE, "{ name: envoy, features: [token-review] }"),
        (&format!("{SECURE}, token_file: token"), "{ name: envoy, features: [jwt] }"),
        (&format!("{SECURE}, token_file: token"), "{ name: shy, features: [token-review] }"),
        ("instances: 1", "{ name: envoy, authority: ca.pem }"),
    ]
    .map(|(upstream, gateways)| {
        let text = format!("upstream: {{ {upstream} }}\ngateways: [{gateways}]\n{LOAD}");
        let shown = read(&text, directory.path()).expect_err(&text);
        refusal(&format!("{upstream} | {gateways}"), &shown.replace(&place, "PLAN"))
    })
    .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn a_matrix_has_only_features_that_the_running_upstream_allows() {
    let directory = directory();
    let labels = |more: &str| {
        let text =
            format!("upstream: {{ {SECURE}{more} }}\ngateways: [{{ name: envoy, features: each }}]\n{LOAD}");
        let plan = read(&text, directory.path()).unwrap_or_else(|error| panic!("{error}"));
        plan.gateways.into_iter().map(|gateway| gateway.label).collect::<Vec<_>>()
    };
    assert_eq!(labels(""), ["envoy", "envoy.key-auth", "envoy.jwt-hs256", "envoy.tls"]);
    assert_eq!(labels(", token_file: token"), ["envoy", "envoy.key-auth", "envoy.tls", "envoy.token-review"]);
}

#[test]
fn a_target_can_expect_the_rate_limit_of_an_external_gateway() {
    let of = |gateway: &str, limit: &str| {
        let text = format!("gateways: [{gateway}]\ntarget: {{ expect: {{ rate_limit: {limit} }} }}\n{LOAD}");
        read(&text, Path::new("."))
    };
    let external = "{ name: external, url: \"http://a.b\" }";
    let plan = of(external, "1000/s").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.targets[0].rate_limit, Some(1000));
    assert_eq!(kept(&plan), plan);
    let refused = [of(external, "0.5/s"), of("envoy", "1000/s")];
    insta::assert_snapshot!(refused.map(|result| result.expect_err("refused")).join("\n\n"));
}

#[test]
fn bodies_of_a_target_can_vary() {
    let text = format!(
        "gateways: [hop-l4]\ntarget: {{ path: /now, expect: {{ varies: true, ignore_headers: [Age, \
        cache-control] }} }}\n{LOAD}"
    );
    let plan = read(&text, &PathBuf::new()).unwrap_or_else(|error| panic!("{error}"));
    assert!(plan.targets[0].varies);
    assert_eq!(plan.targets[0].ignore_headers, ["age", "cache-control"]);
}

#[test]
fn settings_that_a_pack_does_not_support_are_refused() {
    let directory = directory();
    let read = |text: &str| read(&format!("{text}{LOAD}"), directory.path());
    let error = |text: &str| read(text).expect_err(text);
    let several = error("gateways: [{ name: alone, workers: 2 }]\n");
    insta::assert_snapshot!(several);
    let log = error("access_log: file\ngateways: [envoy, alone]\n");
    insta::assert_snapshot!(log);
    for fine in ["gateways: [alone]\n", "profile: stock\ngateways: [{ name: alone, workers: 2 }]\n"] {
        assert!(read(fine).is_ok(), "{fine}");
    }
}

use super::*;
use crate::features::JsonCalls;
use crate::packs::PackSet;

fn pack(manifest_more: &str, template: &str) -> Result<Pack, PackError> {
    let manifest = format!(
        "name: mine\nsummary: a test\nbinary: mine\nversion: {{ command: [\"{{{{ binary }}}}\", -v], \
         pattern: '(.+)' }}\nfiles: [{{ template: a.j2, to: sub/a.conf }}]\nready: {{ path: / \
         }}\naccess_log: file\n{manifest_more}"
    );
    let files = [("a.j2".to_owned(), template.to_owned())].into();
    crate::packs::parse("packs/mine", manifest, files)
}

fn sample() -> Variables {
    Variables::sample(Profile::Equalised, None)
}

#[test]
fn files_arguments_environment_and_settings_are_rendered() {
    let more = "start: [\"{{ binary }}\", --port, \"{{ port }}\", '{{ \"--log\" if access_log }}']\n\
                environment: { WORKERS: \"{{ workers }}\" }\n\
                settings: { equalised: [{ setting: \"workers {{ workers }}\", reason: alike }] }\n";
    let template = "listen {{ port }}\n{% for upstream in upstreams %}to {{ upstream.host }}:{{ \
        upstream.port }}\n{% endfor %}";
    let pack = pack(more, template).expect("nothing wrong");
    let rendered = render(&pack, &sample()).expect("nothing wrong");
    assert_eq!(rendered.files[0].name, "sub/a.conf");
    assert_eq!(rendered.files[0].text, "listen 20001\nto 127.0.0.1:20003\n");
    assert_eq!(
        rendered.start,
        ["/usr/bin/gateway", "--port", "20001"],
        "what renders to nothing is left out"
    );
    assert_eq!(rendered.environment["WORKERS"], "1");
    assert_eq!(rendered.settings, [Setting { setting: "workers 1".into(), reason: "alike".into() }]);

    let stock = render(&pack, &Variables { profile: Profile::Stock, ..sample() }).expect("nothing wrong");
    assert_eq!(stock.settings, []);

    let directory = tempfile::tempdir().expect("a directory");
    rendered.write(directory.path()).expect("written");
    let written = std::fs::read_to_string(directory.path().join("sub/a.conf")).expect("there");
    assert_eq!(written, rendered.files[0].text);
}

#[test]
fn an_ipv6_address_has_brackets_only_beside_its_port() {
    let template = "{{ address }} {{ listen }} {{ upstreams[0].host }} {{ upstreams[0].host_port }}";
    let more = "start: [a]\nreload: { request: { method: POST, path: \"/{{ listen }}\" } }\n";
    let pack = pack(more, template).expect("nothing wrong");
    for (address, upstream, expected, path) in [
        ("10.0.0.2", "10.0.0.3", "10.0.0.2 10.0.0.2:20001 10.0.0.3 10.0.0.3:80", "/10.0.0.2:20001"),
        ("fd00::2", "fd00::3", "fd00::2 [fd00::2]:20001 fd00::3 [fd00::3]:80", "/[fd00::2]:20001"),
    ] {
        let address = address.parse().expect("an address");
        let upstreams = vec![UpstreamAddress { host: upstream.into(), port: 80, socket: None }];
        let variables = Variables { address, upstreams, ..sample() };
        assert_eq!(render(&pack, &variables).expect("nothing wrong").files[0].text, expected);
        let asked = Reload::Request("POST".into(), path.into());
        assert_eq!(reload(&pack, &variables).expect("nothing wrong"), Some(asked));
    }
}

#[test]
fn a_feature_adds_its_settings_in_both_profiles() {
    let more = "start: [a]\nfeatures: [key-auth, tls]\n\
                settings:\n  equalised: [{ setting: workers, reason: alike }]\n  features:\n    \
                key-auth: [{ setting: \"keys of {{ features.key_auth.header }}\", reason: asked for }]\n    \
                tls: [{ setting: \"{% if features.key_auth %}{% endif %}\", reason: nothing }]\n";
    let pack = pack(more, "").expect("nothing wrong");
    let settings = |profile, features: &[Feature]| {
        let variables = Variables::sample(profile, None).with_sample_features(features.to_vec());
        let settings = render(&pack, &variables).expect("nothing wrong").settings;
        settings.into_iter().map(|setting| setting.setting).collect::<Vec<_>>()
    };
    assert_eq!(settings(Profile::Equalised, &[]), ["workers"]);
    let both = [Feature::KeyAuth, Feature::Tls];
    assert_eq!(settings(Profile::Equalised, &both), ["workers", "keys of x-api-key"]);
    assert_eq!(settings(Profile::Stock, &both), ["keys of x-api-key"]);
}

#[test]
fn a_needed_file_is_taken_from_its_actual_path() {
    let directory = tempfile::tempdir().expect("a directory");
    let there = directory.path().join("one.so");
    let more = format!("start: [a]\nneeds: {{ module: [/nowhere/one.so, {}] }}\n", there.display());
    let pack = pack(&more, "load {{ needs.module }}").expect("nothing wrong");
    let load = || render(&pack, &sample()).expect("nothing wrong").files.remove(0);
    let before = load();
    assert_eq!(before.text, "load /nowhere/one.so", "the first possible path");
    std::fs::write(&there, "").expect("written");
    let after = load();
    assert_eq!(after.text, format!("load {}", there.display()));
    assert_eq!(before.digest, after.digest, "the same configuration on every machine");
}

#[test]
fn digests_differ_with_the_configuration_and_not_with_the_run() {
    let pack = pack(
        "start: [\"{{ binary }}\"]\n",
        "{{ listen }} {{ address }} {{ dir }} {{ upstreams }} workers={{ workers }}",
    )
    .expect("nothing wrong");
    let digest = |variables: &Variables| {
        render(&pack, variables).expect("nothing wrong").digests()["sub/a.conf"].clone()
    };
    let one = sample();
    let elsewhere = Variables {
        port: 4711,
        dir: "/elsewhere".into(),
        address: "10.0.0.2".parse().expect("an address"),
        upstreams: vec![UpstreamAddress { host: "10.0.0.3".into(), port: 4712, socket: None }],
        ..sample()
    };
    assert_eq!(digest(&one), digest(&elsewhere));
    assert_ne!(digest(&one), digest(&Variables { workers: 2, ..sample() }));
    let two = Variables { upstreams: [one.upstreams.clone(), one.upstreams.clone()].concat(), ..sample() };
    assert_ne!(digest(&one), digest(&two));
}

#[test]
fn the_digest_is_fnv_1a() {
    // Test vectors of draft-eastlake-fnv, appendix C.
    assert_eq!(digest(""), "cbf29ce484222325");
    assert_eq!(digest("a"), "af63dc4c8601ec8c");
    assert_eq!(digest("foobar"), "85944171f73967e8");
}

#[test]
fn mistakes_in_templates_are_reported_with_file_and_line() {
    let start = "start: [\"{{ binary }}\"]\n";
    let error_of = |more: &str, template: &str| pack(more, template).expect_err("it is wrong").to_string();

    let mut told = String::new();
    for template in [
        "one\ntwo {{ wrokers }}\n",
        "{% for upstream in upstreams %}\n{{ upstream.prt }}{% endfor %}",
        "one\n{{ features.tls.server_name }}\n",
        "one\n{{ [upstreams[7].host] }}\n",
        "one\n\n{% if %}\n",
        // The faulty variable is in one branch only. The check finds the fault, because it renders every
        // branch that a plan can reach.
        "{% if profile == 'stock' and access_log %}{{ nothing }}{% endif %}",
    ] {
        told += &format!("{template}\n=> {}\n", error_of(start, template));
    }
    told += &error_of("start:\n  - \"{{ binary }}\"\n  - \"{{ nothing }}\"\n", "");
    insta::assert_snapshot!(told);
}

#[test]
fn every_variable_is_named() {
    let names = Variables::names();
    for name in
        ["binary", "port", "admin_port", "upstreams", "workers", "profile", "access_log", "descriptors"]
    {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
}

#[test]
fn the_embedded_packs_keep_every_path_inside_the_run_directory_or_the_directory_for_sockets() {
    let packs = PackSet::load(None).expect("nothing wrong");
    for pack in packs.iter() {
        for profile in [Profile::Stock, Profile::Equalised] {
            let variables = Variables::sample(profile, Some(format!("/run-directory/logs/{ACCESS_LOG}")))
                .of(pack.manifest());
            let rendered = render(pack, &variables).expect("nothing wrong");
            for file in &rendered.files {
                let text =
                    file.text.replace("/run-directory/rendered/", "").replace(&variables.socket_dir, "");
                let outside = ["/var/", "/etc/", "/run/", "/tmp", "0.0.0.0"];
                // In its own namespace a sidecar listens on all addresses.
                let inside = |path: &str| path == "0.0.0.0" && pack.manifest().intercept.is_some();
                for path in outside {
                    assert!(
                        !text.contains(path) || inside(path),
                        "{} {profile:?}: {path} in\n{}",
                        pack.name(),
                        file.text
                    );
                }
            }
        }
    }
}

/// Renderings of a pack in both profiles, with and without TLS.
fn renderings(pack: &Pack, address: IpAddr) -> Vec<Rendered> {
    let offers_tls = pack.manifest().features.iter().any(|name| name == Feature::Tls.name());
    let mut all = Vec::new();
    for profile in [Profile::Stock, Profile::Equalised] {
        for features in [vec![], vec![Feature::Tls]].into_iter().take(1 + usize::from(offers_tls)) {
            let log = pack.manifest().access_log.map(|_| format!("/run-directory/logs/{ACCESS_LOG}"));
            let upstreams = vec![UpstreamAddress { host: "10.9.9.9".into(), port: 20003, socket: None }];
            let variables = Variables { address, upstreams, ..Variables::sample(profile, log) };
            let variables = variables.of(pack.manifest()).with_sample_features(features);
            all.push(render(pack, &variables).expect("nothing wrong"));
        }
    }
    all
}

/// Lines of embedded packs in which 127.0.0.1 is no address to listen on.
const NOT_LISTENERS: [(&str, &str); 2] = [
    ("apache", "ServerName 127.0.0.1"),
    ("trafficserver", "CONFIG proxy.config.dns.nameservers STRING 127.0.0.1"),
];

/// Packs whose gateway has no setting for the address: it listens on all addresses.
const EVERYWHERE: [&str; 2] = ["agentgateway", "ferro"];

#[test]
fn gateways_for_language_models_get_the_headers_that_they_need() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let rendered = |name: &str| render(packs.get(name).expect("embedded"), &sample()).expect("right");
    let headers = |name: &str| rendered(name).llm_headers;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert!(headers("nginx").is_empty());
    assert_eq!(headers("litellm"), [pair("authorization", "Bearer hoptax")]);
    let host = pair("x-portkey-custom-host", "http://127.0.0.1:20003/v1");
    assert_eq!(headers("portkey"), [host, pair("x-portkey-provider", "openai")]);
    let of_variant = |variant: &str| {
        let variables = Variables { variant: Some(variant.to_owned()), ..sample() };
        let pack = packs.get(&format!("portkey@{variant}")).expect("a variant");
        let all = render(pack, &variables).expect("right").llm_headers;
        all.into_iter().find(|(name, _)| name == "x-portkey-config").map(|(_, value)| value)
    };
    assert_eq!(of_variant("default"), None);
    assert_eq!(of_variant("retries").as_deref(), Some(r#"{"retry":{"attempts":2}}"#));
    for variant in ["fallback", "guardrail"] {
        let config = of_variant(variant).expect("a header");
        assert!(serde_json::from_str::<serde_json::Value>(&config).is_ok(), "{variant}: {config}");
    }
}

#[test]
fn gateways_for_language_models_use_all_instances_if_they_can_balance() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let at = |port| UpstreamAddress { host: "127.0.0.1".into(), port, socket: None };
    let two = Variables { upstreams: [20_003, 20_004].map(at).to_vec(), ..sample() };
    let mentions = |name: &str, variables: &Variables| {
        let rendered = render(packs.get(name).expect("embedded"), variables).expect("right");
        let mut headers = rendered.llm_headers.iter();
        rendered.mentions("20004") || headers.any(|(_, value)| value.contains("20004"))
    };
    for name in ["agentgateway", "litellm", "portkey", "vllm-router"] {
        assert!(mentions(name, &two), "{name}");
    }
    for name in ["bifrost", "ferro", "sglang-router", "tensorzero"] {
        assert!(!mentions(name, &two), "{name}");
    }
    for variant in ["default", "retries", "guardrail"] {
        let variables = Variables { variant: Some(variant.to_owned()), ..two.clone() };
        let headers = render(packs.get("portkey").expect("embedded"), &variables).expect("right").llm_headers;
        let value = |name: &str| headers.iter().find(|(one, _)| one == name).map(|(_, value)| value);
        let config = value("x-portkey-config").expect("a header");
        let config: serde_json::Value = serde_json::from_str(config).expect("JSON");
        assert_eq!(config["targets"][1]["custom_host"], "http://127.0.0.1:20004/v1", "{variant}");
        assert_eq!(value("x-portkey-custom-host"), None, "{variant}");
    }
}

#[test]
fn the_embedded_packs_listen_for_traffic_at_the_address_that_they_are_given() {
    let packs = PackSet::load(None).expect("nothing wrong");
    for pack in packs.iter() {
        let name = pack.name();
        let elsewhere = renderings(pack, "10.1.2.3".parse().expect("an address"));
        if pack.manifest().intercept.is_some() {
            assert_eq!(elsewhere, renderings(pack, LOOPBACK), "{name}: a sidecar has addresses of its own");
            continue;
        }
        for rendered in elsewhere {
            let texts = rendered.files.iter().map(|file| file.text.as_str());
            let texts = texts.chain(rendered.start.iter().map(String::as_str));
            let all: Vec<&str> =
                texts.chain(rendered.environment.values().map(String::as_str)).flat_map(str::lines).collect();
            assert!(
                EVERYWHERE.contains(&name) || all.iter().any(|line| line.contains("10.1.2.3")),
                "{name} does not listen there:\n{all:#?}"
            );
            for (index, line) in all.iter().enumerate() {
                let is_exempt = NOT_LISTENERS.contains(&(name, line.trim()));
                if !line.contains("127.0.0.1") || is_exempt {
                    continue;
                }
                // In some files the port is on the next line.
                let next = all.get(index + 1).copied().unwrap_or_default();
                let is_for_admin = line.contains("20002") || next.contains("20002");
                assert!(is_for_admin && !line.contains("127.0.0.1:20001"), "{name}: {line}");
            }
        }
    }
}

#[test]
fn http2_is_switched_on_for_loads_that_use_it() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let rendered = |name: &str, http2, streams, features: &[Feature]| {
        let variables = Variables { http2, streams, ..sample() }.with_sample_features(features.to_vec());
        let made = render(packs.get(name).expect("embedded"), &variables).expect("nothing wrong");
        let settings: Vec<String> = made.settings.iter().map(|one| one.setting.clone()).collect();
        (made.files[0].text.clone(), settings.join("\n"))
    };
    for (name, features, directive, of_streams, most) in [
        ("nginx", &[][..], "listen 127.0.0.1:20001 http2 backlog", "http2_max_concurrent_streams", 128),
        (
            "nginx",
            &[Feature::Tls],
            "listen 127.0.0.1:20001 ssl http2 backlog",
            "http2_max_concurrent_streams",
            128,
        ),
        ("haproxy", &[Feature::Tls], " alpn h2,http/1.1\n", "tune.h2.max-concurrent-streams", 100),
        ("envoy", &[Feature::Tls], "alpn_protocols: [h2, http/1.1]", "", u32::MAX),
    ] {
        let (on, settings) = rendered(name, true, 200, features);
        assert!(on.contains(directive) && on.contains(of_streams), "{name}: {on}");
        assert!(settings.contains("h2") || settings.contains("http2"), "{name}: {settings}");
        let (few, _) = rendered(name, true, most.min(8), features);
        assert!(few.contains(directive) && !few.contains("concurrent"), "{name}: {few}");
        let (off, _) = rendered(name, false, 1, features);
        assert!(!off.contains("http2") && !off.contains("h2"), "{name}: {off}");
    }
    assert!(rendered("nginx", true, 10, &[]).0.contains("    worker_connections 1612;\n"));
    assert!(rendered("nginx", true, 10, &[]).0.contains("        keepalive 1000;\n"));
}

#[test]
fn http2_to_upstreams_is_switched_on_for_gateways_of_the_plan() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let rendered = |name: &str, profile, upstream_http2, features: &[Feature]| {
        let sample = Variables { profile, upstream_http2, ..sample() };
        let variables = sample.with_sample_features(features.to_vec());
        let made = render(packs.get(name).expect("embedded"), &variables).expect("nothing wrong");
        let is_reported = made.settings.iter().any(|one| one.reason.contains("`upstream_http: 2`"));
        let files: String = made.files.iter().map(|file| file.text.as_str()).collect();
        (files, is_reported)
    };
    for (name, features, directive) in [
        ("haproxy", &[][..], "    server upstream1 127.0.0.1:20003 proto h2"),
        ("haproxy", &[Feature::UpstreamTls], " alpn h2"),
        ("envoy", &[], "http2_protocol_options: {"),
        ("envoy", &[Feature::UpstreamTls], "alpn_protocols: [h2]\n"),
        ("apache", &[], "    ProxyPass / h2c://127.0.0.1:20003/"),
        ("apache", &[Feature::UpstreamTls], "    ProxyPass / h2://127.0.0.1:20003/"),
        ("caddy", &[], "\t\t\tversions h2c 2\n"),
        ("traefik", &[], "url: \"h2c://127.0.0.1:20003\""),
        ("traefik", &[Feature::UpstreamTls], "url: \"https://127.0.0.1:20003\""),
        ("tyk", &[], "\"target_url\": \"h2c://127.0.0.1:20003/\""),
        ("yarp", &[], "\"Version\": \"2\""),
        ("ocelot", &[], "\"DownstreamHttpVersion\": \"2.0\""),
    ] {
        for profile in [Profile::Stock, Profile::Equalised] {
            let (on, is_reported) = rendered(name, profile, true, features);
            assert!(on.contains(directive) && is_reported, "{name} {profile:?}: {on}");
            assert!(!on.contains("disableHTTP2"), "{name}: {on}");
            let (off, is_reported) = rendered(name, profile, false, features);
            // Over TLS, Traefik speaks HTTP/2 by default.
            let is_default = name == "traefik" && !features.is_empty() && profile == Profile::Stock;
            assert!((off == on) == is_default && !is_reported, "{name} {profile:?}: {off}");
        }
    }
    for pack in packs.iter() {
        let manifest = pack.manifest();
        let has_reason = manifest.unsupported.contains_key("upstream_http2");
        assert_ne!(manifest.upstream_http2, has_reason, "{}: it can, or says why not", pack.name());
    }
    // 100 connections may share one, with as many streams as there are requests in flight.
    let shared = |connections| {
        let variables = Variables { connections, upstream_http2: true, ..sample() };
        let made = render(packs.get("haproxy").expect("embedded"), &variables).expect("nothing wrong");
        made.files[0]
            .text
            .lines()
            .find_map(|line| line.trim().strip_prefix("tune.h2.max-concurrent-streams ").map(str::to_owned))
    };
    assert_eq!(shared(100), None);
    assert_eq!(shared(101).as_deref(), Some("101"));
    assert_eq!(shared(5000).as_deref(), Some("1000"));
}

#[test]
fn calls_have_directives_of_their_own_where_gateways_need_them() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let rendered = |name: &str, grpc: Option<GrpcVariables>, upstream_http2, features: &[Feature]| {
        let sample = Variables { http2: true, upstream_http2, grpc, ..sample() };
        let variables = sample.with_sample_features(features.to_vec());
        let made = render(packs.get(name).expect("embedded"), &variables).expect("nothing wrong");
        made.files.iter().map(|file| file.text.as_str()).collect::<String>()
    };
    let calls = |is_mixed| Some(GrpcVariables { paths: vec!["/echo.Echo/Say".into()], is_mixed });
    let nginx = rendered("nginx", calls(false), false, &[]);
    assert!(nginx.contains("location / { grpc_pass grpc://upstreams; }"), "{nginx}");
    assert!(!nginx.contains("proxy_pass"), "{nginx}");
    // Lists of upstreams keep connections, so calls and other requests need one each.
    let mixed = rendered("nginx", calls(true), false, &[]);
    for directive in [
        "location = /echo.Echo/Say { grpc_pass grpc://calls; }",
        "location / { proxy_pass http://upstreams; }",
        "    upstream calls {",
    ] {
        assert!(mixed.contains(directive), "`{directive}`: {mixed}");
    }
    let tls = rendered("nginx", calls(false), false, &[Feature::UpstreamTls]);
    assert!(tls.contains("grpcs://upstreams") && tls.contains("grpc_ssl_verify on;"), "{tls}");
    assert!(!rendered("nginx", None, false, &[]).contains("grpc"));
    // Streams outlive Envoy's default time limits.
    let envoy = rendered("envoy", calls(false), true, &[]);
    assert!(envoy.contains("timeout: 0s") && envoy.contains("stream_idle_timeout: 0s"), "{envoy}");
    assert!(!rendered("envoy", None, true, &[]).contains("timeout: 0s"));
}

#[test]
fn websockets_and_events_have_settings_of_their_own() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let rendered = |name: &str, profile, websocket, sse| {
        let variables = Variables { profile, websocket, sse, ..sample() };
        render(packs.get(name).expect("embedded"), &variables).expect("nothing wrong")
    };
    for (name, websocket, sse, needed, limits) in [
        ("nginx", true, false, "proxy_set_header Upgrade $http_upgrade;", "proxy_read_timeout 1h;"),
        ("nginx", false, true, "", "proxy_buffering off;"),
        ("haproxy", true, false, "", "timeout tunnel 1h"),
        ("envoy", true, false, "upgrade_configs: [{ upgrade_type: websocket }]", "stream_idle_timeout: 0s"),
        ("envoy", false, true, "", "timeout: 0s"),
        ("apache", true, false, "upgrade=websocket", "\nTimeout 3600"),
    ] {
        let as_shipped = rendered(name, Profile::Stock, websocket, sse);
        let alike = rendered(name, Profile::Equalised, websocket, sse);
        assert!(as_shipped.mentions(needed) && alike.mentions(needed), "{name}: {needed}");
        assert!(!as_shipped.mentions(limits) && alike.mentions(limits), "{name}: {limits}");
        let plain = rendered(name, Profile::Equalised, false, false);
        assert!(!plain.mentions(limits) && (needed.is_empty() || !plain.mentions(needed)), "{name}");
        assert!(alike.settings.len() > plain.settings.len(), "{name}: the settings are listed");
    }
}

#[test]
fn envoy_translates_the_calls_of_the_plan() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let envoy = |descriptors: &str| {
        let sample = Variables { http2: true, upstream_http2: true, ..sample() };
        let sample = sample.with_sample_features(vec![Feature::GrpcJson]);
        let services = vec!["shop.Orders".to_owned()];
        let calls = JsonCalls { services, descriptors: descriptors.to_owned(), ..JsonCalls::default() };
        let features = sample.features.clone().with_calls(&calls);
        let rendered = render(packs.get("envoy").expect("embedded"), &Variables { features, ..sample });
        rendered.expect("nothing wrong").files.remove(0)
    };
    let (one, other) = (envoy("Zmlyc3Q="), envoy("c2Vjb25k"));
    for setting in ["services: [\"shop.Orders\"]", "proto_descriptor_bin: \"Zmlyc3Q=\""] {
        assert!(one.text.contains(setting), "{setting}: {}", one.text);
    }
    assert_ne!(one.digest, other.digest, "another `.proto` file is another configuration");
}

#[test]
fn calls_are_found_among_the_targets() {
    let call = |path: &str| Target { grpc: true, ..Target::get(path) };
    let of = |targets: &[Target]| GrpcVariables::of(targets);
    assert_eq!(of(&[Target::get("/")]), None);
    let found = |paths: &[&str], is_mixed| {
        Some(GrpcVariables { paths: paths.iter().map(|path| (*path).to_owned()).collect(), is_mixed })
    };
    assert_eq!(of(&[call("/b/B"), call("/a/A"), call("/b/B")]), found(&["/a/A", "/b/B"], false));
    assert_eq!(of(&[call("/b/B"), Target::get("/")]), found(&["/b/B"], true));
}

#[test]
fn connections_are_limited_by_descriptors() {
    let packs = PackSet::load(None).expect("nothing wrong");
    let text = |name: &str, connections| {
        let variables = Variables { connections, ..sample() };
        let pack = packs.get(name).expect("embedded");
        render(pack, &variables).expect("nothing wrong").files[0].text.clone()
    };
    assert!(text("haproxy", 100).contains("    maxconn 1024\n"));
    assert!(text("haproxy", 4000).contains("    maxconn 8128\n"));
    assert!(text("haproxy", 15_000).contains("    maxconn 9900\n"));
    assert!(text("nginx", 100).contains("    worker_connections 1024;\n"));
    assert!(text("nginx", 5000).contains("    worker_connections 10512;\n"));
    assert!(text("nginx", 15_000).contains("    worker_connections 20000;\n"));
}

//! Kong.

use super::{Case, ai_proxy, cases, lacks, list, over_http2, pack, refusal_of, with_calls, words};
use hoptax_plan::Profile;
use serde_json::{Value, json};

/// Sources for Kong 3.9: `kong/db/declarative/init.lua` (`_format_version`); the schemas of services, routes,
/// upstreams and targets below `kong/db/schema/entities`; `schema.lua` and `daos.lua` of each bundled plugin.
#[test]
fn reads_its_declarative_file() {
    for case in cases("kong") {
        let file = case.yaml("kong.yml");
        case.keys(
            &file,
            &["_format_version", "services", "upstreams"],
            &["_transform", "consumers", "plugins"],
        );
        assert_eq!(file["_format_version"], json!("3.0"), "{}", case.what);
        let upstream = &file["upstreams"][0];
        case.keys(upstream, &["name"], &["algorithm", "targets", "host_header"]);
        assert_eq!(list(&upstream["targets"]).len(), case.upstreams, "{}", case.what);
        for target in list(&upstream["targets"]) {
            case.keys(target, &["target"], &["weight"]);
        }
        let service = &file["services"][0];
        case.keys(service, &["host"], &["name", "protocol", "port", "retries", "routes"]);
        assert_eq!(service["host"], upstream["name"], "{}: the service goes to the upstream", case.what);
        let routes = list(&service["routes"]);
        assert_eq!(routes.len(), if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        for route in routes {
            case.keys(route, &["paths"], &["name", "strip_path", "preserve_host"]);
            for path in list(&route["paths"]) {
                assert!(path.as_str().is_some_and(|path| path.starts_with('/')), "{}: {path}", case.what);
            }
            assert_eq!(route["strip_path"], json!(case.has("path-rewrite")), "{}", case.what);
        }
        for plugin in list(&file["plugins"]) {
            case.keys(plugin, &["name"], &["config"]);
            let config = &plugin["config"];
            match plugin["name"].as_str().expect("a name") {
                "key-auth" => case.keys(config, &["key_names"], &[]),
                "basic-auth" => assert!(config.is_null()),
                "jwt" => case.keys(config, &["key_claim_name"], &["claims_to_verify"]),
                "rate-limiting" => case.keys(config, &["second", "policy"], &["limit_by"]),
                "request-transformer" | "response-transformer" => {
                    case.keys(config, &[], &["add", "replace", "remove"]);
                }
                "cors" => case.keys(config, &["origins", "methods", "headers", "max_age"], &[]),
                "correlation-id" => case.keys(config, &["header_name", "generator", "echo_downstream"], &[]),
                "ip-restriction" => case.keys(config, &["allow"], &[]),
                other => panic!("{}: no plugin {other}", case.what),
            }
        }
        for consumer in list(&file["consumers"]) {
            let credentials = ["keyauth_credentials", "basicauth_credentials", "jwt_secrets"];
            case.keys(consumer, &["username"], &credentials);
            for secret in list(&consumer["jwt_secrets"]) {
                // daos.lua: RS256 requires rsa_public_key; HS256 uses secret.
                let key = if secret["algorithm"] == "RS256" { "rsa_public_key" } else { "secret" };
                case.keys(secret, &["key", "algorithm", key], &[]);
            }
        }
        // Each key must be listed in kong.conf.default, or be a directive for nginx.
        let known = words(
            "prefix database declarative_config nginx_daemon nginx_user anonymous_reports admin_listen \
             admin_gui_listen status_listen proxy_listen proxy_access_log proxy_error_log real_ip_header \
             trusted_ips admin_access_log admin_error_log status_access_log status_error_log \
             nginx_worker_processes upstream_keepalive_pool_size upstream_keepalive_max_requests \
             upstream_keepalive_idle_timeout ssl_cert ssl_cert_key ssl_cipher_suite",
        );
        let passed_on = ["nginx_main_", "nginx_events_", "nginx_http_", "nginx_proxy_"];
        for line in case.text("kong.conf").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) = line.split_once(" = ").unwrap_or_else(|| panic!("{}: {line}", case.what));
            let known = known.contains(&key) || passed_on.iter().any(|prefix| key.starts_with(prefix));
            assert!(known && !value.is_empty(), "{}: {line}", case.what);
        }
    }
}

/// `services.lua` and `routes.lua`: a service with `grpc` needs routes for gRPC, which keep the whole path.
#[test]
fn passes_calls_on_to_services_of_their_own() {
    let services = |case: &Case| -> Vec<Value> {
        let file = case.yaml("kong.yml");
        let of = |service: &Value| {
            let route = &service["routes"][0];
            json!([service["protocol"], route["protocols"], route["paths"], route["strip_path"]])
        };
        list(&file["services"]).iter().map(of).collect()
    };
    let [calls, mixed] = with_calls("kong");
    let protocols = ["grpc", "grpcs"];
    assert_eq!(services(&calls), [json!(["grpc", protocols, ["/"], false])]);
    let pages = json!(["http", null, ["/"], false]);
    assert_eq!(services(&mixed), [pages, json!(["grpc", protocols, ["/echo.Echo/Say"], false])]);
    assert!(calls.reports("protocol: grpc") && calls.reports("read_timeout"));
}

/// `kong/llm/schemas/init.lua` and `kong/plugins/ai-proxy/schema.lua`.
#[test]
fn asks_a_language_model_at_one_address() {
    for case in ai_proxy("kong") {
        let file = case.yaml("kong.yml");
        let [plugin] = list(&file["plugins"]) else { panic!("{}: {}", case.what, file["plugins"]) };
        assert_eq!(plugin["name"], "ai-proxy", "{}", case.what);
        let (config, model) = (&plugin["config"], &plugin["config"]["model"]);
        case.keys(config, &["route_type", "auth", "model"], &["max_request_body_size"]);
        case.keys(&config["auth"], &["header_name", "header_value"], &[]);
        case.keys(model, &["provider", "name", "options"], &[]);
        let expected = json!({ "upstream_url": "http://127.0.0.1:20003/v1/chat/completions" });
        assert_eq!(model["options"], expected, "{}", case.what);
        let llm = pack("kong").manifest().llm_of(Some("ai-proxy")).expect("for language models");
        assert_eq!(model["name"].as_str(), llm.model.as_deref(), "{}", case.what);
    }
}

/// By default, Kong adds a charset to the Content-Type of texts. Then no run would pass verification.
#[test]
fn adds_no_charset() {
    for case in cases("kong") {
        let line = case.text("kong.conf").lines().find(|line| line.starts_with("nginx_http_charset"));
        assert_eq!(line, Some("nginx_http_charset = off"), "{}", case.what);
        assert!(case.reports("nginx_http_charset"), "{}", case.what);
    }
}

/// With an address as target, Kong looks for the address in the upstream's certificate, and answers 502.
#[test]
fn verifies_upstreams_by_name() {
    for case in cases("kong") {
        let file = case.yaml("kong.yml");
        let name = &file["upstreams"][0]["host_header"];
        assert_eq!(name.is_string(), case.has("upstream-tls"), "{}: {name}", case.what);
        let protocol = if case.has("upstream-tls") { "https" } else { "http" };
        assert_eq!(file["services"][0]["protocol"], protocol, "{}", case.what);
    }
}

/// `kong.conf.default`: if the client's address comes from the PROXY protocol, a listener must have the flag.
#[test]
fn takes_the_clients_address_from_the_connections_header() {
    let mut proxied = 0;
    for case in cases("kong") {
        let on = case.has("proxy-protocol");
        let value = |key: &str| {
            let mut lines = case.text("kong.conf").lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).map(str::to_owned)
        };
        let listen = value("proxy_listen").expect("a listener");
        assert_eq!(listen.split(' ').any(|flag| flag == "proxy_protocol"), on, "{}: {listen}", case.what);
        assert_eq!(value("real_ip_header").as_deref(), on.then_some("proxy_protocol"), "{}", case.what);
        assert_eq!(value("trusted_ips").as_deref(), on.then_some("0.0.0.0/0,::/0"), "{}", case.what);
        proxied += usize::from(on);
    }
    assert!(proxied >= 8, "{proxied}");
}

/// `kong.conf.default`: `http2` is a flag of a listener, and nginx gets directives that begin with
/// `nginx_http_`.
#[test]
fn listens_for_http2() {
    for case in over_http2("kong") {
        let conf = case.text("kong.conf");
        let ssl = if case.has("tls") { " ssl" } else { "" };
        let listen = format!("\nproxy_listen = 127.0.0.1:20001 http2{ssl} reuseport backlog=16384\n");
        assert!(conf.contains(&listen), "{}: {conf}", case.what);
        let streams = "nginx_http_http2_max_concurrent_streams = 300";
        let equalised = case.profile == Profile::Equalised;
        assert_eq!((conf.contains(streams), case.reports(streams)), (equalised, equalised), "{}", case.what);
    }
}

/// The path of a socket has at most 107 bytes. Kong's sockets are in its prefix.
#[test]
fn keeps_its_sockets_on_a_short_path() {
    for case in cases("kong") {
        assert!(case.text("kong.conf").contains("\nprefix = /tmp/sockets\n"), "{}", case.what);
        let script = case.text("start.sh");
        assert!(script.contains("-p \"/tmp/sockets\"") && !script.contains("/prefix"), "{script}");
    }
    assert!(pack("kong").template("start.sh.j2").expect("a script").contains("socket_dir"));
}

/// Kong's own check of the declarative file, where it is installed.
#[test]
fn kong_parses_its_files() {
    skip_if!(lacks("kong"));
    // Kong starts slowly, so only some cases are checked.
    for case in cases("kong").iter().filter(|case| case.upstreams == 2 && !case.access_log) {
        let error = refusal_of("kong", &["config", "parse"], "kong.yml", case.text("kong.yml"));
        assert_eq!(error, None, "{}", case.what);
    }
}

//! APISIX.

use super::{Case, ai_proxy, cases, list, over_http2, pack, with_calls};
use hoptax_plan::Profile;
use serde_json::{Value, json};

/// The plugins of all routes, with their configurations.
fn plugins_of_routes(file: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let routes = list(&file["routes"]).iter();
    let plugins = routes.filter_map(|route| route["plugins"].as_object()).flatten();
    plugins.map(|(name, config)| (name.as_str(), config))
}

/// Sources for APISIX 3.12: `apisix/schema_def.lua` (route, upstream, consumer, ssl),
/// `apisix/core/config_yaml.lua` (`#END`), and the schema of each plugin below `apisix/plugins`.
#[test]
fn reads_its_standalone_file() {
    for case in cases("apisix") {
        assert!(case.text("apisix.yaml").trim_end().ends_with("\n#END"), "{}: ends with #END", case.what);
        let file = case.yaml("apisix.yaml");
        case.keys(&file, &["routes", "upstreams"], &["consumers", "ssls"]);
        for route in list(&file["routes"]) {
            case.keys(route, &["id", "uris", "upstream_id"], &["plugins"]);
            assert_eq!(route["upstream_id"], file["upstreams"][0]["id"], "{}", case.what);
        }
        assert_eq!(list(&file["routes"]).len(), if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        let upstream = &file["upstreams"][0];
        case.keys(upstream, &["id", "type", "nodes"], &["scheme", "pass_host", "retries"]);
        assert_eq!(list(&upstream["nodes"]).len(), case.upstreams, "{}", case.what);
        for node in list(&upstream["nodes"]) {
            case.keys(node, &["host", "port", "weight"], &[]);
        }
        for consumer in list(&file["consumers"]) {
            case.keys(consumer, &["username"], &["plugins"]);
            // schema_def.lua: before version 3.11 the pattern was `^[a-zA-Z0-9_]+$`. Since then a hyphen is
            // also allowed.
            let name = consumer["username"].as_str().expect("text");
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'), "{name}");
            for (plugin, config) in consumer["plugins"].as_object().expect("its credentials") {
                match plugin.as_str() {
                    "key-auth" => case.keys(config, &["key"], &[]),
                    "basic-auth" => case.keys(config, &["username", "password"], &[]),
                    "jwt-auth" if config["algorithm"] == "RS256" => {
                        case.keys(config, &["key", "algorithm", "public_key"], &[]);
                    }
                    "jwt-auth" => case.keys(config, &["key", "algorithm", "secret"], &[]),
                    other => panic!("{}: {other} has no consumers", case.what),
                }
            }
        }
        for (plugin, config) in plugins_of_routes(&file) {
            match plugin {
                "key-auth" => case.keys(config, &["header"], &[]),
                "basic-auth" => case.keys(config, &[], &[]),
                "jwt-auth" => case.keys(config, &["key_claim_name"], &[]),
                "limit-count" => {
                    case.keys(
                        config,
                        &["count", "time_window"],
                        &["rejected_code", "key_type", "key", "policy", "group"],
                    );
                }
                "proxy-rewrite" => case.keys(config, &[], &["headers", "regex_uri"]),
                "response-rewrite" => case.keys(config, &["headers"], &[]),
                "cors" => {
                    case.keys(config, &[], &["allow_origins", "allow_methods", "allow_headers", "max_age"]);
                }
                "gzip" => case.keys(config, &[], &["types", "min_length", "comp_level"]),
                "request-id" => case.keys(config, &[], &["header_name", "include_in_response", "algorithm"]),
                "ip-restriction" => case.keys(config, &["whitelist"], &[]),
                other => panic!("{}: no plugin {other}", case.what),
            }
        }
        for ssl in list(&file["ssls"]) {
            case.keys(ssl, &["id", "snis", "cert", "key"], &["client"]);
            assert_eq!(ssl["client"].is_object(), case.has("mtls"), "{}", case.what);
        }
        assert_eq!(case.has("tls"), !list(&file["ssls"]).is_empty(), "{}", case.what);
        let config = case.yaml("config.yaml");
        case.keys(&config, &["deployment", "apisix", "nginx_config"], &["plugin_attr"]);
        assert_eq!(config["deployment"]["role"], "data_plane", "{}", case.what);
        assert_eq!(config["deployment"]["role_data_plane"]["config_provider"], "yaml", "{}", case.what);
        assert_eq!(config["apisix"]["ssl"]["enable"], json!(case.has("tls")), "{}", case.what);
    }
}

/// `docs/en/latest/plugins/ai-proxy.md` and `ai-proxy-multi.md`. The path of an endpoint is used as it is.
#[test]
fn asks_language_models_at_all_addresses() {
    for case in ai_proxy("apisix") {
        let file = case.yaml("apisix.yaml");
        let plugins = &file["routes"][0]["plugins"];
        let endpoints: Vec<Option<&str>> = match case.upstreams {
            1 => {
                let config = &plugins["ai-proxy"];
                let more = ["timeout", "keepalive_timeout", "keepalive_pool"];
                case.keys(config, &["provider", "auth", "override"], &more);
                vec![config["override"]["endpoint"].as_str()]
            }
            _ => list(&plugins["ai-proxy-multi"]["instances"])
                .iter()
                .map(|instance| {
                    case.keys(instance, &["name", "provider", "weight", "auth", "override"], &[]);
                    instance["override"]["endpoint"].as_str()
                })
                .collect(),
        };
        let expected = (20_003..).take(case.upstreams);
        let expected: Vec<_> =
            expected.map(|port| format!("http://127.0.0.1:{port}/v1/chat/completions")).collect();
        let endpoints: Vec<&str> = endpoints.into_iter().flatten().collect();
        assert_eq!(endpoints, expected, "{}", case.what);
    }
}

/// By default, APISIX adds a charset to the Content-Type of texts. Then no run would pass verification.
#[test]
fn adds_no_charset() {
    for case in cases("apisix") {
        assert_eq!(case.yaml("config.yaml")["nginx_config"]["http"]["charset"], "off", "{}", case.what);
        assert!(case.reports("charset"), "{}", case.what);
    }
}

/// APISIX's `status` server is missing before 3.13, and answers 503 forever in 3.13 and 3.14 with a
/// configuration file.
#[test]
fn is_ready_by_a_server_of_nginx() {
    let ready = &pack("apisix").manifest().ready;
    for case in cases("apisix") {
        let config = case.yaml("config.yaml");
        assert!(config["apisix"]["status"].is_null(), "{}", case.what);
        let snippet = config["nginx_config"]["http_configuration_snippet"].as_str().expect("text");
        assert!(snippet.contains("listen 127.0.0.1:20002;"), "{}: {snippet}", case.what);
        assert!(snippet.contains(&format!("location = {} {{ return 200", ready.path)), "{snippet}");
    }
}

/// In a global rule, each plugin costs 20 µs of CPU more than on a route.
#[test]
fn has_its_plugins_on_every_route() {
    let mut limits = 0;
    for case in cases("apisix") {
        let file = case.yaml("apisix.yaml");
        assert!(file["global_rules"].is_null(), "{}", case.what);
        let routes = list(&file["routes"]);
        assert!(routes.iter().all(|route| route["plugins"] == routes[0]["plugins"]), "{}", case.what);
        assert_eq!(routes[0]["plugins"]["key-auth"].is_object(), case.has("key-auth"), "{}", case.what);
        let rewrite = &routes[0]["plugins"]["proxy-rewrite"];
        assert_eq!(rewrite["regex_uri"].is_array(), case.has("path-rewrite"), "{}", case.what);
        assert_eq!(rewrite["headers"].is_object(), case.has("header-rewrite"), "{}", case.what);
        if case.has("rate-limit") {
            // Without a group, each route has its own count.
            assert!(routes[0]["plugins"]["limit-count"]["group"].is_string(), "{}", case.what);
            limits += 1;
        }
    }
    assert!(limits > 0);
}

/// `apisix/init.lua`: the scheme `grpc` of an upstream selects `grpc_pass`.
#[test]
fn passes_calls_on_to_an_upstream_of_their_own() {
    let routes = |case: &Case| -> Vec<Value> {
        let file = case.yaml("apisix.yaml");
        let of = |route: &Value| {
            let upstream = list(&file["upstreams"]).iter().find(|one| one["id"] == route["upstream_id"]);
            json!([route["uris"], upstream.expect("an upstream")["scheme"]])
        };
        list(&file["routes"]).iter().map(of).collect()
    };
    let [calls, mixed] = with_calls("apisix");
    assert_eq!(routes(&calls), [json!([["/*"], "grpc"])]);
    assert_eq!(routes(&mixed), [json!([["/*"], "http"]), json!([["/echo.Echo/Say"], "grpc"])]);
    assert!(calls.reports("scheme: grpc"));
}

/// APISIX's own setting verifies only the certificates of Kafka upstreams.
#[test]
fn verifies_upstreams() {
    for case in cases("apisix") {
        let on = case.has("upstream-tls");
        let scheme = if on { "https" } else { "http" };
        assert_eq!(case.yaml("apisix.yaml")["upstreams"][0]["scheme"], scheme, "{}", case.what);
        let config = case.yaml("config.yaml");
        let snippet = &config["nginx_config"]["http_server_location_configuration_snippet"];
        assert_eq!(snippet.is_string(), on, "{}", case.what);
        let snippet = snippet.as_str().unwrap_or_default();
        for directive in ["proxy_ssl_verify on;", "proxy_ssl_trusted_certificate /", "proxy_ssl_name "] {
            assert_eq!(snippet.contains(directive), on, "{}: {directive}", case.what);
        }
    }
}

/// `apisix/cli/ngx_tpl.lua`: `apisix.proxy_protocol` would listen on every address. So the pack adds its own
/// listener in a snippet, and moves APISIX's listeners to other addresses.
#[test]
fn reads_the_proxy_protocol_on_its_one_address() {
    let mut proxied = 0;
    for case in cases("apisix") {
        let config = case.yaml("config.yaml");
        let (http, apisix) = (&config["nginx_config"]["http"], &config["apisix"]);
        let own = [&apisix["node_listen"][0]["ip"], &apisix["ssl"]["listen"][0]["ip"]];
        let snippet = config["nginx_config"]["http_server_configuration_snippet"].as_str();
        assert!(apisix["proxy_protocol"].is_null(), "{}", case.what);
        if !case.has("proxy-protocol") {
            assert_eq!((snippet, &http["real_ip_header"]), (None, &json!(null)), "{}", case.what);
            assert!(own.contains(&&json!("127.0.0.1")), "{}: {own:?}", case.what);
            continue;
        }
        let ssl = if case.has("tls") { " ssl" } else { "" };
        let expected = format!("listen 127.0.0.1:20001{ssl} default_server reuseport proxy_protocol;");
        assert_eq!(snippet.map(str::trim), Some(expected.as_str()), "{}", case.what);
        assert!(!own.contains(&&json!("127.0.0.1")) && own[0] != own[1], "{}: {own:?}", case.what);
        assert_eq!(http["real_ip_header"], "proxy_protocol", "{}", case.what);
        assert_eq!(http["real_ip_from"], json!(["0.0.0.0/0", "::/0"]), "{}", case.what);
        proxied += 1;
    }
    assert!(proxied >= 8, "{proxied}");
}

/// `conf/config.yaml.example`, since 3.9: `apisix.enable_http2` is for all listeners.
#[test]
fn enables_http2() {
    for case in over_http2("apisix") {
        let config = case.yaml("config.yaml");
        assert_eq!(config["apisix"]["enable_http2"], true, "{}", case.what);
        let snippet = config["nginx_config"]["http_configuration_snippet"].as_str().expect("text");
        let equalised = case.profile == Profile::Equalised;
        let streams = "http2_max_concurrent_streams 300";
        assert_eq!(snippet.contains(&format!("{streams};")), equalised, "{}: {snippet}", case.what);
        assert_eq!(case.reports(streams), equalised, "{}", case.what);
    }
}

/// The default is a folder in /tmp that all instances on a machine share.
#[test]
fn caches_below_its_own_directory() {
    for case in cases("apisix") {
        let config = case.yaml("config.yaml");
        let zones = list(&config["apisix"]["proxy_cache"]["zones"]);
        let places: Vec<_> = zones.iter().filter_map(|zone| zone["disk_path"].as_str()).collect();
        assert_eq!(places, ["/run-directory/rendered/cache"], "{}", case.what);
    }
}

#[test]
fn reloads_its_file_and_keeps_its_socket_on_a_short_path() {
    let reload = pack("apisix").manifest().reload.clone().expect("it reloads");
    assert_eq!(reload.watched, Some(true));
    for case in cases("apisix") {
        let script = case.text("start.sh");
        assert!(script.contains("home=\"/tmp/sockets\"") && !script.contains("rendered/home"), "{script}");
    }
}

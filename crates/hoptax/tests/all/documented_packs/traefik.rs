//! Traefik.

use super::{cases, list, over_http2, pack, words};
use hoptax_plan::Profile;
use serde_json::json;

/// Sources for Traefik 3.3: `pkg/config/dynamic/http_config.go`, `middlewares.go` and
/// `pkg/config/static/static_config.go`.
#[test]
fn reads_its_static_and_dynamic_files() {
    for case in cases("traefik").into_iter().chain(over_http2("traefik")) {
        let fixed = case.yaml("traefik.yml");
        case.keys(&fixed, &["entryPoints", "providers"], &["global", "log", "accessLog", "ping"]);
        for (_, entry) in fixed["entryPoints"].as_object().expect("entry points") {
            case.keys(entry, &["address"], &["transport", "proxyProtocol", "http2"]);
        }
        let file = case.yaml("dynamic.yml");
        case.keys(&file, &["http"], &["tls"]);
        let http = &file["http"];
        case.keys(http, &["routers", "services"], &["middlewares", "serversTransports"]);
        let routers = http["routers"].as_object().expect("routers");
        // One more router answers readiness checks.
        assert_eq!(routers.len(), if case.has("routes") { 4 } else { 2 }, "{}", case.what);
        for router in routers.iter().filter(|(name, _)| *name != "ready").map(|(_, router)| router) {
            case.keys(router, &["rule", "service"], &["entryPoints", "middlewares", "tls"]);
            let service = router["service"].as_str().expect("a name");
            assert!(http["services"][service].is_object(), "{}: service {service}", case.what);
            for entry in list(&router["entryPoints"]) {
                assert!(fixed["entryPoints"][entry.as_str().expect("a name")].is_object(), "{}", case.what);
            }
            for middleware in list(&router["middlewares"]) {
                let named = &http["middlewares"][middleware.as_str().expect("a name")];
                assert!(named.is_object(), "{}: middleware {middleware}", case.what);
            }
            assert_eq!(router["tls"].is_object(), case.has("tls"), "{}", case.what);
        }
        for service in http["services"].as_object().expect("services").values() {
            case.keys(service, &["loadBalancer"], &[]);
            let balancer = &service["loadBalancer"];
            case.keys(balancer, &["servers"], &["passHostHeader", "serversTransport"]);
            assert_eq!(list(&balancer["servers"]).len(), case.upstreams, "{}", case.what);
            if let Some(transport) = balancer["serversTransport"].as_str() {
                let transport = &http["serversTransports"][transport];
                case.keys(
                    transport,
                    &[],
                    &["maxIdleConnsPerHost", "disableHTTP2", "forwardingTimeouts", "serverName", "rootCAs"],
                );
            }
        }
        for (name, middleware) in http["middlewares"].as_object().into_iter().flatten() {
            let (kind, config) =
                middleware.as_object().and_then(|kinds| kinds.iter().next()).expect("one kind");
            match kind.as_str() {
                "ipAllowList" => case.keys(config, &["sourceRange"], &[]),
                "rateLimit" => case.keys(config, &["average", "period", "burst"], &[]),
                "basicAuth" => case.keys(config, &["usersFile"], &[]),
                "stripPrefix" => case.keys(config, &["prefixes"], &[]),
                "compress" => {
                    case.keys(config, &[], &["encodings", "minResponseBodyBytes", "includedContentTypes"]);
                }
                "headers" => case.keys(
                    config,
                    &[],
                    &words(
                        "accessControlAllowOriginList accessControlAllowMethods \
                         accessControlAllowHeaders accessControlMaxAge addVaryHeader \
                         customRequestHeaders customResponseHeaders",
                    ),
                ),
                other => panic!("{}: {name} is no {other}", case.what),
            }
        }
        if case.has("tls") {
            case.keys(&file["tls"], &["certificates", "options"], &[]);
            case.keys(&file["tls"]["options"]["default"], &["minVersion"], &["clientAuth"]);
        }
    }
}

/// By default `/ping` answers before the routes of the dynamic file exist.
#[test]
fn is_ready_by_a_route_of_its_dynamic_file() {
    let rule = format!("Path(`{}`)", pack("traefik").manifest().ready.path);
    for case in cases("traefik") {
        let fixed = case.yaml("traefik.yml");
        assert_eq!(fixed["ping"], json!({ "manualRouting": true }), "{}", case.what);
        assert_eq!(fixed["entryPoints"]["internal"]["address"], "127.0.0.1:20002", "{}", case.what);
        let ready = json!({ "entryPoints": ["internal"], "rule": rule, "service": "ping@internal" });
        assert_eq!(case.yaml("dynamic.yml")["http"]["routers"]["ready"], ready, "{}", case.what);
    }
}

/// `pkg/config/static/entrypoints.go`: without `trustedIPs` the header is ignored, and it would be part of
/// the request.
#[test]
fn only_the_entry_point_for_traffic_reads_the_proxy_protocol() {
    for case in cases("traefik") {
        let points = &case.yaml("traefik.yml")["entryPoints"];
        let trusted = json!({ "trustedIPs": ["0.0.0.0/0", "::/0"] });
        let expected = if case.has("proxy-protocol") { trusted } else { json!(null) };
        assert_eq!(points["web"]["proxyProtocol"], expected, "{}", case.what);
        assert!(points["internal"]["proxyProtocol"].is_null(), "{}", case.what);
    }
}

/// `pkg/config/static/entrypoints.go`: an entry point accepts HTTP/2, with 250 streams by default.
#[test]
fn raises_the_streams_of_its_entry_point() {
    for case in over_http2("traefik") {
        let equalised = case.profile == Profile::Equalised;
        let expected = if equalised { json!({ "maxConcurrentStreams": 300 }) } else { json!(null) };
        let points = &case.yaml("traefik.yml")["entryPoints"];
        assert_eq!((&points["web"]["http2"], &points["internal"]["http2"]), (&expected, &json!(null)));
        assert_eq!(case.reports("http2.maxConcurrentStreams: 300"), equalised, "{}", case.what);
    }
}

/// TLS options with another name apply only to routers with a rule for `Host`: no version was set, and
/// clients without a certificate were accepted.
#[test]
fn has_only_default_options_of_tls() {
    let mut with_tls = 0;
    for case in cases("traefik").iter().filter(|case| case.has("tls")) {
        let file = case.yaml("dynamic.yml");
        let options = file["tls"]["options"].as_object().expect("options");
        assert_eq!(options.keys().collect::<Vec<_>>(), ["default"], "{}", case.what);
        assert_eq!(options["default"]["minVersion"], "VersionTLS13", "{}", case.what);
        assert_eq!(options["default"]["clientAuth"].is_object(), case.has("mtls"), "{}", case.what);
        assert_eq!(file["http"]["routers"]["route-1"]["tls"]["options"], "default", "{}", case.what);
        // Traefik warns about options without an effect.
        assert_eq!(case.yaml("traefik.yml")["log"]["level"], "WARN", "{}", case.what);
        with_tls += 1;
    }
    assert!(with_tls >= 8, "{with_tls}");
}

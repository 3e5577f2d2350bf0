//! KrakenD.

use super::{cases, lacks, list, over_http2, refusal_of, words};
use serde_json::json;

/// Source for KrakenD 2.9: its JSON Schema (`v2.9/krakend.json` and the schemas that it refers to). `version`
/// is 3. An endpoint requires `endpoint` and `backend`. A backend requires `url_pattern`. Unknown members are
/// not allowed.
#[test]
fn accepts_its_file_by_its_schema() {
    for case in cases("krakend").into_iter().chain(over_http2("krakend")) {
        let file = case.json("krakend.json");
        let allowed = words(
            "$schema name listen_ip port use_h2c timeout idle_timeout idle_connection_timeout \
             max_idle_connections max_idle_connections_per_host tls client_tls extra_config endpoints",
        );
        case.keys(&file, &["version"], &allowed);
        assert_eq!(file["version"], json!(3), "{}", case.what);
        // Over TLS, it offers HTTP/2 by default.
        let plain_http2 = case.http2 && !case.has("tls");
        assert_eq!(file["use_h2c"] == json!(true), plain_http2, "{}", case.what);
        assert_eq!(case.reports("use_h2c"), plain_http2, "{}", case.what);
        case.keys(&file["extra_config"], &["router"], &["security/cors"]);
        case.keys(
            &file["extra_config"]["router"],
            &[],
            &["disable_access_log", "disable_redirect_trailing_slash", "disable_redirect_fixed_path"],
        );
        let endpoints = list(&file["endpoints"]);
        assert_eq!(endpoints.len(), 20 * if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        for endpoint in endpoints {
            let allowed =
                ["method", "output_encoding", "input_headers", "input_query_strings", "extra_config"];
            case.keys(endpoint, &["endpoint", "backend"], &allowed);
            // The schema endpoint.json allows no wildcard, query or fragment in the path.
            let path = endpoint["endpoint"].as_str().expect("text");
            assert!(path.starts_with('/') && !path.contains(['*', '?', '&', '%']), "{}: {path}", case.what);
            let backend = &endpoint["backend"][0];
            case.keys(backend, &["url_pattern"], &["method", "encoding", "sd", "extra_config", "host"]);
            assert_eq!(list(&backend["host"]).len(), case.upstreams, "{}", case.what);
            assert_eq!(
                (&endpoint["output_encoding"], &backend["encoding"]),
                (&json!("no-op"), &json!("no-op")),
                "{}",
                case.what
            );
            for (module, config) in endpoint["extra_config"].as_object().into_iter().flatten() {
                match module.as_str() {
                    "auth/validator" => {
                        case.keys(config, &["alg", "jwk_local_path"], &["disable_jwk_security", "issuer"]);
                    }
                    "qos/ratelimit/router" => {
                        case.keys(config, &[], &["client_max_rate", "client_capacity", "strategy"]);
                    }
                    other => panic!("{}: no module {other}", case.what),
                }
            }
        }
    }
}

/// KrakenD's own check, where it is installed.
#[test]
fn krakend_checks_its_file() {
    skip_if!(lacks("krakend"));
    for case in cases("krakend").into_iter().chain(over_http2("krakend")) {
        let error = refusal_of("krakend", &["check", "--config"], "krakend.json", case.text("krakend.json"));
        assert_eq!(error, None, "{}", case.what);
    }
}

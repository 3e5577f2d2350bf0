//! Tyk.

use super::{cases, list, over_http2, pack, words};
use hoptax_plan::Profile;
use serde_json::json;

/// Source for Tyk 5.8: `apidef/schema.json`. It requires `name`, `proxy` (with `target_url`) and
/// `version_data` (with `not_versioned` and `versions`). A `definition` requires `key` and `location`.
/// Unknown members are not allowed. The source for policies is `user/policy.go`.
#[test]
fn accepts_its_api_definition_by_its_schema() {
    for case in cases("tyk") {
        let api = case.json("api.json");
        let allowed = words(
            "api_id org_id active use_keyless enable_jwt jwt_signing_method jwt_source \
             jwt_identity_base_field jwt_default_policies jwt_skip_kid auth global_rate_limit \
             disable_rate_limit disable_quota enable_ip_whitelisting allowed_ips CORS definition \
             response_processors do_not_track",
        );
        case.keys(&api, &["name", "proxy", "version_data"], &allowed);
        case.keys(&api["definition"], &["key", "location"], &[]);
        case.keys(&api["version_data"], &["not_versioned", "versions"], &[]);
        let proxy = &api["proxy"];
        let allowed =
            words("listen_path strip_listen_path preserve_host_header enable_load_balancing target_list");
        case.keys(proxy, &["target_url"], &allowed);
        if case.upstreams > 1 {
            assert_eq!(list(&proxy["target_list"]).len(), case.upstreams, "{}", case.what);
        }
        let policies = case.json("policies.json");
        for named in list(&api["jwt_default_policies"]) {
            let policy = &policies[named.as_str().expect("a name")];
            assert_eq!(policy["access_rights"]["measured"]["api_id"], api["api_id"], "{}", case.what);
        }
        let conf = case.json("tyk.conf");
        assert_eq!(conf["listen_address"], "127.0.0.1", "{}", case.what);
        assert_eq!(conf["http_server_options"]["use_ssl"] == json!(true), case.has("tls"), "{}", case.what);
    }
}

/// Without its template for errors, Tyk panics at its start.
#[test]
fn needs_its_template_for_errors() {
    let needs = &pack("tyk").manifest().needs;
    let place = &needs["error_template"][0];
    for case in cases("tyk") {
        let folder = case.json("tyk.conf")["template_path"].as_str().expect("a path").to_owned();
        assert!(place.starts_with(&format!("{folder}/error")), "{place} in {folder}");
    }
}

/// `/hello` answers before the APIs are loaded. So one more API answers by itself.
#[test]
fn is_ready_by_an_api_of_its_own() {
    let path = &pack("tyk").manifest().ready.path;
    for case in cases("tyk") {
        let api = case.json("ready.json");
        assert_eq!(api["proxy"]["listen_path"], path.as_str(), "{}", case.what);
        assert_eq!(api["use_keyless"], true, "{}", case.what);
        let listed = &api["version_data"]["versions"]["Default"]["extended_paths"]["white_list"][0];
        assert_eq!(listed["method_actions"]["GET"]["action"], "reply", "{}", case.what);
        assert!(
            case.text("start.sh").contains("ready.json\" \"/run-directory/rendered/apps/"),
            "{}",
            case.what
        );
    }
}

/// By default Tyk uses TLS 1.2 to upstreams.
#[test]
fn uses_tls_1_3_to_upstreams() {
    for case in cases("tyk") {
        let conf = case.json("tyk.conf");
        let expected = if case.has("upstream-tls") { json!(772) } else { json!(null) };
        assert_eq!(conf["proxy_ssl_min_version"], expected, "{}", case.what);
        assert_eq!(conf["proxy_ssl_max_version"], expected, "{}", case.what);
    }
}

/// `config/config.go`: `enable_http2` is for listeners with TLS. `gateway/proxy_muxer.go`: the others always
/// accept it.
#[test]
fn enables_http2() {
    for case in over_http2("tyk") {
        let on = &case.json("tyk.conf")["http_server_options"]["enable_http2"];
        let expected = if case.has("tls") { json!(true) } else { json!(null) };
        assert_eq!((on, case.reports("enable_http2")), (&expected, case.has("tls")), "{}", case.what);
    }
}

/// The pack's stock must be Tyk as shipped, or report how it differs. Source for the values:
/// `ci/install/data/tyk.standalone.conf` of Tyk, which its packages install; keys that neither affect a
/// request nor are true by default are left out.
#[test]
fn stock_is_as_the_file_that_tyk_ships() {
    let shipped = [
        ("use_db_app_configs", json!(false)),
        ("storage/optimisation_max_idle", json!(2000)),
        ("storage/optimisation_max_active", json!(4000)),
        ("enable_analytics", json!(false)),
        ("enable_non_transactional_rate_limiter", json!(true)),
        ("policies/policy_source", json!("file")),
        ("hash_keys", json!(true)),
        ("allow_insecure_configs", json!(true)),
        ("max_idle_connections_per_host", json!(500)),
        ("enable_jsvm", json!(true)),
    ];
    // Tyk's defaults, which the shipped file repeats or does not change.
    let absent =
        ["close_connections", "max_conn_time", "max_idle_connections", "http_server_options/read_timeout"];
    for case in cases("tyk").iter().filter(|case| case.profile == Profile::Stock) {
        let conf = case.json("tyk.conf");
        for (key, value) in &shipped {
            let name = key.rsplit('/').next().expect("a name");
            let same = conf.pointer(&format!("/{key}")) == Some(value);
            assert!(same || case.reports(name), "{}: {key} is neither {value} nor reported", case.what);
        }
        for key in absent {
            assert_eq!(conf.pointer(&format!("/{key}")), None, "{}: {key}", case.what);
        }
    }
}

/// Without the key, Go keeps 2 idle connections. The `tyk.conf` that Tyk ships sets 500.
#[test]
fn keeps_the_shipped_number_of_idle_connections() {
    for case in cases("tyk") {
        let idle = case.json("tyk.conf")["max_idle_connections_per_host"].as_u64();
        assert_eq!(idle, Some(500), "{}", case.what);
        let reported = case.reports("max_idle_connections_per_host: 500");
        assert_eq!(reported, case.profile == Profile::Stock, "{}", case.what);
    }
}

#[test]
fn logs_no_refused_requests() {
    for case in cases("tyk") {
        let expected = if case.access_log { "info" } else { "error" };
        assert_eq!(case.json("tyk.conf")["log_level"], expected, "{}", case.what);
    }
}

/// Tyk's answers to requests without a token and with a wrong one are hard-coded.
#[test]
fn refuses_tokens_with_its_own_statuses() {
    let refusals = &pack("tyk").manifest().refusals;
    for feature in ["jwt-hs256", "jwt-rs256"] {
        let refusal = &refusals[feature];
        assert_eq!((refusal.without, refusal.wrong), (Some(400), Some(403)), "{feature}");
    }
}

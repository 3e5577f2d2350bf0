//! Packs of gateways that cannot be installed here. Their rendered files are checked against rules that the products'
//! developers publish. Each rule names its source.

use crate::support::{skip, yaml};
use hoptax_lab::packs::{Pack, PackSet};
use hoptax_lab::render::{self, Rendered, UpstreamAddress, Variables};
use hoptax_plan::{Feature, Profile, RoutePosition};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const DOCUMENTED: [&str; 9] =
    ["apisix", "kong", "krakend", "kubegateway", "ocelot", "pipy", "traefik", "tyk", "yarp"];

/// One rendering of a pack. The field `what` describes the rendering.
struct Case {
    what: String,
    features: Vec<Feature>,
    upstreams: usize,
    rendered: Rendered,
}

impl Case {
    fn text(&self, name: &str) -> &str {
        let file = self.rendered.files.iter().find(|file| file.name == name);
        &file.unwrap_or_else(|| panic!("{}: no {name}", self.what)).text
    }

    fn has(&self, name: &str) -> bool {
        self.features.iter().any(|feature| feature.name() == name)
    }

    fn json(&self, name: &str) -> Value {
        let text = self.text(name);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {name}: {error}\n{text}", self.what))
    }

    fn yaml(&self, name: &str) -> Value {
        yaml::read(self.text(name)).unwrap_or_else(|error| panic!("{}: {name}: {error}", self.what))
    }

    /// Asserts that `value` has all keys in `required`, and no other keys except those in `allowed`.
    #[track_caller]
    fn keys(&self, value: &Value, required: &[&str], allowed: &[&str]) {
        let map = value.as_object().unwrap_or_else(|| panic!("{}: no mapping: {value}", self.what));
        for key in required {
            assert!(map.contains_key(*key), "{}: `{key}` is required in {value}", self.what);
        }
        for key in map.keys() {
            let known = required.iter().chain(allowed).any(|known| known == key);
            assert!(known, "{}: `{key}` is not known in {value}", self.what);
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The packs are loaded once, because checking every pack takes some time.
fn pack(name: &str) -> &'static Pack {
    static PACKS: OnceLock<PackSet> = OnceLock::new();
    let packs = PACKS.get_or_init(|| PackSet::load(None).expect("nothing wrong"));
    packs.get(name).unwrap_or_else(|| panic!("no pack {name}"))
}

/// Renderings of the pack in both profiles, with and without an access log. Some cases have no features, some have one
/// feature each, some have several features, and some have all compatible features.
fn cases(name: &str) -> Vec<Case> {
    let pack = pack(name);
    let mut sets: Vec<Vec<Feature>> = vec![vec![]];
    let offered: Vec<Feature> =
        pack.manifest().features.iter().filter_map(|name| Feature::with_defaults(name)).collect();
    for feature in &offered {
        sets.push(match feature {
            Feature::Mtls => vec![Feature::Tls, Feature::Mtls],
            Feature::Consumers { .. } => vec![Feature::KeyAuth, Feature::Consumers { count: 3 }],
            Feature::Routes { .. } => vec![Feature::Routes { count: 3, ask: RoutePosition::Last }],
            other => vec![*other],
        });
    }
    let mut together: Vec<Feature> = Vec::new();
    for feature in &offered {
        let feature = match feature {
            Feature::Routes { ask, .. } => Feature::Routes { count: 3, ask: *ask },
            Feature::Consumers { .. } => Feature::Consumers { count: 3 },
            other => *other,
        };
        if !together.iter().any(|one| one.excludes(feature)) {
            together.push(feature);
        }
    }
    sets.push(together);
    let mut all = Vec::new();
    for features in sets {
        for (profile, upstreams) in [(Profile::Stock, 1), (Profile::Equalised, 2)] {
            for log in [None, Some("/run-directory/logs/access.log".to_owned())] {
                let mut variables = Variables::sample(profile, log).with_sample_features(features.clone());
                variables.workers = 2;
                variables.upstreams = (0..upstreams)
                    .map(|index| UpstreamAddress { host: "127.0.0.1".into(), port: 20_003 + index })
                    .collect();
                let names: Vec<_> = features.iter().map(|feature| feature.name()).collect();
                let what = format!(
                    "{name} {profile:?} [{}], log: {}",
                    names.join(" "),
                    variables.access_log.is_some()
                );
                let rendered =
                    render::render(pack, &variables).unwrap_or_else(|error| panic!("{what}: {error}"));
                all.push(Case {
                    what,
                    features: features.clone(),
                    upstreams: usize::from(upstreams),
                    rendered,
                });
            }
        }
    }
    assert!(all.len() >= 12, "{name}: {}", all.len());
    all
}

#[test]
fn they_state_that_they_never_ran_here_and_support_both_drivers() {
    for name in DOCUMENTED {
        let pack = pack(name);
        let manifest = pack.manifest();
        assert_eq!(manifest.last_run_for_real, None, "{name}");
        assert!(!manifest.install.is_empty(), "{name}: how it is installed");
        let docker = manifest.docker.as_ref().unwrap_or_else(|| panic!("{name}: no image"));
        assert!(docker.image.contains(':') && !docker.image.ends_with(":latest"), "{name}: {}", docker.image);
        for feature in Feature::NAMES {
            let offered = manifest.features.iter().any(|one| one == feature);
            let lacks = manifest.unsupported.contains_key(feature);
            assert!(offered != lacks, "{name}: `{feature}` is either offered or lacking with a reason");
        }
        for settings in [&manifest.settings.stock, &manifest.settings.equalised] {
            assert!(settings.len() >= 3, "{name}: what differs from shipped");
        }
        let readme = pack.template("README.md").expect("a README");
        assert!(readme.contains("## Known traps"), "{name}");
    }
}

/// Gateways must listen on loopback only, and write only into the run's directories.
#[test]
fn they_listen_on_loopback_only() {
    for name in DOCUMENTED {
        for case in cases(name) {
            let all: String = case.rendered.files.iter().map(|file| file.text.as_str()).collect();
            assert!(!all.contains("0.0.0.0"), "{}", case.what);
            assert!(all.contains("20001") || name == "kubegateway", "{}: its port", case.what);
            let log = case.what.ends_with("log: true");
            let stdout =
                pack(name).manifest().access_log == Some(hoptax_lab::packs::manifest::AccessLogTo::Stdout);
            assert_eq!(all.contains("/logs/access.log"), log && !stdout, "{}", case.what);
        }
    }
}

/// Sources for Kong 3.9: `kong/db/declarative/init.lua` (`_format_version`); the schemas of services, routes, upstreams
/// and targets below `kong/db/schema/entities`; `schema.lua` and `daos.lua` of each bundled plugin.
#[test]
fn kong_reads_its_declarative_file() {
    for case in cases("kong") {
        let file = case.yaml("kong.yml");
        case.keys(
            &file,
            &["_format_version", "services", "upstreams"],
            &["_transform", "consumers", "plugins"],
        );
        assert_eq!(file["_format_version"], json!("3.0"), "{}", case.what);
        let upstream = &file["upstreams"][0];
        case.keys(upstream, &["name"], &["algorithm", "targets"]);
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
        let known = [
            "prefix",
            "database",
            "declarative_config",
            "nginx_daemon",
            "nginx_user",
            "anonymous_reports",
            "admin_listen",
            "admin_gui_listen",
            "status_listen",
            "proxy_listen",
            "proxy_access_log",
            "proxy_error_log",
            "admin_access_log",
            "admin_error_log",
            "status_access_log",
            "status_error_log",
            "nginx_worker_processes",
            "upstream_keepalive_pool_size",
            "upstream_keepalive_max_requests",
            "upstream_keepalive_idle_timeout",
            "ssl_cert",
            "ssl_cert_key",
            "ssl_cipher_suite",
        ];
        let passed_on = ["nginx_main_", "nginx_events_", "nginx_http_", "nginx_proxy_"];
        for line in case.text("kong.conf").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) = line.split_once(" = ").unwrap_or_else(|| panic!("{}: {line}", case.what));
            let known = known.contains(&key) || passed_on.iter().any(|prefix| key.starts_with(prefix));
            assert!(known && !value.is_empty(), "{}: {line}", case.what);
        }
    }
}

/// Sources for APISIX 3.12: `apisix/schema_def.lua` (route, upstream, consumer, ssl, global rule),
/// `apisix/core/config_yaml.lua` (`#END`), and the schema of each plugin below `apisix/plugins`.
#[test]
fn apisix_reads_its_standalone_file() {
    for case in cases("apisix") {
        assert!(case.text("apisix.yaml").trim_end().ends_with("\n#END"), "{}: ends with #END", case.what);
        let file = case.yaml("apisix.yaml");
        case.keys(&file, &["routes", "upstreams"], &["consumers", "global_rules", "ssls"]);
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
            // schema_def.lua: before version 3.11 the pattern was `^[a-zA-Z0-9_]+$`. Since then a hyphen is also
            // allowed.
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
        let plugins = file["global_rules"][0]["plugins"].as_object();
        for (plugin, config) in plugins.into_iter().flatten() {
            match plugin.as_str() {
                "key-auth" => case.keys(config, &["header"], &[]),
                "basic-auth" => case.keys(config, &[], &[]),
                "jwt-auth" => case.keys(config, &["key_claim_name"], &[]),
                "limit-count" => {
                    case.keys(
                        config,
                        &["count", "time_window"],
                        &["rejected_code", "key_type", "key", "policy"],
                    );
                }
                "proxy-rewrite" | "response-rewrite" => case.keys(config, &["headers"], &[]),
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

/// Sources for Traefik 3.3: `pkg/config/dynamic/http_config.go`, `middlewares.go` and
/// `pkg/config/static/static_config.go`.
#[test]
fn traefik_reads_its_static_and_dynamic_files() {
    for case in cases("traefik") {
        let fixed = case.yaml("traefik.yml");
        case.keys(&fixed, &["entryPoints", "providers"], &["global", "log", "accessLog", "ping"]);
        for (_, entry) in fixed["entryPoints"].as_object().expect("entry points") {
            case.keys(entry, &["address"], &["transport"]);
        }
        assert!(fixed["entryPoints"][fixed["ping"]["entryPoint"].as_str().expect("named")].is_object());
        let file = case.yaml("dynamic.yml");
        case.keys(&file, &["http"], &["tls"]);
        let http = &file["http"];
        case.keys(http, &["routers", "services"], &["middlewares", "serversTransports"]);
        let routers = http["routers"].as_object().expect("routers");
        assert_eq!(routers.len(), if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        for router in routers.values() {
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
                    &[
                        "accessControlAllowOriginList",
                        "accessControlAllowMethods",
                        "accessControlAllowHeaders",
                        "accessControlMaxAge",
                        "addVaryHeader",
                        "customRequestHeaders",
                        "customResponseHeaders",
                    ],
                ),
                other => panic!("{}: {name} is no {other}", case.what),
            }
        }
        if case.has("tls") {
            case.keys(&file["tls"], &["certificates", "options"], &[]);
            case.keys(&file["tls"]["options"]["measured"], &["minVersion"], &["clientAuth"]);
        }
    }
}

/// Source for KrakenD 2.9: its JSON Schema (`v2.9/krakend.json` and the schemas that it refers to). `version` is 3. An
/// endpoint requires `endpoint` and `backend`. A backend requires `url_pattern`. Unknown members are not allowed.
#[test]
fn krakend_accepts_its_file_by_its_schema() {
    for case in cases("krakend") {
        let file = case.json("krakend.json");
        let allowed = [
            "$schema",
            "name",
            "listen_ip",
            "port",
            "timeout",
            "idle_timeout",
            "idle_connection_timeout",
            "max_idle_connections",
            "max_idle_connections_per_host",
            "tls",
            "client_tls",
            "extra_config",
            "endpoints",
        ];
        case.keys(&file, &["version"], &allowed);
        assert_eq!(file["version"], json!(3), "{}", case.what);
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

/// Source for Tyk 5.8: `apidef/schema.json`. It requires `name`, `proxy` (with `target_url`) and `version_data` (with
/// `not_versioned` and `versions`). A `definition` requires `key` and `location`. Unknown members are not allowed. The
/// source for policies is `user/policy.go`.
#[test]
fn tyk_accepts_its_api_definition_by_its_schema() {
    for case in cases("tyk") {
        let api = case.json("api.json");
        let allowed = [
            "api_id",
            "org_id",
            "active",
            "use_keyless",
            "enable_jwt",
            "jwt_signing_method",
            "jwt_source",
            "jwt_identity_base_field",
            "jwt_default_policies",
            "jwt_skip_kid",
            "auth",
            "global_rate_limit",
            "disable_rate_limit",
            "disable_quota",
            "enable_ip_whitelisting",
            "allowed_ips",
            "CORS",
            "definition",
            "response_processors",
            "do_not_track",
        ];
        case.keys(&api, &["name", "proxy", "version_data"], &allowed);
        case.keys(&api["definition"], &["key", "location"], &[]);
        case.keys(&api["version_data"], &["not_versioned", "versions"], &[]);
        let proxy = &api["proxy"];
        let allowed = [
            "listen_path",
            "strip_listen_path",
            "preserve_host_header",
            "enable_load_balancing",
            "target_list",
        ];
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

/// Sources for Ocelot 24: the public properties of `FileConfiguration`, of `FileRoute` and of their classes, below
/// `src/Configuration/File`. A route requires both path templates, a method and a destination.
#[test]
fn ocelot_reads_its_routes() {
    for case in cases("ocelot") {
        let file = case.json("ocelot.json");
        case.keys(&file, &["Routes", "GlobalConfiguration"], &[]);
        assert_eq!(list(&file["Routes"]).len(), if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        for route in list(&file["Routes"]) {
            case.keys(
                route,
                &["UpstreamPathTemplate", "DownstreamPathTemplate", "DownstreamHostAndPorts"],
                &[
                    "UpstreamHttpMethod",
                    "DownstreamScheme",
                    "AuthenticationOptions",
                    "RateLimitOptions",
                    "SecurityOptions",
                    "LoadBalancerOptions",
                    "HttpHandlerOptions",
                ],
            );
            // Both templates of a route must have the same placeholders.
            for template in ["UpstreamPathTemplate", "DownstreamPathTemplate"] {
                let text = route[template].as_str().expect("text");
                assert!(text.starts_with('/') && text.ends_with("/{everything}"), "{}: {text}", case.what);
            }
            assert_eq!(list(&route["DownstreamHostAndPorts"]).len(), case.upstreams, "{}", case.what);
            for place in list(&route["DownstreamHostAndPorts"]) {
                case.keys(place, &["Host", "Port"], &[]);
            }
            assert_eq!(
                route["AuthenticationOptions"]["AuthenticationProviderKey"].as_str(),
                if case.has("key-auth") {
                    Some("key")
                } else if case.has("jwt-hs256") || case.has("jwt-rs256") {
                    Some("jwt")
                } else {
                    None
                },
                "{}",
                case.what
            );
        }
        settings_fit_the_program("ocelot", &case);
    }
}

/// Sources for YARP 2.2: the keys of its configuration provider and of its built-in transforms. Each route requires
/// `ClusterId` and `Match`. Each cluster requires `Destinations`, and each destination requires an `Address`.
#[test]
fn yarp_reads_its_routes_and_clusters() {
    for case in cases("yarp") {
        let file = case.json("yarp.json");
        let proxy = &file["ReverseProxy"];
        case.keys(proxy, &["Routes", "Clusters"], &[]);
        let routes = proxy["Routes"].as_object().expect("routes");
        assert_eq!(routes.len(), if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        for route in routes.values() {
            case.keys(
                route,
                &["ClusterId", "Match"],
                &["AuthorizationPolicy", "RateLimiterPolicy", "Transforms"],
            );
            case.keys(&route["Match"], &["Path"], &[]);
            let cluster = &proxy["Clusters"][route["ClusterId"].as_str().expect("a name")];
            case.keys(cluster, &["Destinations"], &["LoadBalancingPolicy", "HttpClient", "HttpRequest"]);
            let destinations = cluster["Destinations"].as_object().expect("destinations");
            assert_eq!(destinations.len(), case.upstreams, "{}", case.what);
            for destination in destinations.values() {
                case.keys(destination, &["Address"], &[]);
            }
            for transform in list(&route["Transforms"]) {
                let known = [
                    "RequestHeaderOriginalHost",
                    "PathRemovePrefix",
                    "RequestHeader",
                    "Set",
                    "RequestHeaderRemove",
                    "ResponseHeader",
                    "ResponseHeaderRemove",
                    "When",
                    "RequestHeadersCopy",
                ];
                case.keys(transform, &[], &known);
            }
        }
        settings_fit_the_program("yarp", &case);
    }
}

/// The program reads `hoptax.json` into a C# record. Both must have the same fields.
fn settings_fit_the_program(name: &str, case: &Case) {
    let pack = pack(name);
    let program = pack.template("Program.cs").expect("the program");
    let record =
        program.split("record Settings(").nth(1).and_then(|rest| rest.split(')').next()).expect("a record");
    let mut wanted: Vec<String> = record
        .split(',')
        .filter_map(|parameter| parameter.split_whitespace().last())
        .map(str::to_ascii_lowercase)
        .collect();
    let settings = case.json("hoptax.json");
    let mut given: Vec<String> =
        settings.as_object().expect("members").keys().map(|key| key.to_ascii_lowercase()).collect();
    wanted.sort();
    given.sort();
    assert_eq!(wanted, given, "{}", case.what);
}

/// Source for KubeGateway: `pkg/apis/proxy/v1alpha1/upstreamcluster_types.go`.
#[test]
fn kubegateway_accepts_its_cluster() {
    for case in cases("kubegateway") {
        let cluster = case.json("cluster.json");
        case.keys(&cluster, &["apiVersion", "kind", "metadata", "spec"], &[]);
        assert_eq!(
            (&cluster["apiVersion"], &cluster["kind"]),
            (&json!("proxy.kubegateway.io/v1alpha1"), &json!("UpstreamCluster"))
        );
        let spec = &cluster["spec"];
        case.keys(spec, &["servers", "clientConfig", "dispatchPolicies"], &["flowControl"]);
        assert_eq!(list(&spec["servers"]).len(), case.upstreams, "{}", case.what);
        // pkg/apis/proxy/v1alpha1/validation: with TLS, the cluster requires an authority and a client credential.
        let secure: &[&str] = if case.has("upstream-tls") { &["caData", "serverName"] } else { &[] };
        let client = &spec["clientConfig"];
        case.keys(client, &[&["insecure"], secure].concat(), &["bearerToken", "certData", "keyData"]);
        let pair = client["certData"].is_string() && client["keyData"].is_string();
        let known = pair || client["bearerToken"].is_string();
        assert_eq!(known, case.has("upstream-tls"), "{}", case.what);
        for policy in list(&spec["dispatchPolicies"]) {
            case.keys(policy, &["rules"], &["strategy", "flowControlSchemaName"]);
            let schemas = list(&spec["flowControl"]["flowControlSchemas"]);
            let named = policy["flowControlSchemaName"].as_str();
            assert!(named.is_none_or(|name| schemas.iter().any(|one| one["name"] == name)), "{}", case.what);
        }
    }
}

/// The program's message about a syntax error in `text`; `None` if there is no error. If the program is not installed,
/// notes a skip and returns `None`.
fn complaint(program: &str, arguments: &[&str], text: &str) -> Option<String> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        skip(format!("{program} is not installed"));
        return None;
    };
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("taken");
    let output = child.wait_with_output().expect("ends");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn scripts_have_valid_syntax() {
    let (mut shells, mut looked_at) = (0, BTreeSet::new());
    for name in DOCUMENTED {
        for case in cases(name) {
            for file in case.rendered.files.iter().filter(|file| file.name.ends_with(".sh")) {
                // Each script is checked once, because most cases have the same script.
                if looked_at.insert(file.text.clone()) {
                    assert_eq!(complaint("sh", &["-n"], &file.text), None, "{}\n{}", case.what, file.text);
                }
                assert!(file.text.contains("\nexec "), "{}: the gateway takes the script's place", case.what);
                shells += 1;
            }
        }
    }
    assert!(shells > 50, "{shells}");
}

/// Pipy's language has JavaScript's syntax, so Node.js can check it.
#[test]
fn pipys_script_is_javascript() {
    // Node.js starts slowly, so only some cases are checked: without features, with all features, and with each feature
    // alone.
    for case in cases("pipy").iter().filter(|case| case.upstreams == 2 && case.what.ends_with("log: true")) {
        let script = case.text("main.js");
        assert_eq!(complaint("node", &["--check", "-"], script), None, "{}\n{script}", case.what);
    }
}

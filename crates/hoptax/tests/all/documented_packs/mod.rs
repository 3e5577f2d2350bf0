//! Packs of gateways that the set-up cannot install. Their rendered files are checked against rules that the
//! products' developers publish. Each rule names its source. Other tests check the corrections that
//! were made when these packs were run.

mod apisix;
mod dotnet;
mod kong;
mod krakend;
mod kubegateway;
mod never_run;
mod pipy;
mod traefik;
mod tyk;

use crate::support::{skip, yaml};
use hoptax_lab::packs::{Pack, PackSet, binary};
use hoptax_lab::render::{self, GrpcVariables, Rendered, UpstreamAddress, Variables};
use hoptax_plan::{ClientHttp2, Feature, Profile, RoutePosition};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub(crate) const DOCUMENTED: [&str; 9] =
    ["apisix", "kong", "krakend", "kubegateway", "ocelot", "pipy", "traefik", "tyk", "yarp"];

/// Packs of gateways for language models that nobody has run.
pub(crate) const NEVER_RUN: [&str; 3] = ["agentgateway", "bifrost", "tensorzero"];

/// One rendering of a pack. The field `what` describes the rendering.
struct Case {
    what: String,
    profile: Profile,
    access_log: bool,
    features: Vec<Feature>,
    upstreams: usize,
    http2: bool,
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

    /// Whether a reported setting contains this text.
    fn reports(&self, part: &str) -> bool {
        self.rendered.settings.iter().any(|one| one.setting.contains(part))
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

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
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

/// Renderings of the pack in both profiles, with and without an access log. Some cases have no features, some
/// have one feature each, some have several features, and some have all compatible features.
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
            for access_log in [false, true] {
                all.push(rendering(name, profile, access_log, upstreams, features.clone()));
            }
        }
    }
    assert!(all.len() >= 12, "{name}: {}", all.len());
    all
}

/// Renderings of the pack for a load over HTTP/2: in both profiles, with and without TLS. The number of
/// streams is above the default of each gateway.
fn over_http2(name: &str) -> Vec<Case> {
    let mut all = Vec::new();
    for features in [vec![], vec![Feature::Tls]] {
        for profile in [Profile::Stock, Profile::Equalised] {
            let sample = Variables { http2: true, streams: 300, ..Variables::sample(profile, None) };
            all.push(rendering_of(name, sample, 2, features.clone()));
        }
    }
    all
}

/// Renderings of the pack for a plan of calls only, and for a plan that also has other requests.
fn with_calls(name: &str) -> [Case; 2] {
    [false, true].map(|is_mixed| {
        let grpc = Some(GrpcVariables { paths: vec!["/echo.Echo/Say".to_owned()], is_mixed });
        let sample = Variables { http2: true, grpc, ..Variables::sample(Profile::Equalised, None) };
        rendering_of(name, sample, 2, vec![])
    })
}

/// Renderings of the variant `ai-proxy`: in both profiles, with one upstream instance and with two.
fn ai_proxy(name: &str) -> Vec<Case> {
    let mut all = Vec::new();
    for profile in [Profile::Stock, Profile::Equalised] {
        for upstreams in [1, 2] {
            let sample =
                Variables { variant: Some("ai-proxy".to_owned()), ..Variables::sample(profile, None) };
            let case = rendering_of(name, sample, upstreams, vec![]);
            assert!(case.reports("ai-proxy"), "{}", case.what);
            all.push(case);
        }
    }
    all
}

/// One rendering of the pack, with two workers.
fn rendering(name: &str, profile: Profile, access_log: bool, upstreams: u16, features: Vec<Feature>) -> Case {
    let log = access_log.then(|| "/run-directory/logs/access.log".to_owned());
    rendering_of(name, Variables::sample(profile, log), upstreams, features)
}

fn rendering_of(name: &str, sample: Variables, upstreams: u16, features: Vec<Feature>) -> Case {
    let (profile, access_log, http2) = (sample.profile, sample.access_log.is_some(), sample.http2);
    let names: Vec<_> = features.iter().map(|feature| feature.name()).collect();
    let what = format!("{name} {profile:?} [{}], HTTP/2: {http2}, log: {access_log}", names.join(" "));
    let mut variables = sample.with_sample_features(features.clone());
    variables.workers = 2;
    variables.upstreams = (0..upstreams)
        .map(|index| UpstreamAddress { host: "127.0.0.1".into(), port: 20_003 + index, socket: None })
        .collect();
    let rendered = render::render(pack(name), &variables).unwrap_or_else(|error| panic!("{what}: {error}"));
    Case { what, profile, access_log, features, upstreams: usize::from(upstreams), http2, rendered }
}

#[test]
fn they_state_their_last_run_and_support_both_drivers() {
    for name in DOCUMENTED {
        let pack = pack(name);
        let manifest = pack.manifest();
        assert!(manifest.last_run_for_real.is_some(), "{name}");
        assert!(!manifest.install.is_empty(), "{name}: how it is installed");
        let docker = manifest.docker.as_ref().unwrap_or_else(|| panic!("{name}: no image"));
        assert!(docker.image.contains(':') && !docker.image.ends_with(":latest"), "{name}: {}", docker.image);
        for feature in Feature::NAMES {
            let offered = manifest.features.iter().any(|one| one == feature);
            let lacks = manifest.unsupported.contains_key(feature);
            assert!(offered != lacks, "{name}: `{feature}` is either offered or lacking with a reason");
            // The feature `consumers` only adds entries to those of an authentication.
            let reported = manifest.settings.features.contains_key(feature);
            assert!(
                !offered || reported || feature == "consumers",
                "{name} reports no setting for `{feature}`"
            );
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
            // The network of all clients, which the feature `proxy-protocol` trusts, is no address to listen
            // on.
            assert!(!all.replace("0.0.0.0/0", "").contains("0.0.0.0"), "{}", case.what);
            assert!(all.contains("20001") || name == "kubegateway", "{}: its port", case.what);
            let stdout =
                pack(name).manifest().access_log == Some(hoptax_lab::packs::manifest::AccessLogTo::Stdout);
            assert_eq!(all.contains("/logs/access.log"), case.access_log && !stdout, "{}", case.what);
        }
    }
}

/// A load over HTTP/1 must not change because the pack knows HTTP/2.
#[test]
fn only_loads_over_http2_configure_it() {
    for name in DOCUMENTED {
        for case in cases(name) {
            for file in &case.rendered.files {
                // This setting is about the upstream.
                let text = file.text.replace("disableHTTP2", "").to_lowercase();
                let found = ["http2", "h2c", "'h2'"].iter().find(|word| text.contains(**word));
                assert_eq!(found, None, "{}: {}", case.what, file.name);
            }
        }
        let speaks = pack(name).manifest().http2 != ClientHttp2::No;
        assert_eq!(speaks, name != "kubegateway", "{name}");
    }
}

/// Differences that were seen when the packs were run. `hoptax lint` compares these texts exactly.
#[test]
fn they_list_the_differences_that_were_seen() {
    const QUERY: &str = "/.hoptax/echo?a=1&a=2&b=%20%2F%3F+~!$'()*,;:@/?&c[]=%c3%a9&&d";
    let query = |seen: &str| {
        ("query", format!("the upstream saw path \"/.hoptax/echo?a=1&a=2&{seen}\" instead of \"{QUERY}\""))
    };
    let status = |case, status: u16| (case, format!("status {status} instead of 200"));
    let close = |status: u16| ("close", format!("status {status} where direct ends the connection early"));
    let of_nginx = || vec![status("request-header-30k", 400), status("response-header-30k", 502), close(502)];
    let expected = [
        ("apisix", of_nginx()),
        ("kong", of_nginx()),
        ("krakend", vec![status("head", 405), query("c%5B%5D=%C3%A9&d="), close(500)]),
        ("kubegateway", vec![]),
        ("ocelot", vec![query("b=%20%2F%3F%20~!$%27()*,;%3A@%2F%3F&c%5B%5D=%C3%A9&d="), close(502)]),
        (
            "pipy",
            vec![
                ("request-header-30k", "no whole answer".to_owned()),
                ("response-header-30k", "no whole answer".to_owned()),
                ("close-midway", "status 200 where direct ends the connection early".to_owned()),
            ],
        ),
        ("traefik", vec![query("b=%20%2F%3F+~!$'()*,&:@/?&c[]=%c3%a9&&d"), close(502)]),
        ("tyk", vec![close(500)]),
        ("yarp", vec![query("b=%20%2F%3F+~!$'()*,;:@/?&c[]=%C3%A9&&d"), close(502)]),
    ];
    for (name, differences) in expected {
        let listed = pack(name).manifest().differences.iter().filter(|one| one.header.is_none());
        let listed: Vec<_> = listed.map(|one| (one.case.as_str(), one.what.clone())).collect();
        assert_eq!(listed, differences, "{name}");
        let headers: &[&str] = if name == "kubegateway" { &["cache-control"] } else { &[] };
        assert!(pack(name).manifest().changed_headers().keys().eq(headers), "{name}");
    }
}

#[test]
fn rendered_json_and_yaml_files_are_valid() {
    let mut read = 0;
    for name in DOCUMENTED {
        for case in cases(name) {
            for file in &case.rendered.files {
                match file.name.rsplit_once('.').map(|(_, ending)| ending) {
                    Some("json") => drop(case.json(&file.name)),
                    Some("yaml" | "yml") => drop(case.yaml(&file.name)),
                    _ => continue,
                }
                read += 1;
            }
        }
    }
    assert!(read > 500, "{read}");
}

/// A fixed port would be in use if a gateway is measured twice.
#[test]
fn ports_come_from_variables() {
    let port = regex_lite::Regex::new(
        r#"(?i)(?:127\.0\.0\.\d|localhost|0\.0\.0\.0|\[::1?\]):(\d+)|ports?["']?\s*[:=]\s*["']?(\d+)"#,
    )
    .expect("a constant");
    for name in DOCUMENTED {
        let mut found = 0;
        for case in cases(name) {
            for file in &case.rendered.files {
                for groups in port.captures_iter(&file.text) {
                    let number = groups.get(1).or_else(|| groups.get(2)).expect("one of them").as_str();
                    let known = ["20001", "20002", "20003", "20004"].contains(&number);
                    assert!(known, "{}: port {number} in {}", case.what, file.name);
                    found += 1;
                }
            }
        }
        assert!(found > 0, "{name}");
    }
}

/// A configuration may name files of the run, and files that the pack lists under `needs`.
#[test]
fn configurations_name_no_other_files() {
    let place = regex_lite::Regex::new(r#"/(?:etc|home|opt|root|srv|tmp|usr|var)/[^\s"',;)}\]]*"#)
        .expect("a constant");
    for name in DOCUMENTED {
        let needed: Vec<String> = pack(name).needed().into_values().collect();
        for case in cases(name) {
            for file in case.rendered.files.iter().filter(|file| !file.name.ends_with(".sh")) {
                let is_code = |line: &&str| !line.trim_start().starts_with(['#', '/']);
                for found in file.text.lines().filter(is_code).flat_map(|line| place.find_iter(line)) {
                    let found = found.as_str();
                    let known = found.starts_with("/tmp/sockets")
                        || needed.iter().any(|one| one.starts_with(&format!("{found}/")) || one == found);
                    assert!(known, "{}: {found} in {}", case.what, file.name);
                }
            }
        }
    }
}

/// These gateways answer readiness checks by a route of their own configuration.
#[test]
fn readiness_checks_find_their_route() {
    for (name, file) in
        [("apisix", "config.yaml"), ("pipy", "main.js"), ("traefik", "dynamic.yml"), ("tyk", "ready.json")]
    {
        for case in cases(name) {
            assert!(case.text(file).contains(&case.rendered.ready_path), "{}", case.what);
        }
    }
}

/// The program's message about a syntax error in `text`; `None` if there is no error. If the program is not
/// installed, notes a skip and returns `None`.
fn complaint(program: &str, arguments: &[&str], text: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn();
    let Ok(mut child) = child else {
        skip(format!("{program} is not installed"));
        return None;
    };
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("taken");
    let output = child.wait_with_output().expect("ends");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The error that the program of the pack `of` reports when it checks a file with this name and text; `None`
/// if it accepts the file. The name follows `arguments`.
fn refusal_of(of: &str, arguments: &[&str], name: &str, text: &str) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let program = binary::find(pack(of)).expect("installed");
    std::fs::write(directory.path().join(name), text).expect("written");
    let output = Command::new(program).args(arguments).arg(name).current_dir(directory.path()).output();
    let output = output.expect("installed");
    let said = || String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| said().into_owned())
}

/// Whether the program of a pack is missing. If so, notes the skip.
fn lacks(name: &str) -> bool {
    let missing = binary::find(pack(name)).is_none();
    if missing {
        skip(format!("{name} is not installed"));
    }
    missing
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

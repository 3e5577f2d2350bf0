use super::*;
use hoptax_format::spec::HttpVersion;
use hoptax_plan::Feature;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const MANIFEST_TEXT: &str = "\
name: mine
summary: a test
binary: mine
version: { command: [\"{{ binary }}\", -v], pattern: 'v(.+)' }
start: [\"{{ binary }}\"]
ready: { path: / }
access_log: file
";

fn error_of(from: &str, to: &str) -> String {
    assert!(MANIFEST_TEXT.contains(from), "`{from}`");
    let text = MANIFEST_TEXT.replace(from, to);
    crate::packs::parse("packs/mine", text, BTreeMap::new()).expect_err("it is wrong").to_string()
}

#[test]
fn a_small_pack_is_right_and_has_defaults() {
    let pack =
        crate::packs::parse("packs/mine", MANIFEST_TEXT.into(), BTreeMap::new()).expect("nothing wrong");
    let manifest = pack.manifest();
    assert_eq!((manifest.stop.signal.as_str(), manifest.stop.grace.as_str()), ("TERM", "5s"));
    assert_eq!((manifest.ready.status, manifest.ready.timeout.as_str()), (200, "10s"));
    assert_eq!(manifest.ready.port, manifest::ReadyPort::Main);
    assert_eq!(manifest.limits, manifest::Limits::default());
}

#[test]
fn mistakes_are_reported_with_their_line_and_the_fix() {
    let changed = [
        ("summary: a test", "summery: a test"),
        ("binary: mine\n", ""),
        ("name: mine", "name: yours"),
        ("name: mine", "name: direct"),
        ("'v(.+)'", "'v.+'"),
        ("'v(.+)'", "'v(.+'"),
        ("start: [\"{{ binary }}\"]", "start: []"),
        ("path: /", "path: ready"),
        ("path: / }", "path: /, timeout: soon }"),
        ("path: / }", "path: /, port: other }"),
        ("access_log: file\n", ""),
        ("{{ binary }}\", -v", "{{ port }}\", -v"),
    ];
    let added = [
        "features: [proxy-protocol]",
        "unsupported: { access_log: no }",
        "needs: { module: [modules/one.so] }",
        "needs: { module: [] }",
        "features: [key-auth]\nsettings: { features: { keyauth: [{ setting: a, reason: b }] } }",
        "http2: both",
        "upstream_http2: true",
        "upstream_http2: true\nunsupported: { upstream_http2: no }",
        "llm: { apis: [] }",
        "llm: { apis: [openai], headers: { 'a b': c } }",
        "llm: { apis: [chat] }",
        "llm: { apis: [openai], headers: { a: '{{ nothing }}' } }",
        "grpc: true\nunsupported: { grpc: no }",
        "stop: { signal: BOOM }",
        "reload: { signal: BOOM }",
        "reload: { signal: HUP, watched: true }",
        "reload: { request: { method: POST, path: reload } }",
        "metrics: stats",
        "reload: { command: [\"{{ binary }}\", \"{{ nobody }}\"] }",
        "reload: { watched: true }\nunsupported: { reload: no }",
        "files: [{ template: a.j2, to: a }]",
        "features: [tls]\nunsupported: { tls: later }",
        "counters: [{ name: a, path: /s, kind: json, select: x, meaning: m }]",
        "counters: [{ name: a, path: s, kind: regex, select: (x), meaning: m }]",
        "counters: [{ name: a, from: log, path: ../x, kind: regex, select: x, meaning: m }]",
        "build: { folder: ../elsewhere }",
        "build: { folder: project, needs: [java] }",
        "differences: [{ case: closes, what: w, reason: r }]",
        "differences: [{ case: head, what: w, reason: ' ' }]",
        "differences:\n  - { case: head, what: w, reason: r }\n  - { case: head, what: v, reason: r }",
        "differences: [{ case: head, what: w, reason: r }, { case: head, http: 2, what: v, reason: r }]",
        "differences: [{ case: head, http: 2, what: w, reason: r }, { case: head, upstream_http: 2, what: \
         v, reason: r }]",
        "differences: [{ case: head, http: 3, what: w, reason: r }]",
        "last_run_for_real: { version: '1', date: 2026-11-23, unproved: { tls: later } }",
        "features: [key-auth]\nrefusals: { key-auth: { wrong: 200, reason: r } }",
        "features: [key-auth]\nrefusals: { keyauth: { wrong: 403, reason: r } }",
        "differences: [{ case: head, reason: r }]",
        "differences: [{ header: age, case: head, what: w, reason: r }]",
        "differences: [{ header: age, reason: ' ' }]",
        "tls: always",
    ];
    let added = added.map(|more| ("access_log: file\n", format!("access_log: file\n{more}\n")));
    let changed = changed.map(|(from, to)| (from, to.to_owned()));
    let told = changed.into_iter().chain(added).map(|(from, to)| {
        format!("{} -> {}\n=> {}\n", from.trim_end(), to.trim_end(), error_of(from, &to).trim_end())
    });
    insta::assert_snapshot!(told.collect::<String>());
}

#[test]
fn one_reason_can_hold_for_all_other_features() {
    let more = "features: [cors]\nunsupported: { '*': no, tls: later, grpc: lost }\n";
    let text = format!("{MANIFEST_TEXT}{more}");
    let pack = crate::packs::parse("packs/mine", text, BTreeMap::new()).expect("nothing wrong");
    let reasons = &pack.manifest().unsupported;
    let expected = Feature::NAMES.into_iter().filter(|name| *name != "cors").chain(["grpc"]);
    let reason = |name: &str| reasons.get(name).map(String::as_str);
    for name in expected.clone() {
        let expected = match name {
            "tls" => "later",
            "grpc" => "lost",
            _ => "no",
        };
        assert_eq!(reason(name), Some(expected), "{name}");
    }
    assert_eq!(reasons.len(), expected.count(), "{reasons:?}");
}

#[test]
fn a_variant_can_be_for_language_models_only() {
    let text = format!("{MANIFEST_TEXT}variants: [a, b]\nllm_variants: {{ b: {{ apis: [openai] }} }}\n");
    let pack = crate::packs::parse("packs/mine", text.clone(), BTreeMap::new()).expect("nothing wrong");
    let llm = |pack: &Pack| pack.llm().is_some();
    assert_eq!(pack.variants().map(|pack| llm(&pack)).collect::<Vec<_>>(), [false, true]);
    assert!(!llm(&pack), "the first variant is the default");
    let wrong = text.replace("{ b:", "{ c:");
    let error = crate::packs::parse("packs/mine", wrong, BTreeMap::new()).expect_err("no such variant");
    insta::assert_snapshot!(error);
}

#[test]
fn differences_can_belong_to_one_version_of_http() {
    let listed = [("head", "http: 1.1, "), ("head", "http: 2, "), ("ping", "http: '2', "), ("get", "")];
    let listed = listed.map(|(case, http)| format!("  - {{ case: {case}, {http}what: w, reason: r }}\n"));
    let text = format!("{MANIFEST_TEXT}differences:\n{}", listed.concat());
    let pack = crate::packs::parse("packs/mine", text, BTreeMap::new()).expect("nothing wrong");
    let versions: Vec<_> = pack.manifest().differences.iter().map(|one| one.http).collect();
    let (http1, http2) = (Some(HttpVersion::Http11), Some(HttpVersion::Http2));
    assert_eq!(versions, [http1, http2, http2, None]);

    let listed = ["1.1", "2"].map(|upstream| {
        format!("  - {{ case: get, http: 2, upstream_http: {upstream}, what: w{upstream}, reason: r }}\n")
    });
    let text = format!("{MANIFEST_TEXT}differences:\n{}", listed.concat());
    let pack = crate::packs::parse("packs/mine", text, BTreeMap::new()).expect("nothing wrong");
    let versions: Vec<_> = pack.manifest().differences.iter().map(|one| one.upstream_http).collect();
    assert_eq!(versions, [http1, http2]);
}

#[test]
fn a_rendered_path_stays_in_the_gateways_directory() {
    let errors = ["../a", "/etc/a", "a/../../b"].map(|to| {
        let text = format!("{MANIFEST_TEXT}files: [{{ template: a.j2, to: {to} }}]\n");
        let files = [("a.j2".to_owned(), String::new())].into();
        crate::packs::parse("packs/mine", text, files).expect_err("it leaves").to_string()
    });
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_directory_adds_packs_and_replaces_embedded_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let add = |name: &str| {
        let folder = directory.path().join(name);
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join(MANIFEST), MANIFEST_TEXT.replace("name: mine", &format!("name: {name}")))
            .expect("written");
    };
    add("mine");
    add("nginx");
    fs::create_dir(directory.path().join("notes")).expect("made");

    let packs = PackSet::load(Some(directory.path())).expect("nothing wrong");
    let embedded = PackSet::load(None).expect("nothing wrong");
    let mut expected = embedded.names();
    expected.push("mine");
    expected.sort_unstable();
    assert_eq!(packs.names(), expected);
    assert_eq!(packs.get("nginx").expect("there").manifest().binary, "mine");
    assert!(packs.infos().iter().any(|info| info.name == "mine"));
    assert_ne!(
        PackSet::load(None).expect("nothing wrong").get("nginx").expect("there").manifest().binary,
        "mine"
    );
}

#[test]
fn build_results_are_not_among_a_packs_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let folder = directory.path().join("mine");
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("below")).expect("made");
        fs::write(path, text).expect("written");
    };
    put(MANIFEST, &format!("{MANIFEST_TEXT}build: {{ folder: project, needs: [java] }}\n"));
    put("project/build.sh", "#!/bin/sh\n");
    put("project/src/main/App.java", "class App {}\n");
    for made in ["target/out.txt", "node_modules/it/index.js", ".cache/it"] {
        put(&format!("project/{made}"), "made\n");
    }
    let packs = PackSet::load(Some(directory.path())).expect("nothing wrong");
    let pack = packs.get("mine").expect("there");
    let names: Vec<_> = pack.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["project/build.sh", "project/src/main/App.java"]);
    let way = format!("in a checkout of {}: make gateways-extra (needs java)", env!("CARGO_PKG_REPOSITORY"));
    assert_eq!(binary::how_to_install(pack), [way]);

    fs::remove_file(folder.join("project/build.sh")).expect("gone");
    let place = directory.path().display().to_string();
    let error =
        || PackSet::load(Some(directory.path())).expect_err("refused").to_string().replace(&place, "PACKS");
    let mut told = error();
    put("project/build.sh", "");
    put(MANIFEST, &format!("{MANIFEST_TEXT}build: {{ folder: project, needs: [\"a b\"] }}\n"));
    told += &format!("\n{}", error());
    insta::assert_snapshot!(told);
}

#[test]
fn directories_without_packs_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().display().to_string();
    let error_of = |path: &Path| {
        PackSet::load(Some(path)).expect_err("nothing to load").to_string().replace(&place, "PACKS")
    };
    let mut told = vec![error_of(directory.path()), error_of(&directory.path().join("nowhere"))];

    let folder = directory.path().join("mine");
    fs::create_dir(&folder).expect("made");
    fs::write(folder.join("gateway.yml"), MANIFEST_TEXT).expect("written");
    told.push(error_of(directory.path()));

    fs::write(folder.join(MANIFEST), MANIFEST_TEXT).expect("written");
    told.push(error_of(&folder));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn every_embedded_pack_is_valid_and_names_its_homepage() {
    let packs = PackSet::load(None).expect("nothing wrong");
    for name in ["envoy", "haproxy", "nginx", "varnish"] {
        assert!(packs.get(name).is_some(), "{name}");
    }
    for pack in packs.iter() {
        let name = pack.name();
        check::check(pack).unwrap_or_else(|error| panic!("{error}"));
        assert!(!pack.manifest().install.is_empty(), "{name} can be installed somehow");
        assert!(pack.manifest().homepage.is_some(), "{name}");
        assert!(pack.files.contains_key("README.md"), "{name} has a README.md");
        for setting in &pack.manifest().settings.equalised {
            assert!(!setting.reason.trim().is_empty(), "{name} says why `{}`", setting.setting);
        }
    }
}

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
    let changed: [(&str, &str, &str); 12] = [
        ("summary: a test", "summery: a test", "gateway.yaml:2|summery|did you mean `summary`?"),
        ("binary: mine\n", "", "gateway.yaml|missing key `binary`"),
        ("name: mine", "name: yours", "gateway.yaml:1: the name is `yours`, the folder is `mine`"),
        ("name: mine", "name: direct", "gateway.yaml:1: a pack cannot be named `direct`"),
        ("'v(.+)'", "'v.+'", "gateway.yaml:4: `version.pattern` has no group|put parentheses"),
        ("'v(.+)'", "'v(.+'", "gateway.yaml:4: `version.pattern` is not a valid regular expression"),
        ("start: [\"{{ binary }}\"]", "start: []", "gateway.yaml:5: `start` is empty"),
        ("path: /", "path: ready", "gateway.yaml:6: `ready.path: ready` does not begin with `/`"),
        ("path: / }", "path: /, timeout: soon }", "gateway.yaml:6: `ready.timeout`: "),
        ("path: / }", "path: /, port: other }", "gateway.yaml:6|other|main|admin"),
        ("access_log: file\n", "", "`access_log` is missing|unsupported"),
        ("{{ binary }}\", -v", "{{ port }}\", -v", "gateway.yaml:4: `port` is not defined"),
    ];
    let added: [(&str, &str); 40] = [
        ("features: [proxy-protocol]", "gateway.yaml:6: requests for readiness have no header of"),
        ("unsupported: { access_log: no }", "gateway.yaml:8: `access_log` is both"),
        ("needs: { module: [modules/one.so] }", "gateway.yaml:8: `needs.module`: `modules/one.so` is not"),
        ("needs: { module: [] }", "gateway.yaml:8: `needs.module` lists no path"),
        (
            "features: [key-auth]\nsettings: { features: { keyauth: [{ setting: a, reason: b }] } }",
            "gateway.yaml:9: `settings.features` lists `keyauth`",
        ),
        ("http2: both", "gateway.yaml:8|both|shared|exclusive"),
        ("upstream_http2: true", "gateway.yaml:8: `upstream_http2` is set, but the configuration is the"),
        ("upstream_http2: true\nunsupported: { upstream_http2: no }", "gateway.yaml:9: `upstream_http2` is"),
        ("llm: { apis: [] }", "gateway.yaml:8: `llm.apis` lists no API"),
        ("llm: { apis: [openai], headers: { 'a b': c } }", "gateway.yaml:8: `a b` is not a valid name for"),
        ("llm: { apis: [chat] }", "gateway.yaml:8|chat"),
        ("llm: { apis: [openai], headers: { a: '{{ nothing }}' } }", "nothing"),
        ("grpc: true\nunsupported: { grpc: no }", "gateway.yaml:9: `grpc` is both supported and listed as"),
        ("stop: { signal: BOOM }", "gateway.yaml:8: unknown stop signal `BOOM`"),
        ("reload: { signal: BOOM }", "gateway.yaml:8: unknown stop signal `BOOM`"),
        ("reload: { signal: HUP, watched: true }", "gateway.yaml:8: `reload` must have exactly one key"),
        ("reload: { request: { method: POST, path: reload } }", "gateway.yaml:8: `reload.request.path:"),
        ("metrics: stats", "gateway.yaml:8: `metrics: stats` does not begin with `/`"),
        ("reload: { command: [\"{{ binary }}\", \"{{ nobody }}\"] }", "gateway.yaml:8: `nobody` is not"),
        ("reload: { watched: true }\nunsupported: { reload: no }", "gateway.yaml:9: `reload` is both"),
        ("files: [{ template: a.j2, to: a }]", "gateway.yaml:8: template `a.j2` is not in the pack"),
        ("features: [tls]\nunsupported: { tls: later }", "gateway.yaml:9: feature `tls` is both supported"),
        ("counters: [{ name: a, path: /s, kind: json, select: x, meaning: m }]", "gateway.yaml:8: cannot"),
        (
            "counters: [{ name: a, path: s, kind: regex, select: (x), meaning: m }]",
            "gateway.yaml:8: `path: s` of counter `a` does not begin with `/`",
        ),
        (
            "counters: [{ name: a, from: log, path: ../x, kind: regex, select: x, meaning: m }]",
            "`path: ../x` leaves the log directory",
        ),
        ("build: { folder: ../elsewhere }", "gateway.yaml:8: `build.folder: ../elsewhere` is not a folder"),
        ("build: { folder: project, needs: [java] }", "gateway.yaml:8: there is no `project/build.sh` in"),
        ("differences: [{ case: closes, what: w, reason: r }]", "gateway.yaml:8: there is no case `closes`"),
        ("differences: [{ case: head, what: w, reason: ' ' }]", "gateway.yaml:8: the difference for case"),
        (
            "differences:\n  - { case: head, what: w, reason: r }\n  - { case: head, what: v, reason: r }",
            "there are two differences for case `head`",
        ),
        (
            "differences: [{ case: head, what: w, reason: r }, { case: head, http: 2, what: v, reason: r }]",
            "there are two differences for case `head`",
        ),
        (
            "differences: [{ case: head, http: 2, what: w, reason: r }, { case: head, upstream_http: 2, \
             what: v, reason: r }]",
            "there are two differences for case `head`",
        ),
        ("differences: [{ case: head, http: 3, what: w, reason: r }]", "`3` is not a version of HTTP;"),
        (
            "last_run_for_real: { version: '1', date: 2026-11-23, unproved: { tls: later } }",
            "gateway.yaml:8: `last_run_for_real.unproved` lists `tls`",
        ),
        (
            "features: [key-auth]\nrefusals: { key-auth: { wrong: 200, reason: r } }",
            "gateway.yaml:9: 200 in the refusal of `key-auth` does not refuse a request",
        ),
        (
            "features: [key-auth]\nrefusals: { keyauth: { wrong: 403, reason: r } }",
            "gateway.yaml:9: `refusals` lists `keyauth`",
        ),
        ("differences: [{ case: head, reason: r }]", "gateway.yaml:8: the difference for case `head` has"),
        ("differences: [{ header: age, case: head, what: w, reason: r }]", "gateway.yaml:8: the difference"),
        ("differences: [{ header: age, reason: ' ' }]", "gateway.yaml:8: the difference in the header"),
        ("tls: always", "gateway.yaml:8: `tls: always` needs the feature `tls`|add it to `features`"),
    ];
    let check = |from: &str, to: &str, expected: &str| {
        let error = error_of(from, to);
        for words in expected.split('|') {
            assert!(error.contains(words), "`{words}` in:\n{error}");
        }
    };
    for (from, to, expected) in changed {
        check(from, to, expected);
    }
    for (more, expected) in added {
        check("access_log: file\n", &format!("access_log: file\n{more}\n"), expected);
    }
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

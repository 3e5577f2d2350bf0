//! Token reviews by the upstream, like those of a Kubernetes webhook. With caching, reviews add almost no
//! upstream requests. Without caching, every request causes two upstream requests.

use crate::run::{report, run_to_success, trials};
use crate::support::Scratch;
use std::path::Path;

/// A copy of nginx's pack that reviews tokens at the upstream. If nginx's pack does not offer this feature
/// itself, the template of the copy is changed so that it does.
fn reviewing(packs: &Path) -> &'static str {
    const NAME: &str = "reviewing";
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gateways/nginx");
    let to = packs.join(NAME);
    std::fs::create_dir_all(&to).expect("made");
    for entry in std::fs::read_dir(from).expect("a pack").flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
    let change = |file: &str, changes: &[(&str, &str)]| {
        let mut text = std::fs::read_to_string(to.join(file)).expect("text");
        for (old, new) in changes {
            assert!(text.contains(old), "{file} lacks `{old}`");
            text = text.replacen(old, new, 1);
        }
        std::fs::write(to.join(file), &text).expect("written");
        text
    };
    let manifest = change("gateway.yaml", &[("name: nginx\n", "name: reviewing\n")]);
    if !manifest.contains("token-review") {
        change("gateway.yaml", &[("access_log: file\n", "access_log: file\nfeatures: [token-review]\n")]);
        change(
            "nginx.conf.j2",
            &[
                (
                    "    upstream upstreams {\n",
                    "{% if features.token_review and features.token_review.cache_s %}\n    proxy_cache_path \
                     {{ dir }}/reviews keys_zone=reviews:1m;\n{% endif %}\n    upstream upstreams {\n",
                ),
                (
                    "        location / {\n",
                    "{% if features.token_review %}\n        location = /review {\n            internal;\n            proxy_pass http://upstreams{{ features.token_review.path }};\n            proxy_http_version 1.1;\n            proxy_set_header Connection \"\";\n{% if features.token_review.cache_s %}\n            proxy_cache reviews;\n            proxy_cache_key $http_authorization;\n            proxy_cache_valid 200 {{ features.token_review.cache_s }}s;\n{% endif %}\n        }\n{% endif %}\n        location / {\n{% if features.token_review %}\n            auth_request /review;\n{% endif %}\n",
                ),
            ],
        );
    }
    NAME
}

#[test]
fn uncached_token_reviews_double_the_upstream_requests() {
    needs!("nginx");
    let scratch = Scratch::new();
    let packs = scratch.path().join("packs");
    let name = reviewing(&packs);
    // The plan is the example plan, but its gateways use this pack.
    let plan = include_str!("../../../../plans/features/token-review.yaml")
        .replace("{ name: nginx,", &format!("{{ name: {name},"));
    assert_eq!(plan.matches(&format!("name: {name},")).count(), 3, "{plan}");
    let short = [
        "--set",
        "trials=1",
        "--set",
        "load.0.requests=300",
        "--set",
        "load.0.duration=60s",
        "--set",
        "warmup=100ms",
        "--accept-void",
    ];
    let arguments = [&short[..], &["--packs", packs.to_str().expect("text")]].concat();
    let directory = run_to_success(&scratch, &plan, &arguments);
    for trial in trials(&directory) {
        let who = trial["contender"].as_str().expect("a label");
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let sent = trial["load_record"]["lifetime"]["sent"].as_u64().expect("counted");
        let upstream = trial["ledger"]["requests"].as_u64().expect("counted");
        // At the end of the trial, each connection may have had one request in flight.
        let (expected, slack) = if who == "nginx-asks" { (2 * sent, 32) } else { (sent, 17) };
        assert!(
            sent >= 300 && upstream.abs_diff(expected) <= slack,
            "{who}: {upstream} upstream of {sent} sent"
        );
    }
    let document = report(&directory);
    for case in document["cases"].as_array().expect("cases") {
        let codes = case["findings"].as_array().expect("codes");
        let amplified = codes.iter().any(|code| code == "amplification");
        assert_eq!(amplified, case["gateway"] == "nginx-asks", "{}: {codes:?}", case["gateway"]);
    }
}

//! `hoptax load --targets FILE`: a mix from a file, checked by the requests that the real nginx receives.
//! Also error messages for wrong files.

use crate::load::{Upstream, case, loaded};
use crate::requests::{Nginx, REQUESTS};
use crate::support::refusals::{refusals, refused};
use crate::support::{Scratch, hoptax};
use serde_json::json;
use std::collections::BTreeMap;

const MIX: &str = r#"
- name: order
  weight: 1
  method: POST
  path: "/orders/{{seq}}"
  headers: { authorization: "Bearer {{line tokens.txt}}" }
  body: { text: '{"id":"{{uuid}}"}' }
- name: item
  weight: 8
  path: "/items/{{random 1 3}}"
  expect: { body: { contains: /items/ } }
- { name: gone, path: /gone, expect: { status: 410 } }
"#;

#[test]
fn nginx_sees_the_mix_of_a_file() {
    needs!("nginx");
    let nginx = Nginx::start();
    let scratch = Scratch::new();
    scratch.file("tokens.txt", "red\nblue\n");
    let file = scratch.file("mix.yaml", MIX).display().to_string();
    let count = REQUESTS.to_string();
    let (socket, header) = (nginx.socket(), ["-H", "authorization: typed"]);
    let base = ["http://shop.test", "--targets", &file, "--unix", &socket, "-n", &count, "-c", "3"];
    let case = case(&[&base[..], &header].concat());
    assert_eq!(case["counts"]["ok"], REQUESTS, "{}", case["counts"]);

    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for line in nginx.seen() {
        let [method, uri, authorization, length] = line.as_slice() else { panic!("{line:?}") };
        let name = match (method.as_str(), uri.as_str()) {
            ("POST", uri) if uri.starts_with("/orders/") => "order",
            ("GET", "/items/1" | "/items/2" | "/items/3") => "item",
            ("GET", "/gone") => "gone",
            other => panic!("{other:?}"),
        };
        *seen.entry(name).or_default() += 1;
        if name == "order" {
            assert!(["Bearer red", "Bearer blue"].contains(&authorization.as_str()), "its own: {line:?}");
            assert_eq!(length, "45", "of the braces, the name and a UUID");
        } else {
            assert_eq!(authorization, "typed", "it has no own value: {line:?}");
        }
    }
    for target in case["targets"].as_array().expect("one by one") {
        assert_eq!(
            target["counts"]["completed"].as_u64().or(target["completed"].as_u64()),
            seen.get(target["name"].as_str().expect("a name")).copied(),
            "{target}"
        );
    }
    assert!((700..900).contains(&seen["item"]), "{seen:?}: eight in ten");
}

#[test]
fn json_works_too_and_one_target_needs_no_list() {
    let upstream = Upstream::start(&["--body", "64B"]);
    let scratch = Scratch::new();
    let mix = json!([{"path": "/a", "weight": 3}, {"path": "/b", "method": "PUT", "body": "1KiB"}]);
    let pretty = serde_json::to_string_pretty(&mix).expect("plain data");
    for (text, rows) in [
        (mix.to_string(), &["GET /a", "PUT /b"][..]),
        (pretty.replace("  ", "\t"), &["GET /a", "PUT /b"]),
        ("path: /only\n".to_owned(), &[]),
    ] {
        let file = scratch.file("targets.json", &text).display().to_string();
        let reported = loaded(&[&upstream.url(), "--targets", &file, "-n", "100"]);
        assert!(reported.contains("200: 100"), "{reported}");
        assert!(rows.iter().all(|row| reported.lines().any(|line| line.starts_with(row))), "{reported}");
    }
}

#[test]
fn the_example_on_the_reference_page_can_be_loaded() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/requests.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let example = page.split("```yaml").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let scratch = Scratch::new();
    scratch.file("tokens.txt", "red\n");
    let file = scratch.file("shop.yaml", example);
    let read = hoptax_plan::load_targets(&file).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read.targets.iter().map(|target| target.weight).collect::<Vec<_>>(), [1, 9]);
}

#[test]
fn wrong_files_are_reported_with_place_and_fix() {
    let scratch = Scratch::new();
    let many: String = (0..257).map(|index| format!("- path: /{index}\n")).collect();
    let errors = [
        "- path: /a\n  metod: POST\n",
        "- path: /a/{{sek}}\n",
        "- path: a\n",
        "- path: \"/{{line no.txt}}\"\n",
        "- path: /a\n  expect: { status: 2000 }\n",
        "- path: /a\n- path: /a\n",
        "targets:\n- path: /a\n",
        "",
        "[]",
        "[\n\t{\"path\": \"/a\"\n\t{\"path\": \"/b\"}]",
        many.as_str(),
    ]
    .map(|text| {
        let file = scratch.file("t.yaml", text);
        refused(hoptax().args(["load", "http://127.0.0.1:9", "--targets"]).arg(file))
    });
    insta::assert_snapshot!(errors.concat().replace(&scratch.path().display().to_string(), "PLACE"));
}

#[test]
fn options_that_contradict_the_file_are_refused() {
    let scratch = Scratch::new();
    let file = scratch.file("t.yaml", "path: /a\n").display().to_string();
    let lines = [
        &["http://127.0.0.1:9", "-X", "PUT"][..],
        &["http://127.0.0.1:9", "--expect-status", "200"],
        &["http://127.0.0.1:9/x"],
        &["http://127.0.0.1:9", "-H", "x"],
        &["http://127.0.0.1:9", "-H", "x: {{sek}}"],
    ];
    let errors = refusals(&["load", "--targets", &file], &lines);
    insta::assert_snapshot!(errors.replace(&scratch.path().display().to_string(), "PLACE"));
    insta::assert_snapshot!(refusals(&["load"], &[&["http://127.0.0.1:9", "--targets", "/nowhere/t.yaml"]]));
}

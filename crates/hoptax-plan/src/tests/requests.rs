//! Tests of targets, templates, expectations and connections, and of wrong values for these.

use super::*;
use hoptax_format::spec::{Check, Chunked};
use std::net::IpAddr;
use std::time::Duration;

const LOAD: &str = "gateways: []\nload: [{ loop: closed, connections: 1 }]\n";

fn with(head: &str) -> String {
    format!("{head}{LOAD}")
}

/// Parses a plan in a new directory with these files.
fn beside(files: &[(&str, &str)], text: &str) -> Result<Plan, PlanErrors> {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, content) in files {
        std::fs::write(directory.path().join(name), content).expect("written");
    }
    let context = Context { directory: directory.path().to_owned(), ..context() };
    parse("plans/x.yaml", text, &[], &context)
}

/// Lists the errors. Each error is on its own line: the line number, the marked text, and `message; help`.
fn shown(outcome: Result<Plan, PlanErrors>) -> String {
    let PlanErrors(errors) = outcome.expect_err("must be refused");
    let one = |error: &PlanError| {
        let marked = error.excerpt.chars().skip(error.column as usize - 1).take(error.span as usize);
        format!("{} [{}] {}; {}", error.line, marked.collect::<String>(), error.message, error.help)
    };
    errors.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_list_of_targets_is_a_mix() {
    let plan = good(&with(
        r#"target:
  - { name: read, weight: 7, path: "/items/{{random 1 100}}" }
  - method: POST
    path: /items
    headers: { x-id: "{{uuid}}", x-many: [a, 1] }
    body: { text: '{"n": {{seq}}}' }
    expect: { status: [200, 4xx, 502-504], body: { contains: [a, b] }, headers: { etag: any, x: 1 } }
  - { method: PUT, path: /raw, body: { text: "{{ as it is }}", template: false } }
"#,
    ));
    let [read, write, raw] = plan.targets.as_slice() else { panic!("three") };
    assert_eq!((read.name.as_str(), read.weight, write.weight), ("read", 7, 1));
    assert_eq!((write.name.as_str(), raw.name.as_str()), ("POST /items", "PUT /raw"));
    assert_eq!([read, write, raw].map(|target| target.body_is_template), [false, true, false]);
    assert_eq!(write.headers[1..], [("x-many".into(), "a".into()), ("x-many".into(), "1".into())]);
    let header = |name: &str, value: Option<&str>| Check::Header {
        name: name.into(),
        value: value.map(str::to_owned),
    };
    assert_eq!(
        write.checks,
        [
            Check::Status(vec![(200, 200), (400, 499), (502, 504)]),
            header("etag", None),
            header("x", Some("1")),
            Check::BodyContains("a".into()),
            Check::BodyContains("b".into()),
        ]
    );
}

#[test]
fn a_list_of_one_and_a_single_target_are_the_same() {
    let one = good(&with("target: { path: /a }\n"));
    assert_eq!(one.targets, good(&with("target: [{ path: /a }]\n")).targets);
    assert_eq!(one.targets, [Target::get("/a")]);
}

#[test]
fn bodies_and_lengths() {
    let body =
        |body: &str| good(&with(&format!("target: {{ method: POST, body: {body} }}\n"))).targets[0].clone();
    assert_eq!(body("64KiB").body, Some(Body::Size(65_536)));
    assert!(!body("{ text: plain }").body_is_template, "there is nothing to expand");
    assert!(body("{ text: '\\{{' }").body_is_template, "the escape must be removed");
    let length = |expect: &str| {
        good(&with(&format!("target: {{ expect: {{ body: {{ length: {expect} }} }} }}\n"))).targets[0].checks
            [0]
        .clone()
    };
    assert_eq!(length("1KiB"), Check::BodyLength { least: 1024, most: 1024 });
    assert_eq!(length("{ least: 1B }"), Check::BodyLength { least: 1, most: u64::MAX });
    assert_eq!(length("{ least: 1B, most: 2B }"), Check::BodyLength { least: 1, most: 2 });
}

#[test]
fn bodies_in_chunks() {
    let post = |body: &str| format!("target: {{ method: POST, body: {{ {body} }} }}\n");
    let chunked = |body: &str| good(&with(&post(body))).targets[0].chunked;
    let some = |chunk_bytes, pause_ns| Some(Chunked { chunk_bytes, pause_ns });
    assert_eq!(chunked("size: 64KiB, chunked: true"), some(16_384, 0));
    assert_eq!(chunked("size: 64KiB, chunked: false"), None);
    assert_eq!(chunked("size: 64KiB"), None);
    assert_eq!(chunked("text: '{{seq}}', chunked: { chunk_size: 4B, pause: 2ms }"), some(4, 2_000_000));
    assert_eq!(chunked("size: 16KiB, chunked: { pause: 1h }"), some(16_384, 3_600_000_000_000), "one chunk");
    let many = "load: [{ loop: closed, connections: 1, http: [1.1, 1.0] }]\ngateways: []\n";
    let old = parsed(&format!("{}{many}", post("size: 1B, chunked: true")), &[]);
    let texts = "size: 1B, chunked: {}|size: 1B, chunked: yes|size: 1B, chunked: { chunk_size: 0B }|\
                 size: 1B, chunked: { size: 1B }|size: 1GiB, chunked: { chunk_size: 1B }|\
                 size: 64KiB, chunked: { pause: 1s }";
    let texts: Vec<&str> = texts.split('|').collect();
    let told = refusals(&texts, |body| shown(parsed(&with(&post(body)), &[])));
    insta::assert_snapshot!(told);
    let open = "load: [{ loop: open, rate: 100/s, connections: 1, duration: 10s }]\ngateways: []\n";
    let slow = format!("{}{open}", post("size: 48KiB, chunked: { pause: 10ms }"));
    let told = refusals(&["content-length: 1", "transfer-encoding: chunked"], |header| {
        shown(parsed(
            &with(&format!(
                "target: {{ method: PUT, headers: {{ {header} }}, body: {{ size: 1B, chunked: true }} }}\n"
            )),
            &[],
        ))
    });
    insta::assert_snapshot!(told);
    insta::assert_snapshot!(format!("{}\n{}", shown(old), shown(parsed(&slow, &[]))));
}

#[test]
fn files_are_found_beside_the_plan() {
    let plan = beside(
        &[("ids.txt", "1\n2\n"), ("body.json", "{{line ids.txt}} {{seq}}")],
        &with(
            "target: [{ path: \"/{{line ids.txt}}\" }, { path: /b, method: POST, body: { file: body.json, \
             template: true } }, { path: /c, method: POST, body: { file: body.json } }]\n",
        ),
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.files.keys().collect::<Vec<_>>(), ["ids.txt"]);
    assert_eq!(plan.files["ids.txt"].file_name().expect("a name"), "ids.txt");
    let templates: Vec<bool> = plan.targets.iter().map(|target| target.body_is_template).collect();
    assert_eq!(templates, [false, true, false], "a file is a template only with `template: true`");
}

#[test]
fn errors_in_templates_have_places() {
    let told = refusals(
        &[
            "target: { path: \"/a/{{sec}}\" }\n",
            "target:\n  path: /a/{{sec}}\n",
            "target: { body: { text: {{seq}} } }\n",
            "target: { path: \"/{{seq}}/{{ sec }}\" }\n",
            "target: { path: \"/{{seq\" }\n",
            "target: { headers: { x: \"\\\"{{sec}}\" } }\n",
            "target: { headers: { x: '{{}}' } }\n",
            "target: { headers: { x: '{{random 5}}' } }\n",
            "target:\n  method: POST\n  body:\n    text: |\n      first {{seq}}\n      second {{seq}} \
            {{uid}}\n",
            "target: { body: { text: '{{line no.txt}}' } }\n",
            "target: { body: { size: 5B, template: true } }\n",
            "target: { path: \"/{{seq}} x\" }\n",
            "target: { path: \"/é{{seq}}\" }\n",
        ],
        |head| shown(parsed(&with(head), &[])),
    );
    insta::assert_snapshot!(told);
    let PlanErrors(errors) = parsed(LOAD, &["target={ path: \"/{{sec}}\" }"]).expect_err("refused");
    assert_eq!((errors[0].line, errors[0].column, errors[0].span), (0, 20, 3), "{errors:?}");
    let outcome = beside(
        &[("body.json", "{}\n{{random 9 1}}")],
        &with("target: { method: POST, body: { file: body.json, template: true } }\n"),
    );
    let shown = shown(outcome);
    // The text names a directory of this test.
    assert!(shown.starts_with("1 [body.json] ") && shown.contains("body.json:2:3: 9 "), "{shown}");
}

#[test]
fn lines_of_files_are_checked_before_the_run() {
    let files = [("ids.txt", "one\ntwo words\n"), ("none.txt", "\n\n")];
    let outcome = beside(&files, &with("target: { path: \"/{{line ids.txt}}\" }\n"));
    let said = shown(outcome);
    insta::assert_snapshot!(said);
    let said = shown(beside(&files, &with("target: { path: \"/{{line none.txt}}\" }\n")));
    insta::assert_snapshot!(said);
    let outcome = beside(&files, &with("target: { method: POST, body: { text: '{{line ids.txt}}' } }\n"));
    outcome.unwrap_or_else(|errors| panic!("a body takes any line: {errors}"));
}

#[test]
fn a_secret_header_value_is_in_a_file_and_not_in_the_plan() {
    let files = [("token.txt", "abc.def\r\n"), ("two.txt", "a\nb\n"), ("none.txt", "\n")];
    let read = |value: &str| {
        let target = format!("target: {{ headers: {{ x-a: [1, 2], authorization: {value} }} }}\n");
        beside(&files, &with(&target))
    };
    let plan = read("{ file: token.txt, prefix: 'Bearer ' }").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.targets[0].headers[2].1, "Bearer {{line token.txt}}");
    assert!(plan.secrets.len() == 1 && plan.secrets[0].ends_with("token.txt"), "{:?}", plan.secrets);
    assert!(!format!("{plan:?}").contains("abc.def"));
    let plan = read("[plain, { file: token.txt }]").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.targets[0].headers[3].1, "{{line token.txt}}");
    for (value, expected) in [
        ("{ file: none.txt }", "none.txt has 0 lines of text instead of one;"),
        ("{ file: two.txt }", "two.txt has 2 lines of text instead of one;"),
        ("{ file: missing.txt }", "missing.txt: "),
        ("{ file: 'a{b' }", "`a{b` cannot be used for a header"),
        ("{ prefix: a }", "missing key `file`"),
    ] {
        let said = shown(read(value));
        assert!(said.contains(expected), "{value}: {said}");
    }
}

#[test]
fn errors_in_targets_and_expectations() {
    let told = refusals(
        &[
            "target: []\n",
            "target: { weigth: 2 }\n",
            "target: { weight: 0 }\n",
            "target: { name: \" a\" }\n",
            "target: [{ path: / }, {}]\n",
            "target: [{ name: a }, { name: a }]\n",
            "target: { expect: { status: 99 } }\n",
            "target: { expect: { status: [201, 4xx] } }\n",
            "target: { expect: { body: {} } }\n",
            "target: { expect: { body: { contains: \"\" } } }\n",
            "target: { expect: { body: { equals: a, contains: b } } }\n",
            "target: { expect: { body: { length: 5 } } }\n",
            "target: { expect: { body: { length: { least: 2B, most: 1B } } } }\n",
            "target: { expect: { body: { length: {} } } }\n",
            "target: { expect: { headers: { \"a b\": any } } }\n",
            "target: { expect: { ignore_headers: [age, \"age: 1\"] } }\n",
            "target: { method: HEAD, expect: { body: { equals: a } } }\n",
            "target: { expect: { stauts: 200 } }\n",
            "upstream: { body: { text: a, template: true } }\n",
        ],
        |head| shown(parsed(&with(head), &[])),
    );
    insta::assert_snapshot!(told);
    good(&with("upstream: { failures: 100% }\ntarget: { expect: { status: 500 } }\n"));
}

#[test]
fn one_timeout_or_three() {
    let timeout = |typed: &str| good(&with(&format!("timeout: {typed}\n"))).timeout;
    let ms = Duration::from_millis;
    assert_eq!(timeout("250ms"), Timeouts::all(ms(250)));
    assert_eq!(
        timeout("{ connect: 5ms, total: 1s }"),
        Timeouts { connect: ms(5), first_byte: ms(1000), total: ms(1000) }
    );
    assert_eq!(
        timeout("{ first_byte: 5ms }"),
        Timeouts { connect: ms(3000), first_byte: ms(5), total: ms(3000) }
    );
    let told = refusals(
        &["{}", "{ connect: 0s }", "{ first_byte: 2s, total: 1s }", "{ frist_byte: 2s }"],
        |typed| shown(parsed(&with(&format!("timeout: {typed}\n")), &[])),
    );
    insta::assert_snapshot!(told);
    let slow = "upstream: { delay: 100ms }\ntimeout: { first_byte: 100ms }\n";
    let shown = shown(parsed(&with(slow), &[]));
    insta::assert_snapshot!(shown);
}

#[test]
fn source_addresses() {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let plan = good(&with("sources: [127.0.0.2, 127.0.0.3]\n"));
    assert_eq!(plan.sources, [address("127.0.0.2"), address("127.0.0.3")]);
    let external = "upstream: { url: \"http://[::1]:1\" }\nsources: [\"::1\"]\n";
    assert_eq!(good(&with(external)).sources, [address("::1")]);
    let told = refusals(
        &["[127.0.0.x]", "[0.0.0.0]", "[127.0.0.2, 127.0.0.2]", "[\"::1\"]", "127.0.0.2"],
        |typed| shown(parsed(&with(&format!("sources: {typed}\n")), &[])),
    );
    insta::assert_snapshot!(told);
}
